"""The virtual host: its destinations, subscriptions, admission of messages, and policy."""

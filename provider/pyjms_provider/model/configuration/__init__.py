"""Configuration stores, which hold the durable part of the tree (Broker-J, "Configuration Persistence")."""

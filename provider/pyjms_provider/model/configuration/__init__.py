"""Configuration stores: what keeps the durable part of the tree (Broker-J, "Configuration Persistence")."""

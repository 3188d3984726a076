"""The REST API: addresses of the tree as URLs, plain data as JSON (Broker-J, web management)."""

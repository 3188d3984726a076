"""The web console: a page for operators that reaches the broker through the REST API alone (Broker-J, web management)."""

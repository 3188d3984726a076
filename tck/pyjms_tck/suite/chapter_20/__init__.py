"""JMS 2.0: what it asks for beyond JMS 1.1."""

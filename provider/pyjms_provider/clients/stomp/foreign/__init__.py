"""The driver for other brokers that speak STOMP: their dialects, and the parts of JMS that they lack."""

"""The driver for other brokers that speak STOMP: their dialects, and what JMS asks that they lack."""

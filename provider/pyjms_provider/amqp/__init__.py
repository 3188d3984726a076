"""The types and the messages of AMQP 1.0, which stores, clients and the broker share; the protocol is in `protocols.amqp`."""

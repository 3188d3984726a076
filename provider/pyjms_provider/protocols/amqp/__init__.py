"""AMQP 1.0 without I/O: types, frames, SASL, and the machines of connections, sessions and links, for clients and for the broker.

The references "part n" are to the OASIS standard AMQP 1.0 of 29 October 2012: part 1 types, part 2 transport, part 3 messaging,
part 4 transactions, part 5 security.
"""

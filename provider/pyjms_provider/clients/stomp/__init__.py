"""The provider of ``stomp://``, ``stomps://`` and ``stomp+ws://``: JMS on brokers that speak STOMP 1.2.

`sockets` has stomp.py open a socket; `transport` exchanges frames over it; `physical_connection` awaits receipts there; `failover` makes a lost
connection anew. The other modules are the JMS side: sessions, subscriptions and transactions of foreign brokers here, those of the pyjms
broker in `native`. The dialect of a broker says what it does in its own way.
"""

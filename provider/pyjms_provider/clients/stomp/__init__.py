"""The provider of ``stomp://``, ``stomps://`` and ``stomp+ws://``: JMS on brokers that speak STOMP 1.2.

`sockets` has stomp.py open a socket; `transport` exchanges frames over it; `physical_connection` awaits receipts there; `failover` replaces
a lost connection. Sessions, subscriptions and transactions are in `foreign` for other brokers and in `native` for the pyjms broker. A
dialect says in what a broker differs from others.
"""

"""The provider of ``stomp://``, ``stomps://`` and ``stomp+ws://``: JMS on brokers that speak STOMP 1.2.

`connecting` has stomp.py make a connection; `wire` holds one to one broker; `link` one that heals, and `linked` what all clients do with it. The other
modules are the JMS side: sessions, subscriptions, transactions, of plain brokers here and of the pyjms broker in `profiled`. What brokers differ in is
said by their dialect.
"""

"""The provider of ``stomp://``, ``stomps://`` and ``stomp+ws://``: JMS on brokers that speak STOMP 1.2.

`connecting` has stomp.py make a connection; `wire` holds one to one broker; `link` one that heals; `linked` is what a client of any broker has on it; the other modules are the JMS side: sessions,
subscriptions, transactions. What brokers differ in is in `brokers`.
"""

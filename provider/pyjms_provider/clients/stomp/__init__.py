"""The provider of ``stomp://``, ``stomps://`` and ``stomp+ws://``: JMS on brokers that speak STOMP 1.2.

`wire` holds one connection to one broker, on stomp.py; `link` one that heals; the other modules are the JMS side: sessions,
subscriptions, transactions. What brokers differ in is in `brokers`.
"""

"""The provider of ``amqp://``, ``amqps://``, ``amqp+ws://`` and ``amqp+wss://``: JMS on brokers that speak AMQP 1.0.

`physical_connection` drives the engine of `protocols.amqp` over a socket; `links` asks for links and awaits what the broker says of them;
`connection`, `session` and `consumer` map JMS to them. A profile says in what a broker differs from others.
"""

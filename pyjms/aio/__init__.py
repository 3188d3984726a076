"""The API of JMS for asyncio: calls that may wait are awaited, and never block the event loop.

The rules are those of the other interfaces, as the same synchronous runtime is used: a session has one thread, which makes its calls
one after the other, while any number of tasks wait without a thread. Messages and destinations are those of `pyjms`.
"""

from pyjms.aio.calls import Opening
from pyjms.aio.connection import Connection, XAConnection, XAResource, XASession
from pyjms.aio.consumer import MessageConsumer, QueueBrowser
from pyjms.aio.context import JMSConsumer, JMSContext, JMSProducer, XAJMSContext
from pyjms.aio.factory import ConnectionFactory, XAConnectionFactory
from pyjms.aio.producer import MessageProducer
from pyjms.aio.session import Session

__all__ = [
    "Connection",
    "ConnectionFactory",
    "JMSConsumer",
    "JMSContext",
    "JMSProducer",
    "MessageConsumer",
    "MessageProducer",
    "Opening",
    "QueueBrowser",
    "Session",
    "XAConnection",
    "XAConnectionFactory",
    "XAJMSContext",
    "XAResource",
    "XASession",
]

"""The API of JMS 1.1 for asyncio: what may wait is awaited, and keeps no event loop waiting.

The rules are those of the other interfaces, as the same runtime is beneath: a session has one thread, which makes its calls
one after the other, while any number of tasks wait without one. Messages and destinations are those of `pyjms`.
"""

from pyjms.aio.browser import QueueBrowser
from pyjms.aio.connection import Connection
from pyjms.aio.consumer import MessageConsumer
from pyjms.aio.contexts import Opening
from pyjms.aio.factory import ConnectionFactory, XAConnectionFactory
from pyjms.aio.producer import MessageProducer
from pyjms.aio.session import Session
from pyjms.aio.xa import XAConnection, XAResource, XASession

__all__ = [
    "Connection",
    "ConnectionFactory",
    "MessageConsumer",
    "MessageProducer",
    "Opening",
    "QueueBrowser",
    "Session",
    "XAConnection",
    "XAConnectionFactory",
    "XAResource",
    "XASession",
]

"""JMS for Python, 1.1 and 2.0: the public names, each under the name that it has in ``javax.jms``.

Interfaces and errors are imported with the package; every other name is imported when it is first used.
"""

import os as _os
import typing as _typing
from importlib import import_module as _import_module

from pyjms.api.base import Enumeration, NameNotFoundException, NamingException, NoSuchElementException
from pyjms.api.connection import (
    Connection,
    ConnectionConsumer,
    ConnectionMetaData,
    ExceptionListener,
    ExceptionListenerLike,
    QueueConnection,
    ServerSession,
    ServerSessionPool,
    TopicConnection,
)
from pyjms.api.consumer import (
    MessageConsumer,
    MessageListener,
    MessageListenerLike,
    QueueBrowser,
    QueueReceiver,
    TopicSubscriber,
)
from pyjms.api.context import JMSConsumer, JMSContext, JMSProducer
from pyjms.api.destination import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from pyjms.api.message import BytesMessage, MapMessage, Message, ObjectMessage, StreamMessage, TextMessage
from pyjms.api.producer import CompletionListener, DeliveryMode, MessageProducer, QueueSender, TopicPublisher
from pyjms.api.session import AcknowledgeMode, QueueSession, Runnable, Session, TopicSession
from pyjms.api.xa import (
    XAConnection,
    XAException,
    XAJMSContext,
    XAQueueConnection,
    XAQueueSession,
    XAResource,
    XASession,
    XATopicConnection,
    XATopicSession,
    Xid,
)
from pyjms.errors import (
    IllegalArgumentException,
    IllegalStateException,
    IllegalStateRuntimeException,
    IndexOutOfBoundsException,
    InvalidClientIDException,
    InvalidClientIDRuntimeException,
    InvalidDestinationException,
    InvalidDestinationRuntimeException,
    InvalidSelectorException,
    InvalidSelectorRuntimeException,
    JMSException,
    JMSRuntimeException,
    JMSSecurityException,
    JMSSecurityRuntimeException,
    MessageEOFException,
    MessageFormatException,
    MessageFormatRuntimeException,
    MessageNotReadableException,
    MessageNotWriteableException,
    MessageNotWriteableRuntimeException,
    NullPointerException,
    NumberFormatException,
    ResourceAllocationException,
    ResourceAllocationRuntimeException,
    TransactionInProgressException,
    TransactionInProgressRuntimeException,
    TransactionRolledBackException,
    TransactionRolledBackRuntimeException,
    UnsupportedOperationException,
)

if _typing.TYPE_CHECKING:
    from pyjms.jndi import InitialContext
    from pyjms.runtime.factory import ConnectionFactory, QueueConnectionFactory, TopicConnectionFactory
    from pyjms.runtime.requestor import QueueRequestor, TopicRequestor
    from pyjms.runtime.xa import XAConnectionFactory, XAQueueConnectionFactory, XATopicConnectionFactory
    from pyjms.spi.interrupts import defer_signals

__all__ = [
    # Connections and sessions
    "AcknowledgeMode",
    "CompletionListener",
    "Connection",
    "ConnectionFactory",
    "ConnectionMetaData",
    "DeliveryMode",
    "ExceptionListener",
    "ExceptionListenerLike",
    "InitialContext",
    "MessageConsumer",
    "MessageListener",
    "MessageListenerLike",
    "MessageProducer",
    "QueueBrowser",
    "Runnable",
    "Session",
    # Contexts
    "JMSConsumer",
    "JMSContext",
    "JMSProducer",
    # Destinations
    "Destination",
    "Queue",
    "TemporaryQueue",
    "TemporaryTopic",
    "Topic",
    # Messages
    "BytesMessage",
    "Enumeration",
    "MapMessage",
    "Message",
    "ObjectMessage",
    "StreamMessage",
    "TextMessage",
    # The queue domain
    "QueueConnection",
    "QueueConnectionFactory",
    "QueueReceiver",
    "QueueRequestor",
    "QueueSender",
    "QueueSession",
    # The topic domain
    "TopicConnection",
    "TopicConnectionFactory",
    "TopicPublisher",
    "TopicRequestor",
    "TopicSession",
    "TopicSubscriber",
    # Application servers
    "ConnectionConsumer",
    "ServerSession",
    "ServerSessionPool",
    # Distributed transactions
    "XAConnection",
    "XAConnectionFactory",
    "XAException",
    "XAJMSContext",
    "XAQueueConnection",
    "XAQueueConnectionFactory",
    "XAQueueSession",
    "XAResource",
    "XASession",
    "XATopicConnection",
    "XATopicConnectionFactory",
    "XATopicSession",
    "Xid",
    # Signals
    "defer_signals",
    # Errors
    "IllegalArgumentException",
    "IllegalStateException",
    "IllegalStateRuntimeException",
    "IndexOutOfBoundsException",
    "InvalidClientIDException",
    "InvalidClientIDRuntimeException",
    "InvalidDestinationException",
    "InvalidDestinationRuntimeException",
    "InvalidSelectorException",
    "InvalidSelectorRuntimeException",
    "JMSException",
    "JMSRuntimeException",
    "JMSSecurityException",
    "JMSSecurityRuntimeException",
    "MessageEOFException",
    "MessageFormatException",
    "MessageFormatRuntimeException",
    "MessageNotReadableException",
    "MessageNotWriteableException",
    "MessageNotWriteableRuntimeException",
    "NameNotFoundException",
    "NamingException",
    "NoSuchElementException",
    "NullPointerException",
    "NumberFormatException",
    "ResourceAllocationException",
    "ResourceAllocationRuntimeException",
    "TransactionInProgressException",
    "TransactionInProgressRuntimeException",
    "TransactionRolledBackException",
    "TransactionRolledBackRuntimeException",
    "UnsupportedOperationException",
]

_LATE = {
    "ConnectionFactory": "pyjms.runtime.factory",
    "InitialContext": "pyjms.jndi",
    "QueueConnectionFactory": "pyjms.runtime.factory",
    "QueueRequestor": "pyjms.runtime.requestor",
    "TopicConnectionFactory": "pyjms.runtime.factory",
    "TopicRequestor": "pyjms.runtime.requestor",
    "XAConnectionFactory": "pyjms.runtime.xa",
    "XAQueueConnectionFactory": "pyjms.runtime.xa",
    "XATopicConnectionFactory": "pyjms.runtime.xa",
    "defer_signals": "pyjms.spi.interrupts",
}
"""Names whose modules take long to import and that programs which use only interfaces or errors never need: name ->
module.
"""


if not _typing.TYPE_CHECKING:  # otherwise a type checker would accept any name

    def __getattr__(name: str) -> object:
        if name not in _LATE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found: object = getattr(_import_module(_LATE[name]), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


if _os.environ.get("PYJMS_OTEL") == "1":
    from pyjms.telemetry import instrument_if_wanted as _instrument_if_wanted

    _instrument_if_wanted()

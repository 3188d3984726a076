"""Exceptions, and the names of the API: one name missing breaks the signature of its interface."""

from __future__ import annotations

from pyjms.errors import JMSException
from tests.tck.broken.mutation import body, edit, mutant, value

__all__ = ["MUTANTS"]

_E = "pyjms.errors:"
_A = "pyjms.api."
_R = "pyjms.runtime."


def _reader(self: object) -> None:
    """Stand for a member that takes no arguments."""


MUTANTS = (
    mutant(
        "7.1-a 11.9-a",
        "MessageEOFException is no JMSException",
        value(
            "pyjms:MessageEOFException", type("MessageEOFException", (Exception,), {"__init__": JMSException.__init__})
        ),
    ),
    mutant(
        "7.2-a 7.3-a",
        "an exception has an error code by default",
        edit(_E + "JMSException.__init__", "self._error_code = error_code", "self._error_code = error_code or 'E0'"),
    ),
    mutant(
        "7.2-b",
        "an empty error code reads as None",
        edit(_E + "JMSException.error_code", "return self._error_code", "return self._error_code or None"),
    ),
    mutant("7.2-c", "a linked exception is not stored", body(_E + "JMSException.linked_exception.fset", "pass")),
    mutant("7.3-a 7.2-a", "an exception forgets its reason", body(_E + "JMSException.message", "return None")),
    mutant(
        "7.3-b 4.4.7-d 4.4.7-e 4.4.11-c",
        "calls at the wrong time raise JMSException",
        edit(
            _R + "session:JmsSession._check_transaction",
            "raise IllegalStateException(",
            "from pyjms.errors import JMSException\n        raise JMSException(",
        ),
        edit(
            _R + "session:JmsSession.recover",
            "raise IllegalStateException(",
            "from pyjms.errors import JMSException\n        raise JMSException(",
        ),
    ),
    mutant(
        "7.3-c",
        "wrong credentials raise JMSException",
        value("pyjms.spi.errors:AccessDeniedError.jms_name", "JMSException"),
    ),
    mutant(
        "7.3-c",
        "wrong credentials are accepted",
        edit(
            "tests.tck.broken.guarded:GuardedProvider.connect", "if request.user_name", "if False and request.user_name"
        ),
    ),
    mutant(
        "7.3-e",
        "a destination that was deleted raises JMSException",
        value("pyjms.spi.errors:DestinationError.jms_name", "JMSException"),
    ),
    mutant(
        "7.3-g 3.11-s 3.11-ah",
        "the end of a body raises MessageFormatException",
        edit(
            "pyjms.messages.bodies:JmsStreamMessage._current",
            "raise MessageEOFException(",
            "raise MessageFormatException(",
        ),
        edit(
            "pyjms.messages.bodies:JmsBytesMessage._take", "raise MessageEOFException(", "raise MessageFormatException("
        ),
    ),
    mutant(
        "7.3-h",
        "a value that cannot be converted raises NumberFormatException",
        edit(
            "pyjms.messages.conversion:JavaType._read_rest",
            "raise MessageFormatException(",
            "raise NumberFormatException(",
        ),
    ),
    mutant(
        "7.3-i 3.11-t 3.11-ai",
        "reading what is written raises IllegalStateException",
        edit(
            "pyjms.messages.bodies:JmsStreamMessage._current",
            "raise MessageNotReadableException(",
            "raise MessageFormatException(",
        ),
        edit(
            "pyjms.messages.bodies:JmsBytesMessage._check_readable",
            "raise MessageNotReadableException(",
            "raise MessageFormatException(",
        ),
    ),
    # names
    mutant("11.1-a", "SESSION_TRANSACTED is 4", value(_A + "session:Session.SESSION_TRANSACTED", 4)),
    mutant(
        "11.2-a",
        "getJMSMinorVersion takes an argument",
        value(_R + "connection:JmsConnectionMetaData.getJMSMinorVersion", lambda self, which: 1),
    ),
    mutant(
        "11.2-a",
        "setClientID is another method than client_id",
        value(_R + "connection:JmsConnection.getClientID", lambda self: 7),
    ),
    mutant("11.3-a", "createTextMessage takes no text", value(_R + "session:JmsSession.createTextMessage", _reader)),
    mutant("11.4-a", "receive takes no timeout", value(_R + "consumer:JmsMessageConsumer.receive", _reader)),
    mutant(
        "11.5-a",
        "getQueueName is another method than queue_name",
        value("pyjms.messages.destinations:JmsQueue.getQueueName", lambda self: 7),
    ),
    mutant(
        "11.6-a 11.6-b",
        "setIntProperty takes no value",
        value("pyjms.messages.base:Properties.setIntProperty", _reader),
        value("pyjms.messages.base:Properties.set_int_property", _reader),
    ),
    mutant(
        "11.6-b",
        "setBytes of a MapMessage takes no part of the bytes",
        value("pyjms.messages.bodies:JmsMapMessage.set_bytes", lambda self, name, value: None),
    ),
    mutant(
        "11.6-b",
        "the key of a property is called key",
        value("pyjms.messages.base:Properties.set_string_property", lambda self, key, value: None),
    ),
    mutant(
        "11.7-a", "who writes the Java name of a method has that one only", body(_A + "names:_follow_java", "return")
    ),
    mutant(
        "11.7-b",
        "a plain function is no listener",
        edit(_R + "checks:_callback", "if callable(listener):", "if False:"),
    ),
    mutant(
        "11.8-a",
        "the argument of request is called request",
        value(_R + "requestor:QueueRequestor.request", lambda self, request: None),
    ),
    mutant(
        "11.9-a", "getErrorCode takes an argument", value(_E + "JMSException.getErrorCode", lambda self, which: None)
    ),
    mutant(
        "11.9-b",
        "NumberFormatException is a JMSException",
        value("pyjms:NumberFormatException", type("NumberFormatException", (JMSException,), {})),
    ),
    mutant(
        "11.10-a",
        "getXAResource takes an argument",
        value(_R + "xa:JmsXASession.getXAResource", lambda self, which: None),
        durable=True,
    ),
    mutant(
        "11.11-a",
        "getServerSessionPool takes an argument",
        value(_R + "server_sessions:JmsConnectionConsumer.getServerSessionPool", lambda self, which: None),
    ),
)

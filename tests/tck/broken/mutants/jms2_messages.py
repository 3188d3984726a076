"""Faults in bodies as objects, in the rules that JMS 2.0 changed, its exceptions, and its names (20.5, 20.6, 20.7, 20.14)."""

from __future__ import annotations

from pyjms.errors import IllegalStateException
from tests.tck.broken.mutation import edit, mutant, value

__all__ = ["MUTANTS"]

_BASE = "pyjms.messages.base:"


MUTANTS = (
    # 20.5 bodies as objects
    mutant(
        "20.5-a 20.5-d",
        "a body is of its very class alone",
        edit(_BASE + "_is_instance", "isinstance(value, kind)", "type(value) is kind"),
    ),
    mutant(
        "20.5-a",
        "a message without a body has an empty text",
        edit(_BASE + "JmsMessage._whole_body", "return None", "return ''"),
    ),
    mutant(
        "20.5-b 20.12-h 20.12-i 20.12-j",
        "a body is given as whatever it is",
        edit(_BASE + "JmsMessage.get_body", "body is not None and not", "body is None and"),
    ),
    mutant(
        "20.5-b",
        "a StreamMessage has a body of None",
        edit("pyjms.messages.bodies:JmsStreamMessage._whole_body", "raise ", "return None and "),
    ),
    mutant(
        "20.5-c",
        "an object that cannot be made is None",
        edit(
            "pyjms.messages.bodies:JmsObjectMessage.object",
            'raise MessageFormatException(f"the object cannot be decoded: {reason_of(error)}") from error',
            "return None",
        ),
    ),
    mutant(
        "20.5-d",
        "no body is of no type",
        edit(_BASE + "JmsMessage.is_body_assignable_to", "body is None or", "body is not None and"),
    ),
    mutant(
        "20.5-d",
        "a StreamMessage has a body of each type",
        edit(_BASE + "JmsMessage.is_body_assignable_to", "return False", "return True"),
    ),
    # 20.6 changed rules
    mutant(
        "20.6-a",
        "each delivery counts as the first",
        edit("pyjms.messages.freeze:thaw", "= delivery.count", "= 1"),
    ),
    mutant(
        "20.6-a",
        "the first delivery has no count",
        edit("pyjms.messages.freeze:thaw", "= delivery.count", "= delivery.count if delivery.redelivered else 0"),
    ),
    mutant(
        "20.6-b",
        "a listener that ends its connection gets any JMSException",
        edit(
            "pyjms.runtime.connection:JmsConnection._refuse_in_listener",
            "raise IllegalStateException",
            "raise JMSException",
        ),
    ),
    mutant(
        "20.6-b 20.8-p",
        "a listener's stop of its connection has no effect",
        edit(
            "pyjms.runtime.connection:JmsConnection._refuse_in_listener",
            "raise IllegalStateException",
            'if what == "stop": return\n        raise IllegalStateException',
        ),
        edit(
            "pyjms.runtime.connection:JmsConnection.stop",
            "self._use()",
            "self._use()\n    if any(each.gate.runs_listener_here() for each in list(self._sessions)): return",
        ),
    ),
    mutant(
        "20.6-c",
        "a listener's close of its session has no effect",
        edit("pyjms.runtime.session:JmsSession.close", "raise IllegalStateException(", "return str("),
    ),
    # 20.7 exceptions
    mutant(
        "20.7-a",
        "a JMSRuntimeException loses its error code",
        edit("pyjms.errors:JMSRuntimeException.__init__", "self._error_code = error_code", "pass"),
    ),
    mutant(
        "20.7-a",
        "a JMSRuntimeException loses its cause",
        edit("pyjms.errors:JMSRuntimeException.__init__", "self.__cause__ = cause", "pass"),
    ),
    mutant(
        "20.7-b",
        "an exception of the simplified API is a JMSException",
        value("pyjms:IllegalStateRuntimeException", IllegalStateException),
    ),
    # 20.14 names
    mutant(
        "20.14-a",
        "a session has no shared consumers",
        value("pyjms.runtime.session:JmsSession.create_shared_consumer", None),
        durable=True,  # the types of XA are compared, too
    ),
    mutant(
        "20.14-a",
        "a consumer of a context knows no receive_body_no_wait",
        value("pyjms.runtime.context_consumer:JmsConsumer.receive_body_no_wait", None),
        durable=True,
    ),
    mutant(
        "20.14-a", "an XA context has no context", value("pyjms.runtime.xa:JmsXAContext.context", None), durable=True
    ),
)

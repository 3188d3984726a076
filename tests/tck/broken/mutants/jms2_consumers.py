"""Faults in the consumers of contexts (20.10, 20.12)."""

from __future__ import annotations

from pyjms.errors import MessageFormatException
from tests.tck.broken.mutation import edit, entry, mutant

__all__ = ["MUTANTS"]

_CONTEXT = "pyjms.runtime.context:JmsContext."
_CONSUMER = "pyjms.runtime.context_consumer:JmsConsumer."
_S = "pyjms.runtime.session:JmsSession."


MUTANTS = (
    # 20.10 consumers on destinations and subscriptions
    mutant(
        "20.10-a",
        "a consumer of a context lets nothing through",
        edit(_CONTEXT + "create_consumer", "(destination, message_selector", "(destination, 'FALSE'"),
    ),
    mutant(
        "20.10-b 20.10-d",
        "a consumer of a context ignores its selector",
        edit(_CONTEXT + "create_consumer", "(destination, message_selector", "(destination, None"),
    ),
    mutant(
        "20.10-c",
        "a consumer of a context ignores no_local",
        edit(_CONTEXT + "create_consumer", "message_selector, no_local)", "message_selector, False)"),
    ),
    mutant(
        "20.10-c",
        "a consumer of a context leaves out what its connection sends",
        edit(_CONTEXT + "create_consumer", "message_selector, no_local)", "message_selector, True)"),
    ),
    mutant(
        "20.10-e 20.10-f 20.10-g",
        "a durable consumer of a context is a consumer of a topic",
        edit(
            _CONTEXT + "create_durable_consumer",
            "create_durable_consumer(topic, name, message_selector, no_local)",
            "create_consumer(topic, message_selector, no_local)",
        ),
    ),
    mutant(
        "20.10-e 20.10-h",
        "a durable consumer of a context ignores its selector",
        edit(_CONTEXT + "create_durable_consumer", "(topic, name, message_selector", "(topic, name, None"),
    ),
    mutant(
        "20.10-i 20.10-j",
        "a shared consumer of a context is a consumer of a topic",
        edit(
            _CONTEXT + "create_shared_consumer",
            "create_shared_consumer(topic, shared_subscription_name, message_selector)",
            "create_consumer(topic, message_selector)",
        ),
    ),
    mutant(
        "20.10-l 20.10-m",
        "a shared durable consumer of a context is a consumer of a topic",
        edit(
            _CONTEXT + "create_shared_durable_consumer",
            "create_shared_durable_consumer(topic, name, message_selector)",
            "create_consumer(topic, message_selector)",
        ),
    ),
    # 20.12 receiving
    mutant(
        "20.12-a",
        "a consumer of a context loses what it receives",
        edit(_CONSUMER + "receive", "self.consumer.receive(timeout)", "self.consumer.receive(timeout) and None"),
    ),
    mutant(
        "20.12-b",
        "a consumer of a context loses what it receives without a wait",
        edit(
            _CONSUMER + "receive_no_wait", "self.consumer.receive_no_wait()", "self.consumer.receive_no_wait() and None"
        ),
    ),
    mutant(
        "20.12-c",
        "a consumer of a context without a selector has an empty one",
        edit(_CONSUMER + "message_selector", "self.consumer.message_selector", "self.consumer.message_selector or ''"),
    ),
    mutant(
        "20.12-d",
        "a listener of a context is called by another one",
        edit(
            _CONSUMER + "message_listener.fset",
            "self.consumer.message_listener = listener",
            "self.consumer.message_listener = lambda message: listener(message)",
        ),
    ),
    mutant(
        "20.12-e", "a consumer of a context is not closed", edit(_CONSUMER + "close", "self.consumer.close()", "pass")
    ),
    mutant(
        "20.12-f 20.12-g",
        "receive_body returns the message",
        edit(_CONSUMER + "_body", "else reader.body", "else received"),
    ),
    mutant(
        "20.12-g",
        "receive_body_no_wait sees no message",
        edit(_CONSUMER + "receive_body_no_wait", "self.consumer.receive_no_wait", "lambda: None"),
    ),
    mutant(
        "20.12-h",
        "receive_body of a message without a body is None",
        edit("pyjms.runtime.context_consumer:BodyReader.read", "if body is None", "if self is None"),
    ),
    mutant(
        "20.12-h 20.12-i 20.12-j 20.11-h 20.11-m 20.11-o",
        "a wrong format is any JMSRuntimeException",
        entry("pyjms.runtime.error_mapping:_RUNTIME", MessageFormatException),
    ),
    mutant(
        "20.12-i",
        "a message whose body was refused is settled",
        edit(_S + "_read_body", "if self.settles_by_itself", "if self is None"),
    ),
    mutant(
        "20.12-j",
        "a message whose body was refused comes again at once in each mode",
        edit(_S + "_read_body", "if self.settles_by_itself", "if self"),
    ),
    mutant(
        "20.12-k",
        "a consumer of a context with a listener may be asked",
        edit(
            _CONSUMER + "receive",
            "self.consumer.receive(timeout)",
            "None if self.message_listener else self.consumer.receive(timeout)",
        ),
    ),
)

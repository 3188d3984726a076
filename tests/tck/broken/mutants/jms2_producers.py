"""Faults in the producers of contexts (20.11)."""

from __future__ import annotations

from pyjms.errors import MessageNotWriteableException
from tests.tck.broken.mutation import edit, entry, mutant

__all__ = ["MUTANTS"]

_MODULE = "pyjms.runtime.context_producer:"
_SETTINGS = _MODULE + "ProducerSettings."
_CONTEXT = "pyjms.runtime.context:JmsContext."


MUTANTS = (
    mutant(
        "20.11-a",
        "the producers of a context share their properties",
        edit(
            _SETTINGS + "__init__",
            "self._settings = JmsMessage()",
            "self._settings = vars(context).setdefault('settings', JmsMessage())",
        ),
    ),
    mutant(
        "20.11-a",
        "the producers of a context begin with the latest options",
        edit(
            _SETTINGS + "__init__",
            "self._options = DEFAULT_OPTIONS",
            "self._options = vars(context).get('latest', DEFAULT_OPTIONS)",
        ),
        edit(_SETTINGS + "_set", "return self", "vars(self.context)['latest'] = self._options\n    return self"),
    ),
    mutant(
        "20.11-b",
        "the send of a context returns nothing",
        edit(_MODULE + "JmsProducer.send", "return self", "return None"),
    ),
    mutant(
        "20.11-c",
        "a text is sent as an ObjectMessage",
        edit(_MODULE + "_message_of", "return JmsTextMessage(body)", "return JmsObjectMessage(body)"),
    ),
    mutant(
        "20.11-d",
        "a mapping is sent as an ObjectMessage",
        edit(_MODULE + "_message_of", "return _map_of(body)", "return JmsObjectMessage(body)"),
    ),
    mutant(
        "20.11-e",
        "bytes are sent as an ObjectMessage",
        edit(_MODULE + "_message_of", "(bytes, bytearray, memoryview)", "(bytearray, memoryview)"),
    ),
    mutant(
        "20.11-f",
        "an object is sent as its text",
        edit(_MODULE + "_message_of", "of_object.object = body", "of_object.object = str(body)"),
    ),
    mutant(
        "20.11-h",
        "entries of a mapping that no MapMessage takes are left out",
        edit(
            _MODULE + "_map_of",
            "message.set_object(name, value)",
            "type(value) in (object, list) or message.set_object(name, value)",
        ),
    ),
    mutant(
        "20.11-h",
        "an object that cannot be serialized is sent as its text",
        edit(
            _MODULE + "_message_of",
            "of_object.object = body",
            "of_object.object = str(body) if callable(body) else body",
        ),
    ),
    mutant(
        "20.11-i",
        "a message that is read-only is any JMSRuntimeException",
        entry("pyjms.runtime.error_mapping:_RUNTIME", MessageNotWriteableException),
    ),
    mutant(
        "20.11-i",
        "the properties of a received message are cleared for those of the producer",
        edit(
            _SETTINGS + "_apply_to",
            "if self._has_properties:",
            "if self._has_properties:\n        message.clear_properties()",
        ),
    ),
    mutant(
        "20.11-g 20.11-h 20.11-i 20.11-j",
        "the send of a context raises the exceptions of the classic API",
        edit(_MODULE + "JmsProducer.send", "raise to_runtime(error) from error", "raise"),
    ),
    mutant(
        "20.11-k",
        "a message's own properties are stronger than those of its producer",
        edit(
            _SETTINGS + "_apply_to",
            "message.set_object_property(",
            "message.property_exists(name) or message.set_object_property(",
        ),
    ),
    mutant(
        "20.11-k",
        "the properties of a producer are set on one message",
        edit(
            _SETTINGS + "_apply_to",
            "if settings.jms_type is not None:",
            "self._has_properties = False\n    if settings.jms_type is not None:",
        ),
    ),
    mutant(
        "20.11-l",
        "a property without a name is ignored",
        edit(_SETTINGS + "set_property", "self._checked()", "not name or self._checked()"),
    ),
    mutant(
        "20.11-m",
        "any object becomes a property by its text",
        edit(
            _SETTINGS + "set_property",
            "set_object_property(name, value)",
            "set_object_property(name, str(value) if type(value) is object else value)",
        ),
    ),
    mutant(
        "20.11-n",
        "a producer converts no texts to numbers",
        edit(_SETTINGS + "get_int_property", ".get_int_property(name)", ".get_object_property(name)"),
    ),
    mutant(
        "20.11-o",
        "what is no number is 0 to a producer",
        edit(
            _SETTINGS + "get_long_property",
            "return ",
            "if self._checked().get_object_property(name) == 'no number': return Long(0)\n        return ",
        ),
    ),
    mutant(
        "20.11-p",
        "a producer keeps its properties",
        edit(_SETTINGS + "clear_properties", "self._checked().clear_properties()", "pass"),
    ),
    mutant(
        "20.11-p",
        "a producer names no properties",
        edit(_MODULE + "PropertyNames.__iter__", "return self._message.property_names", "return iter(())"),
    ),
    mutant(
        "20.11-q",
        "the JMSType of a producer is not set on its messages",
        edit(_SETTINGS + "_apply_to", "message.jms_type = settings.jms_type", "pass"),
    ),
    mutant(
        "20.11-q",
        "the JMSReplyTo of a producer is not set on its messages",
        edit(_SETTINGS + "_apply_to", "message.jms_reply_to = settings.jms_reply_to", "pass"),
    ),
    mutant(
        "20.11-q",
        "a producer returns nothing when its correlation identifier is set",
        edit(_SETTINGS + "set_jms_correlation_id", "return self", "return None"),
    ),
    mutant(
        "20.11-r",
        "a correlation identifier of bytes is not set on messages",
        edit(
            _SETTINGS + "_apply_to",
            "message.jms_correlation_id_as_bytes = settings.jms_correlation_id_as_bytes",
            "pass",
        ),
    ),
    mutant(
        "20.11-s 20.11-y",
        "a producer's priority is not used",
        edit(_CONTEXT + "send", "sender.priority = options.priority", "pass"),
    ),
    mutant(
        "20.11-s",
        "a producer's time to live is not used",
        edit(_CONTEXT + "send", "sender.time_to_live = options.time_to_live", "pass"),
    ),
    mutant(
        "20.11-t",
        "a producer takes any priority",
        edit(_SETTINGS + "set_priority", "check_priority(priority)", "priority"),
    ),
    mutant(
        "20.11-t",
        "a producer takes any delivery mode for a persistent one",
        edit(_SETTINGS + "set_delivery_mode", "check_delivery_mode(delivery_mode)", "1 if delivery_mode == 1 else 2"),
    ),
    mutant(
        "20.11-u",
        "a producer forgets that it needs no message identifiers",
        edit(_SETTINGS + "set_disable_message_id", "bool(value)", "False"),
    ),
    mutant(
        "20.11-u",
        "a producer forgets that it needs no time stamps",
        edit(_SETTINGS + "set_disable_message_timestamp", "bool(value)", "False"),
    ),
    mutant(
        "20.11-v 20.11-w",
        "a producer of a context forgets its delivery delay",
        edit(_SETTINGS + "set_delivery_delay", "delivery_delay=delay", "delivery_delay=0"),
    ),
    mutant(
        "20.11-w",
        "the delivery delay of one send is not used",
        edit(_CONTEXT + "send", "sender.delivery_delay = options.delivery_delay", "pass"),
    ),
    mutant(
        "20.11-x",
        "a producer with a completion listener waits for its sends",
        edit(_CONTEXT + "send", "if listener is None", "if self"),
    ),
    mutant(
        "20.11-x",
        "a producer keeps its completion listener",
        edit(
            _SETTINGS + "set_async",
            "self._listener = completion_listener",
            "self._listener = completion_listener or self._listener",
        ),
    ),
    mutant(
        "20.11-y",
        "a received message loses its properties when it is sent again",
        edit(
            _SETTINGS + "_apply_to",
            "settings = self._settings",
            "settings = self._settings\n    message.clear_properties()",
        ),
    ),
    mutant(
        "20.11-z",
        "None is sent as a TextMessage",
        edit(_MODULE + "_message_of", "return JmsMessage()", "return JmsTextMessage()"),
    ),
)

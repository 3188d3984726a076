"""Producers: overloads, defaults, settings; and the senders and publishers of the two domains."""

from __future__ import annotations

from tests.tck.broken.mutation import body, edit, mutant

__all__ = ["MUTANTS"]

_P = "pyjms.runtime.producer:JmsMessageProducer."
_SENDER = "pyjms.runtime.producer:JmsQueueSender."
_PUBLISHER = "pyjms.runtime.producer:JmsTopicPublisher."
_NO_NAME = "raise UnsupportedOperationException(_NO_DESTINATION)"

MUTANTS = (
    mutant(
        "4.6-a 5.7-k 6.10-b",
        "a producer without destination cannot send",
        edit(
            _P + "send",
            "self._send(self._address_of(arguments[0])",
            "raise JMSException('no destination')\n            self._send(self._address_of(arguments[0])",
        ),
    ),
    mutant(
        "4.6-b 5.7-l 6.10-d",
        "a send without destination raises JMSException",
        edit(_P + "send", _NO_NAME, "raise JMSException(_NO_DESTINATION)"),
        edit(_P + "_send_sorted", _NO_NAME, "raise JMSException(_NO_DESTINATION)"),
    ),
    mutant(
        "4.6-c",
        "a producer with a destination sends elsewhere on request",
        edit(
            _P + "_send_sorted",
            "if destination is not None:\n            raise",
            "if destination is not None:\n            return self._send(self._address_of(destination), destination, message, mode, priority, time_to_live)\n            raise",
        ),
    ),
    mutant(
        "4.6-d 5.7-j 6.10-a",
        "the priority of a send is ignored",
        edit(_P + "_send_sorted", 'check_priority(options.get("priority", self._defaults[1]))', "self._defaults[1]"),
    ),
    mutant(
        "4.6-d 5.7-j 6.10-a 5.7-k 6.10-b",
        "the time-to-live of a send is ignored",
        edit(
            _P + "_send_sorted",
            'check_time_to_live(options.get("time_to_live", self._defaults[2]))',
            "self._defaults[2]",
        ),
    ),
    mutant(
        "4.6-e",
        "send returns before the message was taken",
        edit(
            _P + "_send",
            "session.provider_session.send(envelope)",
            "__import__('threading').Timer(0.3, session.provider_session.send, (envelope,)).start()",
        ),
    ),
    mutant("4.6-e", "send does not send", edit(_P + "_send", "session.provider_session.send(envelope)", "pass")),
    mutant(
        "4.6-f",
        "disable_message_id is true at first",
        edit(_P + "__init__", "self._disable_message_id = False", "self._disable_message_id = True"),
    ),
    mutant(
        "4.6-g",
        "disable_message_timestamp cannot be set",
        edit(_P + "disable_message_timestamp.fset", "self._disable_message_timestamp = bool(value)", "pass"),
    ),
    mutant(
        "4.6-h",
        "producers are NON_PERSISTENT at first",
        edit(_P + "__init__", "int(Message.DEFAULT_DELIVERY_MODE)", "1"),
    ),
    mutant(
        "4.6-h",
        "the delivery mode of a producer is not stored",
        body(_P + "delivery_mode.fset", "check_delivery_mode(value)"),
    ),
    mutant(
        "4.6-i", "the priority of a producer is 5 at first", edit(_P + "__init__", "int(Message.DEFAULT_PRIORITY)", "5")
    ),
    mutant(
        "4.6-j",
        "the time-to-live of a producer is not stored",
        body(_P + "time_to_live.fset", "check_time_to_live(value)"),
    ),
    mutant(
        "4.6-k",
        "a producer does not know its destination",
        edit(_P + "destination", "return self._destination", "return None"),
    ),
    mutant("4.6-l", "a closed producer sends", edit(_P + "_check_open", "if self._closed:", "if False:")),
    mutant(
        "4.6-l",
        "the second close of a producer is an error",
        edit(_P + "close", "if not self._closed:", "self._check_open()\n    if not self._closed:"),
    ),
    mutant(
        "5.7-i", "a sender does not know its queue", edit(_SENDER + "queue", "return self._destination", "return None")
    ),
    mutant(
        "6.10-c",
        "a publisher does not know its topic",
        edit(_PUBLISHER + "topic", "return self._destination", "return None"),
    ),
    mutant(
        "5.7-j 5.7-k",
        "a sender takes delivery modes for PERSISTENT",
        edit(_P + "_send_sorted", 'check_delivery_mode(options.get("delivery_mode", self._defaults[0]))', "2"),
    ),
    mutant(
        "6.10-a 6.10-b",
        "publish drops its priority",
        edit(
            _PUBLISHER + "publish",
            "self.send(*arguments, **keywords)",
            "self.send(*arguments[:-2], 4, *arguments[-1:]) if len(arguments) > 3 else self.send(*arguments, **keywords)",
        ),
    ),
)

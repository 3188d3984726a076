"""Runs selector vectors against a provider: which selectors it refuses, and which messages the others select.

A test sends one message for each set of properties to a queue, each with a number, and then applies many selectors:
with browsers, which leave the queue unchanged, or, if the provider has none, with consumers, whose messages it then
sends again: a message that is requeued unacknowledged each time would reach a redelivery limit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from pyjms import (
    Connection,
    DeliveryMode,
    IllegalArgumentException,
    InvalidSelectorException,
    Message,
    MessageFormatException,
    Queue,
    Session,
)
from pyjms.spi.capability import Capability
from pyjms_tck.environment import Environment
from pyjms_tck.vectors import TYPES, load

INVALID = "invalid"
_NUMBER = "tck_number"
_MESSAGE_ID, _TIMESTAMP_MS = "ID:m-1", 1311704463521
"""The vectors' placeholders for the message's own id and timestamp, which only the provider can choose."""
_NEAR_TIMESTAMPS = (1311704463521, 1311704463520, 1311704463000, 1311704464000)


def vectors_of(choose: Callable[[Any], bool]) -> list[Any]:
    """Return the vectors for which `choose` is true."""
    return [vector for vector in load("selectors") if choose(vector)]


class Selecting:
    """A queue with a message for each set of headers and properties of some vectors."""

    def __init__(
        self,
        environment: Environment,
        connection: Connection,
        make_queue: Callable[[], Queue],
        vectors: Sequence[Any],
    ) -> None:
        self._connection = connection
        self._waits = environment.waits
        self._session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        self._queue = make_queue()
        self._empty = make_queue()
        self._sent: dict[str, Message] = {}
        self._browses = Capability.BROWSING in environment.facts.capabilities
        self._vectors: list[Any] = []
        """A vector for each message, by the message's number."""
        for vector in vectors:
            # Many vectors share a message: one for each would make the queue, and each search in it, several times as
            # long.
            if _key(vector) not in self._sent:
                self._vectors.append(vector)
                self._send(len(self._vectors) - 1)

    def _send(self, number: int) -> None:
        vector = self._vectors[number]
        message = self._session.create_message()
        for name, typed in vector["properties"].items():
            _set(message, name, typed["type"], typed["value"])
        headers = vector.get("headers", {})
        message.jms_correlation_id = headers.get("JMSCorrelationID")
        message.jms_type = headers.get("JMSType")
        message.set_int_property(_NUMBER, number)
        self._session.create_producer(self._queue).send(
            message, headers.get("JMSDeliveryMode", int(DeliveryMode.PERSISTENT)), headers.get("JMSPriority", 4), 0
        )
        self._sent[_key(vector)] = message

    def outcome(self, vector: Any) -> Any:
        """Return whether the vector's selector selects its message, or INVALID when the selector is refused."""
        message = self._sent[_key(vector)]
        selector = _own(vector["selector"], message)
        try:
            if vector["expected"] == INVALID:
                # A browser may parse its selector only when it is enumerated; a consumer must refuse it at once
                # (§3.8.1.1). On an empty queue, as a consumer that is not refused would take messages.
                self._session.create_consumer(self._empty, selector).close()
            chosen = self._browsed(selector) if self._browses else self._consumed(selector)
        except InvalidSelectorException:
            return INVALID
        return message.get_int_property(_NUMBER) in chosen

    def _browsed(self, selector: str) -> set[int]:
        with self._session.create_browser(self._queue, selector) as browser:
            return _numbers(browser)

    def _consumed(self, selector: str) -> set[int]:
        with self._connection.create_session(False, Session.AUTO_ACKNOWLEDGE) as session:
            consumer = session.create_consumer(self._queue, selector)
            found = _numbers(iter(lambda: consumer.receive(self._waits.nothing_ms), None))
        for number in found:
            self._send(number)
        return found


def _set(message: Message, name: str, type: str, value: Any) -> None:
    if type in {"float", "double"}:
        value = float(value)  # some are written as texts, such as Infinity
    # A provider may refuse a name that no selector can refer to; the selector is invalid with and without it.
    with suppress(MessageFormatException, IllegalArgumentException):
        getattr(message, f"set{TYPES[type].word}Property")(name, value)


def _numbers(messages: Iterable[Message | None]) -> set[int]:
    return {message.get_int_property(_NUMBER) for message in messages if message is not None}


def _key(vector: Any) -> str:
    return json.dumps([vector["properties"], vector.get("headers")], sort_keys=True)


def _own(selector: str, message: Message) -> str:
    """Return the selector with the id and the timestamp that the message really has."""
    # Quotes are doubled, as in any string literal of a selector (§3.8.1.1).
    selector = selector.replace(_MESSAGE_ID, str(message.jms_message_id).replace("'", "''"))
    for time_ms in _NEAR_TIMESTAMPS:
        selector = selector.replace(str(time_ms), str(message.jms_timestamp + time_ms - _TIMESTAMP_MS))
    return selector

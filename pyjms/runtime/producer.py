"""Sending: defaults, overloads, header fields, and the hand-over to the provider (JMS 1.1 §4.6)."""

from __future__ import annotations

from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Any, ClassVar

from pyjms.api.destination import Destination, Queue, Topic
from pyjms.api.message import Message
from pyjms.api.producer import DeliveryMode, MessageProducer, QueueSender, TopicPublisher
from pyjms.errors import (
    IllegalStateException,
    InvalidDestinationException,
    JMSException,
    MessageFormatException,
    UnsupportedOperationException,
)
from pyjms.messages.base import JmsMessage
from pyjms.messages.bodies import JmsBytesMessage, JmsMapMessage, JmsObjectMessage, JmsStreamMessage, JmsTextMessage
from pyjms.messages.destinations import address_of
from pyjms.messages.freeze import convert, freeze
from pyjms.runtime.checks import completion_callbacks
from pyjms.runtime.completions import AsyncSend
from pyjms.runtime.error_mapping import to_jms
from pyjms.spi.capability import Capability
from pyjms.spi.envelope import Address, AddressKind, MessageId
from pyjms.spi.errors import ProviderError
from pyjms.spi.interrupts import deferred, getsignal
from pyjms.types import Long

if TYPE_CHECKING:
    from pyjms.runtime.completions import Callbacks
    from pyjms.runtime.contracts import SessionContract

_OWN_CLASSES = frozenset(
    {JmsBytesMessage, JmsMapMessage, JmsMessage, JmsObjectMessage, JmsStreamMessage, JmsTextMessage}
)
"""The types that `freeze` accepts without a change. A look-up in place of `isinstance`, which would ask an abstract base class for each message."""

_MODES = {1: DeliveryMode.NON_PERSISTENT, 2: DeliveryMode.PERSISTENT}


class JmsMessageProducer(MessageProducer):
    """A producer for one destination, or for any when it was made without one."""

    __slots__ = (
        "_address",
        "_closed",
        "_defaults",
        "_destination",
        "_disable_message_id",
        "_disable_message_timestamp",
        "_session",
    )

    domain: ClassVar[AddressKind | None] = None
    """The only kind of destination that this class sends to, or None for both."""

    def __init__(self, session: SessionContract, destination: Destination | None) -> None:
        self._session = session
        self._destination = destination
        self._address = None if destination is None else self._address_of(destination)
        self._closed = False
        self._disable_message_id = False
        self._disable_message_timestamp = False
        # The four are one tuple, which a send reads with one look-up.
        self._defaults = (
            int(Message.DEFAULT_DELIVERY_MODE),
            int(Message.DEFAULT_PRIORITY),
            int(Message.DEFAULT_TIME_TO_LIVE),
            int(Message.DEFAULT_DELIVERY_DELAY),
        )

    def send(self, *arguments: Any, **keywords: Any) -> None:
        """Send in any of the argument orders of JMS, with the producer's defaults for arguments that are left out."""
        is_main = get_ident() == deferred.main  # in place of `defers_signals`, as this is the hottest of all calls
        if is_main:
            # Only the first signal is checked, SIGINT: all four handlers cost 0.3 µs, and this call
            # takes 4 (decision 0230).
            if getsignal(deferred.first) is not deferred.first_found:
                deferred.refresh()
            deferred.depth += 1
        try:
            if self._closed or self._session.is_closed:
                self._check_open()
            if len(arguments) == 1 and not keywords:
                if self._address is None:
                    raise UnsupportedOperationException(_NO_DESTINATION)
                mode, priority, time_to_live, delay = self._defaults
                self._send(self._address, self._destination, arguments[0], mode, priority, time_to_live, delay)
            elif (
                len(arguments) == 2
                and not keywords
                and self._address is None
                and arguments[0].__class__ not in _OWN_CLASSES
            ):
                # a reply, in most programs: the other overload of two arguments begins with the message
                self._send(self._address_of(arguments[0]), *arguments, *self._defaults)
            else:
                self._send_sorted(arguments, keywords)
        finally:
            if is_main:
                deferred.depth -= 1
                if deferred.pending and not deferred.depth:
                    deferred.run_handlers()

    def poison(self) -> None:
        """Give up the connection, as a signal has interrupted a call of this producer half way."""
        self._session.poison()

    def _send_sorted(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        """Send with arguments in any order that JMS allows."""
        destination, message, options, listeners = _sort_arguments(arguments, keywords)
        callbacks = completion_callbacks(*listeners) if listeners else None
        mode = check_delivery_mode(options.get("delivery_mode", self._defaults[0]))
        priority = check_priority(options.get("priority", self._defaults[1]))
        time_to_live = check_time_to_live(options.get("time_to_live", self._defaults[2]))
        delay = self._defaults[3]
        if self._address is not None:
            if destination is not None:
                raise UnsupportedOperationException(
                    f"this producer sends to {self._address}: make one without a destination to choose it at each send"
                )
            self._send(self._address, self._destination, message, mode, priority, time_to_live, delay, callbacks)
            return
        if destination is None:
            if _names_no_destination(
                arguments[: -1 if listeners and "completion_listener" not in keywords else None], keywords
            ):
                raise UnsupportedOperationException(_NO_DESTINATION)
            raise InvalidDestinationException("None is no destination, and this producer has none of its own")
        self._send(self._address_of(destination), destination, message, mode, priority, time_to_live, delay, callbacks)

    def _address_of(self, destination: Destination) -> Address:
        """Return the address. Raises InvalidDestinationException for one of the other domain."""
        address = address_of(destination)
        if self.domain is not None and address.kind is not self.domain:
            raise InvalidDestinationException(f"{address} is no {self.domain.name.lower()}")
        return address

    def _send(
        self,
        address: Address,
        destination: Destination | None,
        message: Message,
        mode: int,
        priority: int,
        time_to_live: int,
        delay: int,
        callbacks: Callbacks | None = None,
    ) -> None:
        """Send, and wait for the provider; with `callbacks` they hear of the outcome, and the call does not wait."""
        session = self._session
        if session.refuses_sends:
            raise IllegalStateException(
                "no transaction manager has started a branch on this XA session, so nobody would ever commit the message: "
                "call XAResource.start first, or use a session that create_session made"
            )
        own: JmsMessage = message if message.__class__ in _OWN_CLASSES else _convert(message)
        # The clock is read once: time stamp and expiration are of the same moment (§3.4.4, §3.4.9).
        now_ms = session.clock.time_ms()
        # In Java's long the sum would overflow into the past: a message with the longest time to
        # live must never expire.
        expiration = min(now_ms + time_to_live, Long.maximum) if time_to_live else 0
        message_id = None if self._disable_message_id else session.next_message_id()
        timestamp = 0 if self._disable_message_timestamp else now_ms
        deliver_at = min(now_ms + delay, Long.maximum) if delay else 0
        envelope = freeze(own, address, message_id, timestamp, expiration, mode, priority, deliver_at)
        if callbacks is not None:
            mark = partial(
                _mark_sent,
                message,
                own,
                destination,
                message_id,
                timestamp,
                expiration,
                mode,
                priority,
                deliver_at or now_ms,
            )
            session.async_sends.send(envelope, AsyncSend(self, message, callbacks, mark))
            return
        try:
            session.provider_session.send(envelope)
        except ProviderError as error:
            raise to_jms(error) from error
        # JMS 1.1 §3.4.11: the header fields that send sets show their values once it has returned
        if own is message:
            own.mark_sent(destination, message_id, timestamp, expiration, mode, priority, deliver_at or now_ms)
            return
        _mark_sent(message, own, destination, message_id, timestamp, expiration, mode, priority, deliver_at or now_ms)

    def close(self) -> None:
        if not self._closed:
            self._session.wait_for_sends(self)
            self._closed = True
            self._session.forget_producer(self)

    def _check_open(self) -> None:
        if self._closed:
            raise IllegalStateException("the producer is closed")
        self._session.check_open()

    @property
    def destination(self) -> Destination | None:
        self._check_open()
        return self._destination

    @property
    def disable_message_id(self) -> bool:
        self._check_open()
        return self._disable_message_id

    @disable_message_id.setter
    def disable_message_id(self, value: bool) -> None:
        self._check_open()
        self._disable_message_id = bool(value)

    @property
    def disable_message_timestamp(self) -> bool:
        self._check_open()
        return self._disable_message_timestamp

    @disable_message_timestamp.setter
    def disable_message_timestamp(self, value: bool) -> None:
        self._check_open()
        self._disable_message_timestamp = bool(value)

    @property
    def delivery_mode(self) -> int:
        self._check_open()
        return _MODES[self._defaults[0]]

    @delivery_mode.setter
    def delivery_mode(self, value: int) -> None:
        self._check_open()
        self._defaults = (check_delivery_mode(value), *self._defaults[1:])

    @property
    def priority(self) -> int:
        self._check_open()
        return self._defaults[1]

    @priority.setter
    def priority(self, value: int) -> None:
        self._check_open()
        self._defaults = (self._defaults[0], check_priority(value), *self._defaults[2:])

    @property
    def time_to_live(self) -> int:
        self._check_open()
        return self._defaults[2]

    @time_to_live.setter
    def time_to_live(self, value: int) -> None:
        self._check_open()
        self._defaults = (*self._defaults[:2], check_time_to_live(value), self._defaults[3])

    @property
    def delivery_delay(self) -> int:
        self._check_open()
        return self._defaults[3]

    @delivery_delay.setter
    def delivery_delay(self, delivery_delay: int) -> None:
        self._check_open()
        delay = check_delivery_delay(delivery_delay)
        if delay:
            self._session.connection.require(Capability.DELIVERY_DELAY, "delivery delay")
        self._defaults = (*self._defaults[:3], delay)


class JmsQueueSender(JmsMessageProducer, QueueSender):
    """A producer for queues."""

    __slots__ = ()
    domain = AddressKind.QUEUE

    @property
    def queue(self) -> Queue | None:
        self._check_open()
        return self._destination  # type: ignore[return-value]


class JmsTopicPublisher(JmsMessageProducer, TopicPublisher):
    """A producer for topics; `publish` is `send`."""

    __slots__ = ()
    domain = AddressKind.TOPIC

    @property
    def topic(self) -> Topic | None:
        self._check_open()
        return self._destination  # type: ignore[return-value]

    def publish(self, *arguments: Any, **keywords: Any) -> None:
        """Send, by the topic domain's name for it."""
        if "topic" in keywords:
            keywords["destination"] = keywords.pop("topic")
        self.send(*arguments, **keywords)


def producer_class(destination: Destination | None) -> type[JmsMessageProducer]:
    """Return the class of producers of the destination's domain."""
    if isinstance(destination, Queue):
        return JmsQueueSender
    if isinstance(destination, Topic):
        return JmsTopicPublisher
    return JmsMessageProducer


def check_delivery_mode(value: int) -> int:
    """Return `value`. Raises JMSException unless it is one of the two delivery modes."""
    # A bool is an int in Python: True would pass for NON_PERSISTENT.
    if isinstance(value, bool) or not isinstance(value, int) or value not in _MODES:
        raise JMSException(f"{value!r} is no delivery mode: use DeliveryMode.NON_PERSISTENT (1) or PERSISTENT (2)")
    return int(value)


def check_priority(value: int) -> int:
    """Return `value`. Raises JMSException outside 0 to 9."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 9:
        raise JMSException(f"{value!r} is no priority: use 0 (lowest) to 9 (highest)")
    return int(value)


def check_time_to_live(value: int) -> int:
    """Return `value`. Raises JMSException for a negative one."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= Long.maximum:
        raise JMSException(f"{value!r} is no time to live: use milliseconds, at most 2**63 - 1, or 0 for no limit")
    return int(value)


def check_delivery_delay(value: int) -> int:
    """Return `value`. Raises JMSException for a negative one."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= Long.maximum:
        raise JMSException(f"{value!r} is no delivery delay: use milliseconds, at most 2**63 - 1, or 0 for none")
    return int(value)


def check_message(message: object) -> None:
    """Raise MessageFormatException for an object that is no message (JMS 1.1 §7.3)."""
    if not isinstance(message, Message):
        raise MessageFormatException(f"{type(message).__name__} is no JMS message: make one with session.create_…()")


def _mark_sent(
    message: Message,
    own: JmsMessage,
    destination: Destination | None,
    message_id: MessageId | None,
    timestamp: int,
    expiration: int,
    mode: int,
    priority: int,
    delivery_time: int,
) -> None:
    """Set the header fields of `message` that a send sets; `own` is the message itself, unless its class is an application's."""
    if own is message:
        own.mark_sent(destination, message_id, timestamp, expiration, mode, priority, delivery_time)
        return
    message.jms_destination = destination
    message.jms_delivery_mode = mode
    message.jms_expiration = expiration
    message.jms_priority = priority
    message.jms_message_id = message_id
    message.jms_timestamp = timestamp
    message.jms_delivery_time = delivery_time


def _convert(message: Message) -> JmsMessage:
    check_message(message)
    return convert(message)


_ORDER = ("delivery_mode", "priority", "time_to_live")
_NO_LISTENERS = (int, float, str, bytes, Destination, Message)
"""Types of an argument behind the message that is no completion listener, but a number, or an error in one."""
_NAMES = {"destination", "queue", "message", "completion_listener", *_ORDER}
_NO_DESTINATION = "this producer has no destination: use send(destination, message)"


def _names_no_destination(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
    """Return whether a send leaves out the destination, which is another error than None as the destination."""
    is_first = len(arguments) != 1 and bool(arguments) and not isinstance(arguments[0], Message)
    return not is_first and "destination" not in keywords and "queue" not in keywords


def _sort_arguments(
    arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[Destination | None, Any, dict[str, int], tuple[Any, ...]]:
    """Distinguish the overloads of send; return destination, message, the given ones of mode, priority and TTL, and the listener, if given."""
    given = dict(keywords)
    if unknown := given.keys() - _NAMES:
        raise TypeError(f"send() got an unexpected keyword argument {min(unknown)!r}")
    if "queue" in given:  # the name that QueueSender.send gives it
        given["destination"] = given.pop("queue")
    rest = list(arguments)
    # An argument before a message is taken for the destination, even None or an object of a wrong
    # type: the error then names the right argument.
    if rest and (isinstance(rest[0], Destination) or (len(rest) > 1 and isinstance(rest[1], Message))):
        given["destination"] = rest.pop(0)
    if rest and "message" not in given:
        given["message"] = rest.pop(0)
    # The completion listener is the last argument: after the message, or after all three numbers (JMS 2.0 §7.3).
    # None is one, too, if a null one: a single number is never left out in this place.
    if len(rest) in (1, len(_ORDER) + 1) and not isinstance(rest[-1], _NO_LISTENERS):
        if "completion_listener" in given:
            raise TypeError("send() got multiple values for argument 'completion_listener'")
        given["completion_listener"] = rest.pop()
    if "message" not in given or len(rest) > len(_ORDER):
        raise TypeError(
            "send() takes (message), (destination, message), either with delivery_mode, priority, time_to_live, and a completion_listener"
        )
    for name, value in zip(_ORDER, rest, strict=False):
        if isinstance(value, (Destination, Message)):
            raise TypeError(f"send() takes a number for {name}, not {type(value).__name__}")
        if name in given:
            raise TypeError(f"send() got multiple values for argument {name!r}")
        given[name] = value
    # None stands for the producer's own value (decision 0301), so it counts as left out.
    destination, message = given.pop("destination", None), given.pop("message")
    listeners = (given.pop("completion_listener"),) if "completion_listener" in given else ()
    return destination, message, {name: value for name, value in given.items() if value is not None}, listeners

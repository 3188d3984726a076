"""Receiving: synchronously, or by a listener on the session's thread (JMS 1.1 §4.5); and browsing a queue (§5.9)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import get_ident
from typing import TYPE_CHECKING, Any

from pyjms.api.base import Enumeration
from pyjms.api.consumer import MessageConsumer, MessageListenerLike, QueueBrowser, QueueReceiver, TopicSubscriber
from pyjms.api.destination import Destination, Queue, Topic
from pyjms.api.message import Message
from pyjms.errors import IllegalStateException, JMSException
from pyjms.messages.base import TrustedClasses
from pyjms.messages.destinations import address_of
from pyjms.messages.freeze import thaw
from pyjms.runtime.checks import message_callback
from pyjms.runtime.error_mapping import mapped_errors, to_jms
from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address
from pyjms.spi.errors import ProviderError
from pyjms.spi.interrupts import deferred, defers_signals, getsignal
from pyjms.spi.provider import ProviderConsumer, SubscribeRequest
from pyjms.spi.selector import Selector
from pyjms.spi.words import reason_of

if TYPE_CHECKING:
    from pyjms.runtime.contracts import SessionContract


_log = logging.getLogger("pyjms.runtime")


class JmsMessageConsumer(MessageConsumer):
    """A consumer of one destination; made by its session, which does all work that concerns more than this consumer."""

    __slots__ = (
        "_destination",
        "_is_released",
        "_listener",
        "_no_local",
        "_selector",
        "_session",
        "callback",
        "inbox",
        "is_closed",
        "is_unreturned_settled",
        "latest",
        "provider",
        "reads_body",
        "subscription_name",
        "unreturned",
    )

    def __init__(self, session: SessionContract, destination: Destination, request: SubscribeRequest) -> None:
        """`subscribe` follows."""
        self._session = session
        self._destination = destination
        self._selector = None if request.selector is None else request.selector.text
        self._no_local = request.no_local
        self.subscription_name = request.shared_name if request.durable_name is None else request.durable_name
        """The name of its durable or shared subscription; None: it has a subscription of its own, or reads a queue."""
        self._listener: MessageListenerLike | None = None
        self.callback: Callable[[Message], Any] | None = None
        """The listener's callable, for the session's thread; guarded by the gate's lock."""
        self.is_closed = False
        """Whether `close` was called; guarded by the gate's lock."""
        self._is_released = False
        """Whether the provider has released it, so that a close has nothing left to do."""
        self.latest: Delivery | None = None
        """The last message that a receive took."""
        self.unreturned: Delivery | None = None
        """The message that a receive took and did not return, as a signal or a cancelled task ended it: the next receive, or a listener, begins with it."""
        self.is_unreturned_settled = False
        """Whether that message is settled: then it is not redelivered."""
        self.reads_body: Callable[[Message], None] | None = None
        """Reads the body of the message that the present receive takes, before the message is settled; None: the receive returns the message."""
        self.inbox = session.make_inbox()
        self.provider: ProviderConsumer
        """The provider's consumer; polled with the gate's lock held. There is none before `subscribe`."""

    def subscribe(self, request: SubscribeRequest) -> None:
        """Create the provider's consumer. Raises the errors of `ProviderSession.subscribe`, unmapped."""
        self.provider = self._session.provider_session.subscribe(request, self._on_ready)

    def poison(self) -> None:
        """Give up the connection, as a signal has interrupted a call of this consumer half way."""
        self._session.poison()

    @property
    def message_selector(self) -> str | None:
        self._check_open()
        return self._selector

    @property
    def message_listener(self) -> MessageListenerLike | None:
        self._check_open()
        return self._listener

    @message_listener.setter
    @defers_signals()
    def message_listener(self, listener: MessageListenerLike | None) -> None:
        self._check_open()
        callback = None if listener is None else self._callback_of(listener)
        self._session.listen(self, callback)
        self._listener = listener

    def _callback_of(self, listener: MessageListenerLike) -> Callable[[Message], Any]:
        """Return the callable for the session's thread; a tracer puts its span around it."""
        return message_callback(listener)

    def receive(self, timeout: int = 0) -> Message | None:
        """Return the next message, or None when `timeout` milliseconds passed (0: never) or the consumer was closed."""
        is_main = get_ident() == deferred.main  # in place of `defers_signals`, as this is a hot call
        if is_main:
            # Only the first signal is checked, SIGINT: all four handlers cost 0.3 µs, and this call
            # takes 4 (decision 0230).
            if getsignal(deferred.first) is not deferred.first_found:
                deferred.refresh()
            deferred.depth += 1
        message = None
        try:
            try:
                is_over = timeout < 0
            except TypeError as error:
                raise JMSException(f"{timeout!r} is no timeout: use milliseconds, or 0 for no limit") from error
            if is_over:
                message = self.receive_no_wait()
                return message
            session = self._session
            # Three fields spare the usual receive the call that finds the right error.
            if self.is_closed or session.is_closed or session.has_listeners:
                self._check_can_receive()
            try:
                message = session.take(self, or_enter=True)
                if message is None:
                    message = self._wait(session.clock.monotonic_ms() + timeout if timeout else None)
            finally:
                # Without a message the consumer is still registered with the provider and the gate; a
                # message has ended both registrations.
                if message is None:
                    self.end_wait()
            return message
        finally:
            if is_main:
                deferred.depth -= 1
                if deferred.pending and not deferred.depth:
                    # The program never gets the message if a handler raises: the consumer keeps it for the next
                    # receive.
                    deferred.run_handlers(None if message is None else self.keep_latest)

    def receive_no_wait(self) -> Message | None:
        """Return the next message if there is one now."""
        is_main = get_ident() == deferred.main
        if is_main:
            if getsignal(deferred.first) is not deferred.first_found:
                deferred.refresh()
            deferred.depth += 1
        message = None
        try:
            self._check_can_receive()
            # None must mean that the broker has no message: a provider over a network knows only the
            # messages sent to it in advance.
            with mapped_errors:
                self.provider.catch_up()
            message = self._session.take(self)
            # A program that polls would take a lost connection for an empty queue.
            if message is None:
                self._session.connection.check_not_lost()
            return message
        finally:
            if is_main:
                deferred.depth -= 1
                if deferred.pending and not deferred.depth:
                    deferred.run_handlers(None if message is None else self.keep_latest)

    @defers_signals()
    def close(self) -> None:
        """Close; waits for a receive or a listener of this consumer that runs on another thread."""
        if not (self._is_released or self._session.is_closed):
            self._session.close_consumer(self)

    def _wait(self, until_ms: float | None) -> Message | None:
        """Wait for a message until `until_ms` (None: for ever). The calling thread is registered with the gate."""
        session = self._session
        connection = session.connection
        is_main = get_ident() == deferred.main
        wake = deferred.wake
        if is_main:
            # A receive that sleeps has the time to check all signals, and each of them must be able to end its sleep.
            if tuple(map(getsignal, deferred.numbers)) != deferred.found:
                deferred.refresh()
            deferred.wake = self.inbox.wake
        try:
            # the inbox keeps the wake-up of a close, and of a signal, from now on
            while not (self.is_closed or session.is_closing or (is_main and deferred.pending)):
                if connection.lost is not None:
                    connection.check_not_lost()
                if not self.inbox.wait(until_ms):
                    return None
                message = session.take(self, or_enter=True)
                if message is not None:
                    return message
                if until_ms is not None and session.clock.monotonic_ms() >= until_ms:
                    return None  # a receive that is woken all the time without a message must see that its time is over
            return None
        finally:
            # A receive in a signal's handler may run within the wait of another call, which gets its wake-up back.
            if is_main:
                deferred.wake = wake

    # For a receive that waits outside its thread (`pyjms.aio`)

    def receive_or_enlist(self) -> Message | None:
        """Return the next message; None: there is none now, and the inbox is woken when there may be one, until `end_wait`."""
        self._check_can_receive()
        message = self._session.take(self, or_enter=True)
        if message is None:
            self._session.connection.check_not_lost()
        return message

    @property
    def is_ending(self) -> bool:
        """Whether a waiting receive has to return None."""
        return self.is_closed or self._session.is_closing

    def end_wait(self) -> None:
        """End the wake-ups by the provider, and the calling thread's registration as the receiver."""
        gate = self._session.gate
        try:
            if gate.receiver in (None, get_ident()):  # otherwise another thread waits, with interest of its own
                self.provider.set_interested(False)
        finally:
            with gate.lock:
                gate.end_receive()

    def _on_ready(self) -> None:
        # No lock is needed: a wake-up that misses a listener which is being set does no harm, as
        # `listen` wakes its thread.
        if self.callback is None:
            self.inbox.wake()
        else:
            self._session.wake_listener(self)

    def _check_open(self) -> None:
        if self.is_closed:
            raise IllegalStateException("the consumer is closed")
        self._session.check_open()

    def _check_can_receive(self) -> None:
        if self.is_closed or self._session.is_closed:
            self._check_open()
        if self._session.has_listeners:
            # JMS 1.1 §4.4.6: a session serves listeners or synchronous receives
            raise IllegalStateException(
                "this session has a message listener, so it cannot receive synchronously: use a session for each"
            )

    # For the session

    def wake(self) -> None:
        """Make a blocked `receive` check again."""
        self.inbox.wake()

    def mark_closed(self) -> None:
        """Refuse all use from now on, and drop the listener; the caller holds the gate's lock."""
        self.is_closed = True
        self._listener = None
        self.callback = None

    def keep_latest(self) -> None:
        """Leave the message that was taken last, and not returned, to the next receive."""
        self._session.keep(self)

    def take_unreturned(self) -> Delivery | None:
        """Remove and return the message that a receive took and did not return."""
        delivery, self.unreturned = self.unreturned, None
        return delivery

    def warn_unreturned(self) -> None:
        """Warn of a settled message that no receive has returned, and none will: the consumer is closed."""
        unreturned = self.unreturned
        if unreturned is not None and self.is_unreturned_settled:
            with suppress(Exception):  # the application's logging
                _log.warning(
                    "PYJMS-UNRETURNED message %s may be lost: a receive was interrupted while it settled the message, and its consumer "
                    "was closed in place of another receive, which would have returned it",
                    unreturned.envelope.message_id,
                )

    def release(self) -> None:
        """Detach from the provider. Raises `ProviderError`; it is detached nevertheless."""
        try:
            self.provider.close()
        except ProviderError:
            self._is_released = True
            raise
        self._is_released = True


class JmsQueueReceiver(JmsMessageConsumer, QueueReceiver):
    """A consumer of a queue."""

    __slots__ = ()

    @property
    def queue(self) -> Queue:
        self._check_open()
        if not isinstance(self._destination, Queue):
            raise JMSException("this receiver has no queue")
        return self._destination


class JmsTopicSubscriber(JmsMessageConsumer, TopicSubscriber):
    """A consumer of a topic, durable or not."""

    __slots__ = ()

    @property
    def topic(self) -> Topic:
        self._check_open()
        if not isinstance(self._destination, Topic):
            raise JMSException("this subscriber has no topic")
        return self._destination

    @property
    def no_local(self) -> bool:
        self._check_open()
        return self._no_local


class _BrowsingContext:
    """The session as browsed messages see it: they were not consumed, so `acknowledge` has no effect (§3.6, §5.9)."""

    __slots__ = ("_session",)

    def __init__(self, session: SessionContract) -> None:
        self._session = session

    @property
    def trusted(self) -> TrustedClasses:
        """The classes that object messages from other processes may hold."""
        return self._session.trusted

    def destination_of(self, address: Address) -> Destination:
        """Return the API's object for `address`."""
        return self._session.destination_of(address)

    def acknowledge(self, message: Message) -> None:
        """Raise IllegalStateException when the session is closed."""
        self._session.check_open()


class _Walk:
    """One iteration over the queue. A message that a call did not return, as a signal ended it, is returned by the next call."""

    __slots__ = ("_found", "_interrupted")

    def __init__(self, found: Iterator[Message]) -> None:
        self._found = found
        self._interrupted: list[Message] = []

    def __iter__(self) -> Iterator[Message]:
        return self

    def __next__(self) -> Message:
        return self._take()[1]

    @defers_signals(undo=lambda found: found[0].append(found[1]))
    def _take(self) -> tuple[list[Message], Message]:
        # The list is returned, too: `undo` gets the result of the call and nothing else.
        return self._interrupted, self._interrupted.pop() if self._interrupted else next(self._found)


class JmsQueueBrowser(QueueBrowser):
    """A browser; each enumeration reads the queue again, from its head, in its present state."""

    __slots__ = ("_address", "_closed", "_queue", "_selector", "_session")

    def __init__(self, session: SessionContract, queue: Queue, selector: Selector | None) -> None:
        self._session = session
        self._queue = queue
        self._address = address_of(queue)
        self._selector = selector
        self._closed = False

    @property
    def queue(self) -> Queue:
        self._check_open()
        return self._queue

    @property
    def message_selector(self) -> str | None:
        self._check_open()
        return None if self._selector is None else self._selector.text

    @property
    def enumeration(self) -> Enumeration[Message]:
        self._check_open()
        return Enumeration(_Walk(self._walk()))

    def __iter__(self) -> Iterator[Message]:
        return self.enumeration

    def poison(self) -> None:
        """Give up the connection, as a signal has interrupted a call of this browser half way."""
        self._session.poison()

    def close(self) -> None:
        self._closed = True
        self._session.forget_browser(self)

    def _walk(self) -> Iterator[Message]:
        context = _BrowsingContext(self._session)
        try:
            for delivery in self._session.provider_session.browse(self._address, self._selector):
                # A generator is suspended between two calls of the program: the browser may have been closed since.
                self._check_open()
                yield thaw(delivery, context)
        except ProviderError as error:
            raise to_jms(error) from error
        except JMSException:
            raise
        except Exception as error:  # JMS 1.1 §7.1: a client hears of nothing but JMSExceptions
            raise to_jms(ProviderError(f"a message could not be shown: {reason_of(error)}")) from error

    def _check_open(self) -> None:
        if self._closed:
            raise IllegalStateException("the browser is closed")
        self._session.check_open()

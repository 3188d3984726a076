"""The asynchronous sends of a session: their order, the limit of incomplete ones, and the thread that tells their outcomes (JMS 2.0 §7.3).

The provider tells the outcome of each send, in any order and from any thread. The listeners are called one after the other, in the order of the sends.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import takewhile
from threading import Lock
from typing import Any, Final, Protocol, TypeAlias

from pyjms.api.message import Message
from pyjms.errors import IllegalStateException
from pyjms.runtime.error_mapping import mapped_errors, to_jms
from pyjms.runtime.waiting import WorkThread
from pyjms.spi.clock import Clock, Signal
from pyjms.spi.envelope import Envelope, MessageId
from pyjms.spi.errors import ClosedError, ProviderError
from pyjms.spi.interrupts import deferred
from pyjms.spi.provider import ProviderSession
from pyjms.spi.words import reason_of

_log = logging.getLogger("pyjms.runtime")

INCOMPLETE_MAX: Final = 1000
"""The most asynchronous sends of a session that may be incomplete: the next one waits until half of them are complete."""

Callbacks: TypeAlias = tuple[Callable[[Message], Any], Callable[[Message, Exception], Any]]
"""The methods of a completion listener: that for a success, that for a failure."""


class SendingSession(Protocol):
    """A session, as its asynchronous sends see it."""

    clock: Clock
    provider_session: ProviderSession

    def check_open(self) -> None:
        """Raise IllegalStateException when it is closed."""
        ...

    def next_message_id(self) -> MessageId:
        """Return a unique message id."""
        ...


class AsyncSend:
    """One asynchronous send: who hears of its outcome, and the outcome."""

    __slots__ = ("callbacks", "error", "is_complete", "is_under_way", "mark_sent", "message", "number", "producer")

    def __init__(
        self, producer: object, message: Message, callbacks: Callbacks, mark_sent: Callable[[], object]
    ) -> None:
        """`mark_sent` sets the header fields of the message that a send sets."""
        self.producer = producer
        self.message = message
        self.callbacks: Callbacks | None = callbacks
        self.mark_sent = mark_sent
        self.number = 0
        self.is_under_way = False
        """Whether the provider has taken the message: until then the call that sends it waits, for instance for a connection."""
        self.is_complete = False
        self.error: ProviderError | None = None


class AsyncSends:
    """The asynchronous sends of one session whose listeners have not returned yet. Its thread starts with the first one."""

    __slots__ = (
        "_called",
        "_calling",
        "_ended",
        "_last",
        "_lock",
        "_report",
        "_sends",
        "_session",
        "_waiting",
        "_worker",
        "failure",
    )

    def __init__(self, session: SendingSession, report: Callable[[ProviderError], object]) -> None:
        """`report` calls the connection's ExceptionListener."""
        self._session = session
        self._report = report
        self._lock = Lock()
        self._sends: deque[AsyncSend] = deque()
        self._worker: WorkThread | None = None
        self._last = 0
        """The number of the latest send."""
        self._called = 0
        """The number of the latest send whose listener has returned."""
        self._calling: AsyncSend | None = None
        """The send whose listener runs."""
        self._waiting: dict[Signal, int] = {}
        """Threads that wait until the listener of the send of that number has returned."""
        self._ended = False
        self.failure: ProviderError | None = None
        """The error of the first send that failed since it was last set to None."""

    def send(self, envelope: Envelope, send: AsyncSend) -> None:
        """Have the provider send `envelope`; the listener hears of the outcome. Waits while too many sends are incomplete.

        Raises `IllegalStateException` when the session is closed, `JMSException` when no thread can be started.
        """
        # The thread of the listeners must not wait for itself.
        if len(self._sends) >= INCOMPLETE_MAX and not self.is_current():
            self._wait_until(self._last - INCOMPLETE_MAX // 2)
            self._session.check_open()
        with self._lock:
            if self._ended:
                raise IllegalStateException("the session is closed")
            if self._worker is None:
                self._begin()
            send.number = self._last = self._last + 1
            # Entered before the provider is called, which may tell the outcome before it returns.
            self._sends.append(send)
        is_over = False
        try:
            self._session.provider_session.send_async(envelope, partial(self._complete, send))
            send.is_under_way = is_over = True
        except ProviderError as error:
            self._complete(send, error)
            is_over = True
        finally:
            # The call raises something else, such as the exception of a signal's handler: then it alone tells of the failure.
            if not is_over:
                send.callbacks = None
                self._complete(send, None)

    def _begin(self) -> None:
        """Start the thread; the lock is held."""
        session = self._session
        worker = WorkThread(f"pyjms-completions-{session.next_message_id()[3:]}", session.clock, self._work, self._tell)
        with mapped_errors:
            worker.start()
        self._worker = worker

    def _complete(self, send: AsyncSend, error: ProviderError | None) -> None:
        """Note the outcome of a send. Any thread; never blocks; may be repeated, and the first call counts."""
        with self._lock:
            if send.is_complete:
                return
            send.error, send.is_complete = error, True
            if error is not None and self.failure is None:
                self.failure = error
            is_next = self._sends[0] is send
        if is_next and self._worker is not None:
            self._worker.wake()

    # The listeners' thread

    def _work(self) -> bool:
        """Call the listener of the oldest send, if its outcome is known."""
        with self._lock:
            if not self._sends or not self._sends[0].is_complete:
                return False
            self._calling = send = self._sends[0]
        try:
            if send.callbacks is not None:
                _call(send, *send.callbacks)
        finally:
            with self._lock:
                self._sends.popleft()
                self._calling, self._called = None, send.number
                waiting = tuple(self._waiting.items()) if self._waiting else ()
            for signal, number in waiting:
                if number <= send.number:
                    signal.set()
        return True

    def _tell(self, error: Exception) -> None:
        """Call the connection's ExceptionListener for an unexpected error (JMS 1.1 §4.3.8)."""
        self._report(ProviderError(f"the completion of sends met an unexpected error: {reason_of(error)}"))

    # Waiting for the listeners

    @property
    def has_any(self) -> bool:
        """Whether there are sends whose listeners have not returned."""
        return bool(self._sends)

    def is_current(self) -> bool:
        """Return whether the caller is a completion listener of this session."""
        return self._worker is not None and self._worker.is_current()

    def is_calling(self, producer: object) -> bool:
        """Return whether the caller is the completion listener of a send by `producer`."""
        return self.is_current() and self._calling is not None and self._calling.producer is producer

    def wait(self, producer: object = None) -> None:
        """Wait until all present sends, or those by `producer`, are complete, and their listeners have returned. Not for the listeners' thread."""
        if not self._sends:
            return
        with self._lock:
            numbers = [each.number for each in self._sends if producer is None or each.producer is producer]
        if numbers:
            self._wait_until(numbers[-1])

    def wait_before_close(self) -> None:
        """Wait as `wait`, but for no call that has not returned: its connection may be away, and the close ends that wait."""
        with self._lock:
            sends = takewhile(lambda send: send.is_under_way or send.is_complete, self._sends)
            number = max((each.number for each in sends), default=0)
        self._wait_until(number)

    def _wait_until(self, number: int) -> None:
        signal = Signal()
        # The thread may read the socket by which the outcomes come, so that no other one has to wake it.
        try:
            wait = self._session.provider_session.waiter(self._session.clock)
        except ProviderError:
            wait = self._session.clock.wait
        try:
            while True:
                with self._lock:
                    if self._called >= number:
                        return
                    self._waiting[signal] = number
                deferred.wait(wait, signal, None)
        finally:
            self._waiting.pop(signal, None)  # without the lock, for which an interrupted thread would wait

    def take_failure(self) -> ProviderError | None:
        """Return the error of the first send that failed in the transaction that ends, and forget it."""
        failure, self.failure = self.failure, None
        return failure

    def fail(self, error: ProviderError) -> None:
        """Have all sends that are incomplete fail. Any thread; never blocks."""
        with self._lock:
            sends = list(self._sends)
        for send in sends:
            self._complete(send, error)

    def end(self) -> None:
        """End the thread, when the last listener has returned; sends that are still incomplete have failed."""
        with self._lock:
            self._ended = True
            worker = self._worker
        if worker is not None:
            self.fail(ClosedError("the session was closed before it was known whether the message was sent"))
            if not worker.is_current():
                self.wait()
            worker.end()


def _call(
    send: AsyncSend, on_completion: Callable[[Message], Any], on_exception: Callable[[Message, Exception], Any]
) -> None:
    error: Exception | None = None if send.error is None else to_jms(send.error)
    if error is None:
        try:
            send.mark_sent()
        except (
            Exception
        ) as raised:  # a message of the application's own class: a send without a listener would raise it
            error = raised
    try:
        if error is None:
            on_completion(send.message)
        else:
            on_exception(send.message, error)
    except BaseException as failure:  # SystemExit of a listener ends no thread of pyjms
        with suppress(Exception):  # the application's logging
            _log.warning(
                "PYJMS-COMPLETION a completion listener raised, which is an error of the application (JMS 2.0 §7.3)",
                exc_info=failure,
            )

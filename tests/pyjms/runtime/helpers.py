"""What the tests of the client's side share: calls on other threads, waits that end, and listeners that keep notes."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Condition, Event, Thread, get_ident
from typing import Any, Generic, TypeVar

from pyjms import Connection, Destination, Message, MessageConsumer, MessageListener, Session, TextMessage
from pyjms.spi import Signal
from pyjms.testing import VirtualClock

T = TypeVar("T")

PATIENCE_S = 30.0
"""How long a test waits for what must happen."""
PATIENCE_MS = 30_000
NOTHING_S = 0.05
"""How long a test looks on while nothing may happen."""
_LOOKS = 10
"""So often within that time."""


class Interrupted(Exception):
    """Stands for KeyboardInterrupt, which would end the whole run if it came at a wrong moment."""


class Call(Generic[T]):
    """A call that runs on a thread of its own, at once."""

    def __init__(self, function: Callable[..., T], *arguments: Any, **named: Any) -> None:
        self._function: Callable[[], T] = partial(function, *arguments, **named)
        self._results: list[T] = []
        self._error: BaseException | None = None
        self.thread = Thread(target=self._run, name=f"test-{getattr(function, '__name__', 'call')}", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self._results.append(self._function())
        except BaseException as error:
            self._error = error

    def result(self) -> T:
        """Return what the call returned, or raise what it raised. A call that does not end fails the test."""
        self.thread.join(PATIENCE_S)
        assert not self.thread.is_alive(), f"{self.thread.name} has not ended after {PATIENCE_S} s"
        if self._error is not None:
            raise self._error
        return self._results[0]

    def is_blocked(self) -> bool:
        """Look on until the call has ended, or has waited at one place for a moment; say whether it still runs.

        On a busy machine a moment passes before a call has come to where it waits.
        """
        place, looks = None, 0
        for _ in range(int(PATIENCE_S / NOTHING_S) * _LOOKS):
            self.thread.join(NOTHING_S / _LOOKS)
            if not self.thread.is_alive():
                return False
            before, place = place, self._place()
            looks = looks + 1 if place is not None and place == before else 0
            if looks == _LOOKS:
                return True
        return True

    def _place(self) -> tuple[int, int] | None:
        """Return what identifies the place in the program where the call waits; None if it computes, or would if it could."""
        frame = sys._current_frames().get(self.thread.ident or 0)
        try:
            state = (
                Path(f"/proc/self/task/{self.thread.native_id}/stat").read_text("ascii").rpartition(")")[2].split()[0]
            )
        except OSError:
            state = "S"  # it has ended, and so has no frame; or this is no Linux
        return (id(frame), frame.f_lasti) if frame is not None and state == "S" else None


def within_patience(function: Callable[..., T], *arguments: Any, **named: Any) -> T:
    """Call `function` where a hang would be a failure of this test and not of the whole run."""
    return Call(function, *arguments, **named).result()


def eventually(condition: Callable[[], object], what: str) -> None:
    """Return when `condition` holds. Only for what no event tells of."""
    pause = Event()
    for _ in range(int(PATIENCE_S / 0.005)):
        if condition():
            return
        pause.wait(0.005)
    raise AssertionError(f"not so after {PATIENCE_S} s: {what}")


def await_event(event: Event, what: str = "the event") -> None:
    """Return when `event` is set."""
    assert event.wait(PATIENCE_S), f"{what} did not come within {PATIENCE_S} s"


def holding(running: Event, release: Event) -> Callable[..., None]:
    """Return work that says that it runs, then waits for `release`."""

    def hold(*_: object) -> None:
        running.set()
        release.wait(PATIENCE_S)

    return hold


class WatchedClock(VirtualClock):
    """A virtual clock that knows which threads wait on it, also those that wait without limit."""

    def __init__(self) -> None:
        super().__init__()
        self._watch = Condition()
        self._waiting: Counter[int] = Counter()

    def wait(self, signal: Signal, until_ms: float | None) -> bool:
        me = get_ident()
        with self._watch:
            self._waiting[me] += 1
            self._watch.notify_all()
        try:
            return super().wait(signal, until_ms)
        finally:
            with self._watch:
                self._waiting[me] -= 1

    def await_blocked(self, call: Call[Any]) -> None:
        """Return when the thread of `call` waits for something that the provider or a close brings."""
        self.await_thread(call.thread)

    def await_thread(self, thread: Thread) -> None:
        """Return when `thread` waits."""
        with self._watch:
            blocked = self._watch.wait_for(lambda: self._waiting[thread.ident or 0] > 0, PATIENCE_S)
        assert blocked, f"{thread.name} does not wait"


class Recorder(MessageListener):
    """A listener that keeps what it gets, then does `action`."""

    def __init__(self, action: Callable[[Message], object] | None = None) -> None:
        self._action = action
        self._changed = Condition()
        self.messages: list[Message] = []
        self.texts: list[str | None] = []
        self.threads: list[int] = []
        self.redelivered: list[bool] = []
        self.counts: list[int] = []

    def on_message(self, message: Message) -> None:
        with self._changed:
            self.messages.append(message)
            self.texts.append(text_of(message))
            self.threads.append(get_ident())
            self.redelivered.append(message.jms_redelivered)
            self.counts.append(message.get_int_property("JMSXDeliveryCount"))
            self._changed.notify_all()
        if self._action is not None:
            self._action(message)

    def wait_for(self, number: int) -> list[str | None]:
        """Return the texts when there are `number` of them or more."""
        with self._changed:
            enough = self._changed.wait_for(lambda: len(self.texts) >= number, PATIENCE_S)
        assert enough, f"the listener got {self.texts}, not {number} messages"
        return list(self.texts)


def text_of(message: Message | None) -> str | None:
    """Return the text of a text message, None for any other."""
    return message.text if isinstance(message, TextMessage) else None


def send_texts(session: Session, destination: Destination, *texts: str, **options: int) -> None:
    """Send text messages, in this order, by a producer of their own."""
    with session.create_producer(destination) as producer:
        for text in texts:
            producer.send(session.create_text_message(text), **options)


def take(consumer: MessageConsumer) -> Message:
    """Receive a message that must come."""
    message = consumer.receive(PATIENCE_MS)
    assert message is not None, "no message came"
    return message


def take_texts(consumer: MessageConsumer, number: int) -> list[str | None]:
    """Receive `number` text messages that must come."""
    return [text_of(take(consumer)) for _ in range(number)]


def drain(consumer: MessageConsumer) -> list[str | None]:
    """Receive what is there now."""
    texts = []
    while (message := consumer.receive_no_wait()) is not None:
        texts.append(text_of(message))
    return texts


def left_over(connect: Callable[[], Connection], name: str = "orders") -> list[str | None]:
    """Return what another client finds on the queue."""
    with connect() as connection:
        session = connection.create_session()
        return drain(session.create_consumer(session.create_queue(name)))


def delivery_count(message: Message) -> int:
    """Return how often the message was delivered, this time included."""
    return int(message.get_int_property("JMSXDeliveryCount"))

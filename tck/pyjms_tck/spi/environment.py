"""The environment of the contract tests: connections to one message system, and all waiting.

A test never sleeps. It waits for an event with `PATIENCE_S`, which is long because the event ends the wait; it shows
that a message does *not* arrive by sending a second one behind it, which must arrive first.
"""

from __future__ import annotations

from contextlib import ExitStack
from itertools import count
from threading import Event, Thread
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

from pyjms.spi.envelope import Address, AddressKind, BodyKind, Envelope, MessageId
from pyjms.spi.provider import ConnectRequest, SubscribeRequest
from pyjms.spi.registry import find_provider
from pyjms.spi.selector import selector_or_none
from pyjms.spi.url import ProviderUrl
from pyjms.testing import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyjms.spi.delivery import Delivery
    from pyjms.spi.errors import ProviderError
    from pyjms.spi.provider import ProviderConnection, ProviderConsumer, ProviderSession

PATIENCE_S = 20.0

_numbers = count(1)
_RUN = uuid4().hex[:8]


class Environment:
    """One message system, reached through the SPI alone. On exit it closes everything that was opened through it."""

    def __init__(
        self, url: str, patience_s: float = PATIENCE_S, credentials: tuple[str | None, str | None] = (None, None)
    ) -> None:
        self.patience_s = patience_s
        self._user_name, self._password = credentials
        self.url = ProviderUrl.parse(url)
        self.provider = find_provider(self.url.scheme)
        self.clock = VirtualClock()
        self.problems: list[ProviderError] = []
        self._opened = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()

    def on_exception(self, error: ProviderError) -> None:
        """Collect the problems that connections report by themselves."""
        self.problems.append(error)

    def request(self, *, client_id: str | None = None, url: ProviderUrl | None = None) -> ConnectRequest:
        """Return the connect request of a client."""
        return ConnectRequest(
            url=url or self.url,
            user_name=self._user_name,
            password=self._password,
            client_id=client_id,
            clock=self.clock,
        )

    def connect(self, *, client_id: str | None = None, started: bool = True) -> ProviderConnection:
        """Open a connection."""
        connection = self.provider.connect(self.request(client_id=client_id), self)
        self._opened.callback(connection.close)
        if started:
            connection.start()
        return connection

    def session(self, *, transacted: bool = False) -> ProviderSession:
        """Open a session on a new, started connection."""
        return self.connect().open_session(transacted=transacted)

    @staticmethod
    def queue() -> Address:
        """Return a queue with a unique name."""
        return Address(AddressKind.QUEUE, Environment.name("contract"))

    @staticmethod
    def topic() -> Address:
        """Return a topic with a unique name."""
        return Address(AddressKind.TOPIC, Environment.name("contract"))

    @staticmethod
    def name(prefix: str) -> str:
        """Return a unique name."""
        return f"{prefix}-{_RUN}-{next(_numbers)}"

    def receiver(
        self, session: ProviderSession, address: Address, selector: str | None = None, **options: Any
    ) -> Receiver:
        """Subscribe."""
        request = SubscribeRequest(
            address=address,
            selector=selector_or_none(selector),
            **{"no_local": False, "durable_name": None, **options},
        )
        return Receiver(session, request, self.patience_s)

    def send(self, session: ProviderSession, address: Address, *texts: str, **fields: Any) -> None:
        """Send text messages."""
        for text in texts:
            session.send(envelope(address, text, timestamp_ms=self.clock.time_ms(), **fields))

    def put(self, address: Address, *texts: str, **fields: Any) -> None:
        """Send text messages, and return when they have arrived: NON_PERSISTENT ones may be under way when `send`
        returns.
        """
        session = self.session(transacted=True)
        self.send(session, address, *texts, **fields)
        session.commit()
        session.close()

    def drain(self, address: Address) -> list[tuple[Any, bool]]:
        """Return text and mark of all messages there, which another client receives without waiting for more."""
        session = self.session()
        # At the lowest priority, so it arrives last: then no other message is there, and no wait is needed.
        self.send(session, address, "end", priority=0)
        receiver = self.receiver(session, address)
        found: list[tuple[Any, bool]] = []
        while (delivery := receiver.take()).envelope.body != "end":
            found.append((delivery.envelope.body, delivery.redelivered))
            session.acknowledge([delivery])
        session.acknowledge([delivery])
        session.close()
        return found


class Receiver:
    """A consumer that notifies, then pulls."""

    def __init__(self, session: ProviderSession, request: SubscribeRequest, patience_s: float) -> None:
        self._patience_s = patience_s
        self._ready = Event()
        self.wakes = 0
        self.hook: Callable[[], None] | None = None
        self.consumer: ProviderConsumer = session.subscribe(request, self._on_ready)

    def _on_ready(self) -> None:
        self.wakes += 1
        if self.hook is not None:
            # The hook runs first: the thread that waits for the wake-up sees its effects.
            self.hook()
        self._ready.set()

    def await_wake(self) -> None:
        """Return after `on_ready`; an earlier call counts."""
        assert self._ready.wait(self._patience_s), (
            f"on_ready was not called for {self._patience_s} s. To check: does send tell interested consumers, does "
            "set_interested(True) tell of what is there, is the wake-up handed on when interest ends?"
        )
        self._ready.clear()

    def is_woken_within(self, seconds: float) -> bool:
        """Say whether `on_ready` is called within `seconds`; an earlier call counts."""
        woken = self._ready.wait(seconds)
        self._ready.clear()
        return woken

    def take_when_told(self) -> Delivery:
        """Return the next message, polled only after `on_ready`."""
        while True:
            self.await_wake()
            if (delivery := self.consumer.poll()) is not None:
                return delivery

    def take(self) -> Delivery:
        """Return the next message, as a blocking receive does: polls, waits for `on_ready`, and polls again."""
        try:
            while (delivery := self.consumer.poll_or_wait()) is None:
                self.await_wake()
            return delivery
        finally:
            # A consumer that stays interested could be woken for a message that is meant for the next one.
            self.consumer.set_interested(False)

    def take_texts(self, number: int) -> list[Any]:
        """Return the bodies of the next messages, unsettled."""
        return [self.take().envelope.body for _ in range(number)]


def envelope(address: Address, text: str | None = "espresso", **fields: Any) -> Envelope:
    """Return a text message; `fields` overrides its fields."""
    values: dict[str, Any] = {
        "destination": address,
        "message_id": MessageId(f"ID:contract:{next(_numbers)}"),
        "timestamp_ms": 1,
        "expiration_ms": 0,
        "delivery_mode": 1,
        "priority": 4,
        "correlation_id": None,
        "reply_to": None,
        "jms_type": None,
        "properties": MappingProxyType({}),
        "body_kind": BodyKind.TEXT,
        "body": text,
    }
    return Envelope(**{**values, **fields})


class Threads:
    """Threads whose errors fail the test, and that end with it."""

    def __init__(self) -> None:
        self._threads: list[Thread] = []
        self._errors: list[BaseException] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an error the threads are not waited for: they may hang because of it, and the error must be shown.
        if kind is None:
            self.join()

    def start(self, work: Callable[[], object]) -> None:
        """Run `work` on a thread."""
        # Daemons: a provider that blocks one for ever must not keep the process alive.
        thread = Thread(target=self._run, args=(work,), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _run(self, work: Callable[[], object]) -> None:
        try:
            work()
        except Exception as error:
            self._errors.append(error)

    def join(self) -> None:
        """Wait for all; raise an error of any."""
        for thread in self._threads:
            thread.join(PATIENCE_S)
        for error in self._errors:
            raise error
        assert not [thread for thread in self._threads if thread.is_alive()], (
            f"a thread still runs after {PATIENCE_S} s"
        )

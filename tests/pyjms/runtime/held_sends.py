"""A provider around the bundled one whose asynchronous sends are complete when a test says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from threading import Condition
from types import TracebackType
from typing import Self

from pyjms.spi import (
    ConnectionEvents,
    ConnectRequest,
    Envelope,
    Provider,
    ProviderConnection,
    ProviderSession,
    ProviderUrl,
    find_provider,
    register_provider,
)
from pyjms.spi.delegating import DelegatingConnection, DelegatingSession
from pyjms.spi.errors import ProviderError
from tests.pyjms.runtime.helpers import PATIENCE_S

Done = Callable[[ProviderError | None], None]

_numbers = count(1)


class HeldSends:
    """Stands before the message system of a URL, and holds back the outcomes of asynchronous sends."""

    def __init__(self, url: str) -> None:
        inner = ProviderUrl.parse(url)
        self._scheme = f"held{next(_numbers)}"
        self.url = self._scheme + url[len(inner.scheme) :]
        self._changed = Condition()
        self.held: list[Done] = []
        """What tells the outcome of each send that is not complete, in order."""
        self.events: list[ConnectionEvents] = []
        register_provider(self._scheme, _Provider(self, inner.scheme))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        register_provider(self._scheme, None)

    def hold(self, done: Done) -> None:
        """Hold an outcome back."""
        with self._changed:
            self.held.append(done)
            self._changed.notify_all()

    def take(self, number: int) -> list[Done]:
        """Return what tells the outcomes of so many sends, when they have been made."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.held) >= number, PATIENCE_S), "the sends were not made"
            taken, self.held = self.held[:number], self.held[number:]
        return taken

    def complete(self, number: int = 1, error: ProviderError | None = None) -> None:
        """Tell the outcome of the next sends."""
        for done in self.take(number):
            done(error)


class _Provider(Provider):
    def __init__(self, holder: HeldSends, inner_scheme: str) -> None:
        self._holder = holder
        self._inner_scheme = inner_scheme

    def connect(self, request: ConnectRequest, events: ConnectionEvents) -> ProviderConnection:
        self._holder.events.append(events)
        url = replace(request.url, scheme=self._inner_scheme)
        return _Connection(self._holder, find_provider(self._inner_scheme).connect(replace(request, url=url), events))


class _Connection(DelegatingConnection):
    def __init__(self, holder: HeldSends, inner: ProviderConnection) -> None:
        super().__init__(inner)
        self._holder = holder

    def open_session(self, *, transacted: bool) -> ProviderSession:
        return _Session(self._holder, self.inner.open_session(transacted=transacted))


class _Session(DelegatingSession):
    def __init__(self, holder: HeldSends, inner: ProviderSession) -> None:
        super().__init__(inner)
        self._holder = holder

    def send_async(self, envelope: Envelope, done: Done) -> None:
        self._inner.send(envelope)
        self._holder.hold(done)

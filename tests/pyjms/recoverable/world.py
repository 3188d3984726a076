"""A desk that asks, a server that answers, a printer that must not print twice, and deaths at every step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyjms import ConnectionFactory, Message, TextMessage
from pyjms.recoverable import LogEntry, RecoverableRequestor, RecoverableServer, Reply, Unit
from pyjms.recoverable import requestor as requestor_module
from pyjms.recoverable.sql_logs import SqlClientLog


class Died(BaseException):
    """The client's process died here."""


class Printer:
    """A device: each operation changes its state."""

    def __init__(self) -> None:
        self.pages: list[str] = []

    def state(self) -> str:
        return str(len(self.pages))

    def print(self, reply: Reply) -> None:
        assert isinstance(reply.message, TextMessage)
        self.pages.append(f"{reply.number}: {reply.message.text}")


class Fate:
    """Lets the client die at its n-th step, 1 for the first; counts the steps."""

    def __init__(self, dies_at: int = 0) -> None:
        self.dies_at = dies_at
        self.steps: list[str] = []

    def step(self, name: str) -> None:
        self.steps.append(name)
        if len(self.steps) == self.dies_at:
            raise Died(name)


class MortalLog:
    """A log whose writer may die before and after each write."""

    def __init__(self, url: str, fate: Fate) -> None:
        self._inner = SqlClientLog(url)
        self._fate = fate

    def read(self, client: str) -> LogEntry | None:
        return self._inner.read(client)

    def write(self, entry: LogEntry) -> None:
        self._fate.step("before the log is written")
        self._inner.write(entry)
        self._fate.step("after the log was written")

    def close(self) -> None:
        self._inner.close()


class Shop:
    """The server: counts what it has worked on."""

    def __init__(self, factory: ConnectionFactory, queue: str = "orders") -> None:
        self.worked_on: list[tuple[str, int]] = []
        self._factory = factory
        self._queue = queue

    def work(self, request: Message, unit: Unit) -> Message:
        assert isinstance(request, TextMessage)
        self.worked_on.append((unit.client, unit.number))
        return unit.session.create_text_message(f"done: {request.text}")

    def serve(self) -> int:
        """Serve what is there."""
        return RecoverableServer(self._factory, self._queue, self.work).serve(timeout_ms=1)


def text_message(factory: ConnectionFactory, text: str) -> Message:
    with factory.create_connection() as connection:
        return connection.create_session(False, 1).create_text_message(text)


def mortal(monkeypatch: Any, fate: Fate) -> None:
    """Let clients die before and after their commits too."""
    commit: Callable[[Any], None] = requestor_module._Link.commit

    def dying_commit(link: Any) -> None:
        fate.step("before the commit")
        commit(link)
        fate.step("after the commit")

    monkeypatch.setattr(requestor_module._Link, "commit", dying_commit)


def requestor_of(factory: ConnectionFactory, log: Any, printer: Printer | None = None) -> RecoverableRequestor:
    return RecoverableRequestor(factory, "desk", "orders", log=log, device=printer, patience_ms=50)

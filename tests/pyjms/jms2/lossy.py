"""A served broker with a store, behind a relay that a test cuts; the broker can be restarted, and can die with the store as it is."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Condition
from typing import Final

from pyjms import CompletionListener, ConnectionFactory, JMSContext, JMSException, JMSRuntimeException, Message
from pyjms_provider.serving.served_broker import ServedBroker
from tests.pyjms.runtime.helpers import PATIENCE_S, text_of
from tests.system.network.proxy import Proxy
from tests.system.network.served import port_of, stored_broker

_QUICKLY: Final = "reconnect_delay_ms=1&reconnect_delay_max_ms=20"


class LossyBroker:
    """The broker and its relay."""

    def __init__(self, scheme: str, folder: Path) -> None:
        self._scheme = scheme
        self._folder = folder
        self._file = folder / "first.db"
        self._running = ExitStack()
        self._served = self._open()
        self.proxy = Proxy(("127.0.0.1", port_of(self._served)), protocol=scheme)

    def _open(self) -> ServedBroker:
        port = {"name": self._scheme, "type": self._scheme}
        return self._running.enter_context(stored_broker(f"sqlite:///{self._file}", port=port))

    @property
    def url(self) -> str:
        """The URL of the relay."""
        return f"{self._scheme}://127.0.0.1:{self.proxy.port}?{_QUICKLY}"

    @property
    def direct(self) -> ConnectionFactory:
        """A factory of connections past the relay, to the broker that runs now."""
        return ConnectionFactory(f"{self._scheme}://127.0.0.1:{port_of(self._served)}")

    def cut(self) -> None:
        """Cut all connections."""
        self.proxy.cut_all()

    def stop(self) -> None:
        """Stop the broker in order; the relay then finds none."""
        self._running.close()

    def start(self) -> None:
        """Start a broker with the store."""
        self._served = self._open()
        self.proxy.target = ("127.0.0.1", port_of(self._served))

    def restart(self) -> None:
        """Stop the broker in order, and start another one with its store."""
        self.stop()
        self.start()

    def die(self) -> None:
        """Replace the broker by one that finds the store as it is now, as if the process had been killed."""
        dying, self._running = self._running, ExitStack()
        copied = self._folder / "second"
        copied.mkdir()
        for each in self._folder.glob("first.db*"):
            shutil.copy(each, copied / each.name)
        self._file = copied / "first.db"
        self.start()
        self.cut()
        dying.close()

    def close(self) -> None:
        """End the relay and the broker."""
        self.proxy.__exit__(None, None, None)
        self._running.close()


@contextmanager
def lossy(scheme: str, folder: Path) -> Iterator[LossyBroker]:
    """Yield a broker of the protocol `scheme`, whose store is in `folder`."""
    broker = LossyBroker(scheme, folder)
    try:
        yield broker
    finally:
        broker.close()


class Losses:
    """An exception listener that counts the losses of a connection."""

    def __init__(self, context: JMSContext) -> None:
        self._changed = Condition()
        self.codes: list[str | None] = []
        context.exception_listener = self.note

    def note(self, error: JMSException) -> None:
        """Note a problem of the connection."""
        with self._changed:
            self.codes.append(error.error_code)
            self._changed.notify_all()

    def wait(self, number: int) -> None:
        """Return when the connection was lost so many times."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.codes) >= number, PATIENCE_S), self.codes


class Outcomes(CompletionListener):
    """Keeps the outcome of each asynchronous send, in the order of the telling."""

    def __init__(self) -> None:
        self._changed = Condition()
        self.told: list[tuple[str | None, Exception | None]] = []

    def on_completion(self, message: Message) -> None:
        self._note(message, None)

    def on_exception(self, message: Message, exception: Exception) -> None:
        self._note(message, exception)

    def _note(self, message: Message, error: Exception | None) -> None:
        with self._changed:
            self.told.append((text_of(message), error))
            self._changed.notify_all()

    def wait(self, number: int) -> None:
        """Return when so many outcomes were told."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.told) >= number, PATIENCE_S), len(self.told)


class Received:
    """Messages that came to one or more consumers, with what they tell of earlier deliveries."""

    def __init__(self) -> None:
        self._changed = Condition()
        self.texts: list[str | None] = []
        self.unflagged: list[str | None] = []
        """Those that came again without saying so."""

    def add(self, message: Message) -> None:
        """Note a message."""
        text = text_of(message)
        with self._changed:
            count = message.get_int_property("JMSXDeliveryCount")
            is_again = message.jms_redelivered
            if is_again is not (count > 1) or (text in self.texts and not is_again):
                self.unflagged.append(text)
            self.texts.append(text)
            self._changed.notify_all()

    def wait(self, number: int) -> None:
        """Return when so many different messages have come."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(set(self.texts)) >= number, PATIENCE_S), self.texts


def is_in_doubt(error: JMSRuntimeException | JMSException) -> bool:
    """Return whether an error says that it is not known whether the broker has done what was asked."""
    return error.error_code == "PYJMS-IN-DOUBT"

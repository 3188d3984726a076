"""STOMP clients that others wrote, as their users use them, on a broker that runs as a user runs it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from threading import Condition
from typing import Any

import pytest
import stomp

from tests.provider.commands.served import BrokerProcess

FOLDER = Path(__file__).parent / "clients"
PATIENCE_S = 20.0


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    """Return host and port of a broker that lets in everybody."""
    process = BrokerProcess(tmp_path_factory.mktemp("broker"), "--listen", "stomp://127.0.0.1:0", "--anonymous")
    try:
        (url,) = process.announced("stomp")
        yield "127.0.0.1", int(url.rpartition(":")[2])
    finally:
        process.end()


@pytest.mark.parametrize(
    ("program", "script"),
    [
        pytest.param(program, script, marks=pytest.mark.requires(f"{program}-stomp"))
        for program, script in (("ruby", "client.rb"), ("perl", "client.pl"), ("php", "client.php"))
    ],
)
def test_clients_of_other_languages_find_what_they_know(place: tuple[str, int], program: str, script: str) -> None:
    host, port = place
    done = subprocess.run(
        [program, str(FOLDER / script), host, str(port)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.endswith("all done\n"), done.stdout + done.stderr


class Heard(stomp.ConnectionListener):  # type: ignore[misc]  # stomp.py has no types
    """Keeps what came."""

    def __init__(self) -> None:
        self._changed = Condition()
        self.messages: list[Any] = []
        self.receipts: list[str] = []
        self.errors: list[Any] = []

    def on_message(self, frame: Any) -> None:
        self._note(self.messages, frame)

    def on_receipt(self, frame: Any) -> None:
        self._note(self.receipts, frame.headers["receipt-id"])

    def on_error(self, frame: Any) -> None:
        self._note(self.errors, frame)

    def _note(self, kept: list[Any], what: Any) -> None:
        with self._changed:
            kept.append(what)
            self._changed.notify_all()

    def next(self) -> Any:
        """Return the next message."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.messages or self.errors, PATIENCE_S), "nothing came"
            assert not self.errors, self.errors
            return self.messages.pop(0)

    def wait_for_receipt(self, name: str) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: name in self.receipts or self.errors, PATIENCE_S), name
            assert not self.errors, self.errors


class User:
    """A program that uses stomp.py."""

    def __init__(self, place: tuple[str, int], version: str, client_id: str | None = None) -> None:
        kind = {"1.0": stomp.Connection10, "1.1": stomp.Connection11, "1.2": stomp.Connection12}[version]
        self.version = version
        self.heard = Heard()
        self.connection: Any = kind([place])
        self.connection.set_listener("", self.heard)
        self.connection.connect(wait=True, headers={} if client_id is None else {"client-id": client_id})

    def settle(self, message: Any, id: str, *, how: str = "ack") -> None:
        settle = getattr(self.connection, how)
        if self.version == "1.2":
            settle(message.headers["ack"])
        elif self.version == "1.1":
            settle(message.headers["message-id"], id)
        else:
            settle(message.headers["message-id"])

    def leave(self) -> None:
        self.connection.disconnect(receipt="bye")


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
@pytest.mark.parametrize("mode", ["auto", "client", "client-individual"])
def test_stomp_py_sends_and_receives(place: tuple[str, int], version: str, mode: str) -> None:
    user = User(place, version)
    queue = f"/queue/py-{version}-{mode}"
    user.connection.subscribe(queue, id="s", ack=mode)
    user.connection.send(queue, "hello", receipt="sent", cups="2")
    message = user.heard.next()
    assert (message.body, message.headers["cups"], message.headers["destination"]) == ("hello", "2", queue)
    user.heard.wait_for_receipt("sent")
    if mode != "auto":
        user.settle(message, "s")
    user.leave()
    late = User(place, version)
    late.connection.subscribe(queue, id="s", ack="auto", headers={"browser": "true"})
    assert late.heard.next().headers["browser"] == "end"  # nothing is left
    late.leave()


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_stomp_py_works_in_transactions(place: tuple[str, int], version: str) -> None:
    user = User(place, version)
    queue = f"/queue/py-tx-{version}"
    for body, ending in (("undone", user.connection.abort), ("done", user.connection.commit)):
        transaction = user.connection.begin()
        user.connection.send(queue, body, transaction=transaction)
        ending(transaction)
    user.connection.subscribe(queue, id="s", ack="auto")
    assert user.heard.next().body == "done"
    user.leave()


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_stomp_py_refuses_a_message_and_gets_it_again(place: tuple[str, int], version: str) -> None:
    user = User(place, version)
    queue = f"/queue/py-nack-{version}"
    user.connection.subscribe(queue, id="s", ack="client-individual")
    user.connection.send(queue, "twice")
    user.settle(user.heard.next(), "s", how="nack")
    again = user.heard.next()
    assert (again.body, again.headers["redelivered"]) == ("twice", "true")
    user.settle(again, "s")
    user.leave()


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_stomp_py_has_durable_subscriptions(place: tuple[str, int], version: str) -> None:
    topic, durable = f"/topic/py-{version}", {"durable-subscription-name": "all", "receipt": "subscribed"}
    user = User(place, version, f"py-{version}")
    user.connection.subscribe(topic, id="d", ack="auto", headers=durable)
    user.heard.wait_for_receipt("subscribed")
    user.leave()
    sender = User(place, version)
    sender.connection.send(topic, "while away", receipt="sent", persistent="true")
    sender.heard.wait_for_receipt("sent")
    sender.leave()
    user = User(place, version, f"py-{version}")
    user.connection.subscribe(topic, id="d", ack="auto", headers=durable)
    assert user.heard.next().body == "while away"
    user.leave()

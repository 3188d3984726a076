"""STOMP clients that others wrote, over TCP and over WebSocket, on a broker that runs as a user runs it."""

from __future__ import annotations

import socket
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Condition
from typing import Any

import pytest
import stomp
from stomp.adapter.ws import WSStompConnection, WSTransport
from stomp.connect import BaseConnection
from stomp.protocol import Protocol10, Protocol11, Protocol12

from pyjms import BytesMessage, ConnectionFactory, Message, Session, TextMessage
from pyjms.spi.url import ProviderUrl
from tests.provider.commands.served import BrokerProcess
from tests.provider.transport.certificates import Authority

FOLDER = Path(__file__).parent / "clients"
PATIENCE_S = 20.0
VERSIONS = ["1.0", "1.1", "1.2"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a broker listens."""

    url: str
    scheme: str
    address: tuple[str, int]
    path: str
    authority: Path
    """The file of the authority that signed the broker's certificate."""


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Place]]:
    """Return the ports of a broker that lets in everybody, by their scheme."""
    folder = tmp_path_factory.mktemp("broker")
    authority = Authority(folder)
    identity = authority.sign("server")
    with_tls = f"stomp+wss://127.0.0.1:0?certificate={identity.certificate}&key={identity.key}"
    listening = [f"--listen={url}" for url in ("stomp://127.0.0.1:0", "stomp+ws://127.0.0.1:0", with_tls)]
    process = BrokerProcess(folder, *listening, "--anonymous")
    try:
        found = {}
        for url in process.announced("stomp", "stomp+ws", "stomp+wss"):
            parsed = ProviderUrl.parse(url)
            assert parsed.port is not None
            found[parsed.scheme] = Place(
                url=url,
                scheme=parsed.scheme,
                address=("127.0.0.1", parsed.port),
                path=parsed.path,
                authority=authority.file,
            )
        yield found
    finally:
        process.end()


@pytest.fixture(params=["stomp", "stomp+ws", "stomp+wss"])
def place(request: pytest.FixtureRequest, places: dict[str, Place]) -> Place:
    """Return each port of the broker in turn: all that holds over TCP holds over WebSocket."""
    return places[request.param]


@pytest.mark.realises("BOIL-MSG-3")
@pytest.mark.parametrize(
    ("program", "script"),
    [
        pytest.param(program, script, marks=pytest.mark.requires(f"{program}-stomp"))
        for program, script in (("ruby", "client.rb"), ("perl", "client.pl"), ("php", "client.php"))
    ],
)
def test_clients_of_other_languages_find_what_they_know(places: dict[str, Place], program: str, script: str) -> None:
    host, port = places["stomp"].address
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
        self.version = ""

    def on_connected(self, frame: Any) -> None:
        self.version = frame.headers["version"]

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


class WebSocket10(stomp.Connection10):  # type: ignore[misc]  # stomp.py has no types
    """STOMP 1.0 of stomp.py over its WebSocket: its own class for that speaks 1.2 only."""

    def __init__(self, transport: WSTransport) -> None:
        BaseConnection.__init__(self, transport)
        Protocol10.__init__(self, transport)


class WebSocket11(stomp.Connection11):  # type: ignore[misc]
    """The same for STOMP 1.1."""

    def __init__(self, transport: WSTransport) -> None:
        BaseConnection.__init__(self, transport)
        Protocol11.__init__(self, transport)


class WebSocket12(stomp.Connection12):  # type: ignore[misc]
    """The same for STOMP 1.2."""

    def __init__(self, transport: WSTransport) -> None:
        BaseConnection.__init__(self, transport)
        Protocol12.__init__(self, transport)


def make_connection(place: Place, version: str) -> Any:
    """Return a connection of stomp.py that speaks this version only."""
    if place.scheme == "stomp":
        kind = {"1.0": stomp.Connection10, "1.1": stomp.Connection11, "1.2": stomp.Connection12}[version]
        return kind([place.address])
    subprotocol = {"Sec-WebSocket-Protocol": f"v{version.replace('.', '')}.stomp"}
    transport = WSTransport([place.address], ws_path=place.path, header=subprotocol)
    if place.scheme == "stomp+wss":
        transport.set_ssl([place.address], ca_certs=str(place.authority))
    return {"1.0": WebSocket10, "1.1": WebSocket11, "1.2": WebSocket12}[version](transport)


class User:
    """A program that uses stomp.py."""

    def __init__(self, place: Place, version: str, client_id: str | None = None) -> None:
        self.version = version
        self.heard = Heard()
        self.connection: Any = make_connection(place, version)
        self.connection.set_listener("", self.heard)
        self.connection.connect(wait=True, headers={} if client_id is None else {"client-id": client_id})
        assert self.heard.version == version

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


@pytest.mark.realises("BJ-WS-1", "BJ-NET-3", "BJ-GEN-1", "BJ-PE-3", "BJ-PE-5")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("mode", ["auto", "client", "client-individual"])
def test_stomp_py_sends_and_receives(place: Place, version: str, mode: str) -> None:
    user = User(place, version)
    queue = f"/queue/py-{place.scheme}-{version}-{mode}"
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


@pytest.mark.realises("BJ-WS-1", "BJ-PE-3")
def test_a_client_of_websocket_need_not_name_a_version_before_it_logs_in(places: dict[str, Place]) -> None:
    heard = Heard()
    connection = WSStompConnection([places["stomp+ws"].address])  # as its users make it: no path, no subprotocol
    connection.set_listener("", heard)
    connection.connect(wait=True)
    connection.send("/queue/py-unnamed", "hello", receipt="sent")
    heard.wait_for_receipt("sent")
    assert heard.version == "1.2"
    connection.disconnect(receipt="bye")


@pytest.mark.realises("BJ-PE-4", "BJ-GEN-1")
def test_a_version_that_is_not_spoken_is_answered_with_those_that_are_and_the_end(places: dict[str, Place]) -> None:
    with socket.create_connection(places["stomp"].address, PATIENCE_S) as client:
        client.sendall(b"CONNECT\naccept-version:2.0,3.1\nhost:x\n\n\0SEND\ndestination:/queue/never\n\nx\0")
        answer = b"".join(iter(lambda: client.recv(4096), b""))
    assert answer.startswith(b"ERROR\n")
    assert b"\nversion:1.0,1.1,1.2\n" in answer
    assert answer.count(b"\0") == 1, "nothing else is answered"


@pytest.mark.realises("BJ-WS-1")
@pytest.mark.parametrize("version", VERSIONS)
def test_stomp_py_works_in_transactions(place: Place, version: str) -> None:
    user = User(place, version)
    queue = f"/queue/py-tx-{place.scheme}-{version}"
    for body, ending in (("undone", user.connection.abort), ("done", user.connection.commit)):
        transaction = user.connection.begin()
        user.connection.send(queue, body, transaction=transaction)
        ending(transaction)
    user.connection.subscribe(queue, id="s", ack="auto")
    assert user.heard.next().body == "done"
    user.leave()


@pytest.mark.realises("BJ-WS-1")
@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_stomp_py_refuses_a_message_and_gets_it_again(place: Place, version: str) -> None:
    user = User(place, version)
    queue = f"/queue/py-nack-{place.scheme}-{version}"
    user.connection.subscribe(queue, id="s", ack="client-individual")
    user.connection.send(queue, "twice")
    user.settle(user.heard.next(), "s", how="nack")
    again = user.heard.next()
    assert (again.body, again.headers["redelivered"]) == ("twice", "true")
    user.settle(again, "s")
    user.leave()


@pytest.mark.realises("BJ-WS-1")
@pytest.mark.parametrize("version", VERSIONS)
def test_stomp_py_has_durable_subscriptions(place: Place, version: str) -> None:
    topic, client_id = f"/topic/py-{place.scheme}-{version}", f"py-{place.scheme}-{version}"
    durable = {"durable-subscription-name": "all", "receipt": "subscribed"}
    user = User(place, version, client_id)
    user.connection.subscribe(topic, id="d", ack="auto", headers=durable)
    user.heard.wait_for_receipt("subscribed")
    user.leave()
    sender = User(place, version)
    sender.connection.send(topic, "while away", receipt="sent", persistent="true")
    sender.heard.wait_for_receipt("sent")
    sender.leave()
    user = User(place, version, client_id)
    user.connection.subscribe(topic, id="d", ack="auto", headers=durable)
    assert user.heard.next().body == "while away"
    user.leave()


# Programs that use JMS, and programs that do not


@pytest.fixture
def session(places: dict[str, Place]) -> Iterator[Session]:
    """Return the session of a program that uses JMS."""
    with ConnectionFactory(places["stomp"].url).create_connection() as connection:
        connection.start()
        yield connection.create_session(False, Session.AUTO_ACKNOWLEDGE)


def received(session: Session, queue: str) -> Message:
    """Return the next message of a queue, as the program that uses JMS gets it."""
    with session.create_consumer(session.create_queue(queue)) as consumer:
        message = consumer.receive(int(PATIENCE_S * 1000))
        assert message is not None
        return message


@pytest.mark.realises("BOIL-BODY-5", "BOIL-MSG-3", "BJ-GEN-2")
@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_native_client_sends_becomes_the_jms_message_that_fits_it(
    place: Place, session: Session, version: str
) -> None:
    user = User(place, version)
    queue = f"from-native-{place.scheme}-{version}"
    user.connection.send(f"/queue/{queue}", "grün", headers={"amq-msg-type": "text", "cups": "2", "type": "order"})
    user.connection.send(f"/queue/{queue}", b"\x00\x01\x02")
    text, data = received(session, queue), received(session, queue)
    assert isinstance(text, TextMessage)
    assert (text.text, text.get_int_property("cups"), text.jms_type) == ("grün", 2, "order")
    assert isinstance(data, BytesMessage)
    assert [data.read_byte() for _ in range(data.body_length)] == [0, 1, 2]
    user.leave()


@pytest.mark.realises("BOIL-MSG-2", "BOIL-MSG-3", "BJ-GEN-2")
@pytest.mark.parametrize("version", VERSIONS)
def test_jms_programs_write_and_read_the_format_of_an_existing_application(
    place: Place, session: Session, version: str
) -> None:
    """The format: a number of four bytes, then a text after its length of two, as many programs write it."""
    user = User(place, version)
    orders, bills = f"orders-{place.scheme}-{version}", f"bills-{place.scheme}-{version}"
    order = session.create_bytes_message()
    order.write_int(2)
    order.write_utf("tea")
    order.set_int_property("cups", 2)
    session.create_producer(session.create_queue(orders)).send(order, priority=7)
    user.connection.subscribe(f"/queue/{orders}", id="o", ack="auto")
    found = user.heard.next()
    assert found.body.encode() == b"\x00\x00\x00\x02\x00\x03tea"
    assert (found.headers["cups"], found.headers["priority"]) == ("2", "7")
    user.connection.send(f"/queue/{bills}", struct.pack(">iH", 70, 4) + b"euro")
    bill = received(session, bills)
    assert isinstance(bill, BytesMessage)
    assert (bill.read_int(), bill.read_utf()) == (70, "euro")
    user.leave()

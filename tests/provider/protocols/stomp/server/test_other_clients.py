"""What clients of other brokers write and wait for besides what STOMP asks of them."""

from __future__ import annotations

import pytest

from pyjms_provider.protocols.stomp.codec import BEFORE_LOGIN
from tests.provider.protocols.stomp.server.bench import Bench, Client

VERSIONS = ["1.0", "1.1", "1.2"]


def written(client: Client) -> bytes:
    """Return all that is written until nothing is left to do."""
    data = b""
    while True:
        while client.transport.jobs:
            client.transport.jobs.pop(0)()
        more = client.pull()
        if not more and not client.transport.jobs:
            return data
        data += more


@pytest.mark.parametrize("version", VERSIONS)
def test_each_frame_is_followed_by_a_line_end_in_every_version(bench: Bench, version: str) -> None:
    client = Client(bench, version=version)
    client.send("CONNECT", **({} if version == "1.0" else {"accept_version": version, "host": ""}))
    data = written(client)
    client.send("SUBSCRIBE", id="s", destination="/queue/orders", receipt="subscribed")
    client.send("SEND", b"one", destination="/queue/orders", receipt="sent")
    client.send("SEND", b"two", destination="/queue/orders")
    data += written(client)
    client.send("UNSUBSCRIBE", id="s", destination="/queue/orders")
    client.send("SUBSCRIBE", id="b", destination="/queue/orders", browser="true")
    data += written(client)
    client.send("NONSENSE")
    data += written(client)
    commands = [frame.command for frame in client.frames]
    assert sorted(set(commands)) == ["CONNECTED", "ERROR", "MESSAGE", "RECEIPT"]
    assert data.count(b"\0\n") == data.count(b"\0") == len(commands)
    assert data.endswith(b"\0\n")


def test_an_error_before_the_login_is_followed_by_a_line_end_too(bench: Bench) -> None:
    client = Client(bench)
    client.send("SEND", destination="/queue/orders")
    assert written(client).endswith(b"\0\n")
    assert client.frames[0].command == "ERROR"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("body", [b"\n", b"\r\n", b"\n\n", b"hello", b"x" * BEFORE_LOGIN.body_max])
@pytest.mark.parametrize("command", ["CONNECT", "STOMP"])
def test_a_body_of_connect_is_passed_over(bench: Bench, version: str, body: bytes, command: str) -> None:
    client = Client(bench, version=version)
    client.feed(f"{command}\naccept-version:{version}\nhost:x\n\n".encode() + body + b"\0")
    assert client.next().command == "CONNECTED"
    client.send("SEND", b"there", destination="/queue/orders", receipt="1")
    assert client.next().command == "RECEIPT"


def test_a_stranger_cannot_make_the_broker_hold_a_long_body(bench: Bench) -> None:
    client = Client(bench)
    client.feed(b"CONNECT\naccept-version:1.2\nhost:x\n\n" + b"x" * (BEFORE_LOGIN.body_max + 1))
    answer = client.next()
    assert answer.command == "ERROR"
    assert str(BEFORE_LOGIN.body_max) in answer.headers["message"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("between", [b"\0", b"\n", b"\0\0\n", b"\n\0", b"\r\n\0\r\n\0", b"\n" * 5_000, b"\0" * 5_000])
@pytest.mark.parametrize("is_cut", [False, True])
def test_nuls_and_line_ends_between_frames_are_passed_over(
    bench: Bench, version: str, between: bytes, is_cut: bool
) -> None:
    client = Client(bench, version=version)
    connect = f"CONNECT\naccept-version:{version}\nhost:x\n\n\0".encode()
    send = b"SEND\ndestination:/queue/orders\nreceipt:1\n\nhello\0"
    pieces = [between, connect, between, send, between, send.replace(b"receipt:1", b"receipt:2"), between]
    for piece in pieces if is_cut else [b"".join(pieces)]:
        client.feed(piece)
        client.settle()
    answers = client.all()
    assert [each.command for each in answers] == ["CONNECTED", "RECEIPT", "RECEIPT"], answers


@pytest.mark.parametrize("command", ["SUBSCRIBE", "BEGIN", "DISCONNECT"])
def test_a_body_where_stomp_has_none_is_passed_over(bench: Bench, command: str) -> None:
    client = bench.connect()
    client.send(command, b"\n", id="1", transaction="t", destination="/queue/orders", receipt="done")
    assert client.next().headers["receipt-id"] == "done"

"""Clients that mean harm: the broker refuses them, in bounded memory and time, and goes on serving the others."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from select import select
from time import monotonic

import pytest

from pyjms import ConnectionFactory, Session
from pyjms.testing import VirtualClock
from pyjms_provider.security.passwords import HashSettings, PasswordHasher
from pyjms_provider.security.user_file import UserFile
from pyjms_provider.serving.served_broker import ServedBroker
from tests.system.network.raw import Raw
from tests.system.network.served import anonymous_broker, connections_of, make_queue, port_of, user_broker

PATIENCE_S = 20.0
_LOGIN_MS = 10_000
_STALLED_MS = 2_000
_BEAT_MS = 8_000
"""After so long a broker says something."""
_GRAIN_MS = 20
"""By so much alarms may be late."""


@pytest.fixture
def broker() -> Iterator[ServedBroker]:
    with anonymous_broker() as broker:
        yield broker


def opened(broker: ServedBroker) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port_of(broker)), timeout=PATIENCE_S)


def all_of(connection: socket.socket) -> bytes:
    """Return what comes until the broker hangs up."""
    parts = []
    try:
        while data := connection.recv(65536):
            parts.append(data)
    except ConnectionResetError:
        pass  # what was still being sent is of no interest to it
    return b"".join(parts)


def serves_others(broker: ServedBroker) -> bool:
    """Say whether a client that means well is served."""
    with ConnectionFactory(f"stomp://127.0.0.1:{port_of(broker)}").create_connection() as connection:
        connection.start()
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        queue = session.create_temporary_queue()
        session.create_producer(queue).send(session.create_text_message("well"))
        return session.create_consumer(queue).receive(10_000) is not None


def test_who_says_his_login_byte_by_byte_is_hung_up_on() -> None:
    clock = VirtualClock()  # on a busy machine who means well takes long, too
    with anonymous_broker(clock, login_timeout_ms=_LOGIN_MS) as broker:
        slow = [opened(broker) for _ in range(50)]
        for connection in slow:
            connection.sendall(b"CONN")
        assert serves_others(broker)
        clock.await_wait(2 * _LOGIN_MS)
        clock.advance(2 * _LOGIN_MS)
        for connection in slow:
            assert b"nobody logged in" in all_of(connection)
            connection.close()


@pytest.mark.parametrize(
    ("bytes_", "says"),
    [
        (b"CONNECT\n" + b"a:b\n" * 100_000, b"headers"),
        (b"CONNECT\nx:" + b"y" * 1_000_000, b"header"),
        (b"Z" * 1_000_000, b""),
        (b"CONNECT\ncontent-length:99999999999\n\n", b"body"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n\0", b"ERROR"),
    ],
)
def test_bombs_before_login_are_refused(broker: ServedBroker, bytes_: bytes, says: bytes) -> None:
    with opened(broker) as connection:
        with suppress(ConnectionResetError, BrokenPipeError):  # it has hung up already
            connection.sendall(bytes_)
        answer = all_of(connection)
    if answer or len(bytes_) < 1_000:  # of a flood the system may drop the answer, and what is small it hears out
        assert answer.startswith(b"ERROR")
        assert says in answer
    assert serves_others(broker)


def test_a_frame_without_end_is_refused_at_its_limit(broker: ServedBroker) -> None:
    with opened(broker) as connection:
        connection.sendall(b"CONNECT\naccept-version:1.2\nhost:x\n\n\0")
        assert connection.recv(65536).startswith(b"CONNECTED")
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            connection.sendall(b"SEND\ndestination:/queue/q\n\n")
            while True:
                connection.sendall(b"x" * 1_000_000)
    assert serves_others(broker)


def test_who_asks_without_reading_is_not_read(broker: ServedBroker) -> None:
    with opened(broker) as connection:
        connection.sendall(b"CONNECT\naccept-version:1.2\nhost:x\npyjms-profile:1\n\n\0")
        assert connection.recv(65536).startswith(b"CONNECTED")
        connection.settimeout(1.0)
        flood = b"NOTHING\nreceipt:" + b"r" * 4000 + b"\n\n\0"
        sent = 0
        with pytest.raises(TimeoutError):
            while sent < 400_000_000:
                sent += connection.send(flood * 100)
        assert serves_others(broker)


def test_another_users_temporary_queue_and_subscription_stay_his(broker: ServedBroker) -> None:
    factory = ConnectionFactory(f"stomp://127.0.0.1:{port_of(broker)}")
    with factory.create_connection() as owner:
        owner.client_id = "owner"
        session = owner.create_session(False, Session.AUTO_ACKNOWLEDGE)
        name = session.create_temporary_queue().queue_name
        session.create_durable_subscriber(session.create_topic("news"), "mine")
        with opened(broker) as thief:
            thief.sendall(b"CONNECT\naccept-version:1.2\nhost:x\n\n\0")
            assert thief.recv(65536).startswith(b"CONNECTED")
            thief.sendall(f"SUBSCRIBE\nid:s\ndestination:/temp-queue/{name}\n\n\0".encode())
            assert all_of(thief).startswith(b"ERROR")
        with opened(broker) as thief:
            thief.sendall(b"CONNECT\naccept-version:1.2\nhost:x\nclient-id:owner\n\n\0")
            assert b"PYJMS-CLIENT-ID" in all_of(thief)
    assert serves_others(broker)


def test_wrong_credentials_at_speed_are_refused_without_a_look_and_the_right_ones_come_in(tmp_path: Path) -> None:
    hasher = PasswordHasher(HashSettings(memory_kib=64, passes=1))
    UserFile(tmp_path / "users", hasher=hasher).add("ann", "a right password")
    audit = tmp_path / "audit.jsonl"
    clock = VirtualClock()  # guesses are forgiven with time
    with user_broker(tmp_path / "users", audit, clock, argon2_memory_kib=64, argon2_passes=1) as broker:

        def log_in(password: str, name: str = "ann") -> bytes:
            with opened(broker) as connection:
                frame = f"CONNECT\naccept-version:1.2\nhost:\nlogin:{name}\npasscode:{password}\n\n\0"
                connection.sendall(frame.encode())
                return connection.recv(65536)

        assert log_in("a right password").startswith(b"CONNECTED")
        answers = [log_in(f"guess {number}") for number in range(40)]
        assert all(answer.startswith(b"ERROR") for answer in answers)
        assert sum(b"code:PYJMS-ACCESS-ATTEMPTS" in answer for answer in answers) >= 25, (
            "after ten attempts none is looked at"
        )
        assert log_in("a right password").startswith(b"CONNECTED"), "guesses shut nobody out who was in"
        others = [log_in("guess", f"user-{number}") for number in range(80)]
        assert b"code:PYJMS-ACCESS-ATTEMPTS" in others[-1], "names that change help nobody"
    records = [json.loads(line) for line in audit.read_text().splitlines()]
    ann = [record for record in records if record.get("target") == "ann"]
    assert [record["result"] for record in ann] == ["done", "refused"], "of those that are alike one is written"
    assert ann[0]["who"] == "ann"
    assert ann[0]["after"] == {"port": "stomp"}
    refused = [record for record in records if record["result"] == "refused"]
    assert (
        sum(1 + record.get("after", {}).get("more", 0) for record in refused[:-1]) + refused[-1]["after"]["more"] == 120
    )


def test_who_reads_nothing_is_hung_up_on_when_the_port_says_so() -> None:
    """What had been written for it goes to others."""
    with anonymous_broker(stalled_timeout_ms=200) as broker:
        port = port_of(broker)
        with Raw(port) as sender, Raw(port) as stuck, Raw(port) as other:
            for _ in range(20):
                sender.say("SEND\ndestination:/queue/large\nreceipt:sent\n\n" + "x" * 1_000_000)
                sender.answer("sent")
            stuck.say("SUBSCRIBE\nid:1\ndestination:/queue/large\nack:client-individual\n\n")
            assert stuck.socket.recv(1) == b"M"
            other.say("SUBSCRIBE\nid:1\ndestination:/queue/large\nack:client-individual\n\n")
            assert [other.next().command for _ in range(20)] == ["MESSAGE"] * 20


_LARGE = 24_000_000
_MORE_THAN_UNDERWAY = 8_000_000
"""Bytes; the systems at both ends hold less of a connection. Who has read so many more has made the broker write."""


def read_of(connection: socket.socket, size: int) -> int:
    """Read at least so many bytes; return how many."""
    read = 0
    while read < size:
        data = connection.recv(65536)
        assert data, "the broker hung up"
        read += len(data)
    return read


def test_who_reads_slowly_is_hung_up_on_only_when_it_reads_nothing_more() -> None:
    clock = VirtualClock()
    with (
        anonymous_broker(clock, stalled_timeout_ms=_STALLED_MS) as broker,
        Raw(port_of(broker)) as sender,
        Raw(port_of(broker)) as slow,
        Raw(port_of(broker)) as other,
    ):
        slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        sender.say("SEND\ndestination:/queue/large\nreceipt:sent\n\n" + "x" * _LARGE)
        sender.answer("sent")
        slow.say("SUBSCRIBE\nid:1\ndestination:/queue/large\nack:client-individual\n\n")
        read = read_of(slow.socket, 1)
        for _ in range(2):
            clock.await_wait(_STALLED_MS + _GRAIN_MS)
            read += read_of(slow.socket, _MORE_THAN_UNDERWAY)
            clock.advance(_STALLED_MS + _GRAIN_MS)
        clock.await_wait(_STALLED_MS + _GRAIN_MS)
        assert read < _LARGE, "there is more to read"
        other.say("SUBSCRIBE\nid:1\ndestination:/queue/large\nack:client-individual\n\n")
        while select([other.socket], [], [], 0) == ([], [], []):  # its system may still have taken what was on its way
            clock.advance(_STALLED_MS + _GRAIN_MS)
            with suppress(TimeoutError):
                clock.await_wait(_STALLED_MS + _GRAIN_MS, patience_s=1.0)
        assert other.next().command == "MESSAGE"


def test_who_closes_its_socket_before_a_full_queue_is_missed_however_much_it_had_sent() -> None:
    """The broker does not read as far as to the end of what it sent, and it wanted no heart-beats."""
    clock = VirtualClock()
    with anonymous_broker(clock) as broker:
        make_queue(broker, name="narrow", max_messages=1, overflow="block")
        with Raw(port_of(broker)) as gone:
            for _ in range(40):
                gone.say("SEND\ndestination:/queue/narrow\n\n" + "x" * 100_000)
            assert connections_of(broker) == 1
        until = monotonic() + PATIENCE_S
        while connections_of(broker):
            assert monotonic() < until, "it is still there"
            clock.advance(_BEAT_MS + _GRAIN_MS)
            with suppress(TimeoutError):
                clock.await_wait(_BEAT_MS + _GRAIN_MS, patience_s=1.0)

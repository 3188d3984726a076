"""A disk that hangs, or is slow, holds up those who wait for it, and nobody else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from math import log2
from pathlib import Path

import pytest

from pyjms.spi.clock import SystemClock
from pyjms_provider.protocols.profile import commands
from pyjms_provider.protocols.stomp.packed import unpack_deliveries
from pyjms_provider.serving.served_broker import ServedBroker
from pyjms_provider.stores.codec import decode_plain
from tests.provider.helpers import ORDERS, make_envelope
from tests.system.network.raw import Raw, packed_body, sends
from tests.system.network.served import port_of, stored_broker
from tests.system.network.slow_disk import SlowDisk, slow_disk


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ServedBroker]:
    with stored_broker(f"sqlite:///{tmp_path}/x.db") as broker:
        yield broker


@pytest.fixture
def disk(broker: ServedBroker, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowDisk]:
    with slow_disk(broker, monkeypatch) as disk:
        yield disk


@pytest.fixture
def asleep(tmp_path: Path) -> Iterator[ServedBroker]:
    """Return a broker whose messages are on the disk alone: five orders."""
    with stored_broker(f"sqlite:///{tmp_path}/x.db") as first, Raw(port_of(first), packed=True) as sender:
        sender.do(commands.OpenSession(session="a"))
        for text in "abcde":
            sender.socket.sendall(sends(packed_body(make_envelope(text, persistent=True)), receipt=text))
            assert sender.answer(text).command == "RECEIPT"
    with stored_broker(f"sqlite:///{tmp_path}/x.db") as broker:
        yield broker


def is_served(port: int) -> bool:
    """Say whether a client's messages come and go."""
    with Raw(port) as other:
        other.say("SUBSCRIBE\nid:s\ndestination:/queue/others\n\n")
        other.say("SEND\ndestination:/queue/others\n\nx")
        return other.next().command == "MESSAGE"


@pytest.mark.parametrize(("selector", "is_plain"), [(None, False), ("JMSPriority = 4", True)])
def test_a_browser_whose_disk_hangs_holds_up_nobody(
    asleep: ServedBroker, monkeypatch: pytest.MonkeyPatch, selector: str | None, is_plain: bool
) -> None:
    port = port_of(asleep)
    with slow_disk(asleep, monkeypatch) as disk, Raw(port, packed=not is_plain) as browser:
        with disk.reads:
            if is_plain:
                more = "" if selector is None else f"selector:{selector}\n"
                browser.say(f"SUBSCRIBE\nid:b\ndestination:/queue/orders\nbrowser:true\n{more}\n")
            else:
                browser.do(commands.OpenSession(session="a"))
                browser.do(commands.Browse(session="a", id="b", address=ORDERS, selector=selector))
                browser.tell(commands.Credit(subscription="b", credit=5))
            disk.reads.wait_for(1)
            assert is_served(port)
        found = [browser.next() for _ in range(6)]
        assert [bytes(frame.body) for frame in found[:5]] == [b"a", b"b", b"c", b"d", b"e"]
        assert found[5].headers["browser"] == "end"


def searching(port: int, selector: str, *, is_plain: bool) -> Raw:
    """Return a connection with a consumer that looks for what its selector wants."""
    raw = Raw(port, packed=not is_plain)
    if is_plain:
        raw.say(f"SUBSCRIBE\nid:c\ndestination:/queue/orders\nack:client-individual\nselector:{selector}\n\n")
    else:
        raw.do(commands.Start())
        raw.do(commands.OpenSession(session="a"))
        raw.do(commands.Subscribe(session="a", id="c", address=ORDERS, selector=selector))
        raw.tell(commands.Credit(subscription="c", credit=5))
    return raw


def bodies(raw: Raw, count: int) -> list[str]:
    """Return the texts of so many messages that come next, whether several come in a frame or one."""
    found: list[str] = []
    while len(found) < count:
        frame = raw.next()
        assert frame.command in {"MESSAGE", "MESSAGES"}, frame
        if frame.command == "MESSAGE":
            found.append(bytes(frame.body).decode())
        else:
            arrived = unpack_deliveries(bytes(frame.body), int(frame.headers["first"]))
            found += [str(decode_plain(each.message).body) for each in arrived]
    return found


@pytest.mark.parametrize("is_plain", [True, False])
def test_a_consumer_with_a_selector_whose_disk_hangs_holds_up_nobody(
    asleep: ServedBroker, monkeypatch: pytest.MonkeyPatch, is_plain: bool
) -> None:
    port = port_of(asleep)
    with slow_disk(asleep, monkeypatch) as disk:
        with disk.reads:
            consumer = searching(port, "JMSPriority = 4", is_plain=is_plain)
            disk.reads.wait_for(1)
            assert is_served(port)
        with consumer:
            assert bodies(consumer, 5) == ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize("is_plain", [True, False])
def test_a_consumer_that_ends_while_the_disk_hangs_waits_for_nothing_and_the_messages_are_anothers(
    asleep: ServedBroker, monkeypatch: pytest.MonkeyPatch, is_plain: bool
) -> None:
    port = port_of(asleep)
    with slow_disk(asleep, monkeypatch) as disk:
        with disk.reads, searching(port, "JMSPriority = 4", is_plain=is_plain) as consumer:
            disk.reads.wait_for(1)
            if is_plain:
                consumer.say("UNSUBSCRIBE\nid:c\nreceipt:done\n\n")
                assert consumer.answer("done").command == "RECEIPT"
            else:
                assert consumer.do(commands.Credit(subscription="c", revoke=True)).headers["left"] == "5"
                consumer.do(commands.Unsubscribe(id="c"))
        assert texts(port, 5) == ["a", "b", "c", "d", "e"]


def session_of(raw: Raw, *, transacted: bool) -> Raw:
    raw.do(commands.OpenSession(session="a", transacted=transacted))
    return raw


def texts(port: int, count: int) -> list[str]:
    """Take so many messages out of the queue."""
    with Raw(port) as reader:
        reader.say("SUBSCRIBE\nid:s\ndestination:/queue/orders\n\n")
        return [bytes(reader.next().body).decode() for _ in range(count)]


def test_transactions_of_many_connections_share_the_writes_of_a_disk_that_hangs(
    broker: ServedBroker, disk: SlowDisk
) -> None:
    disk.is_local = False  # as a database beyond a network: so all of it is done by threads
    port = port_of(broker)
    with ExitStack() as stack:
        clients = [session_of(stack.enter_context(Raw(port, packed=True)), transacted=True) for _ in range(6)]
        is_served(port)  # its queue is written before
        with disk.writes:
            before = disk.writes.passed
            for number, client in enumerate(clients):
                envelopes = [make_envelope(f"{number}.{index}", persistent=True) for index in range(20)]
                client.socket.sendall(sends(packed_body(*envelopes)))
                client.tell(commands.CommitTransaction(session="a"), "commit")
            disk.writes.wait_for(before + 1)
            assert is_served(port)
        for client in clients:
            assert client.answer("commit").command == "RECEIPT"
        assert disk.writes.passed - before <= 4, (
            "the first, which makes the queue, and then those who came meanwhile together"
        )
    found = texts(port, 120)
    for number in range(6):
        own = [text for text in found if text.startswith(f"{number}.")]
        assert own == [f"{number}.{index}" for index in range(20)]


def test_a_slow_disk_holds_up_the_loop_less_and_less_often(broker: ServedBroker, disk: SlowDisk) -> None:
    port, clock = port_of(broker), SystemClock()
    with ExitStack() as stack:
        clients = [session_of(stack.enter_context(Raw(port, packed=True)), transacted=False) for _ in range(3)]
        body = packed_body(make_envelope("x", persistent=True))
        began_ms = clock.monotonic_ms()
        disk.delay_s = 0.05
        for number in range(6):
            for client in clients:
                client.socket.sendall(sends(body, receipt=str(number)))
            for client in clients:
                assert client.answer(str(number)).command == "RECEIPT"
        passed_s = (clock.monotonic_ms() - began_ms) / 1000
        disk.delay_s = 0.0
    pauses = 1 + log2(
        1 + passed_s / 0.25
    )  # the first pause is a quarter of a second, and each is twice as long as the last
    assert disk.threads.count("pyjms network broker") <= pauses, disk.threads

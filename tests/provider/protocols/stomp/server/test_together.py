"""Confirmed sends that come at the same time, by one session or several connections, are one forced write."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pyjms.spi.envelope import Address, AddressKind, Envelope
from pyjms.spi.errors import InDoubtError, ResourceError
from pyjms.spi.url import ProviderUrl
from pyjms_provider.core.host.admission import DUPLICATE_ID
from pyjms_provider.core.journal.journal import Changes, Journal
from pyjms_provider.protocols.stomp.codec import encode as encode_frame
from pyjms_provider.protocols.stomp.frames import Frame, Version
from pyjms_provider.protocols.stomp.packed import sends_of
from pyjms_provider.security.contracts import Operation
from pyjms_provider.settings import read_url
from pyjms_provider.stores.codec import encode
from tests.provider.helpers import make_envelope
from tests.provider.protocols.stomp.server.bench import Bench
from tests.provider.protocols.stomp.server.pyjms_client import PyjmsClient, ready


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(broker=read_url(ProviderUrl.parse(f"vm://x?store=sqlite:///{tmp_path}/x.db"))[1])
    yield bench
    bench.close()


@pytest.fixture
def two(stored: Bench) -> list[PyjmsClient]:
    clients = [PyjmsClient(stored, is_packed=True) for _ in range(2)]
    for client in clients:
        client.session()
    clients[0].send(make_envelope("the first one makes the queue", persistent=True))
    return clients


def arrived(bench: Bench) -> list[str]:
    """Return what was sent since the queue was made."""
    return [str(text) for text in ready(bench).texts()[1:]]


def send_together(clients: list[PyjmsClient]) -> list[Frame]:
    """Have each client send one message, as they come in one turn of the loop; return what each is answered."""
    parts = []
    for number, client in enumerate(clients):
        frame = sends_of("a", encode(make_envelope(str(number), persistent=True)))
        frame.headers["receipt"] = f"r{number}"
        client.client.feed(encode_frame(frame, Version.V1_2))
        client.client.transport.jobs.clear()
        parts += client.client.transport.batches
    assert len({batch.together for batch, _ in parts}) == 1
    errors = parts[0][0].together([batch.part for batch, _ in parts])
    for (batch, done), error in zip(parts, errors, strict=True):
        batch.ended(error)
        done()
    return [client.client.next() for client in clients]


def journal_of(bench: Bench) -> Journal:
    storage = bench.broker.virtual_host.storage
    assert storage is not None
    return storage.journal


def watched(bench: Bench, monkeypatch: pytest.MonkeyPatch, fault: Exception | None = None) -> list[int]:
    """Return how many messages each write has, from now on; the first one of several fails with `fault`."""
    journal, writes = journal_of(bench), list[int]()
    write: Callable[..., None] = journal.write

    def counted(changes: Changes, *, force: bool) -> None:
        if changes.messages:
            assert force
            writes.append(len(changes.messages))
        if fault is not None and len(changes.messages) > 1:
            raise fault
        write(changes, force=force)

    monkeypatch.setattr(journal, "write", counted)
    return writes


def test_they_are_one_write_and_each_is_answered(
    stored: Bench, two: list[PyjmsClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    writes = watched(stored, monkeypatch)
    answers = send_together(two)
    assert [(answer.command, answer.headers["receipt-id"]) for answer in answers] == [
        ("RECEIPT", "r0"),
        ("RECEIPT", "r1"),
    ]
    assert writes == [2]
    assert arrived(stored) == ["0", "1"]


def test_who_may_not_send_is_refused_alone(
    stored: Bench, two: list[PyjmsClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    check = stored.rules.check
    asked = 0

    def second_is_denied(*arguments: object) -> None:
        nonlocal asked
        check(*arguments)  # type: ignore[arg-type]  # handed on
        if arguments[1] is Operation.WRITE:
            asked += 1
            if asked == 2:
                stored.rules.denied.add((Operation.WRITE, "orders"))
                check(*arguments)  # type: ignore[arg-type]  # handed on

    monkeypatch.setattr(stored.rules, "check", second_is_denied)
    assert [answer.command for answer in send_together(two)] == ["RECEIPT", "ERROR"]
    monkeypatch.undo()
    stored.rules.denied.clear()
    assert arrived(stored) == ["0"]


def test_if_the_write_fails_each_is_tried_alone(
    stored: Bench, two: list[PyjmsClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    writes = watched(stored, monkeypatch, ResourceError("one of them cannot be written"))
    added: list[object] = []
    journal = journal_of(stored)
    add: Callable[..., None] = journal.add

    def second_fails(*arguments: object) -> None:
        added.append(arguments)
        if len(added) == 2:
            raise ResourceError("it is this one")
        add(*arguments)

    monkeypatch.setattr(journal, "add", second_fails)
    answers = send_together(two)
    assert [answer.command for answer in answers] == ["RECEIPT", "ERROR"]
    assert b"it is this one" in bytes(answers[1].body)
    assert writes == [2]
    assert arrived(stored) == ["0"]


def test_if_nobody_knows_whether_it_was_written_all_are_told_so(
    stored: Bench, two: list[PyjmsClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    watched(stored, monkeypatch, InDoubtError("the disk went away"))
    assert [answer.headers["code"] for answer in send_together(two)] == ["PYJMS-IN-DOUBT"] * 2
    assert arrived(stored) == []


def test_a_queue_with_limits_has_its_own_way(
    stored: Bench, two: list[PyjmsClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    stored.broker.virtual_host.alter_queue("orders", max_messages=2)
    writes = watched(stored, monkeypatch)
    assert [answer.command for answer in send_together(two)] == ["RECEIPT", "ERROR"]
    assert max(writes, default=1) == 1
    assert arrived(stored) == ["0"]


def test_a_queue_that_goes_at_this_moment_takes_nothing_that_others_lose(
    stored: Bench, two: list[PyjmsClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = journal_of(stored)
    write: Callable[..., None] = journal.write

    def goes(changes: Changes, *, force: bool) -> None:
        write(changes, force=force)
        if len(changes.messages) > 1:
            stored.broker.virtual_host.destroy_queue("orders")

    monkeypatch.setattr(journal, "write", goes)
    assert [answer.command for answer in send_together(two)] == ["ERROR", "ERROR"]
    assert ready(stored).texts() == []


def test_what_is_over_hears_nothing(stored: Bench, two: list[PyjmsClient]) -> None:
    client = two[1].client
    client.feed(encode_frame(sends_of("a", encode(make_envelope("x", persistent=True))), Version.V1_2))
    ((batch, _),) = client.transport.batches
    client.transport.jobs.clear()
    client.hang_up()
    batch.ended(None)
    assert client.all() == []


def send_in_a_row(client: PyjmsClient, envelopes: Sequence[Envelope]) -> list[tuple[str, str]]:
    """Have one session send messages that come in one read; return the answers."""
    data = b""
    for number, envelope in enumerate(envelopes):
        frame = sends_of("a", encode(envelope))
        frame.headers["receipt"] = f"r{number}"
        data += encode_frame(frame, Version.V1_2)
    client.client.feed(data)
    return [(answer.command, answer.headers["receipt-id"]) for answer in client.client.all()]


@pytest.mark.parametrize("is_alone", [True, False])
def test_those_of_one_session_are_one_write_and_each_is_answered(
    stored: Bench, two: list[PyjmsClient], monkeypatch: pytest.MonkeyPatch, is_alone: bool
) -> None:
    writes = watched(stored, monkeypatch)
    two[0].client.transport.is_alone = is_alone
    answers = send_in_a_row(two[0], [make_envelope(str(number), persistent=True) for number in range(5)])
    assert answers == [("RECEIPT", f"r{number}") for number in range(5)]
    assert writes == [5]
    assert arrived(stored) == [*"01234"]


def test_one_that_is_not_written_with_others_does_not_overtake_them(
    stored: Bench, two: list[PyjmsClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    writes = watched(stored, monkeypatch)
    checked = {DUPLICATE_ID: "a"}
    envelopes = [
        make_envelope(str(number), persistent=True, properties=checked if number in (2, 4) else None)
        for number in range(6)
    ]
    assert [command for command, _ in send_in_a_row(two[0], envelopes)] == ["RECEIPT"] * 6
    assert writes[0] == 2
    assert arrived(stored) == [*"01235"]


def test_a_refusal_among_them_is_that_message_s_alone(stored: Bench, two: list[PyjmsClient]) -> None:
    stored.rules.denied.add((Operation.WRITE, "secrets"))
    secrets = replace(make_envelope("2", persistent=True), destination=Address(AddressKind.QUEUE, "secrets"))
    envelopes = [make_envelope("0", persistent=True), secrets, make_envelope("1", persistent=True)]
    answers = send_in_a_row(two[0], envelopes)
    assert answers == [("RECEIPT", "r0"), ("ERROR", "r1"), ("RECEIPT", "r2")]
    assert arrived(stored) == ["0", "1"]

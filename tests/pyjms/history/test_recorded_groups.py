"""What a recording tells of reader groups and staged units, and that the checker finds what goes wrong there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pyjms.history import Verdict, check, read, record
from pyjms.history.recorder import RecordedProvider
from pyjms.spi.errors import FencedError
from pyjms.spi.registry import find_provider
from pyjms.spi.replay import GroupRequest, OpenGroup, StageName
from pyjms.spi.url import ProviderUrl
from pyjms_provider.core.transaction.reader_groups import Group
from tests.provider.clients.world import consume, drain
from tests.provider.helpers import ORDERS, RecordedEvents, make_envelope

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyjms.history import Event, Recording
    from pyjms.spi.provider import ConnectRequest, ProviderConnection

URL = ProviderUrl.parse("vm://recorded-groups")


class Recorded:
    """A recorded connection and its group."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.connection = self.connect()
        self.groups = self.connection.reader_groups()
        self.opened: OpenGroup = self.groups.open(GroupRequest(name="g", address=ORDERS))

    def connect(self) -> ProviderConnection:
        provider = RecordedProvider(find_provider("vm"), self.recording)
        connection = provider.connect(_request(), RecordedEvents())
        connection.start()
        return connection

    def send(self, *texts: str) -> None:
        session = self.connection.open_session(transacted=False)
        for text in texts:
            session.send(make_envelope(text))

    def reserve(self, after: int = 0) -> int:
        return self.groups.reserve(self.opened, after=after, max_messages=10, max_bytes=None, wait_ms=0)

    def events(self) -> list[Event]:
        self.recording.flush()
        return sorted(read(self.recording.directory).events, key=lambda event: event.t0)

    def findings(self) -> set[str]:
        report = check(self.events(), complete=True)
        return {each.rule for each in report.findings if each.verdict is Verdict.VIOLATION}


def _request() -> ConnectRequest:
    from pyjms.spi.clock import SystemClock
    from pyjms.spi.provider import ConnectRequest

    return ConnectRequest(url=URL, user_name=None, password=None, client_id=None, clock=SystemClock())


@pytest.fixture
def recorded(tmp_path: Path) -> Iterator[Recorded]:
    with record(tmp_path / "history", run="r1", synchronous=True) as recording:
        made = Recorded(recording)
        yield made
        made.connection.close()
    find_provider("vm").stop_broker(URL)


def test_what_a_group_reserves_is_delivered_to_it_once_and_acknowledged_by_number(recorded: Recorded) -> None:
    recorded.send("a", "b", "c")
    assert recorded.reserve() == 3
    recorded.groups.read("g", recorded.opened.group.generation, after=0, upto=3)
    recorded.groups.acknowledge(recorded.opened, 2)
    recorded.reserve(2)
    recorded.groups.acknowledge(recorded.opened, 3)
    found = recorded.events()
    name = f"group g/{recorded.opened.group.generation}"
    assert [(event.consumer, event.dn) for event in found if event.op == "deliver"] == [(name, 1), (name, 2), (name, 3)]
    assert [(event.dn, event.ok) for event in found if event.op == "ack"] == [(1, "ok"), (2, "ok"), (3, "ok")]
    assert recorded.findings() == set()


def test_another_connection_goes_on_for_the_same_consumer(recorded: Recorded) -> None:
    recorded.send("a", "b")
    recorded.reserve()
    other = recorded.connect()
    taken = other.reader_groups().open(GroupRequest(name="g", address=ORDERS))
    with pytest.raises(FencedError):
        recorded.groups.acknowledge(recorded.opened, 1)
    other.reader_groups().acknowledge(taken, 2)
    other.close()
    assert [(event.dn, event.ok) for event in recorded.events() if event.op == "ack"] == [
        (1, "fail"),
        (1, "ok"),
        (2, "ok"),
    ]
    assert recorded.findings() == set()


def test_what_is_released_comes_again_to_others_without_a_finding(recorded: Recorded) -> None:
    recorded.send("a", "b")
    recorded.reserve()
    assert recorded.groups.release("g") == 2
    session = recorded.connection.open_session(transacted=False)
    assert drain(session, consume(session)) == ["a", "b"]  # type: ignore[arg-type]  # a recorded one
    assert recorded.findings() == set()


def test_a_message_that_comes_again_after_its_acknowledgement_is_found(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded.send("a")
    recorded.reserve()
    monkeypatch.setattr(Group, "settle", lambda group, upto, gone: group.give_back_unseen(gone))
    recorded.groups.acknowledge(recorded.opened, 1)
    session = recorded.connection.open_session(transacted=False)
    assert drain(session, consume(session)) == ["a"]  # type: ignore[arg-type]  # a recorded one
    assert recorded.findings()


def test_a_staged_unit_may_be_seen_or_not(recorded: Recorded) -> None:
    session = recorded.connection.open_session(transacted=True)
    for number in (0, 1):
        session.send(make_envelope(f"{number}"))
        session.stage(StageName("sink", number, 0, "a"), keep_s=60)
    recorded.connection.stages().promote("sink", 0, [StageName("sink", 0, 0, "a")])
    reader = recorded.connection.open_session(transacted=False)
    assert drain(reader, consume(reader)) == ["0"]  # type: ignore[arg-type]  # a recorded one
    assert [event.ok for event in recorded.events() if event.op == "commit"] == ["unknown", "unknown"]
    assert recorded.findings() == set()

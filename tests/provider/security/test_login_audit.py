"""Log-ins in the audit log: who came and who was refused, and no more of it than a disk bears."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pyjms.testing import VirtualClock
from pyjms_provider.security.audit import AuditAction, AuditLog, AuditRecord, AuditResult, LoginAudit
from pyjms_provider.security.contracts import Principal


class World:
    """An audit log by hand."""

    def __init__(self, path: Path) -> None:
        self.clock = VirtualClock(start_ms=0)
        self._path = path
        self._audit = AuditLog(self.clock, path=path)
        self.logins = LoginAudit(self._audit, self.clock)

    def close(self) -> None:
        self.logins.close()
        self._audit.close()

    def come(self, name: str = "ann", peer: str = "192.0.2.7:50000", *, provider: str = "users") -> None:
        who = Principal(name=name, provider=provider)
        self._note(who, "", peer, AuditResult.DONE)

    def refuse(self, name: str = "ann", peer: str = "192.0.2.7:50000") -> None:
        self._note(None, name, peer, AuditResult.REFUSED)

    def _note(self, who: Principal | None, target: str, peer: str, result: AuditResult) -> None:
        record = AuditRecord(
            action=AuditAction.LOG_IN, who=who, target=target, result=result, peer=peer, after={"port": "p"}
        )
        self.logins.note(record)

    def written(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self._path.read_text().splitlines()]

    def counts(self) -> list[int]:
        """Return how many log-ins each record tells of that have none of their own."""
        return [each["after"].get("more", 0) for each in self.written()]  # type: ignore[attr-defined]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "audit.jsonl")
    yield world
    world.close()


@pytest.mark.parametrize("note", [World.come, World.refuse])
def test_of_log_ins_that_are_alike_one_a_minute_is_written_and_the_others_are_counted(
    world: World, note: Callable[[World], None]
) -> None:
    for _ in range(5):
        note(world)
    world.clock.advance(59_999)
    note(world)
    assert world.counts() == [0]
    world.clock.advance(1)
    note(world)
    assert world.counts() == [0, 5]
    world.clock.advance(60_000)
    note(world)
    assert world.counts() == [0, 5, 0]


def test_others_are_not_alike(world: World) -> None:
    world.come()
    world.come(peer="192.0.2.7:50001")
    assert len(world.written()) == 1
    world.come(peer="192.0.2.8:50000")
    world.come("bob")
    world.come(provider="others")
    world.refuse()
    assert len(world.written()) == 5


def test_refusals_at_speed_are_a_hundred_and_then_one_a_second_whatever_names_they_offer(world: World) -> None:
    for number in range(1_000):
        world.refuse(f"user-{number}", peer=f"192.0.2.{number % 200}:1")
    assert len(world.written()) == 100
    world.come()
    assert world.counts()[-1] == 0
    world.clock.advance(1_000)
    world.refuse("one more")
    world.refuse("and another")
    assert world.counts()[101:] == [900]
    world.logins.close()
    assert world.counts()[102:] == [1]
    world.logins.close()
    assert len(world.written()) == 103


def test_the_end_tells_of_refusals_that_were_counted(world: World) -> None:
    for _ in range(4):
        world.refuse()
        world.come()
    world.logins.close()
    assert world.counts() == [0, 0, 3]
    assert world.written()[-1]["result"] == "refused"


def test_a_name_without_end_is_cut_and_few_names_are_remembered(world: World) -> None:
    for number in range(1_200):
        world.clock.advance(1_000)
        world.refuse(f"{number}" + "x" * 100_000)
        world.refuse(f"{number}" + "x" * 100_000)
    assert world.counts() == [0] * 1_001 + [1] * 199, "of what was forgotten, the next record tells"
    assert max(len(str(each["target"])) for each in world.written()) == 256
    world.logins.close()
    assert sum(world.counts()) == 1_200, "none that was forgotten is left out of the count"

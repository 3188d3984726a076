"""The demo on a durable broker is killed, again and again, and finished: its sums add up.

``PYJMS_DEMO_KILLS=100`` says how often it is killed at random moments; the default is 5.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from random import Random
from threading import Event
from typing import Any

import pytest

from tests.system.nursery import Child

pytestmark = pytest.mark.xdist_group("forked")  # what they are forked from is made once
KILLS = int(os.environ.get("PYJMS_DEMO_KILLS", "5"))
MORTAL = "tests.pyjms.demo.mortal:run"
RECORDS = 60
URL = "vm://demo?synchronous=off"  # the death of a process loses nothing that was written, forced or not
WORKING = ("load", "check", "look up", "dispatch", "ledger", "board", "audit")


class Site:
    """A store, and the processes that run the demo on it, one after the other."""

    def __init__(self, directory: Path) -> None:
        rows = [f"{number},{'Rome' if number % 3 else ''},{number / 4}" for number in range(1, RECORDS + 1)]
        self.file = directory / "orders.csv"
        self.file.write_text("order,city,price\n" + "\n".join(rows) + "\n")
        self.store = f"sqlite:///{directory / 'demo.db'}"
        self.directory = directory
        self.kills = 0

    def start(self, point: str) -> Child:
        arguments = [str(self.file), "--json", "--url", URL, "--store", self.store, "--failure-rate", "0.2"]
        return Child(MORTAL, point, *arguments, folder=self.directory, log=self.directory / "log")

    def log(self) -> str:
        return (self.directory / "log").read_text()[-4000:]

    def kill_after(self, seconds: float) -> None:
        """Kill a process that has worked so long, if it is still there."""
        child = self.start("-")
        assert child.read_line() == "working", self.log()
        Event().wait(seconds)  # the moment of death is what is random here
        self.kills += not child.has_ended()
        child.kill()

    def kill_at(self, point: str) -> bool:
        """Let a process work until it dies at the point; return whether it came there."""
        code, _ = self.start(point).end()
        assert code in {-9, 0}, self.log()
        return code == -9

    def finish(self) -> dict[str, Any]:
        """Let a process come to the end; return what it printed."""
        code, output = self.start("-").end()
        assert code == 0, output + self.log()
        data: dict[str, Any] = json.loads(output.removeprefix("working\n"))
        return data


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def check(data: dict[str, Any]) -> None:
    assert data["adds_up"]
    assert data["all_lanes"]["found"] == RECORDS
    assert data["all_lanes"]["found_total"] == data["input"]["total"] == sum(range(RECORDS + 1)) / 4
    stages = {stage["name"]: stage for stage in data["stages"]}
    assert [stages[name]["done"] for name in WORKING] == [RECORDS] * len(WORKING)
    assert stages["attention"]["done"] == RECORDS // 3


@pytest.mark.timeout(120 + 30 * KILLS)
def test_a_run_that_is_killed_at_random_adds_up(site: Site) -> None:
    random = Random(20263)
    for _ in range(KILLS):
        site.kill_after(random.uniform(0.3, 1.5))
    check(site.finish())
    assert site.kills, "no process was killed: all were done before"


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "points",
    [
        ["before begin:1", "after begin:1", "after commit:1", "before write:40", "after commit:40"],
        ["before unsubscribe:1", "after unsubscribe:3", "before audit:1", "after commit:2", "before outcome:1"],
    ],
    ids=["at the beginning and at work", "towards the end"],
)
def test_a_run_that_is_killed_at_a_named_point_adds_up(site: Site, points: Sequence[str]) -> None:
    assert [point for point in points if not site.kill_at(point)] == []
    data = site.finish()
    check(data)
    assert data["resumed"]


@pytest.mark.timeout(300)
def test_a_run_that_is_killed_when_all_was_told_leaves_nothing_for_the_next(site: Site) -> None:
    assert site.kill_at("after purge:4")
    data = site.finish()
    check(data)
    assert not data["resumed"]


def test_one_who_goes_on_sees_how_far_it_was(site: Site) -> None:
    assert site.kill_at("before audit:1")
    data = site.finish()
    stages = {stage["name"]: stage for stage in data["stages"]}
    assert data["resumed"]
    assert [stages[name]["before"] for name in ("load", "dispatch", "ledger", "audit")] == [RECORDS] * 3 + [0]
    assert not site.finish()["resumed"]

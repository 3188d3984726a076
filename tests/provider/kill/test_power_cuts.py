"""Cut the power of a machine with a broker and its store, again and again; then judge what its clients were told.

What was confirmed to be sent or committed stays. What was acknowledged may come again by default, but nothing that a client may have
seen comes without its flag; with ``acknowledge=forced`` nothing comes again. ``PYJMS_KILLS`` says how often, as for kills.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Protocol
from urllib.parse import quote

import pytest

from pyjms.history import Finding
from pyjms.history.events import BRANCH, COMMIT
from tests.needs.declaring import needing
from tests.provider.kill.crowd_site import CrowdSite
from tests.provider.kill.eater import QUEUE
from tests.provider.kill.power import lose_power
from tests.provider.kill.site import Site, bury, drained, start_process
from tests.provider.postgresql import PostgresqlServer

CUTS = max(4, int(os.environ.get("PYJMS_KILLS", "10")) // 4)
FORCED = "&acknowledge=forced"
POWER = "tests.provider.kill.power"
MAY_COME_AGAIN = {"delivered-after-ack", "duplicated"}
SENT = 300


class Machine(Protocol):
    """What may lose power: a store, and the disk below it."""

    store: str
    """Its URL, as the value of an option."""
    writes_by_itself: bool
    """Whether something may be forced although nobody asked for it."""

    def modules(self, seed: int) -> Sequence[str]:
        """Return what runs other modules over the disk, with their arguments."""

    def lose_power(self) -> None:
        """Forget what was not forced to the disk. Whoever worked with the store is dead."""


class MachineWithFile:
    """The broker's own machine, with an SQLite file."""

    writes_by_itself = False

    def __init__(self, directory: Path) -> None:
        self._store = directory / "killed.db"
        self._disk = directory / "disk"
        self.store = quote(f"sqlite:///{self._store}", safe="")

    def modules(self, seed: int) -> Sequence[str]:
        return POWER, str(self._disk), str(seed)

    def lose_power(self) -> None:
        lose_power(self._store, self._disk)


class MachineWithServer:
    """A machine on which broker and database server run."""

    writes_by_itself = True  # when the server's writer has done nothing for ten seconds

    def __init__(self, server: PostgresqlServer, lose_power: Callable[[], None]) -> None:
        self.store = quote(server.make_store(), safe="")
        self.lose_power = lose_power

    def modules(self, seed: int) -> Sequence[str]:
        return ()


@pytest.fixture(params=["sqlite", needing("postgresql")])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Machine]:
    if request.param == "sqlite":
        yield MachineWithFile(tmp_path)
        return
    server: PostgresqlServer = request.getfixturevalue("postgresql")
    with server.forgetful() as die:
        yield MachineWithServer(server, die)


class PoweredSite(Site):
    """A site on such a machine."""

    def __init__(self, machine: Machine, options: str, history: Path) -> None:
        super().__init__(f"vm://killed?store={machine.store}{options}", history)
        self._machine = machine

    def modules(self) -> Sequence[str]:
        return self._machine.modules(self.kills)

    def after_kill(self) -> None:
        self._machine.lose_power()


@pytest.mark.parametrize(
    ("options", "allowed"), [(FORCED, set[str]()), ("", MAY_COME_AGAIN)], ids=["forced", "written"]
)
@pytest.mark.timeout(120 + 30 * CUTS)
def test_nothing_that_was_confirmed_is_lost_however_often_the_power_fails(
    machine: Machine, tmp_path: Path, options: str, allowed: set[str]
) -> None:
    site = PoweredSite(machine, options, tmp_path / "history")
    site.kill_often(Random(1882), CUTS)
    site.drain()
    report, torn, complaints = site.judge()
    assert report.events > 50 * CUTS
    assert complaints == []
    assert [each.text for each in report.violations if each.rule not in allowed or _has_branch(each)] == []
    assert torn == []


def _has_branch(finding: Finding) -> bool:
    """Say whether a message came again though a branch had received it: what a coordinator is told is forced."""
    return any(event.op == COMMIT and (event.tx or "").startswith(BRANCH) for event in finding.events)


@pytest.mark.parametrize("options", [FORCED, ""], ids=["forced", "written"])
@pytest.mark.timeout(120 + 30 * CUTS)
def test_what_many_threads_were_told_is_true_however_often_the_power_fails(
    machine: Machine, tmp_path: Path, options: str
) -> None:
    random = Random(1883)
    site = CrowdSite(f"vm://crowd?store={machine.store}{options}", tmp_path / "told")
    for number in range(CUTS):
        site.live_and_die(random.uniform(0.1, 0.6), machine.modules(number))
        machine.lose_power()
    site.judge()
    assert len(site.sent) > 20 * CUTS
    assert site.done
    assert sorted(site.sent - site.got) == [], "these were confirmed, and are lost"
    assert site.unflagged == [], "these came again without their flag"
    if options == FORCED:
        assert site.repeated == [], "these were acknowledged, and came again"


@pytest.mark.parametrize("options", [FORCED, ""], ids=["forced", "written"])
@pytest.mark.timeout(120 + 30 * CUTS)
def test_what_is_confirmed_on_a_disk_that_fails_and_forgets_is_there_when_the_power_has_failed(
    tmp_path: Path, options: str
) -> None:
    random = Random(1884)
    machine = MachineWithFile(tmp_path)
    site = CrowdSite(f"vm://failing?store={machine.store}{options}", tmp_path / "told", "refused")
    for number in range(CUTS):
        _, disk, seed = machine.modules(number)
        site.live_and_die(random.uniform(0.5, 2), ("tests.provider.kill.failing", disk, seed))
        machine.lose_power()
    site.judge()
    assert len(site.sent) > 20 * CUTS
    assert sorted(site.sent - site.got) == [], "these were confirmed, and are lost"
    if options == FORCED:
        assert site.repeated == [], "these were acknowledged, and came again"


@pytest.mark.parametrize("eaten", [1, 99, 250])
def test_what_was_received_while_nobody_sent_comes_again_flagged(machine: Machine, eaten: int) -> None:
    url = f"vm://quiet?store={machine.store}"
    eater = start_process(*machine.modules(eaten), "tests.provider.kill.eater", url, str(SENT), str(eaten))
    try:
        bury(eater)
    finally:
        eater.kill()
    machine.lose_power()
    is_flagged = dict(drained(url, QUEUE))
    unseen = {str(number) for number in range(eaten, SENT)}
    assert is_flagged.keys() >= unseen, "these were confirmed, and are lost"
    assert [text for text in is_flagged.keys() - unseen if not is_flagged[text]] == []
    if not machine.writes_by_itself:
        assert is_flagged.keys() - unseen, "acknowledgements were forced, so this test shows nothing"

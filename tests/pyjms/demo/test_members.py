"""``pyjms demo --members``: over a cluster, one member of which is killed; and the end of all that it has started."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest
from rich.console import Console

from pyjms import JMSException
from pyjms.demo.members import ClusterRun
from pyjms.demo.settings import Chance, Settings
from tests.provider.commands.served import PYJMS, environment
from tests.pyjms.demo.command_line import Run

LONG_S = 120


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder for temporary ones that the server's user reaches, too, which is another one for root."""
    with tempfile.TemporaryDirectory(prefix="pyjms-tests-") as found:
        path = Path(found)
        path.chmod(0o755)
        yield path


@pytest.mark.requires("postgresql")
@pytest.mark.timeout(300)  # a quarter of a minute, and minutes where others use the machine, too
def test_nothing_is_lost_when_a_member_is_killed(run_pyjms: Run) -> None:
    code, out, errors = run_pyjms("demo", "--members", "2", "--limit", "20", "--lanes", "0", "--workers", "1", "--json")
    assert code == 0, errors
    data = json.loads(out)
    assert data["nothing_lost"]
    assert data["nothing_twice"]
    assert data["adds_up"]
    [death] = data["killed"]
    assert death["member"] == "left"
    assert death["looked_up"] >= 10, "it was killed in the middle"
    before = {stage["name"]: stage["before"] for stage in data["stages"]}
    assert before["load"] == 20, "the run was broken off, and went on from there"


def runs(pid: int) -> bool:
    """Return whether a process runs; one that has ended may wait for its parent, the first process of the machine."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.requires("postgresql")
@pytest.mark.timeout(300)
def test_ctrl_c_ends_all_that_it_has_started(place: Path) -> None:
    command = [*PYJMS, "demo", "--members", "2"]
    variables = environment(TMPDIR=str(place), PYTHONUNBUFFERED="1")
    process = subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    pids: list[int] = []
    while len(pids) < 2:
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        pids += map(int, re.findall(r"process ([0-9]+)", line))
    [server] = place.glob("pyjms-postgresql-*/data/postmaster.pid")
    pids.append(int(server.read_text().split()[0]))
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=LONG_S)
    assert process.returncode == 130, errors
    assert "Stopped: the members and PostgreSQL have ended" in errors
    assert not [pid for pid in pids if runs(pid)]
    assert list(place.iterdir()) == []


class Breaking:
    """A process whose first calls are broken off, as each leader that moves rolls transactions back."""

    breaks: ClassVar[list[str]] = []
    """The calls that are broken off."""

    def __init__(self, plan: object, settings: object) -> None:
        self.counters = ()

    def _call(self, name: str) -> None:
        if name in self.breaks:
            self.breaks.remove(name)
            raise JMSException(f"a leader has moved during {name}")

    def reach(self) -> None:
        self._call("reach")

    def run(self, watch: object) -> str:
        self._call("run")
        return "the outcome"


class TestBreaks:
    """A cluster's run that is broken off."""

    @pytest.fixture
    def told(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        monkeypatch.setattr("pyjms.demo.members.Process", Breaking)
        return []

    def run(self, told: list[str]) -> object:
        plan = SimpleNamespace(table=SimpleNamespace(records=range(20)))
        members = SimpleNamespace(url="stomp://left", deaths=[], all=[SimpleNamespace(pid=1)])
        settings = Settings(url="vm://", workers=1, chance=Chance(seed=1, rate=0))
        console = Console(quiet=True)
        return ClusterRun(plan, settings, members, told.append).run(console)  # type: ignore[arg-type]

    def test_it_goes_on_though_no_member_has_died(self, told: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Breaking, "breaks", ["reach", "reach", "run", "run"])
        assert self.run(told) == "the outcome"
        assert told == [
            f"The run was broken off: a leader has moved during {name}" for name in ("reach", "reach", "run", "run")
        ]

    def test_it_ends_with_the_reason_when_it_is_broken_off_too_often(
        self, told: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Breaking, "breaks", ["reach", *["run"] * 4])
        with pytest.raises(JMSException, match="broken off 5 times, the last time by: a leader has moved during run"):
            self.run(told)
        assert len(told) == 4


def test_without_postgresql_it_says_what_to_install(
    run_pyjms: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("pyjms.testing.postgresql._BINARIES", str(tmp_path))
    code, _, errors = run_pyjms("demo", "--members", "2")
    assert code == 2
    assert "apt install postgresql" in errors


@pytest.mark.parametrize("option", ["--url=vm://shop", "--store=sqlite:///shop.db", "--kills=2", "--folder=run"])
def test_other_demos_options_are_refused(run_pyjms: Run, option: str) -> None:
    code, _, errors = run_pyjms("demo", "--members", "2", option)
    assert code == 2
    assert f"leave {option.partition('=')[0]} out" in errors

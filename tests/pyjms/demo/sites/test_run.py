"""The demo over two sites is killed, started again, and kills a site: all adds up."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pyjms import JMSException
from pyjms.demo.sites import command as sites_command
from pyjms.demo.sites import run
from pyjms.demo.sites.run import Run, SiteError
from tests.pyjms.demo.command_line import Run as RunPyjms
from tests.pyjms.demo.command_line import runner

RECORDS = 160
"""An order each: both sites have so much to do that there is some of it left when the demo goes on, also on a busy machine."""
COMMAND = f"from pyjms.demo.sites import run; run._ORDERS_WANTED = {RECORDS}; from pyjms.cli import main; main()"


@pytest.fixture
def run_pyjms(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> RunPyjms:
    return runner(monkeypatch, capsys)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "orders.csv"
    rows = [f"{number},{'Rome' if number % 8 else ''},{number / 4}" for number in range(1, RECORDS + 1)]
    path.write_text("order,city,price\n" + "\n".join(rows) + "\n")
    return path


@pytest.fixture
def killed_demo(file: Path, tmp_path: Path) -> Path:
    """The folder of a demo that was killed as soon as its sites worked."""
    folder = tmp_path / "run"
    demo = subprocess.Popen(
        [sys.executable, "-c", COMMAND, "demo", str(file), "--folder", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert demo.stdout is not None
        lines = [demo.stdout.readline() for _ in range(3)]
    finally:
        demo.send_signal(signal.SIGKILL)
        _, errors = demo.communicate()
    assert "Oslo" in lines[2], (lines, errors)
    return folder


@pytest.mark.timeout(240)
@pytest.mark.realises("MOM-36", "MOM-38", "MOM-43", "MOM-54")
def test_a_demo_that_was_killed_goes_on_kills_a_site_and_adds_up(
    run_pyjms: RunPyjms, file: Path, killed_demo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "_ORDERS_WANTED", RECORDS)
    code, out, err = run_pyjms("demo", str(file), "--folder", str(killed_demo))
    assert code == 0, err
    assert f"orders.csv: {RECORDS} records in {RECORDS} orders, adding up price." in out
    assert "Going on with the run that was broken off." in out
    assert "Oslo was killed (kill -9, process " in out
    assert "Oslo is back after " in out
    assert "It adds up: 140 orders completed, 20 compensated. Nothing lost, nothing twice, nothing half done." in out
    assert json.loads((killed_demo / "run.json").read_text())["finished"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (
            ("--store", "sqlite:///a.db", "--folder", "x"),
            "--folder is for the demo over two sites, --store for the one",
        ),
        (
            ("--one-site", "--kills", "2"),
            "--kills is for the demo over two sites, --one-site for the one with one site",
        ),
        (("--folder", "HERE"), "holds files of somebody else"),
        (("--folder", "OTHER"), "holds a run that is not finished: other.csv"),
        (("--folder", "TORN"), "holds files of somebody else"),
        (("--folder", "FOREIGN"), "holds files of somebody else"),
        (("--folder", "BELOW A FILE"), "below cannot be used: Not a directory; name a folder that is yours to write"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_reason(
    run_pyjms: RunPyjms, file: Path, tmp_path: Path, arguments: tuple[str, ...], reason: str
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "run.json").write_text('{"plan": "another", "title": "other.csv", "finished": false}')
    places = {"HERE": str(tmp_path), "OTHER": str(other), "BELOW A FILE": str(file / "below")}
    for name, text in (("TORN", "{"), ("FOREIGN", "[1]")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text(text)
        places[name] = str(tmp_path / name)
    code, _, err = run_pyjms("demo", str(file), *(places.get(each, each) for each in arguments))
    assert code == 2
    assert reason in err


def test_a_demo_that_was_killed_in_its_first_write_begins(run_pyjms: RunPyjms, file: Path, tmp_path: Path) -> None:
    """It writes a new file first, and then puts it in place."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json.new").write_text('{"pl')
    code, out, err = run_pyjms("demo", str(file), "--folder", str(tmp_path / "run"), "--limit", "3", "--kills", "0")
    assert (code, "It adds up" in out) == (0, True), err


class Ending(Run):
    """Ends in the way that the test wants, before anything is started."""

    how: BaseException

    def reach(self) -> None:
        raise self.how


@pytest.mark.parametrize(
    ("how", "code", "told"),
    [
        (KeyboardInterrupt(), 130, "Start it again with the same options, and it goes on."),
        (SiteError("the site Oslo does not start: no memory"), 2, "no memory"),
        (JMSException("the connection is lost"), 1, "the connection is lost"),
    ],
)
def test_how_it_ends_is_told_in_one_line(
    run_pyjms: RunPyjms,
    file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    how: BaseException,
    code: int,
    told: str,
) -> None:
    monkeypatch.setattr(Ending, "how", how, raising=False)
    monkeypatch.setattr(sites_command, "Run", Ending)
    found, out, err = run_pyjms("demo", str(file), "--folder", str(tmp_path / "run"))
    assert (found, out, told in err, "Traceback" in err) == (code, "", True, False)


def test_what_is_missing_for_two_sites_is_named(
    run_pyjms: RunPyjms, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyjms.demo.sites.command", None)
    code, _, err = run_pyjms("demo", str(file))
    assert code == 2
    assert "pip install 'pyjms-messaging[broker,stomp]'" in err
    assert "--one-site" in err

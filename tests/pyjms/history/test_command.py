"""``pyjms history``: what it prints, and its exit codes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pyjms.history import Event, record
from pyjms.history.parquet import write_rows
from pyjms.history.rows import ROW
from tests.pyjms.demo.command_line import runner

if TYPE_CHECKING:
    from pathlib import Path

    from tests.pyjms.demo.command_line import Run

START_NS = 1_700_000_000 * 10**9


def event(op: str, at: int, ok: str = "ok", **columns: Any) -> Event:
    place = {"conn": "c", "sess": "c/1", "consumer": None, "mid": "ID:1", "dest": "queue://orders", **columns}
    return Event(run="r", node="n", pid="7", op=op, ok=ok, t0=START_NS + at, t1=START_NS + at + 500_000, **place)


SENT = event("send", 1_000_000, mode=2, prio=4, sn=1, exp=0, sha="s", tx="c/1#1")
COMMIT = event("commit", 2_000_000, mid=None, dest=None, tx="c/1#1")
GOT = event("deliver", 3_000_000, consumer="c/1/1", dn=1, prio=4, mode=2, redelivered=False, count=1, sha="s", exp=0)
ACK = event("ack", 4_000_000, consumer="c/1/1", dn=1)
GOOD = [SENT, COMMIT, GOT, ACK]
TWICE = [
    event("deliver", 5_000_000, consumer="c/1/1", dn=2, prio=4, mode=2, redelivered=True, count=2, sha="s", exp=0),
    event("ack", 6_000_000, "unknown", consumer="c/1/1", dn=2),
    event("close", 7_000_000, mid=None, dest=None),
]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(monkeypatch, capsys)


def write(directory: Path, events: list[Event]) -> str:
    directory.mkdir()
    rows = [[getattr(each, name) for name in ROW] for each in events]
    write_rows(directory / "x.parquet", rows, "r", "n")
    return str(directory)


def test_a_good_history_exits_with_0(run: Run, tmp_path: Path) -> None:
    assert run("history", "check", write(tmp_path / "h", GOOD)) == (0, "4 events: nothing found\n", "")


def test_a_violation_exits_with_1_and_shows_what_proves_it(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("history", "check", write(tmp_path / "h", GOOD + TWICE))
    lines = [line.strip() for line in out.splitlines()]
    assert code == 1
    assert lines[0] == (
        "violation delivered-after-ack: ID:1 was delivered again from queue://orders after its acknowledgement had "
        "returned (JMS 1.1 §4.4.11)"
    )
    assert lines[1].startswith("2023-11-14 22:13:20.003000")
    assert lines[1].endswith("delivered from queue://orders to c/1/1; delivery 1")
    assert lines[-1] == "7 events: 1 delivered-after-ack"


def test_a_warning_exits_with_3(run: Run, tmp_path: Path) -> None:
    directory = write(tmp_path / "h", [SENT, COMMIT])
    assert run("history", "check", directory)[0] == 3
    assert run("history", "check", directory, "--complete")[0] == 1
    assert run("history", "check", directory, "--without", "unaccounted")[0] == 0


def test_programs_get_json(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("history", "check", "--json", write(tmp_path / "h", GOOD + TWICE))
    data = json.loads(out)
    assert (code, data["verdict"], data["events"], data["counts"]) == (1, "violation", 7, {"delivered-after-ack": 1})
    (finding,) = data["findings"]
    assert [each["op"] for each in finding["events"]] == ["deliver", "ack", "deliver", "close"]
    assert (finding["message"], finding["destination"]) == ("ID:1", "queue://orders")


def test_the_story_of_a_message_is_told_in_order(run: Run, tmp_path: Path) -> None:
    directory = write(tmp_path / "h", list(reversed(GOOD + TWICE)))
    code, out, _ = run("history", "show", directory, "--message", "ID:1")
    told = [line.split("  7  ", 1)[1].strip() for line in out.splitlines()[1:]]
    assert code == 0
    assert told == [
        "sent to queue://orders by c/1 in transaction c/1#1; PERSISTENT, priority 4",
        "transaction c/1#1 committed",
        "delivered from queue://orders to c/1/1; delivery 1",
        "acknowledged by c/1",
        "delivered from queue://orders to c/1/1; delivery 2, JMSRedelivered",
        "acknowledged by c/1: outcome not known",
    ]
    code, out, _ = run("history", "show", directory, "--message", "ID:1", "--json")
    assert [each["op"] for each in json.loads(out)] == ["send", "commit", "deliver", "ack", "deliver", "ack"]


def test_what_cannot_be_used_exits_with_2(run: Run, tmp_path: Path) -> None:
    directory = write(tmp_path / "h", GOOD)
    for arguments, complaint in (
        (("check", str(tmp_path / "nowhere")), "there is no recorded history"),
        (("check", directory, "--without", "nonsense"), "there is no rule 'nonsense'"),
        (("show", directory, "--message", "ID:2"), "no message 'ID:2'"),
    ):
        code, out, err = run("history", *arguments)
        assert (code, out) == (2, "")
        assert complaint in err


def test_an_empty_recording_is_no_history(run: Run, tmp_path: Path) -> None:
    with record(tmp_path / "h"):
        pass
    assert run("history", "check", str(tmp_path / "h"))[0] == 2

"""Where recorded events go: files that are whole at any moment, and that a killed process leaves behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from itertools import count
from threading import Event as Flag
from threading import Thread
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from pyjms.history import HistoryError, Recording, check, parquet, read, record, recording
from pyjms.history.events import BEGIN_TX, COLUMNS, COMMIT, OK, SEND
from pyjms.history.journal import JournalFile
from pyjms.history.parquet import SCHEMA
from pyjms.history.rows import Call, Scope
from pyjms.spi.envelope import Address, AddressKind, BodyKind, Envelope, MessageId
from pyjms.spi.errors import MissingProviderError
from pyjms.spi.xid import Xid

if TYPE_CHECKING:
    from pathlib import Path

QUEUE = Address(AddressKind.QUEUE, "q")
PATIENCE_S = 30


def scope(made: Recording) -> Scope:
    return Scope(made.pid, "c", "c/1")


def note(made: Recording, where: Scope, number: int = 1) -> None:
    for _ in range(number):
        made.log.put(Call(BEGIN_TX, where, made.now_ns(), "t", None), OK, made.now_ns())


def names(directory: Path, pattern: str) -> list[str]:
    return sorted(path.name for path in directory.glob(pattern))


@pytest.mark.parametrize("synchronous", [False, True])
def test_the_files_have_the_columns_of_the_format(tmp_path: Path, synchronous: bool) -> None:
    with record(tmp_path, synchronous=synchronous) as made:
        note(made, scope(made))
    (file,) = tmp_path.glob("*")
    table = pq.read_table(file)
    assert table.schema.equals(SCHEMA)
    assert tuple(table.column_names) == COLUMNS
    types = {field.name: str(field.type) for field in table.schema}
    assert {name for name, kind in types.items() if kind == "string"} == {
        *("run", "node", "pid", "conn", "sess", "consumer", "op", "ok", "mid", "dest", "sub", "tx", "sha", "note")
    }
    assert (types["t0"], types["mode"], types["count"], types["redelivered"]) == ("int64", "int8", "int32", "bool")


def test_a_buffered_recording_writes_what_waits_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "INTERVAL_S", 0.01)
    written = Flag()
    with record(tmp_path) as made:
        write = parquet.write_rows

        def tell(*arguments: Any) -> None:
            write(*arguments)
            written.set()

        monkeypatch.setattr(parquet, "write_rows", tell)
        note(made, scope(made))
        assert written.wait(PATIENCE_S)
        assert len(read(tmp_path).events) == 1


def test_memory_is_bounded_by_making_the_caller_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "BUFFER_EVENTS", 10)
    monkeypatch.setattr(recording, "INTERVAL_S", 3600)
    with record(tmp_path) as made:
        note(made, scope(made), 25)
        assert len(read(tmp_path).events) == 20
    assert [event.n for event in read(tmp_path).events] == list(range(1, 26))


def test_threads_that_record_at_once_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "BUFFER_EVENTS", 50)
    for synchronous in (False, True):
        directory = tmp_path / str(synchronous)
        with record(directory, synchronous=synchronous) as made:
            scopes = [Scope(made.pid, "c", f"c/{number}") for number in range(4)]
            threads = [Thread(target=note, args=(made, each, 500)) for each in scopes]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(PATIENCE_S)
        found = read(directory).events
        for each in scopes:
            assert sorted(event.n or 0 for event in found if event.sess == each.sess) == list(range(1, 501))


def test_an_open_buffered_recording_counts_as_cut_off_and_softens_the_verdict(tmp_path: Path) -> None:
    with record(tmp_path) as made:
        made.flush()
        note(made, scope(made))
        made.flush()
        history = read(tmp_path)
        assert history.cut_off == (made.pid,)
        assert check(history).counts() == {"cut-off": 1}
        assert made.check().findings == ()
    assert read(tmp_path).cut_off == ()


def test_an_open_synchronous_recording_can_be_read_to_the_last_event(tmp_path: Path) -> None:
    with record(tmp_path, synchronous=True) as made:
        where = scope(made)
        note(made, where)
        begun = made.log.begin(Call(COMMIT, where, made.now_ns(), "t", None))
        history = read(tmp_path)
        assert [(event.op, event.ok, event.t1 is None) for event in history.events] == [
            ("begin_tx", "ok", False),
            ("commit", "unknown", True),
        ]
        assert not history.cut_off
        made.log.end(begun, OK, made.now_ns())
        assert [event.ok for event in read(tmp_path).events] == ["ok", "ok"]


def test_a_call_that_is_under_way_when_files_change_is_written_once(tmp_path: Path) -> None:
    with record(tmp_path, synchronous=True) as made:
        where = scope(made)
        begun = made.log.begin(Call(COMMIT, where, made.now_ns(), "t", None))
        note(made, where)
        made.flush()
        assert [(event.op, event.ok) for event in read(tmp_path).events] == [("begin_tx", "ok"), ("commit", "unknown")]
        made.log.end(begun, OK, made.now_ns())
        assert sorted((event.op, event.ok) for event in read(tmp_path).events) == [("begin_tx", "ok"), ("commit", "ok")]
    assert sorted((event.op, event.ok) for event in read(tmp_path).events) == [("begin_tx", "ok"), ("commit", "ok")]
    assert not names(tmp_path, "_*")


def test_a_journal_that_was_cut_short_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    with record(tmp_path, synchronous=True) as made:
        note(made, scope(made), 3)
        (journal,) = tmp_path.glob("_*.journal")
        copy = tmp_path / "copy"
        copy.mkdir()
        whole = journal.read_bytes()
    for length in range(len(whole)):
        (copy / journal.name).write_bytes(whole[:length])
        assert len(read(copy).events) == max(0, whole[: length + 1].count(b"\n") - 1)


def test_a_journal_beside_the_file_that_replaces_it_is_left_out(tmp_path: Path) -> None:
    with record(tmp_path, synchronous=True) as made:
        note(made, scope(made), 3)
        (journal,) = tmp_path.glob("_*.journal")
        content = journal.read_bytes()
    journal.write_bytes(content)
    assert len(read(tmp_path).events) == 3


CHILD = """
import sys
from pyjms import ConnectionFactory, Session
with ConnectionFactory(f"vm://child?record={sys.argv[1]}&record_synchronously=true").create_connection() as connection:
    session = connection.create_session(True, Session.SESSION_TRANSACTED)
    producer = session.create_producer(session.create_queue("q"))
    number = 0
    while True:
        producer.send(session.create_text_message("x"))
        session.commit()
        number += 1
        print(number, flush=True)
"""


def test_a_killed_process_leaves_every_event_that_it_had_seen(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    for line in child.stdout:
        if line.strip() == "50":
            break
    child.send_signal(signal.SIGKILL)
    told = 50 + len(child.stdout.read().split())
    child.wait(PATIENCE_S)
    child.stdout.close()
    history = read(tmp_path)
    commits = [event for event in history.events if event.op == COMMIT and event.ok == OK]
    assert told <= len(commits) <= told + 1
    assert not history.cut_off
    assert not check(history).violations


FORKING = """
import os, signal, sys
from pyjms.history import record
from pyjms.history.events import BEGIN_TX, OK
from pyjms.history.rows import Call, Scope

signal.alarm(25)
with record(sys.argv[1], synchronous=sys.argv[2] == "True") as made:
    scope = Scope(made.pid, "c", "c/1")

    def note():
        made.log.put(Call(BEGIN_TX, scope, made.now_ns(), "t", None), OK, made.now_ns())
        if not made.is_synchronous:
            made.flush()

    note()
    child = os.fork()
    if not child:
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
    note()
    print(made.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("synchronous", [False, True])
def test_a_forked_child_that_ends_leaves_the_recording_to_its_parent(tmp_path: Path, synchronous: bool) -> None:
    parent = subprocess.run(
        [sys.executable, "-c", FORKING, str(tmp_path), str(synchronous)],
        timeout=PATIENCE_S,
        capture_output=True,
        text=True,
        check=False,
    )
    assert parent.returncode == -signal.SIGKILL, parent.stderr
    history = read(tmp_path)
    assert [event.n for event in history.events] == [1, 2]
    assert history.cut_off == (() if synchronous else (parent.stdout.strip(),))


def test_a_recording_that_cannot_write_says_so_once_and_lets_the_client_go_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("no space left")

    for synchronous in (False, True):
        caplog.clear()
        directory = tmp_path / str(synchronous)
        with record(directory, synchronous=synchronous) as made:
            monkeypatch.setattr(parquet, "write_rows", fail)
            monkeypatch.setattr(JournalFile, "begin", fail)
            note(made, scope(made), 2)
            made.flush()
            note(made, scope(made), 2)
            made.flush()
        assert [record.message.count("no space left") for record in caplog.records] == [1]
        assert len(names(directory, "_*.open")) == 1
        monkeypatch.undo()


def test_what_is_no_history_is_refused_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=r"no recorded history in .*nowhere"):
        read(tmp_path / "nowhere")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(HistoryError, match=r"bad\.parquet cannot be read as a history"):
        read(tmp_path)


def test_other_events_than_those_of_the_format_are_refused(tmp_path: Path) -> None:
    head = {"run": "r", "node": "n", "columns": ["op", "ok", "t0"]}
    (tmp_path / "_n-1-aa-000001.journal").write_text(f'{json.dumps(head)}\n[1,["dance","ok",1]]\n')
    with pytest.raises(HistoryError, match="an event 'dance'"):
        read(tmp_path)


def test_files_of_others_may_lack_columns(tmp_path: Path) -> None:
    with record(tmp_path / "a") as made:
        note(made, scope(made))
    (file,) = (tmp_path / "a").glob("*.parquet")
    (tmp_path / "b").mkdir()
    pq.write_table(pq.read_table(file).drop_columns(["note", "sha"]), tmp_path / "b" / "other.parquet")
    (event,) = read(tmp_path / "b").events
    assert (event.op, event.note) == ("begin_tx", None)


def test_without_pyarrow_the_cure_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "pyjms.history.parquet")
    monkeypatch.delattr("pyjms.history.parquet")
    with pytest.raises(MissingProviderError, match=r"pip install 'pyjms-messaging\[history\]'"):
        record(tmp_path)


def test_importing_pyjms_imports_neither_the_history_nor_pyarrow() -> None:
    code = "import sys, pyjms; print([name for name in sys.modules if name.startswith(('pyarrow', 'pyjms.history'))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_deaths_and_expiries_that_no_connection_sees_can_be_told(tmp_path: Path) -> None:
    made = record(tmp_path)
    since = made.now_ns()
    made.broker_died(since)
    made.process_died(4711)
    made.expired("ID:1", QUEUE)
    one, two, three = read(tmp_path).events
    assert (one.op, one.pid, one.conn, one.t0) == ("crash", "", None, since)
    assert (two.op, two.pid) == ("crash", "4711")
    assert (three.op, three.mid, three.dest) == ("expire", "ID:1", "queue://q")


def test_what_became_of_a_branch_can_be_told(tmp_path: Path) -> None:
    made = record(tmp_path)
    since = made.now_ns()
    made.branch_ended(Xid(1, b"g", b"b"), committed=True, since_ns=since)
    made.branch_ended(Xid(1, b"h", b"b"), committed=False)
    one, two = read(tmp_path).events
    assert (one.op, one.ok, one.tx, one.sess, one.t0) == ("commit", "ok", "xa:1:67:62", None, since)
    assert (two.op, two.ok, two.tx, two.sess) == ("rollback", "ok", "xa:1:68:62", None)


def test_the_digest_stands_for_what_the_application_put_into_a_message(tmp_path: Path) -> None:
    numbers = count(1)

    def sha(**changes: object) -> str | None:
        fields: dict[str, object] = {
            "destination": QUEUE,
            "message_id": MessageId(f"ID:{next(numbers)}"),
            "timestamp_ms": next(numbers),
            "expiration_ms": 0,
            "delivery_mode": 2,
            "priority": 4,
            "correlation_id": None,
            "reply_to": None,
            "jms_type": None,
            "properties": {"a": 1},
            "body_kind": BodyKind.MAP,
            "body": {"x": 1, "y": "two"},
        }
        directory = tmp_path / str(next(numbers))
        with record(directory) as made:
            envelope = Envelope(**{**fields, **changes})  # type: ignore[arg-type]
            made.log.put(Call(SEND, scope(made), 1, None, envelope), OK, 2)
        (event,) = read(directory).events
        return event.sha

    plain = sha()
    assert sha(body={"y": "two", "x": 1}) == plain
    assert sha(properties={"a": 1, "JMSXDeliveryCount": 3, "JMS_pyjms_deadReason": "x"}) == plain
    assert sha(priority=9, delivery_mode=1, correlation_id=b"1") == plain
    others = [
        sha(body={"x": 1, "y": "too"}),
        sha(body={"x": "1", "y": "two"}),
        sha(properties={"a": 2}),
        sha(properties={"a": "1"}),
        sha(jms_type="t"),
        sha(correlation_id="c"),
        sha(body_kind=BodyKind.TEXT, body="\ud800"),
        sha(body_kind=BodyKind.NONE, body=None),
    ]
    assert len({plain, *others}) == 1 + len(others)


def test_a_recording_is_of_one_process(tmp_path: Path) -> None:
    one = recording.recording_at(str(tmp_path), synchronous=False)
    assert recording.recording_at(str(tmp_path), synchronous=False) is one
    assert recording.recording_at(str(tmp_path), synchronous=True) is not one
    assert one.pid == str(os.getpid())

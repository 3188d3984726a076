"""A recording under what goes wrong around it: closes at the wrong moment, full disks, files that cannot be opened."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from itertools import count
from pathlib import Path
from threading import Event as Flag
from threading import Thread
from threading import enumerate as enumerate_threads

import pytest

from pyjms import ConnectionFactory, IllegalArgumentException, Session
from pyjms.history import Recording, check, parquet, read, record, recording
from pyjms.history.events import BEGIN_TX, EXPIRE, OK, SEND
from pyjms.history.journal import JournalFile
from pyjms.history.rows import Call, Scope
from pyjms.spi.envelope import Address, AddressKind
from tests.needs.table import own_mounts

PATIENCE_S = 30
ROOT = Path(__file__).parents[3]


SCOPE = Scope("1", "c", "c/1")


@pytest.fixture(autouse=True)
def numbers() -> None:
    """Events are numbered from 1 in each test."""
    SCOPE.numbers = count(1)


def note(made: Recording, number: int = 1) -> None:
    for _ in range(number):
        made.log.put(Call(BEGIN_TX, SCOPE, made.now_ns(), "t", None), OK, made.now_ns())


def names(directory: Path, pattern: str) -> list[str]:
    return sorted(path.name for path in directory.glob(pattern))


def is_at_work(made: Recording) -> bool:
    """Say whether there is the thread that writes a recording's files."""
    return f"pyjms-history-{made.directory.name}" in {thread.name for thread in enumerate_threads()}


def no_room(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("synchronous", [False, True])
def test_who_opens_while_the_last_one_closes_is_recorded(
    tmp_path: Path, synchronous: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = record(tmp_path, synchronous=synchronous)
    made.acquire()
    opened = Flag()

    def open_another() -> None:
        made.acquire()
        opened.set()

    other = Thread(target=open_another)
    seal = made.log.seal

    def seal_meanwhile() -> None:
        other.start()
        opened.wait(0.2)  # it opens now, or waits until all is sealed
        seal()

    with monkeypatch.context() as patched:
        patched.setattr(made.log, "seal", seal_meanwhile)
        made.release()
    other.join(PATIENCE_S)
    assert opened.is_set()
    note(made, 3)
    assert is_at_work(made)
    assert len(names(tmp_path, "_*")) == 1  # the journal, or the mark
    made.release()
    assert not names(tmp_path, "_*")
    assert len(read(tmp_path).events) == 3


FULL = """
import os, subprocess, sys
from pathlib import Path
from pyjms import ConnectionFactory, Session
from pyjms.history import read
directory, when = Path(sys.argv[1]), sys.argv[2]
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(directory)], check=True)
ballast = directory / "ballast"
def fill(left):
    ballast.write_bytes(b"x" * (os.statvfs(directory).f_bavail * os.statvfs(directory).f_bsize - left))
if when == "from the first":
    fill(0)
with ConnectionFactory(f"vm://full?record={directory}&record_synchronously=true").create_connection() as connection:
    session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
    queue = session.create_queue("q")
    producer = session.create_producer(queue)
    producer.send(session.create_text_message("first"))
    if when == "later":
        fill(4096)
    for _ in range(100):
        producer.send(session.create_text_message("x"))
    if when == "later":
        assert read(directory).cut_off == (str(os.getpid()),), read(directory).cut_off
    ballast.unlink()
    for _ in range(10):
        message = session.create_text_message("after")
        producer.send(message)
        assert message.jms_message_id in {event.mid for event in read(directory).events}
    assert read(directory).cut_off == (str(os.getpid()),), read(directory).cut_off
    connection.start()
    consumer = session.create_consumer(queue)
    assert sum(consumer.receive_no_wait() is not None for _ in range(112)) == 111
assert read(directory).cut_off == (str(os.getpid()),)
"""


@pytest.mark.requires("unshare")
@pytest.mark.parametrize("when", ["later", "from the first"])
def test_a_full_disk_cuts_the_recording_off_and_leaves_the_client_alone(tmp_path: Path, when: str) -> None:
    namespace = own_mounts()
    assert namespace is not None
    script = [*namespace, sys.executable, "-c", FULL, str(tmp_path), when]
    done = subprocess.run(script, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("lacks events from now on") == 1


def test_a_line_that_was_cut_short_does_not_spoil_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, is_full = os.write, False

    def write_some(descriptor: int, data: memoryview) -> int:
        nonlocal is_full
        if not is_full:
            return write(descriptor, data)
        if len(data) < 20:
            no_room()
        return write(descriptor, data[:-10])  # as long as something fits in

    with record(tmp_path, synchronous=True) as made:
        monkeypatch.setattr(os, "write", write_some)
        note(made)
        is_full = True
        note(made)
        is_full = False
        note(made)
        monkeypatch.undo()
        history = read(tmp_path)
        assert [event.n for event in history.events] == [1, 3]
        assert history.cut_off == (made.pid,)


@pytest.mark.parametrize("memory", [1000, 5])
def test_where_no_next_journal_can_be_opened_the_old_one_goes_on(
    tmp_path: Path, memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with record(tmp_path, synchronous=True) as made:
        where = Scope(made.pid, "c", "c/2")
        begun = made.log.begin(Call(BEGIN_TX, where, made.now_ns(), "t", None))
        note(made, 10)
        with monkeypatch.context() as patched:
            patched.setattr(recording, "BUFFER_EVENTS", memory)
            patched.setattr(recording, "JournalFile", no_room)
            made.flush()
        note(made, 10)
        made.log.end(begun, OK, made.now_ns())
        assert [event.ok for event in read(tmp_path).events] == [OK] * 21
    history = read(tmp_path)
    assert len(history.events) == 21
    assert not history.cut_off
    assert len(names(tmp_path, "_*.journal")) == (memory < 10)


def test_a_next_journal_that_cannot_be_begun_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with record(tmp_path, synchronous=True) as made:
        made.log.begin(Call(BEGIN_TX, Scope(made.pid, "c", "c/2"), made.now_ns(), "t", None))
        before = names(tmp_path, "_*")
        with monkeypatch.context() as patched:
            patched.setattr(JournalFile, "begin", no_room)
            made.flush()
        with monkeypatch.context() as patched:
            patched.setattr(JournalFile, "_write", no_room)
            made.flush()
        assert names(tmp_path, "_*") == before


def test_a_recording_that_never_found_room_keeps_what_fits_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(recording, "JournalFile", no_room)
        made = record(tmp_path, synchronous=True)
        made.acquire()
        note(made, 2)
        made.flush()
        note(made, 2)
    note(made)
    made.release()
    assert sorted(event.n or 0 for event in read(tmp_path).events) == [1, 2, 3, 4, 5]


def test_a_parquet_file_that_cannot_be_written_loses_nothing_of_a_synchronous_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with record(tmp_path, synchronous=True) as made:
        note(made, 2)
        with monkeypatch.context() as patched:
            patched.setattr(parquet, "write_rows", no_room)
            made.flush()
        note(made, 2)
    history = read(tmp_path)
    assert sorted(event.n or 0 for event in history.events) == [1, 2, 3, 4]
    assert not history.cut_off
    assert [record.levelname for record in caplog.records] == ["WARNING"]


@pytest.mark.parametrize("text", ["", "{}", "[1]", "17", '{"pid"', "\ufffe\ud800"])
def test_a_mark_that_cannot_be_understood_is_one_of_a_recording_cut_off(tmp_path: Path, text: str) -> None:
    with record(tmp_path) as made:
        note(made)
    (tmp_path / "_far-away-host-4711-0a0b0c0d.open").write_bytes(text.encode("utf-8", "surrogatepass"))
    (tmp_path / "_odd.open").write_text("")
    assert read(tmp_path).cut_off == ("4711", "_odd")


@pytest.mark.parametrize("synchronous", [False, True])
def test_a_connection_after_one_that_could_not_begin_the_recording_is_recorded(
    tmp_path: Path, synchronous: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_thread(_: Thread) -> None:
        raise RuntimeError("can't start new thread")

    made = record(tmp_path, synchronous=synchronous)
    with monkeypatch.context() as patched:
        patched.setattr(Thread, "start", no_thread)
        with pytest.raises(RuntimeError):
            made.acquire()
    with made:
        note(made)
        assert is_at_work(made)
    history = read(tmp_path)
    assert len(history.events) == 1
    assert not history.cut_off


@pytest.mark.parametrize("synchronous", [False, True])
def test_a_connection_can_be_made_where_nothing_can_be_written(tmp_path: Path, synchronous: bool) -> None:
    directory, away = tmp_path / "history", tmp_path / "away"
    made = record(directory, synchronous=synchronous)
    factory = ConnectionFactory("vm://no-room", record=made)
    directory.rename(away)
    kept = factory.create_connection()
    away.rename(directory)
    with kept, factory.create_connection() as connection:
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        session.create_producer(session.create_queue("q")).send(session.create_text_message("x"))
    history = read(directory)
    assert [event.op for event in history.events].count(SEND) == 1
    assert history.cut_off == ((made.pid,) if synchronous else ())
    assert not check(history).violations


@pytest.mark.parametrize("synchronous", [False, True])
@pytest.mark.parametrize("below", ["", "history"])
def test_a_connection_can_be_made_where_the_directory_cannot_be(
    tmp_path: Path, below: str, caplog: pytest.LogCaptureFixture, *, synchronous: bool
) -> None:
    file = tmp_path / "file"
    file.write_text("not ours")
    directory = file / below
    url = f"vm://no-directory?record={directory}&record_synchronously={str(synchronous).lower()}"
    with ConnectionFactory(url).create_connection() as connection:
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        producer = session.create_producer(session.create_queue("q"))
        producer.send(session.create_text_message("before"))
    assert file.read_text() == "not ours"
    (told,) = caplog.records
    assert told.getMessage().startswith(f"the recording in {directory} lacks events from now on")
    file.unlink()
    directory.mkdir(parents=True)
    with ConnectionFactory(url).create_connection() as connection:
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        session.create_producer(session.create_queue("q")).send(session.create_text_message("after"))
    history = read(directory)
    assert SEND in {event.op for event in history.events}
    assert history.cut_off == (str(os.getpid()),)


@pytest.mark.parametrize("value", ["", "a\0b", "a\ud800"])
def test_what_can_name_no_directory_is_refused(value: str) -> None:
    with pytest.raises(IllegalArgumentException, match=r"record must name a directory.*leave it out"):
        ConnectionFactory("vm://no-directory", record=value)


def test_an_option_without_a_value_is_refused() -> None:
    with pytest.raises(IllegalArgumentException, match=r"record must name a directory.*leave it out"):
        ConnectionFactory("vm://no-directory?record=")


@pytest.mark.parametrize("synchronous", [False, True])
def test_names_that_utf_8_does_not_have_are_recorded(tmp_path: Path, synchronous: bool) -> None:
    with (
        record(tmp_path, synchronous=synchronous) as made,
        ConnectionFactory("vm://surrogates", record=made).create_connection() as connection,
    ):
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        session.create_producer(session.create_queue("é")).send(session.create_text_message("x"))
        made.expired("ID:1", Address(AddressKind.QUEUE, "a\ud800b"))  # as another provider may have it
        journals = (
            [event.dest for event in read(tmp_path).events if event.op in {SEND, EXPIRE}] if synchronous else None
        )
    history = read(tmp_path)
    destinations = [event.dest for event in history.events if event.op in {SEND, EXPIRE}]
    assert destinations == ["queue://é", "queue://a\\ud800b"]
    assert journals in (None, destinations)
    assert not history.cut_off


def test_what_no_file_can_hold_costs_what_was_recorded_with_it_and_no_more(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for synchronous in (False, True):
        caplog.clear()
        directory = tmp_path / str(synchronous)
        with record(directory, synchronous=synchronous) as made:
            made.log.put(Call(BEGIN_TX, SCOPE, 2**70, "t", None), OK, 1)
            made.flush()
            note(made, 2)
            made.flush()
            assert is_at_work(made)
        history = read(directory)
        assert len(history.events) == (3 if synchronous else 2)
        assert history.cut_off == (() if synchronous else (made.pid,))
        assert [record.levelname for record in caplog.records] == ["WARNING" if synchronous else "ERROR"]

"""The example of the guide to stores: reached by its entry point, killed, cut short, damaged, and on a disk that is full."""

from __future__ import annotations

import errno
import os
import re
import signal
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyjms import ConnectionFactory, Session, TextMessage
from pyjms.spi.clock import Signal, SystemClock
from pyjms.spi.errors import ClosedError, ProviderError, UrlError
from pyjms.testing import VirtualClock
from pyjms_provider.broker import stop_broker
from pyjms_provider.core.journal.journal import Changes, Journal
from pyjms_provider.model.broker import SystemConfig
from pyjms_provider.settings import StoreSettings
from pyjms_provider.stores.contract import StoreRequest
from pyjms_provider.stores.errors import (
    DamagedStoreError,
    ForeignStoreError,
    HeldStoreError,
    LostStoreError,
    NewerStoreError,
    StoreError,
    UnusableStoreError,
)
from pyjms_provider.stores.opening import configuration_store, open_store
from pyjms_provider.stores.testing import JournalHome
from pyjms_provider.stores.testing.configuration_suite import BROKER, PORT
from pyjms_provider.stores.testing.world import World
from tests.docs.log_store import EXAMPLE, log_store
from tests.provider.commands.served import BrokerProcess
from tests.provider.stores.installing import install, on_the_path
from tests.pyjms.spi.folder import GUIDE
from tests.tidy.source import ROOT

pytestmark = pytest.mark.realises("BJ-ST-6")

TEXT = (GUIDE / "stores.md").read_text("utf-8")
POINTS = "log = log_store:LogStore"


@pytest.fixture
def packages(tmp_path: Path) -> Iterator[Path]:
    """A folder that looks as if the example had been installed into it from a wheel."""
    folder = tmp_path / "packages"
    install(folder, "log-store", POINTS)
    (folder / EXAMPLE.name).write_text(EXAMPLE.read_text("utf-8"), "utf-8")
    with on_the_path(folder):
        yield folder


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "shop"


def opened(store: Path, *, lost: list[ProviderError] | None = None) -> Journal:
    request = StoreRequest(
        settings=StoreSettings(url=f"log://{store}"),
        holder="test",
        clock=VirtualClock(),
        on_lost=([] if lost is None else lost).append,
        cancelled=Signal(),
    )
    journal: Journal = log_store.LogStore().open_journal(request)
    return journal


def world(store: Path, *, lost: list[ProviderError] | None = None) -> World:
    return World(JournalHome(lambda _: opened(store, lost=lost)))


# Reached as its users reach it


@pytest.mark.usefixtures("packages")
def test_a_program_finds_what_it_has_sent(store: Path, request: pytest.FixtureRequest) -> None:
    request.addfinalizer(lambda: stop_broker("logged"))
    factory = ConnectionFactory(f"vm://logged?store=log://{store}")
    for expected in ([], ["1", "2"]):
        with factory.create_connection() as connection:
            connection.start()
            session = connection.create_session(True, Session.SESSION_TRANSACTED)
            queue = session.create_queue("orders")
            consumer = session.create_consumer(queue)
            found = [each.text for each in iter(consumer.receive_no_wait, None) if isinstance(each, TextMessage)]
            assert found == expected
            for text in ("1", "2"):
                session.create_producer(queue).send(session.create_text_message(text))
            session.commit()
        stop_broker("logged")


@pytest.mark.usefixtures("packages")
def test_a_served_broker_keeps_its_configuration_there(store: Path, tmp_path: Path) -> None:
    for _ in range(2):
        system = SystemConfig.opened(
            clock=VirtualClock(), broker={"name": "shop"}, context={"pyjms.work_dir": str(tmp_path)}
        )
        try:
            node = system.broker.create_child(
                "virtual_host_node", {"name": "main", "type": "store", "url": f"log://{store}"}
            )
            if not list(node.children("virtual_host")):
                made = node.create_child("virtual_host", {"name": "shop", "store_url": f"log://{store}"})
                made.create_child("queue", {"name": "orders", "description": "of the shop"})
            (host,) = node.children("virtual_host")
            (queue,) = host.children("queue")
            assert (queue.name, queue.attribute_values(["description"])) == ("orders", {"description": "of the shop"})
        finally:
            system.close()


def test_a_broker_that_is_killed_has_lost_nothing_and_holds_nothing(
    store: Path, tmp_path: Path, packages: Path
) -> None:
    path = os.pathsep.join(map(str, [packages, ROOT, ROOT / "provider"]))
    options = ("--listen", "stomp://127.0.0.1:0", "--anonymous", "--store", f"log://{store}")
    first = BrokerProcess(tmp_path, *options, variables={"PYTHONPATH": path})
    try:
        [url] = first.announced("stomp")
        with ConnectionFactory(url).create_connection() as connection:
            connection.start()
            session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
            queue = session.create_queue("orders")
            for text in ("one", "two", "three"):
                session.create_producer(queue).send(session.create_text_message(text))
            assert session.create_consumer(queue).receive(30_000) is not None
        with pytest.raises(HeldStoreError, match=rf"held by broker 'broker', process {first.process.pid} "):
            opened(store)
        first.end(signal.SIGKILL)
        home = opened(store)
        assert len(list(home.recover(lambda _: None).entries)) == 2
        home.close(clean=True)
    finally:
        first.end()


# What the disk may do to it


def test_a_log_that_was_cut_in_its_last_record_has_all_before_it(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _: None)  # it is opened a thousand times
    written = world(store)
    sent = written.add(written.message())
    log = store / "messages.log"
    before = log.stat().st_size
    written.add(written.message())
    whole = log.read_bytes()
    written.journal.close(clean=False)
    for end in range(before, len(whole)):
        for tail in (b"", bytes(len(whole) - end)):  # the file may have got its length, and not what is in it
            log.write_bytes(whole[:end] + tail)
            journal = opened(store)
            assert [entry.reference.id for entry in journal.recover(lambda _: None).entries] == [sent.reference.id]
            journal.close(clean=False)


def test_a_log_that_is_damaged_is_refused_and_left_as_it_is(store: Path) -> None:
    written = world(store)
    written.add(written.message())
    written.journal.close(clean=False)
    log = store / "messages.log"
    whole = log.read_bytes()
    damaged = bytearray(whole)
    damaged[60] ^= 1
    log.write_bytes(damaged)
    for _ in range(2):
        with pytest.raises(DamagedStoreError, match=r"messages\.log is damaged at byte 18; put a backup in its place"):
            opened(store)
    assert log.read_bytes() == damaged
    log.write_bytes(whole)
    opened(store).close(clean=True)


@pytest.mark.parametrize(
    ("content", "error", "says"),
    [
        (b"", ForeignStoreError, "is no log store"),
        (b"SQLite format 3\0", ForeignStoreError, "is no log store; name another folder"),
        (b"pyjms log store 2\nwhatever", NewerStoreError, "has version 2; install a newer log-store"),
        (b"pyjms log store 1\n" + log_store.framed(["x"])[:8] + b'["y"]', DamagedStoreError, "damaged at byte 18"),
    ],
)
def test_what_is_none_of_its_own_is_refused(store: Path, content: bytes, error: type[StoreError], says: str) -> None:
    store.mkdir()
    content += b"and more" if error is DamagedStoreError else b""
    for name in ("messages.log", "configuration.log"):
        (store / name).write_bytes(content)
    with pytest.raises(error, match=says):
        opened(store)
    with pytest.raises(error, match=says):
        log_store.LogStore().configuration_store(f"log://{store}").open("test")
    assert (store / "messages.log").read_bytes() == content


def test_a_record_that_is_not_understood_is_named(store: Path) -> None:
    store.mkdir()
    body = b'[{"Unheard":[]}]'
    framed = len(body).to_bytes(4, "big") + log_store.crc32(body).to_bytes(4, "big") + body
    (store / "messages.log").write_bytes(b"pyjms log store 1\n" + framed)
    with pytest.raises(DamagedStoreError, match="the record at byte 18 is not understood: KeyError"):
        opened(store)


def test_a_full_disk_refuses_and_takes_on_again(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = world(store)
    kept = written.add(written.message())
    refused, later = written.message(), written.message()
    written.journal.note(Changes(counts=[(written.queue, kept.reference, 3)]))
    write = os.pwrite

    def fill(file: int, data: bytes, at: int) -> int:
        if len(data) > 20:
            return write(file, data[:20], at)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr("os.pwrite", fill)
        with pytest.raises(StoreError, match=r"was not written: No space left .*; make room"):
            written.add(refused)
        with pytest.raises(StoreError, match="No space left"):
            written.journal.define_queue(log_store.QueueRecord(number=0, address=log_store.Address(1, "late")))
    written.add(later)
    found = written.reopen()
    assert found.ids == [(each.reference.id, written.queue) for each in (kept, later)]
    assert found.counts()[kept.reference.id, written.queue] == 3
    written.journal.close(clean=True)


def test_a_disk_that_fails_altogether_ends_it_and_that_is_told_once(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost: list[ProviderError] = []
    written = world(store, lost=lost)
    kept = written.add(written.message())

    def fail(*_: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", fail)
        patched.setattr("os.ftruncate", fail)
        for _ in range(2):
            with pytest.raises(LostStoreError, match=r"cannot be written any more: .*; start the broker again"):
                written.add(written.message())
    assert [type(error) for error in lost] == [LostStoreError]
    written.journal.close(clean=True)
    assert written.reopen().ids[0] == (kept.reference.id, written.queue)
    written.journal.close(clean=True)


def test_a_journal_that_cannot_write_its_end_is_closed_all_the_same(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = world(store)

    def fail(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr("os.pwrite", fail)
        written.journal.close(clean=True)
    with pytest.raises(ClosedError):
        written.add(written.message())
    assert not written.reopen().recovery.was_closed
    written.journal.close(clean=True)


def test_a_folder_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UnusableStoreError, match=r"cannot be made: .*; name another folder"):
        opened(tmp_path / "file" / "shop")
    (tmp_path / "shop" / "messages.log").mkdir(parents=True)
    with pytest.raises(UnusableStoreError, match="cannot be read"):
        opened(tmp_path / "shop")
    (tmp_path / "shop" / "messages.log").rmdir()
    (tmp_path / "shop" / "messages.new").mkdir()
    with pytest.raises(UnusableStoreError, match="cannot be written"):
        opened(tmp_path / "shop")


def test_a_configuration_that_was_cut_is_as_it_was_before(store: Path) -> None:
    kept = log_store.LogStore().configuration_store(f"log://{store}")
    kept.open("test")
    kept.update([BROKER])
    log = store / "configuration.log"
    before = log.stat().st_size
    kept.update([PORT])
    whole = log.read_bytes()
    kept.close()
    for end in range(before, len(whole), 7):
        log.write_bytes(whole[:end])
        assert list(kept.open("test")) == [BROKER]
        kept.close()


@pytest.mark.parametrize("url", ["log://here/x", "log:x", "log:///x?y=1", "log:///x#y", "log://"])
def test_urls_that_it_does_not_understand_are_refused(url: str) -> None:
    with pytest.raises(UrlError, match="write for instance log:///var/lib/shop"):
        log_store.folder_of(url)


# The guide


@pytest.mark.usefixtures("packages")
def test_the_packaging_of_the_guide_leads_to_the_class() -> None:
    fragment = tomllib.loads(TEXT.split("```toml\n")[1].split("```")[0])
    points = fragment["project"]["entry-points"]["pyjms.stores"]
    assert "\n".join(f"{scheme} = {value}" for scheme, value in points.items()) == POINTS
    assert type(configuration_store("log:///x", SystemClock())).__name__ == "LogConfigurationStore"


@pytest.mark.usefixtures("packages")
def test_the_entry_point_opens_the_journal(store: Path) -> None:
    journal = open_store(StoreSettings(url=f"log://{store}"), "test", VirtualClock(), on_lost=lambda _: None)
    assert type(journal).__module__ == "log_store"
    assert sys.modules["log_store"] is not log_store
    journal.close(clean=True)


def test_an_outside_project_runs_the_contracts_as_the_guide_says(pytester: pytest.Pytester, packages: Path) -> None:
    blocks = re.findall(r"```python\n# (\w+\.py)\n(.*?)```", TEXT, re.DOTALL)
    assert [name for name, _ in blocks] == ["conftest.py", "test_journal.py", "test_configuration.py"]
    for name, block in blocks:
        (pytester.path / name).write_text(block, "utf-8")
    pytester.makeini(f"[pytest]\npythonpath = {ROOT} {ROOT / 'provider'} {packages}\naddopts = --strict-markers\n")
    result = pytester.runpytest_subprocess("-p", "no:randomly", "-W", "error", "-q", "-k", "holder or kept or held")
    assert result.ret == pytest.ExitCode.OK
    assert result.parseoutcomes()["passed"] >= 8

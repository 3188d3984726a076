"""A consumer with a selector looks for messages on other threads if that takes a while; what comes, and to whom, is the same."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from shutil import copyfile
from typing import Any

import pytest

from pyjms.spi.delivery import Delivery, Elsewhere
from pyjms.spi.envelope import Envelope
from pyjms.spi.errors import ResourceError, RolledBackError
from pyjms.spi.xid import Xid
from pyjms_provider.clients.vm import VmConsumer
from pyjms_provider.core.message.reference import ReferenceId
from pyjms_provider.core.store import PagingMessageStore
from pyjms_provider.protocols.profile import commands
from pyjms_provider.protocols.stomp.command_frames import command_frame
from pyjms_provider.protocols.stomp.packed import unpack_deliveries
from pyjms_provider.security.contracts import Principal
from pyjms_provider.stores.codec import decode_plain
from tests.provider.helpers import NEWS, ORDERS, RecordedEvents, make_envelope
from tests.provider.protocols.stomp.server.bench import Bench, Client, bench_on
from tests.provider.protocols.stomp.server.pyjms_client import PyjmsClient, ids

COLOURS = ("red", "blue", "red", "blue", "red")
"""Of the messages a to e."""


def fill(bench: Bench, *envelopes: Envelope) -> None:
    """Send messages in one transaction."""
    connection = bench.host.connect(RecordedEvents(), principal=Principal(name="sender"), address="here")
    session = connection.open_session(transacted=True)
    for envelope in envelopes:
        session.send(envelope)
    session.commit()
    connection.close()


def coloured(text: str, colour: str, **fields: Any) -> Envelope:
    return make_envelope(text, persistent=True, properties={"colour": colour}, **fields)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store with the messages a to e."""
    directory = tmp_path_factory.mktemp("filled")
    bench = bench_on(directory)
    fill(bench, *map(coloured, "abcde", COLOURS))
    bench.close()
    return directory / "x.db"


@pytest.fixture
def reopened(filled: Path, tmp_path: Path) -> Iterator[Bench]:
    """Return a broker with these messages, none of which is in memory."""
    copyfile(filled, tmp_path / "x.db")
    bench = bench_on(tmp_path)
    yield bench
    bench.close()


class Disk:
    """Notes what is read from a broker's disk, and lets something happen meanwhile, once."""

    def __init__(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        storage = bench.broker.virtual_host.storage
        assert storage is not None
        self._read = storage.journal.read
        self.reads: list[int] = []
        self.meanwhile: Callable[[], object] = int
        monkeypatch.setattr(storage.journal, "read", self.read)

    def read(self, references: Sequence[ReferenceId]) -> dict[ReferenceId, Envelope]:
        self.reads.append(len(references))
        meanwhile, self.meanwhile = self.meanwhile, int
        meanwhile()
        return self._read(references)


@pytest.fixture
def disk(reopened: Bench, monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(reopened, monkeypatch)


class Consumer:
    """One consumer, of either dialect."""

    def __init__(
        self,
        bench: Bench,
        selector: str | None,
        *,
        is_plain: bool,
        credit: int = 100,
        transacted: bool = False,
        is_packed: bool = False,
    ) -> None:
        self.is_plain = is_plain
        if is_plain:
            self.client = bench.connect()
            more = {} if selector is None else {"selector": selector}
            headers = {"ack": "client-individual", "activemq.prefetchSize": str(credit), **more}
            self.client.send("SUBSCRIBE", id="c", destination="/queue/orders", **headers)
        else:
            self.pyjms = PyjmsClient(bench, is_packed=is_packed)
            self.pyjms.session(transacted=transacted)
            self.pyjms.do(commands.Subscribe(session="a", id="c", address=ORDERS, selector=selector))
            self.client = self.pyjms.client
            if credit:
                self.pyjms.tell(commands.Credit(subscription="c", credit=credit))
        self.client.settle_jobs()

    def search(self) -> Callable[[], None]:
        """Have it begin to look, and return what looks."""
        self.client.pull()
        (job,) = self.client.transport.jobs
        self.client.transport.jobs.clear()
        return job

    def texts(self) -> list[str]:
        """Return what comes."""
        self.client.settle()
        found: list[str] = []
        for frame in self.client.frames:
            if frame.command == "MESSAGES":
                arrived = unpack_deliveries(bytes(frame.body), int(frame.headers["first"]))
                found += [str(decode_plain(each.message).body) for each in arrived]
            elif frame.command == "MESSAGE":
                found.append(bytes(frame.body).decode())
        self.client.frames = [each for each in self.client.frames if not each.command.startswith("MESSAGE")]
        return found

    def end(self) -> None:
        """End the consumer, while its connection goes on."""
        if self.is_plain:
            self.client.send("UNSUBSCRIBE", id="c")
            self.client.settle_jobs()
        else:
            self.pyjms.do(commands.Unsubscribe(id="c"))


both_dialects = pytest.mark.parametrize("is_plain", [True, False], ids=["plain", "pyjms"])


def left_unmarked(bench: Bench) -> list[str]:
    """Take what is there; none of it has been delivered before."""
    client = PyjmsClient(bench)
    client.session()
    client.consume()
    frames = client.messages()
    assert {frame.headers["redelivered"] for frame in frames} <= {"false"}
    return [bytes(frame.body).decode() for frame in frames]


@both_dialects
def test_the_connections_thread_reads_nothing_and_nothing_overtakes_a_search(
    reopened: Bench, disk: Disk, is_plain: bool
) -> None:
    consumer = Consumer(reopened, "colour = 'blue'", is_plain=is_plain)
    search = consumer.search()
    assert not disk.reads
    assert not consumer.client.pull()
    assert not consumer.client.transport.jobs, "it looks once at a time"
    assert consumer.client.transport.briefs[-1] is False
    search()
    assert disk.reads == [5]
    assert consumer.texts() == ["b", "d"]


@both_dialects
def test_the_last_of_many_is_found_in_one_go_with_bounded_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_plain: bool
) -> None:
    first = bench_on(tmp_path, "&synchronous=off")
    fill(first, *[coloured(str(number), "blue" if number == 2_999 else "red") for number in range(3_000)])
    first.close()
    memory = 200_000
    bench = bench_on(tmp_path, f"&memory={memory}")
    store = bench.broker.virtual_host.store
    assert isinstance(store, PagingMessageStore)
    disk = Disk(bench, monkeypatch)
    consumer = Consumer(bench, "colour = 'blue'", is_plain=is_plain)
    search = consumer.search()
    served: list[str] = []

    def serve() -> None:
        other = bench.connect()
        other.send("SUBSCRIBE", id="s", destination="/queue/others")
        other.send("SEND", b"x", destination="/queue/others")
        served.extend(bytes(frame.body).decode() for frame in other.all())

    disk.meanwhile = serve
    search()
    assert served == ["x"]
    assert consumer.texts() == ["2999"]
    assert sum(disk.reads) == 3_000, "each is read once"
    assert max(disk.reads) <= 65
    assert store.bytes_in_memory <= memory * 9 / 8
    assert not consumer.client.transport.jobs
    bench.close()


@both_dialects
def test_nobody_looks_again_for_what_was_not_found(
    reopened: Bench, monkeypatch: pytest.MonkeyPatch, is_plain: bool
) -> None:
    polls: list[object] = []
    poll = VmConsumer.poll_at_once

    def noted(consumer: VmConsumer) -> Delivery | Elsewhere | None:
        polls.append(answer := poll(consumer))
        return answer

    consumer = Consumer(reopened, "colour = 'green'", is_plain=is_plain, credit=0 if not is_plain else 1)
    monkeypatch.setattr(VmConsumer, "poll_at_once", noted)
    if not is_plain:
        consumer.pyjms.tell(commands.Credit(subscription="c", credit=1))
    assert consumer.texts() == []
    assert polls == [Elsewhere.ELSEWHERE]
    fill(reopened, coloured("f", "green"))
    assert consumer.texts() == ["f"], "it waits for what comes"


class Halves:
    """Does jobs by hand, in two steps: the work, and what is told of it."""

    def __init__(self, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        self.jobs: list[tuple[Callable[[], Any], Callable[[Any, None], None]]] = []
        monkeypatch.setattr(client.transport, "work", self.work)

    def work(self, job: Callable[[], Any], done: Callable[[Any, None], None], **_: object) -> None:
        self.jobs.append((job, done))


@both_dialects
@pytest.mark.parametrize("moment", range(4))
@pytest.mark.parametrize("selector", ["colour = 'green'", "colour = 'blue'"], ids=["nothing else", "more"])
def test_what_comes_during_a_search_is_delivered(
    reopened: Bench, monkeypatch: pytest.MonkeyPatch, disk: Disk, is_plain: bool, moment: int, selector: str
) -> None:
    consumer = Consumer(reopened, selector, is_plain=is_plain)
    colour = selector.split("'")[1]
    come = partial(fill, reopened, coloured("f", colour))
    with monkeypatch.context() as patch:
        halves = Halves(consumer.client, patch)
        consumer.client.pull()
        ((job, done),) = halves.jobs
        if moment == 0:
            come()
        elif moment == 1:
            disk.meanwhile = come
        found = job()
        if moment == 2:
            come()
        done(found, None)
    if moment == 3:
        come()
    expected = ["f"] if colour == "green" else ["b", "d", "f"]
    assert consumer.texts() == expected


@both_dialects
@pytest.mark.parametrize("is_read", [True, False])
def test_what_an_ended_consumer_was_to_get_goes_back(reopened: Bench, is_plain: bool, is_read: bool) -> None:
    consumer = Consumer(reopened, "colour = 'red'", is_plain=is_plain)
    search = consumer.search()
    if is_read:
        search()
    consumer.end()
    if not is_read:
        search()
    assert consumer.texts() == []
    assert not consumer.client.engine.is_over
    assert left_unmarked(reopened) == list("abcde")


@both_dialects
def test_a_search_ends_with_its_consumer(reopened: Bench, disk: Disk, is_plain: bool) -> None:
    consumer = Consumer(reopened, "colour = 'green'", is_plain=is_plain)
    search = consumer.search()
    disk.meanwhile = consumer.end
    search()
    assert disk.reads == [5]
    assert consumer.texts() == []
    assert left_unmarked(reopened) == list("abcde")


@both_dialects
@pytest.mark.parametrize("moment", ["before", "meanwhile", "after"])
def test_a_connection_that_ends_during_a_search_loses_nothing(
    reopened: Bench, disk: Disk, is_plain: bool, moment: str
) -> None:
    consumer = Consumer(reopened, "colour = 'red'", is_plain=is_plain)
    search = consumer.search()
    if moment == "before":
        consumer.client.hang_up()
    elif moment == "meanwhile":
        disk.meanwhile = consumer.client.hang_up
    search()
    if moment == "after":
        consumer.client.hang_up()
    consumer.client.settle_jobs()
    other = PyjmsClient(reopened)
    other.session()
    other.consume()
    assert other.texts() == list("abcde")


@both_dialects
def test_a_broker_that_stops_during_a_search_ends_it(reopened: Bench, disk: Disk, is_plain: bool) -> None:
    consumer = Consumer(reopened, "colour = 'green'", is_plain=is_plain)
    search = consumer.search()
    disk.meanwhile = reopened.close
    search()
    frames = consumer.client.all()
    assert [frame.command for frame in frames] == ["ERROR"]


@both_dialects
def test_what_expires_during_a_search_is_not_delivered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_plain: bool
) -> None:
    first = bench_on(tmp_path)
    fill(
        first,
        coloured("a", "red"),
        coloured("b", "blue", expiration_ms=first.clock.now_ms + 100),
        coloured("c", "blue"),
    )
    first.close()
    bench = bench_on(tmp_path)
    disk = Disk(bench, monkeypatch)
    consumer = Consumer(bench, "colour = 'blue'", is_plain=is_plain)
    search = consumer.search()

    def pass_time() -> None:
        bench.clock.now_ms += 200

    disk.meanwhile = pass_time
    search()
    assert consumer.texts() == ["c"]
    bench.close()


@both_dialects
@pytest.mark.parametrize("is_other_first", [True, False])
def test_consumers_with_different_selectors_look_side_by_side(
    reopened: Bench, is_plain: bool, is_other_first: bool
) -> None:
    red = Consumer(reopened, "colour = 'red'", is_plain=is_plain)
    blue = Consumer(reopened, "colour = 'blue'", is_plain=not is_plain)
    searches = [red.search(), blue.search()]
    for search in reversed(searches) if is_other_first else searches:
        search()
    assert red.texts() == ["a", "c", "e"]
    assert blue.texts() == ["b", "d"]


def test_a_consumer_gets_as_much_as_it_has_credit_for(reopened: Bench) -> None:
    consumer = Consumer(reopened, "colour = 'red'", is_plain=False, credit=2)
    assert consumer.texts() == ["a", "c"]
    consumer.pyjms.tell(commands.Credit(subscription="c", credit=5))
    assert consumer.texts() == ["e"]
    assert consumer.pyjms.do(commands.Credit(subscription="c", revoke=True)).headers["left"] == "4"


@pytest.mark.parametrize(("colour", "left", "found"), [("blue", "0", ["b"]), ("green", "1", [])])
def test_who_asks_what_is_there_now_is_answered_behind_the_search(
    reopened: Bench, colour: str, left: str, found: list[str]
) -> None:
    consumer = Consumer(reopened, f"colour = '{colour}'", is_plain=False, credit=0)
    consumer.pyjms.tell(command_frame(commands.Credit(subscription="c", credit=1, drain=True), "drained"))
    search = consumer.search()
    assert not consumer.client.pull()
    assert not consumer.client.frames
    search()
    consumer.client.settle()
    answer = consumer.client.frames.pop()
    assert (answer.command, answer.headers["receipt-id"], answer.headers["left"]) == ("RECEIPT", "drained", left)
    assert consumer.texts() == found


@pytest.mark.parametrize("is_read", [True, False])
def test_who_revokes_during_a_search_gets_nothing_and_has_all_its_credit_back(reopened: Bench, is_read: bool) -> None:
    consumer = Consumer(reopened, "colour = 'red'", is_plain=False, credit=3)
    search = consumer.search()
    if is_read:
        search()
    assert consumer.pyjms.do(commands.Credit(subscription="c", revoke=True)).headers["left"] == "3"
    if not is_read:
        search()
    assert consumer.texts() == []
    assert left_unmarked(reopened) == list("abcde")


@pytest.mark.parametrize("colour", ["red", "green"])
@pytest.mark.parametrize("is_read", [True, False])
def test_who_stops_twice_during_a_search_gets_no_more_than_its_credit(
    reopened: Bench, colour: str, is_read: bool
) -> None:
    consumer = Consumer(reopened, f"colour = '{colour}'", is_plain=False, credit=2)
    search = consumer.search()
    if is_read:
        search()
    for _ in range(0 if is_read else 2):
        consumer.pyjms.do(commands.Stop())
        consumer.pyjms.do(commands.Start())
    consumer.pyjms.do(commands.Stop())
    if not is_read:
        search()
    assert consumer.texts() == []
    consumer.pyjms.do(commands.Start())
    assert consumer.texts() == ([] if colour == "green" else ["a", "c"])
    left = consumer.pyjms.do(commands.Credit(subscription="c", revoke=True)).headers["left"]
    assert left == ("2" if colour == "green" else "0")


def test_a_page_holds_what_was_in_memory_and_what_was_looked_for_in_order(reopened: Bench) -> None:
    first = coloured("0", "red", priority=9)
    fill(reopened, first, coloured("f", "red"))
    consumer = Consumer(reopened, "colour = 'red'", is_plain=False, is_packed=True)
    search = consumer.search()
    search()
    assert consumer.texts() == ["0", "a", "c", "e", "f"]


@pytest.mark.parametrize("commits", [True, False])
def test_what_a_search_found_is_settled_with_its_transaction(reopened: Bench, commits: bool) -> None:
    consumer = Consumer(reopened, "colour = 'blue'", is_plain=False, transacted=True)
    frames = consumer.pyjms.messages()
    consumer.pyjms.do(commands.Acknowledge(session="a", ids=ids(*frames)))
    consumer.pyjms.do(commands.CommitTransaction(session="a") if commits else commands.AbortTransaction(session="a"))
    consumer.client.hang_up()
    other = PyjmsClient(reopened)
    other.session()
    other.consume()
    assert other.texts() == (["a", "c", "e"] if commits else list("abcde"))


def test_what_a_search_found_is_settled_with_its_branch(reopened: Bench) -> None:
    consumer = Consumer(reopened, "colour = 'blue'", is_plain=False, credit=0, transacted=True)
    xid = Xid(1, b"global", b"branch")
    consumer.pyjms.do(commands.BeginBranch(session="a", xid=xid))
    consumer.pyjms.tell(commands.Credit(subscription="c", credit=5))
    frames = consumer.pyjms.messages()
    consumer.pyjms.do(commands.Acknowledge(session="a", ids=ids(*frames)))
    consumer.pyjms.do(commands.EndBranch(session="a", xid=xid))
    consumer.pyjms.do(commands.PrepareBranch(session="a", xid=xid))
    consumer.pyjms.do(commands.CommitBranch(session="a", xid=xid))
    assert left_unmarked(reopened) == ["a", "c", "e"]


def test_a_plain_clients_transaction_settles_what_a_search_found(reopened: Bench) -> None:
    consumer = Consumer(reopened, "colour = 'blue'", is_plain=True)
    consumer.client.settle()
    for frame in consumer.client.frames:
        assert frame.command == "MESSAGE"
    acks = [frame.headers["ack"] for frame in consumer.client.frames]
    consumer.client.send("BEGIN", transaction="t")
    for ack in acks:
        consumer.client.send("ACK", id=ack, transaction="t")
    consumer.client.send("COMMIT", transaction="t")
    consumer.client.settle()
    assert left_unmarked(reopened) == ["a", "c", "e"]


def test_the_time_of_a_transaction_begins_with_what_a_search_found(filled: Path, tmp_path: Path) -> None:
    copyfile(filled, tmp_path / "x.db")
    bench = bench_on(tmp_path, "&transaction_timeout=60")
    consumer = Consumer(bench, "colour = 'blue'", is_plain=False, transacted=True)
    assert consumer.texts() == ["b", "d"]
    bench.clock.now_ms += 60_001
    bench.broker.virtual_host.time_limit.run_due(bench.clock.now_ms)
    with pytest.raises(RolledBackError):
        consumer.pyjms.do(commands.CommitTransaction(session="a"))
    bench.close()


@both_dialects
def test_a_durable_subscription_with_a_selector_reads_what_waits_for_it_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_plain: bool
) -> None:
    first = bench_on(tmp_path)
    subscribe = commands.Subscribe(session="a", id="c", address=NEWS, durable_name="mine", selector="colour = 'blue'")
    client = PyjmsClient(first, client_id="me")
    client.session()
    client.do(subscribe)
    client.do(commands.Unsubscribe(id="c"))
    fill(first, *[coloured(text, colour, destination=NEWS) for text, colour in zip("abcde", COLOURS, strict=True)])
    first.close()
    bench = bench_on(tmp_path)
    disk = Disk(bench, monkeypatch)
    if is_plain:
        plain = bench.connect(client_id="me")
        headers = {"selector": "colour = 'blue'", "durable-subscription-name": "mine"}
        plain.send("SUBSCRIBE", id="c", destination="/topic/news", **headers)
        plain.settle_jobs()
    else:
        again = PyjmsClient(bench, client_id="me")
        again.session()
        again.do(subscribe)
        again.tell(commands.Credit(subscription="c", credit=9))
        plain = again.client
    plain.pull()
    assert not disk.reads
    assert [bytes(frame.body).decode() for frame in plain.all()] == ["b", "d"]
    assert disk.reads
    bench.close()


@both_dialects
def test_a_damaged_message_is_passed_over(reopened: Bench, tmp_path: Path, is_plain: bool) -> None:
    with closing(sqlite3.connect(tmp_path / "x.db")) as database, database:
        rows = database.execute("SELECT id FROM pyjms_message ORDER BY id").fetchall()
        database.execute("UPDATE pyjms_message SET payload = x'0102' WHERE id = ?", rows[2])
    consumer = Consumer(reopened, "colour = 'red'", is_plain=is_plain)
    assert consumer.texts() == ["a", "e"]
    assert not consumer.client.engine.is_over


@both_dialects
@pytest.mark.parametrize("fault", [ResourceError("the disk is gone"), KeyError()])
def test_a_disk_that_fails_is_told(
    reopened: Bench, monkeypatch: pytest.MonkeyPatch, is_plain: bool, fault: Exception
) -> None:
    storage = reopened.broker.virtual_host.storage
    assert storage is not None

    def fail(_: object) -> None:
        raise fault

    consumer = Consumer(reopened, "colour = 'red'", is_plain=is_plain)
    with monkeypatch.context() as patch:
        patch.setattr(storage.journal, "read", fail)
        (error,) = consumer.client.all()
    assert error.command == "ERROR"
    assert consumer.client.engine.is_over


@both_dialects
def test_a_long_search_in_memory_goes_to_another_thread_as_well(bench: Bench, is_plain: bool) -> None:
    fill(bench, *[coloured(str(number), "red") for number in range(5_000)], coloured("last", "blue"))
    consumer = Consumer(bench, "colour = 'blue'", is_plain=is_plain)
    search = consumer.search()
    search()
    assert consumer.texts() == ["last"]
    quick = Consumer(bench, "colour = 'red'", is_plain=is_plain, credit=1)
    quick.client.pull()
    assert not quick.client.transport.jobs
    assert quick.texts() == ["0"]


@both_dialects
def test_a_sorted_queue_passes_over_nothing_that_is_on_the_disk(tmp_path: Path, is_plain: bool) -> None:
    options = "&type=sorted&key=rank"
    first = bench_on(tmp_path, options)
    fill(
        first,
        *[
            make_envelope(text, persistent=True, properties={"rank": rank})
            for text, rank in zip("abc", (3, 1, 2), strict=True)
        ],
    )
    first.close()
    bench = bench_on(tmp_path, options + "&memory=1")
    fill(bench, make_envelope("d", persistent=True, properties={"rank": 4}))
    consumer = Consumer(bench, "rank > 1", is_plain=is_plain)
    assert consumer.texts() == ["c", "a", "d"]
    bench.close()

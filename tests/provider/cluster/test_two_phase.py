"""Transactions over several shards: each step fails once, and the outcome is all or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import pytest

from pyjms.spi.clock import Clock, SystemClock
from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import BranchError, InDoubtError, ProviderError, ResourceError, RolledBackError
from pyjms.spi.provider import ProviderConsumer, ProviderSession, SubscribeRequest
from pyjms.spi.xid import BranchFailure, Xid
from pyjms_provider.clients.cluster.connection import ClusterConnection
from pyjms_provider.clients.cluster.session import ClusterSession
from pyjms_tck.spi.environment import envelope
from tests.provider.clients.stomp.world import Events
from tests.provider.cluster.fake import SHARDS, FakeCluster

PATIENCE_S = 20.0


def in_shard(cluster: FakeCluster, number: int, kind: AddressKind = AddressKind.QUEUE) -> Address:
    """Return a destination that is in that shard."""
    names = (f"d{each}" for each in range(10_000))
    return Address(kind, next(name for name in names if cluster.placement.shard_of(kind, name) == number))


class Client:
    """A connection with a queue in each shard."""

    def __init__(self, cluster: FakeCluster, clock: Clock) -> None:
        self.cluster = cluster
        self.events = Events()
        self.clock = clock
        self.connection = self.connect()
        self.queues = [in_shard(cluster, number) for number in range(SHARDS)]

    def connect(self) -> ClusterConnection:
        """Return a started connection."""
        connection = ClusterConnection(self.cluster, self.events, self.clock)
        connection.start()
        return connection

    def session(self, *, transacted: bool = False) -> ClusterSession:
        """Return a session."""
        return self.connection.open_session(transacted=transacted)

    def send(self, *texts: str, session: ProviderSession | None = None, to: int = 0) -> None:
        """Send PERSISTENT messages to the queue of a shard."""
        session = session or self.session()
        for text in texts:
            session.send(envelope(self.queues[to], text, delivery_mode=2))

    def left(self, number: int) -> list[tuple[str, bool]]:
        """Take all that is in the queue of a shard, as another client."""
        connection = self.connect()
        session = connection.open_session(transacted=False)
        consumer, _ = consume(session, self.queues[number])
        consumer.catch_up()
        found = []
        while (delivery := consumer.poll()) is not None:
            found.append((str(delivery.envelope.body), delivery.redelivered))
            session.acknowledge([delivery])
            consumer.catch_up()
        connection.close()
        return found

    def all_left(self) -> list[list[str]]:
        """Return the texts in the queues of all shards."""
        return [[text for text, _ in self.left(number)] for number in range(SHARDS)]


def consume(session: ProviderSession, address: Address) -> tuple[ProviderConsumer, Event]:
    """Return a consumer, and what is set when it may have a message."""
    ready = Event()
    request = SubscribeRequest(address=address, selector=None, no_local=False, durable_name=None)
    return session.subscribe(request, ready.set), ready


def take(consumer: ProviderConsumer, ready: Event) -> Delivery:
    """Wait for a message."""
    while True:
        ready.clear()
        delivery = consumer.poll_or_wait()
        if delivery is not None:
            return delivery
        assert ready.wait(PATIENCE_S), "no message came"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    clock = SystemClock()
    cluster = FakeCluster(tmp_path, clock)
    client = Client(cluster, clock)
    yield client
    client.connection.close()
    cluster.stop()


NOTHING: list[list[str]] = [[], [], [], []]
ALL = [["0"], ["1"], ["2"], ["3"]]


def send_to_all(client: Client) -> ClusterSession:
    """Return a session whose open transaction has sent a message to each shard."""
    session = client.session(transacted=True)
    for number in range(SHARDS):
        client.send(str(number), session=session, to=number)
    return session


def test_a_transaction_over_all_shards_is_committed(client: Client) -> None:
    session = send_to_all(client)
    assert client.all_left() == NOTHING
    session.commit()
    assert client.all_left() == ALL
    assert (client.cluster.decisions.rows, client.cluster.in_doubt()) == ({}, 0)


def test_a_transaction_over_all_shards_is_rolled_back(client: Client) -> None:
    session = send_to_all(client)
    session.rollback()
    session.commit()
    assert client.all_left() == NOTHING


def test_messages_move_between_shards_in_one_transaction(client: Client) -> None:
    client.send("a", "b", to=0)
    client.send("c", to=1)
    session = client.session(transacted=True)
    received = [take(*consume(session, client.queues[number])) for number in (0, 1)]
    client.send("moved", session=session, to=3)
    session.acknowledge(received)
    session.commit()
    session.close()
    assert client.all_left() == [["b"], [], [], ["moved"]]


@pytest.mark.parametrize(
    ("error", "written"),
    [
        (ResourceError("the database refused it"), False),
        (InDoubtError("no answer"), False),
        (InDoubtError("no answer"), True),
    ],
    ids=["refused", "unknown", "unknown and written"],
)
def test_a_decision_that_fails(client: Client, error: ProviderError, written: bool) -> None:
    client.send("order", to=0)
    session = client.session(transacted=True)
    consumer, ready = consume(session, client.queues[0])
    delivery = take(consumer, ready)
    client.send("bill", session=session, to=1)
    session.acknowledge([delivery])
    decisions = client.cluster.decisions
    if written:
        decisions.fails_after = error
    else:
        decisions.fails_before = error
    with pytest.raises(RolledBackError if isinstance(error, ResourceError) else InDoubtError):
        session.commit()
    if isinstance(error, ResourceError):
        session.recover([delivery])
    else:
        assert client.cluster.in_doubt() == 2
        client.cluster.settle()
    assert client.cluster.in_doubt() == 0
    session.close()
    assert client.left(0) == ([] if written else [("order", True)])
    assert client.left(1) == ([("bill", False)] if written else [])


@pytest.mark.parametrize("at", [1, 2])
def test_a_prepare_that_is_refused_rolls_all_back(client: Client, at: int) -> None:
    session = send_to_all(client)
    parts = {part.shard.place: part for part in session.parts()}
    (part,) = [part for place, part in parts.items() if getattr(place, "number", None) == at]
    inner = part.session
    assert inner is not None

    def refuse(xid: Xid) -> bool:
        inner.rollback()
        raise RolledBackError("no space")

    inner.prepare = refuse  # type: ignore[method-assign]
    with pytest.raises(RolledBackError, match="no space"):
        session.commit()
    session.commit()
    client.cluster.settle()
    assert client.all_left() == NOTHING
    assert client.cluster.in_doubt() == 0


@pytest.mark.parametrize("at", [1, 2])
def test_a_prepare_without_an_answer_rolls_all_back(client: Client, at: int) -> None:
    session = send_to_all(client)
    (part,) = [part for part in session.parts() if getattr(part.shard.place, "number", None) == at]
    inner = part.session
    assert inner is not None
    prepare = inner.prepare

    def lose(xid: Xid) -> bool:
        prepare(xid)
        raise InDoubtError("no answer")

    inner.prepare = lose  # type: ignore[method-assign]
    with pytest.raises(RolledBackError, match="no answer"):
        session.commit()
    assert client.cluster.decisions.left, "the cluster is to roll back what may be prepared"
    client.cluster.settle()
    assert client.all_left() == NOTHING


@pytest.mark.parametrize("moved", [0, 1])
@pytest.mark.parametrize("commits", [True, False], ids=["after the decision", "before the decision"])
def test_a_leader_that_moves_at_the_decision_applies_it(client: Client, moved: int, commits: bool) -> None:
    session = send_to_all(client)
    decisions = client.cluster.decisions
    if commits:
        decisions.after_commit = lambda: client.cluster.move(moved)
        session.commit()
    else:
        decisions.before_commit = lambda: client.cluster.move(moved)
        decisions.fails_before = ResourceError("the database refused it")
        with pytest.raises(RolledBackError):
            session.commit()
    client.cluster.settle()
    assert client.cluster.in_doubt() == 0
    assert client.all_left() == (ALL if commits else NOTHING)


def test_the_members_have_taken_the_coordinator_for_dead(client: Client) -> None:
    session = send_to_all(client)
    decisions = client.cluster.decisions
    decisions.before_commit = client.cluster.settle
    with pytest.raises(RolledBackError, match="took this one for dead"):
        session.commit()
    client.cluster.settle()
    assert client.all_left() == NOTHING


@pytest.mark.parametrize("moved", [0, 1])
def test_a_leader_that_moves_in_an_open_transaction_rolls_it_back(client: Client, moved: int) -> None:
    session = send_to_all(client)
    client.cluster.move(moved)
    with pytest.raises(RolledBackError):
        session.commit()
    client.cluster.settle()
    assert client.all_left() == NOTHING
    again = send_to_all(client)
    again.commit()
    assert client.all_left() == ALL


@pytest.mark.parametrize("moved", [0, 1])
def test_work_after_a_leader_has_moved_belongs_to_the_transaction_that_is_lost(client: Client, moved: int) -> None:
    session = client.session(transacted=True)
    client.send("before", session=session, to=moved)
    client.cluster.move(moved)
    client.send("after", session=session, to=moved)
    with pytest.raises(RolledBackError):
        session.commit()
    client.send("next", session=session, to=moved)
    session.commit()
    assert client.left(moved) == [("next", False)]


@pytest.mark.parametrize("what", ["session", "connection"])
def test_a_client_that_closes_at_the_decision_is_told_nothing_and_all_is_committed(client: Client, what: str) -> None:
    session = send_to_all(client)
    closing = session if what == "session" else client.connection
    client.cluster.decisions.after_commit = closing.close
    session.commit()
    assert client.cluster.in_doubt() == 0
    assert client.all_left() == ALL


def test_what_was_done_at_a_temporary_queue_is_rolled_back_with_the_shards(client: Client) -> None:
    reply_to = client.connection.create_temporary(AddressKind.QUEUE)
    session = client.session(transacted=True)
    client.send("0", session=session, to=0)
    client.send("1", session=session, to=1)
    session.send(envelope(reply_to, "reply"))
    client.cluster.decisions.fails_before = ResourceError("the database refused it")
    with pytest.raises(RolledBackError):
        session.commit()
    session.send(envelope(reply_to, "next"))
    session.commit()
    receiving = client.session()
    consumer, ready = consume(receiving, reply_to)
    delivery = take(consumer, ready)
    receiving.acknowledge([delivery])
    assert delivery.envelope.body == "next"
    assert consumer.poll() is None


def test_a_temporary_queue_takes_part_in_the_transaction_of_another_client(client: Client) -> None:
    other = client.connect()
    reply_to = other.create_temporary(AddressKind.QUEUE)
    consumer, ready = consume(other.open_session(transacted=False), reply_to)
    session = client.session(transacted=True)
    client.send("1", session=session, to=1)
    session.send(envelope(reply_to, "reply"))
    assert consumer.poll() is None
    session.commit()
    assert take(consumer, ready).envelope.body == "reply"
    assert client.left(1) == [("1", False)]
    other.close()


class TestReceiving:
    @pytest.mark.parametrize("moved", [0, 1])
    def test_a_consumer_waits_on_when_the_leader_moves(self, client: Client, moved: int) -> None:
        session = client.session()
        consumer, ready = consume(session, client.queues[moved])
        assert consumer.poll_or_wait() is None
        client.cluster.move(moved)
        client.send("late", to=moved)
        delivery = take(consumer, ready)
        assert delivery.envelope.body == "late"
        session.acknowledge([delivery])
        session.close()
        assert client.left(moved) == []

    @pytest.mark.parametrize("moved", [0, 1])
    def test_what_was_received_before_comes_again_and_is_settled_once(self, client: Client, moved: int) -> None:
        client.send("a", to=moved)
        session = client.session()
        consumer, ready = consume(session, client.queues[moved])
        first = take(consumer, ready)
        client.cluster.move(moved)
        with pytest.raises(ProviderError):
            session.acknowledge([first])
        again = take(consumer, ready)
        assert (again.envelope.body, again.redelivered) == ("a", True)
        session.acknowledge([again])
        session.close()
        assert client.left(moved) == []

    def test_one_acknowledgement_settles_messages_of_several_shards(self, client: Client) -> None:
        session = client.session()
        received = []
        for number in range(SHARDS):
            client.send(str(number), to=number)
            received.append(take(*consume(session, client.queues[number])))
        session.acknowledge(received)
        session.close()
        assert client.all_left() == NOTHING

    def test_one_recover_gives_messages_of_several_shards_back_in_order(self, client: Client) -> None:
        session = client.session()
        received = []
        for number in range(SHARDS):
            client.send("a", "b", "c", to=number)
            consumer, ready = consume(session, client.queues[number])
            received += [take(consumer, ready), take(consumer, ready)]
        session.recover(received)
        session.close()
        for number in range(SHARDS):
            assert client.left(number) == [("a", True), ("b", True), ("c", False)]

    @pytest.mark.parametrize("moved", [0, 1])
    def test_an_acknowledgement_over_shards_one_of_which_moved_loses_none_unless_it_is_in_doubt(
        self, client: Client, moved: int
    ) -> None:
        session = client.session()
        received = []
        for number in (0, 1):
            client.send("a", to=number)
            received.append(take(*consume(session, client.queues[number])))
        client.cluster.move(moved)
        with pytest.raises(ProviderError) as raised:
            session.acknowledge(received)
        session.close()
        assert client.left(moved) == [("a", True)]
        assert client.left(1 - moved) == ([] if raised.type is InDoubtError else [("a", True)])


class TestBranches:
    def test_a_branch_whose_part_was_lost_before_its_prepare_is_rolled_back(self, client: Client) -> None:
        for moved in range(SHARDS):
            xid = Xid(1, b"lost", str(moved).encode())
            session = client.session(transacted=True)
            session.xa_start(xid)
            for number in range(SHARDS):
                client.send(str(number), session=session, to=number)
            session.xa_end(xid)
            client.cluster.move(moved)
            other = client.connect().open_session(transacted=True)
            with pytest.raises(BranchError) as raised:
                other.xa_prepare(xid)
            assert raised.value.failure is BranchFailure.ROLLED_BACK
            assert client.all_left() == NOTHING

    def test_work_that_goes_on_in_a_branch_whose_part_was_lost_does_not_become_all_of_it(self, client: Client) -> None:
        xid = Xid(1, b"lost", b"joined")
        session = client.session(transacted=True)
        session.xa_start(xid)
        for number in range(SHARDS):
            client.send("first", session=session, to=number)
        session.xa_end(xid)
        lost = next(number for number in range(SHARDS) if number != client.cluster.placement.shard_of_branch(str(xid)))
        client.cluster.move(lost)
        other = client.session(transacted=True)
        other.xa_start(xid, join=True)
        with pytest.raises(BranchError) as raised:
            client.send("second", session=other, to=lost)
        assert raised.value.failure is BranchFailure.ROLLED_BACK
        other.xa_end(xid)
        with pytest.raises(BranchError) as raised:
            other.xa_prepare(xid)
        assert raised.value.failure is BranchFailure.ROLLED_BACK
        assert client.all_left() == NOTHING

    def test_a_prepared_branch_outlives_all_leaders(self, client: Client) -> None:
        xid = Xid(1, b"kept", b"b")
        session = client.session(transacted=True)
        session.xa_start(xid)
        for number in range(SHARDS):
            client.send(str(number), session=session, to=number)
        session.xa_end(xid)
        assert session.xa_prepare(xid)
        for number in range(SHARDS):
            client.cluster.move(number)
        other = client.connect().open_session(transacted=True)
        assert list(other.xa_recover()) == [xid]
        other.xa_commit(xid)
        assert client.all_left() == ALL


class TestSubscriptions:
    def test_a_durable_name_moves_to_a_topic_of_another_shard(self, client: Client) -> None:
        client.connection.set_client_id("clerk")
        topics = [in_shard(client.cluster, number, AddressKind.TOPIC) for number in (0, 1, 2)]
        session = client.session()
        for topic in topics:
            request = SubscribeRequest(address=topic, selector=None, no_local=False, durable_name="kept")
            session.subscribe(request, lambda: None).close()
        for topic in topics:
            session.send(envelope(topic, f"to {topic.name}", delivery_mode=2))
        ready = Event()
        request = SubscribeRequest(address=topics[-1], selector=None, no_local=False, durable_name="kept")
        consumer = session.subscribe(request, ready.set)
        delivery = take(consumer, ready)
        assert delivery.envelope.body == f"to {topics[-1].name}"
        session.acknowledge([delivery])
        consumer.close()
        session.unsubscribe("kept")
        with pytest.raises(ProviderError):
            session.unsubscribe("kept")

    @pytest.mark.parametrize("moved", [0, 1])
    def test_a_durable_subscriber_and_its_client_id_go_on_at_the_next_leader(self, client: Client, moved: int) -> None:
        client.connection.set_client_id("clerk")
        topic = in_shard(client.cluster, moved, AddressKind.TOPIC)
        session, ready = client.session(), Event()
        request = SubscribeRequest(address=topic, selector=None, no_local=False, durable_name="kept")
        consumer = session.subscribe(request, ready.set)
        client.cluster.move(moved)
        client.connect().open_session(transacted=False).send(envelope(topic, "news", delivery_mode=2))
        delivery = take(consumer, ready)
        assert delivery.envelope.body == "news"
        session.acknowledge([delivery])

    def test_no_local_leaves_out_what_the_connection_sends_at_all_shards(self, client: Client) -> None:
        for number in (0, 1):
            topic = in_shard(client.cluster, number, AddressKind.TOPIC)
            ready = Event()
            request = SubscribeRequest(address=topic, selector=None, no_local=True, durable_name=None)
            consumer = client.session().subscribe(request, ready.set)
            client.session().send(envelope(topic, "own"))
            client.connect().open_session(transacted=False).send(envelope(topic, "another's", delivery_mode=2))
            assert take(consumer, ready).envelope.body == "another's"


@pytest.mark.parametrize("moved", [0, 1])
def test_a_send_waits_for_the_next_leader(client: Client, moved: int) -> None:
    session = client.session()
    client.send("before", session=session, to=moved)
    client.cluster.depose(moved)
    outcomes: list[object] = []

    def send() -> None:
        try:
            client.send("after", session=session, to=moved)
            outcomes.append("sent")
        except ProviderError as error:
            outcomes.append(type(error))

    thread = Thread(target=send)
    thread.start()
    client.cluster.lead(moved)
    thread.join(PATIENCE_S)
    found = [text for text, _ in client.left(moved)]
    assert outcomes in (["sent"], [InDoubtError], [ResourceError])
    assert found == ["before", "after"] if outcomes == ["sent"] else found[0] == "before"


def test_browsers_see_the_queues_of_all_shards(client: Client) -> None:
    session = client.session()
    for number in range(SHARDS):
        client.send("a", "b", to=number)
        assert [each.envelope.body for each in session.browse(client.queues[number], None)] == ["a", "b"]
        assert session.has_destination(client.queues[number])

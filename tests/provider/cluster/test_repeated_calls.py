"""Calls during which another member becomes the leader: a client sees nothing of it where they may be repeated, or were not done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from queue import Queue
from typing import Any

import pytest

from pyjms.spi.clock import SystemClock
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import (
    ClosedError,
    ConnectionLostError,
    DuplicateClientIdError,
    GroupError,
    RegistrationError,
    ResourceError,
    RolledBackError,
    UnknownSubscriptionError,
)
from pyjms.spi.provider import SubscribeRequest
from pyjms.spi.replay import GroupRequest, StageName
from pyjms.spi.xid import Xid
from pyjms_provider.clients.network.calls import ConnectionLostInCallError, NotSentError
from pyjms_provider.clients.stomp.physical_connection import PhysicalConnection
from pyjms_provider.clients.vm import VmConnection, VmSession
from pyjms_provider.clients.vm_services import VmPersistentSessions, VmReaderGroups
from pyjms_provider.cluster.known import KnownDestinations
from pyjms_provider.cluster.member import ClusterMember
from pyjms_provider.cluster.placement import Placement, ShardPlace
from pyjms_provider.repeatable import RepeatableError
from pyjms_tck.spi.environment import envelope
from tests.provider.cluster.clients import PATIENCE_S, Client, consume, take

HERE, LINKED = 0, 1
"""A shard that is led in this process, and one behind a link."""
NAME = "reader"
STOPPED = "broker shop.1 was stopped"


class Moves:
    """Moves the leader of a shard during calls of one kind."""

    def __init__(self, client: Client, patch: pytest.MonkeyPatch) -> None:
        self._cluster = client.cluster
        self._patch = patch
        self.made = 0

    def in_call(self, kind: type, method: str, *, skip: int = 0, times: int = 1) -> None:
        """Have another member lead the shard that is led here, just before a call there is made."""
        original: Callable[..., Any] = getattr(kind, method)
        calls = count(-skip)

        def call(subject: object, *arguments: Any, **options: Any) -> Any:
            if 0 <= next(calls) < times:
                self.made += 1
                self._cluster.move(HERE)
            return original(subject, *arguments, **options)

        self._patch.setattr(kind, method, call)

    def in_request(
        self,
        command: str,
        *,
        is_done: bool = False,
        skip: int = 0,
        times: int = 1,
        lost: type[Exception] = ConnectionLostInCallError,
    ) -> None:
        """Have another member lead the shard behind the link, before the answer to a command comes; `is_done`: it was done by then."""
        original = PhysicalConnection.request
        calls = count(-skip)

        def request(physical: PhysicalConnection, *frames: Any, **options: Any) -> Any:
            if frames[-1].command != command or not 0 <= next(calls) < times:
                return original(physical, *frames, **options)
            self.made += 1
            if is_done:
                original(physical, *frames, **options)
            self._cluster.move(LINKED)
            raise lost(STOPPED)

        self._patch.setattr(PhysicalConnection, "request", request)

    def during(self, shard: int, kind: type, method: str, command: str, **how: Any) -> None:
        """Move the leader of a shard in a call of `method` there, or in the request of `command`."""
        if shard == HERE:
            how.pop("is_done", None)
            self.in_call(kind, method, **how)
        else:
            self.in_request(command, **how)


@pytest.fixture
def moves(client: Client, monkeypatch: pytest.MonkeyPatch) -> Moves:
    return Moves(client, monkeypatch)


def name_in(shard_of: Callable[[str], int], shard: int) -> str:
    return next(name for name in map("n{}".format, count()) if shard_of(name) == shard)


def topic_in(client: Client, shard: int) -> Address:
    placement = client.cluster.placement
    return Address(AddressKind.TOPIC, name_in(lambda name: placement.shard_of(AddressKind.TOPIC, name), shard))


both = pytest.mark.parametrize("shard", [HERE, LINKED], ids=["here", "linked"])
fates = pytest.mark.parametrize(
    ("shard", "is_done"), [(HERE, False), (LINKED, False), (LINKED, True)], ids=["here", "linked", "linked and done"]
)


@fates
@pytest.mark.parametrize("times", [1, 2])
def test_a_client_id_is_taken(client: Client, moves: Moves, shard: int, is_done: bool, times: int) -> None:
    client_id = name_in(client.cluster.placement.shard_of_client, shard)
    with closing(client.connect()) as connection, closing(client.connect()) as other:
        moves.during(shard, VmConnection, "set_client_id", "IDENTIFY", is_done=is_done, times=times)
        connection.set_client_id(client_id)
        assert moves.made == times
        assert connection.client_id == client_id
        with pytest.raises(DuplicateClientIdError):
            other.set_client_id(client_id)


@both
def test_the_next_leader_knows_a_client_id_that_the_last_one_gave_just_before(client: Client, shard: int) -> None:
    client_id = name_in(client.cluster.placement.shard_of_client, shard)
    with closing(client.connect()) as connection, closing(client.connect()) as other:
        place = connection.shard(ShardPlace(shard))
        taken = place.current().connection.set_client_id
        place.current().connection.set_client_id = lambda name: (taken(name), client.cluster.move(shard))  # type: ignore[method-assign, assignment, func-returns-value]
        connection.set_client_id(client_id)
        with pytest.raises(DuplicateClientIdError):
            other.set_client_id(client_id)


@fates
def test_a_client_id_is_taken_at_further_shards(client: Client, moves: Moves, shard: int, is_done: bool) -> None:
    client_id = name_in(client.cluster.placement.shard_of_client, shard + 2)
    with closing(client.connect()) as connection:
        session = connection.open_session(transacted=False)
        session.has_destination(client.queues[shard])  # the connection uses that shard
        moves.during(shard, VmConnection, "set_client_id", "IDENTIFY", is_done=is_done, skip=1)
        connection.set_client_id(client_id)
        assert moves.made == 1
        topic = topic_in(client, shard)
        request = SubscribeRequest(address=topic, selector=None, no_local=False, durable_name=NAME)
        session.subscribe(request, lambda: None).close()
        session.unsubscribe(NAME)


@both
def test_a_destination_is_looked_for(client: Client, moves: Moves, shard: int) -> None:
    client.send("a", to=shard)
    session = client.session()
    moves.during(shard, VmSession, "has_destination", "FIND", times=2)
    assert session.has_destination(client.queues[shard])
    assert moves.made == 2


def browse(client: Client, shard: int) -> Iterator[str]:
    return (str(each.envelope.body) for each in client.session().browse(client.queues[shard], None))


@both
def test_a_queue_is_browsed(client: Client, moves: Moves, shard: int) -> None:
    client.send("a", "b", to=shard)
    moves.during(shard, VmSession, "browse", "SUBSCRIBE", times=2)
    assert list(browse(client, shard)) == ["a", "b"]
    assert moves.made == 2


@both
def test_a_browser_goes_on_behind_what_it_has_shown(client: Client, shard: int) -> None:
    texts = [str(number) for number in range(500)]  # more than a link is sent at once
    client.send(*texts, to=shard)
    found = browse(client, shard)
    assert [next(found), next(found)] == texts[:2]
    client.cluster.move(shard)
    assert list(found) == texts[2:]


def test_a_browser_goes_on_beside_a_consumer_which_has_the_next_session_already(client: Client) -> None:
    client.send("a", "b", to=HERE)
    session = client.session()
    consume(session, Address(AddressKind.QUEUE, "unused"))
    consumer, ready = consume(session, client.queues[HERE])
    found = session.browse(client.queues[HERE], None)
    assert next(found).envelope.body == "a"
    client.cluster.move(HERE)
    term = session.part_at(HERE).shard.current().number
    assert [each.envelope.body for each in found] == ["b"]
    assert session.part_at(HERE).shard.is_current(term)
    session.acknowledge([take(consumer, ready)])


@both
def test_a_browser_that_cannot_tell_what_it_has_shown_says_that_the_leader_has_changed(
    client: Client, shard: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyjms_provider.clients.cluster.browser.SEEN_MAX", 1)
    client.send(*("text" for _ in range(500)), to=shard)
    found = browse(client, shard)
    assert [next(found), next(found)] == ["text"] * 2
    client.cluster.move(shard)
    with pytest.raises(ResourceError, match="another member became the leader of a queue while it was browsed"):
        list(found)


@fates
def test_a_subscription_is_deleted(client: Client, moves: Moves, shard: int, is_done: bool) -> None:
    session = client.session()
    client.connection.set_client_id("somebody")
    request = SubscribeRequest(address=topic_in(client, shard), selector=None, no_local=False, durable_name=NAME)
    session.subscribe(request, lambda: None).close()
    if shard == HERE:
        moves.in_call(VmSession, "unsubscribe")
    else:
        moves.in_request("UNSUBSCRIBE", is_done=is_done)
    session.unsubscribe(NAME)
    assert moves.made == 1
    with pytest.raises(UnknownSubscriptionError):
        session.unsubscribe(NAME)


@pytest.mark.parametrize("lost", [NotSentError, ConnectionLostError])
@pytest.mark.parametrize("times", [1, 2])
def test_a_message_that_a_link_has_not_sent_is_sent_once(
    client: Client, moves: Moves, lost: type[Exception], times: int
) -> None:
    session = client.session()
    moves.in_request("SENDS", lost=lost, times=times)
    client.send("a", session=session, to=LINKED)
    assert moves.made == times
    assert [text for text, _ in client.left(LINKED)] == ["a"]


def test_a_message_that_is_sent_without_a_wait_is_sent_once(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    original = PhysicalConnection.post_confirmed
    moved: list[int] = []

    def post(physical: PhysicalConnection, *arguments: Any) -> None:
        if not moved:
            moved.append(LINKED)
            client.cluster.move(LINKED)
            raise NotSentError(STOPPED)
        original(physical, *arguments)

    monkeypatch.setattr(PhysicalConnection, "post_confirmed", post)
    outcomes: Queue[object] = Queue()
    client.session().send_async(envelope(client.queues[LINKED], "a", delivery_mode=2), outcomes.put)
    assert outcomes.get(timeout=PATIENCE_S) is None
    assert [text for text, _ in client.left(LINKED)] == ["a"]


@both
def test_a_message_is_sent_at_the_third_leader(client: Client, monkeypatch: pytest.MonkeyPatch, shard: int) -> None:
    session = client.session()
    client.send("a", session=session, to=shard)
    kind = type(session.part_at(shard).ready())
    original: Callable[..., None] = kind.send
    lost = count()

    def send(subject: object, message: object) -> None:
        if next(lost) < 2:
            client.cluster.move(shard)
            raise ClosedError(STOPPED)
        original(subject, message)

    monkeypatch.setattr(kind, "send", send)
    client.send("b", session=session, to=shard)
    assert [text for text, _ in client.left(shard)] == ["a", "b"]


def test_messages_that_come_again_need_not_be_adopted(client: Client, moves: Moves) -> None:
    session, adopter = client.session(), client.session()
    client.send("a", to=LINKED)
    consumer, ready = consume(session, client.queues[LINKED])
    delivery = take(consumer, ready)
    moves.in_request("ADOPT")
    adopter.adopt([delivery])
    assert moves.made == 1
    session.close()
    assert client.left(LINKED) == [("a", True)]


@fates
def test_a_reader_group_is_released(client: Client, moves: Moves, shard: int, is_done: bool) -> None:
    client.send("a", "b", to=shard)
    groups = client.connection.reader_groups()
    opened = groups.open(GroupRequest(name=NAME, address=client.queues[shard]))
    groups.reserve(opened, after=0, max_messages=5, max_bytes=None, wait_ms=0)
    moves.during(shard, VmReaderGroups, "release", "RELEASE", is_done=is_done)
    assert groups.release(NAME) == 2
    assert moves.made == 1
    with pytest.raises(GroupError):
        groups.release(NAME)
    assert [text for text, _ in client.left(shard)] == ["a", "b"]


@fates
def test_a_client_is_deregistered(client: Client, moves: Moves, shard: int, is_done: bool) -> None:
    name = name_in(client.cluster.placement.shard_of_registered, shard)
    sessions = client.connection.persistent_sessions()
    sessions.register(name)
    moves.during(shard, VmPersistentSessions, "deregister", "DEREGISTER", is_done=is_done)
    sessions.deregister(name)
    assert moves.made == 1
    with pytest.raises(RegistrationError):
        sessions.deregister(name)


def test_the_services_of_a_shard_are_asked_until_a_leader_answers(client: Client, moves: Moves) -> None:
    sessions = client.connection.persistent_sessions()
    moves.in_call(VmPersistentSessions, "clients", times=3)
    assert sessions.clients() == []
    assert moves.made >= 1


def test_a_unit_that_a_leader_has_not_staged_is_rolled_back(client: Client, moves: Moves) -> None:
    session = client.session(transacted=True)
    client.send("a", session=session, to=HERE)
    moves.in_call(VmSession, "stage")
    with pytest.raises(RolledBackError):
        session.stage(StageName("sink", 1, 0, "first"), keep_s=60)
    assert client.left(HERE) == []
    client.send("b", session=session, to=HERE)
    session.commit()
    assert client.left(HERE) == [("b", False)]


def test_a_branch_is_begun(client: Client, moves: Moves) -> None:
    placement = client.cluster.placement
    home = name_in(lambda name: placement.shard_of_branch(str(Xid(7, name.encode(), b"branch"))), HERE)
    xid = Xid(7, home.encode(), b"branch")
    session = client.session(transacted=True)
    moves.in_call(VmSession, "xa_start")
    session.xa_start(xid)
    assert moves.made == 1
    client.send("a", session=session, to=HERE)
    session.xa_end(xid)
    session.xa_commit(xid, one_phase=True)
    assert client.left(HERE) == [("a", False)]


# What a member asks for itself


class Shard:
    """A shard whose first connections fail, each in one call."""

    def __init__(self, *failures: Exception) -> None:
        self.placement = Placement(1)
        self.failures = list(failures)
        self.asked = 0
        self.open = 0

    def brokers(self) -> dict[int, Any]:
        return {}

    def connect(self, place: object, events: object) -> Shard:
        self.open += 1
        return self

    def open_session(self, *, transacted: bool) -> Shard:
        return self

    def has_destination(self, address: Address) -> bool:
        self.asked += 1
        if self.failures:
            raise self.failures.pop(0)
        return True

    def close(self) -> None:
        self.open -= 1


ENDED = [RepeatableError(STOPPED), ConnectionLostError(STOPPED), ClosedError(STOPPED)]


def test_a_member_looks_for_a_destination_until_a_leader_answers() -> None:
    shard = Shard(*ENDED)
    known = KnownDestinations(shard, SystemClock())  # type: ignore[arg-type]
    assert known.has(Address(AddressKind.QUEUE, "orders"))
    known.close()
    assert (shard.asked, shard.open) == (4, 0)


def test_a_member_learns_whether_a_queue_is_undivided_from_the_leader_that_answers() -> None:
    shard = Shard(*ENDED)
    assert ClusterMember._has_queue(shard, 0, "orders")  # type: ignore[arg-type]
    assert (shard.asked, shard.open) == (4, 0)

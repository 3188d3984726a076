"""What a change of leaders may do to a client at the very moment at which it receives, commits, or is restored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from pyjms.spi.clock import SystemClock
from pyjms.spi.errors import (
    ClosedError,
    ConnectionLostError,
    DuplicateClientIdError,
    ProviderError,
    ResourceError,
    RolledBackError,
    SubscriptionInUseError,
)
from pyjms.spi.provider import ProviderConsumer
from pyjms.spi.xid import Xid
from pyjms_provider.clients.cluster.consumer import ClusterConsumer
from pyjms_provider.clients.cluster.session import SessionPart
from pyjms_provider.clients.cluster.shard_connection import ShardConnection, ShardState, Term
from pyjms_provider.clients.network.failover import FailoverState
from pyjms_provider.clients.stomp.native.session import NativeSession
from pyjms_provider.cluster.placement import Placement, ShardPlace
from pyjms_tck.background import Background
from tests.provider.cluster.clients import PATIENCE_S, Client, consume, take
from tests.provider.cluster.fake import SHARDS
from tests.provider.cluster.world import wait_until


class Place:
    """A shard whose connections write down what is done with them."""

    name = "shop"

    def __init__(self) -> None:
        self.done: list[str] = []
        self.made = 0
        self.holder: int | None = None
        """The number of the connection that has the client id."""

    def connect(self, place: object, events: object) -> Any:
        self.made += 1
        return PlaceConnection(self, self.made)


class PlaceConnection:
    def __init__(self, place: Place, number: int) -> None:
        self._place = place
        self._number = number

    def _note(self, what: str) -> None:
        self._place.done.append(f"{what} {self._number}")

    def set_client_id(self, client_id: str) -> None:
        if self._place.holder is not None:
            raise DuplicateClientIdError("it is in use")
        self._place.holder = self._number

    def start(self) -> None:
        self._note("start")

    def stop(self) -> None:
        self._note("stop")

    def close(self) -> None:
        self._note("close")
        if self._place.holder == self._number:
            self._place.holder = None


class Owner:
    is_started = True

    def on_exception(self, error: ProviderError) -> None:
        """Nobody listens."""


class Restoring:
    """A part of a session; its first attempts fail."""

    def __init__(self, place: Place, *failures: ProviderError) -> None:
        self._place = place
        self._failures = list(failures)

    def restore(self, term: Term) -> None:
        if self._failures:
            raise self._failures.pop(0)
        self._place.done.append(f"restore {term.number}")


def shard_at(place: Place, client_id: str | None = None) -> ShardConnection:
    return ShardConnection(place, ShardPlace(0), Owner(), SystemClock(), client_id)  # type: ignore[arg-type]


def test_nothing_is_delivered_at_a_new_leader_before_it_can_be_settled_there() -> None:
    place = Place()
    shard = shard_at(place)
    shard.add(Restoring(place))
    first = shard.current()
    shard.lose(first.number, ConnectionLostError("the leader has died"))
    assert shard.current().number == 2
    wait_until(lambda: "start 2" in place.done)
    assert place.done == ["start 1", "close 1", "restore 2", "start 2"]


def test_a_failed_restore_leaves_no_connection_behind_which_keeps_messages_and_the_client_id() -> None:
    place = Place()
    shard = shard_at(place, "reader")
    shard.add(Restoring(place, ResourceError("it is busy"), SubscriptionInUseError("by the last connection")))
    place_closed_by_its_leader = shard.current().number
    place.holder = None
    shard.lose(place_closed_by_its_leader, ConnectionLostError("the leader has died"))
    assert shard.current().number == 4
    assert place.done[:6] == ["start 1", "close 1", "close 2", "close 3", "restore 4", "start 4"]
    assert place.holder == 4


class Inner:
    """The consumer of one term, which is empty."""

    def __init__(self, while_polled: Callable[[], None] = lambda: None) -> None:
        self._while_polled = while_polled
        self.waits = False

    def poll_or_wait(self) -> None:
        self.waits = True
        self._while_polled()

    def set_interested(self, interested: bool) -> None:
        self.waits = interested


def test_a_consumer_that_is_placed_elsewhere_while_it_is_polled_waits_there() -> None:
    new = Inner()
    old = Inner(lambda: consumer.place(cast("ProviderConsumer", new), 2))
    consumer = ClusterConsumer(None, None, lambda: None, old, 1)  # type: ignore[arg-type]
    assert consumer.poll_or_wait() is None
    assert new.waits


@pytest.mark.parametrize("call", ["commit", "prepare"])
@pytest.mark.parametrize("moved", range(0, SHARDS, 2))  # a link is restored below its term
def test_a_part_that_is_restored_during_the_commit_does_not_become_an_empty_one(
    client: Client, moved: int, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other parts are being prepared when the leader of this one changes."""
    for number in range(SHARDS):
        client.send(f"old {number}", to=number)
    session = client.session(transacted=True)
    for number in range(SHARDS):
        consumer, ready = consume(session, client.queues[number])
        session.acknowledge([take(consumer, ready)])
        client.send(f"new {number}", session=session, to=number)
    part = session.part_at(moved)
    term = part.term
    checked = 0

    def is_lost(self: SessionPart) -> bool:
        nonlocal checked
        checked += 1
        found = self.is_doomed or not self.shard.is_current(self.term)
        if checked == SHARDS:  # all have been looked at
            client.cluster.move(moved)
            wait_until(lambda: part.term > term)
        return found

    monkeypatch.setattr(SessionPart, "is_lost", property(is_lost))
    with pytest.raises(RolledBackError):
        if call == "commit":
            session.commit()
        else:
            session.prepare(Xid(7, b"transaction", b"branch"))
    session.close()
    client.cluster.settle()
    assert client.all_left() == [[f"old {number}"] for number in range(SHARDS)]


def waits(part: SessionPart) -> bool:
    """Return whether a call waits for the leader of a shard: for a link, or for the next leader."""
    if isinstance(part.session, NativeSession):
        return bool(part.session.connection.link._waiting)
    return bool(part.shard._waiting) or part.shard._state is ShardState.CONNECTING


@pytest.mark.parametrize("is_used", [False, True], ids=["first message", "later message"])
@pytest.mark.parametrize("moved", [0, 1])
def test_what_waits_for_a_leader_is_not_sent_once_its_client_has_left(
    client: Client, moved: int, is_used: bool
) -> None:
    """A client that hears nothing goes on at another member: what it sent here would follow its later messages."""
    session = client.session()
    if is_used:
        client.send("before", session=session, to=moved)
    client.cluster.depose(moved)
    part = session.part_at(moved)
    inner = part.session
    if isinstance(inner, NativeSession):
        wait_until(lambda: inner.connection.link.state is FailoverState.RECONNECTING)
    sending = Background(lambda: client.send("late", session=session, to=moved), PATIENCE_S)
    wait_until(lambda: waits(part))
    session.end_waits()  # as a port does when the connection of its client has ended
    client.cluster.lead(moved)
    with pytest.raises(ClosedError):
        sending.result()
    client.send("elsewhere", to=moved)
    assert [text for text, _ in client.left(moved)] == [*["before"][:is_used], "elsewhere"]


def test_what_waits_for_the_place_of_its_queue_is_not_sent_once_its_client_has_left(client: Client) -> None:
    session = client.session()
    cluster = client.cluster

    def place(queue: str) -> None:
        session.end_waits()
        cluster.placement = Placement(SHARDS)

    cluster.place = place
    cluster.placement = Placement(SHARDS, moving=frozenset([client.queues[0].name]))
    with pytest.raises(ClosedError):
        client.send("late", session=session)
    assert client.left(0) == []


def test_the_end_of_one_session_does_not_end_the_link_of_the_others(client: Client) -> None:
    session = client.session()
    client.send("before", session=session, to=1)
    part = session.part_at(1)
    client.cluster.depose(1)
    inner = part.session
    assert isinstance(inner, NativeSession)
    wait_until(lambda: inner.connection.link.state is FailoverState.RECONNECTING)
    sending = Background(lambda: client.send("late", session=session, to=1), PATIENCE_S)
    wait_until(lambda: waits(part))
    term = part.shard.current()
    session.end_waits()
    with pytest.raises(ClosedError):
        sending.result()
    assert part.shard.is_current(term.number)
    client.cluster.lead(1)

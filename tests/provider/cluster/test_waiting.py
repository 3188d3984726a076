"""Calls that may ask another member are made on threads that may wait."""

from __future__ import annotations

from asyncio import events
from collections.abc import Callable
from typing import Any, cast

import pytest

from pyjms import ConnectionFactory, Session, XAConnectionFactory, XAResource
from pyjms.spi.delivery import ELSEWHERE
from pyjms.spi.envelope import AddressKind
from pyjms.spi.errors import ClosedError, ProviderError
from pyjms_provider.clients.cluster.connection import ClusterConnection
from pyjms_provider.clients.cluster.consumer import ClusterConsumer
from pyjms_provider.clients.cluster.session import ClusterSession
from pyjms_provider.cluster.placement import Placement
from tests.provider.cluster.watched import watched_member
from tests.provider.cluster.world import SHARDS, ClusterWorld
from tests.provider.xa.coordinator import BranchId

PATIENCE_MS = 20_000


def queue_in(shard: int) -> str:
    """Return the name of a queue of that shard."""
    placement = Placement(SHARDS)
    names = (f"queue-{number}" for number in range(100))
    return next(name for name in names if placement.shard_of(AddressKind.QUEUE, name) == shard)


@pytest.mark.parametrize("scheme", ["stomp", "amqp"])
@pytest.mark.parametrize("unit", ["branch", "transaction"])
def test_what_may_ask_another_member_is_not_done_on_the_thread_of_all_connections(
    world: ClusterWorld, scheme: str, unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link may be served by the very loop that would wait for its answer: nothing went on until that was given up."""
    done: dict[str, bool] = {}
    for name in ("acknowledge", "send", "adopt", "commit", "recover", "xa_start", "xa_end", "xa_rollback"):
        monkeypatch.setattr(ClusterSession, name, noting_the_loop(done, name, getattr(ClusterSession, name)))
    for name in ("start", "stop", "set_client_id"):
        monkeypatch.setattr(ClusterConnection, name, noting_the_loop(done, name, getattr(ClusterConnection, name)))
    with watched_member(world) as member:
        with ConnectionFactory(member.url(scheme)).create_context() as context:
            for shard in (0, 1):
                context.create_producer().send(context.create_queue(queue_in(shard)), "given")
        done.pop("send")  # outside of a unit to a shard of this member, which need not wait
        with XAConnectionFactory(member.url(scheme)).create_xa_connection() as connection:
            connection.client_id = "me"
            connection.start()
            branch = BranchId("unit", "cluster")
            xa_session = connection.create_xa_session()
            session = (
                xa_session.session if unit == "branch" else connection.create_session(True, Session.SESSION_TRANSACTED)
            )
            if unit == "branch":
                xa_session.xa_resource.start(branch, XAResource.TMNOFLAGS)
            for shard in (0, 1):
                queue = session.create_queue(queue_in(shard))
                message = session.create_consumer(queue).receive(PATIENCE_MS)
                assert message is not None
                session.create_producer(queue).send(message)
            if unit == "branch":
                xa_session.xa_resource.end(branch, XAResource.TMSUCCESS)
                xa_session.xa_resource.rollback(branch)
            else:
                done.pop("send")  # to a shard of this member, which need not wait
                session.commit()
    assert done
    assert not [name for name, is_on_loop in done.items() if is_on_loop]


@pytest.mark.parametrize("poll", ["poll", "poll_or_wait", "poll_at_once"])
def test_a_consumer_whose_leader_has_just_stopped_finds_nothing_and_has_its_shard_connected_again(poll: str) -> None:
    lost: list[int] = []

    class Stopped:
        def __getattr__(self, name: str) -> Callable[[], None]:
            def call() -> None:
                raise ClosedError("the session is closed")

            return call

    class Part:
        shard = property(lambda self: self)

        def lose(self, term: int, error: ProviderError) -> None:
            lost.append(term)

    consumer = ClusterConsumer(cast("Any", Part()), cast("Any", None), lambda: None, cast("Any", Stopped()), 7)
    assert getattr(consumer, poll)() in (None, ELSEWHERE)
    assert poll == "poll_at_once" or lost == [7]
    assert consumer.poll_or_wait() is None
    assert set(lost) == {7}


def noting_the_loop(done: dict[str, bool], name: str, act: Callable[..., Any]) -> Callable[..., Any]:
    """Return `act`, which notes whether one of its calls was made on the thread of a loop."""

    def act_noting(*arguments: Any, **more: Any) -> Any:
        done[name] = done.get(name, False) or events._get_running_loop() is not None
        return act(*arguments, **more)

    return act_noting

"""Asynchronous sends over a network: each outcome is told once, in any case, and no send waits for that of another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Condition
from typing import Any

import pytest

from pyjms.spi.envelope import Envelope
from pyjms.spi.errors import ClosedError, InDoubtError, ProviderError, ResourceError
from pyjms.spi.provider import ProviderConnection, ProviderSession
from pyjms_provider.amqp.performatives import ACCEPTED, RELEASED
from tests.provider.clients.amqp.peer import Peer as AmqpPeer
from tests.provider.clients.amqp.world import connected as connected_by_amqp
from tests.provider.clients.stomp import world as stomp
from tests.provider.clients.stomp.fake_broker import PATIENCE_S, FakeBroker
from tests.provider.clients.stomp.native.peer import Peer as NativePeer
from tests.provider.clients.stomp.native.peer import linked
from tests.provider.clients.stomp.world import hasten
from tests.provider.helpers import make_envelope


class Outcomes:
    """What was told of the sends, in the order of telling."""

    def __init__(self) -> None:
        self._changed = Condition()
        self.told: list[tuple[int, ProviderError | None]] = []

    def of(self, number: int) -> Callable[[ProviderError | None], None]:
        """Return what is called with the outcome of the send of that number."""

        def done(error: ProviderError | None) -> None:
            with self._changed:
                self.told.append((number, error))
                self._changed.notify_all()

        return done

    def wait(self, number: int) -> list[tuple[int, ProviderError | None]]:
        """Return the outcomes when there are so many."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.told) >= number, PATIENCE_S), self.told
            return list(self.told)


@dataclass
class World:
    """A connection to a broker that does as a test says."""

    connection: ProviderConnection
    session: ProviderSession
    hold: Callable[[], None]
    """Has the broker answer no message from now on."""
    refuse: Callable[[], None]
    """Has the broker refuse each message from now on."""
    accept: Callable[[], None]
    """Has the broker take each message from now on."""
    cut: Callable[[], None]
    arrived: Callable[[int], object]
    """Returns when so many messages have arrived."""
    outcomes: Outcomes = field(default_factory=Outcomes)

    def send(self, *numbers: int) -> None:
        """Send messages."""
        for number in numbers:
            self.session.send_async(message(number), self.outcomes.of(number))


def message(number: int) -> Envelope:
    return make_envelope(f"m{number}", persistent=True)


@contextmanager
def at_stomp(broker: FakeBroker, connection: Any) -> Iterator[World]:
    def refuse() -> None:
        broker.refused["SEND"] = "resource is full"

    yield World(
        connection=connection,
        session=connection.open_session(transacted=False),
        hold=lambda: broker.unanswered.add("SEND"),
        refuse=refuse,
        accept=broker.refused.clear,
        cut=broker.cut,
        arrived=lambda number: broker.wait_for("SEND", number),
    )


@contextmanager
def native() -> Iterator[World]:
    with NativePeer() as broker, linked(broker) as connection, at_stomp(broker, connection) as world:
        yield world


@contextmanager
def foreign() -> Iterator[World]:
    with FakeBroker() as broker, stomp.connected(broker) as connection, at_stomp(broker, connection) as world:
        yield world


@contextmanager
def amqp() -> Iterator[World]:
    with AmqpPeer() as peer, connected_by_amqp(peer) as connection:
        seen: list[object] = []
        outcomes: list[object] = [ACCEPTED]

        def outcome(address: str, data: bytes) -> object:
            seen.append(data)
            return outcomes[0]

        peer.script.outcome = outcome
        yield World(
            connection=connection,
            session=connection.open_session(transacted=False),
            hold=lambda: outcomes.__setitem__(0, None),
            refuse=lambda: outcomes.__setitem__(0, RELEASED),
            accept=lambda: outcomes.__setitem__(0, ACCEPTED),
            cut=peer.cut,
            arrived=lambda number: peer.wait_for(lambda: len(seen) >= number),
        )


@pytest.fixture(params=[native, foreign, amqp], ids=lambda each: each.__name__)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    with request.param() as world:
        yield world


def kinds(told: list[tuple[int, ProviderError | None]]) -> list[tuple[int, type]]:
    return [(number, type(error)) for number, error in told]


def test_each_success_is_told(world: World) -> None:
    world.send(1, 2, 3)
    assert sorted(world.outcomes.wait(3)) == [(1, None), (2, None), (3, None)]


def test_no_send_waits_for_the_outcome_of_another(world: World) -> None:
    world.send(1)
    world.outcomes.wait(1)
    world.hold()
    world.send(2, 3, 4)
    world.arrived(4)
    assert world.outcomes.told == [(1, None)]


def test_a_refusal_is_told_and_later_sends_go_on(world: World) -> None:
    world.refuse()
    world.send(1)
    assert kinds(world.outcomes.wait(1)) == [(1, ResourceError)]
    world.accept()
    world.send(2)
    assert kinds(world.outcomes.wait(2))[1:] == [(2, type(None))]


def test_a_lost_connection_leaves_all_in_doubt(world: World) -> None:
    world.send(1)
    world.outcomes.wait(1)
    world.hold()
    world.send(2, 3)
    world.arrived(3)
    world.cut()
    assert kinds(world.outcomes.wait(3))[1:] == [(2, InDoubtError), (3, InDoubtError)]


def test_what_is_not_answered_in_time_is_in_doubt(world: World) -> None:
    world.send(1)
    world.outcomes.wait(1)
    world.hold()
    link: Any = getattr(world.connection, "link", None) or getattr(world.connection, "failover", None)
    hasten(link, timeout_ms=50)
    world.send(2, 3)
    assert kinds(world.outcomes.wait(3))[1:] == [(2, InDoubtError), (3, InDoubtError)]
    assert "not answered a message for 50 ms" in str(world.outcomes.told[1][1])


def test_the_close_of_the_connection_tells_what_was_not_answered(world: World) -> None:
    world.send(1)
    world.outcomes.wait(1)
    world.hold()
    world.send(2)
    world.arrived(2)
    world.connection.close()
    assert kinds(world.outcomes.wait(2))[1:] == [(2, InDoubtError)]


def test_a_closed_session_refuses(world: World) -> None:
    world.session.close()
    with pytest.raises(ClosedError):
        world.send(1)
    assert world.outcomes.told == []


def test_in_a_transaction_a_send_is_complete_as_soon_as_one_that_waits(world: World) -> None:
    session = world.connection.open_session(transacted=True)
    for number in range(3):
        session.send_async(message(number), world.outcomes.of(number))
    assert world.outcomes.told == [(0, None), (1, None), (2, None)]
    session.rollback()

"""Contract tests: closing, in every state, more than once, from any thread; and the answers of a closed object."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, NamedTuple

import pytest

from pyjms.spi.capability import Capability
from pyjms.spi.errors import CapabilityError, ClosedError, ProviderError, RolledBackError
from pyjms.spi.provider import SubscribeRequest
from pyjms_tck.spi.environment import Environment, Receiver, Threads, envelope

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyjms.spi.delivery import Delivery
    from pyjms.spi.envelope import Address
    from pyjms.spi.provider import ProviderConnection, ProviderSession


class Scene(NamedTuple):
    """A queue with the messages a, b and c, and one client of it."""

    environment: Environment
    queue: Address
    connection: ProviderConnection
    session: ProviderSession
    receiver: Receiver

    def left(self) -> list[tuple[object, bool]]:
        """Return text and mark of the messages that another client finds in the queue."""
        session = self.environment.session()
        self.environment.send(session, self.queue, "end", priority=0)
        receiver = self.environment.receiver(session, self.queue)
        found: list[tuple[object, bool]] = []
        while (delivery := receiver.take()).envelope.body != "end":
            found.append((delivery.envelope.body, delivery.redelivered))
        return found


def open_scene(environment: Environment) -> Scene:
    """Open it: three messages sent, one consumer, the connection not started."""
    queue, connection = environment.queue(), environment.connect(started=False)
    session = connection.open_session(transacted=False)
    environment.send(session, queue, "a", "b", "c")
    return Scene(environment, queue, connection, session, environment.receiver(session, queue))


@pytest.fixture
def scene(environment: Environment) -> Scene:
    return open_scene(environment)


def as_opened(scene: Scene) -> None:
    """Do nothing: the connection was never started."""


def started(scene: Scene) -> None:
    scene.connection.start()


def stopped_again(scene: Scene) -> None:
    scene.connection.start()
    scene.connection.stop()


def interested(scene: Scene) -> None:
    scene.connection.start()
    scene.receiver.consumer.set_interested(True)


def with_deliveries(scene: Scene) -> None:
    scene.connection.start()
    scene.receiver.take_texts(2)


def stopped_with_deliveries(scene: Scene) -> None:
    with_deliveries(scene)
    scene.connection.stop()


def with_a_closed_consumer(scene: Scene) -> None:
    with_deliveries(scene)
    scene.receiver.consumer.close()


def with_a_closed_session(scene: Scene) -> None:
    with_deliveries(scene)
    scene.session.close()


def with_recovered_deliveries(scene: Scene) -> None:
    scene.connection.start()
    scene.session.recover([scene.receiver.take(), scene.receiver.take()])


# Deliveries that were not acknowledged are requeued and marked, whichever of consumer, session and connection was
# closed first.
STATES: dict[Callable[[Scene], None], list[tuple[object, bool]]] = {
    as_opened: [("a", False), ("b", False), ("c", False)],
    started: [("a", False), ("b", False), ("c", False)],
    stopped_again: [("a", False), ("b", False), ("c", False)],
    interested: [("a", False), ("b", False), ("c", False)],
    with_deliveries: [("a", True), ("b", True), ("c", False)],
    stopped_with_deliveries: [("a", True), ("b", True), ("c", False)],
    with_a_closed_consumer: [("a", True), ("b", True), ("c", False)],
    with_a_closed_session: [("a", True), ("b", True), ("c", False)],
    with_recovered_deliveries: [("a", True), ("b", True), ("c", False)],
}

in_every_state = pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)


@in_every_state
def test_a_connection_closes_in_every_state_and_gives_back(scene: Scene, state: Callable[[Scene], None]) -> None:
    state(scene)
    # Twice: a second close is no error.
    scene.connection.close()
    scene.connection.close()
    assert scene.left() == STATES[state]
    scene.session.close()
    scene.receiver.consumer.close()
    scene.receiver.consumer.set_interested(False)
    assert scene.environment.problems == []  # a requested close is no problem of the connection


@in_every_state
def test_a_session_closes_in_every_state_and_gives_back(scene: Scene, state: Callable[[Scene], None]) -> None:
    state(scene)
    scene.session.close()
    scene.session.close()
    scene.receiver.consumer.close()
    assert scene.left() == STATES[state]
    scene.connection.open_session(transacted=False)


@in_every_state
def test_a_consumer_closes_in_every_state(scene: Scene, state: Callable[[Scene], None]) -> None:
    state(scene)
    scene.receiver.consumer.close()
    scene.receiver.consumer.close()
    assert scene.receiver.consumer.poll() is None
    scene.receiver.consumer.set_interested(True)
    scene.connection.close()
    assert scene.left() == STATES[state]


def calls_of_a_session(scene: Scene, delivery: Delivery) -> dict[str, Callable[[], object]]:
    session, capabilities = scene.session, scene.connection.capabilities
    request = SubscribeRequest(address=scene.queue, selector=None, no_local=False, durable_name=None)
    calls: dict[str, Callable[[], object]] = {
        "send": lambda: session.send(envelope(scene.queue)),
        "subscribe": lambda: session.subscribe(request, lambda: None),
        "acknowledge": lambda: session.acknowledge([delivery]),
        "recover": lambda: session.recover([delivery]),
    }
    if Capability.BROWSING in capabilities:
        calls["browse"] = lambda: list(session.browse(scene.queue, None))
    if Capability.DEAD_LETTERS in capabilities:
        calls["reject"] = lambda: session.reject(delivery, "too late")
    return calls


def raises_closed(call: Callable[[], object]) -> bool:
    try:
        call()
    except ProviderError as error:
        return isinstance(error, ClosedError)
    return False


@pytest.mark.parametrize("what", ["session", "connection"])
def test_what_is_closed_refuses_all_other_calls(scene: Scene, what: str) -> None:
    scene.connection.start()
    delivery = scene.receiver.take()
    calls = calls_of_a_session(scene, delivery)
    if what == "session":
        scene.session.close()
    else:
        scene.connection.close()
        calls |= {
            "open_session": lambda: scene.connection.open_session(transacted=False),
            "start": scene.connection.start,
            "stop": scene.connection.stop,
            "set_client_id": lambda: scene.connection.set_client_id("late"),
        }
    assert [name for name, call in calls.items() if not raises_closed(call)] == []
    with suppress(ClosedError):
        assert scene.receiver.consumer.poll() is None
    assert scene.left() == [("a", True), ("b", False), ("c", False)]


@pytest.mark.parametrize("what", ["session", "connection"])
def test_closing_while_another_thread_receives_loses_nothing(environment: Environment, what: str) -> None:
    """The message that is being polled in that moment is delivered, or it is given back: never both, never neither."""
    queue, sender = environment.queue(), environment.session()

    def poll_until(closed: Event, receiver: Receiver, busy: Event) -> None:
        with suppress(ClosedError):
            while not closed.is_set():
                receiver.consumer.poll()
                busy.set()

    # Many rounds, as the close meets the poll at a different moment each time.
    for number in range(25):
        connection, busy, closed = environment.connect(), Event(), Event()
        session = connection.open_session(transacted=False)
        with Threads() as threads:
            threads.start(partial(poll_until, closed, environment.receiver(session, queue), busy))
            # The other thread is polling from here on, so the close meets it at work.
            busy.wait()
            environment.send(sender, queue, str(number))
            (session if what == "session" else connection).close()
            closed.set()
        check = environment.session()
        delivery = environment.receiver(check, queue).take()
        assert delivery.envelope.body == str(number)
        check.acknowledge([delivery])


def test_closing_while_another_thread_sends_and_acknowledges(environment: Environment) -> None:
    """A message whose `send` returned is in the queue, one whose `acknowledge` returned is not; other calls raise
    ClosedError.
    """
    queue = environment.queue()
    sent: set[object] = set()
    settled: set[object] = set()

    def work(connection: ProviderConnection, name: str, busy: Event) -> None:
        session = connection.open_session(transacted=False)
        receiver = environment.receiver(session, queue)
        with suppress(ClosedError):
            for step in range(1000):
                environment.send(session, queue, f"{name}-{step}")
                sent.add(f"{name}-{step}")
                delivery = receiver.consumer.poll()
                if delivery is not None and step % 2:
                    session.acknowledge([delivery])
                    settled.add(delivery.envelope.body)
                busy.set()

    for number in range(5):  # seldom enough that no provider dead-letters a message as delivered too often
        connection, busy = environment.connect(), Event()
        with Threads() as threads:
            threads.start(partial(work, connection, str(number), busy))
            busy.wait()
            connection.close()
    last = environment.connect()
    session = last.open_session(transacted=False)
    left = {text for text, _ in Scene(environment, queue, last, session, environment.receiver(session, queue)).left()}
    assert sent - settled - left == set()  # a send that raised may have arrived nevertheless
    assert settled & left == set()


@pytest.mark.parametrize("what", ["session", "connection"])
def test_closing_while_another_thread_commits_leaves_all_or_nothing(environment: Environment, what: str) -> None:
    """Each message is in one of the two queues: what `commit` returned for in the second, the rest in either."""
    if Capability.TRANSACTIONS not in environment.connect().capabilities:
        with pytest.raises(CapabilityError):
            environment.connect().open_session(transacted=True).commit()
        return
    source, target, setup = environment.queue(), environment.queue(), environment.session()
    names = [str(number) for number in range(400)]
    environment.send(setup, source, *names)
    moved: set[object] = set()

    def move(session: ProviderSession, receiver: Receiver, busy: Event) -> None:
        with suppress(ClosedError, RolledBackError):
            while (delivery := receiver.consumer.poll()) is not None:
                environment.send(session, target, str(delivery.envelope.body))
                session.acknowledge([delivery])
                session.commit()
                moved.add(delivery.envelope.body)
                busy.set()
        # Also if no messages were left to move: the test waits for it.
        busy.set()

    for _ in range(10):
        connection, busy = environment.connect(), Event()
        session = connection.open_session(transacted=True)
        with Threads() as threads:
            threads.start(partial(move, session, environment.receiver(session, source), busy))
            busy.wait()
            (session if what == "session" else connection).close()
    last = environment.connect()
    session = last.open_session(transacted=False)
    left, arrived = (
        [text for text, _ in Scene(environment, queue, last, session, environment.receiver(session, queue)).left()]
        for queue in (source, target)
    )
    assert sorted(left + arrived, key=lambda name: int(str(name))) == names
    # A commit whose call was interrupted may have been done or not; one that returned has been done.
    assert moved <= set(arrived)


def test_a_client_that_closes_in_on_ready_does_not_wait_for_itself(environment: Environment) -> None:
    queue = environment.queue()
    connection = environment.connect()
    receiver = environment.receiver(connection.open_session(transacted=False), queue)
    receiver.hook = receiver.consumer.close
    receiver.consumer.set_interested(True)
    environment.send(environment.session(), queue, "news")
    # The hook has returned by now: a close that waited for its own caller would end this wait by its limit.
    receiver.await_wake()
    connection.close()
    assert environment.receiver(environment.session(), queue).take_texts(1) == ["news"]

"""One chaotic run: clients on threads for a stated time, optional restarts of the broker, and the judged history."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from threading import Event

from pyjms import Connection, ConnectionFactory, JMSException, Queue, Session, Topic
from pyjms.history import Recording, Report, record
from pyjms.spi.capability import Capability
from pyjms.spi.clock import SystemClock
from pyjms_tck.background import Background
from pyjms_tck.environment import Environment
from pyjms_tck.suite.chaos import clients
from pyjms_tck.suite.chaos.clients import Client, World

_CLOCK = SystemClock()
_RESTARTS = 2
_BREATH_S = 0.005
_MIN_STEPS = 100
"""How many steps all clients together make before a run ends, if they do in time."""


class Run:
    """A run against the provider of `environment`, recorded below `directory`.

    restart: restarts the broker; None: the broker keeps running, so that no call of a client may fail.
    """

    def __init__(self, environment: Environment, directory: Path, restart: Callable[[], None] | None) -> None:
        self._environment = environment
        self._waits = environment.waits
        self._restart = restart
        self._over = Event()
        self._numbers = count(1)
        self._steps = 0
        self._recording: Recording = record(directory / "history")
        self._factory = environment.factory(ConnectionFactory, record=self._recording)
        lacking = environment.profile.unsupported
        self._can = {
            feature.name: feature in environment.facts.capabilities and feature.name not in lacking
            for feature in (Capability.TRANSACTIONS, Capability.DURABLE_SUBSCRIPTIONS, Capability.TOPICS)
        }
        self._client_ids = [environment.make_name("client") for _ in range(2)] if self._has_subscribers else []
        self._subscription = environment.make_name("subscription")

    @property
    def _has_subscribers(self) -> bool:
        return self._can["DURABLE_SUBSCRIPTIONS"] and self._can["TOPICS"]

    def judge(self) -> Report:
        """Run for the time that the profile states, consume the remaining messages, and return the report on the
        history.

        Raises a client's error, if the broker was not restarted.
        """
        with self._recording, ExitStack() as made:
            world = self._world(made)
            # Before the clients start: a durable subscription has only messages published after its creation (§6.3).
            self._subscribe(world)
            working = [Background(partial(self._work, world, *each), self._patience_s) for each in self._clients()]
            self._let_pass()
            self._over.set()
            # `result` raises a client's error, and fails for a client that does not notice the end of the run.
            for task in working:
                task.result()
            return self._drain(world)

    @property
    def _patience_s(self) -> float:
        return self._waits.something_ms / 1000

    def _clients(self) -> Iterator[tuple[Client, str | None]]:
        yield from (
            (each, None) for each in (clients.producer, clients.producer, clients.receiver, clients.acknowledger)
        )
        if self._can["TRANSACTIONS"]:
            yield from ((each, None) for each in (clients.batches, clients.mover))
        yield from ((clients.subscriber, client_id) for client_id in self._client_ids)

    # ------------------------------------------------------------------------------------------------- the world

    def _world(self, made: ExitStack) -> World:
        profile, name = self._environment.profile, self._environment.make_name
        names = [profile.create_queue(name("tck_chaos")) for _ in range(3)]
        for queue_name in names:
            made.callback(profile.delete_queue, queue_name)
        topic_name = None
        if self._has_subscribers:
            topic_name = profile.create_topic(name("tck_chaos"))
            made.callback(profile.delete_topic, topic_name)
            made.callback(self._unsubscribe)
        with self._factory.create_connection() as connection:
            session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
            queues: list[Queue] = [session.create_queue(each) for each in names]
            topic: Topic | None = None if topic_name is None else session.create_topic(topic_name)
        return World(
            inbound=queues[0],
            outbound=queues[1],
            fleeting=queues[2],
            topic=topic,
            subscription=self._subscription,
            is_over=self._over.is_set,
            breathe=self._breathe,
        )

    @contextmanager
    def _connected(self, client_id: str | None = None) -> Iterator[Connection]:
        with self._factory.create_connection() as connection:
            if client_id is not None:
                connection.client_id = client_id
            connection.start()
            yield connection

    def _subscribe(self, world: World) -> None:
        """Create the durable subscriptions, so that they get all published messages."""
        for client_id in self._client_ids:
            assert world.topic is not None
            with self._connected(client_id) as connection:
                session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
                session.create_durable_subscriber(world.topic, world.subscription)

    def _unsubscribe(self) -> None:
        for client_id in self._client_ids:
            with suppress(JMSException), self._connected(client_id) as connection:
                connection.create_session(False, Session.AUTO_ACKNOWLEDGE).unsubscribe(self._subscription)

    # -------------------------------------------------------------------------------------------------- the work

    def _work(self, world: World, client: Client, client_id: str | None) -> None:
        """Give `client` one connection after another until the run is over."""
        while not self._over.is_set():
            try:
                with self._connected(client_id) as connection:
                    client(world, connection)
            except JMSException:
                if self._restart is None:
                    self._over.set()
                    raise
                # The broker may be down: without a pause the client would reconnect as fast as it is refused.
                self._over.wait(self._waits.nothing_ms / 1000)

    def _breathe(self) -> None:
        self._steps = next(self._numbers)
        self._over.wait(_BREATH_S)

    def _let_pass(self) -> None:
        """Wait for the time of the run, and restart the broker in between."""
        part_s = self._environment.profile.chaos_ms / 1000 / (_RESTARTS + 1)
        for _ in range(_RESTARTS):
            self._over.wait(part_s)
            if self._restart is not None and not self._over.is_set():
                # Read before the restart: from here on, calls may have failed because of it.
                began_ns = self._recording.now_ns()
                self._restart()
                self._recording.broker_died(began_ns)
        self._over.wait(part_s)
        # On a busy machine the clients may have done too little until now.
        end_ms = _CLOCK.monotonic_ms() + self._waits.something_ms
        while self._steps < _MIN_STEPS and _CLOCK.monotonic_ms() < end_ms and not self._over.is_set():
            self._over.wait(_BREATH_S)

    # --------------------------------------------------------------------------------------------------- the end

    def _drain(self, world: World) -> Report:
        """Consume until no message is missing, or until the missing ones had their time; return the report."""
        end_ms = _CLOCK.monotonic_ms() + self._waits.something_ms
        # Repeatedly: after a restart a broker may take a while to requeue the messages of lost connections.
        while True:
            self._consume_all(world)
            report = self._recording.check(complete=True)
            is_missing = any(finding.rule in {"lost", "lost-nonpersistent"} for finding in report.findings)
            if not is_missing or _CLOCK.monotonic_ms() >= end_ms:
                return report

    def _consume_all(self, world: World) -> None:
        with self._connected() as connection:
            session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
            for queue in (world.inbound, world.outbound, world.fleeting):
                with session.create_consumer(queue) as consumer:
                    while consumer.receive(self._waits.nothing_ms) is not None:
                        pass
        # A connection for each client, as a durable subscription belongs to a client identifier (§6.3).
        for client_id in self._client_ids:
            assert world.topic is not None
            with self._connected(client_id) as connection:
                session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
                subscriber = session.create_durable_subscriber(world.topic, world.subscription)
                while subscriber.receive(self._waits.nothing_ms) is not None:
                    pass

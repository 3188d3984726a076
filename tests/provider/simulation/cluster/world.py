"""One seed drives a cluster of three members, its clients, its database, and all that befalls them.

The members are the product's own: `ClusterMember` with its threads, brokers, and the connections of clients. The machines, their clocks, the
database, and the links between members are simulated.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final, cast
from unittest.mock import patch
from uuid import UUID

from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import BranchError, ClosedError, InDoubtError, ProviderError
from pyjms.spi.provider import ProviderConsumer, SubscribeRequest
from pyjms.spi.xid import BranchFailure, Xid
from pyjms_provider import broker as broker_module
from pyjms_provider import housekeeping
from pyjms_provider.broker import EmbeddedBroker
from pyjms_provider.clients.close_once import CloseOnce
from pyjms_provider.clients.cluster import shard_connection
from pyjms_provider.clients.cluster.connection import ClusterConnection
from pyjms_provider.clients.cluster.session import ClusterSession
from pyjms_provider.cluster import leading, member, membership
from pyjms_provider.cluster.branch_names import transaction_of
from pyjms_provider.cluster.errors import ClusterError
from pyjms_provider.cluster.member import ClusterMember
from pyjms_provider.cluster.placement import Placement
from pyjms_provider.cluster.settings import ClusterSettings
from pyjms_provider.core.host import virtual_host
from pyjms_provider.core.host.host_policy import HostPolicy
from pyjms_provider.core.journal.storage_manager import WorkUnderWay
from pyjms_provider.settings import BrokerSettings, StoreSettings
from pyjms_provider.stores import opening
from pyjms_provider.stores.sql import database
from tests.provider.helpers import make_envelope
from tests.provider.simulation.cluster.cooperative import (
    Host,
    KeyedMutex,
    Scheduler,
    SimulatedClock,
    Task,
    present_task,
)
from tests.provider.simulation.cluster.database import Server, SimulatedPlacements, SimulatedTables
from tests.provider.simulation.cluster.network import Network, SimulatedLinks, WatchedConsumer
from tests.provider.simulation.cluster.oracle import ClusterOracle, Fate, Message, Unit, ViolationError
from tests.provider.simulation.cluster.stores import SimulatedJournal, SimulatedStores

if TYPE_CHECKING:
    from pyjms_provider.stores.sql.cluster_placements import PlacementTables

SHARDS: Final = 4
MEMBERS: Final = ("ann", "bob", "cem")
LEASE_MS: Final = 1_000
STEPS: Final = (2, 3, 3, 4, 4, 8)
"""How many faults a world has: one of these numbers."""
STEP_MS: Final = (30, 150, 400, 900)
"""How long it is until the next one."""
HEAL_MS: Final = 20_000
"""How long it may take after the last fault until all is as it should be."""
STILL_MS: Final = 400
"""How long nothing may move then."""
_CLIENTS: Final = 1
_LEADER_WAIT_MS: Final = 2_000
POLICY = HostPolicy(keep_transient=True)  # as in a cluster that nobody configures otherwise
_STORE: Final = "postgresql+psycopg://nobody@127.0.0.1/nothing"


def _queues() -> dict[str, int]:
    """Return the name of a queue for each shard."""
    placement = Placement(SHARDS)
    found: dict[str, int] = {}
    for number in count():
        name = f"q{number}"
        shard = placement.shard_of(AddressKind.QUEUE, name)
        if shard not in found.values():
            found[name] = shard
        if len(found) == SHARDS:
            break
    return found


QUEUES: Final = _queues()
TOPIC: Final = "t"
SUBSCRIPTION: Final = "d"
"""A durable subscription of the topic, which consumers of all clients share."""
_QUEUES: Final = tuple(QUEUES)
_PLACES: Final = (*QUEUES, TOPIC)
_LISTENING_MS: Final = 3_000
"""How long a message may take to a consumer of the topic while all is well."""


def _address(place: str) -> Address:
    return Address(AddressKind.TOPIC if place == TOPIC else AddressKind.QUEUE, place)


def _request(place: str, durable_name: str | None) -> SubscribeRequest:
    return SubscribeRequest(
        address=_address(place),
        selector=None,
        no_local=False,
        durable_name=durable_name,
        shared_name=None,
        is_shared=durable_name is not None,
    )


class Machine:
    """A host that may have a member, and its clients."""

    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self.host = Host(name)
        self.member: ClusterMember | None = None
        self.is_stopping = False
        self._world = world

    @property
    def is_up(self) -> bool:
        """Whether its process runs."""
        return not self.host.is_dead

    def start(self) -> None:
        """Start its process."""
        world = self._world
        self.host = Host(self.name, ahead_ms=world.random.choice((-200, 0, 0, 200)))
        self.member, self.is_stopping = None, False
        Task(target=self._run, name=f"main {self.name}", host=self.host).start()

    def _run(self) -> None:
        world, host = self._world, self.host
        settings = ClusterSettings(
            name="sim",
            member=self.name,
            virtual_host="sim",
            shards=SHARDS,
            lease_ms=LEASE_MS,
            leader_wait_ms=_LEADER_WAIT_MS,
            broker=BrokerSettings(store=StoreSettings(url=_STORE), policy=POLICY),
        )
        clock = SimulatedClock(world.scheduler, host)
        made: ClusterMember | None = None
        while made is None:
            try:
                tables = SimulatedTables(world.server, host, settings.lease_ms / 2)
                placements = cast("PlacementTables", SimulatedPlacements(tables))
                made = ClusterMember(settings, clock, SimulatedLinks(world.network, host), (tables, placements))
            except (ClusterError, ProviderError) as error:
                world.note(f"{self.name} cannot start: {error}")
                world.scheduler.sleep(200)
        self.member = made
        for _ in range(_CLIENTS):
            Task(target=Client(world, self, made).run, name=f"client {self.name}").start()

    def stop(self) -> None:
        """Stop its member in order."""
        made = self.member
        if made is None or self.is_stopping:
            return
        self.is_stopping = True

        def run() -> None:
            made.stop()
            self._world.note(f"{self.name} has stopped")
            self._world.kill(self)

        Task(target=run, name=f"stop {self.name}", host=self.host).start()


class _Events:
    def on_exception(self, error: ProviderError) -> None:
        """Ignore it: calls fail."""


class Client:
    """A client at the port of a member: it sends and receives, with transactions over several shards and without."""

    def __init__(self, world: World, machine: Machine, cluster: ClusterMember) -> None:
        self._world = world
        self._machine = machine
        self._host = machine.host
        self._cluster = cluster
        self._random = Random(world.random.random())
        self._plain: ClusterSession
        self._transacted: ClusterSession
        self._distributed: ClusterSession
        self._consumers: dict[tuple[ClusterSession, str], ProviderConsumer] = {}
        self._listener: ProviderConsumer | None = None
        """Of a subscription of the topic that is not durable."""
        self.number = world.next_client()

    def connect(self) -> ClusterConnection:
        """Open a connection, and sessions. Raises `ProviderError`."""
        connection = ClusterConnection(
            self._cluster, _Events(), SimulatedClock(self._world.scheduler, self._machine.host)
        )
        connection.start()
        self._plain = connection.open_session(transacted=False)
        self._transacted = connection.open_session(transacted=True)
        self._distributed = connection.open_session(transacted=True)
        self._consumers.clear()
        self._listener = None
        return connection

    def run(self) -> None:
        """Work until the world ends, or the member."""
        world = self._world
        while world.goes_on() and not self._machine.is_stopping:
            try:
                connection = self.connect()
                self._recover_abandoned()
                while world.goes_on():
                    self._act()
                    world.scheduler.sleep(10 + 150 * self._random.random())
                self._listen_at_last()
                connection.close()
            except ProviderError as error:
                world.note(f"client {self.number} ends: {error.reason}")
                world.scheduler.sleep(50)

    def _act(self) -> None:
        chance = self._random.random()
        if self._world.faults is not None:
            self._transact()
        elif chance < 0.08:
            self._listen()
        elif chance < 0.35:
            self._send()
        elif chance < 0.6:
            self._receive()
        elif chance < 0.85:
            self._transact()
        else:
            self._work_in_branch()

    def _queue(self) -> str:
        return self._random.choice(self._world.places())

    def _listen(self) -> None:
        """Attach a consumer to the topic whose subscription is not durable, or see what it has got; make the durable subscription, if there is none."""
        try:
            if not self._world.is_subscribed:
                self._poll(self._plain, TOPIC)
                self._world.is_subscribed = True
            elif self._listener is None:
                self._listener = self._plain.subscribe(_request(TOPIC, None), lambda: None)
            else:
                self._hear(self._listener)
        except ClosedError:
            raise
        except ProviderError as error:
            self._world.note(f"client {self.number} hears nothing: {error.reason}")

    def _hear(self, listener: ProviderConsumer) -> list[str]:
        found: list[str] = []
        while (delivery := listener.poll()) is not None:
            found.append(str(delivery.envelope.body))
            self._world.note(f"client {self.number} hears {found[-1]}")
            with suppress(ProviderError):
                self._plain.acknowledge([delivery])
        return found

    def _listen_at_last(self) -> None:
        """Demand that the consumer of the topic gets a message, as all is well. Raises `ViolationError`."""
        listener, scheduler = self._listener, self._world.scheduler
        if listener is None:
            return
        text = self._send(TOPIC).text
        until_ms = scheduler.now_ms + _LISTENING_MS
        while text not in self._hear(listener):
            if scheduler.now_ms > until_ms:
                raise ViolationError(f"not delivered: {text} to the consumer of the topic of client {self.number}")
            scheduler.sleep(50)

    def _send(self, place: str | None = None) -> Message:
        world, queue = self._world, place or self._queue()
        message = world.oracle.sending(world.next_text(), queue, None)
        fate = Fate.NO
        try:
            self._send_to(self._plain, message)
            fate = Fate.YES
        except InDoubtError:
            fate = Fate.MAYBE
        except ProviderError as error:
            world.note(f"send of {message.text} fails: {error.reason}")
            if isinstance(error, ClosedError):
                raise
        except BaseException:
            fate = Fate.MAYBE
            raise
        finally:
            world.oracle.sent(message, fate)
        return message

    def _send_to(self, session: ClusterSession, message: Message) -> None:
        is_persistent = self._random.random() < 0.7
        self._world.note(f"client {self.number} sends {message.text} to {message.queue}")
        session.send(make_envelope(message.text, destination=_address(message.queue), persistent=is_persistent))

    def _poll(self, session: ClusterSession, queue: str) -> tuple[Delivery, Message, int] | None:
        consumer = self._consumers.get((session, queue))
        if consumer is None:
            request = _request(queue, SUBSCRIPTION if queue == TOPIC else None)
            consumer = self._consumers[session, queue] = session.subscribe(request, lambda: None)
        delivery = consumer.poll()
        if delivery is None:
            return None
        message = self._world.oracle.got(str(delivery.envelope.body))
        self._world.note(f"client {self.number} got {message.text} ({delivery.count})")
        return delivery, message, self._world.number_of(delivery)

    def _receive(self) -> None:
        world = self._world
        try:
            found = self._poll(self._plain, self._queue())
        except ClosedError:
            raise
        except ProviderError as error:
            world.note(f"client {self.number} receives nothing: {error.reason}")
            return
        if found is None:
            return
        delivery, message, number = found
        world.scheduler.sleep(self._random.choice((0, 5, 100)))
        if self._random.random() < 0.15:
            with suppress(ProviderError):
                self._plain.recover([delivery])
            return
        world.oracle.acknowledged(message, number, Fate.MAYBE)
        fate = Fate.NO
        try:
            self._plain.acknowledge([delivery])
            fate = Fate.YES
        except InDoubtError:
            fate = Fate.MAYBE
        except ProviderError as error:
            world.note(f"client {self.number} cannot acknowledge {message.text}: {error.reason}")
        except BaseException:
            fate = Fate.MAYBE
            raise
        finally:
            world.oracle.acknowledged(message, number, fate)
        world.note(f"client {self.number} has acknowledged {message.text}: {fate.name}")

    def _transact(self) -> None:
        world, session = self._world, self._transacted
        unit = world.oracle.begin()
        fate = Fate.NO
        try:
            held = self._work(session, unit)
            if self._random.random() < 0.1:
                session.rollback()
                session.recover(held)
                return
            world.committing(unit)
            world.note(
                f"client {self.number} commits {unit.name}: sends {[each.text for each in unit.sent]}, "
                f"takes {[each.text for each, _ in unit.taken]}"
            )
            session.commit()
            fate = Fate.YES
        except InDoubtError as error:
            world.note(f"client {self.number} {unit.name} is in doubt: {error.reason}")
            fate = Fate.MAYBE
        except ProviderError as error:
            world.note(f"client {self.number} {unit.name} fails: {type(error).__name__} {error.reason}")
            if isinstance(error, ClosedError):
                raise
            with suppress(ProviderError):
                session.rollback()
                session.recover(self._held)
        except BaseException:
            fate = Fate.NO if unit.fate is Fate.OPEN else Fate.MAYBE
            raise
        finally:
            world.oracle.ended(unit, fate)
        world.note(f"client {self.number} {unit.name} has ended: {unit.fate.name}")

    _held: list[Delivery]

    def _work(self, session: ClusterSession, unit: Unit) -> list[Delivery]:
        world = self._world
        self._held = held = []
        most = (1, 2, 2, 3) if world.faults is None else (2, 3)
        queues = self._random.sample(world.places(), self._random.choice(most))
        for queue in queues:
            if self._random.random() < 0.4:
                found = self._poll(session, queue)
                if found is not None:
                    delivery, message, number = found
                    held.append(delivery)
                    session.acknowledge([delivery])
                    world.oracle.take(unit, message, number)
            else:
                message = world.oracle.sending(world.next_text(), queue, unit)
                self._send_to(session, message)
            world.scheduler.sleep(self._random.choice((0, 0, 5, 60)))
        return held

    # Distributed transactions

    def _work_in_branch(self) -> None:
        """Work in a branch, and have it prepared and settled, in one phase or in two, with a coordinator whose log nothing destroys."""
        world, session = self._world, self._distributed
        unit = world.oracle.begin()
        xid = Xid(1, unit.name.encode(), b"1")
        branch = world.branches[xid] = Branch(unit, self)
        is_one_phase = self._random.random() < 0.3
        is_open = False
        try:
            session.xa_start(xid)
            is_open = True
            self._work(session, unit)
            is_open = False
            session.xa_end(xid)
            world.note(
                f"client {self.number} ends {unit.name}: sends {[each.text for each in unit.sent]}, "
                f"takes {[each.text for each, _ in unit.taken]}"
            )
            if is_one_phase:
                world.committing(unit)
                session.xa_commit(xid, one_phase=True)
            else:
                session.xa_prepare(xid)
                world.scheduler.sleep(self._random.choice((0, 0, 50, 600)))
            self._decide(
                branch, Fate.NO if self._random.random() < 0.1 and not is_one_phase else Fate.YES, "so it was decided"
            )
        except ProviderError as error:
            world.note(f"client {self.number} {unit.name} fails: {type(error).__name__} {error.reason}")
            if is_open:
                with suppress(ProviderError):
                    session.xa_end(xid, fail=True)
            if not is_one_phase or unit.fate is Fate.OPEN or _is_rolled_back(error):
                self._decide(branch, Fate.NO, "its coordinator rolls it back")
            else:
                self._decide(branch, Fate.MAYBE, "nobody answered")
            if isinstance(error, ClosedError):
                raise
        finally:
            branch.client = None
        if not is_one_phase or unit.fate is Fate.NO:
            with suppress(ProviderError):
                self.settle(xid, branch)

    def _decide(self, branch: Branch, fate: Fate, why: str) -> None:
        self._world.note(f"client {self.number} {branch.unit.name} is decided: {fate.name}")
        self._world.oracle.decide(branch.unit, fate, why)

    def in_doubt(self) -> Sequence[Xid]:
        """Return the branches that are in doubt. Raises `ProviderError`."""
        return self._distributed.xa_recover()

    def recover(self, xid: Xid) -> None:
        """Settle a branch in doubt whose client works in it no more; without a decision, roll it back."""
        branch = self._world.branches[xid]
        if branch.is_worked_in:
            return
        if branch.unit.fate is Fate.OPEN:
            self._decide(branch, Fate.NO, "its coordinator finds no decision")
        with suppress(ProviderError):
            self.settle(xid, branch)

    def _recover_abandoned(self) -> None:
        if any(not each.is_settled and not each.is_worked_in for each in self._world.branches.values()):
            for xid in self.in_doubt():
                self.recover(xid)

    @property
    def is_there(self) -> bool:
        """Whether its process lives."""
        return not self._host.is_dead

    def settle(self, xid: Xid, branch: Branch) -> None:
        """Have a branch settled as its coordinator has decided. Raises `ProviderError`."""
        fate = branch.unit.fate
        try:
            if fate is Fate.YES:
                self._distributed.xa_commit(xid)
            else:
                self._distributed.xa_rollback(xid)
        except BranchError as error:
            if error.failure is not BranchFailure.UNKNOWN:
                raise
        branch.is_settled = True
        self._world.note(f"client {self.number} has settled {branch.unit.name}: {fate.name}")


def _is_rolled_back(error: ProviderError) -> bool:
    return isinstance(error, BranchError) and error.failure in (BranchFailure.ROLLED_BACK, BranchFailure.TIMED_OUT)


@dataclass(eq=False)
class Branch:
    """A branch of a distributed transaction."""

    unit: Unit
    client: Client | None
    """The client that works in it; None: it does no more."""
    is_settled: bool = False

    @property
    def is_worked_in(self) -> bool:
        """Whether its client still works in it, or settles it."""
        return self.client is not None and self.client.is_there


class World:
    """A run of one seed."""

    def __init__(self, seed: int, *, faults: Mapping[str, float] | None = None) -> None:
        """`faults`: how often each fault comes, relative to the others, and no other one; then clients use nothing but transactions over several shards.

        None: all come, with clients that do all sorts of things.
        """
        self.faults = faults
        self.random = Random(seed)
        self.scheduler = Scheduler(Random(self.random.random()))
        self.server = Server(self.scheduler, SHARDS, self.note)
        self.oracle = ClusterOracle()
        self.network = Network(self.scheduler, self._handed_out)
        self.machines = [Machine(self, name) for name in MEMBERS]
        self.is_ending = False
        self.is_subscribed = False
        """Whether the durable subscription is there, so that messages to the topic are kept."""
        self.log: list[str] = []
        self.branches: dict[Xid, Branch] = {}
        """The log of the coordinator of distributed transactions."""
        self._texts = count(1)
        self._clients = count(1)
        self._numbers: dict[int, int] = {}
        self._kept: list[Delivery] = []
        """All deliveries, so that no two have one identity."""
        self._ids = Random(self.random.random())

    def run(self) -> None:
        """Play the seed. Raises `ViolationError`."""
        with self._patched():
            self.scheduler.play(self._play)

    @contextmanager
    def _patched(self) -> Iterator[None]:
        """Have the product make tasks in place of threads, open simulated stores, and draw its random numbers from the seed."""
        ids = SimpleNamespace(
            token_hex=lambda size: self._ids.randbytes(size).hex(),
            uuid4=lambda: UUID(bytes=self._ids.randbytes(16)),
        )
        with ExitStack() as stack:
            for module in (member, leading, membership, shard_connection, broker_module, housekeeping, database):
                stack.enter_context(patch.object(module, "Thread", Task))
            for module in (member, housekeeping, database):
                stack.enter_context(patch.object(module, "current_thread", present_task))
            for module in (leading, shard_connection):
                stack.enter_context(patch.object(module, "Random", lambda: Random(self._ids.random())))
            stack.enter_context(patch.object(membership, "secrets", ids))
            stack.enter_context(patch.object(broker_module, "uuid", ids))
            stack.enter_context(patch.object(membership, "installed_version", lambda: "1"))
            stack.enter_context(patch.object(virtual_host, "KeyedLock", KeyedMutex))
            stack.enter_context(patch.object(WorkUnderWay, "end", _end_work))
            stack.enter_context(patch.object(CloseOnce, "do", _close_once))
            stack.enter_context(patch.object(opening, "find_opener", lambda _: SimulatedStores(self.server)))
            handler = _FaultHandler(self)
            logger = logging.getLogger("pyjms_provider")
            logger.addHandler(handler)
            stack.callback(logger.removeHandler, handler)
            # For nobody else: to format and keep all that is logged of faults takes longer than some seeds.
            stack.enter_context(patch.object(logger, "propagate", False))
            stack.callback(logger.setLevel, logger.level)
            logger.setLevel(logging.ERROR)
            yield

    def goes_on(self) -> bool:
        """Return whether clients still work."""
        return not self.is_ending

    @staticmethod
    def committing(unit: Unit) -> None:
        """Note that a transaction is about to be committed."""
        unit.fate = Fate.MAYBE
        for message, number in unit.taken:
            if message.handed_out != number:
                unit.fate = Fate.NO  # it has come again, so that the commit must fail
                unit.evidence = f"{message.text} has come again"
        for message in unit.sent:
            message.sent = unit.fate

    def places(self) -> Sequence[str]:
        """Return the names of the queues, and of the topic once it has its subscription."""
        return _PLACES if self.is_subscribed else _QUEUES

    def note(self, what: str) -> None:
        """Write into the trace."""
        self.log.append(f"{self.scheduler.now_ms:9.1f} {what}")

    def next_text(self) -> str:
        """Return the text of a new message."""
        return f"m{next(self._texts)}"

    def next_client(self) -> int:
        """Return the number of a new client."""
        return next(self._clients)

    # Deliveries

    def _handed_out(self, broker: EmbeddedBroker, delivery: Delivery, consumer: WatchedConsumer) -> None:
        """Judge a delivery at the moment when a leader makes it. Raises `ViolationError`."""
        journal = broker._journal
        assert isinstance(journal, SimulatedJournal)
        text = str(delivery.envelope.body)
        self.note(f"{journal._host.name} delivers {text} ({delivery.count}, epoch {journal.epoch})")
        if journal.epoch != journal.store.epoch:
            raise ViolationError(
                f"two leaders: {journal._host.name} has delivered {text} in epoch {journal.epoch} of shard {journal.store.number}, "
                f"which has the epoch {journal.store.epoch}"
            )
        if consumer.is_of_subscription:
            self.oracle.heard(text, consumer.heard, is_flagged=delivery.redelivered)
            return
        message = self.oracle.delivered(text, delivery.envelope.destination.name, is_flagged=delivery.redelivered)
        self._numbers[id(delivery)] = message.handed_out
        self._kept.append(delivery)

    def number_of(self, delivery: Delivery) -> int:
        """Return how often the message was handed out with this delivery."""
        return self._numbers[id(delivery.tag.delivery)]  # type: ignore[attr-defined]

    # Faults

    def _play(self) -> None:
        for machine in self.machines:
            machine.start()
        try:
            self.scheduler.sleep(300)
            for _ in range(self.random.choice(STEPS)):
                self._befall()
                self.scheduler.sleep(self.random.choice(STEP_MS))
            self._heal()
            self._await_rest()
            self._finish()
        finally:
            self._end()

    def _befall(self) -> None:
        random, machine = self.random, self.random.choice(self.machines)
        host = machine.host
        faults: dict[str, tuple[float, Callable[[], None]]] = {
            "nothing": (3, lambda: None),
            "kill": (3, lambda: self.kill(machine)),
            "pause": (4, lambda: self._pause(machine)),
            "cut_off": (3, lambda: setattr(host, "is_cut", True)),
            "slow": (2, lambda: setattr(host, "slow_ms", random.choice((20, 150)))),
            "mend": (5, lambda: self._mend(machine)),
            "stop": (1, machine.stop),
            "cut_links": (2, lambda: self._cut_links(machine)),
            "lose_links": (2, lambda: self.network.lose_all(lambda link: host in (link.client, link.server))),
            "tear": (2, lambda: setattr(self.server, "torn", random.choice((0.02, 0.1)))),
            "restart_the_database": (1, self._restart_database),
        }
        if not machine.is_up:
            machine.start()
            self.note(f"start {machine.name}")
            return
        chances = {each: chance for each, (chance, _) in faults.items()} if self.faults is None else self.faults
        [name] = random.choices(list(chances), weights=list(chances.values()))
        self.note(f"{name.replace('_', ' ')}: {machine.name}")
        faults[name][1]()

    def kill(self, machine: Machine) -> None:
        """Let a process die."""
        host = machine.host
        if host.is_dead:
            return
        self.server.interrupted(host)
        self.scheduler.kill(host)
        host.reconnect()
        self.server.end_of(host)
        self.network.lose_all(lambda link: host in (link.client, link.server))
        self.network.ports = {key: each for key, each in self.network.ports.items() if each[0] is not host}

    def _pause(self, machine: Machine) -> None:
        self.server.interrupted(machine.host)
        machine.host.is_paused = True

    def _mend(self, machine: Machine) -> None:
        host = machine.host
        self.scheduler.unpause(host)
        host.reconnect()
        host.slow_ms = 0
        self.network.mend(machine.name)
        self.server.torn = 0.0

    def _cut_links(self, machine: Machine) -> None:
        other = self.random.choice([each for each in self.machines if each is not machine])
        self.network.cut(machine.name, other.name)

    def _restart_database(self) -> None:
        self.server.stop()
        self.scheduler.sleep(self.random.choice((0, 300, 2_500)))
        self.server.start()

    def _heal(self) -> None:
        self.note("all is mended")
        self.network.mend()
        self.server.torn = 0.0
        for machine in self.machines:
            if machine.is_up:
                self._mend(machine)
        stopping = [machine for machine in self.machines if machine.is_stopping]
        self._await("members stop", lambda: not any(machine.is_up for machine in stopping), HEAL_MS)
        for machine in self.machines:
            if not machine.is_up:
                machine.start()

    # The end

    def _await(self, what: str, is_so: Callable[[], bool], most_ms: float) -> None:
        until_ms = self.scheduler.now_ms + most_ms
        while not is_so():
            if self.scheduler.now_ms >= until_ms:
                raise ViolationError(f"not in time: {what}: {self._state()}")
            self.scheduler.sleep(100)

    def _state(self) -> str:
        rows = {number: (each.leader, each.terms, each.restoring) for number, each in self.server.shards.items()}
        members = {key: each.name for key, each in self.server.members.items()}
        leading_ = {
            each.name: {number: leader.state.name for number, leader in each.member._leaders.items()}
            for each in self.machines
            if each.member is not None
        }
        return f"members {members}, shards {rows}, {leading_}, branches {self._in_doubt()}"

    def _is_well(self) -> bool:
        members = [each.member for each in self.machines]
        if any(each is None or each.incarnation is None for each in members):
            return False
        counts = sorted(len(each.brokers()) for each in members if each is not None)
        is_led = sum(counts) == SHARDS and counts[-1] - counts[0] <= 1
        rows = self.server.shards
        are_so = all(
            {number for number, row in rows.items() if row.leader == each.incarnation and not row.restoring}
            == set(each.brokers())
            and each.incarnation in self.server.members
            for each in members
            if each is not None
        )
        return is_led and are_so and not self._in_doubt()

    def _in_doubt(self) -> list[str]:
        """Return the prepared branches of transactions over several shards, of which nobody is the coordinator any more, or has had enough time."""
        found = [transaction_of(xid) for store in self.server.stores.values() for xid in store.medium.branches]
        return [] if not self.is_ending else [str(each) for each in found if each is not None]

    def _await_rest(self) -> None:
        """Return once all has been led, and balanced, and nothing has moved for a while."""
        last: list[int] = []
        since_ms = 0.0

        def is_at_rest() -> bool:
            nonlocal last, since_ms
            terms = [each.terms for each in self.server.shards.values()]
            if terms != last or not self._is_well():
                last, since_ms = terms, self.scheduler.now_ms
            return self.scheduler.now_ms - since_ms >= STILL_MS

        self._await("all is led, balanced, and at rest", is_at_rest, HEAL_MS)

    def _finish(self) -> None:
        self.note("the end")
        self.is_ending = True
        clients = [each for each in self.scheduler.tasks if each.name.startswith("client ")]
        for each in clients:
            each.join()
        machine = self.random.choice(self.machines)
        self._run_at(machine, "coordinator", lambda: self._recover_branches(machine))
        self._await("all branches are settled", lambda: not self._in_doubt(), HEAL_MS)
        drained: list[str] = []
        self._run_at(machine, "drain", lambda: drained.extend(self._drain(machine)))
        self.oracle.finally_drained(drained)

    @staticmethod
    def _run_at(machine: Machine, name: str, act: Callable[[], object]) -> None:
        task = Task(target=act, name=name, host=machine.host)
        task.start()
        task.join()

    def _recover_branches(self, machine: Machine) -> None:
        """Do as a coordinator after a failure: settle what is in doubt, as decided, and roll the rest back. Raises `ViolationError`."""
        assert machine.member is not None
        client = Client(self, machine, machine.member)
        connection = client.connect()
        until_ms = self.scheduler.now_ms + HEAL_MS
        while found := client.in_doubt():
            if self.scheduler.now_ms > until_ms:
                raise ViolationError(f"not in time: the coordinator settles {[str(each) for each in found]}")
            for xid in found:
                client.recover(xid)
            self.scheduler.sleep(100)
        connection.close()
        for branch in self.branches.values():
            if branch.unit.fate is Fate.OPEN:
                self.oracle.decide(branch.unit, Fate.NO, "it was never prepared")

    def _drain(self, machine: Machine) -> list[str]:
        assert machine.member is not None
        client = Client(self, machine, machine.member)
        connection = ClusterConnection(machine.member, _Events(), SimulatedClock(self.scheduler, machine.host))
        connection.start()
        session = connection.open_session(transacted=False)
        found: list[str] = []
        for queue in self.places():
            while (each := client._poll(session, queue)) is not None:
                delivery, message, number = each
                session.acknowledge([delivery])
                self.oracle.acknowledged(message, number, Fate.YES)
                found.append(message.text)
        connection.close()
        return found

    def _end(self) -> None:
        for machine in self.machines:
            self.scheduler.kill(machine.host)
        self.scheduler.kill(self.server.host)
        self.scheduler.end_others()


def _end_work(work: WorkUnderWay) -> None:
    """Do as `WorkUnderWay.end`, and wait as a task does."""
    work.is_ending = True
    while work.entries:
        scheduler = present_task().scheduler
        scheduler.wait(work._idle, scheduler.now_ms + 20)


def _close_once(once: CloseOnce, end: Callable[[], None]) -> None:
    """Do as `CloseOnce.do`, and wait as a task does."""
    task = present_task()
    closing = task.scheduler.closing
    if closing.get(once) is task:
        return
    while once in closing:
        task.scheduler.sleep(1)
    closing[once] = task
    try:
        if not once._is_done:
            end()
        once._is_done = True
    except ProviderError:
        once._is_done = True
        raise
    finally:
        del closing[once]


class _FaultHandler(logging.Handler):
    """Has an error of the product that it has only logged end the world."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.ERROR)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info is not None and record.exc_info[1] is not None:
            self._world.note(f"an error of the product: {record.exc_info[1]!r}")
            self._world.scheduler.fail(record.exc_info[1])

"""Clients of all kinds at work on a cluster, over STOMP and AMQP, any of which may lose its member, or the leader of a destination, at any moment."""

from __future__ import annotations

import sys
import traceback
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from random import Random
from threading import Condition, Event, get_ident
from typing import Final
from uuid import uuid4

from pyjms import (
    Connection,
    ConnectionFactory,
    DeliveryMode,
    JMSException,
    Message,
    MessageConsumer,
    Session,
    XAConnectionFactory,
    XAException,
    XAResource,
)
from pyjms.history import Recording
from pyjms.spi import Xid as XidFact
from pyjms_tck.background import Background
from tests.provider.xa.coordinator import BranchId
from tests.system.cluster.site import GROUPED, ClusterSite

QUEUES: Final = ("orders", "bills", "parcels", "returns", "letters", "payments")
"""In several shards."""
TOPICS: Final = ("news", "alarms")
GROUPS: Final = tuple(f"group-{number}" for number in range(5))
PATIENCE_S: Final = 90.0
_PACE_S: Final = 0.03
_RECEIVE_MS: Final = 200
_NOTHING_MS: Final = 2_000
_FAILED: Final = (JMSException, XAException)
_FAILURES: Final = 4
"""After so many failures one after the other a client begins anew with another connection."""
_OPTIONS: Final = {
    "stomp": {"heart_beat_ms": 1000, "reconnect_delay_ms": 5, "reconnect_delay_max_ms": 100, "timeout_ms": 20_000},
    "amqp": {"idle_timeout_ms": 2000, "reconnect_delay_ms": 5, "reconnect_delay_max_ms": 100, "timeout_ms": 20_000},
}


class Worker(ABC):
    """One client, on a thread of its own."""

    protocol = "stomp"
    client_id: str | None = None
    team = ""
    """Of those of one team, one may get all there is."""

    def __init__(self, crowd: Crowd, number: int) -> None:
        self.crowd = crowd
        self.name = f"{type(self).__name__} {number} ({self.protocol})"
        self.number = number
        self.random = Random(f"{crowd.seed} {number}")
        self.done = 0
        """How much of what it does was confirmed, or received."""
        self.thread = 0
        self.place = ""
        """To whom it is connected."""

    def run(self) -> None:
        """Work with one connection after the other, until it is over."""
        self.thread = get_ident()
        for life in count():
            if self.crowd.is_over.is_set():
                return
            try:
                with self.connected(life) as connection:
                    self._live(connection)
            except _FAILED as error:
                self.crowd.note(self, error)
                self.crowd.is_over.wait(_PACE_S)

    @contextmanager
    def connected(self, life: int) -> Iterator[Connection]:
        url = self.crowd.site.url(self.protocol, self.number + life, **_OPTIONS[self.protocol])
        connection = ConnectionFactory(url, record=self.crowd.recording).create_connection()
        with ExitStack() as ends:
            ends.callback(self._close, connection)
            if self.client_id is not None:
                connection.client_id = self.client_id
            connection.start()
            yield connection

    def _close(self, connection: Connection) -> None:
        try:
            connection.close()
        except JMSException as error:
            self.crowd.note(self, error)

    def _live(self, connection: Connection) -> None:
        turn = self.begin(connection)
        failures = 0
        for _ in range(self.random.randint(100, 400)):
            while self.crowd.is_judged_alive.is_set() and failures == 0 and not self.crowd.is_over.is_set():
                # Those who are watched keep what they have: what is silently gone is noticed.
                failures += self._attempt(turn)
            if self.crowd.is_over.is_set() or failures >= _FAILURES:
                return
            failures = failures + 1 if self._attempt(turn) else 0

    def _attempt(self, turn: Callable[[], None]) -> bool:
        """Take a turn; return whether it has failed."""
        try:
            turn()
        except _FAILED as error:
            self.crowd.note(self, error)
            return True
        return False

    @abstractmethod
    def begin(self, connection: Connection) -> Callable[[], None]:
        """Make what it needs; return what it does again and again."""

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def send(self, session: Session, name: str, text: str | None = None, group: str | None = None) -> None:
        destination = session.create_topic(name) if name in TOPICS else session.create_queue(name)
        producer = session.create_producer(destination)
        producer.priority = 4 if group is not None or self.chance(0.8) else 8
        producer.delivery_mode = DeliveryMode.PERSISTENT if self.chance(0.85) else DeliveryMode.NON_PERSISTENT
        message = session.create_text_message(text or "x" * self.random.choice([10, 10, 1000, 20_000]))
        message.set_string_property("region", self.random.choice(["EU", "US"]))
        if group is not None:
            producer.delivery_mode = DeliveryMode.PERSISTENT  # two modes have no order between them
            message.set_string_property("JMSXGroupID", group)
        producer.send(message)
        producer.close()


class Sender(Worker):
    """Sends one by one."""

    def begin(self, connection: Connection) -> Callable[[], None]:
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)

        def turn() -> None:
            self.crowd.is_over.wait(_PACE_S)
            self.send(session, self.random.choice([*QUEUES, *TOPICS]))
            self.done += 1

        return turn


class AmqpSender(Sender):
    """The same by AMQP."""

    protocol = "amqp"


class GroupSender(Worker):
    """Sends the messages of groups, those of each in a session of its own."""

    def begin(self, connection: Connection) -> Callable[[], None]:
        sessions = {group: connection.create_session(False, Session.AUTO_ACKNOWLEDGE) for group in GROUPS}

        def turn() -> None:
            self.crowd.is_over.wait(_PACE_S)
            group = self.random.choice(GROUPS)
            self.send(sessions[group], GROUPED, group=group)
            self.done += 1

        return turn


class UnitSender(Worker):
    """Sends to queues and topics of several shards in transactions."""

    def begin(self, connection: Connection) -> Callable[[], None]:
        session = connection.create_session(True, Session.SESSION_TRANSACTED)

        def turn() -> None:
            self.crowd.is_over.wait(3 * _PACE_S)
            try:
                for _ in range(self.random.randint(1, 4)):
                    self.send(session, self.random.choice([*QUEUES, *TOPICS]))
            except JMSException:
                session.rollback()
                raise
            if self.chance(0.15):
                session.rollback()
            else:
                session.commit()
                self.done += 1

        return turn


class AmqpUnitSender(UnitSender):
    """The same by AMQP."""

    protocol = "amqp"


class Receiver(Worker):
    """Receives from one queue in one of the acknowledge modes, some with a selector."""

    queue = QUEUES[0]
    mode = Session.AUTO_ACKNOWLEDGE
    selector: str | None = None

    def begin(self, connection: Connection) -> Callable[[], None]:
        session = connection.create_session(False, self.mode)
        consumer = self.consumer(session)

        def turn() -> None:
            message = consumer.receive(_RECEIVE_MS)
            if message is None:
                return
            self.done += 1
            self.settle(session, message)

        return turn

    def consumer(self, session: Session) -> MessageConsumer:
        return session.create_consumer(session.create_queue(self.queue), self.selector)

    def settle(self, session: Session, message: Message) -> None:
        if self.mode == Session.CLIENT_ACKNOWLEDGE:
            choice = self.random.random()
            if choice < 0.5:
                message.acknowledge()
            elif choice < 0.6:
                session.recover()


class DupsReceiver(Receiver):
    queue = QUEUES[0]
    mode = Session.DUPS_OK_ACKNOWLEDGE
    protocol = "amqp"


class AcknowledgingReceiver(Receiver):
    queue = QUEUES[1]
    mode = Session.CLIENT_ACKNOWLEDGE


class AmqpAcknowledgingReceiver(Receiver):
    queue = QUEUES[1]
    mode = Session.CLIENT_ACKNOWLEDGE
    protocol = "amqp"


class EuropeanReceiver(Receiver):
    queue = QUEUES[2]
    selector = "region = 'EU'"


class OtherReceiver(Receiver):
    queue = QUEUES[2]
    selector = "region <> 'EU'"
    mode = Session.CLIENT_ACKNOWLEDGE
    protocol = "amqp"


class GroupReceiver(Receiver):
    queue = GROUPED
    team = GROUPED


class AmqpGroupReceiver(Receiver):
    queue = GROUPED
    team = GROUPED
    mode = Session.CLIENT_ACKNOWLEDGE
    protocol = "amqp"


class Listening(Receiver):
    """Has a listener."""

    queue = QUEUES[3]

    def begin(self, connection: Connection) -> Callable[[], None]:
        session = connection.create_session(False, self.mode)
        came = Condition()
        unseen = [0]

        def hear(message: Message) -> None:
            with came:
                unseen[0] += 1
                came.notify_all()

        self.consumer(session).message_listener = hear

        def turn() -> None:
            with came:
                came.wait(_RECEIVE_MS / 1000)
                self.done += unseen[0]
                unseen[0] = 0

        return turn


class PasserOn(Worker):
    """Passes messages on from one shard to others in transactions."""

    source = QUEUES[4]
    targets = (QUEUES[0], QUEUES[3], TOPICS[0])

    def begin(self, connection: Connection) -> Callable[[], None]:
        session = connection.create_session(True, Session.SESSION_TRANSACTED)
        consumer = session.create_consumer(session.create_queue(self.source))

        def turn() -> None:
            message = consumer.receive(_RECEIVE_MS)
            if message is None:
                session.commit()
                return
            try:
                for _ in range(self.random.randint(0, 2)):
                    self.send(session, self.random.choice(self.targets))
            except JMSException:
                session.rollback()
                raise
            if self.chance(0.2):
                session.rollback()
            elif self.chance(0.8):
                session.commit()
                self.done += 1

        return turn


class AmqpPasserOn(PasserOn):
    protocol = "amqp"


class DurableSubscriber(Receiver):
    """Has a durable subscription of its own."""

    client_id = "durable"
    mode = Session.CLIENT_ACKNOWLEDGE
    topic = TOPICS[0]
    subscription = "own"

    def consumer(self, session: Session) -> MessageConsumer:
        return session.create_durable_consumer(session.create_topic(self.topic), self.subscription)


class AmqpDurableSubscriber(DurableSubscriber):
    client_id = "durable-amqp"
    protocol = "amqp"
    topic = TOPICS[1]


class SharedSubscriber(Receiver):
    """Shares a durable subscription."""

    topic = TOPICS[0]
    subscription = "shared"

    def consumer(self, session: Session) -> MessageConsumer:
        return session.create_shared_durable_consumer(session.create_topic(self.topic), self.subscription)


class AmqpSharedSubscriber(SharedSubscriber):
    protocol = "amqp"
    mode = Session.CLIENT_ACKNOWLEDGE


class Visitor(Receiver):
    """Has a subscription that ends with it."""

    topic = TOPICS[1]

    def consumer(self, session: Session) -> MessageConsumer:
        return session.create_consumer(session.create_topic(self.topic))


class SharedVisitor(Visitor):
    """Shares one that is not durable."""

    topic = TOPICS[0]

    def consumer(self, session: Session) -> MessageConsumer:
        return session.create_shared_consumer(session.create_topic(self.topic), "visitors")


class BranchWorker(Worker):
    """Works in branches of distributed transactions, over several shards; it is their coordinator as well."""

    queues = (QUEUES[5], QUEUES[1])

    def __init__(self, crowd: Crowd, number: int) -> None:
        super().__init__(crowd, number)
        self.open: dict[BranchId, bool | None] = {}
        """The branches that are not settled, and whether they are to be committed; None: the one call of a commit has failed."""

    @contextmanager
    def connected(self, life: int) -> Iterator[Connection]:
        url = self.crowd.site.url(self.protocol, self.number + life, **_OPTIONS[self.protocol])
        connection = XAConnectionFactory(url, record=self.crowd.recording).create_xa_connection()
        with ExitStack() as ends:
            ends.callback(self._close, connection)
            connection.start()
            yield connection

    def begin(self, connection: Connection) -> Callable[[], None]:
        xa_session = connection.create_xa_session()  # type: ignore[attr-defined]  # it is an XAConnection
        session, resource = xa_session.session, xa_session.xa_resource
        consumers = [session.create_consumer(session.create_queue(name)) for name in self.queues]

        def turn() -> None:
            self.crowd.is_over.wait(_PACE_S)
            self._settle_all(resource)
            branch = BranchId(uuid4().hex, "cluster")
            resource.start(branch, XAResource.TMNOFLAGS)
            self.open[branch] = False
            flag = XAResource.TMSUCCESS
            try:
                for consumer in consumers:
                    # On a busy machine, the leader and a link may need longer for a message than a short wait lasts.
                    if consumer.receive(_RECEIVE_MS) is not None:
                        self.done += 1
                for _ in range(self.random.randint(0, 3)):
                    self.send(session, self.random.choice([*self.queues, TOPICS[1]]))
            except JMSException:
                flag = XAResource.TMFAIL
                raise
            finally:
                resource.end(branch, flag)
            self._finish(resource, branch)

        return turn

    def _finish(self, resource: XAResource, branch: BranchId) -> None:
        choice = self.random.random()
        if choice < 0.15:
            pass
        elif choice < 0.4:
            self.open[branch] = None
            resource.commit(branch, True)
            del self.open[branch]
        elif resource.prepare(branch) == XAResource.XA_OK:
            self.open[branch] = self.chance(0.7)
            if self.chance(0.2):
                return  # settled with the next
        else:
            del self.open[branch]
        self._settle_all(resource)

    def _settle_all(self, resource: XAResource) -> None:
        for branch, commit in list(self.open.items()):
            if commit is None:
                # Only the answer would have told the outcome. It may be prepared, or not.
                self._settle(resource, branch, commit=False)
            else:
                self._settle(resource, branch, commit=commit)

    def _settle(self, resource: XAResource, branch: BranchId, *, commit: bool) -> None:
        try:
            resource.commit(branch, False) if commit else resource.rollback(branch)
        except XAException as error:
            if error.error_code != XAException.XAER_NOTA:
                raise
            if self.open[branch] is None:
                del self.open[branch]
                return
            # It has ended: a call of this coordinator has settled it, whose answer was lost, or it was never prepared.
            fact = XidFact(branch.format_id, branch.global_transaction_id, branch.branch_qualifier)
            self.crowd.recording.branch_ended(fact, committed=commit, since_ns=self.crowd.begun_ns)
        self.open.pop(branch, None)


class AmqpListening(Listening):
    protocol = "amqp"


KINDS: Final[tuple[Callable[[Crowd, int], Worker], ...]] = (
    Sender,
    AmqpSender,
    GroupSender,
    UnitSender,
    AmqpUnitSender,
    Receiver,
    DupsReceiver,
    AcknowledgingReceiver,
    AmqpAcknowledgingReceiver,
    EuropeanReceiver,
    OtherReceiver,
    GroupReceiver,
    AmqpGroupReceiver,
    Listening,
    AmqpListening,
    PasserOn,
    AmqpPasserOn,
    DurableSubscriber,
    AmqpDurableSubscriber,
    SharedSubscriber,
    AmqpSharedSubscriber,
    Visitor,
    SharedVisitor,
    BranchWorker,
)


class Crowd:
    """All of them."""

    def __init__(self, site: ClusterSite, recording: Recording, seed: int) -> None:
        self.site = site
        self.recording = recording
        self.seed = seed
        self.begun_ns = recording.now_ns()
        self.is_over = Event()
        self.is_judged_alive = Event()
        """While it is set, clients keep their consumers."""
        self.errors: Counter[tuple[str, str, str]] = Counter()
        for kind in (DurableSubscriber, AmqpDurableSubscriber, SharedSubscriber):
            self._make_subscription(kind(self, 0))
        self.workers: list[Worker] = [kind(self, number) for number, kind in enumerate(KINDS)]
        self._threads = [Background(each.run, PATIENCE_S) for each in self.workers]

    def _make_subscription(self, worker: Receiver) -> None:
        with worker.connected(0) as connection:
            worker.consumer(connection.create_session())

    def note(self, worker: Worker, error: JMSException | XAException) -> None:
        """Count an error that a client was told."""
        self.errors[worker.name, str(error.error_code), str(error)[:160]] += 1

    def check_that_all_work(self) -> None:
        """Wait until each client has done something, while no new ones come."""
        for worker, thread in zip(self.workers, self._threads, strict=True):
            if not thread.is_running:
                thread.result()
            assert thread.is_running, f"{worker.name} has ended"
        self.is_judged_alive.set()
        pause, idle = Event(), ["nobody"]
        before = {worker: worker.done for worker in self.workers}
        try:
            for _ in range(int(PATIENCE_S / 0.02)):
                busy = {worker.team or worker.name for worker, had in before.items() if worker.done > had}
                idle = [worker.name for worker in self.workers if (worker.team or worker.name) not in busy]
                if not idle:
                    return
                pause.wait(0.02)
        finally:
            self.is_judged_alive.clear()
        told = [f"{number} x {error}" for error, number in self.errors.items() if error[0] in idle]
        frames = sys._current_frames()
        where = [
            line
            for worker in self.workers
            if worker.name in idle
            for line in (f"{worker.name} at {worker.place}\n", *traceback.format_stack(frames.get(worker.thread)))
        ]
        described = self.site.described()
        for member in self.site.members:
            member.abort()
        raise AssertionError(
            f"after the faults nothing came to {idle}; they were told: {told}\n{''.join(where)}\n{described}"
        )

    def end(self) -> None:
        """Let all finish, and take what is left."""
        self.is_over.set()
        for thread in self._threads:
            thread.result()
        self._drain()

    def _drain(self) -> None:
        self._settle_branches()
        for protocol, first in (("stomp", 0), ("amqp", 1)):
            url = self.site.url(protocol, first, **_OPTIONS[protocol])
            factory = ConnectionFactory(url, record=self.recording)
            for kind in (DurableSubscriber, AmqpDurableSubscriber, SharedSubscriber):
                with factory.create_connection() as connection:
                    if kind.client_id is not None:
                        connection.client_id = kind.client_id
                    connection.start()
                    session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
                    self._take_all(kind(self, 0).consumer(session))
            with factory.create_connection() as connection:
                connection.start()
                session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
                for name in (*QUEUES, GROUPED, "DLQ"):
                    consumer = session.create_consumer(session.create_queue(name))
                    self._take_all(consumer)
                    consumer.close()

    def _settle_branches(self) -> None:
        for worker in self.workers:
            if isinstance(worker, BranchWorker):
                with worker.connected(0) as connection:
                    worker._settle_all(connection.create_xa_session().xa_resource)  # type: ignore[attr-defined]

    @staticmethod
    def _take_all(consumer: MessageConsumer) -> None:
        while consumer.receive(_NOTHING_MS) is not None:
            pass

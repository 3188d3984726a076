"""Branches of distributed transactions, which a worker of the kill tests runs, and its coordinator, which finishes them after a death."""

from __future__ import annotations

from random import Random
from uuid import uuid4

from pyjms import MessageConsumer, Session, XAConnectionFactory, XAResource, XASession, Xid
from pyjms.history import Recording
from pyjms.spi import Xid as XidFact
from tests.provider.kill.coordinator_log import DECIDED, ENDED, ONCE, PREPARED, SETTLING, STARTED, CoordinatorLog
from tests.provider.kill.deeds import BRANCH_SUBSCRIBER, BRANCH_SUBSCRIPTION, PARCELS, QUEUES, TOPIC, send_one
from tests.provider.xa.coordinator import BranchId

_RESOURCE = "broker"


class Coordinator:
    """Decides, and has a broker do what is decided, in this life or in a later one. Any thread."""

    def __init__(self, log: CoordinatorLog, recording: Recording) -> None:
        self._log = log
        self._recording = recording
        self._open = log.open_branches()
        self._since_ns = recording.now_ns()
        self._waiting: list[tuple[BranchId, bool]] = []
        """Prepared branches that are settled later, and whether they are committed then."""

    def recover(self, resource: XAResource) -> None:
        """Find out what became of all that was under way when the last life ended."""
        scan = resource.recover(XAResource.TMSTARTRSCAN | XAResource.TMENDRSCAN)
        found = {bytes(xid.global_transaction_id).decode() for xid in scan}
        for name in self._open.keys() - found:
            self._take_note(name, self._open[name])
        for name in found:
            if name not in self._open or ONCE in self._open[name]:
                self._log.complain(f"branch {name} has ended, or was never prepared, and is in doubt")
            self._waiting.append((BranchId(name, _RESOURCE), DECIDED in self._log.steps[name]))

    def _take_note(self, name: str, steps: set[str]) -> None:
        """A branch that the broker does not know was committed if that was decided, else rolled back."""
        if PREPARED in steps and SETTLING not in steps:
            self._log.complain(f"branch {name} was prepared, and is forgotten")
        if ONCE not in steps:
            fact = XidFact(BranchId(name, _RESOURCE).format_id, name.encode(), _RESOURCE.encode())
            self._recording.branch_ended(fact, committed=DECIDED in steps, since_ns=self._since_ns)
        self._log.note(ENDED, name)

    def settle_one(self, resource: XAResource, random: Random) -> bool:
        """Settle one of the prepared branches that wait for it; return False if none does."""
        if not self._waiting:
            return False
        try:
            branch, commit = self._waiting.pop(random.randrange(len(self._waiting)))
        except (IndexError, ValueError):  # another thread was as fast
            return True
        self._settle(resource, branch, commit=commit)
        return True

    def begin(self) -> BranchId:
        """Return a new branch."""
        branch = BranchId(uuid4().hex, _RESOURCE)  # as the log knows no name twice
        self._log.note(STARTED, branch.transaction)
        return branch

    def finish(self, resource: XAResource, branch: BranchId, random: Random, *, has_failed: bool) -> None:
        """End a branch, whose work has ended, in one of the ways there are."""
        choice = random.random()
        name = branch.transaction
        if has_failed or choice < 0.1:
            resource.rollback(branch)
        elif choice < 0.35:
            self._log.note(ONCE, name)
            resource.commit(branch, True)
        elif resource.prepare(branch) == XAResource.XA_OK:
            self._log.note(PREPARED, name)
            commit = random.random() < 0.6
            if commit:
                self._log.decide(name)
            if random.random() < 0.2:
                self._waiting.append((branch, commit))
            else:
                self._settle(resource, branch, commit=commit)
            return
        self._log.note(ENDED, name)

    def _settle(self, resource: XAResource, branch: BranchId, *, commit: bool) -> None:
        self._log.note(SETTLING, branch.transaction)
        resource.commit(branch, False) if commit else resource.rollback(branch)
        self._log.note(ENDED, branch.transaction)


class BranchWorker:
    """Works in one branch after the other; another session joins in some, and some are suspended meanwhile."""

    def __init__(self, coordinator: Coordinator, seed: int, *, subscribes: bool) -> None:
        """`subscribes`: it also receives from the durable subscription, which has one consumer at a time."""
        self._coordinator = coordinator
        self._random = Random(seed)
        self._subscribes = subscribes

    def work(self, factory: XAConnectionFactory) -> None:
        """Never returns of itself."""
        with factory.create_xa_connection() as connection:
            if self._subscribes:
                connection.client_id = BRANCH_SUBSCRIBER
            connection.start()
            while True:
                session, helper = connection.create_xa_session(), connection.create_xa_session()
                for _ in range(self._random.randint(1, 8)):
                    if self._chance(0.3):
                        self._coordinator.settle_one(helper.xa_resource, self._random)
                    self._run(session, helper)
                session.close()
                helper.close()

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _run(self, session: XASession, helper: XASession) -> None:
        own, branch = session.xa_resource, self._coordinator.begin()
        own.start(branch, XAResource.TMNOFLAGS)
        self._do(session.session)
        if self._chance(0.25):
            self._interrupt(session, helper, branch)
        if self._chance(0.25):
            joined = helper.xa_resource
            joined.start(branch, XAResource.TMJOIN)
            self._do(helper.session)
            joined.end(branch, XAResource.TMSUCCESS)
        has_failed = self._chance(0.05)
        own.end(branch, XAResource.TMFAIL if has_failed else XAResource.TMSUCCESS)
        settler = helper if self._chance(0.5) else session
        self._coordinator.finish(settler.xa_resource, branch, self._random, has_failed=has_failed)

    def _interrupt(self, session: XASession, helper: XASession, branch: Xid) -> None:
        """Suspend a branch, do other work, and go on."""
        session.xa_resource.end(branch, XAResource.TMSUSPEND)
        if self._chance(0.5):
            self._run(session, helper)
        session.xa_resource.start(branch, XAResource.TMRESUME)
        self._do(session.session)

    def _do(self, session: Session) -> None:
        for _ in range(self._random.randint(0, 2)):
            with self._consumer(session) as consumer:
                for _ in range(self._random.randint(1, 3)):
                    consumer.receive(5)
        for _ in range(self._random.randint(0, 2)):
            send_one(session, self._random, (*QUEUES, PARCELS, PARCELS, TOPIC))

    def _consumer(self, session: Session) -> MessageConsumer:
        if self._subscribes and self._chance(0.3):
            return session.create_durable_subscriber(session.create_topic(TOPIC), BRANCH_SUBSCRIPTION)
        return session.create_consumer(session.create_queue(self._random.choice([*QUEUES, PARCELS, PARCELS])))

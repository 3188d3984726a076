"""Workflow stores below a virtual host, with the definitions and instances that operators watch and control.

Engines (`pyjms.spi.workflows`) run elsewhere, and share the store with the broker. While it cannot be reached, counts are
unknown, `last_error` says why, and a request for an instance fails with that error.

An instance is a snapshot from its look-up, and a decision applies to just that revision, or fails. A user who may
see or administer a store may do so with all objects in it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, cast
from uuid import UUID

from pydantic import BaseModel, Field

from pyjms.spi.errors import DestinationError, ProviderError
from pyjms.spi.workflows import (
    InstanceOrder,
    InstanceQuery,
    SteeringCommand,
    UnknownWorkflowError,
    WorkflowChangedError,
    WorkflowDefinition,
    WorkflowError,
    WorkflowInstance,
    WorkflowNote,
    WorkflowRepository,
    WorkflowRepositoryRequest,
    WorkflowRequest,
    WorkflowState,
    WorkflowStatus,
    WorkflowStep,
    WorkflowStoreError,
    find_opener,
)
from pyjms_provider.model.attributes import Attributes, Secret, attribute, with_password
from pyjms_provider.model.configured import Stoppable
from pyjms_provider.model.errors import UnknownObjectError, WrongStateError
from pyjms_provider.model.host_views import ObservedObject, connect_within
from pyjms_provider.model.managed import ChildPage, ChildSource, PageRequest
from pyjms_provider.model.operations import operation, statistic, statistics_of
from pyjms_provider.queue_manager import UnknownQueueError
from pyjms_provider.security.contracts import Operation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyjms_provider.model.contracts import ManagedHost
    from pyjms_provider.model.managed import ManagedObject
    from pyjms_provider.security.contracts import Target
    from pyjms_provider.stores.configuration_contract import ObjectRecord

_ORDERS: Final[Mapping[str, InstanceOrder]] = {
    "name": InstanceOrder.BY_ID,
    "-changed_at_ms": InstanceOrder.NEWEST_FIRST,
    "changed_at_ms": InstanceOrder.OLDEST_FIRST,
}
_STATUSES: Final = frozenset(each.value for each in WorkflowStatus)
_AT_ONCE: Final = 1_000
LOOKED_AT_MAX = 100_000
"""The most instances on which a condition that the database cannot evaluate is tried."""
_MESSAGES: Final = 200

Version = Annotated[int, Field(ge=0, description="Which version; 0: the newest.")]
Reason = Annotated[str, Field(max_length=500, description="Why; it is kept in the instance's history with your name.")]
WhyStop = Annotated[
    str, Field(min_length=1, max_length=500, description="Why; it is kept in the instance's history with your name.")
]
Revision = Annotated[
    int | None,
    Field(ge=0, description="The revision that you looked at: if there is another one now, nothing is done."),
]


class MessagePlace(BaseModel):
    """A message of an instance, and where it waits."""

    queue: str
    message_id: str | None
    correlation_id: str | None
    timestamp_ms: int
    is_dead: bool
    """Whether it is dead: the queue is one of dead letters, or of events that could not be understood."""


class _WorkflowView(ObservedObject):
    """An object below a workflow store."""

    @property
    def store(self) -> WorkflowStore:
        """The store that it is in."""
        assert isinstance(self.parent, WorkflowStore)
        return self.parent

    def target(self) -> Target:
        return self.store.target()


class Workflow(_WorkflowView):
    """A definition, shown as its newest version."""

    category = "workflow"

    def _overview(self) -> StoreOverview:
        found = self.store.overview()
        if self.name not in found.definitions:
            raise UnknownObjectError(f"{self.store.path} has no workflow {self.name!r}")
        return found

    def _newest(self) -> WorkflowDefinition:
        return self._overview().definitions[self.name][-1]

    def _count(self, status: WorkflowStatus) -> int:
        return self._overview().count(status, self.name)

    @statistic("What it is called for people.")
    def title(self) -> str:
        return self._newest().title

    @statistic("The newest version, which new instances take.")
    def version(self) -> int:
        return self._newest().version

    @statistic("Instances that go forward.", unit="instances")
    def running(self) -> int:
        return self._count(WorkflowStatus.RUNNING)

    @statistic("Instances that go backward: their completed steps are undone.", unit="instances")
    def compensating(self) -> int:
        return self._count(WorkflowStatus.COMPENSATING)

    @statistic("Instances that wait for a person.", unit="instances")
    def parked(self) -> int:
        return self._count(WorkflowStatus.PARKED)

    @statistic("Instances that have reached their end.", unit="instances")
    def completed(self) -> int:
        return self._count(WorkflowStatus.COMPLETED)

    @statistic("Instances that have gone back to their beginning.", unit="instances")
    def compensated(self) -> int:
        return self._count(WorkflowStatus.COMPENSATED)

    @statistic("All versions that are deployed; instances stay with theirs.")
    def versions(self) -> list[int]:
        return [each.version for each in self._overview().definitions[self.name]]

    @statistic("Its steps, in their order.")
    def steps(self) -> list[str]:
        return [each.name for each in self._newest().steps]

    @operation("Return the steps of a version, with queues and limits.", needs=Operation.OBSERVE, changes=False)
    def definition(self, version: Version = 0) -> list[WorkflowStep]:
        """Return the steps. Raises `UnknownWorkflowError`."""
        return list(self._version(version).steps)

    def _version(self, version: int) -> WorkflowDefinition:
        # From the newest on, which version 0 stands for.
        for each in reversed(self._overview().definitions[self.name]):
            if version in {0, each.version}:
                return each
        raise UnknownWorkflowError(
            f"{self.path} has no version {version}; it has: {', '.join(map(str, self.versions))}"
        )

    @operation(
        "Return all states of instances of a version, with the resources that are held in each.",
        needs=Operation.OBSERVE,
        changes=False,
    )
    def states(self, version: Version = 0) -> list[WorkflowState]:
        """Return the states: forward, the end, backward, the other end. Raises `UnknownWorkflowError`."""
        return list(self._version(version).states)

    @operation("Draw a version, as SVG.", needs=Operation.OBSERVE, changes=False)
    def picture(self, version: Version = 0) -> str:
        """Return an SVG document without scripts. Raises `UnknownWorkflowError`."""
        return self.store.repository.picture(self.name, version)


class Instance(_WorkflowView):
    """One run of a workflow."""

    category = "workflow_instance"

    def __init__(self, parent: ManagedObject, seen: WorkflowInstance) -> None:
        begun_ms = next((each.at_ms for each in seen.notes if each.what == "begun"), 0)
        super().__init__(parent, seen.id, created_ms=begun_ms, updated_ms=seen.changed_at_ms)
        self._seen = seen

    @property
    def revision_seen(self) -> int:
        return self._seen.revision

    @statistic("The definition that it is a run of.")
    def workflow(self) -> str:
        return self._seen.workflow

    @statistic("Where it stands: running, compensating, parked, completed, compensated.")
    def status(self) -> str:
        return self._seen.status.value

    @statistic("The step that is asked for, or undone, or that it was parked at; none: it has ended.")
    def step(self) -> str:
        return self._seen.step

    @statistic("What others may see of the business; empty once it goes backward.")
    def visible_state(self) -> str:
        return self._seen.visible_state

    @statistic("When it changed last, in milliseconds since 1970 UTC.", unit="ms")
    def changed_at_ms(self) -> int:
        return self._seen.changed_at_ms

    @statistic("Why it goes backward, or was parked.")
    def reason(self) -> str:
        return self._seen.reason

    @statistic("The version of the definition.")
    def version(self) -> int:
        return self._seen.version

    @statistic("Whether it undoes completed steps, or was parked while it did.")
    def is_backward(self) -> bool:
        return self._seen.is_backward

    @statistic("How many times the step was asked for.", unit="attempts")
    def attempt(self) -> int:
        return self._seen.attempt

    @statistic("How many times it is asked for at most.", unit="attempts")
    def attempts_max(self) -> int:
        return self._seen.attempts_max

    @statistic("When the answer is overdue, in milliseconds since 1970 UTC; none: nothing is waited for.", unit="ms")
    def due_at_ms(self) -> int | None:
        return self._seen.due_at_ms

    @statistic("The resources that it holds now, as its definition names them.")
    def holds(self) -> list[str]:
        return list(self._seen.holds)

    @statistic("The resources that the step in progress is taking or releasing.")
    def changing(self) -> list[str]:
        return list(self._seen.changing)

    @statistic("The queue whose answer it waits for; none: it waits for none.")
    def waits_for(self) -> str | None:
        return next((each.queue for each in self._seen.requests if each.is_waited_for), None)

    @statistic("Grows with each change.")
    def revision(self) -> int:
        return self._seen.revision

    @operation("Return its history so far.", needs=Operation.OBSERVE, changes=False)
    def history(self) -> list[WorkflowNote]:
        """Return the events of its history in order; of a long history the last 200 lines."""
        return list(self._seen.notes)

    @operation(
        "Return what its steps know of each other: its input, and what they have returned.",
        needs=Operation.BROWSE,
        changes=False,
    )
    def data(self) -> dict[str, Any]:
        return dict(self._seen.data)

    @operation("Return the messages that its steps were asked with.", needs=Operation.OBSERVE, changes=False)
    def requests(self) -> list[WorkflowRequest]:
        return list(self._seen.requests)

    @operation(
        "Find its messages that wait in the queues of its steps, of the engines, and of dead letters, 200 at most.",
        needs=Operation.BROWSE,
        changes=False,
    )
    def find_messages(self) -> list[MessagePlace]:
        return list(self._places())

    @operation("Draw where it stands, as SVG.", needs=Operation.OBSERVE, changes=False)
    def picture(self) -> str:
        return self.store.repository.picture_of(self.name)

    @operation("Try the step, or its compensation, again; for one that is parked.")
    def retry(self, reason: Reason = "", revision: Revision = None, *, by: str = "") -> None:
        """Try again. Raises `WorkflowStateError`, `WorkflowChangedError`."""
        self._steer(SteeringCommand.RETRY, reason, revision, by)

    @operation("Go on as if a person had done the step, or its compensation, by hand; for one that is parked.")
    def skip(self, reason: Reason = "", revision: Revision = None, *, by: str = "") -> None:
        """Go on. Raises `WorkflowStateError`, `WorkflowChangedError`."""
        self._steer(SteeringCommand.SKIP, reason, revision, by)

    @operation("Stop it until a user retries it.")
    def park(self, reason: WhyStop, revision: Revision = None, *, by: str = "") -> None:
        """Stop it. Raises `WorkflowStateError`, `WorkflowChangedError`."""
        self._steer(SteeringCommand.PARK, reason, revision, by)

    @operation("Cancel it: its completed steps are compensated, the last one first.")
    def cancel(self, reason: WhyStop, revision: Revision = None, *, by: str = "") -> None:
        """Cancel it: it goes back. Raises `WorkflowStateError`, `WorkflowChangedError`."""
        self._steer(SteeringCommand.CANCEL, reason, revision, by)

    def _steer(self, command: SteeringCommand, reason: str, revision: int | None, by: str) -> None:
        if revision is not None and revision != self._seen.revision:
            # Checked here, so that the error can say where the instance is now; the store checks again when it writes.
            raise WorkflowChangedError(
                f"{self.path} was at revision {revision} when you looked at it, and is {self._seen.status.value} at revision "
                f"{self._seen.revision} now, so nothing was done; look at it again"
            )
        self.store.repository.steer(self.name, command, reason=reason, by=by, revision=self._seen.revision)
        # The counts are cached for a second or more, and the operator looks at once whether the decision had an effect.
        self.store.forget_overview()

    def _places(self) -> Iterator[MessagePlace]:
        events = self.store.events
        dead = [*self.host.as_object.child_names("dead_letter"), f"{events}.bad"]
        queues = [each.queue for each in self._seen.requests]
        found = 0
        # Each queue once, in the order of the steps.
        for name in dict.fromkeys([*queues, events, *dead]):
            # No message was ever sent to that queue.
            with suppress(UnknownObjectError, UnknownQueueError, DestinationError):
                for each in self._messages_in(name):
                    if found == _MESSAGES:
                        return
                    found += 1
                    yield MessagePlace(
                        queue=name,
                        message_id=each["id"],
                        correlation_id=each["correlation_id"],
                        timestamp_ms=each["timestamp_ms"],
                        is_dead=name in dead,
                    )

    def _messages_in(self, name: str) -> Iterator[Mapping[str, Any]]:
        # As an operator looks at them: in a cluster, another member may have the queue.
        queue = self.host.as_object.child("queue", name)
        given = {"selector": self._seen.selector, "with_bodies": False, "limit": _MESSAGES}
        offset, has_more = 0, True
        while has_more:
            page = queue.invoke("browse", {**given, "offset": offset})
            yield from page["messages"]
            offset, has_more = offset + len(page["messages"]), page["has_more"] and bool(page["messages"])


class _Source(ChildSource):
    """The base of the sources below one store."""

    def __init__(self, store: WorkflowStore) -> None:
        self._store = store

    def common_target(self) -> Target:
        return self._store.target()


class WorkflowSource(_Source):
    """The definitions of a store; there are few."""

    @property
    def category(self) -> str:
        return "workflow"

    def names(self) -> Sequence[str]:
        return sorted(self._store.overview().definitions) if self._store.is_open else []

    def find(self, name: str) -> ManagedObject | None:
        is_there = self._store.is_open and name in self._store.overview().definitions
        return Workflow(self._store, name) if is_there else None


class InstanceSource(_Source):
    """The instances of a store; there may be millions, so that pages of them are left to the database."""

    @property
    def category(self) -> str:
        return "workflow_instance"

    def names(self) -> Sequence[str]:
        """Return the ids. Raises `WorkflowError` where there are too many to look at each."""
        if not self._store.is_open:
            return []
        # Counted before the ids are read: a store may have millions of instances.
        there_are = self._store.repository.count(InstanceQuery())
        if there_are > LOOKED_AT_MAX:
            raise WorkflowError(
                f"{self._store.path} has {there_are:,} instances, too many to look at each: ask below this store alone, for workflow = "
                "'NAME', status = 'STATUS' or both, in the order of name, changed_at_ms or -changed_at_ms"
            )
        return self._store.repository.instance_ids()

    def find(self, name: str) -> ManagedObject | None:
        found = self._store.repository.instance(name) if self._store.is_open else None
        return None if found is None else Instance(self._store, found)

    def find_id(self, parent: ManagedObject, wanted: UUID) -> ManagedObject | None:
        """Return None: millions of instances are not searched for an id; they are found by their names."""
        return None

    def columns(self, fields: Collection[str]) -> Mapping[str, Mapping[str, Any]]:
        known = statistics_of(Instance)
        found: dict[str, dict[str, Any]] = {field: {} for field in fields}
        for each in self._all() if self._store.is_open else ():
            values = Instance(self._store, each).statistic_values([name for name in fields if name in known])
            for field, value in values.items():
                found[field][each.id] = value
        return found

    def page(self, wanted: PageRequest) -> ChildPage | None:
        order, status = _ORDERS.get(wanted.order), wanted.equal.get("status")
        if order is None or not wanted.equal.keys() <= {"workflow", "status"}:
            return None
        if not self._store.is_open or (status is not None and status not in _STATUSES):
            # A status that does not exist fits no instance, and is no `WorkflowStatus`.
            return ChildPage(children=[], total=0)
        query = InstanceQuery(
            workflow=wanted.equal.get("workflow"),
            status=None if status is None else WorkflowStatus(status),
            order=order,
            offset=wanted.offset,
            limit=wanted.limit,
        )
        found = self._store.repository.instances(query)
        return ChildPage(
            children=[Instance(self._store, each) for each in found], total=self._store.repository.count(query)
        )

    def _all(self) -> Iterator[WorkflowInstance]:
        offset = 0
        while True:
            # By id: the order of changes would move instances between two pages.
            query = InstanceQuery(order=InstanceOrder.BY_ID, offset=offset, limit=_AT_ONCE)
            found = self._store.repository.instances(query)
            yield from found
            if len(found) < _AT_ONCE:
                return
            offset += _AT_ONCE


_FRESH_MS: Final = 1_000
"""The time for which an overview is valid at least: each object of a list asks for it."""
_SHARE: Final = 20
_STALE_MS: Final = 5_000
"""Counting takes at most 1/`_SHARE` of the time, for any number of instances, unless counts would become older than this."""


class WorkflowStoreAttributes(Attributes):
    """The attributes of a workflow store. A change takes effect at once."""

    store_url: str = attribute(
        "The database that the engines share: an SQLAlchemy URL without a password.", min_length=1
    )
    store_password: Secret | None = attribute("The password for the database.", default=None, secure=True)
    events: str = attribute(
        "The queue of events that the engines share, and that steps answer to.", default="pyjms.flows", min_length=1
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOverview:
    """The definitions and counts of a store at one moment."""

    until_ms: float
    """The time until which it is valid, by the monotonic clock."""
    definitions: Mapping[str, Sequence[WorkflowDefinition]]
    """All versions by the name, the newest last."""
    counts: Mapping[str, Mapping[WorkflowStatus, int]]

    def count(self, status: WorkflowStatus, workflow: str | None = None) -> int:
        """Return how many instances have a status; `workflow` None: of all definitions."""
        names = self.counts if workflow is None else [workflow]
        return sum(self.counts.get(name, {}).get(status, 0) for name in names)


class WorkflowStore(Stoppable):
    """A workflow store, open while it is ACTIVE."""

    category = "workflow_store"
    attributes_class = WorkflowStoreAttributes

    def __init__(self, parent: ManagedObject | None, record: ObjectRecord) -> None:
        super().__init__(parent, record)
        self._repository: WorkflowRepository | None = None
        self._known_overview: StoreOverview | None = None
        self._failed: tuple[float, str] | None = None
        self._sources: Mapping[str, ChildSource] = {
            each.category: each for each in (WorkflowSource(self), InstanceSource(self))
        }

    @property
    def repository(self) -> WorkflowRepository:
        """The open store. Raises `WrongStateError` while there is none."""
        repository = self._repository
        if repository is None:
            raise WrongStateError(f"{self.path} is {self.state.value}: it is not open; start it")
        return repository

    @property
    def is_open(self) -> bool:
        """Whether there is an open store."""
        return self._repository is not None

    @property
    def events(self) -> str:
        """The queue of events."""
        attributes = self.attributes
        assert isinstance(attributes, WorkflowStoreAttributes)
        return attributes.events

    def sources(self) -> Mapping[str, ChildSource]:
        return self._sources

    def overview(self) -> StoreOverview:
        """Return definitions and counts, about a second old at most, and older where counting takes long. Raises `WrongStateError`, `WorkflowStoreError`."""
        repository = self.repository
        begun_ms = self.clock.monotonic_ms()
        # Read once, as other threads replace them; two threads may count at the same time, which does no harm.
        known, failed = self._known_overview, self._failed
        if known is not None and begun_ms < known.until_ms:
            return known
        if failed is not None and begun_ms < failed[0]:
            raise WorkflowStoreError(failed[1])
        try:
            definitions: dict[str, list[WorkflowDefinition]] = {}
            for each in repository.definitions():
                definitions.setdefault(each.name, []).append(each)
            counts = repository.counts()
        except ProviderError as error:
            # A failure is remembered as long as a result: each object of a list would wait for the same time-out.
            self._known_overview, self._failed = None, (self._until_ms(begun_ms), error.reason)
            raise
        found = StoreOverview(until_ms=self._until_ms(begun_ms), definitions=definitions, counts=counts)
        self._known_overview, self._failed = found, None
        return found

    def _until_ms(self, begun_ms: float) -> float:
        """Return until when the result of a count that began at `begun_ms`, and has ended now, is valid."""
        now_ms = self.clock.monotonic_ms()
        took_ms = now_ms - begun_ms
        # Where counting takes long it is done less often.
        return now_ms + max(_FRESH_MS, took_ms, min(_SHARE * took_ms, _STALE_MS))

    def forget_overview(self) -> None:
        """Read the store again at the next call: something was changed."""
        self._known_overview = self._failed = None

    # The hooks

    def _validate(self, new: Attributes, old: Attributes | None) -> None:
        assert isinstance(new, WorkflowStoreAttributes)
        self._check_shown("store_url", new.store_url, "store_password")
        try:
            # Nothing is opened here: a database that is away must not keep the configuration from being changed.
            find_opener(self.type).check(new.store_url)
        except WorkflowError as error:
            raise self._wrong("store_url", error.reason) from error

    def _on_open(self) -> None:
        self._open(self.attributes)

    def _on_change(self, old: Attributes, new: Attributes) -> None:
        # The new store first: what cannot be opened leaves the old one open.
        before = self._repository
        self._open(new)
        if before is not None:
            before.close()

    def _on_stop(self) -> None:
        # Taken off first: other threads then see a closed store, and not one that is closing under them.
        repository, self._repository, self._known_overview = self._repository, None, None
        if repository is not None:
            repository.close()

    def _open(self, chosen: Attributes) -> None:
        assert isinstance(chosen, WorkflowStoreAttributes)
        request = WorkflowRepositoryRequest(
            url=with_password(chosen.store_url, chosen.store_password),
            events=chosen.events,
            # Workflow stores stand below virtual hosts.
            here=lambda events: connect_within(cast("ManagedHost", self.parent), events, f"workflows {self.name}"),
            clock=self.clock,
        )
        self._repository = find_opener(self.type).open(request)
        # The counts of the old store must not be shown for the new one.
        self.forget_overview()

    # Statistics

    def _count(self, status: WorkflowStatus) -> int | None:
        try:
            return self.overview().count(status)
        except ProviderError:
            # Unknown and not 0: a list of stores must not fail because one database is away.
            return None

    @statistic("Whether the database can be reached.")
    def is_reachable(self) -> bool:
        return self._count(WorkflowStatus.PARKED) is not None

    @statistic("Instances that wait for a person.", unit="instances")
    def parked(self) -> int | None:
        return self._count(WorkflowStatus.PARKED)

    @statistic("Instances that go forward.", unit="instances")
    def running(self) -> int | None:
        return self._count(WorkflowStatus.RUNNING)

    @statistic("Instances that go backward: their completed steps are undone.", unit="instances")
    def compensating(self) -> int | None:
        return self._count(WorkflowStatus.COMPENSATING)

    @statistic("Instances that have reached their end.", unit="instances")
    def completed(self) -> int | None:
        return self._count(WorkflowStatus.COMPLETED)

    @statistic("Instances that have gone back to their beginning.", unit="instances")
    def compensated(self) -> int | None:
        return self._count(WorkflowStatus.COMPENSATED)

    @statistic("How many definitions are deployed; none: the store cannot be reached.", unit="definitions")
    def definitions(self) -> int | None:
        try:
            return len(self.overview().definitions)
        except ProviderError:
            return None

    @statistic("Why the store could not be reached at the last attempt; none: it could.")
    def last_error(self) -> str | None:
        with suppress(ProviderError):
            self.overview()
        failed = self._failed
        return None if failed is None else failed[1]

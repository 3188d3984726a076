"""The contract between a broker that shows and steers workflows, and what knows their store.

Who opens such a store is found by the entry-point group ``pyjms.workflow_stores``, whose name is the kind of store. A broker so shows
workflows without knowing any engine, and engines know no broker. All calls may come from any thread, and may wait for a database.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from pyjms.spi.clock import Clock
from pyjms.spi.errors import ProviderError, ResourceError
from pyjms.spi.provider import ConnectionEvents, ProviderConnection
from pyjms.spi.registry import entry_points, make

__all__ = [
    "ENTRY_POINT_GROUP",
    "InstanceOrder",
    "InstanceQuery",
    "SteeringCommand",
    "UnknownWorkflowError",
    "WorkflowBook",
    "WorkflowBookOpener",
    "WorkflowBookRequest",
    "WorkflowChangedError",
    "WorkflowDefinition",
    "WorkflowError",
    "WorkflowInstance",
    "WorkflowNote",
    "WorkflowRequest",
    "WorkflowStateError",
    "WorkflowStatus",
    "WorkflowStep",
    "WorkflowStoreError",
    "find_opener",
]

ENTRY_POINT_GROUP = "pyjms.workflow_stores"


class WorkflowError(ProviderError):
    """What is asked of a workflow cannot be done as asked; the text says what to change."""

    code = "PYJMS-WORKFLOW"


class UnknownWorkflowError(WorkflowError):
    """There is no such definition, or no such instance."""

    code = "PYJMS-WORKFLOW-UNKNOWN"


class WorkflowStateError(WorkflowError):
    """The instance stands where that means nothing: nothing was done."""

    code = "PYJMS-WORKFLOW-STATE"


class WorkflowChangedError(WorkflowError):
    """The instance has gone on since somebody looked at it: nothing was done."""

    code = "PYJMS-WORKFLOW-CHANGED"


class WorkflowStoreError(ResourceError):
    """The store of workflows cannot be reached, or fails."""

    code = "PYJMS-WORKFLOW-STORE"


class WorkflowStatus(Enum):
    """Where an instance stands."""

    RUNNING = "running"
    COMPENSATING = "compensating"
    """It goes backward: what was done is undone."""
    PARKED = "parked"
    """It waits for a person."""
    COMPLETED = "completed"
    COMPENSATED = "compensated"


class InstanceOrder(Enum):
    """How instances are listed."""

    BY_ID = "id"
    NEWEST_FIRST = "newest"
    """Those that changed last first."""
    OLDEST_FIRST = "oldest"


class SteeringCommand(Enum):
    """What a person asks of an instance."""

    RETRY = "retry"
    """Of a parked one: try the step, or its compensation, again."""
    SKIP = "skip"
    """Of a parked one: go on as if it had been done by hand."""
    PARK = "park"
    """Stop until somebody retries it."""
    CANCEL = "cancel"
    """Go backward: undo what was done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowStep:
    """One step of a definition."""

    name: str
    queue: str
    compensation: str | None
    """The queue of the work that undoes it; None: nothing does."""
    state: str
    """What others see of the business once it is done."""
    timeout_ms: int
    """How long an answer may take."""
    retries: int
    on_timeout: str
    """``compensate``, or ``park``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowDefinition:
    """One version of a definition."""

    name: str
    version: int
    title: str
    initial_state: str
    steps: Sequence[WorkflowStep]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowNote:
    """One line of an instance's history. Times are in milliseconds since 1970 UTC."""

    at_ms: int
    what: str
    step: str
    """Empty: of the instance as a whole."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowRequest:
    """A message by which a step, or its compensation, is asked for; it has this JMSCorrelationID, as its reply has."""

    step: str
    queue: str
    is_compensation: bool
    correlation_id: str
    is_waited_for: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowInstance:
    """One instance, as it was at one moment. Times are in milliseconds since 1970 UTC."""

    id: str
    workflow: str
    version: int
    status: WorkflowStatus
    step: str
    """The one that is asked for, or compensated, or that it was parked at; empty: it has ended."""
    is_backward: bool
    """Whether it undoes what was done, or was parked while it did."""
    attempt: int
    attempts_max: int
    """So many times a step is asked for before its time is up."""
    visible_state: str
    """What others may see of the business; empty once it goes backward."""
    due_at_ms: int | None
    """When the answer is overdue; None: nothing is waited for."""
    changed_at_ms: int
    revision: int
    """Grows with each change."""
    reason: str
    """Why it goes backward, or was parked."""
    data: Mapping[str, Any] = field(repr=False)
    """What its steps know of each other; JSON's values."""
    notes: Sequence[WorkflowNote]
    requests: Sequence[WorkflowRequest]
    """The messages that its steps were asked with."""
    selector: str
    """By which its messages are found in queues: requests, their replies, and events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceQuery:
    """Which instances are wanted; None: all."""

    workflow: str | None = None
    status: WorkflowStatus | None = None
    order: InstanceOrder = InstanceOrder.NEWEST_FIRST
    offset: int = 0
    limit: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowBookRequest:
    """What is to be opened."""

    url: str = field(repr=False)
    """Of the database, as SQLAlchemy writes it; may hold a password."""
    events: str
    """The queue of events that the engines share; steps answer to it."""
    here: Callable[[ConnectionEvents], ProviderConnection]
    """Connects to the broker that asks, where the queues of steps are."""
    clock: Clock


class WorkflowBook(ABC):
    """An open store of workflows. All methods raise `WorkflowStoreError` when it cannot be reached."""

    @abstractmethod
    def definitions(self) -> Sequence[WorkflowDefinition]:
        """Return all versions of all definitions, by name and version."""

    @abstractmethod
    def counts(self) -> Mapping[str, Mapping[WorkflowStatus, int]]:
        """Return how many instances each definition has of each status; what there is none of may be missing."""

    @abstractmethod
    def instances(self, query: InstanceQuery) -> Sequence[WorkflowInstance]:
        """Return some of the instances."""

    @abstractmethod
    def count(self, query: InstanceQuery) -> int:
        """Return how many there are, whatever offset and limit are."""

    @abstractmethod
    def instance_ids(self) -> Sequence[str]:
        """Return the ids of all instances, sorted."""

    @abstractmethod
    def instance(self, instance_id: str) -> WorkflowInstance | None:
        """Return an instance; None: there is none."""

    @abstractmethod
    def picture(self, workflow: str, version: int = 0) -> str:
        """Return a definition as SVG without scripts; version 0: the newest. Raises `UnknownWorkflowError`."""

    @abstractmethod
    def picture_of(self, instance_id: str) -> str:
        """Return where an instance stands, as SVG without scripts. Raises `UnknownWorkflowError`."""

    @abstractmethod
    def steer(
        self, instance_id: str, command: SteeringCommand, *, reason: str, by: str, revision: int | None = None
    ) -> WorkflowInstance:
        """Have an instance do as a person says, and return it. `revision`: only if that is still its own.

        Raises `UnknownWorkflowError`, `WorkflowStateError`, `WorkflowChangedError`, and what the broker raises when it
        cannot be sent to.
        """

    @abstractmethod
    def close(self) -> None:
        """Close what is open. May be repeated."""


class WorkflowBookOpener(ABC):
    """Opens stores of one kind. Made without arguments."""

    @abstractmethod
    def check(self, url: str) -> None:
        """Look whether a URL can be one of a store, without connecting to anything. Raises `WorkflowError`."""

    @abstractmethod
    def open(self, request: WorkflowBookRequest) -> WorkflowBook:
        """Open a store. Raises `WorkflowStoreError`."""


def find_opener(kind: str) -> WorkflowBookOpener:
    """Return what opens stores of a kind. Raises `WorkflowError` when none is installed, or it cannot be made."""
    for point in entry_points(group=ENTRY_POINT_GROUP, name=kind):
        where = f"what opens stores of workflows of the kind {kind!r}"
        return make(point, WorkflowBookOpener, where, WorkflowError, "install what it needs")  # type: ignore[type-abstract]
    known = ", ".join(sorted({point.name for point in entry_points(group=ENTRY_POINT_GROUP)})) or "none"
    raise WorkflowError(f"there is no kind {kind!r} of stores of workflows; there are: {known}")

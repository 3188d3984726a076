"""The contract between a broker that shows and controls workflows, and the code that knows their store.

Openers of such stores are found by the entry-point group ``pyjms.workflow_stores``, whose name is the kind of store. So a broker shows
workflows without depending on an engine, and engines do not depend on a broker. All calls may come from any thread, and may wait for a database.
"""

from __future__ import annotations

import warnings
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
    "WorkflowChangedError",
    "WorkflowDefinition",
    "WorkflowError",
    "WorkflowInstance",
    "WorkflowNote",
    "WorkflowRepository",
    "WorkflowRepositoryOpener",
    "WorkflowRepositoryRequest",
    "WorkflowRequest",
    "WorkflowState",
    "WorkflowStateError",
    "WorkflowStatus",
    "WorkflowStep",
    "WorkflowStoreError",
    "find_opener",
]

ENTRY_POINT_GROUP = "pyjms.workflow_stores"


class WorkflowError(ProviderError):
    """A request for a workflow cannot be executed; the text says what to change."""

    code = "PYJMS-WORKFLOW"


class UnknownWorkflowError(WorkflowError):
    """There is no such definition, or no such instance."""

    code = "PYJMS-WORKFLOW-UNKNOWN"


class WorkflowStateError(WorkflowError):
    """The instance's state does not allow the request: nothing was done."""

    code = "PYJMS-WORKFLOW-STATE"


class WorkflowChangedError(WorkflowError):
    """The instance has changed since the caller read it: nothing was done."""

    code = "PYJMS-WORKFLOW-CHANGED"


class WorkflowStoreError(ResourceError):
    """The store of workflows cannot be reached, or fails."""

    code = "PYJMS-WORKFLOW-STORE"


class WorkflowStatus(Enum):
    """The state of an instance."""

    RUNNING = "running"
    COMPENSATING = "compensating"
    """It goes backward: completed steps are undone."""
    PARKED = "parked"
    """It waits for a person."""
    COMPLETED = "completed"
    COMPENSATED = "compensated"


class InstanceOrder(Enum):
    """The order of a list of instances."""

    BY_ID = "id"
    NEWEST_FIRST = "newest"
    """The last changed ones first."""
    OLDEST_FIRST = "oldest"


class SteeringCommand(Enum):
    """A user's command to an instance."""

    RETRY = "retry"
    """For a parked one: try the step, or its compensation, again."""
    SKIP = "skip"
    """For a parked one: continue as if it had been done by hand."""
    PARK = "park"
    """Stop until a user retries it."""
    CANCEL = "cancel"
    """Go backward: undo the completed steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowStep:
    """One step of a definition."""

    name: str
    queue: str
    compensation: str | None
    """The queue of the work that undoes it; None: there is none."""
    state: str
    """The state of the business that others see once the step is done."""
    timeout_ms: int
    """The time allowed for an answer."""
    retries: int
    on_timeout: str
    """``compensate``, or ``park``."""
    takes: Sequence[str] = ()
    """The resources that it takes, and that stay held when it is done."""
    releases: Sequence[str] = ()
    """The resources of earlier steps that it releases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowState:
    """One of the states of a definition's instances; an instance may be parked in each that is no end."""

    status: WorkflowStatus
    step: str
    """The step that is requested, or compensated; empty: the instance has ended."""
    is_backward: bool
    visible_state: str
    """The consistent state of the business that others may see; empty: it is not consistent."""
    waits_for: str | None
    """The queue whose server works on it."""
    holds: Sequence[str]
    """The resources that an instance holds in it."""
    changing: Sequence[str]
    """The resources that the step in progress is taking or releasing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowDefinition:
    """One version of a definition."""

    name: str
    version: int
    title: str
    initial_state: str
    steps: Sequence[WorkflowStep]
    states: Sequence[WorkflowState] = ()
    """All states of its instances: forward, the end, backward, the other end. (): the store does not know them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowNote:
    """One line of an instance's history. Times are in milliseconds since 1970 UTC."""

    at_ms: int
    what: str
    step: str
    """Empty: it concerns the instance as a whole."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowRequest:
    """A message that requests a step, or its compensation; its reply has the same JMSCorrelationID."""

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
    """The step in progress, being compensated, or at which it was parked; empty: it has ended."""
    is_backward: bool
    """Whether it undoes completed steps, or was parked while it did."""
    attempt: int
    attempts_max: int
    """The most attempts of a step before its time is up."""
    visible_state: str
    """The state of the business that others may see; empty once it goes backward."""
    holds: Sequence[str] = ()
    """The resources that it holds now."""
    changing: Sequence[str] = ()
    """The resources that the step in progress is taking or releasing."""
    due_at_ms: int | None
    """The time when the answer is overdue; None: no answer is expected."""
    changed_at_ms: int
    revision: int
    """Increases with each change."""
    reason: str
    """Why it goes backward, or was parked."""
    data: Mapping[str, Any] = field(repr=False)
    """The data that its steps share; JSON's values."""
    notes: Sequence[WorkflowNote]
    requests: Sequence[WorkflowRequest]
    """The messages that requested its steps."""
    selector: str
    """The selector of its messages in queues: requests, their replies, and events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceQuery:
    """A condition for instances; None: all."""

    workflow: str | None = None
    status: WorkflowStatus | None = None
    order: InstanceOrder = InstanceOrder.NEWEST_FIRST
    offset: int = 0
    limit: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowRepositoryRequest:
    """The description of a store to open."""

    url: str = field(repr=False)
    """The URL of the database in SQLAlchemy's form; may hold a password."""
    events: str
    """The queue of events that the engines share; replies of steps go there."""
    here: Callable[[ConnectionEvents], ProviderConnection]
    """Connects to the broker that opens the store, where the queues of steps are."""
    clock: Clock


class WorkflowRepository(ABC):
    """An open store of workflows. All methods raise `WorkflowStoreError` when it cannot be reached."""

    @abstractmethod
    def definitions(self) -> Sequence[WorkflowDefinition]:
        """Return all versions of all definitions, by name and version."""

    @abstractmethod
    def counts(self) -> Mapping[str, Mapping[WorkflowStatus, int]]:
        """Return the number of each definition's instances by status; counts of 0 may be missing."""

    @abstractmethod
    def instances(self, query: InstanceQuery) -> Sequence[WorkflowInstance]:
        """Return a page of the instances."""

    @abstractmethod
    def count(self, query: InstanceQuery) -> int:
        """Return the number of all that match, regardless of offset and limit."""

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
        """Return a picture of an instance's position, as SVG without scripts. Raises `UnknownWorkflowError`."""

    @abstractmethod
    def steer(
        self, instance_id: str, command: SteeringCommand, *, reason: str, by: str, revision: int | None = None
    ) -> WorkflowInstance:
        """Give an instance a user's command, and return it. `revision`: only if that is still its own.

        Raises `UnknownWorkflowError`, `WorkflowStateError`, `WorkflowChangedError`, and the broker's errors when a message
        cannot be sent.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the store. May be repeated."""


class WorkflowRepositoryOpener(ABC):
    """Opens stores of one kind. Made without arguments."""

    @abstractmethod
    def check(self, url: str) -> None:
        """Check the form of a URL, without connecting to anything. Raises `WorkflowError`."""

    @abstractmethod
    def open(self, request: WorkflowRepositoryRequest) -> WorkflowRepository:
        """Open a store. Raises `WorkflowStoreError`."""


def find_opener(kind: str) -> WorkflowRepositoryOpener:
    """Return the opener of a kind of stores. Raises `WorkflowError` when none is installed, or it cannot be made."""
    for point in entry_points(group=ENTRY_POINT_GROUP, name=kind):
        where = f"what opens stores of workflows of the kind {kind!r}"
        return make(point, WorkflowRepositoryOpener, where, WorkflowError, "install what it needs")  # type: ignore[type-abstract]
    known = ", ".join(sorted({point.name for point in entry_points(group=ENTRY_POINT_GROUP)})) or "none"
    raise WorkflowError(f"there is no kind {kind!r} of stores of workflows; there are: {known}")


_FORMER_NAMES = {
    "WorkflowBook": WorkflowRepository,
    "WorkflowBookOpener": WorkflowRepositoryOpener,
    "WorkflowBookRequest": WorkflowRepositoryRequest,
}


def __getattr__(name: str) -> Any:
    renamed = _FORMER_NAMES.get(name)  # until 0.3
    if renamed is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(f"{name} is called {renamed.__name__}", DeprecationWarning, stacklevel=2)
    return renamed

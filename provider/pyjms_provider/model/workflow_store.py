"""Stores of workflows below a virtual host: what engines keep (`pyjms.spi.workflows`), which operators see and decide about.

Engines run elsewhere, and share the store with the broker. When it cannot be reached meanwhile, what is counted is not known, and
`last_error` says why; whoever asks for an instance then is told so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyjms.spi.errors import ClosedError, ProviderError
from pyjms.spi.workflows import (
    WorkflowBook,
    WorkflowBookRequest,
    WorkflowDefinition,
    WorkflowError,
    WorkflowStatus,
    WorkflowStoreError,
    find_opener,
)
from pyjms_provider.clients.vm import VmConnection
from pyjms_provider.model.attributes import Attributes, Secret, attribute
from pyjms_provider.model.errors import WrongStateError
from pyjms_provider.model.startable import Stoppable
from pyjms_provider.model.statistics import statistic
from pyjms_provider.model.store_url import with_password
from pyjms_provider.model.workflows import InstanceSource, WorkflowSource

if TYPE_CHECKING:
    from pyjms.spi.provider import ConnectionEvents, ProviderConnection
    from pyjms_provider.model.children import ChildSource
    from pyjms_provider.model.configuration.contract import ObjectRecord
    from pyjms_provider.model.managed import ManagedObject

__all__ = ["WorkflowStore", "WorkflowStoreAttributes"]

_FRESH_MS: Final = 1_000
"""So long a look at all counts: each object of a list asks for them."""
_SHARE: Final = 20
_STALE_MS: Final = 5_000
"""A look takes one part in so many of the time, however many instances there are, unless counts became too old by that."""


class WorkflowStoreAttributes(Attributes):
    """What can be chosen for a store of workflows. A change is obeyed at once."""

    store_url: str = attribute(
        "The database that the engines share: an SQLAlchemy URL without a password.", min_length=1
    )
    store_password: Secret | None = attribute("The password for the database.", default=None, secure=True)
    events: str = attribute(
        "The queue of events that the engines share, and that steps answer to.", default="pyjms.flows", min_length=1
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What was found when the store was looked over."""

    until_ms: float
    """By the monotonic clock: so long it is good enough."""
    definitions: Mapping[str, Sequence[WorkflowDefinition]]
    """All versions by the name, the newest last."""
    counts: Mapping[str, Mapping[WorkflowStatus, int]]

    def count(self, status: WorkflowStatus, workflow: str | None = None) -> int:
        """Return how many instances have a status; `workflow` None: of all definitions."""
        names = self.counts if workflow is None else [workflow]
        return sum(self.counts.get(name, {}).get(status, 0) for name in names)


class WorkflowStore(Stoppable):
    """Shows workflows while it is ACTIVE."""

    category = "workflow_store"
    attributes_class = WorkflowStoreAttributes

    def __init__(self, parent: ManagedObject | None, record: ObjectRecord) -> None:
        super().__init__(parent, record)
        self._book: WorkflowBook | None = None
        self._looked: Look | None = None
        self._failed: tuple[float, str] | None = None
        self._sources: Mapping[str, ChildSource] = {
            each.category: each for each in (WorkflowSource(self), InstanceSource(self))
        }

    @property
    def book(self) -> WorkflowBook:
        """The open store. Raises `WrongStateError` while there is none."""
        book = self._book
        if book is None:
            raise WrongStateError(f"{self.path} is {self.state.value}: it is not open; start it")
        return book

    @property
    def is_open(self) -> bool:
        """Whether there is an open store."""
        return self._book is not None

    @property
    def events(self) -> str:
        """The queue of events."""
        attributes = self.attributes
        assert isinstance(attributes, WorkflowStoreAttributes)
        return attributes.events

    def sources(self) -> Mapping[str, ChildSource]:
        return self._sources

    def look(self) -> Look:
        """Return definitions and counts, about a second old at most, and older where counting takes long. Raises `WrongStateError`, `WorkflowStoreError`."""
        book = self.book
        begun_ms = self.clock.monotonic_ms()
        known, failed = self._looked, self._failed
        if known is not None and begun_ms < known.until_ms:
            return known
        if failed is not None and begun_ms < failed[0]:
            raise WorkflowStoreError(failed[1])
        try:
            definitions: dict[str, list[WorkflowDefinition]] = {}
            for each in book.definitions():
                definitions.setdefault(each.name, []).append(each)
            counts = book.counts()
        except ProviderError as error:
            self._looked, self._failed = None, (self._until_ms(begun_ms), error.reason)
            raise
        found = Look(until_ms=self._until_ms(begun_ms), definitions=definitions, counts=counts)
        self._looked, self._failed = found, None
        return found

    def _until_ms(self, begun_ms: float) -> float:
        """Return how long what was begun then, and has ended now, need not be done again."""
        now_ms = self.clock.monotonic_ms()
        took_ms = now_ms - begun_ms
        return now_ms + max(_FRESH_MS, took_ms, min(_SHARE * took_ms, _STALE_MS))

    def forget_look(self) -> None:
        """Have the store looked over anew: something was changed."""
        self._looked = self._failed = None

    # The hooks

    def _validate(self, new: Attributes, old: Attributes | None) -> None:
        assert isinstance(new, WorkflowStoreAttributes)
        self._check_shown("store_url", new.store_url, "store_password")
        try:
            find_opener(self.type).check(new.store_url)
        except WorkflowError as error:
            raise self._wrong("store_url", error.reason) from error

    def _on_open(self) -> None:
        self._open(self.attributes)

    def _on_change(self, old: Attributes, new: Attributes) -> None:
        before = self._book
        self._open(new)
        if before is not None:
            before.close()

    def _on_stop(self) -> None:
        book, self._book, self._looked = self._book, None, None
        if book is not None:
            book.close()

    def _open(self, chosen: Attributes) -> None:
        assert isinstance(chosen, WorkflowStoreAttributes)
        request = WorkflowBookRequest(
            url=with_password(chosen.store_url, chosen.store_password),
            events=chosen.events,
            here=self._connect,
            clock=self.clock,
        )
        self._book = find_opener(self.type).open(request)
        self.forget_look()

    def _connect(self, events: ConnectionEvents) -> ProviderConnection:
        """Connect to its own host. Raises `ClosedError`."""
        from pyjms_provider.model.virtual_host import VirtualHost

        host = self.parent
        assert isinstance(host, VirtualHost), "stores of workflows stand below virtual hosts"
        try:
            broker = host.embedded
        except WrongStateError as error:
            raise ClosedError(error.reason) from error
        connection = VmConnection(broker, events)
        broker.describe(connection.connection_id, user="", address="", protocol=f"workflows {self.name}")
        return connection

    # Statistics

    def _count(self, status: WorkflowStatus) -> int | None:
        try:
            return self.look().count(status)
        except ProviderError:
            return None

    @statistic("Whether the database can be reached.")
    def is_reachable(self) -> bool:
        """Whether the database can be reached."""
        return self._count(WorkflowStatus.PARKED) is not None

    @statistic("Instances that wait for a person.", unit="instances")
    def parked(self) -> int | None:
        """How many wait for a person."""
        return self._count(WorkflowStatus.PARKED)

    @statistic("Instances that go forward.", unit="instances")
    def running(self) -> int | None:
        """How many go forward."""
        return self._count(WorkflowStatus.RUNNING)

    @statistic("Instances that go backward: what they did is undone.", unit="instances")
    def compensating(self) -> int | None:
        """How many go backward."""
        return self._count(WorkflowStatus.COMPENSATING)

    @statistic("Instances that have come to their end.", unit="instances")
    def completed(self) -> int | None:
        """How many are completed."""
        return self._count(WorkflowStatus.COMPLETED)

    @statistic("Instances that have gone back to their beginning.", unit="instances")
    def compensated(self) -> int | None:
        """How many are compensated."""
        return self._count(WorkflowStatus.COMPENSATED)

    @statistic("How many definitions are deployed; none: the store cannot be reached.", unit="definitions")
    def definitions(self) -> int | None:
        """How many definitions are deployed."""
        try:
            return len(self.look().definitions)
        except ProviderError:
            return None

    @statistic("Why the store could not be reached when somebody looked last; none: it could.")
    def last_error(self) -> str | None:
        """Why the store could not be reached."""
        with suppress(ProviderError):
            self.look()
        failed = self._failed
        return None if failed is None else failed[1]

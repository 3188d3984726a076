"""The contract of stores for definitions and instances, so that programs without SQLAlchemy can import it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyjms.flows.definition import Flow
    from pyjms.flows.instance import Instance, Status
    from pyjms.spi.workflows import InstanceOrder


class FlowStore(ABC):
    """Shared by any number of engines. All methods raise `FlowException` when the database fails."""

    @abstractmethod
    def deploy(self, flow: Flow) -> None:
        """Store a definition. Raises `FlowException` when this version exists with another content."""

    @abstractmethod
    def flow(self, name: str, version: int = 0) -> Flow:
        """Return a definition; version 0: the newest. Raises `FlowException` when there is none."""

    @abstractmethod
    def flows(self) -> Sequence[Flow]:
        """Return all definitions, by name and version."""

    @abstractmethod
    def keep(self, begun: Sequence[Instance], changed: Sequence[tuple[Instance, int]]) -> bool:
        """Store new instances, and next states of others at a revision: all in one transaction, or nothing.

        Return False, with nothing stored, when one of the new ids exists, or another engine was quicker with an
        instance.
        """

    def add(self, instance: Instance) -> bool:
        """Store a new instance; return False when its id exists."""
        return self.keep([instance], ())

    def replace(self, instance: Instance, revision: int) -> bool:
        """Store the next state of an instance that was at `revision`; return False when another writer was quicker."""
        return self.keep((), [(instance, revision)])

    @abstractmethod
    def find_all(self, ids: Sequence[str]) -> Mapping[str, Instance]:
        """Return the existing instances among `ids`, by id."""

    def find(self, instance_id: str) -> Instance | None:
        """Return an instance, or None."""
        return self.find_all([instance_id]).get(instance_id)

    @abstractmethod
    def overdue(self, now_ms: int, limit: int = 100) -> Sequence[Instance]:
        """Return instances whose answer is overdue, the oldest first."""

    @abstractmethod
    def next_due_ms(self) -> int | None:
        """Return when the next answer will be overdue, in milliseconds since 1970 UTC; None: no answer is awaited."""

    @abstractmethod
    def instances(
        self,
        *,
        flow: str | None = None,
        status: Status | None = None,
        limit: int = 100,
        offset: int = 0,
        order: InstanceOrder | None = None,
    ) -> Sequence[Instance]:
        """Return instances, by default the last changed first."""

    @abstractmethod
    def count(self, *, flow: str | None = None, status: Status | None = None) -> int:
        """Return the number of instances."""

    @abstractmethod
    def counts(self) -> Mapping[tuple[str, Status], int]:
        """Return the number of instances, by the name of the definition and the status."""

    @abstractmethod
    def ids(self) -> Sequence[str]:
        """Return the ids of all instances, sorted."""

    @abstractmethod
    def close(self) -> None:
        """Close the store's resources. May be repeated."""


def open_store(url: str) -> FlowStore:
    """Open the store in the database at `url`, as SQLAlchemy writes it. Raises `FlowException`."""
    store: FlowStore = _sql_store().SqlFlowStore(url)
    return store


def check_store_url(url: str) -> None:
    """Check that `url` is one that `open_store` may open, without connecting. Raises `FlowException`."""
    _sql_store().check_url(url)


def _sql_store() -> ModuleType:
    from pyjms.flows.definition import FlowException

    # Imported late: only programs that open a store need SQLAlchemy, which is an extra.
    try:
        from pyjms.flows import sql_store
    except ImportError as error:
        raise FlowException(
            f"the store of workflows needs SQLAlchemy ({error}); install it with: pip install 'pyjms-messaging[store]'"
        ) from error
    return sql_store

"""The contract of configuration stores. It deals with records, not objects, and needs only the standard library.

A store has one holder at a time, and is called by one configuration thread at a time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NewType
from uuid import UUID

__all__ = ["ConfigurationStore", "ObjectId", "ObjectRecord"]

ObjectId = NewType("ObjectId", UUID)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectRecord:
    """One durable object of the configuration in its stored form."""

    id: ObjectId
    category: str
    parent: ObjectId | None
    """None: it is the root of the objects in this store."""
    attributes: Mapping[str, Any]
    """The attributes as they were given, among them the name. Values are those of JSON; secrets are encrypted."""
    is_stopped: bool = False
    """Whether an operator stopped it."""
    created_by: str = ""
    created_ms: int = 0
    """In milliseconds since 1970 UTC; 0: unknown."""
    updated_by: str = ""
    updated_ms: int = 0
    source: str = field(default="", compare=False)
    """The place that the record was read from, for errors: ``broker.toml, line 12``."""

    @property
    def name(self) -> str:
        """The object's name."""
        return str(self.attributes.get("name", ""))


class ConfigurationStore(ABC):
    """A store of configuration records. Each update is atomic, also when power is lost during it."""

    is_lasting: ClassVar[bool] = True
    """Whether the records outlive the process."""

    @property
    @abstractmethod
    def where(self) -> str:
        """The name of the store for errors and operators, without any password."""

    @abstractmethod
    def open(self, holder: str) -> Sequence[ObjectRecord]:
        """Lock the store for `holder`, and return its records, parents before their children.

        A store that does not exist is created empty. Raises `HeldStoreError` when another process, or another store object of
        this one, holds it; `NewerStoreError`, `ForeignStoreError`, `DamagedStoreError`, `UnusableStoreError`. Each error says
        what to do.
        """

    @abstractmethod
    def update(self, records: Sequence[ObjectRecord], removed: Collection[ObjectId] = ()) -> None:
        """Insert or replace `records` by their ids, and delete `removed`; the change is durable when this returns.

        Raises `StoreError` when nothing was changed; `LostStoreError` when the store has another holder; `InDoubtError` when the
        outcome is unknown: then the next change, or `close`, undoes what may have been written.
        """

    @abstractmethod
    def close(self) -> None:
        """Release the store. May be repeated."""

"""The contract of configuration stores. It knows records, not objects, and needs nothing but the standard library.

A store has one holder at a time, and is called from one configuration thread at a time.
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
    """One durable object as it is kept."""

    id: ObjectId
    category: str
    parent: ObjectId | None
    """None: it is the top of what this store keeps."""
    attributes: Mapping[str, Any]
    """As they were given, its name among them: plain values, as JSON has them; secrets are encrypted."""
    is_stopped: bool = False
    """Whether an operator stopped it."""
    created_by: str = ""
    created_ms: int = 0
    """In milliseconds since 1970 UTC; 0: nobody knows."""
    updated_by: str = ""
    updated_ms: int = 0
    source: str = field(default="", compare=False)
    """Where it was read from, for errors: ``broker.toml, line 12``."""

    @property
    def name(self) -> str:
        """The object's name."""
        return str(self.attributes.get("name", ""))


class ConfigurationStore(ABC):
    """Keeps records. A change is kept whole or not at all, also when power is lost in its middle."""

    is_lasting: ClassVar[bool] = True
    """Whether what it keeps outlives the process."""

    @property
    @abstractmethod
    def where(self) -> str:
        """What names the store in errors and to operators; never a password."""

    @abstractmethod
    def open(self, holder: str) -> Sequence[ObjectRecord]:
        """Take hold of the store for `holder`, and return what it keeps, parents before their children.

        One that does not exist is made, empty. Raises `HeldStoreError` when another process, or another store object of
        this one, holds it; `NewerStoreError`, `ForeignStoreError`, `DamagedStoreError`, `UnusableStoreError`, each
        telling what to do.
        """

    @abstractmethod
    def update(self, records: Sequence[ObjectRecord], removed: Collection[ObjectId] = ()) -> None:
        """Keep `records`, in place of those with the same ids, and forget `removed`; when it returns, that survives.

        Raises `StoreError` when nothing was changed; `LostStoreError` when the store has another holder; `InDoubtError` when nobody
        knows: then the next change, or `close`, takes back what may have been kept.
        """

    @abstractmethod
    def close(self) -> None:
        """Let go of the store. May be repeated."""

"""The part of the tree that one management queue manages: the whole broker, or one virtual host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from uuid import UUID

from pyjms_provider.model import tree
from pyjms_provider.model.errors import UnknownCategoryError, UnknownObjectError
from pyjms_provider.model.lookup import names_needed

if TYPE_CHECKING:
    from pyjms_provider.management.service import Caller, ManagementService
    from pyjms_provider.model.managed import ManagedObject

_HOST: Final = "virtual_host"


@dataclass(frozen=True, slots=True)
class Scope:
    """What one caller reaches through one queue. All calls raise the errors of the management service."""

    management: ManagementService
    caller: Caller
    names: tuple[str, ...]
    """The names of the virtual host to which names are relative; empty: the broker."""

    def has(self, category: str) -> bool:
        """Return whether objects of a known category are managed here."""
        return category != tree.ROOT and (not self.names or category == _HOST or _HOST in tree.ancestors(category))

    def check(self, category: str) -> None:
        """Raise `UnknownCategoryError` for a category that is unknown, or not managed here."""
        tree.shape_of(category)
        if not self.has(category):
            raise UnknownCategoryError(
                f"there is no {category} below {'a virtual host' if self.names else 'the broker'}"
            )

    def names_below(self, category: str) -> tuple[str, ...]:
        """Return the categories whose names address an object here."""
        return names_needed(category)[len(self.names) :]

    def find(self, category: str, names: Sequence[str]) -> ManagedObject:
        """Return the object with those names, which are relative."""
        return self.management.find(self.caller, category, (*self.names, *names))

    def find_by_id(self, category: str, object_id: UUID) -> ManagedObject:
        """Return the object with that id."""
        found = self.management.find_by_id(self.caller, category, object_id)
        # Ids are those of the whole broker, and this queue may manage one virtual host.
        if found.names[: len(self.names)] != self.names:
            raise UnknownObjectError(f"there is no {category} with the id {object_id} here")
        return found

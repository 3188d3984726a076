"""Where children come from that are not configured, but observed: made when somebody asks, and cheap to list."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid5

from pyjms_provider.model.configuration.contract import ObjectId
from pyjms_provider.model.errors import NotChangeableError, UnknownObjectError

if TYPE_CHECKING:
    from pyjms_provider.model.managed import ManagedObject
    from pyjms_provider.security.contracts import Target

__all__ = ["ChildSource", "observed_id"]


def observed_id(parent: ManagedObject, category: str, name: str) -> ObjectId:
    """Return the id of an observed object: always the same for the same name in the same place."""
    return ObjectId(uuid5(parent.id, f"{category}/{name}"))


class ChildSource(ABC):
    """The children of one category of one object. Any thread."""

    @property
    @abstractmethod
    def category(self) -> str:
        """The category of the children."""

    @abstractmethod
    def names(self) -> Sequence[str]:
        """Return the names of those that there are now, sorted."""

    @abstractmethod
    def find(self, name: str) -> ManagedObject | None:
        """Return one of them; None: there is none."""

    def column(self, statistic: str) -> Mapping[str, Any]:
        """Return one statistic of all of them, by name, as JSON has it; those that have gone meanwhile are left out."""
        found: dict[str, Any] = {}
        for name in self.names():
            with suppress(UnknownObjectError):
                each = self.find(name)
                if each is not None:
                    found[name] = each.statistic_values([statistic]).get(statistic)
        return found

    def target(self, name: str) -> Target | None:
        """Return what an access policy is asked about one of them, without making it; None: make it and ask it."""
        return None

    def find_id(self, parent: ManagedObject, wanted: UUID) -> ManagedObject | None:
        """Return the one with that id; None: there is none."""
        for name in self.names():
            if observed_id(parent, self.category, name) == wanted:
                return self.find(name)
        return None

    def create(self, attributes: Mapping[str, Any], by: str) -> ManagedObject:
        """Create one; on the configuration thread. Raises as `ManagedObject.create_child`."""
        raise NotChangeableError("objects of this category come by themselves; they cannot be created")

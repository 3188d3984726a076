"""Where children come from that are not configured, but observed: made when somebody asks, and cheap to list."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID, uuid5

from pyjms_provider.model import tree
from pyjms_provider.model.configuration.contract import ObjectId
from pyjms_provider.model.errors import NotChangeableError, UnknownObjectError
from pyjms_provider.model.statistics import statistics_of
from pyjms_provider.security.contracts import Target, TargetKind

if TYPE_CHECKING:
    from pyjms_provider.model.managed import ManagedObject

__all__ = ["OFFSET_MAX", "ChildPage", "ChildSource", "PageWanted", "observed_id"]

OFFSET_MAX: Final = 999_999_999
"""So many of a list, of objects or of messages, may be left out before its page begins: more than any list has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageWanted:
    """Which of many children somebody wants to see."""

    equal: Mapping[str, str]
    """Texts that fields must have."""
    order: str
    """The field that they are in the order of, with ``-`` before it: downwards."""
    offset: int
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildPage:
    """Some of many children."""

    children: Sequence[ManagedObject]
    total: int
    """How many there are that are as wanted."""


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

    def has_column(self, field: str) -> bool:
        """Return whether `columns` knows that field: without more, every statistic of the category."""
        kinds = (tree.class_of(self.category, name)[1] for name in tree.types_of(self.category))
        return any(field in statistics_of(kind) for kind in kinds)

    def columns(self, fields: Collection[str]) -> Mapping[str, Mapping[str, Any]]:
        """Return fields of all of them, by the name of the field and of the object, as JSON has them.

        Only fields that `has_column` knows. Those objects that have gone meanwhile are left out.
        """
        found: dict[str, dict[str, Any]] = {field: {} for field in fields}
        for name in self.names():
            with suppress(UnknownObjectError):
                each = self.find(name)
                values = {} if each is None else each.statistic_values(tuple(fields))
                for field, value in values.items():
                    found[field][name] = value
        return found

    def targets(self) -> tuple[TargetKind, str] | None:
        """Return kind and virtual host of what an access policy is asked about them; None: each of them is to be asked."""
        return None

    def common_target(self) -> Target | None:
        """Return what an access policy is asked about all of them at once; None: that differs."""
        return None

    def page(self, wanted: PageWanted) -> ChildPage | None:
        """Return some of them without looking at the others; None: that cannot be done for what is wanted.

        Only those have it that are kept where somebody else can look for them, and that have a `common_target`.
        """
        return None

    def target(self, name: str) -> Target | None:
        """Return what an access policy is asked about one of them, without making it; None: make it and ask it."""
        common = self.targets()
        return self.common_target() if common is None else Target(kind=common[0], name=name, virtual_host=common[1])

    def find_id(self, parent: ManagedObject, wanted: UUID) -> ManagedObject | None:
        """Return the one with that id; None: there is none."""
        for name in self.names():
            if observed_id(parent, self.category, name) == wanted:
                return self.find(name)
        return None

    def create(self, attributes: Mapping[str, Any], by: str) -> ManagedObject:
        """Create one; on the configuration thread. Raises as `ManagedObject.create_child`."""
        raise NotChangeableError("objects of this category come by themselves; they cannot be created")

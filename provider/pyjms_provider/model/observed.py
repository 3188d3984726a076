"""Objects that are observed, not configured: views of what clients do, made when somebody asks, and cheap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pyjms_provider.model.attributes import Attributes
from pyjms_provider.model.children import ChildSource, observed_id
from pyjms_provider.model.configuration.contract import ObjectRecord
from pyjms_provider.model.life_cycle import State
from pyjms_provider.model.managed import ManagedObject, Snapshot

if TYPE_CHECKING:
    from pyjms_provider.model.virtual_host import VirtualHost

__all__ = ["MadeOnDemand", "ObservedObject"]


class ObservedObject(ManagedObject):
    """A view of something by its name. What it shows is asked for anew each time."""

    def __init__(self, parent: ManagedObject, name: str, **facts: Any) -> None:
        """`facts`: of the record, such as `created_ms`."""
        attributes = {"name": name, "durable": False}
        record = ObjectRecord(
            id=observed_id(parent, self.category, name),
            category=self.category,
            parent=parent.id,
            attributes=attributes,
            **facts,
        )
        super().__init__(parent, record)
        shown = Attributes(name=name, durable=False, type="", description=None, context={})
        self._snapshot = Snapshot(state=State.ACTIVE, record=record, attributes=shown)

    @property
    def life_time(self) -> str:
        return "observed"

    @property
    def host(self) -> VirtualHost:
        """The virtual host that it is in."""
        from pyjms_provider.model.virtual_host import VirtualHost

        above = self.parent
        while not isinstance(above, VirtualHost):
            assert above is not None, "what is observed stands below a virtual host"
            above = above.parent
        return above


class MadeOnDemand(ChildSource):
    """Children that a table of names describes."""

    def __init__(
        self,
        category: str,
        names: Callable[[], Sequence[str]],
        make: Callable[[str], ManagedObject | None],
    ) -> None:
        """`names`: those that there are; `make`: one of them, None if it has gone."""
        self._category = category
        self._names = names
        self._make = make

    @property
    def category(self) -> str:
        return self._category

    def names(self) -> Sequence[str]:
        return sorted(self._names())

    def find(self, name: str) -> ManagedObject | None:
        return self._make(name)

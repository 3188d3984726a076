"""Change listeners: who hears what happens in the tree (Broker-J `ConfigurationChangeListener`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyjms_provider.model.life_cycle import State
    from pyjms_provider.model.managed import ManagedObject

__all__ = ["ConfigurationChangeListener"]


class ConfigurationChangeListener:
    """Hears of changes, on the configuration thread that made them, after they were published, without a lock held.

    It should not take long. What it raises is logged and changes nothing, save for the writer of a configuration store:
    its error undoes the change.
    """

    def state_changed(self, managed: ManagedObject, old: State, new: State) -> None:
        """Hear that an object's state changed."""

    def attributes_changed(self, managed: ManagedObject, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        """Hear that actual attributes changed; secrets are masked."""

    def child_added(self, parent: ManagedObject, child: ManagedObject) -> None:
        """Hear that an object was created."""

    def child_removed(self, parent: ManagedObject, child: ManagedObject) -> None:
        """Hear that an object was deleted, with all below it."""

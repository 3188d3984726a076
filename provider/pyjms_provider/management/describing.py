"""Objects of the tree as plain data: facts, attributes, statistics, in one flat record each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyjms_provider.model.managed import ManagedObject

__all__ = ["describe"]


def describe(managed: ManagedObject, fields: Sequence[str] | None = None, *, actual: bool = False) -> dict[str, Any]:
    """Return an object as JSON has it. `fields`: only these, costly statistics too; None: all that cost little.

    `actual`: attributes as they were given, with their variables, instead of the effective ones.
    """
    found: dict[str, Any] = {"name": managed.name, "type": managed.type, "path": list(managed.names), **managed.facts()}
    if fields is not None:
        found = {name: value for name, value in found.items() if name in fields}
    found |= managed.attribute_values(fields, actual=actual)
    found |= managed.statistic_values(fields)
    return found

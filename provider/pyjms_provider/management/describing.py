"""Objects of the tree as plain data: facts, attributes, statistics, in one flat record each."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from pyjms_provider.model import tree
from pyjms_provider.model.attributes import declarations
from pyjms_provider.model.errors import UnknownObjectError, WrongStateError
from pyjms_provider.model.life_cycle import State
from pyjms_provider.model.statistics import statistics_of

if TYPE_CHECKING:
    from pyjms_provider.model.managed import ManagedObject

__all__ = ["FACTS", "describe", "known_fields"]

FACTS: Final = frozenset(
    {
        "name",
        "type",
        "names",
        "id",
        "category",
        "state",
        "desired_state",
        "error",
        "life_time",
        "created_by",
        "created_at_ms",
        "updated_by",
        "updated_at_ms",
        "model_version",
    }
)
"""The fields that are neither attributes nor statistics."""


@cache
def known_fields(category: str) -> frozenset[str]:
    """Return all fields that objects of a category may have, whatever their types."""
    found = set(FACTS)
    for name in tree.types_of(category):
        kind = tree.class_of(category, name)[1]
        found |= {*declarations(kind.attributes_class), *statistics_of(kind)}
    return frozenset(found)


def describe(managed: ManagedObject, fields: Sequence[str] | None = None, *, actual: bool = False) -> dict[str, Any]:
    """Return an object as JSON has it. `fields`: only these, costly statistics too; None: all that cost little.

    `actual`: attributes as they were given, with their variables, instead of the effective ones. What an object that does
    not run cannot tell is None. Raises `UnknownObjectError` for one that has gone.
    """
    found: dict[str, Any] = {}
    if fields is None or not FACTS.isdisjoint(fields):
        found = {"name": managed.name, "type": managed.type, "names": list(managed.names), **managed.facts()}
        if found["state"] == State.DELETED.value:
            raise UnknownObjectError(f"{managed.path} has gone")
        if fields is not None:
            found = {name: value for name, value in found.items() if name in fields}
    if fields is None or not declarations(managed.attributes_class).keys().isdisjoint(fields):
        found |= managed.attribute_values(fields, actual=actual)
    return found | _statistics(managed, fields)


def _statistics(managed: ManagedObject, fields: Sequence[str] | None) -> dict[str, Any]:
    try:
        return managed.statistic_values(fields)
    except (UnknownObjectError, WrongStateError):
        if managed.state in {State.ACTIVE, State.DELETED}:
            raise
    return {
        name: None
        for name, each in statistics_of(type(managed)).items()
        if (not each.is_costly if fields is None else name in fields)
    }

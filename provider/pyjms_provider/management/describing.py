"""How objects and the model itself are described to callers, as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from pyjms_provider.model import tree
from pyjms_provider.model.attributes import AttributeDeclaration, declarations
from pyjms_provider.model.errors import UnknownObjectError, WrongStateError
from pyjms_provider.model.life_cycle import State
from pyjms_provider.model.lookup import names_needed
from pyjms_provider.model.operations import OperationDeclaration, operations_of
from pyjms_provider.model.statistics import StatisticDeclaration, statistics_of

if TYPE_CHECKING:
    from pyjms_provider.model.managed import ManagedObject

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


def describe_model() -> dict[str, Any]:
    """Return all categories from the broker down, in the order of the tree's table."""
    return {"categories": [_category(shape) for shape in tree.TREE.values() if shape.category != tree.ROOT]}


def _category(shape: tree.CategoryShape) -> dict[str, Any]:
    category = shape.category
    kinds: dict[type[ManagedObject], list[str]] = {}
    for name in tree.types_of(category):
        kinds.setdefault(tree.class_of(category, name)[1], []).append(name)
    return {
        "category": category,
        "parent": None if category == "broker" else shape.parent,
        "summary": shape.summary,
        "address": [] if category == "broker" else list(names_needed(category)),
        "is_observed": shape.is_observed,
        "is_only_child": shape.is_only_child,
        "default_type": shape.default_type,
        "kinds": [_kind(kind, types) for kind, types in kinds.items()],
    }


def _kind(kind: type[ManagedObject], types: list[str]) -> dict[str, Any]:
    return {
        "types": types,
        "attributes": [_attribute(each) for each in declarations(kind.attributes_class).values()],
        "statistics": [_statistic(each) for each in statistics_of(kind).values()],
        "operations": [_operation(each) for each in operations_of(kind).values()],
    }


def _attribute(declared: AttributeDeclaration) -> dict[str, Any]:
    return {
        "name": declared.name,
        "description": declared.description,
        "is_mandatory": declared.is_mandatory,
        "default": declared.default,
        "is_mutable": declared.is_mutable,
        "is_secure": declared.is_secure,
        "unit": declared.unit,
        "refers_to": declared.refers_to,
        "allowed": None if declared.allowed is None else list(declared.allowed),
        "schema": _lean(declared.schema),
    }


def _statistic(declared: StatisticDeclaration) -> dict[str, Any]:
    return {
        "name": declared.name,
        "description": declared.description,
        "unit": declared.unit,
        "kind": declared.kind.value,
        "is_costly": declared.is_costly,
        "schema": _lean(declared.schema),
    }


def _operation(declared: OperationDeclaration) -> dict[str, Any]:
    return {
        "name": declared.name,
        "description": declared.description,
        "needs": declared.needs.value,
        "changes": declared.changes,
        "is_long": declared.is_long,
        "parameters": _lean(declared.parameters),
    }


def _lean(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema with those definitions alone that it refers to, if only through others."""
    lean = {name: value for name, value in schema.items() if name != "$defs"}
    definitions = schema.get("$defs", {})
    needed: dict[str, Any] = {}
    waiting: list[Any] = [lean]
    while waiting:
        text = json.dumps(waiting.pop())
        for name, definition in definitions.items():
            if name not in needed and f'"#/$defs/{name}"' in text:
                needed[name] = definition
                waiting.append(definition)
    return {**lean, "$defs": needed} if needed else lean

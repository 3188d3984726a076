"""The model as data, for programs that show any object without knowing it: the console, and whoever writes another one.

OpenAPI says what can be sent; this says besides what belongs to which type, what may be changed later, what is secret, which
attribute names objects of which category, and how a statistic moves.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyjms_provider.model import tree
from pyjms_provider.model.attributes import AttributeDeclaration, declarations
from pyjms_provider.model.lookup import names_needed
from pyjms_provider.model.operations import OperationDeclaration, operations_of
from pyjms_provider.model.statistics import StatisticDeclaration, statistics_of

if TYPE_CHECKING:
    from pyjms_provider.model.managed import ManagedObject

__all__ = ["describe_model"]


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

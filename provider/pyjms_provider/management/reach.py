"""Whether who chooses attributes may do themselves what the object will then do: a queue that sends to another one what expires,
and a route that empties one, would else do for anybody what the rules deny them.

Asked on the configuration thread, so that two changes at once do not add up to what neither was asked about.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pyjms_provider.management.permits import target_of
from pyjms_provider.model import tree
from pyjms_provider.model.attributes import MASK, Attributes, Reached, declarations, resolve
from pyjms_provider.model.errors import InvalidAttributesError, Problem
from pyjms_provider.security.contracts import Operation, Target, TargetKind

if TYPE_CHECKING:
    from pyjms_provider.model.managed import ManagedObject
    from pyjms_provider.security.contracts import AccessPolicy, Principal

__all__ = ["check_changed_reach", "check_new_reach", "effective"]

_CATEGORIES: Final = {TargetKind.QUEUE: "queue", TargetKind.TOPIC: "topic"}


def check_new_reach(
    principal: Principal, access: AccessPolicy, parent: ManagedObject, category: str, given: Mapping[str, Any]
) -> None:
    """Ask about an object that is to be created. Raises `AccessDeniedError`, `InvalidAttributesError`."""
    is_made_there = category in parent.sources()  # which goes by no class, as the type of a queue may be a variable
    type_name = None if is_made_there or given.get("type") is None else str(given["type"])
    _, kind = tree.class_of(category, type_name)
    if _reaches(kind.attributes_class):
        found = effective(kind.attributes_class, parent, category, given)
        _check(principal, access, parent, category, found.name, set(found.reaches()))


def check_changed_reach(
    principal: Principal, access: AccessPolicy, managed: ManagedObject, changes: Mapping[str, Any]
) -> None:
    """Ask about what an object does not do yet. Raises `AccessDeniedError`, `InvalidAttributesError`."""
    parent, kind, seen = managed.parent, managed.attributes_class, managed.snapshot
    secrets = [name for name, each in declarations(kind).items() if each.is_secure and seen.record.attributes.get(name)]
    if parent is None or not (secrets or _reaches(kind)):
        return
    merged = {**seen.record.attributes, **changes, "name": managed.name}
    actual = {name: value for name, value in merged.items() if name not in changes or value is not None}
    before = set() if seen.attributes is None else set(seen.attributes.reaches())
    found = effective(kind, parent, managed.category, actual)
    _check(principal, access, parent, managed.category, managed.name, set(found.reaches()) - before)
    known = set() if seen.attributes is None else set(seen.attributes.places())
    if not known.issuperset(found.places()):
        told = "would be sent elsewhere than before; give it anew"
        kept = tuple(Problem(name=name, text=told) for name in secrets if changes.get(name, MASK) == MASK)
        if kept:
            raise InvalidAttributesError(managed.path, kept)


def _reaches(kind: type[Attributes]) -> bool:
    return kind.reaches is not Attributes.reaches


def effective(kind: type[Attributes], parent: ManagedObject, category: str, actual: Mapping[str, Any]) -> Attributes:
    """Return the attributes as the object will have them, without its secrets."""
    known, own, name = declarations(kind), actual.get("context"), str(actual.get("name", ""))

    def variable(wanted: str) -> str | None:
        if wanted == "this:name":
            return name
        if isinstance(own, Mapping) and isinstance(own.get(wanted), str):
            return str(own[wanted])
        return parent.variable_below(wanted, name) if category in parent.sources() else parent.variable(wanted)

    plain = {each: value for each, value in actual.items() if each not in known or not known[each].is_secure}
    return resolve(kind, plain, variable, f"{category} {name}")


def _check(
    principal: Principal, access: AccessPolicy, parent: ManagedObject, category: str, name: str, reached: set[Reached]
) -> None:
    host = name if category == "virtual_host" else parent.name
    for operation, kind, other in sorted(reached, key=str):
        access.check(principal, operation, Target(kind=kind, name=other, virtual_host=host))
        below = _CATEGORIES[kind]
        if category != "virtual_host" and parent.find_child(below, other) is None:
            access.check(principal, Operation.CREATE, target_of(parent, below, other))

"""Attributes that name other objects: they must exist, and cannot be deleted while they are named."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyjms_provider.model import tree
from pyjms_provider.model.attributes import Attributes, declarations
from pyjms_provider.model.errors import InvalidAttributesError, Problem

if TYPE_CHECKING:
    from pyjms_provider.model.managed import ManagedObject


def find_referred(managed: ManagedObject, category: str, name: str) -> ManagedObject | None:
    """Return the object that `managed` means by the name: it stands beside it, or beside one above it."""
    owner = tree.shape_of(category).parent
    above = managed.parent
    while above is not None and above.category != owner:
        above = above.parent
    return None if above is None else above.find_child(category, name)


def check_references(managed: ManagedObject, attributes: Attributes) -> None:
    """Raise `InvalidAttributesError` if an attribute names what does not exist."""
    problems = tuple(
        Problem(name=attribute, text=f"there is no {category} {name!r}; create it first")
        for attribute, category, name in _references(attributes)
        if find_referred(managed, category, name) is None
    )
    if problems:
        raise InvalidAttributesError(managed.path, problems)


def referrers(managed: ManagedObject) -> Iterator[ManagedObject]:
    """Yield the configured objects that name this one."""
    for each in _configured(managed.root):
        found = each.snapshot.attributes
        if found is not None and any(
            category == managed.category and name == managed.name and find_referred(each, category, name) is managed
            for _, category, name in _references(found)
        ):
            yield each


def _configured(managed: ManagedObject) -> Iterator[ManagedObject]:
    yield managed
    for each in managed.children():
        yield from _configured(each)


def _references(attributes: Attributes) -> Iterator[tuple[str, str, str]]:
    """Yield attribute, category and name of all that is named."""
    for attribute, declared in declarations(type(attributes)).items():
        value = getattr(attributes, attribute)
        if declared.refers_to is None or value is None:
            continue
        for name in [value] if isinstance(value, str) else value:
            yield attribute, declared.refers_to, name

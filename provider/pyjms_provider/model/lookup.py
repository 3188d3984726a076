"""Finding objects by id, by address, by category, and by the attributes that name them. Any thread."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING
from uuid import UUID

from pyjms.spi.errors import ProviderError
from pyjms_provider.model import tree
from pyjms_provider.model.attributes import Attributes, declarations
from pyjms_provider.model.errors import InvalidAttributesError, Problem, UnknownObjectError

if TYPE_CHECKING:
    from pyjms_provider.model.managed import ChildSource, ManagedObject
    from pyjms_provider.security.contracts import Target


@dataclass(frozen=True, slots=True)
class Siblings:
    """Objects of one category below one parent, by name: thousands can be filtered before any object is made."""

    parent: ManagedObject
    category: str
    names: Sequence[str]
    source: ChildSource | None
    """Their source, if they are made on demand."""

    def find(self, name: str) -> ManagedObject | None:
        """Return one of them; None: it no longer exists."""
        return self.parent.find_child(self.category, name)

    def find_all(
        self, names: Sequence[str], fields: Sequence[str] | None, *, actual: bool
    ) -> Mapping[str, ManagedObject]:
        """Return those of some names, to be described at once; see `ChildSource.find_all`."""
        if self.source is not None:
            return self.source.find_all(names, fields, actual=actual)
        found = {name: self.find(name) for name in names}
        return {name: each for name, each in found.items() if each is not None}

    def target(self, name: str) -> Target | None:
        """Return the target of one of them for access policies; None: it no longer exists."""
        known = None if self.source is None else self.source.target(name)
        if known is not None:
            return known
        found = self.find(name)
        return None if found is None else found.target()


def names_needed(category: str) -> tuple[str, ...]:
    """Return the categories whose names make an address, from below the broker: ``virtual_host_node, …``.

    Raises `UnknownCategoryError`.
    """
    return tuple(each for each in (*tree.ancestors(category), category) if each not in {tree.ROOT, "broker"})


def check_names(category: str, names: Sequence[str]) -> None:
    """Refuse names that form no address of the category, without looking at objects. Raises `UnknownObjectError`, `UnknownCategoryError`."""
    needed = names_needed(category)
    if len(names) != len(needed):
        wanted = " and ".join(needed) or "nothing"
        raise UnknownObjectError(f"a {category} is named by {wanted}; {'/'.join(names)!r} is not that")


def find_by_names(broker: ManagedObject, category: str, names: Sequence[str]) -> ManagedObject:
    """Return the object at an address. Raises `UnknownObjectError`, `UnknownCategoryError`."""
    check_names(category, names)
    found = broker
    for below, name in zip(names_needed(category), names, strict=True):
        found = found.child(below, name)
    return found


def collect(above: ManagedObject, category: str, names: Sequence[str] = ()) -> Iterator[ManagedObject]:
    """Yield the objects of a category below `above`, in the order of their addresses; `names` begins the address.

    Observed objects are made one by one, as the iterator reaches them. Raises `UnknownObjectError`,
    `UnknownCategoryError`.
    """
    path = (*tree.ancestors(category), category)
    if above.category not in path:
        raise UnknownObjectError(f"there is no {category} below {above.path}")
    steps = path[path.index(above.category) + 1 :]
    # The root has one child, the broker, which has no name in an address.
    if above.category == tree.ROOT:
        steps, above = steps[1:], next(above.children())
    yield from _collect(above, steps, tuple(names))


def siblings(broker: ManagedObject, category: str, names: Sequence[str] = ()) -> Iterator[Siblings]:
    """Yield the objects of a category, parent by parent, in the order of their addresses; `names` begins the address.

    Raises `UnknownObjectError`, `UnknownCategoryError`.
    """
    steps = names_needed(category)
    # A whole address: one object, which is looked up and not searched for among its siblings.
    if len(names) >= len(steps):
        found = find_by_names(broker, category, names)
        assert found.parent is not None, "a category with a name is below the broker"
        yield Siblings(found.parent, category, [found.name], found.parent.sources().get(category))
        return
    for parent in _collect(broker, steps[:-1], tuple(names)):
        if parent.is_shown_elsewhere and len(names) < len(steps) - 1:
            continue
        yield Siblings(parent, category, parent.child_names(category), parent.sources().get(category))


def only_source(broker: ManagedObject, category: str, names: Sequence[str] = ()) -> ChildSource | None:
    """Return the source of all objects of a category below an address; None: they are configured, or have several sources.

    Raises `UnknownObjectError`, `UnknownCategoryError`.
    """
    steps = names_needed(category)
    if len(names) >= len(steps):
        return None
    # Two are enough to know that there are several.
    parents = list(islice(_collect(broker, steps[:-1], tuple(names)), 2))
    return parents[0].sources().get(category) if len(parents) == 1 else None


def _collect(above: ManagedObject, steps: Sequence[str], names: Sequence[str]) -> Iterator[ManagedObject]:
    if not steps:
        yield above
        return
    if names:
        yield from _collect(above.child(steps[0], names[0]), steps[1:], names[1:])
        return
    for each in above.children(steps[0]):
        if not (each.is_shown_elsewhere and len(steps) > 1):
            yield from _collect(each, steps[1:], ())


def find_by_id(root: ManagedObject, wanted: UUID, category: str | None = None) -> ManagedObject | None:
    """Return the object with that id, observed or configured; None: there is none. `category`: its own; None: any.

    Raises `ProviderError` if it is not found and a source that may have it cannot be read, such as an unreachable database of workflows.
    """
    failures: list[ProviderError] = []
    found = _with_id(root, wanted, None if category is None else {*tree.ancestors(category), category}, failures)
    # Only when it is found nowhere: an unreachable database must not hide an object from another source.
    if found is None and failures:
        raise failures[0]
    return found


def _with_id(
    above: ManagedObject, wanted: UUID, path: Collection[str] | None, failures: list[ProviderError]
) -> ManagedObject | None:
    """Search an object and all below it in the categories of `path`; append failures to `failures`."""
    if above.id == wanted:
        return above
    # Configured objects first: they are few, where a source may have to make thousands.
    for each in above.children():
        found = _with_id(each, wanted, path, failures) if path is None or each.category in path else None
        if found is not None:
            return found
    for source in above.sources().values():
        if path is not None and source.category not in path:
            continue
        try:
            found = source.find_id(above, wanted)
            # Deeper only where the table has a category below: connections have sessions, queues have nothing.
            if found is None and tree.children_of(source.category):
                found = next(filter(None, (_with_id(each, wanted, path, failures) for each in _all_of(source))), None)
        except ProviderError as error:
            failures.append(error)
        else:
            if found is not None:
                return found
    return None


def _all_of(source: ChildSource) -> Iterator[ManagedObject]:
    for name in source.names():
        found = source.find(name)
        if found is not None:
            yield found


def find_referred(managed: ManagedObject, category: str, name: str) -> ManagedObject | None:
    """Return the object to which `managed` refers by the name: a sibling of it, or of one of its ancestors."""
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
    """Yield the configured objects that refer to this one."""
    for each in _configured(managed.root):
        found = each.snapshot.attributes
        if found is not None and any(
            # By name and place: an object of that name below another parent is another object.
            category == managed.category and name == managed.name and find_referred(each, category, name) is managed
            for _, category, name in _references(found)
        ):
            yield each


def _configured(managed: ManagedObject) -> Iterator[ManagedObject]:
    yield managed
    for each in managed.children():
        yield from _configured(each)


def _references(attributes: Attributes) -> Iterator[tuple[str, str, str]]:
    """Yield attribute, category and name of each reference."""
    for attribute, declared in declarations(type(attributes)).items():
        value = getattr(attributes, attribute)
        if declared.refers_to is None or value is None:
            continue
        for name in [value] if isinstance(value, str) else value:
            yield attribute, declared.refers_to, name

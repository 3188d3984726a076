"""What installed packages bring to a broker, added to the tree when a broker opens; and the contract of packages that bring categories.

There are five groups of entry points. The name of an entry point is the type that operators write; of the group ``pyjms.model`` it is free.

=====================================  =============================================================
group                                  class
=====================================  =============================================================
``pyjms.ports``                        `port_type.PortType`: a protocol, and the type of its ports
``pyjms.authentication_providers``     `security.plugins.AuthenticationType`
``pyjms.access_controls``              `security.plugins.AccessControlType`
``pyjms.queue_types``                  `core.queue_types.QueueTypePlugin`
``pyjms.model``                        `ModelPlugin`: categories, and specialisations of any category
=====================================  =============================================================

A package that cannot be used is logged and left out. The broker opens without it; an object of the configuration that needs it is ERRORED, with the
name of the package, and what to do.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from pyjms.spi.errors import ProviderError
from pyjms.spi.registry import PluginError, make_plugin, plugins
from pyjms.spi.words import reason_of
from pyjms_provider.core.queue_types import QUEUE_TYPE_GROUP, find_queue_type
from pyjms_provider.model import tree
from pyjms_provider.model.attributes import declarations
from pyjms_provider.model.managed import ManagedObject
from pyjms_provider.model.operations import operations_of, statistics_of
from pyjms_provider.model.port import port_of
from pyjms_provider.model.port_type import PORT_GROUP, PortType
from pyjms_provider.model.queue import ManagedQueue
from pyjms_provider.model.security import access_control_of, installed_provider_of
from pyjms_provider.security.plugins import (
    ACCESS_CONTROL_GROUP,
    AUTHENTICATION_GROUP,
    AccessControlType,
    AuthenticationType,
)

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

MODEL_GROUP: Final = "pyjms.model"
_log = logging.getLogger(__name__)
_lock = Lock()
_tried: Final[set[tuple[str, str]]] = set()
"""Group and name of the entry points that were added, or refused: each once in a process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Category:
    """A category that a package adds to the tree."""

    name: str
    """As in REST paths and configurations: small letters, digits and ``_``."""
    parent: str
    """The category below which its objects stand."""
    summary: str
    """What it is, in one line, for operators."""
    types: Mapping[str, type[ManagedObject]] = field(default_factory=dict)
    """The class of each specialisation by name; "" for the only one. Each has this category as its `category`."""
    default_type: str | None = None
    """The type of an object that names none; None: it must name one, unless the only one is ""."""
    is_only_child: bool = False
    """Whether a parent has one of them at most."""
    is_observed: bool = False
    """Whether its objects come from the `sources` of their parents, which are of a category of the same package; no operator creates them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Specialisation:
    """A type that a package adds to a category."""

    category: str
    name: str
    implementation: type[ManagedObject]
    """A class of that category; for `port`, `queue`, `authentication_provider` and `access_control` there are groups of entry points of their own."""


class ModelPlugin:
    """Categories and specialisations of a package: an entry point of the group ``pyjms.model``, made without arguments."""

    def categories(self) -> Sequence[Category]:
        """Return the categories that it adds."""
        return ()

    def specialisations(self) -> Sequence[Specialisation]:
        """Return the types that it adds to other categories."""
        return ()


def load_plugins() -> None:
    """Add what installed packages bring to the tree. May be repeated: a package that was installed meanwhile is added then."""
    found = plugins((*_SIMPLE, MODEL_GROUP))
    for group, (category, add) in _SIMPLE.items():
        for name, points in found[group].items():
            _try(group, name, points, partial(add, name, points), category)
    _load_models(found[MODEL_GROUP])


def _port(name: str, points: Sequence[EntryPoint]) -> Callable[[], None]:
    plugin = make_plugin(points, PortType, f"the port type {name!r}")  # type: ignore[type-abstract]
    return partial(tree.add_specialisation, "port", name, port_of(name, plugin))


def _provider(name: str, points: Sequence[EntryPoint]) -> Callable[[], None]:
    plugin = make_plugin(points, AuthenticationType, f"the authentication {name!r}")  # type: ignore[type-abstract]
    return partial(tree.add_specialisation, "authentication_provider", name, installed_provider_of(name, plugin))


def _access_control(name: str, points: Sequence[EntryPoint]) -> Callable[[], None]:
    plugin = make_plugin(points, AccessControlType, f"the access control {name!r}")  # type: ignore[type-abstract]
    return partial(tree.add_specialisation, "access_control", name, access_control_of(name, plugin))


def _queue_type(name: str, _: Sequence[EntryPoint]) -> Callable[[], None]:
    find_queue_type(name)
    return partial(tree.add_specialisation, "queue", name, ManagedQueue)


_Add = Callable[[str, "Sequence[EntryPoint]"], Callable[[], None]]
_SIMPLE: Final[Mapping[str, tuple[str, _Add]]] = {
    AUTHENTICATION_GROUP: ("authentication_provider", _provider),
    ACCESS_CONTROL_GROUP: ("access_control", _access_control),
    QUEUE_TYPE_GROUP: ("queue", _queue_type),
    PORT_GROUP: ("port", _port),
}


def _load_models(found: Mapping[str, Sequence[EntryPoint]]) -> None:
    waiting: list[tuple[Category, Sequence[EntryPoint]]] = []
    types: list[tuple[Specialisation, Sequence[EntryPoint]]] = []

    def read(points: Sequence[EntryPoint], name: str) -> Callable[[], None]:
        plugin = make_plugin(points, ModelPlugin, f"the model plug-in {name!r}")
        categories, specialisations = list(plugin.categories()), list(plugin.specialisations())
        waiting.extend((each, points) for each in categories)
        types.extend((each, points) for each in specialisations)
        return lambda: None

    for name, points in found.items():
        _try(MODEL_GROUP, name, points, partial(read, points, name), "")
    # A category may stand below that of another package, which comes first then.
    while waiting:
        ready = [each for each in waiting if each[0].parent in tree.TREE]
        for category, points in ready or waiting:
            _try(
                f"{MODEL_GROUP} category",
                category.name,
                points,
                partial(_category, category),
                category.name,
                whole=True,
            )
        waiting = [each for each in waiting if each not in ready] if ready else []
    for one, points in types:
        _try(f"{MODEL_GROUP} {one.category}", one.name, points, partial(_specialisation, one), one.category)


def _category(category: Category) -> Callable[[], None]:
    for each in category.types.values():
        _check_class(each)
    default = "" if category.default_type is None and set(category.types) == {""} else category.default_type
    shape = tree.CategoryShape(
        category=category.name,
        parent=category.parent,
        summary=category.summary,
        is_only_child=category.is_only_child,
        is_observed=category.is_observed,
        default_type=default,
    )
    return partial(tree.add_category, shape, category.types)


def _specialisation(one: Specialisation) -> Callable[[], None]:
    _check_class(one.implementation)
    return partial(tree.add_specialisation, one.category, one.name, one.implementation)


def _check_class(implementation: type[ManagedObject]) -> None:
    """Have all declarations of a class read, so that a wrong one refuses its package, and not the first list of its objects. Raises whatever is wrong."""
    if not (isinstance(implementation, type) and issubclass(implementation, ManagedObject)):
        raise TypeError(f"{implementation!r} is no class of managed objects")
    declarations(implementation.attributes_class)
    statistics_of(implementation)
    operations_of(implementation)


def _try(
    group: str,
    name: str,
    points: Sequence[EntryPoint],
    make: Callable[[], Callable[[], None]],
    category: str,
    *,
    whole: bool = False,
) -> None:
    """Make what one entry point brings, and add it to the tree; refuse it, with a line in the log, if either fails.

    `make` runs a package's code, without a lock; what it returns adds the result. `whole`: it is a category.
    """
    if (group, name) in _tried:
        return
    try:
        _add(group, name, points, _made(points, make))
    except PluginError as error:
        _tried.add((group, name))
        if category:
            tree.refuse(category, "" if whole else name, error.reason)
        _log.warning("PYJMS-MODEL-5 a package is left out: %s", error.reason)


def _made(points: Sequence[EntryPoint], make: Callable[[], Callable[[], Any]]) -> Callable[[], None]:
    try:
        return make()
    except PluginError:
        raise
    except Exception as error:
        raise _unusable(points, error) from error


def _add(group: str, name: str, points: Sequence[EntryPoint], add: Callable[[], None]) -> None:
    with _lock:
        # Two brokers may open at once.
        if (group, name) in _tried:
            return
        try:
            add()
        except (ProviderError, ValueError) as error:
            why = error.reason if isinstance(error, ProviderError) else str(error)
            raise PluginError(
                f"what the package {_package(points)} brings as {name!r} cannot be added: {why}; uninstall it, or tell its author"
            ) from error
        _tried.add((group, name))
        # The types of queues are listed in the declaration of an attribute.
        declarations.cache_clear()


def _unusable(points: Sequence[EntryPoint], error: Exception) -> PluginError:
    (point,) = points
    return PluginError(
        f"what the package {_package(points)} brings as {point.name!r} to the group {point.group} cannot be used: {reason_of(error)}; install "
        f"another version of it, or tell its author"
    )


def _package(points: Sequence[EntryPoint]) -> str:
    point = points[0]
    return point.value if point.dist is None else f"{point.dist.name} {point.dist.version}"

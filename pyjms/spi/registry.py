"""The registry of providers by URL scheme: those of this process, then entry points of the group ``pyjms.providers``.

A provider is imported when its scheme is first used, so that its dependencies are needed only then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

from pyjms.spi.errors import MissingProviderError, ProviderError
from pyjms.spi.provider import Provider
from pyjms.spi.words import reason_of

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

__all__ = [
    "ENTRY_POINT_GROUP",
    "PluginError",
    "entry_points",
    "find_provider",
    "known_schemes",
    "make",
    "make_plugin",
    "plugins",
    "register_provider",
]

_Made = TypeVar("_Made")


class PluginError(ProviderError):
    """What a package brings to the broker cannot be used: it is broken, or not installed, or two packages bring it; the text names the package."""

    code = "PYJMS-PLUGIN"


def entry_points(*, group: str, name: str | None = None) -> EntryPoints:
    """Return the entry points of a group, or those of one name. Reads the disk."""
    from importlib import (
        metadata,  # takes longer to import than most of pyjms, and is not needed before a first connection
    )

    return metadata.entry_points(group=group) if name is None else metadata.entry_points(group=group, name=name)


def make(point: EntryPoint, kind: type[_Made], where: str, error: Callable[[str], ProviderError], advice: str) -> _Made:
    """Return an object of the class that `point` names, which must be a `kind`.

    `where` names it in errors, and `advice` says what to install when something is missing. Raises `error` with the reason: it
    cannot be imported, or made, or is something else.
    """
    try:
        made = point.load()()
    # A missing package can be installed; any other error is a mistake of the package.
    except ImportError as failure:
        raise error(f"{where} cannot be imported ({failure}); {advice}") from failure
    except Exception as failure:
        raise error(f"{where} ({point.value}) cannot be made: {reason_of(failure)}") from failure
    if not isinstance(made, kind):
        raise error(f"entry point {point.name} = {point.value} is no {kind.__module__}.{kind.__name__} class")
    return made


def plugins(groups: Collection[str]) -> Mapping[str, Mapping[str, Sequence[EntryPoint]]]:
    """Return the entry points of some groups, by group and name: several of one name, if packages disagree. Reads the disk once."""
    from importlib import metadata

    found: dict[str, dict[str, list[EntryPoint]]] = {group: {} for group in groups}
    everything = metadata.entry_points()
    for group, by_name in found.items():
        for point in everything.select(group=group):
            same = by_name.setdefault(point.name, [])
            # Two packages may name the very same object, for instance after a package was renamed.
            if all(point.value != each.value for each in same):
                same.append(point)
    return found


def make_plugin(points: Sequence[EntryPoint], kind: type[_Made], what: str) -> _Made:
    """Return an object of the class that the entry points of one name, of which there must be one, lead to; `what` names it in errors.

    Raises `PluginError`, which names the package, and says what to do.
    """
    if len(points) > 1:
        found = " and ".join(sorted(map(_origin, points)))
        raise PluginError(f"{what} is brought by {found}: uninstall all but one of them")
    (point,) = points
    where = f"{what} ({_origin(point)})"
    made = make(point, object, where, PluginError, "install that, or uninstall the package")
    if not isinstance(made, kind):
        raise PluginError(
            f"{where} is no class that implements {kind.__module__}.{kind.__name__}; install another version of the package, or tell its author"
        )
    return made


def _origin(point: EntryPoint) -> str:
    package = "" if point.dist is None else f"package {point.dist.name} {point.dist.version}: "
    return f"{package}{point.value}"


ENTRY_POINT_GROUP = "pyjms.providers"

_lock = Lock()

_registered: dict[str, Provider] = {}


def register_provider(scheme: str, provider: Provider | None) -> None:
    """Let `provider` serve `scheme` in this process, before any entry point; None removes it again."""
    with _lock:
        if provider is None:
            _registered.pop(scheme, None)
        else:
            _registered[scheme] = provider


def known_schemes() -> tuple[str, ...]:
    """Return the schemes that `find_provider` supports, sorted."""
    with _lock:
        names = set(_registered)
    return tuple(sorted(names | {point.name for point in entry_points(group=ENTRY_POINT_GROUP)}))


def find_provider(scheme: str) -> Provider:
    """Return the provider of `scheme`. Raises `MissingProviderError` that says what to install, or what is broken."""
    with _lock:
        provider = _registered.get(scheme)
    if provider is not None:
        return provider
    points = tuple(entry_points(group=ENTRY_POINT_GROUP, name=scheme))
    if not points:
        known = ", ".join(f"{name}://" for name in known_schemes()) or "none"
        raise MissingProviderError(
            f"no provider is installed for {scheme}:// (installed: {known}); install the package that provides it, "
            f"or correct the URL"
        )
    # The lock is released: the import may take long, and the module may register providers itself.
    point = points[0]
    package = point.dist.name if point.dist else point.value
    advice = f"install what it needs with: pip install '{package}[{scheme}]'"
    made = make(point, Provider, f"the provider of {scheme}://", MissingProviderError, advice)  # type: ignore[type-abstract]
    with _lock:
        return _registered.setdefault(scheme, made)

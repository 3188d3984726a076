"""URL scheme → provider: registered in this process, else by entry point of the group ``pyjms.providers``.

A provider is imported when its scheme is first used, so that who never uses it needs nothing that it needs.
"""

from __future__ import annotations

from threading import Lock

from pyjms.spi.entry_points import entry_points, make
from pyjms.spi.errors import MissingProviderError
from pyjms.spi.provider import Provider

__all__ = ["ENTRY_POINT_GROUP", "find_provider", "known_schemes", "register_provider"]

ENTRY_POINT_GROUP = "pyjms.providers"

_lock = Lock()
_registered: dict[str, Provider] = {}


def register_provider(scheme: str, provider: Provider | None) -> None:
    """Let `provider` serve `scheme` in this process, before any entry point; None takes it away again."""
    with _lock:
        if provider is None:
            _registered.pop(scheme, None)
        else:
            _registered[scheme] = provider


def known_schemes() -> tuple[str, ...]:
    """Return the schemes that `find_provider` knows, sorted."""
    with _lock:
        names = set(_registered)
    return tuple(sorted(names | {point.name for point in entry_points(group=ENTRY_POINT_GROUP)}))


def find_provider(scheme: str) -> Provider:
    """Return the provider of `scheme`. Raises `MissingProviderError` that names what to install, or what is broken."""
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
    point = points[0]
    package = point.dist.name if point.dist else point.value
    advice = f"install what it needs with: pip install '{package}[{scheme}]'"
    made = make(point, Provider, f"the provider of {scheme}://", MissingProviderError, advice)  # type: ignore[type-abstract]
    with _lock:
        return _registered.setdefault(scheme, made)

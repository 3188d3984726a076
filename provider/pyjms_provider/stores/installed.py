"""URL scheme → store, for those that other packages bring: by entry point of the group ``pyjms.stores``.

The package is imported when its scheme is used, so that who never uses it needs nothing that it needs.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Final

from pyjms_provider.stores.contract import ENTRY_POINT_GROUP, StoreOpener
from pyjms_provider.stores.errors import AmbiguousStoreError, StorePluginError, UnsupportedStoreError

__all__ = ["find_opener", "installed_schemes"]

_POSTGRESQL: Final = frozenset({"postgres", "postgresql"})


def installed_schemes() -> tuple[str, ...]:
    """Return the schemes of the stores that other packages bring, sorted."""
    return tuple(sorted({point.name for point in entry_points(group=ENTRY_POINT_GROUP)}))


def find_opener(scheme: str) -> StoreOpener:
    """Return what opens the stores of `scheme`, made now.

    Raises `UnsupportedStoreError` when nothing is installed for it, `AmbiguousStoreError` when two packages are, and
    `StorePluginError` when what is installed cannot be used.
    """
    # Two packages may name the very same object, as one that was renamed does.
    points = {point.value: point for point in entry_points(group=ENTRY_POINT_GROUP, name=scheme)}
    if not points:
        if scheme.partition("+")[0] in _POSTGRESQL:
            raise UnsupportedStoreError(
                f"the store's URL {'names no driver' if '+' not in scheme else 'names another driver'}, and pyjms speaks to PostgreSQL by psycopg: "
                "write postgresql+psycopg://USER@HOST/DATABASE; the driver comes with: pip install 'pyjms-messaging[postgresql]'"
            )
        others = ", ".join(f"{name}://" for name in installed_schemes()) or "none"
        raise UnsupportedStoreError(
            f"no store is installed for {scheme}:// (installed besides SQLite and PostgreSQL: {others}); write "
            f"sqlite:///FILE or postgresql+psycopg://USER@HOST/DATABASE, or install the package that brings the store, which has "
            f"an entry point {scheme!r} in the group {ENTRY_POINT_GROUP}"
        )
    if len(points) > 1:
        found = " and ".join(sorted(_origin(point) for point in points.values()))
        raise AmbiguousStoreError(f"{scheme}:// is brought by {found}: uninstall all but one of them")
    (point,) = points.values()
    return _made(point)


def _made(point: EntryPoint) -> StoreOpener:
    where = f"the store of {point.name}:// ({_origin(point)})"
    try:
        found = point.load()
    except ModuleNotFoundError as error:
        raise StorePluginError(
            f"{where} cannot be imported, as {error.name} is missing: install that, or uninstall the package"
        ) from error
    except Exception as error:
        raise StorePluginError(
            f"{where} cannot be imported: {type(error).__name__}: {error}; install another version of the package, or "
            f"tell its author"
        ) from error
    if not (isinstance(found, type) and issubclass(found, StoreOpener)):
        raise StorePluginError(
            f"{where} is no class that implements pyjms_provider.stores.contract.StoreOpener; install another version of the "
            f"package, or tell its author"
        )
    try:
        return found()
    except Exception as error:
        raise StorePluginError(
            f"{where} cannot be made without arguments: {type(error).__name__}: {error}; install another version of the "
            f"package, or tell its author"
        ) from error


def _origin(point: EntryPoint) -> str:
    package = "" if point.dist is None else f"package {point.dist.name} {point.dist.version}: "
    return f"{package}{point.value}"

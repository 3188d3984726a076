"""Opens the journal or the configuration store that a URL names. Only the modules of that kind of store are imported."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Final, TypeVar

from pyjms.spi.clock import Signal
from pyjms.spi.errors import MissingProviderError, ProviderError, UrlError
from pyjms_provider.core.journal.journal import Journal
from pyjms_provider.stores.configuration_contract import ConfigurationStore
from pyjms_provider.stores.contract import ENTRY_POINT_GROUP, StoreOpener, StoreRequest
from pyjms_provider.stores.errors import AmbiguousStoreError, StorePluginError, UnsupportedStoreError

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock
    from pyjms_provider.settings import PagingSettings, StoreSettings
    from pyjms_provider.stores.sql.cluster import ClusterDatabase
    from pyjms_provider.stores.sql.cluster_placements import PlacementTables
    from pyjms_provider.stores.temporary_file import TemporaryFile

# Stores of other packages are found as entry points of the group ``pyjms.stores``, by scheme. A package is imported only
# when its scheme is used, so that its dependencies need not be installed otherwise.

_POSTGRESQL: Final = frozenset({"postgres", "postgresql"})


def installed_schemes() -> tuple[str, ...]:
    """Return the schemes of the installed stores of other packages, sorted."""
    return tuple(sorted({point.name for point in entry_points(group=ENTRY_POINT_GROUP)}))


def find_opener(scheme: str) -> StoreOpener:
    """Return a new opener for the stores of `scheme`.

    Raises `UnsupportedStoreError` when no package is installed for it, `AmbiguousStoreError` when two are, and
    `StorePluginError` when the installed one is unusable.
    """
    # Two packages may name the very same object, for instance after a package was renamed.
    points = {point.value: point for point in entry_points(group=ENTRY_POINT_GROUP, name=scheme)}
    if not points:
        # A likely mistake: the URL without its driver, as other programs accept it.
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
        found = " and ".join(sorted(_describe(point) for point in points.values()))
        raise AmbiguousStoreError(f"{scheme}:// is brought by {found}: uninstall all but one of them")
    (point,) = points.values()
    return _load(point)


def _load(point: EntryPoint) -> StoreOpener:
    where = f"the store of {point.name}:// ({_describe(point)})"
    try:
        found = point.load()
    except ModuleNotFoundError as error:
        raise StorePluginError(
            f"{where} cannot be imported, as {error.name} is missing: install that, or uninstall the package"
        ) from error
    # The import of a plug-in may raise anything, and the operator must learn which package it was.
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


def _describe(point: EntryPoint) -> str:
    package = "" if point.dist is None else f"package {point.dist.name} {point.dist.version}: "
    return f"{package}{point.value}"


_T = TypeVar("_T")

_SCHEME: Final = re.compile(r"([A-Za-z][\w+.\-]*)://")
_BUNDLED: Final = frozenset({"postgresql+psycopg", "sqlite", "sqlite+pysqlite"})


def check_scheme(url: str) -> None:
    """Check that there is a store for the scheme of `url`, without opening it. Raises as `open_store` if there is none."""
    scheme = _scheme_of(url)
    if scheme not in _BUNDLED:
        find_opener(scheme)


def open_store(
    settings: StoreSettings,
    holder: str,
    clock: Clock,
    *,
    on_lost: Callable[[ProviderError], None],
    cancelled: Signal | None = None,
) -> Journal:
    """Open the journal that `settings` names, for a broker called `holder`.

    `on_lost` is called once, from any thread, when another broker holds the journal or it is lost for good; `cancelled`
    ends the wait of a stand-by broker. Raises `MissingProviderError`, `UrlError`, `ResourceError`; for a store of another
    package also `UnsupportedStoreError`, `AmbiguousStoreError`, `StorePluginError`.
    """
    scheme = _scheme_of(settings.url)
    if scheme in _BUNDLED:
        with _needing_an_extra():
            # Imported here: SQLAlchemy is an optional dependency, which a broker in memory does not need.
            from pyjms_provider.stores.sql import open_journal
        return open_journal(settings, holder, clock, on_lost=on_lost, cancelled=cancelled)
    request = StoreRequest(
        settings=settings, holder=holder, clock=clock, on_lost=on_lost, cancelled=cancelled or Signal()
    )
    return _call_plugin(find_opener(scheme), lambda opener: opener.open_journal(request), Journal)


def open_temporary_file(settings: PagingSettings) -> TemporaryFile:
    """Return the temporary file of a broker without a store. Raises `MissingProviderError`, `UnusableStoreError`."""
    with _needing_an_extra("memory="):
        # Imported here: messages are encoded by an optional dependency.
        from pyjms_provider.stores.temporary_file import TemporaryFile
    return TemporaryFile(settings)


def configuration_store(url: str, clock: Clock) -> ConfigurationStore:
    """Return the configuration store that `url` names, not opened yet. Raises as `open_store`."""
    scheme = _scheme_of(url)
    if scheme in _BUNDLED:
        with _needing_an_extra():
            from pyjms_provider.stores.sql.configuration import SqlConfigurationStore
        return SqlConfigurationStore(url, clock)
    return _call_plugin(find_opener(scheme), lambda opener: opener.configuration_store(url), ConfigurationStore)


def cluster_database(url: str, name: str, clock: Clock, *, answer_ms: float) -> ClusterDatabase:
    """Return the control tables of a cluster, without a connection; see `ClusterDatabase`. Raises `MissingProviderError`, `UnsupportedStoreError`."""
    with _needing_an_extra():
        from pyjms_provider.stores.sql.cluster import ClusterDatabase
    return ClusterDatabase(url, name, clock, answer_ms=answer_ms)


def placement_tables(database: ClusterDatabase) -> PlacementTables:
    """Return the tables of the placed queues of a cluster."""
    from pyjms_provider.stores.sql.cluster_placements import PlacementTables

    return PlacementTables(database)


def _scheme_of(url: str) -> str:
    found = _SCHEME.match(url)
    if found is None:
        raise UrlError("the store is no URL; write for instance sqlite:///shop.db")
    return found[1]


@contextmanager
def _needing_an_extra(option: str = "store=") -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingProviderError(
            f"{option} needs {error.name}; install it with: pip install 'pyjms-messaging[store]'"
        ) from error


def _call_plugin(opener: StoreOpener, ask: Callable[[StoreOpener], _T], expected_type: type[object]) -> _T:
    """Call `ask` with a plug-in's opener, and return the result. Errors outside the contract become `StorePluginError`."""
    kind = type(opener)
    where = f"the store {kind.__module__}:{kind.__qualname__}"
    try:
        answer = ask(opener)
    # The contract allows these, and their texts say what to do.
    except ProviderError:
        raise
    except Exception as error:
        raise StorePluginError(
            f"{where} has failed: {type(error).__name__}: {error}; if that does not tell what to do, tell the author of the package"
        ) from error
    if not isinstance(answer, expected_type):
        raise StorePluginError(
            f"{where} has given a {type(answer).__name__} that is no {expected_type.__module__}.{expected_type.__name__}; install another "
            f"version of the package, or tell its author"
        )
    return answer

"""From a URL to a journal: which database, whether it is free, whether it is ours, and whether it is whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from pyjms.spi.errors import UrlError
from pyjms_provider.settings import URL_OPTIONS, Acknowledge, StandBy
from pyjms_provider.stores.errors import UnsupportedStoreError
from pyjms_provider.stores.sql.journal import LeasedJournal, SqlJournal
from pyjms_provider.stores.sql.schema import OpenRequest

if TYPE_CHECKING:
    from sqlalchemy import URL

    from pyjms.spi.clock import Clock, Signal
    from pyjms.spi.errors import ProviderError
    from pyjms_provider.settings import StoreSettings
    from pyjms_provider.stores.sql.database import Database
    from pyjms_provider.stores.sql.paging import Paging
    from pyjms_provider.stores.sql.schema import Meta

_SHARED: Final = "pyjms_shared"


def open_journal(
    settings: StoreSettings,
    holder: str,
    clock: Clock,
    *,
    on_lost: Callable[[ProviderError], None] = lambda _: None,
    cancelled: Signal | None = None,
) -> SqlJournal:
    """Open the database that `settings` names, for a broker called `holder`, and make its schema if it is empty.

    `on_lost` hears, once and from any thread, that another broker holds the database now, or may. With
    `StandBy.WAIT` this waits, without end or until `cancelled`, while another broker holds it.

    Raises `UrlError`, and `StoreError`: `UnsupportedStoreError`, `UnusableStoreError`, `HeldStoreError`,
    `ForeignStoreError`, `NewerStoreError`, `DamagedStoreError`; each tells what to do.
    """
    url, is_shared = _read_url(settings.url)
    request = OpenRequest(
        url=url,
        holder=holder,
        clock=clock,
        synchronous=settings.synchronous,
        waits=settings.stand_by is StandBy.WAIT,
        cancelled=cancelled,
        is_shared=is_shared,
        keep_free_bytes=settings.keep_free_bytes,
    )
    database, paging, meta = _opener(url)(request)
    force_all = settings.acknowledge is Acknowledge.FORCED
    kind = SqlJournal if database.lease is None else LeasedJournal
    return kind(database, paging, clock, meta, force_all=force_all, on_lost=on_lost)


def _opener(url: URL) -> Callable[[OpenRequest], tuple[Database, Paging, Meta]]:
    if url.drivername in {"sqlite", "sqlite+pysqlite"}:
        from pyjms_provider.stores.sql.sqlite_opening import open_sqlite

        return open_sqlite
    if url.drivername == "postgresql+psycopg":
        from pyjms_provider.stores.sql.postgresql_opening import open_postgresql

        return open_postgresql
    raise UnsupportedStoreError(
        f"{url.drivername} was not tested as a store; write sqlite:///FILE, or postgresql+psycopg://USER@HOST/DATABASE"
    )


def _read_url(text: str) -> tuple[URL, bool]:
    try:
        url = make_url(text)
    except (ArgumentError, ValueError) as error:
        raise UrlError("the store is not an SQLAlchemy URL; write for instance sqlite:///shop.db") from error
    for name in sorted(URL_OPTIONS & url.query.keys()):
        raise UrlError(
            f"{name}= says what the broker does, and stands in the URL of its store; write it into the broker's own, as in "
            f"vm://shop?store=sqlite:///shop.db&{name}=…, or, where it is served, give it to its virtual host as an attribute"
        )
    shared = url.query.get(_SHARED, "false")
    if shared not in {"true", "false"}:
        raise UrlError(f"{shared!r} is no value of {_SHARED}; write true or false")
    return url.difference_update_query([_SHARED]), shared == "true"

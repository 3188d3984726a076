"""Which requests a server has worked on, and with what reply, in the application's own database."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import InterfaceError, OperationalError, TimeoutError

from pyjms.spi.clock import Clock, SystemClock

_TROUBLES = (InterfaceError, OperationalError, TimeoutError)

_metadata = sa.MetaData()
_replies = sa.Table(
    "pyjms_replies",
    _metadata,
    sa.Column("request", sa.Unicode(300), primary_key=True),
    sa.Column("reply", sa.UnicodeText, nullable=False),
    sa.Column("done_ms", sa.BigInteger, nullable=False, index=True),
)


class SqlReplies:
    """The table ``pyjms_replies``. Its rows are written in the application's transactions.

    Rows are needed until a request cannot come again: `forget` removes old ones.
    """

    def __init__(self, engine: Any, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._engine = engine
        _metadata.create_all(engine)

    @staticmethod
    def is_trouble(error: BaseException | None) -> bool:
        """Say whether `error` is the database's and may pass: it is away, locked, or has no more connections."""
        return isinstance(error, _TROUBLES)

    def why_away(self) -> str | None:
        """Return why the database does not answer; None: it does."""
        try:
            with self._engine.connect() as connection:
                connection.execute(sa.select(sa.literal(1)))
        except _TROUBLES as error:
            return str(error)
        return None

    def find(self, connection: Any, request: str) -> str | None:
        """Return the reply to `request` ("" for none), or None when it has not been worked on."""
        query = sa.select(_replies.c.reply).where(_replies.c.request == request)
        found: str | None = connection.execute(query).scalar_one_or_none()
        return found

    def keep(self, connection: Any, request: str, reply: str) -> None:
        """Add the reply; a second server that works on the same request at the same time fails here."""
        row = {"request": request, "reply": reply, "done_ms": self._clock.time_ms()}
        connection.execute(sa.insert(_replies).values(row))

    def forget(self, connection: Any, before_ms: int) -> int:
        """Remove replies from before `before_ms`, milliseconds since 1970 UTC; return how many."""
        removed: int = connection.execute(sa.delete(_replies).where(_replies.c.done_ms < before_ms)).rowcount
        return removed

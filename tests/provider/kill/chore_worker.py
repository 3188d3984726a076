"""A broker that does all chores while its store cannot be written, and again when it can.

``python -m tests.provider.kill.chore_worker STORE FAULT``. It says how far it is, and goes on when it is told to; whoever started it spoils and mends the
store in between, and kills it. Some faults it makes itself.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from pyjms.spi.errors import InDoubtError, ProviderError, ResourceError
from pyjms_provider.stores.sql import SqlJournal, postgresql, sqlite
from tests.provider.kill.chores import CHORES, Place

UNANSWERED: Final = ("unanswered, and not written", "unanswered, and written")
READ_ONLY: Final = "read-only"


def say(what: Any) -> None:
    """Tell whoever started this, and wait until it says to go on."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()
    sys.stdin.readline()


def attempt(place: Place, name: str) -> tuple[str, str] | None:
    """Do a chore; return the error's code and text."""
    try:
        CHORES[name].act(place)
    except ProviderError as error:
        return error.code, error.reason
    return None


def look(place: Place) -> dict[str, Any]:
    """Return what there is of each chore."""
    return {name: chore.look(place) for name, chore in CHORES.items()}


def fill(place: Place) -> None:
    """Send until nothing more goes into the database, nor into its log."""
    for text in ("x" * 5000, "x"):
        with suppress(ResourceError):
            while True:
                place.send("filler", text)


def database_of(place: Place) -> Any:
    """Return what writes."""
    journal = place.host.storage and place.host.storage.journal
    assert isinstance(journal, SqlJournal)
    return journal._database


def read_only(place: Place) -> Callable[[], None]:
    """Have SQLite refuse writes as if the file were read-only; return what ends that."""
    cursor = database_of(place)._cursor
    cursor.execute("PRAGMA query_only=ON")

    def end() -> None:
        cursor.execute("PRAGMA query_only=OFF")

    return end


def unanswered(place: Place, *, is_written: bool) -> Callable[[], None]:
    """Have no write answered from now on; return what ends that."""
    database = database_of(place)

    def without(write: Callable[..., object]) -> Callable[..., None]:
        def written(*arguments: Any, **options: Any) -> None:
            if is_written:
                write(*arguments, **options)
            raise InDoubtError("nobody answered whether it is written")

        return written

    for name in ("commit", "add_messages"):
        setattr(database, name, without(getattr(database, name)))

    def end() -> None:
        del database.commit, database.add_messages

    return end


def main(store: str, fault: str) -> None:
    """Do what the module says."""
    logging.disable()
    sqlite.BUSY_MS = 50  # type: ignore[misc]
    postgresql.SETTLE_MS = 300  # type: ignore[misc]
    place = Place(store)
    for chore in CHORES.values():
        chore.prepare(place)
    say(look(place))
    mend: Callable[[], None] | None = None
    if fault == "full":
        fill(place)
    elif fault == READ_ONLY:
        mend = read_only(place)
    elif fault in UNANSWERED:
        mend = unanswered(place, is_written=fault == UNANSWERED[1])
    errors = {name: attempt(place, name) for name in CHORES}
    say({"errors": errors, "found": look(place)})
    if mend is not None:
        mend()
    assert place.host.storage is not None
    while not place.host.storage.in_doubt_writes.settle():
        pass
    found = look(place)
    errors = {name: attempt(place, name) for name, chore in CHORES.items() if found[name] == chore.before}
    say({"found": found, "errors": errors, "at last": look(place)})


if __name__ == "__main__":
    main(*sys.argv[1:])

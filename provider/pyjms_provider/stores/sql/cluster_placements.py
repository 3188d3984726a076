"""The tables of placed queues of a cluster: where they are, and where they are to be."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Integer, any_, cast, delete, insert, select, update
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.dialects.postgresql import insert as postgresql_insert

from pyjms_provider.stores.sql.cluster import MEMBER, PLACEMENT, PLACING, SHARD
from pyjms_provider.stores.sql.postgresql_connections import as_json, as_text

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from pyjms_provider.stores.sql.cluster import ClusterDatabase


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacingRow:
    """A queue that is being placed."""

    name: str
    id: str
    old: tuple[int, ...]
    new: tuple[int, ...]
    members: frozenset[str]
    """The incarnations that know it."""
    terms: Mapping[int, int]
    """The terms of the leaders that have retired the queue, by shard."""
    refusal: str | None


_PLACEMENTS: Final = as_text(
    select(
        as_json(select(PLACING).order_by(PLACING.c.name), "each_placing"),
        as_json(select(PLACEMENT).order_by(PLACEMENT.c.shard), "each_placement"),
    )
)


class PlacementTables:
    """Reads and writes them. Safe to use from any thread; all methods wait for the database, and raise `StoreError`."""

    def __init__(self, database: ClusterDatabase) -> None:
        # A part of that class, whose module would be too long.
        self._read_once = database.read_once
        self._statements = database._statements  # noqa: SLF001
        self._transaction = database._transaction  # noqa: SLF001
        self._notify = database._notify  # noqa: SLF001

    def placements(self) -> tuple[Mapping[tuple[str, str], tuple[int, ...]], Sequence[PlacingRow]]:
        """Return the shards of the destinations that were placed, by kind and name, and the queues that are being placed."""
        placing, rows = self._read_once(_PLACEMENTS)
        found: dict[tuple[str, str], tuple[int, ...]] = {}
        for row in rows:
            key = row["kind"], row["name"]
            found[key] = (*found.get(key, ()), row["shard"])
        return found, [_placing(row) for row in placing]

    def begin_placing(
        self, name: str, old: Collection[int], new: Collection[int], by: str, *, is_placed: bool
    ) -> PlacingRow | None:
        """Write that a member wants a queue to be placed; return None if another placing of it is under way, or has ended meanwhile.

        `is_placed`: whether `old` are the shards that `placements` has for it.
        """
        values = {"name": name, "id": secrets.token_hex(8), "old": list(old), "new": list(new)}
        row = postgresql_insert(PLACING).values(**values, by=by, members=[], terms={})
        with self._transaction() as connection:
            made = connection.execute(row.on_conflict_do_nothing().returning(PLACING)).first()
            if made is not None:
                # Nobody else places it from here on; but somebody may have done so just before.
                where = select(PLACEMENT.c.shard).where(PLACEMENT.c.kind == "queue", PLACEMENT.c.name == name)
                now = set(connection.scalars(where))
                if now != (set(old) if is_placed else set()):
                    connection.execute(delete(PLACING).where(PLACING.c.id == values["id"]))
                    return None
            self._notify(connection)
        return None if made is None else _placing(made._asdict())

    def note_placing(self, row: PlacingRow, member: str, terms: Mapping[int, int], refusal: str | None = None) -> None:
        """Write that a member uses a queue no more until it is placed, and has retired it in these terms of shards; or why it cannot be placed."""
        with self._transaction() as connection:
            own = PLACING.c.id == row.id
            found = connection.execute(select(PLACING).where(own).with_for_update()).first()
            if found is None:
                return
            known = _placing(found._asdict())
            connection.execute(
                update(PLACING)
                .where(own)
                .values(
                    members=sorted(known.members | {member}),
                    terms={str(shard): term for shard, term in {**known.terms, **terms}.items()},
                    refusal=refusal or known.refusal,
                )
            )
            self._notify(connection)

    def placing(self, own_id: str) -> tuple[PlacingRow, bool] | None:
        """Return a queue that is being placed, and whether all members know it and all leaders have retired it; None: that was ended."""
        with self._statements() as connection:
            return self._placing(connection, own_id)

    def _placing(self, connection: Connection, own_id: str, *, locks: bool = False) -> tuple[PlacingRow, bool] | None:
        chosen = select(PLACING).where(PLACING.c.id == own_id)
        found = connection.execute(chosen.with_for_update() if locks else chosen).first()
        if found is None:
            return None
        row = _placing(found._asdict())
        members = select(MEMBER.c.incarnation)
        shards = select(SHARD.c.number, SHARD.c.terms).where(
            SHARD.c.number == any_(cast(list(row.old), ARRAY(Integer)))
        )
        # Locked against claims: a later leader reads the placement after its claim, and finds it.
        terms = connection.execute(shards.order_by(SHARD.c.number).with_for_update() if locks else shards).all()
        is_ready = row.members.issuperset(connection.scalars(members)) and row.terms == {
            each.number: each.terms for each in terms
        }
        return row, is_ready and row.refusal is None

    def end_placing(self, own_id: str, hashed: int | None) -> bool:
        """Write where a queue is from now on, if all are ready for that; return False if they are not.

        Args:
            own_id: That of the placing.
            hashed: The shard of the queue if nobody places it; None: nothing is written but that the placing has ended.
        """
        with self._transaction() as connection:
            found = self._placing(connection, own_id, locks=hashed is not None)
            is_done = hashed is not None and found is not None and found[1]
            if found is not None and (is_done or hashed is None):
                connection.execute(delete(PLACING).where(PLACING.c.id == own_id))
                if is_done:
                    self._write_placement(connection, found[0], hashed)
            self._notify(connection)
        return is_done

    @staticmethod
    def _write_placement(connection: Connection, row: PlacingRow, hashed: int | None) -> None:
        connection.execute(delete(PLACEMENT).where(PLACEMENT.c.kind == "queue", PLACEMENT.c.name == row.name))
        if row.new != (hashed,):
            rows = [{"kind": "queue", "name": row.name, "shard": each} for each in row.new]
            connection.execute(insert(PLACEMENT), rows)


def _placing(row: Mapping[str, Any]) -> PlacingRow:
    return PlacingRow(
        name=row["name"],
        id=row["id"],
        old=tuple(row["old"]),
        new=tuple(row["new"]),
        members=frozenset(row["members"]),
        terms={int(shard): term for shard, term in row["terms"].items()},
        refusal=row["refusal"],
    )

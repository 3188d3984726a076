"""Few cases, put together at the driver: each suspect and each pair with all events that its judgement needs.

Two passes over the history bring these events here: one those of the messages, the other what settles their deliveries, ends their
transactions, and, where a first look at the cases tells which proofs of life they will ask for, the answers that are these proofs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from pyjms.history.events import ACK, DELIVER, RECOVER, SEND
from pyjms.spark.checker.expressions import expr
from pyjms.spark.checker.gathering import CASE_EVENT, ENDS, ROUND_TRIP, gathered
from pyjms.spark.checker.judging import MESSAGES, OWN, PRIORITY, WITNESS, Judging

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Case: TypeAlias = tuple[int, int, str]
"""What cases are told apart by: g, kind, h."""

Row: TypeAlias = dict[str, Any]

WINDOWS = 32
"""For so many proofs of life the second pass looks; each makes its condition longer."""

_MOST_ROWS = 20_000  # of each task of the second pass, if it has windows
_PLACE = (1 << 33) - 1  # of a row in its task, in what `monotonically_increasing_id` gives


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Where the first answer of a connection after a moment is looked for."""

    h: str
    conn: str
    line: int
    """The digest of both."""
    t: int
    until: int

    @property
    def question(self) -> tuple[str, str, int]:
        """What a case asks."""
        return self.h, self.conn, self.t


def gathered_here(events: DataFrame, wanted: Iterable[int]) -> list[Row]:
    """Return all events of the messages in `wanted` (digests), with the digests by which others belong to them."""
    found = gathered(events, _keys(events, "k", wanted)).selectExpr(
        "k",
        "xxhash64(h, consumer) AS by",
        "xxhash64(h, conn) AS line",
        "xxhash64(h, consumer, dn) AS handle",
        "xxhash64(h, tx) AS tx_key",
        *CASE_EVENT,
    )
    return list(found.toArrow().to_pylist())


def asked_in(said: Mapping[Case, Row]) -> set[tuple[str, str, int]]:
    """Return the proofs of life that cases ask for: history, connection, moment."""
    return {(case[2], each["conn"], each["t"]) for case, its in said.items() for each in its["asked"]}


@dataclass(slots=True)
class Cases:
    """The rows of all cases, which `pyjms.spark.checker.judging.Judging` takes."""

    rows: dict[Case, list[Row]] = field(default_factory=lambda: defaultdict(list))
    _changed: dict[Case, None] = field(default_factory=dict)  # since they were judged

    def said(self, judging: Judging, *, has_proofs: bool = False) -> dict[Case, Row]:
        """Judge the cases that changed since they were judged."""
        changed = list(self._changed)
        self._changed.clear()
        return dict(
            zip(changed, judging.say((self.rows[case] for case in changed), has_proofs=has_proofs), strict=True)
        )

    def add(self, row: Row, case: Case, role: int) -> None:
        """Add a row to a case."""
        g, kind, h = case
        self.rows[case].append({**row, "g": g, "kind": kind, "role": role, "h": h})
        self._changed[case] = None

    def add_rows(self, frame: DataFrame) -> None:
        """Add the rows of cases that Spark put together."""
        for row in frame.toArrow().to_pylist():
            self.add(row, (row["g"], row["kind"], row["h"]), row["role"])

    def add_proofs(self, said: Mapping[Case, Row], proofs: Mapping[tuple[str, str, int], Row]) -> None:
        """Add the proofs of life that cases ask for; where there is none, they are judged again, too."""
        for case, its in said.items():
            for each in its["asked"]:
                self._changed[case] = None
                proof = proofs.get((case[2], each["conn"], each["t"]))
                if proof is not None:
                    self.add(proof, case, WITNESS)

    def add_messages(self, found: Iterable[Row], suspects: Collection[int]) -> None:
        """Make a case of each suspect, out of what `gathered_here` found."""
        for row in found:
            if row["k"] in suspects:
                self.add(row, (row["k"], MESSAGES, row["h"]), OWN)

    def add_pairs(self, found: Iterable[Row], pairs: Iterable[Mapping[str, Any]]) -> None:
        """Make a case of each pair, as `pyjms.spark.checker.ordering.pair_cases` does."""
        by_message: Mapping[int, list[Row]] = defaultdict(list)
        for row in found:
            by_message[row["k"]].append(row)
        for pair in pairs:
            for place, one in enumerate(pair["both"]):
                for row in by_message.get(one["k"], ()):
                    if row["op"] == SEND or _is_it(row, pair["consumer"], one):
                        self.add(row, (pair["g"], pair["kind"], row["h"]), WITNESS if place else OWN)

    def lags(self) -> Iterator[dict[str, Any]]:
        """Yield by how much deliveries seem to have come before their sends, as `lags_between` in `gathering` does."""
        for (_, kind, h), its in self.rows.items():
            sends = [row for row in its if row["op"] == SEND and kind == MESSAGES]
            for come in its:
                if come["op"] == DELIVER and come["t1"] is not None:
                    for sent in sends:
                        if sent["node"] != come["node"] and come["t1"] < sent["t0"] and sent["mid"] == come["mid"]:
                            one, two = sorted((sent["node"], come["node"]))
                            yield {"h": h, "one": one, "two": two, "lag_ns": sent["t0"] - come["t1"]}

    def lines(self) -> dict[tuple[str, str], int]:
        """Return the digests of all connections that are known here."""
        return {
            (row["h"], row["conn"]): row["line"]
            for its in self.rows.values()
            for row in its
            if row["conn"] is not None and "line" in row
        }

    def add_around(self, events: DataFrame, windows: Sequence[Window]) -> dict[tuple[str, str, int], Row]:
        """Add what settles the deliveries of suspects and names another message, or none, and what ends their transactions.

        Return the proofs that were found in the windows.
        """
        held: Mapping[int, list[tuple[Case, int]]] = defaultdict(list)
        begun: Mapping[int, dict[Case, None]] = defaultdict(dict)
        for case, its in self.rows.items():
            for row in its:
                is_own = case[1] == MESSAGES and row["role"] == OWN
                if is_own and row["op"] == DELIVER:
                    held[row["handle"]].append((case, row["k"]))
                if row["tx"] is not None and (is_own or (case[1] == PRIORITY and row["op"] == SEND)):
                    begun[row["tx_key"]][case] = None
        if not held and not begun:
            return {}
        around = _around(events, {*held, *begun}, windows)
        for row in around:
            if row["ends"]:
                for case in begun.get(row["key"], ()):
                    self.add(row, case, WITNESS)
            elif row["op"] in {ACK, RECOVER}:
                for case, k in held.get(row["key"], ()):
                    if row["its"] != k:
                        self.add(row, case, WITNESS)
        return _answers(around, windows)

    def of_strangers(self) -> list[Row]:
        """Return the settlements that name another message, and are part of a transaction."""
        return [
            row
            for its in self.rows.values()
            for row in its
            if row["role"] == WITNESS and row["op"] in {ACK, RECOVER} and row["tx"] is not None
        ]


def _is_it(row: Row, consumer: int, one: Mapping[str, Any]) -> bool:
    same = (DELIVER, one["dn"], one["t0"], consumer)
    return (row["op"], row["dn"] or 0, row["t0"], row["by"]) == same


def _around(events: DataFrame, keys: Collection[int], windows: Sequence[Window]) -> list[Row]:
    """Return the events that have a key, and those in the windows, if both are not too many; else the former."""
    known = _keys(events, "key", keys).withColumn("is_known", expr("true"))
    key = (
        f"CASE WHEN {ENDS} THEN xxhash64(h, tx) WHEN op IN ('ack', 'recover') THEN xxhash64(h, consumer, dn) END AS key"
    )
    # Times first, as Spark reads no names of rows that a condition before has ruled out
    near = " OR ".join(f"(t0 > {each.t} AND t0 <= {each.until})" for each in windows) or "false"
    rows = events.where(f"op IN ('ack', 'recover', 'commit', 'rollback') OR {near}").selectExpr(key, *CASE_EVENT)
    found = rows.join(known, "key", "left").where(f"is_known OR {near}")
    if windows:
        line = "xxhash64(h, conn)"
        told = (f"({line} = {each.line} AND t0 > {each.t} AND t0 <= {each.until})" for each in windows)
        found = found.where(f"is_known OR (({' OR '.join(told)}) AND {ROUND_TRIP})")
        # a limit would be a shuffle
        found = found.selectExpr(f"monotonically_increasing_id() & {_PLACE} AS place", "*").where(
            f"place <= {_MOST_ROWS}"
        )
    told_of = (
        f"{ENDS} AND tx IS NOT NULL AS ends",
        "xxhash64(h, mid) AS its",
        f"coalesce({ROUND_TRIP}, false) AS is_answer",
    )
    came = list(found.selectExpr("*", *told_of).toArrow().to_pylist())
    if any(row["place"] == _MOST_ROWS for row in came if windows):
        return _around(events, keys, ())
    return came


def _keys(events: DataFrame, name: str, keys: Iterable[int]) -> DataFrame:
    """Return digests as a table that is sent to all."""
    table = pa.table({name: pa.array(keys, pa.int64())})
    return events.sparkSession.createDataFrame(table).hint("broadcast")


def _answers(rows: Iterable[Row], windows: Sequence[Window]) -> dict[tuple[str, str, int], Row]:
    """Return the first answer in each window that has one."""
    by_line: Mapping[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if row["is_answer"]:
            by_line[row["h"], row["conn"]].append(row)
    found: dict[tuple[str, str, int], Row] = {}
    for each in windows:
        its = [row for row in by_line[each.h, each.conn] if each.t < row["t0"] <= each.until]
        if its:
            found[each.question] = min(its, key=lambda row: (row["t0"], row["n"] or 0))
    return found

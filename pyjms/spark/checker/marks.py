"""What screening left over: whom to look at closely.

Of most histories that is little, and comes to the driver at once; of others it stays where it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pyjms.spark.checker.expressions import kept
from pyjms.spark.checker.ordering import broken_streams

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """Whom to look at closely."""

    suspects: DataFrame
    """The digests (`k`) of messages."""
    came: frozenset[int] | None
    """The same, where they came to the driver."""
    number: int
    """How many they are."""
    consumers: DataFrame
    """The digests (`consumer`) of consumers whose deliveries may not be in order."""
    are_consumers: bool
    """Whether there are such."""
    has_several: bool
    """Whether a message came several times without the flag of a redelivery: its consumers are to be looked at, too."""
    lags_ns: Mapping[int, int]
    """By how much messages between two nodes seemed to arrive too early, by the digest of both nodes."""

    def here(self) -> frozenset[int]:
        """Bring the digests of the suspects here, if they did not come yet."""
        return frozenset(self.suspects.toArrow().column("k").to_pylist()) if self.came is None else self.came


def marks_of(screened: DataFrame, more: DataFrame | None, few: int) -> Marks:
    """Return what `screen` has found, and the suspects in `more`; up to `few` rows come here."""
    screened = kept(screened)
    table = screened.limit(few + 1).toArrow()
    others = None if more is None else more.where("k IS NOT NULL")
    if table.num_rows > few:
        return _there(screened, others)
    rows = table.to_pylist()
    suspects = {row["suspect"] for row in rows} - {None}
    if others is not None:
        suspects.update(others.distinct().toArrow().column("k").to_pylist())
    consumers = {row["strange"] for row in rows} - {None} | _broken(rows)
    lags: dict[int, int] = {}
    for row in rows:
        if row["lag_ns"]:
            lags[row["lag_pair"]] = max(lags.get(row["lag_pair"], 0), row["lag_ns"])
    session = screened.sparkSession
    return Marks(
        suspects=session.createDataFrame(_column("k", suspects)),
        came=frozenset(suspects),
        number=len(suspects),
        consumers=session.createDataFrame(_column("consumer", consumers)),
        are_consumers=bool(consumers),
        has_several=any(row["is_several"] for row in rows),
        lags_ns=lags,
    )


def _there(screened: DataFrame, others: DataFrame | None) -> Marks:
    suspects = screened.where("suspect IS NOT NULL").selectExpr("suspect AS k")
    suspects = kept((suspects if others is None else suspects.union(others)).distinct())
    strange = screened.where("strange IS NOT NULL").selectExpr("strange AS consumer")
    consumers = kept(broken_streams(screened).union(strange).distinct())
    lags = screened.where("lag_ns > 0").groupBy("lag_pair").agg({"lag_ns": "max"}).toArrow().to_pylist()
    return Marks(
        suspects=suspects,
        came=None,
        number=suspects.count(),
        consumers=consumers,
        are_consumers=bool(consumers.head(1)),
        has_several=bool(screened.where("is_several").head(1)),
        lags_ns={row["lag_pair"]: row["max(lag_ns)"] for row in lags},
    )


def _broken(rows: Iterable[Mapping[str, Any]]) -> set[int]:
    """Return the consumers that have a stream whose numbers do not rise, as `ordering.broken_streams` does."""
    blocks = sorted(
        (row["stream"], row["block"], row["least"], row["most"], row["is_broken"], row["consumer"])
        for row in rows
        if row["stream"] is not None
    )
    found = set()
    for _, of_stream in groupby(blocks, key=lambda row: row[0]):
        earlier = float("-inf")
        for _, its in groupby(of_stream, key=lambda row: row[1]):
            of_block = list(its)
            if any(row[4] for row in of_block) or min(row[2] for row in of_block) < earlier:
                found.add(of_block[0][5])
            earlier = max(earlier, *(row[3] for row in of_block))
    return found


def _column(name: str, values: Iterable[int]) -> pa.Table:
    return pa.table({name: pa.array(values, pa.int64())})

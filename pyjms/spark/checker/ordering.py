"""Order and priority: which pairs of deliveries came in the wrong order.

A consumer's deliveries may be more than one task can sort. So they are cut into blocks; each block gets one row about
its predecessors, computed from the blocks' maxima.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pyjms.spark.checker.expressions import expr, expressions, kept
from pyjms.spark.checker.judging import ORDER, OWN, PRIORITY, WITNESS
from pyjms.spark.checker.screening import MESSAGE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_IS_FRESH = "op = 'deliver' AND NOT coalesce(redelivered, false) AND mid IS NOT NULL AND consumer IS NOT NULL"
_IS_QUEUE = "(dest LIKE 'queue://%' OR dest LIKE 'temp-queue://%')"


def broken_streams(screened: DataFrame) -> DataFrame:
    """Return the consumers (`consumer`) that have a stream with decreasing numbers, from the result of `screen`."""
    blocks = screened.where("stream IS NOT NULL").groupBy("stream", "block").agg(
        *expressions(
            "bool_or(is_broken) AS is_broken",
            "min(least) AS least",
            "max(most) AS most",
            "max(consumer) AS consumer",
        )
    )  # fmt: skip
    before = "max(most) OVER (PARTITION BY stream ORDER BY block ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    # A number below the greatest of all earlier blocks is out of order, even if each block by itself rises.
    seen = blocks.selectExpr("consumer", f"is_broken OR coalesce(least < {before}, false) AS is_broken")
    return seen.where("is_broken").select("consumer").distinct()


def several_consumers(events: DataFrame, suspects: DataFrame) -> DataFrame:
    """Return the consumers (`consumer`) that received a message of `suspects` (`k`) several times without the flag."""
    fresh = events.where(_IS_FRESH).selectExpr(
        f"{MESSAGE} AS k", "xxhash64(h, mid, dest, sub) AS line", "xxhash64(h, consumer) AS consumer"
    )
    several = "count(*) OVER (PARTITION BY line) > 1 AS is_one_of_several"
    found = fresh.join(suspects, "k", "left_semi").selectExpr("consumer", several)
    return found.where("is_one_of_several").select("consumer")


def overtaken(events: DataFrame, consumers: DataFrame, block: int | None) -> DataFrame:
    """Return pairs of deliveries to one of `consumers`: a message, and one that its session had sent later and that was
    delivered earlier.

    A pair has `g`, `kind`, the `consumer`, and `both`: digest, number and time of each.

    block: None: no consumer has so many deliveries that they must be cut into blocks.

    Only the streams of these consumers are sorted again, now with all properties of each message that the reference
    checks.
    """
    fresh = events.where(_IS_FRESH).selectExpr(
        f"{MESSAGE} AS k",
        "xxhash64(h, consumer) AS consumer",
        f"IF({_IS_QUEUE}, xxhash64(dest), NULL) AS from_queue",
        "prio",
        "mode",
        "coalesce(dn, 0L) AS dn",
        "t0",
    )
    # Kept, as it is used twice: for the sends and for the streams.
    fresh = kept(fresh.join(consumers.hint("broadcast"), "consumer", "left_semi"))
    streams = (
        fresh.join(_unique_sends(events, fresh), "k")
        .where("sn IS NOT NULL AND (from_queue IS NULL OR from_queue = sent_to)")
        .selectExpr(
            "k",
            "consumer",
            "xxhash64(sender, coalesce(prio, sent_prio), coalesce(mode, sent_mode)) AS stream",
            "0L AS block" if block is None else f"dn DIV {block} AS block",
            "dn",
            "t0",
            "sn",
            "struct(sn, -dn AS minus_dn, -t0 AS minus_t0, k) AS self",
        )
    )
    # the first delivery with the greatest number is the one that the later ones should have preceded
    within = "max(self) OVER (PARTITION BY consumer, stream, block ORDER BY dn, t0 ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    if block is None:
        seen = streams.selectExpr("*", f"{within} AS before")
    else:
        streams = kept(streams)
        # One row for each block describes its predecessors, so that no task has to sort a whole stream.
        most = streams.groupBy("consumer", "stream", "block").agg(expr("max(self) AS most"))
        earlier = most.selectExpr(
            "consumer",
            "stream",
            "block",
            "max(most) OVER (PARTITION BY consumer, stream ORDER BY block ROWS BETWEEN UNBOUNDED PRECEDING AND 1 "
            "PRECEDING) AS earlier",
        )
        seen = streams.selectExpr("*", f"{within} AS within").join(earlier, ["consumer", "stream", "block"])
        seen = seen.selectExpr("*", "greatest(within, earlier) AS before")
    late = seen.where("before.sn > sn")
    pairs = late.selectExpr(
        "xxhash64(k, consumer, dn, t0) AS g",
        "consumer",
        "array(struct(k, dn, t0), struct(before.k, -before.minus_dn AS dn, -before.minus_t0 AS t0)) AS both",
    )
    return pairs.withColumn("kind", expr(str(ORDER)))


def overtaken_urgent(events: DataFrame, consumers: DataFrame, block: int) -> DataFrame:
    """Return the pairs of which the first reached one of `consumers` right after the second, of lower priority, though
    it was available.
    """
    deliveries = events.where("op = 'deliver' AND consumer IS NOT NULL").selectExpr(
        "xxhash64(h, consumer) AS consumer",
        f"coalesce(dn, 0L) DIV {block} AS block",
        f"struct(coalesce(dn, 0L) AS dn, t0, coalesce(n, 0L) AS n, IF(mid IS NULL, NULL, {MESSAGE}) AS k, "
        "coalesce(prio, 0) AS prio, coalesce(redelivered, false) AS redelivered) AS self",
    )
    deliveries = deliveries.join(consumers.hint("broadcast"), "consumer", "left_semi")
    # The first delivery of a block has its predecessor in another one, which is the last of the block before.
    lasts = deliveries.groupBy("consumer", "block").agg(expr("max(self) AS last"))
    lasts = lasts.selectExpr("consumer", "block", "lag(last) OVER (PARTITION BY consumer ORDER BY block) AS earlier")
    within = "lag(self) OVER (PARTITION BY consumer, block ORDER BY self)"
    pairs = (
        deliveries.selectExpr("*", f"{within} AS within")
        .join(lasts, ["consumer", "block"])
        .selectExpr("consumer", "self", "coalesce(within, earlier) AS before")
        .where("before.prio < self.prio AND NOT before.redelivered AND NOT self.redelivered")
        .selectExpr("*", "self.k AS k")
    )
    shown = _unique_sends(events, pairs).where("ok = 'ok'")
    there = pairs.join(shown, "k").where("sent_t1 < before.t0").selectExpr(
        "xxhash64(self.k, consumer, self.dn, self.t0) AS g",
        "consumer",
        "array(struct(self.k, self.dn, self.t0), struct(before.k, before.dn, before.t0)) AS both",
    )  # fmt: skip
    return there.withColumn("kind", expr(str(PRIORITY)))


def _unique_sends(events: DataFrame, wanted: DataFrame) -> DataFrame:
    """Return the sends of the messages in `wanted`, without those whose id was used twice."""
    sends = events.where("op = 'send' AND mid IS NOT NULL").selectExpr(
        f"{MESSAGE} AS k",
        "xxhash64(dest) AS sent_to",
        "xxhash64(h, dest, sess) AS sender",
        "prio",
        "mode",
        "sn",
        "ok",
        "t1",
        "CASE WHEN dest IS NULL THEN false WHEN note IS NULL THEN true "
        "ELSE coalesce(get_json_object(note, '$.scheduled'), 'false') = 'false' END AS keeps_order",
    )
    return (
        sends.join(wanted.select("k"), "k", "left_semi")
        .groupBy("k")
        .agg(
            *expressions(
                "count(*) AS sends",
                "max(sent_to) AS sent_to",
                "max(sender) AS sender",
                "max(prio) AS sent_prio",
                "max(mode) AS sent_mode",
                "max(sn) AS sn",
                "max(ok) AS ok",
                "max(t1) AS sent_t1",
                "bool_and(keeps_order) AS keeps_order",
            )
        )
        # An id that was used twice names two messages, and scheduled messages arrive when they are due: neither has an
        # order.
        .where("sends = 1 AND keeps_order")
    )


def messages_of(pairs: DataFrame) -> DataFrame:
    """Return the digests (`k`) of the messages in pairs."""
    return pairs.selectExpr("inline(both)").where("k IS NOT NULL").select("k")


def pair_cases(found: DataFrame, pairs: DataFrame) -> DataFrame:
    """Return the cases of pairs: both deliveries, and all sends of both messages, from the result of `gathered`."""
    each = pairs.selectExpr("g", "kind", "consumer", "posexplode(both) AS (place, one)").selectExpr(
        "g", "kind", "consumer AS by", "place", "one.k AS k", "one.dn AS its_dn", "one.t0 AS its_t0"
    )
    is_it = (
        "(op = 'send' OR (op = 'deliver' AND coalesce(dn, 0L) = its_dn AND t0 = its_t0 AND xxhash64(h, consumer) = by))"
    )
    joined = found.join(each, "k").where(is_it)
    return joined.selectExpr(
        "g",
        "kind",
        f"IF(place = 0, {OWN}, {WITNESS}) AS role",
        "* EXCEPT (g, kind, k, by, place, its_dn, its_t0)",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """The result of screening: messages and consumers to examine closely."""

    suspects: DataFrame
    """The digests (`k`) of messages."""
    came: frozenset[int] | None
    """The same, if they were fetched to the driver."""
    number: int
    """Their number."""
    consumers: DataFrame
    """The digests (`consumer`) of consumers whose deliveries may not be in order."""
    are_consumers: bool
    """Whether there are such consumers."""
    has_several: bool
    """Whether a message was delivered several times without the redelivered flag: its consumers are examined, too."""
    lags_ns: Mapping[int, int]
    """By how much messages between two nodes seemed to arrive too early, by the digest of both nodes."""

    def here(self) -> frozenset[int]:
        """Fetch the digests of the suspects to the driver, unless they are there."""
        return frozenset(self.suspects.toArrow().column("k").to_pylist()) if self.came is None else self.came


def marks_of(screened: DataFrame, more: DataFrame | None, few: int) -> Marks:
    """Return the marks from the result of `screen`, and the suspects in `more`; up to `few` rows are fetched to the
    driver.
    """
    screened = kept(screened)
    # One row more than allowed says that there are too many, without a count.
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
    """Return the consumers that have a stream with decreasing numbers, as `ordering.broken_streams` does."""
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
            # As in `broken_streams`: the number of rows decides which of the two runs, and both must agree.
            if any(row[4] for row in of_block) or min(row[2] for row in of_block) < earlier:
                found.add(of_block[0][5])
            earlier = max(earlier, *(row[3] for row in of_block))
    return found


def _column(name: str, values: Iterable[int]) -> pa.Table:
    return pa.table({name: pa.array(values, pa.int64())})

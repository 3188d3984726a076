"""Order and priority: which pairs of deliveries came in the wrong order.

A consumer's deliveries may be more than one task can sort. So they are cut into blocks; what came before a
block is one row of it, found from the blocks' maxima.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms.spark.checker.expressions import expr, expressions, kept
from pyjms.spark.checker.judging import ORDER, OWN, PRIORITY, WITNESS
from pyjms.spark.checker.screening import MESSAGE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_IS_FRESH = "op = 'deliver' AND NOT coalesce(redelivered, false) AND mid IS NOT NULL AND consumer IS NOT NULL"
_IS_QUEUE = "(dest LIKE 'queue://%' OR dest LIKE 'temp-queue://%')"


def broken_streams(screened: DataFrame) -> DataFrame:
    """Return the consumers (`consumer`) that have a stream whose numbers do not rise, from what `screen` returned."""
    blocks = screened.where("stream IS NOT NULL").groupBy("stream", "block").agg(
        *expressions(
            "bool_or(is_broken) AS is_broken",
            "min(least) AS least",
            "max(most) AS most",
            "max(consumer) AS consumer",
        )
    )  # fmt: skip
    before = "max(most) OVER (PARTITION BY stream ORDER BY block ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    seen = blocks.selectExpr("consumer", f"is_broken OR coalesce(least < {before}, false) AS is_broken")
    return seen.where("is_broken").select("consumer").distinct()


def several_consumers(events: DataFrame, suspects: DataFrame) -> DataFrame:
    """Return the consumers (`consumer`) that got a message of `suspects` (`k`) which came several times without the flag."""
    fresh = events.where(_IS_FRESH).selectExpr(
        f"{MESSAGE} AS k", "xxhash64(h, mid, dest, sub) AS line", "xxhash64(h, consumer) AS consumer"
    )
    several = "count(*) OVER (PARTITION BY line) > 1 AS is_one_of_several"
    found = fresh.join(suspects, "k", "left_semi").selectExpr("consumer", several)
    return found.where("is_one_of_several").select("consumer")


def overtaken(events: DataFrame, consumers: DataFrame, block: int | None) -> DataFrame:
    """Return pairs: the delivery of a message that reached one of `consumers` after one that its session had sent later, and that one's.

    A pair has `g`, `kind`, the `consumer`, and `both`: digest, number and time of each.

    block: None: no consumer has so many deliveries that they must be cut into blocks.

    Only the streams of these consumers are sorted again, now with all that the reference asks of each message.
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
    # the first delivery with the greatest number is the one that others came after
    within = "max(self) OVER (PARTITION BY consumer, stream, block ORDER BY dn, t0 ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    if block is None:
        seen = streams.selectExpr("*", f"{within} AS before")
    else:
        streams = kept(streams)
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
    """Return the pairs of which the first came to one of `consumers` right after the second, less urgent, though it was there."""
    deliveries = events.where("op = 'deliver' AND consumer IS NOT NULL").selectExpr(
        "xxhash64(h, consumer) AS consumer",
        f"coalesce(dn, 0L) DIV {block} AS block",
        f"struct(coalesce(dn, 0L) AS dn, t0, coalesce(n, 0L) AS n, IF(mid IS NULL, NULL, {MESSAGE}) AS k, "
        "coalesce(prio, 0) AS prio, coalesce(redelivered, false) AS redelivered) AS self",
    )
    deliveries = deliveries.join(consumers.hint("broadcast"), "consumer", "left_semi")
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
    """Return the sends of the messages in `wanted`, without those whose id was given twice."""
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
        .where("sends = 1 AND keeps_order")
    )


def messages_of(pairs: DataFrame) -> DataFrame:
    """Return the digests (`k`) of the messages of pairs."""
    return pairs.selectExpr("inline(both)").where("k IS NOT NULL").select("k")


def pair_cases(found: DataFrame, pairs: DataFrame) -> DataFrame:
    """Return the cases that pairs are: both deliveries, all sends of both messages, out of what `gathered` found of them."""
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

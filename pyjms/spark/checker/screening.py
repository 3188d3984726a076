"""Screening: which messages may break a rule, found with one pass over the history.

All events of a message in a channel (a queue, or a subscription of a topic) become one row of numbers: strings are
replaced by 64-bit digests, conditions are bits. A message is cleared when its row shows the usual life: sent once,
delivered once, settled once, in order and in time. Everything else is a *suspect*, and judged later. Where two messages share a
digest, both are suspects.

Order is screened in the same pass. The numbers of a stream must rise over the deliveries of a consumer. The deliveries are cut into
blocks, so that no group is too large for one task: within a block a running maximum tells, between blocks the blocks'
least and greatest numbers (`ordering.broken_streams`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyjms.spark.checker.control import Control, Overview
from pyjms.spark.checker.expressions import expr, expressions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["BLOCK", "MESSAGE", "screen", "transaction_ends"]

BLOCK = 1 << 20
"""So many deliveries of a consumer are looked at by one task."""

MESSAGE = "xxhash64(h, mid)"
"""The digest that stands for a message."""

_FOREVER_NS = (1 << 63) - 1
_SLACK_NS = 10**9
_ANOTHER_NODE_NS = 10**8  # Facts allows clocks to differ by this much at least

# What a row may have on it
(_REFUSED, _SURE, _UNCOMMITTED, _LATE, _ODD, _CONSUMED, _COMMIT_ELSEWHERE, _SPARED) = (1 << bit for bit in range(8))

# One counter each, of 12 bits; who overflows one has the next, and so no usual life
_ONE_SEND, _ONE_DELIVERY, _ONE_SETTLEMENT, _ONE_FRESH, _ONE_SIGHT = (1 << 12 * place for place in range(5))
_BITS = 0xFFF


def transaction_ends(events: DataFrame) -> DataFrame:
    """Return what is known of each local or distributed transaction that somebody ended."""
    ends = events.where("op IN ('commit', 'rollback') AND tx IS NOT NULL").selectExpr(
        "xxhash64(h, tx) AS tx_key",
        "op = 'commit' AS is_commit",
        "ok",
        "t0",
        "t1",
        "hash(node) AS at",
    )
    return ends.groupBy("tx_key").agg(
        *expressions(
            "bool_or(is_commit AND ok = 'ok') AS is_sure",
            "CASE WHEN bool_or(is_commit AND ok = 'ok') THEN false WHEN bool_or(is_commit AND ok = 'unknown') THEN false "
            "WHEN bool_or(is_commit) THEN true WHEN bool_or(ok <> 'ok') THEN false ELSE true END AS is_never",
            "min(IF(is_commit, t0, NULL)) AS commit_t0",
            "min(IF(is_commit AND ok = 'ok', t1, NULL)) AS commit_t1",
            "min(IF(is_commit, at, NULL)) AS commit_at",
            "max(IF(is_commit, at, NULL)) AS commit_at_too",
        )
    )


def screen(
    events: DataFrame,
    controls: Mapping[str, Control],
    overview: Overview,
    *,
    expiry_allowance_ms: int,
    parts: int,
    block: int,
) -> DataFrame:
    """Return few rows: suspects (`suspect`: the digest), streams by block, and differences of clocks.

    Columns: suspect, stream, consumer, block, is_broken, least, most, lag_pair, lag_ns, `strange` (the
    consumer of a delivery whose order could not be looked at here).
    """
    rows = _messages(events, controls, overview, expiry_allowance_ms)
    by_message = rows.repartition(parts, "k").groupBy("k", "ds").agg(*expressions(*_AGGREGATES))
    judged = by_message.selectExpr("*", *_COUNTS).selectExpr(*_JUDGED, _block(block))
    kept = judged.where("suspect IS NOT NULL OR stream IS NOT NULL OR lag_ns > 0")
    return _by_block(kept, parts)


def _by_block(kept: DataFrame, parts: int) -> DataFrame:
    rows = kept.selectExpr("*", "coalesce(stream, suspect, lag_pair) AS key").repartition(parts, "key", "block")
    before = "max(sn) OVER (PARTITION BY key, block ORDER BY dn ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    seen = rows.selectExpr("*", f"coalesce(sn < {before}, false) AS is_broken")
    return seen.groupBy("key", "block", "stream", "suspect", "lag_pair", "strange").agg(
        *expressions(
            "bool_or(is_broken) AS is_broken",
            "min(sn) AS least",
            "max(sn) AS most",
            "max(consumer) AS consumer",
            "max(lag_ns) AS lag_ns",
        )
    )


# Rows of numbers


def _messages(
    events: DataFrame, controls: Mapping[str, Control], overview: Overview, expiry_allowance_ms: int
) -> DataFrame:
    session = events.sparkSession
    rows = events.where("mid IS NOT NULL AND op IN ('send', 'deliver', 'ack', 'recover', 'browse')").selectExpr(
        f"{MESSAGE} AS k",
        "xxhash64(dest) AS dest_key",
        "xxhash64(dest, sub) AS ds",
        "op",
        "h",
        "ok",
        "t0",
        "t1",
        "hash(node) AS at",
        "xxhash64(h, node) AS at_key",
        "IF(op = 'send', xxhash64(h, dest, sess), xxhash64(h, consumer)) AS who",
        "xxhash64(h, conn) AS conn_key",
        "IF(op = 'send', sn, coalesce(dn, 0L)) AS number",
        "xxhash64(consumer, dn) AS handle",
        "CAST(prio AS INT) * 4 + mode AS pm",
        "redelivered",
        "exp",
        "xxhash64(sha) AS sha_key",
        "sha IS NOT NULL AS has_sha",
        "note IS NOT NULL AS has_note",
        "tx IS NOT NULL AND op IN ('send', 'ack') AS has_tx",
        "coalesce(tx LIKE 'xa:%', false) AS is_branch",
        "xxhash64(h, tx) AS tx_key",
        "IF(op = 'send' AND NOT (dest LIKE 'queue://%' OR dest LIKE 'temp-queue://%'), xxhash64(h, dest), NULL) "
        "AS topic",
        "coalesce(dest LIKE 'temp-%', true) AS is_temporary",
    )
    rows = _with_transactions(rows, events, overview)
    rows = _with_subscriptions(rows, session, controls, overview)
    rows = _with_spared(rows, session, controls)
    late_ns = expiry_allowance_ms * 10**6
    return rows.selectExpr(*_NUMBERS, _flags(late_ns))


def _with_transactions(rows: DataFrame, events: DataFrame, overview: Overview) -> DataFrame:
    if not overview.has_transactions:
        return rows.selectExpr(
            "*",
            "false AS is_sure",
            "NOT is_branch AS is_never",
            "CAST(NULL AS BIGINT) AS commit_t0",
            "CAST(NULL AS BIGINT) AS commit_t1",
            "CAST(NULL AS INT) AS commit_at",
            "CAST(NULL AS INT) AS commit_at_too",
        )
    keyed = rows.selectExpr("* EXCEPT (tx_key)", "IF(has_tx, tx_key, k) AS tx_key")  # no key has too many rows
    joined = keyed.join(transaction_ends(events), "tx_key", "left")
    return joined.selectExpr(
        "* EXCEPT (is_sure, is_never)",
        "coalesce(is_sure, false) AS is_sure",
        "coalesce(is_never, NOT is_branch) AS is_never",  # nobody ended it
    )


def _with_subscriptions(
    rows: DataFrame, session: SparkSession, controls: Mapping[str, Control], overview: Overview
) -> DataFrame:
    """Give each message of a topic a row for each subscription that may get it."""
    windows = [row for h, control in controls.items() for row in _windows(h, control)] if overview.has_topics else []
    if not windows:
        return rows.selectExpr("* EXCEPT (ds)", "ds", "false AS is_expected")
    names = "h STRING, dest STRING, sub STRING, since BIGINT, until BIGINT, begun BIGINT, ended BIGINT"
    table = session.createDataFrame(windows, names).selectExpr(
        "xxhash64(h, dest) AS topic", "xxhash64(dest, sub) AS channel", "since", "until", "begun", "ended"
    )
    shown = "IF(has_tx, coalesce(commit_t1, t1), t1)"
    joined = rows.alias("r").join(
        table.alias("w").hint("broadcast"),
        expr(f"r.topic = w.topic AND r.t0 <= w.until AND coalesce({shown}, {_FOREVER_NS}) >= w.since"),
        "left",
    )
    return joined.selectExpr(
        "r.* EXCEPT (ds)",
        "coalesce(w.channel, r.ds) AS ds",
        f"coalesce(w.begun < r.t0 AND coalesce({shown}, 0) < w.ended, false) AS is_expected",
    )


def _windows(h: str, control: Control) -> list[tuple[object, ...]]:
    """Return, for each subscription, when it may have got messages, and when it should have got them."""
    due = {life.channel: (life.begun.t1, _FOREVER_NS if life.end is None else life.end.t0) for life in control.lives()}
    found: list[tuple[object, ...]] = []
    for dest, sub, made in control.subscriptions():
        is_durable = any('"durable":true' in (each.note or "").replace(" ", "") for each in made)
        ends = [control.last_close_ns(each.consumer, each.sess, each.conn) for each in made]
        until = max((_FOREVER_NS if end is None else end + _SLACK_NS for end in ends), default=_FOREVER_NS)
        since = min(each.t0 for each in made) - _SLACK_NS
        begun, ended = due.get((dest, sub), (None, None))  # type: ignore[call-overload]  # a channel is such a pair
        found.append((h, dest, sub, since, _FOREVER_NS if is_durable else until, begun, ended))
    return found


def _with_spared(rows: DataFrame, session: SparkSession, controls: Mapping[str, Control]) -> DataFrame:
    """Mark the deliveries of consumers that want no messages of their own connections."""
    spared = [(h, consumer) for h, control in controls.items() for consumer in control.without_local()]
    if not spared:
        return rows.selectExpr("*", "false AS is_spared")
    table = session.createDataFrame(spared, "h STRING, consumer STRING").selectExpr(
        "xxhash64(h, consumer) AS who", "true AS is_spared"
    )
    joined = rows.join(table.distinct().hint("broadcast"), "who", "left")
    return joined.selectExpr("* EXCEPT (is_spared)", "op = 'deliver' AND is_spared IS NOT NULL AS is_spared")


_IS_FRESH = "op = 'deliver' AND NOT coalesce(redelivered, false)"
_NUMBERS = (
    "k",
    "ds",
    "op",
    f"{_IS_FRESH} AS is_fresh",
    (
        f"CASE op WHEN 'send' THEN {_ONE_SEND}L WHEN 'deliver' THEN {_ONE_DELIVERY}L + IF({_IS_FRESH}, {_ONE_FRESH}L, 0L) "
        f"WHEN 'browse' THEN {_ONE_SIGHT}L ELSE {_ONE_SETTLEMENT}L END AS counted"
    ),
    "IF(op IN ('send', 'deliver', 'browse'), at, NULL) AS at",
    "IF(op IN ('send', 'deliver', 'browse'), at_key, NULL) AS at_key",
    "IF(op = 'send', t0, IF(op IN ('deliver', 'browse'), t1, NULL)) AS moment",
    "IF(op = 'send' AND has_tx, commit_t0, NULL) AS commit_t0",
    "IF(has_sha AND op IN ('send', 'deliver', 'browse'), sha_key, NULL) AS sha_key",
    "IF(op IN ('deliver', 'ack', 'recover'), handle, 0L) AS handle",
    "who",
    "number",
    "pm",
    "conn_key",
    "is_spared",
)


def _flags(late_ns: int) -> str:
    """Return the column of bits."""
    bits = {
        _REFUSED: "op = 'send' AND ok = 'fail'",
        _SURE: "op = 'send' AND ok = 'ok' AND (NOT has_tx OR is_sure) AND NOT is_temporary "
        "AND (topic IS NULL OR is_expected)",
        _UNCOMMITTED: "op = 'send' AND has_tx AND is_never",
        _LATE: f"op = 'deliver' AND coalesce(exp, 0L) <> 0 AND t0 - exp * 1000000L > {late_ns}L",
        _ODD: "op = 'recover' OR (op = 'ack' AND has_note)",
        _CONSUMED: "op = 'ack' AND ok <> 'fail' AND NOT has_note AND (NOT has_tx OR NOT is_never)",
        _COMMIT_ELSEWHERE: "op = 'send' AND has_tx AND (commit_at <> at OR commit_at_too <> at)",
        _SPARED: "is_spared",
    }
    return " | ".join(f"IF({condition}, {bit}, 0)" for bit, condition in bits.items()) + " AS bits"


_AGGREGATES = (
    "sum(counted) AS counted",
    "bit_or(bits) AS bits",
    "min(sha_key) AS sha_one",
    "max(sha_key) AS sha_two",
    "bit_xor(handle) AS handle",
    "min(at_key) AS at_one",
    "max(at_key) AS at_two",
    "max(IF(op = 'send', moment, NULL)) AS sent_t0",
    "min(IF(op <> 'send', moment, NULL)) AS seen_t1",
    "max(commit_t0) AS commit_t0",
    "max(IF(op = 'send', who, NULL)) AS sender",
    "max(IF(is_fresh, who, NULL)) AS consumer",
    "max(IF(op = 'send', number, NULL)) AS sn",
    "max(IF(is_fresh, number, NULL)) AS dn",
    "max(IF(op = 'send', pm, NULL)) AS sent_pm",
    "max(IF(is_fresh, pm, NULL)) AS pm",
    "max(IF(op = 'send', conn_key, NULL)) AS sent_by",
    "max(IF(is_spared, conn_key, NULL)) AS spared",
)
_COUNTS = tuple(
    f"CAST(shiftright(counted, {12 * place}) & {_BITS if name != 'sights' else 0xFFFF} AS INT) AS {name}"
    for place, name in enumerate(("sends", "deliveries", "settlements", "fresh", "sights"))
)
_IS_EARLY = (
    "coalesce(IF(at_one = at_two OR (sights > 0 AND deliveries > 0), seen_t1 < sent_t0 OR seen_t1 < commit_t0, "
    f"seen_t1 + IF(bits & {_COMMIT_ELSEWHERE} <> 0, 0, {_ANOTHER_NODE_NS}L) < commit_t0 "
    f"OR (sights > 0 AND seen_t1 + {_ANOTHER_NODE_NS}L < sent_t0)), false)"
)
_IS_USUAL_LIFE = f"""
    sends = 1 AND bits & {_REFUSED | _UNCOMMITTED | _LATE | _ODD} = CASE
        WHEN deliveries = 0 AND sights = 0 THEN bits & {_REFUSED | _UNCOMMITTED} ELSE 0 END
    AND sha_one <=> sha_two AND NOT {_IS_EARLY} AND NOT coalesce(sent_by = spared, false)
    AND CASE
        WHEN deliveries = 0 THEN settlements = 0 AND bits & {_SURE} = 0
        WHEN deliveries = 1 AND fresh = 1 THEN bits & {_SURE} = 0
            OR (settlements = 1 AND handle = 0 AND bits & {_CONSUMED} <> 0)
        ELSE false END
"""
_HAS_ORDER = "sends = 1 AND fresh = 1 AND sn IS NOT NULL"
_IS_AHEAD = "sends = 1 AND deliveries = 1 AND sights = 0 AND at_one <> at_two AND seen_t1 < sent_t0"
_JUDGED = (
    f"IF({_IS_USUAL_LIFE}, NULL, k) AS suspect",
    f"IF({_HAS_ORDER}, xxhash64(consumer, sender, coalesce(pm, sent_pm)), NULL) AS stream",
    "consumer",
    "dn",
    "sn",
    f"IF(NOT ({_HAS_ORDER}) AND fresh = 1, consumer, NULL) AS strange",
    f"IF({_IS_AHEAD}, sent_t0 - seen_t1, 0L) AS lag_ns",
    f"IF({_IS_AHEAD}, at_one ^ at_two, NULL) AS lag_pair",
)


def _block(size: int) -> str:
    return f"IF({_HAS_ORDER}, dn DIV {size}, 0L) AS block"

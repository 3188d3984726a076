"""Screening: which messages may break a rule, found with one pass over the history.

All events of a message in a channel (a queue, or a subscription of a topic) become one row of numbers: strings are
replaced by 64-bit digests, conditions are bits. A message is cleared when its row shows the usual life: sent once,
delivered once, settled once, in time; or requeued in between, and redelivered with the flag. Every other message is a
*suspect*, and judged later. Where two messages share a digest, both are suspects.

Order is screened in the same pass. The numbers of a stream must rise over the deliveries of a consumer. The deliveries are cut into
blocks, so that no group is too large for one task: within a block each number is compared with the one before it, between blocks the blocks'
least and greatest numbers (`ordering.broken_streams`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyjms.history.events import BRANCH
from pyjms.spark.checker.control import Control, Overview
from pyjms.spark.checker.expressions import expr, expressions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BLOCK = 1 << 20
"""The number of deliveries to a consumer that one task examines."""

MESSAGE = "xxhash64(h, mid)"
"""The digest that identifies a message."""

_FOREVER_NS = (1 << 63) - 1
_SLACK_NS = 10**9
_ANOTHER_NODE_NS = 10**8  # Facts allows at least this difference between clocks

# The bits of a row
(_REFUSED, _SURE, _UNCOMMITTED, _LATE, _ODD, _CONSUMED, _GIVEN_BACK, _COMMIT_ELSEWHERE) = (1 << bit for bit in range(8))
_FRESH, _SPARED = 1 << 8, 1 << 9
_ALL_BITS = (1 << 10) - 1

# The kind of an event, as a number, in a row above its bits: the kinds that show a message first; above it priority and
# mode
_SEND, _DELIVER, _BROWSE, _ACK, _RECOVER = range(1, 6)
_DONE_AT, _PM_AT = 10, 13

_IS_KNOWN = 1 << 10  # added to priority and mode, so that none is 0
_OF_DELIVERY = 1 << 12  # added to priority and mode from a delivery: then those of the send do not count
_TO_ALL = 1 << 20  # up to this number of transactions, of a hundred bytes each, is broadcast to all executors

# Counters of 12 bits each; one that overflows changes the next, which is then no usual life either
_ONE_SEND, _ONE_DELIVERY, _ONE_SETTLEMENT, _ONE_FRESH, _ONE_SIGHT = (1 << 12 * place for place in range(5))
_BITS = 0xFFF


def transaction_ends(events: DataFrame) -> DataFrame:
    """Return the facts about each local or distributed transaction that was ended."""
    ends = events.where("op IN ('commit', 'rollback') AND tx IS NOT NULL").selectExpr(
        "xxhash64(h, tx) AS tx_key",
        "op = 'commit' AS is_commit",
        f"op = 'rollback' AND ok = 'ok' AND tx LIKE '{BRANCH}%' AS is_taken_back",
        "ok",
        "t0",
        "t1",
        "xxhash64(h, node) AS at",
    )
    return ends.groupBy("tx_key").agg(
        *expressions(
            "bool_or(is_commit AND ok = 'ok') AS is_sure",
            "CASE WHEN bool_or(is_commit AND ok = 'ok') THEN false WHEN bool_or(is_taken_back) THEN true "
            "WHEN bool_or(is_commit AND ok = 'unknown') THEN false WHEN bool_or(is_commit) THEN true WHEN bool_or(ok <> 'ok') THEN false ELSE true END AS is_never",
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
    block: int,
) -> DataFrame:
    """Return the results of screening, which are few rows: suspects (`suspect`: the digest), streams by block, and
    differences of clocks.

    Columns: suspect, stream, consumer, block, is_broken, least, most, lag_pair, lag_ns, `strange` (the consumer of a
    delivery whose order could not be checked here), `is_several` (several deliveries of a message had no redelivered
    flag).
    """
    rows = _messages(events, controls, overview, expiry_allowance_ms)
    # Each message has about three rows: combining a task's rows before the shuffle takes longer than sending them.
    rows = rows.repartition("k").selectExpr("*", *_UNPACKED)
    by_message = rows.groupBy("k", "ds").agg(*expressions(*_AGGREGATES))
    has_spared = any(control.without_local() for control in controls.values())
    judged = by_message.selectExpr("*", *_COUNTS).selectExpr(
        *_judged(overview.has_one_clock, has_spared), _block(block)
    )
    # Messages that are cleared and belong to no stream are dropped here.
    kept = judged.where("suspect IS NOT NULL OR stream IS NOT NULL OR lag_ns > 0")
    has_blocks = any(each.most_dn >= block for each in overview.readers)
    return _by_block(kept) if has_blocks or not overview.has_one_clock else _by_message(kept)


# Numbers rise if and only if none is less than the one before it. Of deliveries with one number the order is not known: they count as broken.
_IS_LESS = "coalesce(sn < lag(sn) OVER (PARTITION BY {} ORDER BY dn, sn DESC), false) AS is_broken"


def _by_message(kept: DataFrame) -> DataFrame:
    """Return the results if no consumer has more than one block and there is one clock: then streams in order need no
    rows.
    """
    seen = kept.selectExpr(
        "coalesce(stream, suspect) AS key", "suspect", "consumer", "dn", "sn", "strange", "is_several"
    )
    found = seen.selectExpr("*", _IS_LESS.format("key")).where("is_broken OR suspect IS NOT NULL")
    return found.selectExpr(
        "suspect", "IF(sn IS NULL, NULL, key) AS stream", "consumer", "0L AS block", "is_broken", "sn AS least", "sn AS most",
        "CAST(NULL AS BIGINT) AS lag_pair", "0L AS lag_ns", "strange", "is_several",
    )  # fmt: skip


def _by_block(kept: DataFrame) -> DataFrame:
    seen = kept.selectExpr("*", "coalesce(stream, suspect, lag_pair) AS key").selectExpr(
        "*", _IS_LESS.format("key, block")
    )
    blocks = seen.groupBy("key", "block", "suspect", "lag_pair", "strange").agg(
        *expressions(
            "bool_or(is_broken) AS is_broken",
            "bool_or(is_several) AS is_several",
            "min(sn) AS least",
            "max(sn) AS most",
            "max(consumer) AS consumer",
            "max(lag_ns) AS lag_ns",
        )
    )
    return blocks.selectExpr("* EXCEPT (key)", "IF(most IS NULL, NULL, key) AS stream")


# Rows of numbers


def _messages(
    events: DataFrame, controls: Mapping[str, Control], overview: Overview, expiry_allowance_ms: int
) -> DataFrame:
    session = events.sparkSession
    is_topic = "NOT (dest LIKE 'queue://%' OR dest LIKE 'temp-queue://%')" if overview.has_topics else "false"
    read = events.where("mid IS NOT NULL AND op IN ('send', 'deliver', 'ack', 'recover', 'browse')").selectExpr(
        f"CASE op WHEN 'send' THEN {_SEND} WHEN 'deliver' THEN {_DELIVER} WHEN 'browse' THEN {_BROWSE} "
        f"WHEN 'ack' THEN {_ACK} ELSE {_RECOVER} END AS o",
        "*",
    )
    rows = read.selectExpr(
        f"{MESSAGE} AS k",
        "xxhash64(dest, sub) AS ds",
        "o",
        "ok",
        "t0",
        "t1",
        # Only events that show a message need their node: it decides whether two clocks are compared.
        f"IF(o <= {_BROWSE}, xxhash64(h, node), NULL) AS at",
        f"IF(o = {_SEND}, xxhash64(h, dest, sess), xxhash64(h, consumer)) AS who",
        "xxhash64(h, conn) AS conn_key",
        f"IF(o = {_SEND}, sn, dn) AS number",
        f"CAST(prio AS INT) * 4 + mode + {_IS_KNOWN} AS pm",
        f"o = {_DELIVER} AND NOT coalesce(redelivered, false) AS is_fresh",
        "exp",
        # An acknowledgement has no body to compare.
        f"IF(sha IS NOT NULL AND o <= {_BROWSE}, xxhash64(sha), NULL) AS sha_key",
        "note IS NOT NULL AS has_note",
        f"tx IS NOT NULL AND o IN ({_SEND}, {_ACK}) AS has_tx",
        "coalesce(tx LIKE 'xa:%', false) AS is_branch",
        "IF(tx IS NULL, NULL, xxhash64(h, tx)) AS tx_key",
        f"IF(o = {_SEND} AND {is_topic}, xxhash64(h, dest), NULL) AS topic",
        "coalesce(dest LIKE 'temp-%', true) AS is_temporary",
    )
    rows = _with_transactions(rows, events, overview)
    rows = _with_subscriptions(rows, session, controls, overview)
    rows = _with_spared(rows, session, controls)
    late_ns = expiry_allowance_ms * 10**6
    return rows.selectExpr("*", _flags(late_ns, overview.has_one_clock)).selectExpr(*_packed(overview.has_one_clock))


def _with_transactions(rows: DataFrame, events: DataFrame, overview: Overview) -> DataFrame:
    if not overview.transactions:
        return rows.selectExpr(
            "*",
            "false AS is_sure",
            # As below for transactions that were not ended: here none was ended.
            "NOT is_branch AS is_never",
            "CAST(NULL AS BIGINT) AS commit_t0",
            "CAST(NULL AS BIGINT) AS commit_t1",
            "CAST(NULL AS BIGINT) AS commit_at",
            "CAST(NULL AS BIGINT) AS commit_at_too",
        )
    keyed = rows.selectExpr("* EXCEPT (tx_key)", "IF(has_tx, tx_key, k) AS tx_key")  # no key has too many rows
    ends = transaction_ends(events)
    if overview.transactions <= _TO_ALL:
        # A left join with a broadcast keeps the partitions of the events; a shuffle would move all of them once more.
        ends = ends.hint("broadcast")
    return keyed.join(ends, "tx_key", "left").selectExpr(
        "* EXCEPT (is_sure, is_never)",
        "coalesce(is_sure, false) AS is_sure",
        # A branch that was not ended may be prepared and committed later; local
        # work that was not ended never becomes visible.
        "coalesce(is_never, NOT is_branch) AS is_never",  # no event ends it
    )


def _with_subscriptions(
    rows: DataFrame, session: SparkSession, controls: Mapping[str, Control], overview: Overview
) -> DataFrame:
    """Give each message of a topic a row for each subscription that may receive it."""
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
    """Return, for each subscription, the period in which it may have received messages, and that in which it should
    have received them.
    """
    due = {life.channel: (life.begun.t1, _FOREVER_NS if life.end is None else life.end.t0) for life in control.lives()}
    found: list[tuple[object, ...]] = []
    for dest, sub, made in control.subscriptions():
        is_durable = any('"durable":true' in (each.note or "").replace(" ", "") for each in made)
        ends = [control.last_close_ns(each.consumer, each.sess, each.conn) for each in made]
        until = max((_FOREVER_NS if end is None else end + _SLACK_NS for end in ends), default=_FOREVER_NS)
        # A second more on both sides, as clocks may differ: a row too many costs
        # little, a delivery without its send is a suspect.
        since = min(each.t0 for each in made) - _SLACK_NS
        begun, ended = due.get((dest, sub), (None, None))  # type: ignore[call-overload]  # a channel is such a pair
        found.append((h, dest, sub, since, _FOREVER_NS if is_durable else until, begun, ended))
    return found


def _with_spared(rows: DataFrame, session: SparkSession, controls: Mapping[str, Control]) -> DataFrame:
    """Mark the deliveries of noLocal consumers."""
    spared = [(h, consumer) for h, control in controls.items() for consumer in control.without_local()]
    if not spared:
        return rows.selectExpr("*", "false AS is_spared")
    table = session.createDataFrame(spared, "h STRING, consumer STRING").selectExpr(
        "xxhash64(h, consumer) AS who", "true AS is_spared"
    )
    joined = rows.join(table.distinct().hint("broadcast"), "who", "left")
    return joined.selectExpr("* EXCEPT (is_spared)", f"o = {_DELIVER} AND is_spared IS NOT NULL AS is_spared")


def _flags(late_ns: int, has_one_clock: bool) -> str:
    """Return the column of bits."""
    bits = {
        _REFUSED: f"o = {_SEND} AND ok = 'fail'",
        _SURE: f"o = {_SEND} AND ok = 'ok' AND (NOT has_tx OR is_sure) AND NOT is_temporary "
        "AND (topic IS NULL OR is_expected)",
        _UNCOMMITTED: f"o = {_SEND} AND has_tx AND is_never",
        _LATE: f"o = {_DELIVER} AND coalesce(exp, 0L) <> 0 AND t0 - exp * 1000000L > {late_ns}L",
        _ODD: f"o IN ({_ACK}, {_RECOVER}) AND has_note",
        _GIVEN_BACK: f"o = {_RECOVER}",
        _CONSUMED: f"o = {_ACK} AND ok <> 'fail' AND NOT has_note AND (NOT has_tx OR NOT is_never)",
    }
    if not has_one_clock:
        bits[_COMMIT_ELSEWHERE] = f"o = {_SEND} AND has_tx AND (commit_at <> at OR commit_at_too <> at)"
    return " | ".join(f"IF({condition}, {bit}, 0)" for bit, condition in bits.items()) + " AS bits"


def _packed(has_one_clock: bool) -> tuple[str, ...]:
    """Return the columns that go through the shuffle: few, as these are most of its work, so one serves sends and deliveries.

    has_one_clock: a send and its commit can be compared, so the message may be visible from the later of both on.
    """
    commit_t0 = f"IF(o = {_SEND} AND has_tx, commit_t0, NULL)"
    sent_t0 = f"greatest(t0, {commit_t0})" if has_one_clock else "t0"
    pm = f"coalesce(CASE WHEN o = {_SEND} THEN pm WHEN is_fresh THEN pm + {_OF_DELIVERY} END, 0)"
    bits = ("bits", f"IF(is_fresh, {_FRESH}, 0)", f"IF(is_spared, {_SPARED}, 0)")
    signs = (*bits, f"shiftleft(o, {_DONE_AT})", f"shiftleft({pm}, {_PM_AT})")
    return (
        "k",
        "ds",
        f"{' | '.join(signs)} AS signs",
        f"CASE WHEN o = {_SEND} THEN {sent_t0} WHEN o <= {_BROWSE} THEN t1 ELSE least(t0, commit_t0) END AS moment",
        f"{commit_t0} AS commit_t0",
        "who",
        "number",
        "sha_key",
        "at",
        f"IF(o = {_SEND} OR is_spared, conn_key, NULL) AS conn_key",
    )


_DONE = f"(shiftright(signs, {_DONE_AT}) & 7)"
_UNPACKED = (
    f"{_DONE} AS o",
    f"shiftright(signs, {_PM_AT}) AS pm",
    f"signs & {_FRESH} <> 0 AS is_fresh",
    f"signs & {_SPARED} <> 0 AS is_spared",
    f"IF({_DONE} IN ({_DELIVER}, {_ACK}, {_RECOVER}), xxhash64(who, number), 0L) AS handle",
)
_AGGREGATES = (
    (
        f"sum(CASE o WHEN {_SEND} THEN {_ONE_SEND}L WHEN {_DELIVER} THEN {_ONE_DELIVERY}L + IF(is_fresh, {_ONE_FRESH}L, 0L) "
        f"WHEN {_BROWSE} THEN {_ONE_SIGHT}L ELSE {_ONE_SETTLEMENT}L END) AS counted"
    ),
    f"bit_or(signs & {_ALL_BITS}) AS bits",
    # The least and the greatest digest are equal only if all are: a count of
    # distinct values would need a second shuffle.
    "min(sha_key) AS sha_one",
    "max(sha_key) AS sha_two",
    # XOR of the handles: equal sums say that the same deliveries were settled, without collecting them.
    f"bit_xor(IF(o = {_DELIVER}, handle, 0L)) AS held",
    f"bit_xor(IF(o = {_DELIVER}, 0L, handle)) AS settled",
    f"bit_xor(IF(is_fresh OR o = {_RECOVER}, handle, 0L)) AS back",
    f"max(IF(o = {_RECOVER}, moment, NULL)) AS back_t0",
    f"min(IF(o = {_DELIVER} AND NOT is_fresh, moment, NULL)) AS again_t1",
    f"min(IF(o = {_ACK}, moment, NULL)) AS settled_t0",
    "min(at) AS at_one",
    "max(at) AS at_two",
    f"max(IF(o = {_SEND}, moment, NULL)) AS sent_t0",
    f"min(IF(o IN ({_DELIVER}, {_BROWSE}), moment, NULL)) AS seen_t1",
    "max(commit_t0) AS commit_t0",
    f"max(IF(o = {_SEND}, who, NULL)) AS sender",
    "max(IF(is_fresh, who, NULL)) AS consumer",
    # `max` of a value that only one row has is that value; with two sends the message is a suspect anyway.
    f"max(IF(o = {_SEND}, number, NULL)) AS sn",
    "max(IF(is_fresh, coalesce(number, 0L), NULL)) AS dn",
    "max(pm) AS pm",
    f"max(IF(o = {_SEND}, conn_key, NULL)) AS sent_by",
    "max(IF(is_spared, conn_key, NULL)) AS spared",
)
_COUNTS = tuple(
    f"CAST(shiftright(counted, {12 * place}) & {_BITS if name != 'sights' else 0xFFFF} AS INT) AS {name}"
    for place, name in enumerate(("sends", "deliveries", "settlements", "fresh", "sights"))
)
_HAS_ORDER = "sends = 1 AND fresh = 1 AND sn IS NOT NULL"


def _judged(has_one_clock: bool, has_spared: bool) -> tuple[str, ...]:
    """Return the verdict on each message.

    has_one_clock: each history was recorded on one node. has_spared: there is a noLocal consumer. If not, Spark leaves
    out the aggregations for it.
    """
    is_early = "coalesce(seen_t1 < sent_t0, false)"
    if not has_one_clock:
        is_early = (
            "coalesce(IF(at_one = at_two OR (sights > 0 AND deliveries > 0), seen_t1 < sent_t0 OR seen_t1 < commit_t0, "
            f"seen_t1 + IF(bits & {_COMMIT_ELSEWHERE} <> 0, 0, {_ANOTHER_NODE_NS}L) < commit_t0 "
            f"OR (sights > 0 AND seen_t1 + {_ANOTHER_NODE_NS}L < sent_t0)), false)"
        )
    is_own = "coalesce(sent_by = spared, false)" if has_spared else "false"
    is_usual_life = f"""
        sends = 1 AND bits & {_REFUSED | _UNCOMMITTED | _LATE | _ODD} = CASE
            WHEN deliveries = 0 AND sights = 0 THEN bits & {_REFUSED | _UNCOMMITTED} ELSE 0 END
        AND sha_one <=> sha_two AND NOT {is_early} AND NOT {is_own}
        AND CASE
            WHEN deliveries = 0 THEN settlements = 0 AND bits & {_SURE} = 0
            WHEN deliveries = 1 AND fresh = 1 THEN bits & {_GIVEN_BACK} = 0 AND (bits & {_SURE} = 0
                OR (settlements = 1 AND held = settled AND bits & {_CONSUMED} <> 0))
            ELSE {_came_again(has_one_clock, has_spared)} END
    """
    is_ahead = "sends = 1 AND deliveries = 1 AND sights = 0 AND at_one <> at_two AND seen_t1 < sent_t0"
    if has_one_clock:
        is_ahead = "false"
    return (
        f"IF({is_usual_life}, NULL, k) AS suspect",
        f"IF({_HAS_ORDER}, xxhash64(consumer, sender, pm & {_OF_DELIVERY - 1}), NULL) AS stream",
        "consumer",
        "dn",
        f"IF({_HAS_ORDER}, sn, NULL) AS sn",
        f"IF(NOT ({_HAS_ORDER}) AND fresh = 1, consumer, NULL) AS strange",
        "fresh > 1 AS is_several",
        f"IF({is_ahead}, sent_t0 - seen_t1, 0L) AS lag_ns",
        f"IF({is_ahead}, at_one ^ at_two, NULL) AS lag_pair",
    )


def _came_again(has_one_clock: bool, has_spared: bool) -> str:
    """Return the condition that a message was delivered, requeued, delivered again and consumed, in this order by any
    clock.

    The second delivery has the flag, otherwise `again_t1` is NULL; and an earlier one has not, otherwise the second is
    the first time it was seen.
    """
    is_each_once = f"deliveries = 2 AND settlements = 2 AND bits & {_GIVEN_BACK} <> 0 AND bits & {_CONSUMED} <> 0"
    # The first delivery is requeued; the second, a different one, is consumed.
    is_each_its_own = "held = settled AND back = 0 AND held <> 0"
    in_order = "seen_t1 < again_t1 AND back_t0 <= again_t1 AND again_t1 <= settled_t0"
    conditions = [is_each_once, is_each_its_own, in_order, "sights = 0"]
    conditions += [] if has_one_clock else ["seen_t1 >= sent_t0 AND seen_t1 >= coalesce(commit_t0, sent_t0)"]
    conditions += ["spared IS NULL"] if has_spared else []
    return f"coalesce({' AND '.join(conditions)}, false)"


def _block(size: int) -> str:
    return f"IF({_HAS_ORDER}, dn DIV {size}, 0L) AS block"

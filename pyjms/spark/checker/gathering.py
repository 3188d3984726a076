"""Gathering: each suspect together with all events that its judgement needs.

A case is what has the same `g`: rows with `kind` and `role` (see `judging`), `h`, and the columns of an event.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyjms.history.events import COLUMNS
from pyjms.history.facts import BRANCH
from pyjms.spark.checker.control import Control
from pyjms.spark.checker.expressions import expr
from pyjms.spark.checker.judging import MESSAGES, NAMELESS, OWN, WITNESS
from pyjms.spark.checker.screening import MESSAGE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["ends_of", "lags_between", "latest_in", "messages", "nameless", "proofs_for", "strangers"]

_CASE = ("g", "kind", "role", "h", *(f"`{name}`" for name in COLUMNS))
_EVENT = f"struct({', '.join(f'`{name}`' for name in COLUMNS)})"
_ALLOWANCE_NS = 10**8
_ROUND_TRIP = (
    "ok = 'ok' AND conn IS NOT NULL AND NOT coalesce(mode = 1, false) AND "
    "op IN ('send', 'commit', 'rollback', 'ack', 'recover', 'subscribe', 'unsubscribe', 'close')"
)


def messages(events: DataFrame, suspects: DataFrame) -> DataFrame:
    """Return a case for each message in `suspects` (`k`): its own events."""
    found = events.where("mid IS NOT NULL").selectExpr(f"{MESSAGE} AS g", "*")
    found = found.join(suspects.withColumnRenamed("k", "g"), "g", "left_semi")
    return found.selectExpr("g", f"{MESSAGES} AS kind", f"{OWN} AS role", *_CASE[3:])


def nameless(events: DataFrame, condition: str) -> DataFrame:
    """Return a case for each delivery without an id for which `condition` holds."""
    found = events.where(f"op = 'deliver' AND mid IS NULL AND ({condition})")
    return found.selectExpr(
        "xxhash64(h, consumer, dn, t0, 'nameless') AS g", f"{NAMELESS} AS kind", f"{OWN} AS role", *_CASE[3:]
    )


def strangers(events: DataFrame, own: DataFrame) -> DataFrame:
    """Return settlements of deliveries in `own` that name another message, or none."""
    held = own.where("op = 'deliver'").selectExpr(
        "g", "kind", "xxhash64(h, consumer, dn) AS handle", "xxhash64(h, mid) AS k"
    )
    settled = events.where("op IN ('ack', 'recover')").selectExpr(
        "xxhash64(h, consumer, dn) AS handle", "xxhash64(h, mid) AS its", *_CASE[3:]
    )
    joined = settled.join(held.distinct(), "handle").where("NOT (its <=> k)")
    return joined.selectExpr("g", "kind", f"{WITNESS} AS role", *_CASE[3:])


def ends_of(events: DataFrame, cases: DataFrame) -> DataFrame:
    """Return the commits and rollbacks of all transactions in `cases`."""
    wanted = cases.where("tx IS NOT NULL").selectExpr("g", "kind", "xxhash64(h, tx) AS tx_key").distinct()
    ends = events.where("op IN ('commit', 'rollback') AND tx IS NOT NULL").selectExpr(
        "xxhash64(h, tx) AS tx_key", *_CASE[3:]
    )
    return ends.join(wanted, "tx_key").selectExpr("g", "kind", f"{WITNESS} AS role", *_CASE[3:])


def lags_between(own: DataFrame) -> DataFrame:
    """Return by how much deliveries in `own` seem to have come before their sends, by history and pair of nodes."""
    sent = own.where("op = 'send'").selectExpr("g", "h", "mid", "node AS one", "t0 AS sent_t0")
    come = own.where("op = 'deliver' AND t1 IS NOT NULL").selectExpr("g", "h", "mid", "node AS two", "t1 AS come_t1")
    both = sent.join(come, ["g", "h", "mid"]).where("one <> two AND come_t1 < sent_t0")
    pair = both.selectExpr("h", "least(one, two) AS one", "greatest(one, two) AS two", "sent_t0 - come_t1 AS lag_ns")
    return pair.groupBy("h", "one", "two").agg({"lag_ns": "max"}).withColumnRenamed("max(lag_ns)", "lag_ns")


def proofs_for(events: DataFrame, own: DataFrame, controls: Mapping[str, Control]) -> DataFrame:
    """Return, for deliveries of messages that were delivered more than once, what shows that connections lived on.

    That is, for the connection of each delivery and the end of each delivery: the first answer of the broker after it.
    """
    come = own.where("op = 'deliver' AND conn IS NOT NULL").selectExpr(
        "g", "kind", "h", "dest", "sub", "conn", "node", "t0", "t1"
    )
    held = come.selectExpr("g", "kind", "h", "dest", "sub", "conn", "node", "t0 AS held_t0")
    after = come.where("t1 IS NOT NULL").selectExpr(
        "g", "h", "dest", "sub", "node AS its_node", "t0 AS its_t0", "t1 AS its_t1"
    )
    pairs = (
        held.alias("a")
        .join(
            after.alias("b"),
            expr("a.g = b.g AND a.h = b.h AND a.dest <=> b.dest AND a.sub <=> b.sub AND held_t0 <= its_t0"),
        )
        .selectExpr("a.g AS g", "kind", "a.h AS h", "conn", "node", "its_node", "its_t1")
    )
    lags = _lag_table(own, controls)
    asked = (
        pairs.join(lags.hint("broadcast"), ["h", "node", "its_node"], "left")
        .selectExpr(
            "g",
            "kind",
            "h",
            "conn",
            f"its_t1 + IF(node = its_node, 0L, {_ALLOWANCE_NS}L + coalesce(lag_ns, 0L)) AS t",
        )
        .distinct()
    )
    answers = events.where(_ROUND_TRIP).join(asked.select("h", "conn").distinct(), ["h", "conn"], "left_semi")
    both = asked.selectExpr("h", "conn", "t", "0 AS is_answer", "0L AS place", "g", "kind", "NULL AS event").unionByName(
        answers.selectExpr(
            "h", "conn", "t0 AS t", "1 AS is_answer", "-coalesce(n, 0L) AS place", "0L AS g", "0 AS kind", f"{_EVENT} AS event"
        )
    )  # fmt: skip
    # from the end backwards: the last answer met is the first one after the question
    next_one = (
        "last(event, true) OVER (PARTITION BY h, conn ORDER BY t DESC, is_answer, place ROWS BETWEEN UNBOUNDED "
        "PRECEDING AND CURRENT ROW)"
    )
    found = both.selectExpr("*", f"{next_one} AS proof").where("is_answer = 0 AND proof IS NOT NULL")
    return found.selectExpr("g", "kind", f"{WITNESS} AS role", "h", "proof.*")


def _lag_table(own: DataFrame, controls: Mapping[str, Control]) -> DataFrame:
    rows = [
        (h, one, two, lag)
        for h, control in controls.items()
        for pair, lag in control.lags.items()
        for one, two in (sorted(pair), sorted(pair, reverse=True))
    ]
    return own.sparkSession.createDataFrame(rows, "h STRING, node STRING, its_node STRING, lag_ns BIGINT")


def latest_in(events: DataFrame, own: DataFrame, controls: Mapping[str, Control]) -> DataFrame:
    """Return, for messages of topics that a subscription may have skipped, the last that it got of each stream.

    Both its send and its first delivery; the reference compares with them.
    """
    bounds = own.sparkSession.createDataFrame(
        [row for h, control in controls.items() for row in _bounds(h, control)],
        "h STRING, dest STRING, sub STRING, node STRING, before_ns BIGINT",
    )
    sent = own.where("op = 'send' AND kind = 0").selectExpr("g", "h", "mid", "dest", "sess")
    got = own.where("op = 'deliver'").selectExpr("g", "h", "mid", "dest", "sub")
    skipped = (
        sent.join(bounds.select("h", "dest", "sub").distinct().hint("broadcast"), ["h", "dest"])
        .join(got, ["g", "h", "mid", "dest", "sub"], "left_anti")
        .select("g", "h", "dest", "sub", "sess")
        .cache()
    )
    wanted = skipped.select("h", "dest", "sub", "sess").distinct()
    first = (
        events.where("op = 'deliver' AND mid IS NOT NULL AND dest IS NOT NULL")
        .join(wanted.select("h", "dest", "sub").distinct().hint("broadcast"), ["h", "dest", "sub"], "left_semi")
        .groupBy("h", "dest", "sub", "mid")
        .agg(expr(f"min_by({_EVENT}, struct(t0, coalesce(n, 0L))) AS come"))
    )
    lasts = first.selectExpr("*", "come.node AS node").join(bounds.hint("broadcast"), ["h", "dest", "sub", "node"])
    lasts = lasts.where("before_ns IS NULL OR (come.t1 IS NOT NULL AND come.t1 < before_ns)").drop("node", "before_ns")
    sends = (
        events.where(f"op = 'send' AND mid IS NOT NULL AND NOT coalesce(tx LIKE '{BRANCH}%', false)")
        .join(wanted.select("h", "dest", "sess").distinct().hint("broadcast"), ["h", "dest", "sess"], "left_semi")
        .groupBy("h", "mid")
        .agg(expr(f"max({_EVENT}) AS sent"), expr("count(*) AS sends"))
        .where(
            "sends = 1 AND sent.sn IS NOT NULL AND "
            "coalesce(get_json_object(sent.note, '$.scheduled'), 'false') = 'false'"
        )
    )
    streams = lasts.join(sends, ["h", "mid"]).selectExpr(
        "h", "dest", "sub", "sent.sess AS sess", "coalesce(come.prio, sent.prio) AS prio",
        "coalesce(come.mode, sent.mode) AS mode", "come", "sent",
    )  # fmt: skip
    best = streams.groupBy("h", "dest", "sub", "sess", "prio", "mode").agg(
        expr("max_by(struct(come, sent), struct(sent.sn, -come.t0)) AS best")
    )
    found = skipped.join(best, ["h", "dest", "sub", "sess"])
    return found.selectExpr(
        "g", f"{MESSAGES} AS kind", "h", "explode(array(best.come, best.sent)) AS event"
    ).selectExpr("g", "kind", f"{WITNESS} AS role", "h", "event.*")


def _bounds(h: str, control: Control) -> list[tuple[object, ...]]:
    """Return until when deliveries on each node surely belong to the life of each subscription; None: always."""
    facts = control.facts
    found: list[tuple[object, ...]] = []
    nodes: Sequence[str] = sorted(control.nodes)
    for life in control.lives():
        ends = [] if life.end is None else [life.end]
        if not life.is_durable:
            ends += facts.troubles(life.begun)
        for node in nodes:
            limits = [end.t0 - facts.allowance_ns(node, end.node) for end in ends]
            found.append((h, life.channel.dest, life.channel.sub, node, min(limits, default=None)))
    return found

"""Gathering: each suspect together with all events that its judgement needs.

A case is what has the same `g`: rows with `kind` and `role` (see `judging`), `h`, and the columns of an event.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyjms.history.events import BRANCH, COLUMNS
from pyjms.spark.checker.control import Control
from pyjms.spark.checker.expressions import expr, kept, small
from pyjms.spark.checker.judging import MESSAGES, NAMELESS, OWN, WITNESS
from pyjms.spark.checker.screening import MESSAGE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CASE_EVENT = ("h", *(f"`{name}`" for name in COLUMNS))
"""The columns of an event, in a case."""

_EVENT = f"struct({', '.join(f'`{name}`' for name in COLUMNS)})"
_FEW_QUESTIONS = 1_000
ENDS = "(op IN ('commit', 'rollback'))"
_SETTLES_OR_ENDS = f"op IN ('ack', 'recover') OR ({ENDS} AND tx IS NOT NULL)"
ROUND_TRIP = (
    "ok = 'ok' AND conn IS NOT NULL AND NOT coalesce(mode = 1, false) AND "
    "op IN ('send', 'commit', 'rollback', 'ack', 'recover', 'subscribe', 'unsubscribe', 'close')"
)


def gathered(events: DataFrame, wanted: DataFrame) -> DataFrame:
    """Return all events of the messages in `wanted` (`k`, the digest), and `k`."""
    found = events.where("mid IS NOT NULL").selectExpr(f"{MESSAGE} AS k", "*")
    return found.join(wanted, "k", "left_semi")


def messages(found: DataFrame) -> DataFrame:
    """Return a case for each message of which `gathered` found the events."""
    return found.selectExpr("k AS g", f"{MESSAGES} AS kind", f"{OWN} AS role", *CASE_EVENT)


def nameless(events: DataFrame, condition: str) -> DataFrame:
    """Return a case for each delivery without an id for which `condition` holds."""
    found = events.where(f"op = 'deliver' AND mid IS NULL AND ({condition})")
    return found.selectExpr(
        "xxhash64(h, consumer, dn, t0, 'nameless') AS g", f"{NAMELESS} AS kind", f"{OWN} AS role", *CASE_EVENT
    )


def settled_and_ended(events: DataFrame, own: DataFrame, number: int) -> DataFrame:
    """Return, in one pass, what else belongs to cases: the ends of the transactions in `own`, and settlements of its
    deliveries that name another message, or none. Some come several times. `number`: of messages.
    """
    held = own.where("op = 'deliver'").selectExpr(
        "g", "kind", "false AS is_end", "xxhash64(h, consumer, dn) AS key", "xxhash64(h, mid) AS k"
    )
    begun = own.where("tx IS NOT NULL").selectExpr("g", "kind", "true", "xxhash64(h, tx)", "NULL")
    wanted = held.union(begun)
    rows = events.where(_SETTLES_OR_ENDS).selectExpr(
        f"{ENDS} AS ends",
        f"IF({ENDS}, xxhash64(h, tx), xxhash64(h, consumer, dn)) AS key",
        "xxhash64(h, mid) AS its",
        *CASE_EVENT,
    )
    joined = rows.join(small(wanted, number), "key").where("is_end = ends AND (ends OR NOT (its <=> k))")
    return joined.selectExpr("g", "kind", f"{WITNESS} AS role", *CASE_EVENT)


def ends_of(events: DataFrame, cases: DataFrame, number: int) -> DataFrame:
    """Return the commits and rollbacks of all transactions in `cases`; `number`: of messages."""
    wanted = cases.where("tx IS NOT NULL").selectExpr("g", "kind", "xxhash64(h, tx) AS tx_key").distinct()
    ends = events.where(f"{ENDS} AND tx IS NOT NULL").selectExpr("xxhash64(h, tx) AS tx_key", *CASE_EVENT)
    return ends.join(small(wanted, number), "tx_key").selectExpr("g", "kind", f"{WITNESS} AS role", *CASE_EVENT)


def lags_between(own: DataFrame) -> DataFrame:
    """Return by how much deliveries in `own` seem to have come before their sends, by history and pair of nodes."""
    sent = own.where("op = 'send'").selectExpr("g", "h", "mid", "node AS one", "t0 AS sent_t0")
    come = own.where("op = 'deliver' AND t1 IS NOT NULL").selectExpr("g", "h", "mid", "node AS two", "t1 AS come_t1")
    both = sent.join(come, ["g", "h", "mid"]).where("one <> two AND come_t1 < sent_t0")
    pair = both.selectExpr("h", "least(one, two) AS one", "greatest(one, two) AS two", "sent_t0 - come_t1 AS lag_ns")
    return pair.groupBy("h", "one", "two").agg({"lag_ns": "max"}).withColumnRenamed("max(lag_ns)", "lag_ns")


def proofs_for(events: DataFrame, asked: DataFrame, number: int) -> DataFrame:
    """Return what shows that connections lived on: their broker's first answer after each moment in `asked`.

    asked: g, kind, h, conn, t; `number`: how many rows it has. Few questions are put to each answer; many are sorted together with the answers.
    """
    questions = asked.selectExpr("xxhash64(h, conn) AS line", "t").distinct()
    answers = events.where(ROUND_TRIP).selectExpr("xxhash64(h, conn) AS line", "t0", "coalesce(n, 0L) AS n")
    found = _first_after(questions, answers) if number <= _FEW_QUESTIONS else _first_by_sorting(questions, answers)
    wanted = (
        asked.selectExpr("g", "kind", "xxhash64(h, conn) AS line", "t")
        .join(found.selectExpr("line", "t", "proof.t0 AS proof_t0", "proof.n AS proof_n"), ["line", "t"])
        .select("g", "kind", "line", "proof_t0", "proof_n")
        .distinct()
    )
    whole = events.where(ROUND_TRIP).selectExpr(
        "xxhash64(h, conn) AS line", "t0 AS proof_t0", "coalesce(n, 0L) AS proof_n", *CASE_EVENT
    )
    joined = whole.join(small(wanted, number), ["line", "proof_t0", "proof_n"])
    return joined.selectExpr("g", "kind", f"{WITNESS} AS role", *CASE_EVENT)


def first_answers(
    events: DataFrame, asked: Collection[tuple[str, str, int]]
) -> dict[tuple[str, str, int], dict[str, Any]]:
    """Return, for a few questions (history, connection, moment), the broker's first answer after the moment."""
    questions = events.sparkSession.createDataFrame(sorted(asked), "h STRING, conn STRING, t BIGINT")
    questions = questions.selectExpr("xxhash64(h, conn) AS line", "t")
    later = events.where(ROUND_TRIP).selectExpr("xxhash64(h, conn) AS line", "t0")
    first = later.join(questions.hint("broadcast"), "line").where("t0 > t").groupBy("line", "t").agg({"t0": "min"})
    firsts = first.selectExpr("line", "t", "`min(t0)` AS first_t0").hint("broadcast")
    # found by their time alone, as that is a number; written so that Spark does not look for both
    joined = events.where(ROUND_TRIP).join(firsts, expr("t0 = first_t0 AND (xxhash64(h, conn) ^ line) = 0"))
    joined = joined.select("t", *CASE_EVENT)
    found: dict[tuple[str, str, int], dict[str, Any]] = {}
    for row in joined.toArrow().to_pylist():
        key = row["h"], row["conn"], row["t"]
        if key not in found or (row["n"] or 0) < (found[key]["n"] or 0):
            found[key] = row
    return found


def _first_after(questions: DataFrame, answers: DataFrame) -> DataFrame:
    later = answers.join(questions.hint("broadcast"), "line").where("t0 > t")
    return later.groupBy("line", "t").agg(expr("min(struct(t0, n)) AS proof"))


def _first_by_sorting(questions: DataFrame, answers: DataFrame) -> DataFrame:
    answers = answers.join(questions.select("line").distinct(), "line", "left_semi")
    both = questions.selectExpr("line", "t", "NULL AS answer", "0 AS is_answer", "0L AS place").unionByName(
        answers.selectExpr("line", "t0 AS t", "struct(t0, n) AS answer", "1 AS is_answer", "-n AS place")
    )
    # from the end backwards: the last answer met is the first one after the question
    first = (
        "last(answer, true) OVER (PARTITION BY line ORDER BY t DESC, is_answer, place ROWS BETWEEN UNBOUNDED "
        "PRECEDING AND CURRENT ROW)"
    )
    return both.selectExpr("*", f"{first} AS proof").where("is_answer = 0 AND proof IS NOT NULL")


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
    skipped = kept(
        sent.join(bounds.select("h", "dest", "sub").distinct().hint("broadcast"), ["h", "dest"])
        .join(got, ["g", "h", "mid", "dest", "sub"], "left_anti")
        .select("g", "h", "dest", "sub", "sess")
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

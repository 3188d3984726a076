"""Gathering: each suspect together with all events that its judgement needs.

A case is all rows with the same `g`: they have `kind` and `role` (see `judging`), `h`, and the columns of an event.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from pyjms.history.events import ACK, BRANCH, COLUMNS, DELIVER, RECOVER, SEND
from pyjms.spark.checker.control import Control
from pyjms.spark.checker.expressions import expr, kept, small
from pyjms.spark.checker.judging import MESSAGES, NAMELESS, OWN, PRIORITY, WITNESS, Judging
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
    """Return a case for each delivery that has no id and fulfils `condition`."""
    found = events.where(f"op = 'deliver' AND mid IS NULL AND ({condition})")
    return found.selectExpr(
        "xxhash64(h, consumer, dn, t0, 'nameless') AS g", f"{NAMELESS} AS kind", f"{OWN} AS role", *CASE_EVENT
    )


def settled_and_ended(events: DataFrame, own: DataFrame, number: int) -> DataFrame:
    """Return, in one pass, the other events of cases: the ends of the transactions in `own`, and settlements of its
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
    # One join for both: a key of one kind cannot match a row of the other, as `is_end` is compared.
    joined = rows.join(small(wanted, number), "key").where("is_end = ends AND (ends OR NOT (its <=> k))")
    return joined.selectExpr("g", "kind", f"{WITNESS} AS role", *CASE_EVENT)


def ends_of(events: DataFrame, cases: DataFrame, number: int) -> DataFrame:
    """Return the commits and rollbacks of all transactions in `cases`; `number`: of messages."""
    wanted = cases.where("tx IS NOT NULL").selectExpr("g", "kind", "xxhash64(h, tx) AS tx_key").distinct()
    ends = events.where(f"{ENDS} AND tx IS NOT NULL").selectExpr("xxhash64(h, tx) AS tx_key", *CASE_EVENT)
    return ends.join(small(wanted, number), "tx_key").selectExpr("g", "kind", f"{WITNESS} AS role", *CASE_EVENT)


def lags_between(own: DataFrame) -> DataFrame:
    """Return by how much deliveries in `own` seem to precede their sends, by history and pair of nodes."""
    sent = own.where("op = 'send'").selectExpr("g", "h", "mid", "node AS one", "t0 AS sent_t0")
    come = own.where("op = 'deliver' AND t1 IS NOT NULL").selectExpr("g", "h", "mid", "node AS two", "t1 AS come_t1")
    both = sent.join(come, ["g", "h", "mid"]).where("one <> two AND come_t1 < sent_t0")
    # A pair of nodes is one row, whichever of them sent: a lag counts in both directions.
    pair = both.selectExpr("h", "least(one, two) AS one", "greatest(one, two) AS two", "sent_t0 - come_t1 AS lag_ns")
    return pair.groupBy("h", "one", "two").agg({"lag_ns": "max"}).withColumnRenamed("max(lag_ns)", "lag_ns")


def proofs_for(events: DataFrame, asked: DataFrame, number: int) -> DataFrame:
    """Return proofs that connections were alive: their broker's first answer after each moment in `asked`.

    asked: g, kind, h, conn, t; `number`: how many rows it has. Few questions are put to each answer; many are sorted together with the answers.
    """
    questions = asked.selectExpr("xxhash64(h, conn) AS line", "t").distinct()
    answers = events.where(ROUND_TRIP).selectExpr("xxhash64(h, conn) AS line", "t0", "coalesce(n, 0L) AS n")
    # With few questions a broadcast join is cheap; many questions would each be paired with all later answers of their
    # connection.
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
    # written so that Spark joins by the time alone, which is a number, and not by time and connection
    joined = events.where(ROUND_TRIP).join(firsts, expr("t0 = first_t0 AND (xxhash64(h, conn) ^ line) = 0"))
    joined = joined.select("t", *CASE_EVENT)
    found: dict[tuple[str, str, int], dict[str, Any]] = {}
    for row in joined.toArrow().to_pylist():
        key = row["h"], row["conn"], row["t"]
        # Several answers may have one time stamp: the recorder's number decides, as in the reference.
        if key not in found or (row["n"] or 0) < (found[key]["n"] or 0):
            found[key] = row
    return found


def _first_after(questions: DataFrame, answers: DataFrame) -> DataFrame:
    later = answers.join(questions.hint("broadcast"), "line").where("t0 > t")
    return later.groupBy("line", "t").agg(expr("min(struct(t0, n)) AS proof"))


def _first_by_sorting(questions: DataFrame, answers: DataFrame) -> DataFrame:
    # Connections without a question are left out before the sort, which is the costly step.
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
    """Return, for messages of topics that a subscription may have skipped, the last message of each stream that it
    received.

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
    """Return the time up to which deliveries on each node certainly belong to the life of each subscription; None:
    always.
    """
    facts = control.facts
    found: list[tuple[object, ...]] = []
    nodes: Sequence[str] = sorted(control.nodes)
    for life in control.lives():
        ends = [] if life.end is None else [life.end]
        if not life.is_durable:
            ends += facts.troubles(life.begun)
        for node in nodes:
            # The clocks of the two nodes may differ, so a delivery counts only if it precedes the end by more than
            # that.
            limits = [end.t0 - facts.allowance_ns(node, end.node) for end in ends]
            found.append((h, life.channel.dest, life.channel.sub, node, min(limits, default=None)))
    return found


Case: TypeAlias = tuple[int, int, str]
"""The columns that identify a case: g, kind, h."""

Row: TypeAlias = dict[str, Any]

WINDOWS = 32
"""The maximum number of proofs for which the second pass looks; each makes its condition longer."""

_MOST_ROWS = 20_000  # of each task of the second pass, if it has windows
_PLACE = (1 << 33) - 1  # of a row in its task, in what `monotonically_increasing_id` gives


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The period in which to look for a connection's first answer after a moment."""

    h: str
    conn: str
    line: int
    """The digest of both."""
    t: int
    until: int

    @property
    def question(self) -> tuple[str, str, int]:
        """The question of a case that this window answers."""
        return self.h, self.conn, self.t


def gathered_here(events: DataFrame, wanted: Iterable[int]) -> list[Row]:
    """Return all events of the messages in `wanted` (digests), with the digests by which other events belong to them."""
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
    """Return the proofs of life that cases request: history, connection, moment."""
    return {(case[2], each["conn"], each["t"]) for case, its in said.items() for each in its["asked"]}


@dataclass(slots=True)
class Cases:
    """The rows of all cases, which `pyjms.spark.checker.judging.Judging` takes."""

    rows: dict[Case, list[Row]] = field(default_factory=lambda: defaultdict(list))
    _changed: dict[Case, None] = field(default_factory=dict)  # since they were judged

    def said(self, judging: Judging, *, has_proofs: bool = False) -> dict[Case, Row]:
        """Judge the cases that have changed since the last judgement."""
        # Read before judging and cleared: cases to which rows are added afterwards are judged again.
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
        """Add the rows of cases that Spark assembled."""
        for row in frame.toArrow().to_pylist():
            self.add(row, (row["g"], row["kind"], row["h"]), row["role"])

    def add_proofs(self, said: Mapping[Case, Row], proofs: Mapping[tuple[str, str, int], Row]) -> None:
        """Add the proofs of life that cases requested; cases without an answer are judged again, too."""
        for case, its in said.items():
            # A case that requested a proof is judged once more even without an answer: only then are its findings told.
            for each in its["asked"]:
                self._changed[case] = None
                proof = proofs.get((case[2], each["conn"], each["t"]))
                if proof is not None:
                    self.add(proof, case, WITNESS)

    def add_messages(self, found: Iterable[Row], suspects: Collection[int]) -> None:
        """Make a case of each suspect from the result of `gathered_here`."""
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
        """Yield by how much deliveries seem to precede their sends, as `lags_between` does."""
        for (_, kind, h), its in self.rows.items():
            sends = [row for row in its if row["op"] == SEND and kind == MESSAGES]
            for come in its:
                if come["op"] == DELIVER and come["t1"] is not None:
                    for sent in sends:
                        if sent["node"] != come["node"] and come["t1"] < sent["t0"] and sent["mid"] == come["mid"]:
                            one, two = sorted((sent["node"], come["node"]))
                            yield {"h": h, "one": one, "two": two, "lag_ns": sent["t0"] - come["t1"]}

    def lines(self) -> dict[tuple[str, str], int]:
        """Return the digests of all connections known here."""
        return {
            (row["h"], row["conn"]): row["line"]
            for its in self.rows.values()
            for row in its
            if row["conn"] is not None and "line" in row
        }

    def add_around(self, events: DataFrame, windows: Sequence[Window]) -> dict[tuple[str, str, int], Row]:
        """Add the settlements of the suspects' deliveries that name another message, or none, and the ends of their
        transactions.

        Return the proofs found in the windows.
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
    """Return the events that have one of `keys`, and those in the windows if the total is not too large; otherwise only
    the former.
    """
    known = _keys(events, "key", keys).withColumn("is_known", expr("true"))
    key = (
        f"CASE WHEN {ENDS} THEN xxhash64(h, tx) WHEN op IN ('ack', 'recover') THEN xxhash64(h, consumer, dn) END AS key"
    )
    # Times first, as Spark does not read the names of rows that an earlier condition has excluded
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
    # A task was cut off and may have lost settlements as well, so the pass is made again without windows.
    if any(row["place"] == _MOST_ROWS for row in came if windows):
        return _around(events, keys, ())
    return came


def _keys(events: DataFrame, name: str, keys: Iterable[int]) -> DataFrame:
    """Return digests as a table for a broadcast."""
    table = pa.table({name: pa.array(keys, pa.int64())})
    return events.sparkSession.createDataFrame(table).hint("broadcast")


def _answers(rows: Iterable[Row], windows: Sequence[Window]) -> dict[tuple[str, str, int], Row]:
    """Return the first answer in each window that contains one."""
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

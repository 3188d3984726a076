"""The checker on Spark: a history in, findings out, as `pyjms.history.check` finds them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pyjms.history.checks.filters import missed_selector
from pyjms.history.events import COLUMNS, DELIVER, OK, Event
from pyjms.history.facts import Options
from pyjms.history.findings import Finding, Report, finding
from pyjms.history.rules import RULES, Verdict
from pyjms.spark.checker.control import Control, Overview, control_of, overview_of
from pyjms.spark.checker.expressions import arrow_function, expr, kept, small
from pyjms.spark.checker.gathering import (
    ends_of,
    lags_between,
    latest_in,
    messages,
    nameless,
    proofs_for,
    strangers,
)
from pyjms.spark.checker.judging import FINDING_SCHEMA, judge
from pyjms.spark.checker.ordering import broken_streams, overtaken, overtaken_urgent
from pyjms.spark.checker.reading import Recorded
from pyjms.spark.checker.screening import BLOCK, MESSAGE, screen

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Audit", "audit"]

LISTED = 100
"""So many findings of each rule come to the driver; all are counted, and all are in `Audit.findings`."""

_ROWS_A_PART = 500_000
_EVENT = f"struct({', '.join(f'`{name}`' for name in COLUMNS)})"
_EVENTS = f"collect_list(struct(kind, role, h, {', '.join(f'`{name}`' for name in COLUMNS)})) AS events"


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What was found."""

    findings: DataFrame
    """All findings, one row each, with the columns of `pyjms.spark.checker.judging.FINDING_SCHEMA`."""
    counts: Mapping[str, int]
    """How often each rule was found, the worst first."""
    report: Report
    """The worst findings of each rule, as the reference has them."""
    suspects: int
    """How many messages had to be judged one by one."""

    @property
    def verdict(self) -> Verdict:
        """The worst verdict; information when nothing was found."""
        return self.report.verdict


def audit(
    recorded: Recorded,
    *,
    complete: bool = False,
    expiry_allowance_ms: int = 1000,
    without: Iterable[str] = (),
    listed: int = LISTED,
    block: int = BLOCK,
) -> Audit:
    """Judge a history by every rule of `pyjms.history.rules`; the arguments are those of `pyjms.history.check`.

    listed: how many findings of each rule the report lists; all are in `Audit.findings`.
    block: how many deliveries of one consumer a task sorts, at most.
    Raises `HistoryError` for what is no history.
    """
    options = Options(complete=complete, expiry_allowance_ms=expiry_allowance_ms)
    found, overview, suspects = _Auditor(recorded.events, options, frozenset(without), block).findings()
    place = "row_number() OVER (PARTITION BY rule ORDER BY at, mid) AS place"
    rows = found.selectExpr("*", place, "count(*) OVER (PARTITION BY rule) AS total").where(f"place <= {listed}")
    listing = rows.toArrow().to_pylist()
    numbers = {row["rule"]: row["total"] for row in listing}
    if recorded.cut_off:
        numbers["cut-off"] = len(recorded.cut_off)
    return Audit(
        findings=found,
        counts={rule: numbers[rule] for rule in sorted(numbers, key=lambda rule: -RULES[rule].verdict.rank)},
        report=_report(listing, recorded.cut_off, overview.events),
        suspects=suspects,
    )


def _report(rows: Iterable[Mapping[str, Any]], cut_off: Iterable[str], events: int) -> Report:
    listing = [finding_of(row) for row in rows]
    listing.sort(key=lambda each: (-each.verdict.rank, each.events[-1].t0))
    cut = [finding("cut-off", (), mid=None, dest=None, pid=pid) for pid in cut_off]
    report = Report(findings=(*listing, *cut), events=events)
    return report.softened() if cut else report


def finding_of(row: Mapping[str, Any]) -> Finding:
    """Return the finding that a row of `Audit.findings` is."""
    return Finding(
        rule=row["rule"],
        verdict=RULES[row["rule"]].verdict,
        text=row["text"],
        mid=row["mid"],
        dest=row["dest"],
        events=tuple(Event(*values) for values in json.loads(row["witness"])),
    )


class _Auditor:
    def __init__(self, events: DataFrame, options: Options, left_out: frozenset[str], block: int) -> None:
        self._events = events
        self._block = block
        self._options = options
        self._left_out = left_out
        self._session = events.sparkSession
        self._overview: Overview = overview_of(events)
        self._controls: Mapping[str, Control] = control_of(events, self._overview)
        least = self._session.sparkContext.defaultParallelism
        self._parts = max(least, -(-self._overview.events // _ROWS_A_PART))

    def findings(self) -> tuple[DataFrame, Overview, int]:
        screened = kept(
            screen(
                self._events,
                self._controls,
                self._overview,
                expiry_allowance_ms=self._options.expiry_allowance_ms,
                parts=self._parts,
                block=self._block,
            )
        )
        closed = self._closed()
        suspects = screened.where("suspect IS NOT NULL").selectExpr("suspect AS k")
        for more in (closed, self._missed()):
            suspects = suspects if more is None else suspects.union(more.where("k IS NOT NULL"))
        suspects = kept(suspects.distinct())
        number = suspects.count()
        own = kept(messages(self._events, small(suspects, number)))
        self._calibrate(screened, own)
        cases = self._cases(own, number) if number else own
        for more in (self._order_cases(screened, own), self._priority_cases(), self._nameless_cases()):
            cases = cases if more is None else cases.unionByName(more)
        return kept(self._put_together(self._judged(cases))), self._overview, number

    def _judged(self, cases: DataFrame) -> DataFrame:
        """Return all findings; cases that ask for proofs are judged again with them."""
        whole = cases.repartition(self._parts, "g").groupBy("g", "kind", "h").agg(expr(_EVENTS))
        first = kept(self._judge(whole, has_proofs=False))
        found = first.selectExpr("inline(judged.told)")
        open_cases = first.where("size(judged.asked) > 0")
        if not open_cases.head(1):
            return found
        asked = open_cases.selectExpr("g", "kind", "h", "inline(judged.asked)")
        proofs = proofs_for(self._events, asked, asked.count())
        again = open_cases.selectExpr("g", "inline(events)").select(*cases.columns).unionByName(proofs)
        second = self._judge(again.groupBy("g", "kind", "h").agg(expr(_EVENTS)), has_proofs=True)
        return found.unionByName(second.selectExpr("inline(judged.told)"))

    def _judge(self, whole: DataFrame, *, has_proofs: bool) -> DataFrame:
        work = judge(self._controls, self._options, self._left_out, has_proofs=has_proofs)
        return whole.withColumn("judged", work("events"))

    def _calibrate(self, screened: DataFrame, own: DataFrame) -> None:
        """Find out how far the clocks of nodes are apart."""
        lags: Mapping[str, dict[frozenset[str], int]] = defaultdict(dict)
        pairs = [
            (h, one, two) for h, nodes in self._overview.nodes.items() for one in nodes for two in nodes if one < two
        ]
        if pairs:
            table = self._session.createDataFrame(pairs, "h STRING, one STRING, two STRING")
            table = table.selectExpr("*", "xxhash64(h, one) ^ xxhash64(h, two) AS lag_pair")
            seen = screened.where("lag_ns > 0").groupBy("lag_pair").agg({"lag_ns": "max"})
            usual = seen.join(table.hint("broadcast"), "lag_pair").selectExpr(
                "h", "one", "two", "`max(lag_ns)` AS lag_ns"
            )
            for row in usual.unionByName(lags_between(own)).toArrow().to_pylist():
                pair = frozenset((row["one"], row["two"]))
                lags[row["h"]][pair] = max(lags[row["h"]].get(pair, 0), row["lag_ns"])
        for h, control in self._controls.items():
            control.calibrate(lags.get(h, {}))

    # Cases

    def _cases(self, own: DataFrame, number: int) -> DataFrame:
        strange = kept(strangers(self._events, own, number))
        cases = own.unionByName(strange)
        cases = cases.unionByName(ends_of(self._events, cases, number))
        if any(True for control in self._controls.values() for _ in control.lives()):
            cases = cases.unionByName(kept(latest_in(self._events, own, self._controls)))
        return cases

    def _order_cases(self, screened: DataFrame, own: DataFrame) -> DataFrame | None:
        fresh = own.where("op = 'deliver' AND NOT coalesce(redelivered, false) AND consumer IS NOT NULL")
        several = "count(*) OVER (PARTITION BY g, h, mid, dest, sub) > 1 AS is_one_of_several"
        more = fresh.selectExpr("xxhash64(h, consumer) AS consumer", several).where("is_one_of_several")
        strange = screened.where("strange IS NOT NULL").selectExpr("strange AS consumer")
        consumers = kept(broken_streams(screened).union(more.select("consumer")).union(strange).distinct())
        return kept(overtaken(self._events, consumers, self._block)) if consumers.head(1) else None

    def _priority_cases(self) -> DataFrame | None:
        names = [(each.h, each.consumer) for each in self._overview.readers if each.has_priorities and each.consumer]
        if not names:
            return None
        table = self._session.createDataFrame(names, "h STRING, consumer STRING")
        consumers = table.selectExpr("xxhash64(h, consumer) AS consumer").distinct()
        cases = kept(overtaken_urgent(self._events, consumers, self._block))
        return cases.unionByName(ends_of(self._events, cases.where("op = 'send'"), cases.count()))

    def _nameless_cases(self) -> DataFrame | None:
        if not self._overview.has_nameless:
            return None
        late_ns = self._options.expiry_allowance_ms * 10**6
        late = f"(coalesce(exp, 0L) <> 0 AND t0 - exp * 1000000L > {late_ns}L)"
        bound = self._bounds()
        cases = nameless(self._events, f"""{late} OR note LIKE '%"selector"%'""")
        if bound is None:
            return cases
        after = self._events.join(bound.hint("broadcast"), _same_place(self._events, bound), "left_semi")
        return cases.unionByName(nameless(after, f"""NOT ({late} OR coalesce(note LIKE '%"selector"%', false))"""))

    # Suspects that no aggregation shows

    def _bounds(self) -> DataFrame | None:
        """Return the consumers that got something after what they came through had ended, and when it had."""
        found = []
        for each in self._overview.readers:
            control = self._controls[each.h]
            ends = (control.first_close_ns(each.consumer, each.sess, each.conn), control.first_unsubscribe_ns(each.sub))
            end = min((end for end in ends if end is not None), default=None)
            if end is not None and end < each.last_t0:
                found.append((each.h, each.consumer, each.sess, each.conn, each.sub, end))
        names = "h STRING, consumer STRING, sess STRING, conn STRING, sub STRING, end_ns BIGINT"
        return self._session.createDataFrame(found, names) if found else None

    def _closed(self) -> DataFrame | None:
        bound = self._bounds()
        if bound is None:
            return None
        late = self._events.where("op = 'deliver'")
        late = late.join(bound.hint("broadcast"), _same_place(late, bound), "left_semi")
        return late.selectExpr(f"IF(mid IS NULL, NULL, {MESSAGE}) AS k")

    def _missed(self) -> DataFrame | None:
        if not self._overview.has_selectors:
            return None
        rows = self._events.where("""op = 'deliver' AND mid IS NOT NULL AND note LIKE '%"selector"%'""")
        read = rows.selectExpr(f"{MESSAGE} AS k", "struct(mid, mode, prio, exp, note) AS delivery")
        return read.where(arrow_function(_is_missed, "boolean")("delivery")).select("k")

    # The end

    def _put_together(self, judged: DataFrame) -> DataFrame:
        """Count what is told once for a whole destination, and add what is no matter of single messages."""
        found = judged.where("rule <> 'unaccounted'")
        open_ends = judged.where("rule = 'unaccounted'").groupBy("h", "dest").agg(
            expr("count(*) AS number"), expr("min_by(struct(*), struct(at, first_n)) AS first")
        )  # fmt: skip
        text = f"'{RULES['unaccounted'].text}'"
        for name, value in (("number", "number"), ("dest", "dest"), ("mid", "first.mid")):
            text = f"replace({text}, '{{{name}}}', CAST({value} AS STRING))"
        whole = ("h", "first.rule", f"{text} AS text", "first.mid", "dest", "number", "first.at", "first.first_n")
        found = found.union(open_ends.selectExpr(*whole, "first.witness"))
        if self._overview.has_nameless and "without-id" not in self._left_out:
            told = pa.Table.from_pylist(list(self._without_id()))
            found = found.union(self._session.createDataFrame(told, FINDING_SCHEMA))
        return found

    def _without_id(self) -> Iterator[dict[str, Any]]:
        rows = self._events.where("op = 'deliver' AND mid IS NULL").groupBy("h", "dest").agg(
            expr("count(*) AS number"), expr(f"min_by({_EVENT}, struct(t0, coalesce(n, 0L))) AS first")
        )  # fmt: skip
        for row in rows.toArrow().to_pylist():
            event = Event(*row["first"].values())
            found = finding("without-id", [event], mid=None, dest=row["dest"], number=row["number"])
            yield {
                "h": row["h"],
                "rule": found.rule,
                "text": found.text,
                "mid": None,
                "dest": row["dest"],
                "number": row["number"],
                "at": event.t0,
                "first_n": event.n,
                "witness": json.dumps([list(row["first"].values())]),
            }


def _same_place(rows: DataFrame, bound: DataFrame) -> Any:
    """Return the condition that a delivery came through a place, after its end."""
    names = ("h", "consumer", "sess", "conn", "sub")
    condition = rows["t0"] > bound["end_ns"]
    for name in names:
        condition &= rows[name].eqNullSafe(bound[name])
    return condition


def _is_missed(deliveries: pa.Array) -> pa.Array:
    """Say of each delivery whether it does not match its consumer's selector."""
    return pa.array([missed_selector(_delivery(row.as_py())) is not None for row in deliveries], pa.bool_())


def _delivery(row: Mapping[str, Any]) -> Event:
    names = ("mid", "mode", "prio", "exp", "note")
    return Event("", "", "", None, None, None, DELIVER, OK, 0, 0, **{name: row[name] for name in names})

"""The checker on Spark: a history in, findings out, as `pyjms.history.check` finds them."""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pyjms.history.check import check_clocks, missed_selector
from pyjms.history.events import COLUMNS, DELIVER, OK, Event
from pyjms.history.facts import Options
from pyjms.history.findings import Finding, Report, finding
from pyjms.history.rules import RULES, Verdict
from pyjms.spark.checker.control import Control, Overview, control_of, control_rows, overview_of
from pyjms.spark.checker.expressions import arrow_function, cut_into, expr, kept, small, union_of
from pyjms.spark.checker.gathering import (
    WINDOWS,
    Cases,
    Window,
    asked_in,
    ends_of,
    first_answers,
    gathered,
    gathered_here,
    lags_between,
    latest_in,
    messages,
    nameless,
    proofs_for,
    settled_and_ended,
)
from pyjms.spark.checker.judging import FINDING_SCHEMA, PRIORITY, Judging, table_of_cases, table_of_findings
from pyjms.spark.checker.ordering import (
    Marks,
    marks_of,
    messages_of,
    overtaken,
    overtaken_urgent,
    pair_cases,
    several_consumers,
)
from pyjms.spark.checker.reading import EVENT_SCHEMA, Recorded
from pyjms.spark.checker.screening import BLOCK, MESSAGE, screen
from pyjms.spark.options import OptionError
from pyjms.spark.places import are_within

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


LISTED = 100
"""The number of findings of each rule that come to the driver; all are counted, and all are in `Audit.findings`."""

FEW = 20_000
"""The number of messages that the driver alone judges in a few seconds."""

_IN_A_WINDOW = 10_000
"""The number of events of all connections within the time of one answer, if they are evenly spread."""

_ROWS_A_PART = 500_000
_EVENT = f"struct({', '.join(f'`{name}`' for name in COLUMNS)})"
_EVENTS = f"collect_list(struct(kind, role, h, {', '.join(f'`{name}`' for name in COLUMNS)})) AS events"


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """The result of an audit."""

    findings: DataFrame
    """All findings, one row each, with the columns of `pyjms.spark.checker.judging.FINDING_SCHEMA`."""
    counts: Mapping[str, int]
    """The number of findings of each rule, the worst first."""
    report: Report
    """The worst findings of each rule, in the reference's form."""
    suspects: int
    """The number of messages that were judged one by one."""

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
    few: int = FEW,
) -> Audit:
    """Judge a history by every rule of `pyjms.history.rules`; the arguments are those of `pyjms.history.check`.

    listed: how many findings of each rule the report lists; all are in `Audit.findings`.
    block: how many deliveries of one consumer a task sorts, at most.
    few: up to so many messages are judged one by one here, more of them on the executors.
    Raises `HistoryError` for what is no history.
    """
    options = Options(complete=complete, expiry_allowance_ms=expiry_allowance_ms)
    auditor = _Auditor(recorded.events, options, frozenset(without), block, few)
    found, rows = auditor.findings()
    listing, numbers = _listed(found, listed) if rows is None else _listed_here(rows, listed)
    # Clock events are control events and are at the driver already, so they need no pass of Spark.
    stepped = auditor.stepped()
    if stepped and "clock-stepped" not in auditor.left_out:
        numbers["clock-stepped"] = sum(map(len, stepped.values()))
    if recorded.cut_off:
        numbers["cut-off"] = len(recorded.cut_off)
    return Audit(
        findings=found,
        counts={rule: numbers[rule] for rule in sorted(numbers, key=lambda rule: -RULES[rule].verdict.rank)},
        report=_report(listing, recorded.cut_off, stepped, auditor),
        suspects=auditor.suspects,
    )


def _listed(found: DataFrame, most: int) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Return the first findings of each rule, and how many there are."""
    place = "row_number() OVER (PARTITION BY rule ORDER BY at, mid) AS place"
    rows = found.selectExpr("*", place, "count(*) OVER (PARTITION BY rule) AS total").where(f"place <= {most}")
    listing = rows.toArrow().to_pylist()
    return listing, {row["rule"]: row["total"] for row in listing}


def _listed_here(rows: list[dict[str, Any]], most: int) -> tuple[list[dict[str, Any]], dict[str, int]]:
    by_rule: Mapping[str, list[dict[str, Any]]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: (row["at"], row["mid"] or "")):
        by_rule[row["rule"]].append(row)
    return [row for its in by_rule.values() for row in its[:most]], {rule: len(its) for rule, its in by_rule.items()}


def _report(
    rows: Iterable[Mapping[str, Any]],
    cut_off: Iterable[str],
    stepped: Mapping[str, Sequence[Finding]],
    auditor: _Auditor,
) -> Report:
    listing = [(row["h"], finding_of(row)) for row in rows]
    if "clock-stepped" not in auditor.left_out:
        listing += [(h, each) for h, its in stepped.items() for each in its]
    listing.sort(key=lambda each: (-each[1].verdict.rank, each[1].events[-1].t0))
    # A clock that was set back may have made any finding of its history.
    told = [each.softened() if h in stepped else each for h, each in listing]
    cut = [finding("cut-off", (), mid=None, dest=None, pid=pid) for pid in cut_off]
    report = Report(findings=(*told, *cut), events=auditor.overview.events)
    # A recording that breaks off lacks events of unknown messages, so no finding is certain.
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
    def __init__(self, events: DataFrame, options: Options, left_out: frozenset[str], block: int, few: int) -> None:
        self._events = events
        self._block = block
        self._few = few
        self._options = options
        self.left_out = left_out
        self._session = events.sparkSession
        least = self._session.sparkContext.defaultParallelism
        # Few partitions for the overview: it groups to some hundred rows, and the number of events is not known yet.
        with cut_into(self._session, least):
            control = control_rows(events)
            self.overview: Overview = overview_of(events, control)
            self._controls: Mapping[str, Control] = control_of(events, control, self.overview)
        self.suspects = 0
        # At least as many parts as tasks run at once, or some processors would be idle.
        self._parts = max(least, -(-self.overview.events // _ROWS_A_PART))

    def stepped(self) -> dict[str, list[Finding]]:
        """Return, by history, the findings about clocks that were set back."""
        found = {h: list(check_clocks(control.steps)) for h, control in self._controls.items()}
        return {h: its for h, its in found.items() if its}

    def findings(self) -> tuple[DataFrame, list[dict[str, Any]] | None]:
        """Return all findings, and the same as rows where they were found here."""
        with cut_into(self._session, self._parts):
            screened = screen(
                self._events,
                self._controls,
                self.overview,
                expiry_allowance_ms=self._options.expiry_allowance_ms,
                block=self._block,
            )
            more = [each for each in (self._closed(), self._missed(), self._expired_early()) if each is not None]
            marks = marks_of(screened, union_of(more) if more else None, self._few)
            self.suspects = marks.number
            pairs = self._pairs(marks)
            # One more than allowed, so that the length says whether there are more without a second count.
            few = [] if pairs is None else pairs.limit(self._few + 1).toArrow().to_pylist()
            if self.suspects + len(few) > self._few:
                # Kept, as the pairs are used three times on this way: counted, for their messages and for their cases.
                pairs = None if pairs is None else kept(pairs)
                return kept(self._put_together(self._judged(self._cases(marks, pairs)))), None
            rows = list(self._put_together_here(self._judged_here(self._cases_here(marks, few))))
            return self._session.createDataFrame(table_of_findings(rows), FINDING_SCHEMA), rows

    def _pairs(self, marks: Marks) -> DataFrame | None:
        """Return the pairs of deliveries in the wrong order."""
        consumers = marks.consumers if marks.are_consumers else None
        if marks.has_several:
            several = kept(several_consumers(self._events, small(marks.suspects, marks.number)))
            consumers = several if consumers is None else consumers.union(several)
        found = []
        if consumers is not None:
            has_blocks = any(each.most_dn >= self._block for each in self.overview.readers)
            found.append(overtaken(self._events, consumers, self._block if has_blocks else None))
        urgent = [(each.h, each.consumer) for each in self.overview.readers if each.has_priorities and each.consumer]
        if urgent:
            table = self._session.createDataFrame(urgent, "h STRING, consumer STRING")
            consumers = table.selectExpr("xxhash64(h, consumer) AS consumer").distinct()
            found.append(overtaken_urgent(self._events, consumers, self._block))
        return union_of(found) if found else None

    # Cases

    def _cases(self, marks: Marks, pairs: DataFrame | None) -> DataFrame:
        """Return all cases, and set the clocks by them."""
        number = self.suspects + (0 if pairs is None else pairs.count())
        wanted = marks.suspects if pairs is None else marks.suspects.union(messages_of(pairs))
        # A pair has two messages, so twice the number bounds the union.
        found = kept(gathered(self._events, small(wanted, 2 * number)))
        own = messages(found if pairs is None else found.join(small(marks.suspects, number), "k", "left_semi"))
        lags = [] if self.overview.has_one_clock else lags_between(own).toArrow().to_pylist()
        # Before the other cases: `latest_in` and the judges compare moments of different nodes by these lags.
        self._calibrate(marks, lags)
        cases = [own]
        if self.suspects:
            cases += self._surroundings(own)
        if pairs is not None:
            of_pairs = pair_cases(found, small(pairs, number))
            cases.append(of_pairs)
            if any(each.has_priorities for each in self.overview.readers):
                urgent = of_pairs.where(f"kind = {PRIORITY} AND op = 'send'")
                cases.append(ends_of(self._events, urgent, number))
        if self.overview.has_nameless:
            cases += self._nameless_cases()
        return union_of(cases)

    def _surroundings(self, own: DataFrame) -> Iterator[DataFrame]:
        """Yield the other events of the suspects' cases."""
        around = kept(settled_and_ended(self._events, own, self.suspects))
        yield around
        of_strangers = around.where("op IN ('ack', 'recover') AND tx IS NOT NULL")
        yield ends_of(self._events, of_strangers, self.suspects)
        if self._has_lives():
            yield kept(latest_in(self._events, own, self._controls))

    def _has_lives(self) -> bool:
        """Say whether there are subscriptions that should get all messages of their topics."""
        return any(True for control in self._controls.values() for _ in control.lives())

    def _cases_here(self, marks: Marks, pairs: list[dict[str, Any]]) -> Cases:
        """Fetch all cases to the driver, without their surroundings, and set the clocks by them."""
        suspects = marks.here()
        wanted = suspects.union(one["k"] for pair in pairs for one in pair["both"]) - {None}
        found = gathered_here(self._events, wanted) if wanted else []
        cases = Cases()
        cases.add_messages(found, suspects)
        # Before `latest_in`, which compares moments of different nodes, and only
        # now, as lags come from the suspects' events.
        self._calibrate(marks, cases.lags())
        if suspects and self._has_lives():
            own = table_of_cases([row for its in cases.rows.values() for row in its])
            cases.add_rows(latest_in(self._events, self._session.createDataFrame(own), self._controls))
        cases.add_pairs(found, pairs)
        if self.overview.has_nameless:
            for frame in self._nameless_cases():
                cases.add_rows(frame)
        return cases

    def _nameless_cases(self) -> Iterator[DataFrame]:
        late_ns = self._options.expiry_allowance_ms * 10**6
        late = f"(coalesce(exp, 0L) <> 0 AND t0 - exp * 1000000L > {late_ns}L)"
        bound = self._bounds()
        yield nameless(self._events, f"""{late} OR note LIKE '%"selector"%'""")
        if bound is not None:
            after = self._events.join(bound.hint("broadcast"), _same_place(self._events, bound), "left_semi")
            yield nameless(after, f"""NOT ({late} OR coalesce(note LIKE '%"selector"%', false))""")

    def _calibrate(self, marks: Marks, of_suspects: Iterable[Mapping[str, Any]]) -> None:
        """Determine the differences between the nodes' clocks."""
        lags: Mapping[str, dict[frozenset[str], int]] = defaultdict(dict)
        pairs = [
            (h, one, two) for h, nodes in self.overview.nodes.items() for one in nodes for two in nodes if one < two
        ]
        if pairs:
            table = self._session.createDataFrame(pairs, "h STRING, one STRING, two STRING")
            table = table.selectExpr("*", "xxhash64(h, one) ^ xxhash64(h, two) AS lag_pair")
            # Screening knows nodes by their digests alone, so the pairs of names are hashed in the same way.
            rows = [{**row, "lag_ns": marks.lags_ns.get(row["lag_pair"], 0)} for row in table.toArrow().to_pylist()]
            for row in [*rows, *of_suspects]:
                pair = frozenset((row["one"], row["two"]))
                lags[row["h"]][pair] = max(lags[row["h"]].get(pair, 0), row["lag_ns"])
        for h, control in self._controls.items():
            control.calibrate(lags.get(h, {}))

    # Judging

    def _judging(self) -> Judging:
        return Judging(controls=self._controls, options=self._options, left_out=self.left_out)

    def _judged(self, cases: DataFrame) -> DataFrame:
        """Return all findings; cases that request proofs are judged again with them."""
        whole = cases.groupBy("g", "kind", "h").agg(expr(_EVENTS))
        first = kept(self._judge(whole, has_proofs=False))
        found = first.selectExpr("inline(judged.told)")
        open_cases = first.where("size(judged.asked) > 0")
        # Few cases ask for a proof of life; without one, a second judgement would read all events again.
        if not open_cases.head(1):
            return found
        asked = open_cases.selectExpr("g", "kind", "h", "inline(judged.asked)")
        proofs = proofs_for(self._events, asked, asked.count())
        again = open_cases.selectExpr("g", "inline(events)").select(*cases.columns).unionByName(proofs)
        second = self._judge(again.groupBy("g", "kind", "h").agg(expr(_EVENTS)), has_proofs=True)
        return found.unionByName(second.selectExpr("inline(judged.told)"))

    def _judge(self, whole: DataFrame, *, has_proofs: bool) -> DataFrame:
        return whole.withColumn("judged", self._judging().function(has_proofs=has_proofs)("events"))

    def _judged_here(self, cases: Cases) -> list[dict[str, Any]]:
        """Return all findings about few cases, without starting Python processes of Spark.

        The first judgement is without the cases' surroundings. It already shows which proofs of life most of them will
        request, so one pass fetches both.
        """
        judging = self._judging()
        said = cases.said(judging)
        windows = self._windows(cases, asked_in(said))
        proofs = cases.add_around(self._events, windows)
        of_strangers = cases.of_strangers()
        if of_strangers:
            table = self._session.createDataFrame(table_of_cases(of_strangers))
            cases.add_rows(ends_of(self._events, table, 1))
        # Judged again with the surroundings: the new events may settle a suspicion, or request other proofs.
        said |= cases.said(judging)
        asked = asked_in(said)
        # Only the questions that the windows did not answer; each such pass reads all events.
        if asked - proofs.keys():
            proofs |= first_answers(self._events, asked - proofs.keys())
        cases.add_proofs(said, proofs)
        said |= cases.said(judging, has_proofs=True)
        return [row for its in said.values() for row in its["told"]]

    def _windows(self, cases: Cases, asked: Iterable[tuple[str, str, int]]) -> list[Window]:
        """Return the periods in which to look for the first proofs of life requested: so long after each moment that
        few events lie in them.
        """
        lines, found = cases.lines(), []
        for h, conn, t in sorted(each for each in asked if each[:2] in lines)[:WINDOWS]:
            span_ns = self.overview.end_ns[h] - self.overview.begin_ns[h]
            # The width follows the density of the history: a fixed time would be empty in one and huge in another.
            width_ns = span_ns * _IN_A_WINDOW // self.overview.events + 1
            found.append(Window(h=h, conn=conn, line=lines[h, conn], t=t, until=t + width_ns))
        return found

    # Suspects that no aggregation shows

    def _bounds(self) -> DataFrame | None:
        """Return the consumers that received messages after the end of the consumer, session, connection or
        subscription, with that end.
        """
        found = []
        for each in self.overview.readers:
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
        if not self.overview.has_selectors:
            return None
        rows = self._events.where("""op = 'deliver' AND mid IS NOT NULL AND note LIKE '%"selector"%'""")
        read = rows.selectExpr(f"{MESSAGE} AS k", "struct(mid, mode, prio, exp, note) AS delivery")
        return read.where(arrow_function(_is_missed, "boolean")("delivery")).select("k")

    def _expired_early(self) -> DataFrame | None:
        if not self.overview.has_expiries:
            return None
        least_ns = f"(exp - {self._options.expiry_allowance_ms}L) * 1000000L"
        rows = self._events.where(f"op = 'expire' AND mid IS NOT NULL AND coalesce(exp, 0L) <> 0 AND t1 < {least_ns}")
        return rows.selectExpr(f"{MESSAGE} AS k")

    # The end

    def _put_together(self, judged: DataFrame) -> DataFrame:
        """Combine findings that are reported once for a destination, and add those that concern no single message."""
        found = judged.where("rule <> 'unaccounted'")
        open_ends = judged.where("rule = 'unaccounted'").groupBy("h", "dest").agg(
            expr("count(*) AS number"), expr("min_by(struct(*), struct(at, first_n)) AS first")
        )  # fmt: skip
        text = f"'{RULES['unaccounted'].text}'"
        for name, value in (("number", "number"), ("dest", "dest"), ("mid", "first.mid")):
            text = f"replace({text}, '{{{name}}}', CAST({value} AS STRING))"
        whole = ("h", "first.rule", f"{text} AS text", "first.mid", "dest", "number", "first.at", "first.first_n")
        found = found.union(open_ends.selectExpr(*whole, "first.witness"))
        if self.overview.has_nameless and "without-id" not in self.left_out:
            told = table_of_findings(list(self._without_id()))
            found = found.union(self._session.createDataFrame(told, FINDING_SCHEMA))
        return found

    def _put_together_here(self, told: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Yield the same from rows on the driver."""
        open_ends: Mapping[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
        for row in told:
            if row["rule"] == "unaccounted":
                open_ends[row["h"], row["dest"]].append(row)
            else:
                yield row
        for (_, dest), rows in open_ends.items():
            first = min(rows, key=_age)
            text = RULES["unaccounted"].text.format(number=len(rows), dest=dest, mid=first["mid"])
            yield {**first, "text": text, "number": len(rows)}
        if self.overview.has_nameless and "without-id" not in self.left_out:
            yield from self._without_id()

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


def _age(row: Mapping[str, Any]) -> tuple[int, bool, int]:
    return row["at"], row["first_n"] is not None, row["first_n"] or 0


def _same_place(rows: DataFrame, bound: DataFrame) -> Any:
    """Return the condition that a delivery happened after the end of its consumer, session, connection or subscription."""
    names = ("h", "consumer", "sess", "conn", "sub")
    condition = rows["t0"] > bound["end_ns"]
    for name in names:
        # Null-safe equality: a consumer without a subscription has NULL there, which SQL finds unequal to itself.
        condition &= rows[name].eqNullSafe(bound[name])
    return condition


def _is_missed(deliveries: pa.Array) -> pa.Array:
    """Return for each delivery whether it does not match its consumer's selector."""
    return pa.array([missed_selector(_delivery(row.as_py())) is not None for row in deliveries], pa.bool_())


def _delivery(row: Mapping[str, Any]) -> Event:
    names = ("mid", "mode", "prio", "exp", "note")
    return Event("", "", "", None, None, None, DELIVER, OK, 0, 0, **{name: row[name] for name in names})


LIVE_RULES = frozenset(
    {"redelivered-without-flag", "reordered", "reordered-shared", "after-expiry", "uncommitted-visible"}
)
"""The rules that can be decided before a run ends. Losses cannot, nor can an unknown sender: its file may come late."""

_NS_PER_S = 10**9
_LISTED = 10_000  # of each rule: a run with more of them has been told enough
_KEPT = "op IN ('subscribe', 'unsubscribe', 'close', 'crash', 'clock')"


def watch(
    session: SparkSession,
    directory: Path | str,
    tell: Callable[[Finding], None],
    *,
    state: Path | str,
    horizon_s: int = 600,
    once: bool = False,
    without: Iterable[str] = (),
) -> StreamingQuery:
    """Start a query that judges the recordings in `directory`, and calls `tell` with each finding, once.

    state: a directory for the query's checkpoint and window; a new query with it continues at the end of the last one,
    and may repeat the findings of the last files. horizon_s: how many seconds of the history stay in the window. once:
    end when all files that are there have been judged. without: rules to be left out. Raises `OptionError` for a
    `state` that lies in `directory`, whose windows would be judged as recordings, and for one that has windows and no
    checkpoint: another's, or of a checkpoint that was lost, which would be deleted.
    """
    # The query reads its folder recursively: its own windows would be judged as recordings.
    _check_state(Path(state), str(directory))
    judge = _Judge(session, Path(state), tell, horizon_s, frozenset(without))
    files = session.readStream.schema(EVENT_SCHEMA).option("recursiveFileLookup", "true")
    events = files.option("pathGlobFilter", "*.parquet").parquet(str(directory))
    writer = events.writeStream.foreachBatch(judge.batch).option("checkpointLocation", str(Path(state) / "checkpoint"))
    trigger = writer.trigger(availableNow=True) if once else writer.trigger(processingTime="5 seconds")
    return trigger.start()


def _check_state(state: Path, directory: str) -> None:
    for each in (state / "windows", state / "checkpoint"):
        if are_within(str(each), directory):
            raise OptionError(
                f"state={str(state)!r} and the recordings in {directory} lie in each other: name another folder for the state"
            )
    if (state / "windows").exists() and not (state / "checkpoint").exists():
        raise OptionError(
            f"state={str(state)!r} has a folder 'windows' and no checkpoint, and what is there would be deleted: name a new folder"
        )


class _Judge:
    def __init__(
        self,
        session: SparkSession,
        state: Path,
        tell: Callable[[Finding], None],
        horizon_s: int,
        without: frozenset[str],
    ) -> None:
        self._session = session
        self._windows = state / "windows"
        self._tell = tell
        self._horizon_ns = horizon_s * _NS_PER_S
        self._left_out = (RULES.keys() - LIVE_RULES) | without
        self._told: dict[tuple[str, str | None, str], int] = {}

    def batch(self, new: DataFrame, number: int) -> None:
        """Judge one batch together with the window. Repeated after a crash, it does the same."""
        before, now = self._windows / str(number - 1), self._windows / str(number)
        # A batch is judged with what came before: a redelivery may lie in another file than the first delivery.
        whole = new
        if before.exists():
            whole = new.unionByName(self._session.read.schema(EVENT_SCHEMA).parquet(str(before)))
        latest = whole.agg(expr("max(t0) AS latest")).toArrow().to_pylist()[0]["latest"]
        if latest is None:
            return
        since = latest - self._horizon_ns
        # Subscriptions and closes stay for ever: without them, deliveries of long-lived consumers cannot be judged.
        whole.where(f"t0 >= {since} OR {_KEPT}").coalesce(1).write.mode("overwrite").parquet(str(now))
        # Read back from the file: the plan of `whole` reads the former window, which is deleted below.
        window = self._session.read.schema(EVENT_SCHEMA).parquet(str(now))
        found = audit(
            Recorded(events=window.selectExpr("'' AS h", "*"), cut_off=()), without=self._left_out, listed=_LISTED
        )
        for each in found.report.findings:
            key = each.rule, each.mid, each.text
            # The window overlaps with the former one, so a finding appears in several batches and is told once.
            if key not in self._told:
                self._tell(each)
            self._told[key] = each.events[-1].t0
        # Findings older than the window cannot come again, and the table would grow without end.
        self._told = {key: at for key, at in self._told.items() if at >= since}
        # Last: until the new window is written, a repetition of this batch needs the former one.
        if before.exists():
            shutil.rmtree(before)

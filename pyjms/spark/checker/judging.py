"""Judging: the reference's functions, on the driver or the executors, applied to one suspect with its surroundings at a
time.

`g` identifies the case, `role` says how an event belongs to its case, `kind` which question is judged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from pyjms.history.check import CHECKS, check_endings, check_expiry, check_filters, check_order, check_priorities
from pyjms.history.events import Event
from pyjms.history.facts import Facts, Options, Surroundings
from pyjms.history.findings import Finding
from pyjms.history.parquet import SCHEMA
from pyjms.spark.checker.control import Control
from pyjms.spark.checker.expressions import arrow_function
from pyjms.spark.checker.reading import event_of
from pyjms.spark.options import OptionError
from pyjms.spark.places import are_within, inside, literally, local_path, matches, qualified

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


# Kinds of cases
MESSAGES = 0
"""One message: everything but order and priority."""
ORDER = 1
"""Two deliveries, in the wrong order."""
PRIORITY = 2
"""Two deliveries, the one of lower priority first."""
NAMELESS = 3
"""A delivery without an id, which permits few checks."""

# Roles of events
OWN = 0
"""The event is one of the judged message."""
WITNESS = 1
"""The event tells something about the judged message."""

FINDING_SCHEMA = "h STRING, rule STRING, text STRING, mid STRING, dest STRING, number BIGINT, at BIGINT, first_n BIGINT, witness STRING"
"""A finding as a row; `witness` has its events as JSON, `at` is the start of the last of them."""

JUDGED_TYPE = (
    f"struct<told: array<struct<{FINDING_SCHEMA.replace(' ', ':').replace(',:', ', ')}>>, "
    "asked: array<struct<conn: string, t: bigint>>>"
)
"""The findings of a case, and the requested proofs: the first answer on a connection after a moment."""

_COLUMNS = [part.split()[0] for part in FINDING_SCHEMA.split(", ")]
_FINDING = pa.struct(
    [(part.split()[0], pa.int64() if "BIGINT" in part else pa.string()) for part in FINDING_SCHEMA.split(", ")]
)
_CASES = pa.schema([("g", pa.int64()), ("kind", pa.int32()), ("role", pa.int32()), ("h", pa.string()), *SCHEMA])
_ARROW = pa.struct(
    [("told", pa.list_(_FINDING)), ("asked", pa.list_(pa.struct([("conn", pa.string()), ("t", pa.int64())])))]
)
_CHECKS = {
    MESSAGES: tuple(each for each in CHECKS if each not in {check_order, check_priorities}),
    ORDER: (check_order,),
    PRIORITY: (check_priorities,),
    NAMELESS: (check_endings, check_filters, check_expiry),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """Judges cases, each a list of events as rows: on the driver, or by Spark on the executors."""

    controls: Mapping[str, Control]
    options: Options
    left_out: frozenset[str]

    def say(self, cases: Iterable[list[dict[str, Any]]], *, has_proofs: bool) -> list[dict[str, Any]]:
        """Return a value of type `JUDGED_TYPE` for each case.

        has_proofs: the cases contain proofs that connections were alive. Without it, a case that requests such a proof
        has no findings yet, but its requests; few cases do.
        """
        judged = [_Case(case, self.controls, self.options) for case in cases]
        rows = [{"told": each.findings(self.left_out), "asked": each.asked()} for each in judged]
        # Findings of a case with requests are held back: without the proof the reference would judge it differently.
        return rows if has_proofs else [{**row, "told": []} if row["asked"] else row for row in rows]

    def function(self, *, has_proofs: bool) -> Callable[..., Column]:
        """Return a Spark function from a column of cases to one of `JUDGED_TYPE`."""

        def work(cases: pa.Array) -> pa.Array:
            return pa.array(self.say((case.as_py() for case in cases), has_proofs=has_proofs), _ARROW)

        return arrow_function(work, JUDGED_TYPE)


class _AskingFacts(Facts):
    """Facts that record which proofs of life are requested."""

    def __init__(self, events: Iterable[Event], options: Options, around: Surroundings) -> None:
        super().__init__(events, options, around)
        self.asked: dict[tuple[str, int], None] = {}

    def proof_of_life(self, delivery: Event, after: Event) -> Event | None:
        if delivery.conn is not None and after.t1 is not None:
            # With the clocks' difference added: only an answer that is later by any clock proves that the connection
            # was alive.
            self.asked[delivery.conn, after.t1 + self.allowance_ns(delivery.node, after.node)] = None
        return super().proof_of_life(delivery, after)


class _Case:
    def __init__(self, rows: list[dict[str, Any]], controls: Mapping[str, Control], options: Options) -> None:
        self._h, self._kind = rows[0]["h"], rows[0]["kind"]
        control = controls[self._h]
        own = [event_of(row) for row in rows if row["role"] == OWN]
        # Different joins may yield the same witness several times.
        others = dict.fromkeys(event_of(row) for row in rows if row["role"] == WITNESS)
        self._mids = {event.mid for event in own if event.mid is not None}
        dest = next((event.dest for event in own if event.dn is not None), None) if self._kind == ORDER else None
        around = dict.fromkeys([*others, *control.around([*own, *others], dest)])
        for event in own:
            # No event may appear twice, or the reference would count two deliveries of one message.
            around.pop(event, None)
        events = sorted([*own, *around], key=_in_time)
        self._facts = _AskingFacts(events, options, control.surroundings(*self._mids))

    def findings(self, left_out: frozenset[str]) -> list[dict[str, Any]]:
        found = (each for check in _CHECKS[self._kind] for each in check(self._facts))
        return [
            _row(self._h, each)
            for each in found
            if (each.mid in self._mids or self._kind == NAMELESS) and each.rule not in left_out
        ]

    def asked(self) -> list[dict[str, Any]]:
        return [{"conn": conn, "t": t} for conn, t in self._facts.asked]


def table_of_cases(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return rows of cases as an Arrow table."""
    return pa.Table.from_pylist(rows, schema=_CASES)


def table_of_findings(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return findings as an Arrow table with the columns of `FINDING_SCHEMA`."""
    return pa.Table.from_pylist(rows, schema=pa.schema(list(_FINDING)))


def _in_time(event: Event) -> tuple[int, int]:
    return event.t0, event.n or 0


def _row(h: str, found: Finding) -> dict[str, Any]:
    first = found.events[0]
    witness = json.dumps([list(asdict(event).values()) for event in found.events])
    values = (h, found.rule, found.text, found.mid, found.dest, 1, found.events[-1].t0, first.n, witness)
    return dict(zip(_COLUMNS, values, strict=True))


# The findings of an audit as files, in a folder that contains nothing else: Spark empties the folder that it
# overwrites.

_PART = re.compile(r"part-.*\.parquet")
_BESIDE = re.compile(r"_SUCCESS|\._SUCCESS\.crc|\.part-.*\.parquet\.crc")
_NAME_ANOTHER = "name a folder that does not exist, is empty, or has nothing but the findings of a former audit"


def write_findings(findings: DataFrame, place: str, histories: Sequence[Path | str]) -> None:
    """Write findings into the folder `place` as Parquet; those of a former audit are replaced.

    histories: the audited histories. Raises `OptionError` when the folder has other content, or is, contains or lies in
    a history.
    """
    # Again right before the write: an audit may take hours, and Spark's overwrite deletes the folder as it is then.
    check_place_of_findings(place, histories, findings.sparkSession)
    findings.write.mode("overwrite").parquet(place)


def check_place_of_findings(place: str, histories: Sequence[Path | str], session: SparkSession | None = None) -> None:
    """Check that writing findings into the folder `place` destroys nothing. Raises `OptionError`.

    session: None: before Spark starts, so that only local files are checked.
    """
    texts = [str(each) for each in histories]
    # Checked before Spark starts, and again below with Spark's knowledge of links, wildcards and file systems.
    _check_apart(place, texts)
    path = local_path(place)
    if path is not None and path.exists():
        names = [each.name for each in path.iterdir()] if path.is_dir() else None
        _check_former(place, names, lambda parts: all(map(_is_of_findings, (path / name for name in parts))))
    if session is None:
        return
    _check_apart(qualified(session, place), [each for text in texts for each in matches(session, _as_read(text))])
    listed = inside(session, place)
    if path is None and listed is not None:
        files = {each.name: each.place for each in listed if not each.is_folder}
        is_file = len(listed) == 1 and qualified(session, place) == listed[0].place
        names = None if is_file else [each.name for each in listed]
        _check_former(place, names, lambda parts: _are_of_findings(session, [files.get(name) for name in parts]))


def _as_read(text: str) -> str:
    return text if "://" in text else literally(text)


def _check_apart(place: str, histories: Iterable[str]) -> None:
    for each in histories:
        if are_within(place, each):
            raise OptionError(
                f"findings would be written to {place}, which is, has or lies in the history {each}, and what is there would be deleted: "
                "name another folder"
            )


def _check_former(place: str, names: Sequence[str] | None, are_findings: Callable[[Sequence[str]], bool]) -> None:
    """Raise `OptionError` unless all `names` in a folder are those of a former result. names: None: it is a file."""
    if names is None:
        raise OptionError(f"findings would be written to {place}, which is a file: {_NAME_ANOTHER}")
    parts = [name for name in names if _PART.fullmatch(name)]
    others = sorted(name for name in names if not _PART.fullmatch(name) and not _BESIDE.fullmatch(name))
    if not others and not are_findings(parts):
        others = sorted(parts)
    if others:
        raise OptionError(
            f"findings would be written to {place}, which has {others[0]!r} in it, and all that is there would be deleted: {_NAME_ANOTHER}"
        )


def _is_of_findings(path: Path) -> bool:
    try:
        # The schema and not only the name: any Parquet file of Spark is called part-….parquet.
        return list(pq.read_schema(path).names) == _COLUMNS
    except (OSError, pa.ArrowException):
        return False


def _are_of_findings(session: SparkSession, places: Sequence[str | None]) -> bool:
    """Say whether files that only Spark reaches are findings; None: the name is that of a folder."""
    from pyspark.errors import PySparkException

    known = [literally(place) for place in places if place is not None]
    if len(known) < len(places):
        return False
    try:
        return not known or session.read.option("mergeSchema", "true").parquet(*known).columns == _COLUMNS
    except PySparkException:
        return False

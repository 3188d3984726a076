"""What a pipeline is asked for, looked at before Spark starts or anything is done. Each check raises `OptionError`, which says what to write."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyjms.spark.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_NAME_MAX = 200
_MICROS = {
    "week": 604_800_000_000,
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1000,
    "microsecond": 1,
}
_NUMBER = re.compile(r"[+-]?(\d{1,9}(\.\d{0,9})?|\.\d{1,9})")


def check_every(every: str) -> None:
    """Look whether Spark can start a batch that often: a span as its triggers take it, which is not negative."""
    words = every.lower().split()
    words = words[1:] if words[:1] == ["interval"] else words
    spans = [_micros(number, unit) for number, unit in zip(words[::2], words[1::2], strict=False)]
    known = [each for each in spans if each is not None]
    if not words or len(words) % 2 or len(known) < len(spans) or sum(known) < 0:
        raise OptionError(f"every={every!r}: write how often, such as '10 seconds', '1 minute' or '0 seconds'")


def _micros(number: str, unit: str) -> float | None:
    micros = _MICROS.get(unit.removesuffix("s"))
    if micros is None or _NUMBER.fullmatch(number) is None or ("." in number and micros != _MICROS["second"]):
        return None
    return float(number) * micros


def check_job(job: str) -> None:
    """Look whether a replay may have that name. Blanks around it do not count, as in all options."""
    if not 1 <= len(job.strip()) <= _NAME_MAX:
        raise OptionError(f"the name of a job has 1 to {_NAME_MAX} characters, and this one has {len(job.strip())}")


def check_folder(place: str) -> None:
    """Look whether a place, a path or a URL, can be the name of a folder for Spark."""
    if not place.strip():
        raise OptionError("the name of a folder is empty: write a path, or a URL that Spark knows")
    scheme, colon, rest = place.partition(":")
    if colon and "/" not in scheme and not rest.startswith("/"):
        raise OptionError(
            f"{place!r}: Spark takes what stands before a colon for the kind of a URL: write the whole path, from / on"
        )


def check_output(path: Path) -> None:
    """Look whether a file can be written."""
    there = path if path.exists() else path.parent
    if path.is_dir() or not path.parent.is_dir():
        raise OptionError(
            f"{path} cannot be written: {'it is a folder' if path.is_dir() else f'there is no folder {path.parent}'}"
        )
    if not os.access(there, os.W_OK):
        raise OptionError(f"{path} cannot be written: {there} does not permit it")


def check_page(path: Path) -> None:
    """Look whether a page can be written without anything but an older page being lost."""
    _check_begin(path, b"<!DOCTYPE html>", "is no page, and would be overwritten")


def check_lines(path: Path) -> None:
    """Look whether lines of JSON can be added to a file without spoiling another one, such as a recording."""
    _check_begin(path, b"{", "has no lines of JSON, to which others can be added")


def _check_begin(path: Path, begin: bytes, else_told: str) -> None:
    check_output(path)
    if not path.is_file():  # not there; or a pipe, which has no beginning
        return
    try:
        with path.open("rb") as file:
            found = file.read(len(begin))
    except OSError as error:
        raise OptionError(f"{path} cannot be written: {error.strerror}") from error
    if found not in (b"", begin):
        raise OptionError(f"{path} is there and {else_told}: name another file")


# Whether a condition of Spark SQL chooses the same messages each time.

_CLOCKS = frozenset({"CurrentDate", "CurrentTime", "CurrentTimestamp", "LocalTimestamp", "Now"})
"""How Spark calls what looks at the clock. It takes these for deterministic, as they are within one query."""
_MOMENTS = frozenset({"now", "today", "tomorrow", "yesterday"})
"""Texts that Spark's casts to dates and timestamps take for moments of the clock."""


def check_condition(rows: DataFrame, where: str) -> None:
    """Look whether `where`, by which `rows` were chosen, would choose the same ones tomorrow. Raises `OptionError`."""
    frame: Any = rows
    plan = frame._jdf.queryExecution().analyzed()  # noqa: SLF001 -- PySpark shows plans as texts alone
    patterns = frame.sparkSession._jvm.org.apache.spark.sql.catalyst.trees.TreePattern  # noqa: SLF001
    for each in _expressions(plan, (patterns.CURRENT_LIKE(), patterns.CAST())):
        kind = str(each.getClass().getSimpleName())
        if kind in _CLOCKS or not each.deterministic() or (kind == "Cast" and _is_moment(each)):
            raise OptionError(
                f"the condition {where!r} has another result each time, by {each.sql()}, and a job that is started again must choose the same messages: "
                "write the values themselves, such as day = '2026-01-31'"
            )


def _is_moment(cast: Any) -> bool:
    words = str(cast.child().toString()).split()
    return (
        str(cast.dataType().typeName()).startswith(("date", "timestamp"))
        and words[:1] != []
        and words[0].lower() in _MOMENTS
    )


def _expressions(plan: Any, patterns: Sequence[Any]) -> Iterator[Any]:
    """Yield the expressions of a plan that may differ, the innermost first, so that the first one that does is the reason."""
    for each in _each(plan.expressions()):
        yield from _inside(each, patterns)
    for each in _each(plan.children()):
        yield from _expressions(each, patterns)


def _inside(expression: Any, patterns: Sequence[Any]) -> Iterator[Any]:
    if expression.deterministic() and not any(map(expression.containsPattern, patterns)):
        return  # each look at the JVM takes its time, and a list may have thousands of values
    for each in _each(expression.children()):
        yield from _inside(each, patterns)
    yield expression


def _each(found: Any) -> Iterator[Any]:
    return (found.apply(place) for place in range(found.size()))

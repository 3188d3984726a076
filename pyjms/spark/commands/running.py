"""What the commands of pipelines share: a session, progress of a query, and a clean stop."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from pyjms.commands.signals import told_of_signals
from pyjms.spark.errors import OptionError
from pyjms.spark.session import spark_sql
from pyjms.spi.errors import ProviderError
from pyjms.spi.terminal import CANNOT_BE_USED, FAILED, complain, note
from pyjms.spi.words import counted, on_one_line

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_LOOKS_EVERY_S = 0.2
_SLOW, _STARTS = "Python worker failed to connect back", 15


def log_level(verbose: bool) -> str:
    """Return the level of Spark's log for a command: it says nothing unless that is asked for, as the command tells what went wrong."""
    return "ERROR" if verbose else "OFF"


def failure(command: str, text: str, code: int = CANNOT_BE_USED) -> typer.Exit:
    """Tell why a command cannot do what it was asked to."""
    complain(f"pyjms pipeline {command}", text)
    return typer.Exit(code)


_OURS = re.compile(r"^pyjms[\w.]*\.\w+: (.+)$", re.MULTILINE)
"""How Python shows an exception of this project at the end of a traceback."""
_JAVAS = re.compile(r"^(?:: |Caused by: )[\w.$]+: (?!Exception thrown in awaitResult)(.+)$", re.MULTILINE)
"""How Java shows one. Where rows come as Arrow the first has only waited for another, which has failed."""


_PYTHONS = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(\w[\w.]*(?:: .+)?)$", re.MULTILINE)
"""How Python shows any other one, of the processes that Spark has started."""


def spark_reason(error: Exception) -> str:
    """Return why Spark failed, in one line of all that it tells: our own last word; else Java's; else Python's; else the first line."""
    text = str(error)
    if ours := _OURS.findall(text):
        return str(ours[-1]).strip()
    java = _JAVAS.search(text)
    if java is not None and _TOLD_BY_PY4J.match(text):
        return java[1].strip()
    if pythons := _PYTHONS.findall(text):
        return str(pythons[-1])
    return text.strip().partition("\n")[0] or type(error).__name__


_TOLD_BY_PY4J = re.compile(r".*\n: ")


def is_jvm_gone(error: Exception) -> bool:
    """Say whether an error of Py4J's, or of the socket beneath, means that Spark's JVM has died."""
    from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]
    from pyspark import SparkContext

    if not isinstance(error, ConnectionError):
        return isinstance(error, Py4JNetworkError)
    gateway = getattr(SparkContext, "_gateway", None)
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if process is None:
        return False
    try:
        process.wait(_DIES_S)  # its sockets close a moment before it can be waited for
    except subprocess.TimeoutExpired:
        return False
    return True


_DIES_S = 2.0
_ASKED_WRONGLY = (
    f"{OptionError.__module__}.{OptionError.__qualname__}: ",  # by who ran in a process of Spark's
    "org.apache.hadoop.fs.UnsupportedFileSystemException: ",
    "[DATA_SOURCE_NOT_FOUND]",
    "java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.",  # of a file system that needs another package
)
_GONE = "Spark's JVM is gone: start the command again with the same words, and it goes on where it was"


@contextmanager
def errors_told(command: str, code: int = FAILED, *, verbose: bool = False) -> Iterator[None]:
    """Have what Spark, the broker and missing parts say end a command in one line, the cause first, with its exit code.

    code: of what goes wrong on the way; what cannot be done as it was asked for has `CANNOT_BE_USED` in any case. verbose: all that was said
    is shown before.
    """
    try:
        spark_sql()
    except ProviderError as error:
        raise failure(command, error.reason) from error
    from py4j.protocol import Py4JError
    from pyspark.errors import AnalysisException, PySparkException

    def end(reason: str, code: int, error: Exception) -> typer.Exit:
        if verbose:
            note(str(error))
        return failure(command, on_one_line(reason), code)

    try:
        with _contexts_untold():
            yield
    except AnalysisException as error:  # a condition, path or format; the lines below are its place in a plan
        raise end(spark_reason(error).partition("\n")[0].rstrip(" ;"), CANNOT_BE_USED, error) from error
    except (PySparkException, Py4JError) as error:
        asked_wrongly = any(each in str(error) for each in _ASKED_WRONGLY)
        reason = _GONE if is_jvm_gone(error) else spark_reason(error)
        raise end(reason, CANNOT_BE_USED if asked_wrongly else code, error) from error
    except ProviderError as error:
        raise end(error.reason, CANNOT_BE_USED if isinstance(error, OptionError) else code, error) from error
    except OSError as error:
        raise end(_GONE if is_jvm_gone(error) else str(error), code, error) from error


@contextmanager
def _contexts_untold() -> Iterator[None]:
    """Have PySpark not log, as JSON on standard error, what it raises as well."""
    from pyspark.logger import PySparkLogger

    loggers = [PySparkLogger.getLogger(f"{kind}QueryContextLogger") for kind in ("DataFrame", "SQL")]
    before = [each.disabled for each in loggers]
    for each in loggers:
        each.disabled = True
    try:
        yield
    finally:
        for each, was in zip(loggers, before, strict=True):
            each.disabled = was


@contextmanager
def stop_wanted() -> Iterator[threading.Event]:
    """Give an event that Ctrl-C and SIGTERM set, so that a pipeline ends in order."""
    wanted = threading.Event()
    with told_of_signals(wanted.set):
        yield wanted


@contextmanager
def ended_at_once(command: str) -> Iterator[None]:
    """Have Ctrl-C and SIGTERM end a command that only reads: it tells so, and its exit code is `FAILED`."""

    def end(*_: object) -> None:
        raise KeyboardInterrupt

    is_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, end) if is_main else None
    try:
        yield
    except KeyboardInterrupt as error:  # PySpark's own handler has told Spark to stop working
        raise failure(command, "ended before it was done: nothing was written", FAILED) from error
    finally:
        if is_main:
            signal.signal(signal.SIGTERM, before)


def follow(start: Callable[[], StreamingQuery], wanted: threading.Event, what: str, hear: Callable[[Any], None]) -> int:
    """Start a query and tell each batch until it ends or somebody wants it to; return how many messages it has moved.

    hear: is given Spark's progress report of each batch that moved something. Spark gives a Python process ten seconds to
    start, and no setting alters that: on a busy machine the query is started again, which loses and repeats nothing.
    Raises what the query raised.
    """
    told_of = _Told(what, hear)
    for attempt in range(1, _STARTS + 1):
        query = start()
        try:
            _watch(query, wanted, told_of)
        finally:
            query.stop()
        problem = query.exception()
        if problem is None:
            break
        if attempt == _STARTS or _SLOW not in str(problem) or wanted.is_set():
            raise problem
        note("this machine is busy, and a Python process of Spark's took too long to start: once more")
    return told_of.moved


class _Told:
    """What was told of a query so far."""

    def __init__(self, what: str, hear: Callable[[Any], None]) -> None:
        self._what = what
        self._hear = hear
        self._last = -1
        self.moved = 0

    def look(self, query: StreamingQuery) -> None:
        """Tell the batches that were not told yet."""
        for progress in query.recentProgress:
            number, rows = int(progress["batchId"]), int(progress["numInputRows"])
            if number > self._last and rows:
                self._last = number
                self.moved += rows
                note(
                    f"{self._what}: batch {number}, {counted(rows, 'message')}, {self.moved:,} in all{_rate(progress)}"
                )
                self._hear(progress)


def _watch(query: StreamingQuery, wanted: threading.Event, told_of: _Told) -> None:
    while True:
        is_running = query.isActive
        told_of.look(query)
        if not is_running:
            return
        if wanted.wait(_LOOKS_EVERY_S):
            query.stop()


def _rate(progress: Any) -> str:
    rate = progress["processedRowsPerSecond"]
    return f", {rate:,.0f}/s" if rate else ""

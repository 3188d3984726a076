"""The shared part of the commands on Spark: options, a session, the progress and metrics of a query, and a clean stop."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from pyjms.commands.signals import told_of_signals
from pyjms.spark.archives import FORMS
from pyjms.spark.connecting import read_credentials
from pyjms.spark.options import OptionError, check_lines, check_output, parse_options
from pyjms.spark.session import spark_sql
from pyjms.spi.envelope import AddressKind
from pyjms.spi.errors import ProviderError
from pyjms.spi.terminal import CANNOT_BE_USED, FAILED, complain, note
from pyjms.spi.words import counted, on_one_line

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from pyspark.sql.streaming.query import StreamingQuery


MESSAGES_IN_BATCH: Final = 10_000

Url: TypeAlias = Annotated[str, typer.Argument(help="The broker, such as stomp://127.0.0.1:61613.", metavar="URL")]
Destination: TypeAlias = Annotated[
    str, typer.Argument(help="queue:NAME, topic:NAME, or the name of a queue.", metavar="DESTINATION")
]
ClientId: TypeAlias = Annotated[
    str | None,
    typer.Option(help="Of a topic: the client that the subscription belongs to.", metavar="NAME", show_default=False),
]
Subscription: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Of a topic: the durable subscription to read from. It is made if there is none.",
        metavar="NAME",
        show_default=False,
    ),
]
Master: TypeAlias = Annotated[str, typer.Option(help="Where Spark runs: local[4], spark://host:7077, yarn ...")]
Verbose: TypeAlias = Annotated[
    bool, typer.Option("--verbose", help="Show Spark's own log, with all traces of Java and Python.")
]
Once: TypeAlias = Annotated[bool, typer.Option("--once", help="Work off what is there now, and end.")]
FailOnDataLoss: TypeAlias = Annotated[
    bool,
    typer.Option(
        help="Stop when messages are gone that the checkpoint asks for, as after a release of the group; else go on with what is there."
    ),
]
MOST: Final = 2**31 - 1
"""The largest number by which Spark can limit the messages of a batch."""
Batch: TypeAlias = Annotated[
    int, typer.Option(help="So many messages has one batch at most.", min=1, max=MOST, metavar="NUMBER")
]
Credentials: TypeAlias = Annotated[
    str | None,
    typer.Option(help="Where user and password are: file:PATH or env:VARIABLE.", metavar="WHERE", show_default=False),
]
MetricsTo: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--metrics",
        help="Tell each batch to programs: FILE.jsonl (or -) as lines of JSON, FILE.prom or HOST:PORT for Prometheus.",
        metavar="WHERE",
        show_default=False,
    ),
]
Form: TypeAlias = Annotated[
    str, typer.Option("--format", help=f"{', '.join(FORMS[:-1])}, or {FORMS[-1]} where this Spark has it.")
]
Page: TypeAlias = Annotated[
    Path | None,
    typer.Option(help="Write a page with plots, for a browser.", metavar="FILE.html", show_default=False),
]


# The options of a source, for the commands that read a destination: a queue, or the durable subscription of a topic.


def source_options(
    url: str,
    destination: str,
    group: str,
    *,
    client_id: str | None,
    subscription: str | None,
    credentials: str | None,
    looks: bool,
) -> dict[str, str]:
    """Return the source's options for a command's arguments, without the first three. Raises `OptionError`, before
    Spark starts.

    looks: the command must change nothing, which is impossible with a subscription.
    """
    given = {"clientId": client_id, "subscription": subscription, "credentials": credentials}
    options = {name: value for name, value in given.items() if value is not None}
    plain = {name: value for name, value in options.items() if name == "credentials"}
    # Without subscription and client id at first: errors about these should name the command's flags, not Spark's
    # options.
    address = parse_options({"url": url, "destination": destination, "readerGroup": group, **plain}).destination
    is_topic = address is not None and address.kind is AddressKind.TOPIC
    if not is_topic and len(options) > len(plain):
        raise OptionError(f"{destination}: a queue has no subscriptions: leave --subscription and --client-id out")
    if (client_id is None) != (subscription is None):
        raise OptionError(
            f"--{'client-id' if subscription is None else 'subscription'} goes with --{'subscription' if subscription is None else 'client-id'}: "
            "a durable subscription belongs to a client id"
        )
    if is_topic and subscription is None:
        raise OptionError(
            f"{destination}: a topic keeps no messages: give --subscription and --client-id, the durable subscription to read from"
        )
    if is_topic and looks:
        raise OptionError(f"{destination}: --dry-run looks at a queue; what a subscription has cannot be looked at")
    parse_options({"url": url, "destination": destination, **options})
    # Read here only to report a missing file before Spark starts, which takes seconds.
    read_credentials(credentials)
    return options


_LOOKS_EVERY_S = 0.2
_SLOW, _STARTS = "Python worker failed to connect back", 15


def log_level(verbose: bool) -> str:
    """Return the level of Spark's log for a command: off unless `verbose`, as the command reports errors itself."""
    return "ERROR" if verbose else "OFF"


def failure(command: str, text: str, code: int = CANNOT_BE_USED) -> typer.Exit:
    """Report why a command cannot do what was requested."""
    complain(f"pyjms pipeline {command}", text)
    return typer.Exit(code)


_OURS = re.compile(r"^pyjms[\w.]*\.\w+: (.+)$", re.MULTILINE)
"""The form of an exception of this project at the end of a Python traceback."""
_JAVAS = re.compile(r"^(?:: |Caused by: )[\w.$]+: (?!Exception thrown in awaitResult)(.+)$", re.MULTILINE)
"""The form of an exception in Java. Where rows come as Arrow, the first one only waited for another, which has failed."""


_PYTHONS = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(\w[\w.]*(?:: .+)?)$", re.MULTILINE)
"""The form of any other exception in Python, in the processes that Spark has started."""


def spark_reason(error: Exception) -> str:
    """Return the reason of Spark's error, in one line: our own last exception; or else Java's, Python's, or the first
    line.
    """
    text = str(error)
    # The last one: a traceback shows causes first, and our own text at the end says what to do.
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
    """Say whether an error of Py4J, or of its socket, means that Spark's JVM has died."""
    from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]
    from pyspark import SparkContext

    if not isinstance(error, ConnectionError):
        return isinstance(error, Py4JNetworkError)
    gateway = getattr(SparkContext, "_gateway", None)
    # A ConnectionError may be a broker's; whether it was the JVM, only the JVM's process can tell.
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if process is None:
        return False
    try:
        process.wait(_DIES_S)  # its sockets close a moment before its exit can be seen
    except subprocess.TimeoutExpired:
        return False
    return True


_DIES_S = 2.0
_ASKED_WRONGLY = (
    f"{OptionError.__module__}.{OptionError.__qualname__}: ",  # the reason comes from code in a process of Spark's
    "org.apache.hadoop.fs.UnsupportedFileSystemException: ",
    "[DATA_SOURCE_NOT_FOUND]",
    "java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.",  # the file system needs another package
)
_GONE = "Spark's JVM is gone: start the command again with the same words, and it goes on where it was"


@contextmanager
def errors_told(command: str, code: int = FAILED, *, verbose: bool = False) -> Iterator[None]:
    """Make errors of Spark, the broker and missing packages end a command with one line, the cause first, and its exit
    code.

    code: for errors while running; a request that cannot be done has `CANNOT_BE_USED` in any case. verbose: the whole
    output of the error is shown before.
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
    """Keep PySpark from logging, as JSON on standard error, the errors that it also raises."""
    from pyspark.logger import PySparkLogger

    loggers = [PySparkLogger.getLogger(f"{kind}QueryContextLogger") for kind in ("DataFrame", "SQL")]
    before = [each.disabled for each in loggers]
    # PySpark logs an error of a query as JSON on standard error, and also raises it.
    for each in loggers:
        each.disabled = True
    try:
        yield
    finally:
        for each, was in zip(loggers, before, strict=True):
            each.disabled = was


@contextmanager
def stop_wanted() -> Iterator[threading.Event]:
    """Yield an event that Ctrl-C and SIGTERM set, so that a pipeline ends in order."""
    wanted = threading.Event()
    with told_of_signals(wanted.set):
        yield wanted


@contextmanager
def ended_at_once(command: str) -> Iterator[None]:
    """Make Ctrl-C and SIGTERM end a command that only reads: it reports this, and its exit code is `FAILED`."""

    def end(*_: object) -> None:
        raise KeyboardInterrupt

    is_main = threading.current_thread() is threading.main_thread()
    # Python sets signal handlers in the main thread only; elsewhere `signal.signal` raises ValueError.
    before = signal.signal(signal.SIGTERM, end) if is_main else None
    try:
        yield
    except KeyboardInterrupt as error:  # PySpark's own handler has told Spark to stop working
        raise failure(command, "ended before it was done: nothing was written", FAILED) from error
    finally:
        if is_main:
            signal.signal(signal.SIGTERM, before)


def follow(start: Callable[[], StreamingQuery], wanted: threading.Event, what: str, hear: Callable[[Any], None]) -> int:
    """Start a query and report each batch until it ends or `wanted` is set; return how many messages it has moved.

    hear: called with Spark's progress report of each batch that moved messages. Spark gives a Python process ten
    seconds to start, and no setting changes that: on a busy machine the query is started again, which loses and repeats
    nothing. Raises what the query raised.
    """
    # One for all attempts: a restarted query reports batches with growing numbers, and none twice.
    told_of = _Told(what, hear)
    for attempt in range(1, _STARTS + 1):
        query = start()
        try:
            _watch(query, wanted, told_of)
        finally:
            # Also when `hear` raised, as for a full disk: otherwise the query would continue unseen in its JVM.
            query.stop()
        problem = query.exception()
        if problem is None:
            break
        # Spark gives a Python process ten seconds to start, and no setting changes that; a busy machine needs more.
        if attempt == _STARTS or _SLOW not in str(problem) or wanted.is_set():
            raise problem
        note("this machine is busy, and a Python process of Spark's took too long to start: once more")
    return told_of.moved


class _Told:
    """The reports shown for a query so far."""

    def __init__(self, what: str, hear: Callable[[Any], None]) -> None:
        self._what = what
        self._hear = hear
        self._last = -1
        self.moved = 0

    def look(self, query: StreamingQuery) -> None:
        """Report the new batches."""
        for progress in query.recentProgress:
            number, rows = int(progress["batchId"]), int(progress["numInputRows"])
            # Spark returns its last reports again at each call, and reports triggers that had nothing to do.
            if number > self._last and rows:
                self._last = number
                self.moved += rows
                note(
                    f"{self._what}: batch {number}, {counted(rows, 'message')}, {self.moved:,} in all{_rate(progress)}"
                )
                self._hear(progress)


def _watch(query: StreamingQuery, wanted: threading.Event, told_of: _Told) -> None:
    while True:
        # Read before the reports: otherwise a last batch that ends in between would not be reported.
        is_running = query.isActive
        told_of.look(query)
        if not is_running:
            return
        if wanted.wait(_LOOKS_EVERY_S):
            query.stop()


def _rate(progress: Any) -> str:
    rate = progress["processedRowsPerSecond"]
    return f", {rate:,.0f}/s" if rate else ""


_PORT_MAX = 65_535
_PORT = re.compile(r"(?P<host>[^/]+):(?P<port>\d{1,5})")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchDone:
    """One batch of a pipeline, done and safe."""

    pipeline: str
    """``archive``, ``replay`` or ``route``."""
    name: str
    """The reader group, or the job of a replay."""
    batch: int
    messages_in: int
    messages_out: int
    """Messages written: of a route, including copies for several targets."""
    seconds: float
    """The duration of the batch."""
    ended_ms: int
    """The time of its end, in milliseconds since 1970 UTC."""
    lag_seconds: float | None
    """The age of its newest message at that time; None: the messages have no times, or the pipeline is a replay."""
    left: int | None
    """How many known messages are not done: of ``--once`` and of a replay all; otherwise those that are reserved."""


def batch_done(pipeline: str, name: str, progress: Any, messages_out: int | None = None) -> BatchDone:
    """Return the figures of a query's last batch from Spark's progress report. messages_out: None: the same as
    received.
    """
    seconds = float(progress["durationMs"].get("triggerExecution", 0)) / 1000
    # Spark's time stamp is the start of the trigger.
    ended_ms = round(datetime.fromisoformat(progress["timestamp"]).timestamp() * 1000 + seconds * 1000)
    messages_in = int(progress["numInputRows"])
    return BatchDone(
        pipeline=pipeline,
        name=name,
        batch=int(progress["batchId"]),
        messages_in=messages_in,
        messages_out=messages_in if messages_out is None else messages_out,
        seconds=seconds,
        ended_ms=ended_ms,
        lag_seconds=_lag(progress["observedMetrics"], ended_ms),
        left=_left(progress["sources"]),
    )


def _lag(observed: Mapping[str, Any], ended_ms: int) -> float | None:
    from pyjms.spark.pipelines import NEWEST

    row = observed.get(NEWEST)
    newest_ms = None if row is None else row["newest_ms"]
    # A sender's clock may be ahead of this machine's.
    return None if newest_ms is None else max(0.0, (ended_ms - newest_ms) / 1000)


def _left(sources: Any) -> int | None:
    numbers = [_number(source[name]) for source in sources for name in ("latestOffset", "endOffset")]
    # An offset is missing until the planner has opened its source, and only a single source has one difference.
    if len(numbers) != 2 or numbers[0] is None or numbers[1] is None:
        return None
    return max(0, numbers[0] - numbers[1])


def _number(offset: Any) -> int | None:
    data = json.loads(offset) if isinstance(offset, str) else offset
    return data.get("seq") if isinstance(data, dict) else None


class Meter(ABC):
    """Receives the figures of each batch. Not thread-safe."""

    @abstractmethod
    def hear(self, done: BatchDone) -> None:
        """Record a batch. Raises `OSError`."""


class _Deaf(Meter):
    def hear(self, done: BatchDone) -> None:
        """Do nothing: no metrics are requested."""


class _Lines(Meter):
    def __init__(self, out: IO[str]) -> None:
        self._out = out

    def hear(self, done: BatchDone) -> None:
        self._out.write(json.dumps(asdict(done)) + "\n")
        # Flushed line by line, so that a program that follows the file sees each batch.
        self._out.flush()


class _Prometheus(Meter):
    """Counters and gauges of one pipeline; `path`: a file that is replaced after each batch."""

    def __init__(self, registry: CollectorRegistry, path: Path | None = None) -> None:
        from prometheus_client import Counter, Gauge

        labels = ("pipeline", "name")

        def named(kind: Any, name: str, text: str) -> Any:
            return kind(f"pyjms_pipeline_{name}", text, labels, registry=registry)

        self._registry = registry
        self._path = path
        self._in = named(Counter, "messages_in", "Messages read by batches that are done.")
        self._out = named(Counter, "messages_out", "Messages written by batches that are done.")
        self._batches = named(Counter, "batches", "Batches done.")
        self._seconds = named(Gauge, "last_batch_seconds", "How long the last batch took.")
        self._ended = named(Gauge, "last_batch_time_seconds", "When the last batch was done, in seconds since 1970.")
        self._lag = named(Gauge, "lag_seconds", "How long before that its newest message had been sent.")
        self._left = named(Gauge, "left", "Messages known to come and not done.")

    def hear(self, done: BatchDone) -> None:
        from prometheus_client import write_to_textfile

        labels = (done.pipeline, done.name)
        self._in.labels(*labels).inc(done.messages_in)
        self._out.labels(*labels).inc(done.messages_out)
        self._batches.labels(*labels).inc()
        self._seconds.labels(*labels).set(done.seconds)
        self._ended.labels(*labels).set(done.ended_ms / 1000)
        for gauge, value in ((self._lag, done.lag_seconds), (self._left, done.left)):
            # A gauge without a value keeps its former one: Prometheus has no NULL, and 0 would mean that nothing
            # remains.
            if value is not None:
                gauge.labels(*labels).set(value)
        if self._path is not None:
            write_to_textfile(str(self._path), self._registry)


@contextmanager
def metering(where: str | None) -> Iterator[Meter]:
    """Yield the meter for a pipeline's batches, until the pipeline ends. Raises `OSError` when the file cannot be
    written or the port not opened, `OptionError` for an invalid port or file.
    """
    port = None if where is None else _PORT.fullmatch(where)
    if where is None:
        yield _Deaf()
    elif where == "-":
        yield _Lines(sys.stdout)
    elif port is not None:
        if int(port["port"]) > _PORT_MAX:
            raise OptionError(f"--metrics {where}: a port is a number up to {_PORT_MAX}")
        with _served(port["host"], int(port["port"])) as meter:
            yield meter
    elif where.endswith(".prom"):
        from prometheus_client import CollectorRegistry

        # Checked now: the file is written after the first batch, when messages have been moved already.
        check_output(Path(where))
        yield _Prometheus(CollectorRegistry(), Path(where))
    else:
        check_lines(Path(where))
        with Path(where).open("a", encoding="utf-8") as out:
            yield _Lines(out)


@contextmanager
def _served(host: str, port: int) -> Iterator[Meter]:
    from prometheus_client import CollectorRegistry, start_http_server

    registry = CollectorRegistry()
    server, thread = start_http_server(port, host, registry)
    try:
        yield _Prometheus(registry)
    finally:
        server.shutdown()
        server.server_close()
        # The port is free when the command ends: a second command may start at once.
        thread.join()

"""What a running pipeline has done, batch by batch, for programs that watch it: ``--metrics`` of the commands.

Lines of JSON, a text file for Prometheus's node exporter, or a port that Prometheus asks; the form of what is written after
``--metrics`` decides. docs/how-to/pipelines.md lists what each number means.
"""

from __future__ import annotations

import json
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from pyjms.spark.asking import check_lines, check_output
from pyjms.spark.errors import OptionError

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

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
    """Written: of a route, with copies for several targets."""
    seconds: float
    """How long the batch took."""
    ended_ms: int
    """When it was done, in milliseconds since 1970 UTC."""
    lag_seconds: float | None
    """How long before that its newest message had been sent; None: its messages say no time, or the pipeline is a replay."""
    left: int | None
    """How many messages are known to come and not done: of ``--once`` and of a replay all; else those that are reserved."""


def batch_done(pipeline: str, name: str, progress: Any, messages_out: int | None = None) -> BatchDone:
    """Return what Spark's progress report of a query says about its last batch. messages_out: None: as many as came in."""
    seconds = float(progress["durationMs"].get("triggerExecution", 0)) / 1000
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
    return None if newest_ms is None else max(0.0, (ended_ms - newest_ms) / 1000)


def _left(sources: Any) -> int | None:
    numbers = [_number(source[name]) for source in sources for name in ("latestOffset", "endOffset")]
    if len(numbers) != 2 or numbers[0] is None or numbers[1] is None:
        return None
    return max(0, numbers[0] - numbers[1])


def _number(offset: Any) -> int | None:
    data = json.loads(offset) if isinstance(offset, str) else offset
    return data.get("seq") if isinstance(data, dict) else None


class Meter(ABC):
    """Hears of each batch. Use it from one thread."""

    @abstractmethod
    def hear(self, done: BatchDone) -> None:
        """Tell a batch. Raises `OSError`."""


class _Deaf(Meter):
    def hear(self, done: BatchDone) -> None:
        """Do nothing: nobody asked."""


class _Lines(Meter):
    def __init__(self, out: IO[str]) -> None:
        self._out = out

    def hear(self, done: BatchDone) -> None:
        self._out.write(json.dumps(asdict(done)) + "\n")
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
            if value is not None:
                gauge.labels(*labels).set(value)
        if self._path is not None:
            write_to_textfile(str(self._path), self._registry)


@contextmanager
def metering(where: str | None) -> Iterator[Meter]:
    """Give who hears of batches, until the pipeline ends. Raises `OSError` when the file cannot be written or the port
    not opened, `OptionError` for a port that none is, and for a file that cannot be.
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
        thread.join()

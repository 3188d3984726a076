"""The data source with deaths planted: a process of Spark's kills itself, or another one, when it comes to a named point.

Spark's processes import this module. A plant is a file in the folder of option ``plants``, named by the point; what is in it says who
dies. It is gone before the blow falls, so that each strikes once.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSource, InputPartition, WriterCommitMessage
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from pyjms.spark.options import parse_options
from pyjms.spark.schema import SCHEMA
from pyjms.spark.sink import JmsStreamWriter
from pyjms.spark.source import JmsStreamReader

POINTS = (
    "before reserve",
    "reserved",
    "read",
    "writing",
    "staged",
    "before commit",
    "promoted",
    "before acknowledge",
    "acknowledged",
)
MYSELF, JVM, DRIVER = "myself", "jvm", "driver"


def plant(folder: Path, point: str, victim: str = MYSELF) -> None:
    """Let `victim` die at `point`: who comes there, the JVM above, the driver that started that, or a process id."""
    assert point in POINTS
    (folder / point).write_text(victim, encoding="utf-8")


def struck(folder: Path, point: str) -> bool:
    """Say whether the blow has fallen."""
    return not (folder / point).exists()


def reach(folder: str, point: str) -> None:
    """Come to a point."""
    path = Path(folder) / point
    try:
        victim = path.read_text(encoding="utf-8")
        path.unlink()
    except FileNotFoundError:
        return
    os.kill(_process(victim), signal.SIGKILL)


def _process(victim: str) -> int:
    if victim == MYSELF:
        return os.getpid()
    if victim == JVM:
        return _java_above()
    return _parent(_java_above()) if victim == DRIVER else int(victim)


def _java_above() -> int:
    """Return the JVM that this process was started by."""
    pid = os.getppid()
    while pid > 1:
        if Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip() == "java":
            return pid
        pid = _parent(pid)
    raise AssertionError("there is no JVM above this process")


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])


class PlantedReader(JmsStreamReader):
    """The reader with its points. `acknowledge` comes within `latestOffset`."""

    folder = ""

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        planner: Any = self._planner
        acknowledge = planner._acknowledge

        def planted(upto: int) -> None:
            goes_on = upto > planner._low
            if goes_on:
                reach(self.folder, "before acknowledge")
            acknowledge(upto)
            if goes_on:
                reach(self.folder, "acknowledged")

        planner._acknowledge = planted
        try:
            reach(self.folder, "before reserve")
            found = super().latestOffset(start, limit)
        finally:
            planner._acknowledge = acknowledge
        if found != start:
            reach(self.folder, "reserved")
        return found

    def read(self, partition: InputPartition) -> Iterator[Any]:
        for batch in super().read(partition):
            reach(self.folder, "read")
            yield batch


class PlantedWriter(JmsStreamWriter):
    """The writer with its points."""

    folder = ""

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        message = super().write(self._planted(iterator))
        reach(self.folder, "staged")
        return message

    def _planted(self, iterator: Iterator[Any]) -> Iterator[Any]:
        for batch in iterator:
            yield batch
            reach(self.folder, "writing")  # the batch is sent, and not staged

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        reach(self.folder, "before commit")
        super().commit(messages, batchId)
        reach(self.folder, "promoted")


class PlantedSource(DataSource):
    """``format("planted-jms")``."""

    @classmethod
    def name(cls) -> str:
        return "planted-jms"

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: StructType) -> PlantedReader:
        folder, options = self._split()
        reader = PlantedReader(parse_options(options), schema)
        reader.folder = folder
        return reader

    def streamWriter(self, schema: StructType, overwrite: bool) -> PlantedWriter:
        folder, options = self._split()
        writer = PlantedWriter(parse_options(options))
        writer.folder = folder
        return writer

    def _split(self) -> tuple[str, dict[str, Any]]:
        options = dict(self.options)
        return str(options.pop("plants")), options

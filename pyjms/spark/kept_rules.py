"""The rules by which a routing job makes its batches, kept in the folder of its checkpoint.

A batch that was written, and that Spark does not know to be done, comes again when the job is started again. By other rules it would come out as
other rows, which the sink refuses under that number (`pyjms.spark.contents`), again at each start. docs/decisions/0208 says how it is done.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["BatchRules", "KeptRules", "RulesText"]


@dataclass(frozen=True, slots=True)
class RulesText:
    """Rules as they stand in a file."""

    text: str
    name: str
    """The file's name, which says whether it is TOML or JSON."""


class KeptRules:
    """A folder of rules, each in a file that is named after the first batch that was made by them."""

    def __init__(self, session: SparkSession, checkpoint: str) -> None:
        """checkpoint: its folder, a path or a URL of any file system that Spark can write to."""
        spark: Any = session
        self._jvm = spark._jvm  # noqa: SLF001 -- PySpark has no other way to where Spark keeps files
        self._folder = self._jvm.org.apache.hadoop.fs.Path(f"{checkpoint.rstrip('/')}/rules")
        self._files = self._folder.getFileSystem(spark._jsc.hadoopConfiguration())  # noqa: SLF001

    def of(self, epoch: int) -> RulesText | None:
        """Return the rules of a batch that was begun before; None: they were not kept."""
        first = max((int(name) for name in self._names() if name.isdecimal() and int(name) <= epoch), default=None)
        if first is None:
            return None
        stream = self._files.open(self._path(str(first)))
        try:
            found = json.loads(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()
        return RulesText(found["text"], found["name"])

    def keep(self, epoch: int, rules: RulesText) -> None:
        """Keep the rules of this batch and the next ones. What others were made by is of no use any more: only the last batch comes again."""
        place, unfinished = self._path(str(epoch)), self._path(f"_{epoch}")
        stream = self._files.create(unfinished, True)
        try:
            stream.write(bytearray(json.dumps({"text": rules.text, "name": rules.name}).encode()))
        finally:
            stream.close()
        # of an attempt that wrote nothing: not everywhere does a new name replace what has it
        self._files.delete(place, False)
        if not self._files.rename(unfinished, place):
            raise OSError(
                f"the rules of batch {epoch} cannot be kept as {place}: see who may write there, and start again"
            )
        for name in self._names():
            if name != str(epoch):
                self._files.delete(self._path(name), False)

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._folder, name)

    def _names(self) -> list[str]:
        if not self._files.exists(self._folder):
            return []
        return [str(status.getPath().getName()) for status in self._files.listStatus(self._folder)]


class BatchRules:
    """Chooses the rules of each batch of one run of a job."""

    def __init__(self, kept: KeptRules) -> None:
        self._kept = kept
        self._is_first = True
        self._last: RulesText | None = None

    def of(self, epoch: int, now: RulesText, is_written: Callable[[], bool]) -> RulesText:
        """Return the rules of a batch, once they are kept: those of `now`, or those that it was written by.

        is_written: asks whether the sink has written the batch; called for the first of a run, as only that one may be a repetition.
        """
        is_first, self._is_first = self._is_first, False
        former = self._kept.of(epoch) if is_first and is_written() else None
        if former is not None:
            return former
        if now != self._last:
            self._kept.keep(epoch, now)
            self._last = now
        return now

"""Rules applied to rows: the part of a routing job that each worker runs, apart from Spark."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyjms.routing.compiled import CompiledRules
from pyjms.routing.reading import Problem, RulesError, parse_document, read_rules
from pyjms.routing.runner import transformed
from pyjms.routing.transformers import TransformerError
from pyjms.spark.messages import envelope_of
from pyjms.spark.options import RowError, parse_address
from pyjms.spark.schema import row_of
from pyjms.spi.envelope import Address, Envelope
from pyjms.spi.replay import ReservedMessage
from pyjms.spi.words import reason_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# The rules that a routing job applies to its batches, stored in the folder of its checkpoint. A batch that was written,
# but not yet committed in Spark's log, is repeated when the job restarts. Other rules would make other rows of it,
# which the sink refuses under that number (`pyjms.spark.writing`) at each start. docs/decisions/0208 has the solution.


@dataclass(frozen=True, slots=True)
class RulesText:
    """The text of a rules file."""

    text: str
    name: str
    """The file's name, which says whether it is TOML or JSON."""


class KeptRules:
    """A folder of rules files, each named after the first batch to which it was applied."""

    def __init__(self, session: SparkSession, checkpoint: str) -> None:
        """checkpoint: the folder of the checkpoint, a path or a URL of any file system that Spark can write to."""
        spark: Any = session
        self._jvm = spark._jvm  # noqa: SLF001 -- PySpark has no other way to where Spark keeps files
        self._folder = self._jvm.org.apache.hadoop.fs.Path(f"{checkpoint.rstrip('/')}/rules")
        self._files = self._folder.getFileSystem(spark._jsc.hadoopConfiguration())  # noqa: SLF001

    def of(self, epoch: int) -> RulesText | None:
        """Return the rules of a batch that was begun before; None if they were not stored."""
        # A file is named after the first batch with its rules, and applies to the following ones.
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
        """Store the rules of this batch and the next ones, and delete former rules: only the last batch can be
        repeated.
        """
        place, unfinished = self._path(str(epoch)), self._path(f"_{epoch}")
        # Written under another name first: after a crash, a truncated file would be taken for the rules.
        stream = self._files.create(unfinished, True)
        try:
            stream.write(bytearray(json.dumps({"text": rules.text, "name": rules.name}).encode()))
        finally:
            stream.close()
        # an earlier attempt may have left the file: not every file system replaces the target of a rename
        self._files.delete(place, False)
        if not self._files.rename(unfinished, place):
            raise OSError(
                f"the rules of batch {epoch} cannot be kept as {place}: see who may write there, and start again"
            )
        # After the rename: the former rules are needed until the new ones are safe.
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
        """Return the rules of a batch, once they are stored: `now`, or those with which it was written before.

        is_written: asks whether the sink has written the batch; called for the first batch of a run, as only that one
        may be a repetition.
        """
        # Spark repeats at most one batch, the first of a run; asking the sink about the others would cost a call for
        # each.
        is_first, self._is_first = self._is_first, False
        # A batch that was planned and not written follows the present rules: otherwise rules that a target refuses
        # could never be corrected.
        former = self._kept.of(epoch) if is_first and is_written() else None
        if former is not None:
            return former
        # The rules are stored before their first batch is written, and not again while they stay the same.
        if now != self._last:
            self._kept.keep(epoch, now)
            self._last = now
        return now


REASON = "pyjms_undeliverable_reason"
"""The property that says why a message matched no rule."""


def decider_of(given: RulesText) -> Callable[[Envelope, Address], list[Envelope]]:
    """Return a function from a message and the destination of unmatched messages to the messages that the rules make of
    it.

    Raises `RulesError`, also for rules that name other brokers: a job writes to one.
    """
    rules = read_rules(*parse_document(given.text, given.name))
    for target, spec in rules.targets.items():
        if spec.url is not None:
            problem = Problem(
                f"target {target}", "it has a url, but a job on Spark writes to the broker that it reads from", None
            )
            raise RulesError((problem,))
    compiled = CompiledRules(rules)

    def decide(envelope: Envelope, unwanted: Address) -> list[Envelope]:
        choices = compiled.decide(envelope)
        made: list[Envelope] = []
        for choice in choices:
            try:
                changed = envelope if choice.rule is None else transformed(choice.rule, envelope)
            except TransformerError as error:
                # The results of the other rules are dropped, too: a message goes to all of its targets or to none.
                return [_aside(envelope, unwanted, str(error))]
            made.append(replace(changed, destination=rules.targets[choice.target].address))
        # A tap is among the choices and does not count: its copy does not make a message matched.
        if not compiled.is_wanted(choices):
            made.append(_aside(envelope, unwanted, "no rule wants it"))
        return made

    return decide


def _aside(envelope: Envelope, unwanted: Address, reason: str) -> Envelope:
    return replace(envelope, destination=unwanted, properties={**envelope.properties, REASON: reason})


def routing_function(
    rules: RulesText, unwanted: str, count: Callable[[int], object] | None = None
) -> Callable[[Iterable[Any]], Iterator[tuple[Any, ...]]]:
    """Return what ``mapPartitions`` takes: from rows to tuples with the columns of `COLUMNS`, moments in microseconds.

    A row that cannot become a message goes to the destination of unmatched messages, and so does a message for which a
    transformer fails: it would stop the job for ever. count: called with the number of tuples made of each row. Not
    ``mapInArrow``, which wants pandas (PySpark 4.3).
    """

    def function(rows: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
        # Compiled in the worker: only the text of the rules is pickled.
        decide, place = decider_of(rules), parse_address(unwanted)
        for row in rows:
            values = row.asDict()
            # The envelope's body has to be immutable.
            if values["bytes"] is not None:
                values["bytes"] = bytes(values["bytes"])  # Spark gives a bytearray
            found = _made_of(values, decide, place)
            if count is not None:
                count(len(found))
            yield from found

    return function


def _made_of(
    values: Mapping[str, Any], decide: Callable[[Envelope, Address], list[Envelope]], place: Address
) -> list[tuple[Any, ...]]:
    try:
        envelope = envelope_of(values)
    except RowError as error:
        return [_tuple(values, _stand_in(values, place, error.reason))]
    made = decide(envelope, place)
    try:
        return [_tuple(values, each) for each in made]
    # A transformer is user code, and one bad message must not stop the job at each start.
    except Exception as error:  # a transformer may return anything
        reason = f"what the rules make of it is no message: {reason_of(error)}"
        return [_tuple(values, _aside(envelope, place, reason))]


def _tuple(values: Mapping[str, Any], made: Envelope) -> tuple[Any, ...]:
    return tuple(row_of(ReservedMessage(number=values["seq"], envelope=made, count=1, redelivered=False)).values())


def _stand_in(values: Mapping[str, Any], place: Address, reason: str) -> Envelope:
    """Return a message whose text has, as JSON, all columns of a row that cannot become a message."""
    # `default` is only called for types that JSON lacks; here these are bytes.
    told = json.dumps(values, default=lambda value: b64encode(value).decode(), ensure_ascii=False)
    kept = {name: values.get(name) for name in ("message_id", "timestamp")}
    return envelope_of({**kept, "text": told, "properties": {REASON: f"no message: {reason}"}}, place)

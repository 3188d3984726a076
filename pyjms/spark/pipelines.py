"""The pipelines that people run: archive a destination, replay an archive, route by rules. Functions on a Spark session.

Each is exactly once with the pyjms broker; docs/reference/spark.md has the guarantees with other brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyjms.spark.archives import check_form, check_place, read_archive
from pyjms.spark.jobs import note_terms, promote, promoted, promoted_by_query, terms_of
from pyjms.spark.options import OptionError, check_condition, check_every, check_folder, check_job
from pyjms.spark.places import make_folder
from pyjms.spark.routed import BatchRules, KeptRules, RulesText, decider_of, routing_function
from pyjms.spark.schema import COLUMNS
from pyjms.spark.writing import mark_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

NEWEST = "newest"
"""Name, in progress reports, of the time of a batch's newest message: `newest_ms`, in milliseconds since 1970 UTC."""
_ORDER = ("destination", "seq", "timestamp", "message_id")
"""The order of a replay. Numbers repeat where a group had several generations, and equal rows would come in a different
order each time: the portions of an interrupted replay would not fit together."""
_ROUTE = "route"
_TIMES = tuple(name for name, kind in COLUMNS.items() if kind == "timestamp")
_MICROS_OF = {name: f"unix_micros(`{name}`) AS `{name}`" for name in _TIMES}
_OF_MICROS = {name: f"timestamp_micros(`{name}`) AS `{name}`" for name in _TIMES}
_SCHEMA_IN_MICROS = ", ".join(f"`{name}` {'bigint' if name in _TIMES else kind}" for name, kind in COLUMNS.items())


def archive(
    session: SparkSession,
    directory: str,
    *,
    url: str,
    destination: str,
    group: str,
    checkpoint: str | None = None,
    form: str = "parquet",
    once: bool = False,
    every: str = "1 second",
    **options: object,
) -> StreamingQuery:
    """Start to move the messages of `destination` into files below `directory`, in a folder for each day.

    group: the name under which the broker holds messages that are not in files yet. checkpoint: the folder of Spark's
    checkpoint; None: ``DIRECTORY-checkpoint``. form: one of `pyjms.spark.archives.FORMS`. once: end when all messages
    present at the start are in files. every: how often files are written. options: more of the source's.

    Raises `DataLossError` when the folder has later batches than the checkpoint, which then is new or an old copy;
    `OptionError` for an unknown format, an invalid `every`, and a folder that cannot be written to.
    """
    check_form(form)
    check_every(every)
    place = f"{directory.rstrip('/')}-checkpoint" if checkpoint is None else checkpoint
    for folder in (directory, place):
        check_folder(folder)
        make_folder(session, folder)
    # After the folders are made and before the query starts: Spark would skip the batches and acknowledge their
    # messages.
    check_place(session, directory, place)
    given = {"url": url, "destination": destination, "readerGroup": group, **options}
    rows = _noted(session.readStream.format("jms").options(**_texts(given)).load())
    writer = (
        # `to_date` uses the session's zone, which `make_session` sets to UTC:
        # folders must not depend on where they are made.
        rows.selectExpr("*", "to_date(timestamp) AS day")
        .writeStream.format(form)
        .partitionBy("day")
        .queryName(f"archive-{group}")
        .option("path", directory)
        .option("checkpointLocation", place)
    )
    return (writer.trigger(availableNow=True) if once else writer.trigger(processingTime=every)).start()


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """The progress of a replay."""

    messages: int
    """Messages that the job has sent up to this portion, in former runs, too."""
    of: int
    epoch: int
    is_new: bool
    """Whether this run sent the portion; False: a former run had sent it."""


def replay(
    session: SparkSession,
    directory: str,
    *,
    url: str,
    job: str,
    destination: str | None = None,
    where: str | None = None,
    form: str = "parquet",
    per_second: int | None = None,
    wait: Callable[[float], object] | None = None,
    **options: object,
) -> Iterator[Replayed]:
    """Send the messages of an archive in their order; yield after each portion. With `per_second`, a portion is sent each second.

    job: the name of this replay. Messages that were sent are not sent again, so an interrupted replay is started again
    under the same name, with the same archive, condition, rate and destination; other values are refused, and a replay
    that selects no messages does not use the name up. destination: None: each message goes to its original destination.
    Properties, types, JMSMessageID and JMSTimestamp are those of the archive, unless ``headers="new"``; they have no
    time to live, as most would have expired. wait: waits so many seconds; an event's ``wait`` lets another thread end
    it. Raises `OptionError` for a job that was started with other values.
    """
    check_job(job)
    job = job.strip()  # in the form in which the sink has it
    from pyspark.sql.functions import lit

    rows = chosen_of(session, directory, where=where, form=form).drop("day")
    # The sink skips expired rows, and most rows of an archive have expired.
    ordered = rows.withColumn("expiration", lit(None).cast("timestamp")).orderBy(*_ORDER)
    given = {"headers": "keep", **options}
    # Counted before anything is sent: the number is part of the terms, and an empty selection does not use up the job's
    # name.
    total = ordered.count()
    if total == 0:
        yield Replayed(messages=0, of=0, epoch=0, is_new=False)
        return
    known = {"url": url} | {name: str(value) for name, value in options.items() if name == "credentials"}
    # The terms are stored as 20 bits beside the marker, like the content of an epoch (decision 0208).
    terms = mark_of(repr((_place(directory), where, per_second, destination, total)))
    done = promoted(job, **known)
    # None: the former run died between its first portion and the note, or the broker keeps no notes.
    if done is not None and terms_of(job, **known) not in (None, terms):
        raise OptionError(_other_terms(job))
    if per_second is None:
        if done is None:
            promote(ordered, 0, sink_id=job, url=url, destination=destination, **given)
            # After the promotion: a job that could not send anything may be started again with other values.
            note_terms(job, terms, **known)
        yield Replayed(messages=total, of=total, epoch=0, is_new=done is None)
        return
    # `zipWithIndex` numbers without holes in the order of the sort; Spark's SQL
    # functions have holes, or need one partition.
    placed = _in_micros(ordered).rdd.zipWithIndex().map(_with_place).toDF(f"{_SCHEMA_IN_MICROS}, place bigint")
    # Cached, as each portion would read and sort the whole archive.
    numbered = _of_micros(placed, "place").cache()
    try:
        # Division rounded up: the last portion may be smaller.
        for epoch in range(-(-total // per_second)):
            first = epoch * per_second
            sent = min(total, first + per_second)
            # Portions that were sent are reported and not sent again: the sink would refuse epochs below its marker.
            if done is not None and epoch <= done:
                yield Replayed(messages=sent, of=total, epoch=epoch, is_new=False)
                continue
            portion = numbered.where(f"place >= {first} AND place < {first + per_second}").drop("place")
            promote(portion, epoch, sink_id=job, url=url, destination=destination, **given)
            note_terms(job, terms, **known)
            yield Replayed(messages=sent, of=total, epoch=epoch, is_new=True)
            # No wait after the last portion.
            if wait is not None and sent < total:
                wait(1.0)
    finally:
        numbered.unpersist()


def chosen_of(session: SparkSession, directory: str, *, where: str | None, form: str) -> DataFrame:
    """Return the messages that a replay sends. Raises `OptionError` for a condition that would select others in a later
    run.
    """
    rows = read_archive(session, directory, where=where, form=form)
    if where is not None:
        check_condition(rows, where)
    return rows


def _place(directory: str) -> str:
    """Return an archive's place in a normal form; a URL as it is."""
    return directory.rstrip("/") if ":" in directory else str(Path(directory).resolve())


def _other_terms(job: str) -> str:
    return (
        f"the job {job} has sent already, of another archive, condition, rate or destination, or the archive has other messages by now: "
        "nothing was sent. Start it again as it was begun, or give what is to be sent now a job of a new name"
    )


def _with_place(numbered: tuple[Any, int]) -> tuple[Any, ...]:
    row, place = numbered
    return (*(row[name] for name in COLUMNS), place)


class Rules:
    """The rules of a file, read again when it has changed; wrong rules are refused, and the former rules stay in force."""

    def __init__(self, file: Path, told: Callable[[str], None] | None = None) -> None:
        """`told` is called with the reason when rules are refused, and when former rules are in use. Raises
        `pyjms.routing.reading.RulesError` if the first rules are wrong.
        """
        self._file = file
        self._told = told
        self._in_force = RulesText(file.read_text(encoding="utf-8"), file.name)
        # Compiled at once, to refuse wrong rules at the start: in a worker they would only appear as a failed task.
        decider_of(self._in_force)

    def reload_if_changed(self) -> RulesText:
        """Return the rules in force; read the file if it has changed."""
        try:
            found = RulesText(self._file.read_text(encoding="utf-8"), self._file.name)
            if found != self._in_force:
                decider_of(found)
                self._in_force = found
        # A file may be read while an editor replaces it; a running route must not stop for that.
        except (OSError, ValueError) as error:
            self.tell(f"the rules of {self._file} are refused, those before stay in force: {error}")
        return self._in_force

    def tell(self, text: str) -> None:
        """Pass a text to the application's callback."""
        if self._told is not None:
            self._told(text)


def route(
    session: SparkSession,
    rules: Rules,
    *,
    url: str,
    source: str,
    group: str,
    checkpoint: str,
    once: bool = False,
    every: str = "1 second",
    options: Mapping[str, object] | None = None,
    made: Callable[[int, int], None] | None = None,
) -> StreamingQuery:
    """Start to send each message of `source` to the destinations that the rules choose, at the same broker, exactly
    once.

    Changed rules apply from the next batch on. The rules of a batch are stored with the checkpoint: a batch that was
    written but is repeated, as Spark does not know that, uses its own rules again. A message that no rule matches goes
    to the queue ``GROUP.undeliverable``. made: called with the number of each batch, and how many messages the rules
    made of it. Raises `OptionError` for an invalid `every`, and for a checkpoint that cannot be written to.
    """
    check_every(every)
    check_folder(checkpoint)
    make_folder(session, checkpoint)
    given = {"url": url, "destination": source, "readerGroup": group, **(options or {})}
    rows = _noted(session.readStream.format("jms").options(**_texts(given)).load())
    sink = {name: str(value) for name, value in given.items() if name in ("url", "credentials")}
    unwanted = f"queue:{group}.undeliverable"
    count = session.sparkContext.accumulator(0)
    # One for each run: the first batch after a start is the one that may be a repetition.
    choosing = BatchRules(KeptRules(session, checkpoint))

    def write(batch: DataFrame, epoch: int) -> None:
        def is_written() -> bool:
            return promoted_by_query(batch, sink_id=_ROUTE, **sink) == epoch

        # Once for each batch, so that all of its rows are made by the same rules.
        now = rules.reload_if_changed()
        chosen = choosing.of(epoch, now, is_written)
        if chosen != now:
            rules.tell(
                f"batch {epoch} was written by the rules before, and ends by them; those of now count from the next one on"
            )
        # The accumulator only grows, so a batch's share is a difference; tasks that are repeated count twice.
        before = count.value
        made_of = _routed(batch, chosen, unwanted, count.add)
        # The headers are kept, as routing makes no new messages: JMSMessageID and JMSTimestamp are the sender's.
        promote(made_of, epoch, sink_id=_ROUTE, headers="keep", **sink)
        if made is not None:
            made(epoch, count.value - before)

    writer = rows.writeStream.foreachBatch(write).queryName(f"route-{group}").option("checkpointLocation", checkpoint)
    return (writer.trigger(availableNow=True) if once else writer.trigger(processingTime=every)).start()


def would_go(
    session: SparkSession,
    rules: Rules,
    *,
    url: str,
    source: str,
    group: str,
    options: Mapping[str, object] | None = None,
) -> dict[str, int]:
    """Return, for each destination, how many of the messages now in `source` the rules would send there. Changes
    nothing.
    """
    given = {"url": url, "destination": source, **(options or {})}
    rows = session.read.format("jms").options(**_texts(given)).load()
    counted = (
        _routed(rows, rules.reload_if_changed(), f"queue:{group}.undeliverable")
        .groupBy("destination")
        .count()
        .orderBy("destination")
    )
    return {row["destination"]: row["count"] for row in counted.collect()}


def _noted(rows: DataFrame) -> DataFrame:
    """Return `rows`, and add the time of the newest one to the progress reports of their query."""
    from pyspark.sql.functions import expr

    return rows.observe(NEWEST, expr("unix_millis(max(timestamp)) AS newest_ms"))


def _routed(
    batch: DataFrame, rules: RulesText, unwanted: str, count: Callable[[int], object] | None = None
) -> DataFrame:
    """Return the rows that the rules make of `batch`; `count` gets their number, bit by bit."""
    made = _in_micros(batch).rdd.mapPartitions(routing_function(rules, unwanted, count))
    # Not verified: `row_of` makes the types that the columns have, and verifying each value would be a third of the
    # work of routing.
    table = batch.sparkSession.createDataFrame(made, _SCHEMA_IN_MICROS, verifySchema=False)
    return _of_micros(table)


def _in_micros(rows: DataFrame) -> DataFrame:
    """Return `rows` with moments as microseconds: Python would take them for local time, which repeats an hour each
    autumn.
    """
    return rows.selectExpr(*(_MICROS_OF.get(name, f"`{name}`") for name in COLUMNS))


def _of_micros(rows: DataFrame, *more: str) -> DataFrame:
    return rows.selectExpr(*(_OF_MICROS.get(name, f"`{name}`") for name in COLUMNS), *more)


def _texts(options: Mapping[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in options.items()}

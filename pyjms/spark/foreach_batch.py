"""For those who write with ``foreachBatch``: the sink's three steps from a plain function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms.spark.jobs import promoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["QUERY_ID", "name_in_query", "promote", "promoted_by_query"]

QUERY_ID = "sql.streaming.queryId"
"""The local property by which Spark tells tasks, and who is called with a batch, which query it is."""


def name_in_query(sink_id: str, query: str) -> str:
    """Return the name under which a query writes.

    It has the query's id: both begin anew with the checkpoint, and epochs that began anew under an old name would be taken for repetitions.
    """
    return f"{sink_id}-{query}"


def promoted_by_query(batch: DataFrame, *, sink_id: str, url: str, credentials: str | None = None) -> int | None:
    """Return the last epoch that the query of `batch` has written with `promote`; None: none, or it is not known. Raises `ProviderError`."""
    query = batch.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
    return None if query is None else promoted(name_in_query(sink_id, query), url=url, credentials=credentials)


def promote(
    df: DataFrame, epoch: int, *, sink_id: str, url: str, destination: str | None = None, **options: object
) -> None:
    """Write `df` as the messages of one epoch, once: an epoch that is repeated writes nothing.

    epoch: the second argument of the function given to ``foreachBatch``.
    sink_id: a name that nobody else writes under. Within a query the sink's name is this and the query's id, so that a new checkpoint, with which
    epochs begin anew, makes a new sink; a plain thread that was started there must be one of `pyspark.InheritableThread`.
    destination: ``queue:NAME`` or ``topic:NAME``; None: the rows have a column `destination`.
    options: more options of the sink, as docs/reference/spark.md has them.

    Raises Spark's errors; all or nothing is visible then, and the same call may be made again.

        query = rows.writeStream.foreachBatch(lambda df, epoch: promote(df, epoch, sink_id="orders-out", url=url)).start()
    """
    given: dict[str, object] = {**options, "url": url, "sinkId": sink_id, "epoch": epoch}
    if destination is not None:
        given["destination"] = destination
    df.write.format("jms").options(**{name: str(value) for name, value in given.items()}).mode("append").save()

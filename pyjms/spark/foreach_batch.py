"""For those who write with ``foreachBatch``: the sink's three steps from a plain function."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["promote"]


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

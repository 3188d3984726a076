"""What an application says about the messages that the broker holds for it: done with, or given back; and a look at who holds what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyjms.spark.connecting import Link, link_of, require
from pyjms.spark.options import parse_options
from pyjms.spark.writing import note, noted
from pyjms.spi.capability import Capability
from pyjms.spi.errors import GroupError
from pyjms.spi.provider import ProviderConnection
from pyjms.spi.replay import GroupRequest, ReaderGroup, ReaderGroups

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def acknowledge(job_id: str, *, url: str, credentials: str | None = None) -> int:
    """Settle all messages that ``mode=reserve`` holds for a job, and forget the job. Return how many messages that were.

    To be called when the job's output is safe; again it does nothing and returns 0. Raises `ProviderError`.
    """
    # The list tells the group's client id, which a connection must have to open a group of a durable subscription.
    group = next((each for each in groups(url=url, credentials=credentials) if each.name == job_id), None)
    # An acknowledgement that is repeated after a crash of the caller finds no group: it was released the first time.
    if group is None:
        return 0
    link = _link(url, credentials, group.client_id)
    return link.call(lambda connection: _acknowledge(_groups_of(connection), group))


def _acknowledge(found: ReaderGroups, group: ReaderGroup) -> int:
    request = GroupRequest(
        name=group.name, address=group.address, subscription=group.subscription, selector=group.selector
    )
    # Opened again with its own terms: the fence now belongs to this call, and a
    # job that still reserves messages is stopped.
    opened = found.open(request)
    # Counted before the acknowledgement, which moves the low mark.
    held = opened.group.high - opened.group.low
    found.acknowledge(opened, opened.group.high)
    try:
        found.release(group.name)
    except GroupError:
        return held  # somebody did the same at the same time
    return held


def release(name: str, *, url: str, credentials: str | None = None) -> int:
    """Give back what the broker holds for a job or a reader group, marked redelivered. Return how many messages that were.

    A query of this group cannot go on from its checkpoint then, unless it says ``failOnDataLoss=false``. Raises `GroupError` when
    there is no such group.
    """
    return _link(url, credentials).call(lambda connection: _groups_of(connection).release(name))


def groups(*, url: str, credentials: str | None = None) -> Sequence[ReaderGroup]:
    """Return all reader groups of the broker, by name: what each reads, and how much it holds. Raises `ProviderError`."""
    return _link(url, credentials).call(lambda connection: _groups_of(connection).groups())


def promoted(sink_id: str, *, url: str, credentials: str | None = None) -> int | None:
    """Return the last epoch that was written under `sink_id`; None: none, or the broker keeps no such note. Raises `ProviderError`."""
    name = (
        parse_options({"url": url, "sinkId": sink_id}).sink_id or sink_id
    )  # without blanks around it, as the sink writes it

    def ask(connection: ProviderConnection) -> int | None:
        return connection.stages().marker(name) if Capability.STAGE in connection.capabilities else None

    return _link(url, credentials).call(ask)


def check_broker(*, url: str, credentials: str | None = None) -> None:
    """Look whether the broker is there, and knows the user. Raises `ProviderError`, after half a minute if it is away."""
    _link(url, credentials).call(lambda connection: connection.info)


def note_terms(job: str, mark: int, *, url: str, credentials: str | None = None) -> None:
    """Keep what a replay was begun with, where the broker keeps such notes; the first note stays. Raises `ProviderError`."""

    def keep(connection: ProviderConnection) -> None:
        if Capability.STAGE in connection.capabilities:
            note(connection.stages(), _replay(job), 0, mark)

    _link(url, credentials).call(keep)


def terms_of(job: str, *, url: str, credentials: str | None = None) -> int | None:
    """Return what `note_terms` keeps; None: it is not known. Raises `ProviderError`."""

    def ask(connection: ProviderConnection) -> int | None:
        return noted(connection.stages(), _replay(job), 0) if Capability.STAGE in connection.capabilities else None

    return _link(url, credentials).call(ask)


def _replay(job: str) -> str:
    return f"replay:{job}"


def _groups_of(connection: ProviderConnection) -> ReaderGroups:
    require(connection, Capability.REPLAY, "only a broker that has them holds messages for jobs")
    return connection.reader_groups()


def _link(url: str, credentials: str | None, client_id: str | None = None) -> Link:
    given = {"url": url, "credentials": credentials, "clientId": client_id}
    options = parse_options({name: value for name, value in given.items() if value is not None})
    return link_of(options, with_client_id=client_id is not None)


# For those who write with ``foreachBatch``: the sink's three steps from a plain function.

QUERY_ID = "sql.streaming.queryId"
"""The local property by which Spark tells tasks, and who is called with a batch, which query it is."""


def name_in_query(sink_id: str, query: str) -> str:
    """Return the name under which a query writes.

    It has the query's id: both begin anew with the checkpoint, and epochs that began anew under an old name would be taken for repetitions.
    """
    return f"{sink_id}-{query}"


def promoted_by_query(batch: DataFrame, *, sink_id: str, url: str, credentials: str | None = None) -> int | None:
    """Return the last epoch that the query of `batch` has written with `promote`; None: none, or it is not known. Raises `ProviderError`."""
    # A local property is bound to the thread, so this works in the thread that Spark calls with the batch.
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

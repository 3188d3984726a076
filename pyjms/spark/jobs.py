"""Functions for applications about the messages that the broker holds for a job or group: acknowledge them, release
them, and list the groups.
"""

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
    """Settle all messages that ``mode=reserve`` holds for a job, and forget the job. Return the number of messages.

    Call it when the job's output is safe; a repeated call does nothing and returns 0. Raises `ProviderError`.
    """
    # The list contains the group's client id, which a connection must have to open a group of a durable subscription.
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
    # Opened again with its own terms: this call then has the highest fence, and a job that still reserves messages is
    # stopped.
    opened = found.open(request)
    # Counted before the acknowledgement, which moves the low mark.
    held = opened.group.high - opened.group.low
    found.acknowledge(opened, opened.group.high)
    try:
        found.release(group.name)
    except GroupError:
        return held  # another caller did the same at the same time
    return held


def release(name: str, *, url: str, credentials: str | None = None) -> int:
    """Release the messages that the broker holds for a job or a reader group, marked redelivered. Return their number.

    Afterwards a query of this group cannot continue from its checkpoint, except with ``failOnDataLoss=false``. Raises
    `GroupError` when there is no such group.
    """
    return _link(url, credentials).call(lambda connection: _groups_of(connection).release(name))


def groups(*, url: str, credentials: str | None = None) -> Sequence[ReaderGroup]:
    """Return all reader groups of the broker, by name: what each reads, and how much it holds. Raises `ProviderError`."""
    return _link(url, credentials).call(lambda connection: _groups_of(connection).groups())


def promoted(sink_id: str, *, url: str, credentials: str | None = None) -> int | None:
    """Return the last epoch written under `sink_id`; None if there is none, or if the broker keeps no such markers.
    Raises `ProviderError`.
    """
    name = (
        parse_options({"url": url, "sinkId": sink_id}).sink_id or sink_id
    )  # without surrounding blanks, as the sink writes it

    def ask(connection: ProviderConnection) -> int | None:
        return connection.stages().marker(name) if Capability.STAGE in connection.capabilities else None

    return _link(url, credentials).call(ask)


def check_broker(*, url: str, credentials: str | None = None) -> None:
    """Check that the broker is reachable and accepts the user. Raises `ProviderError`; for an unreachable broker after
    half a minute.
    """
    _link(url, credentials).call(lambda connection: connection.info)


def note_terms(job: str, mark: int, *, url: str, credentials: str | None = None) -> None:
    """Store the terms of a replay, if the broker keeps such notes; an earlier note stays. Raises `ProviderError`."""

    def keep(connection: ProviderConnection) -> None:
        if Capability.STAGE in connection.capabilities:
            note(connection.stages(), _replay(job), 0, mark)

    _link(url, credentials).call(keep)


def terms_of(job: str, *, url: str, credentials: str | None = None) -> int | None:
    """Return the terms that `note_terms` stored; None if they are not known. Raises `ProviderError`."""

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


# For applications that write with ``foreachBatch``: the sink's three steps as a plain function.

QUERY_ID = "sql.streaming.queryId"
"""The local property by which Spark tells tasks, and the function that gets a batch, which query runs."""


def name_in_query(sink_id: str, query: str) -> str:
    """Return the sink's name for a query.

    It contains the query's id: a new checkpoint starts a new query and new epochs, which would be taken for repetitions
    under the old name.
    """
    return f"{sink_id}-{query}"


def promoted_by_query(batch: DataFrame, *, sink_id: str, url: str, credentials: str | None = None) -> int | None:
    """Return the last epoch that the query of `batch` has written with `promote`; None if there is none, or it is not
    known. Raises `ProviderError`.
    """
    # A local property is bound to the thread, so this works in the thread that Spark calls with the batch.
    query = batch.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
    return None if query is None else promoted(name_in_query(sink_id, query), url=url, credentials=credentials)


def promote(
    df: DataFrame, epoch: int, *, sink_id: str, url: str, destination: str | None = None, **options: object
) -> None:
    """Write `df` as the messages of one epoch, once: an epoch that is repeated writes nothing.

    epoch: the second argument of the function given to ``foreachBatch``. sink_id: a name that no other program writes
    under. Within a query the sink's name is this and the query's id, so that a new checkpoint, with which epochs start
    again, makes a new sink; a thread that the function starts must be a `pyspark.InheritableThread`. destination:
    ``queue:NAME`` or ``topic:NAME``; None: the rows have a column `destination`. options: more options of the sink, as
    docs/reference/spark.md has them.

    Raises Spark's errors; the epoch is then visible as a whole or not at all, and the same call may be repeated.

        query = rows.writeStream.foreachBatch(lambda df, epoch: promote(df, epoch, sink_id="orders-out", url=url)).start()
    """
    given: dict[str, object] = {**options, "url": url, "sinkId": sink_id, "epoch": epoch}
    if destination is not None:
        given["destination"] = destination
    df.write.format("jms").options(**{name: str(value) for name, value in given.items()}).mode("append").save()

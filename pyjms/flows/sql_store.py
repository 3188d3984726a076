"""The store of workflows in a database: SQLite, PostgreSQL, or another that SQLAlchemy supports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from pyjms.flows.codec import read_flow_document, read_instance, write_flow_document, write_instance
from pyjms.flows.definition import Flow, FlowException, FlowStoreException
from pyjms.flows.instance import Instance, Status
from pyjms.flows.store import FlowStore
from pyjms.spi.workflows import InstanceOrder

_metadata = sa.MetaData()
_flows = sa.Table(
    "pyjms_flows",
    _metadata,
    sa.Column("name", sa.Unicode(64), primary_key=True),
    sa.Column("version", sa.Integer, primary_key=True),
    sa.Column("document", sa.UnicodeText, nullable=False),
)
_instances = sa.Table(
    "pyjms_flow_instances",
    _metadata,
    sa.Column("id", sa.Unicode(100), primary_key=True),
    sa.Column("flow", sa.Unicode(64), nullable=False),
    sa.Column("status", sa.Unicode(20), nullable=False, index=True),
    sa.Column("revision", sa.BigInteger, nullable=False),
    sa.Column("due_ms", sa.BigInteger, nullable=False, index=True),
    sa.Column("changed_ms", sa.BigInteger, nullable=False, index=True),
    sa.Column("document", sa.UnicodeText, nullable=False),
    # For pages of one definition, and counts, without reading all ended instances.
    sa.Index("ix_pyjms_flow_instances_page", "flow", "changed_ms"),
    sa.Index("ix_pyjms_flow_instances_status_page", "flow", "status", "changed_ms"),
)
_ORDERS = {
    InstanceOrder.BY_ID: (_instances.c.id,),
    InstanceOrder.NEWEST_FIRST: (_instances.c.changed_ms.desc(), _instances.c.id.desc()),
    InstanceOrder.OLDEST_FIRST: (_instances.c.changed_ms, _instances.c.id),
}
# The condition on the revision makes the update a compare-and-set: of two engines, the second changes no row.
_CHANGE = sa.update(_instances).where(
    (_instances.c.id == sa.bindparam("same_id")) & (_instances.c.revision == sa.bindparam("same_revision"))
)
_T = TypeVar("_T")


def check_url(url: str) -> None:
    """Check that SQLAlchemy, as installed here, understands a URL. Raises `FlowException`."""
    try:
        made = sa.make_url(url)
        # Reports a missing driver, without connecting.
        made.get_dialect().import_dbapi()
    except (SQLAlchemyError, ImportError, ValueError) as error:
        raise FlowException(f"that is no database for workflows: {error}; write such as sqlite:///flows.db") from error
    _refuse_memory(made)


def _refuse_memory(url: sa.URL) -> None:
    path = url.database or ":memory:"
    # SQLite's spellings of a database in memory; with a shared cache, all threads see the same one.
    in_memory = ":memory:" in path or url.query.get("mode") == "memory"
    if url.get_backend_name() == "sqlite" and in_memory and url.query.get("cache") != "shared":
        raise FlowException(
            "workflows cannot be kept in a database of SQLite in memory: each thread would have another one, and none outlives the "
            "program. Name a file, such as sqlite:///flows.db"
        )


class SqlFlowStore(FlowStore):
    """Stores definitions in ``pyjms_flows`` and instances in ``pyjms_flow_instances``; creates the tables if needed."""

    def __init__(self, url: str) -> None:
        """Open the database. Raises `FlowException`."""
        try:
            _refuse_memory(sa.make_url(url))
            self._engine = sa.create_engine(url, hide_parameters=True)  # the parameters are the data of instances
            if self._engine.dialect.name == "sqlite":
                # For each connection of the pool, as pragmas belong to a connection.
                sa.event.listen(self._engine, "connect", _prepare_sqlite)
            _metadata.create_all(self._engine)
        except (SQLAlchemyError, ImportError) as error:
            raise FlowStoreException(
                f"the store of workflows cannot be opened: {getattr(error, 'orig', error)}. Name a database that this program may write to, such as "
                "sqlite:///flows.db"
            ) from error

    def deploy(self, flow: Flow) -> None:
        document = write_flow_document(flow)
        row = {"name": flow.name, "version": flow.version, "document": document}
        # Looked up first, as most deployments repeat an existing version.
        known = self._run(lambda it: it.execute(_flow_query(flow.name, flow.version)).scalar_one_or_none())
        if known is None and self._insert_flow(row):
            return
        # Another process may have deployed this version between the two statements; its definition counts.
        known = self._run(lambda it: it.execute(_flow_query(flow.name, flow.version)).scalar_one())
        if known != document:
            raise FlowException(
                f"version {flow.version} of {flow.name} is deployed with another content: give the changed definition a "
                "higher version; running instances stay with theirs"
            )

    def flow(self, name: str, version: int = 0) -> Flow:
        document = self._run(lambda it: it.execute(_flow_query(name, version)).scalar())
        if document is None:
            raise FlowException(f"no definition {name}{f' of version {version}' if version else ''} is deployed")
        return read_flow_document(document)

    def flows(self) -> Sequence[Flow]:
        query = sa.select(_flows.c.document).order_by(_flows.c.name, _flows.c.version)
        return [read_flow_document(each) for each in self._run(lambda it: it.execute(query).scalars().all())]

    def keep(self, begun: Sequence[Instance], changed: Sequence[tuple[Instance, int]]) -> bool:
        rows = [_row(each) for each in begun]
        changes = [_row(each) | {"same_id": each.id, "same_revision": revision} for each, revision in changed]
        # the same order in all engines, so that row locks cannot deadlock
        changes.sort(key=lambda each: str(each["id"]))
        try:
            with self._engine.connect() as connection, connection.begin() as transaction:
                # One row fewer than expected: an instance has another revision now, so no change of the batch may
                # count.
                if changes and connection.execute(_CHANGE, changes).rowcount != len(changes):
                    transaction.rollback()
                    return False
                if rows:
                    connection.execute(_instances.insert(), rows)
        # Another engine has started one of the new instances.
        except IntegrityError:
            return False
        except SQLAlchemyError as error:
            raise FlowStoreException(f"the store of workflows failed: {error}") from error
        return True

    def find_all(self, ids: Sequence[str]) -> Mapping[str, Instance]:
        query = sa.select(_instances.c.document).where(_instances.c.id.in_(ids))
        return {each.id: each for each in self._read(query)}

    def overdue(self, now_ms: int, limit: int = 100) -> Sequence[Instance]:
        is_due = (_instances.c.due_ms > 0) & (_instances.c.due_ms <= now_ms)
        query = sa.select(_instances.c.document).where(is_due).order_by(_instances.c.due_ms).limit(limit)
        return self._read(query)

    def next_due_ms(self) -> int | None:
        query = sa.select(sa.func.min(_instances.c.due_ms)).where(_instances.c.due_ms > 0)
        found: int | None = self._run(lambda it: it.execute(query).scalar())
        return found

    def instances(
        self,
        *,
        flow: str | None = None,
        status: Status | None = None,
        limit: int = 100,
        offset: int = 0,
        order: InstanceOrder | None = None,
    ) -> Sequence[Instance]:
        query = _chosen(sa.select(_instances.c.document), flow, status)
        return self._read(query.order_by(*_ORDERS[order or InstanceOrder.NEWEST_FIRST]).limit(limit).offset(offset))

    def count(self, *, flow: str | None = None, status: Status | None = None) -> int:
        query = _chosen(sa.select(sa.func.count()).select_from(_instances), flow, status)
        found: int = self._run(lambda it: it.execute(query).scalar_one())
        return found

    def counts(self) -> Mapping[tuple[str, Status], int]:
        columns = (_instances.c.flow, _instances.c.status)
        query = sa.select(*columns, sa.func.count()).group_by(*columns)
        rows = self._run(lambda it: it.execute(query).all())
        return {(flow, Status(status)): many for flow, status, many in rows}

    def ids(self) -> Sequence[str]:
        query = sa.select(_instances.c.id).order_by(_instances.c.id)
        return self._run(lambda it: it.execute(query).scalars().all())

    def close(self) -> None:
        self._engine.dispose()

    def _read(self, query: Any) -> list[Instance]:
        return [read_instance(each) for each in self._run(lambda it: it.execute(query).scalars().all())]

    def _run(self, work: Callable[[sa.Connection], _T]) -> _T:
        try:
            with self._engine.begin() as connection:
                return work(connection)
        except SQLAlchemyError as error:
            raise FlowStoreException(f"the store of workflows failed: {error}") from error

    def _insert_flow(self, row: dict[str, Any]) -> bool:
        """Return False when this version exists."""
        try:
            with self._engine.begin() as connection:
                connection.execute(_flows.insert().values(row))
        except IntegrityError:
            return False
        except SQLAlchemyError as error:
            raise FlowStoreException(f"the store of workflows failed: {error}") from error
        return True


def _flow_query(name: str, version: int) -> Any:
    query = sa.select(_flows.c.document).where(_flows.c.name == name)
    return query.where(_flows.c.version == version) if version else query.order_by(_flows.c.version.desc()).limit(1)


def _chosen(query: Any, flow: str | None, status: Status | None) -> Any:
    """Return the query for the instances of a definition, and of a status; None: of any."""
    if flow is not None:
        query = query.where(_instances.c.flow == flow)
    return query if status is None else query.where(_instances.c.status == status.value)


def _row(instance: Instance) -> dict[str, Any]:
    return {
        "id": instance.id,
        "flow": instance.flow,
        "status": instance.status.value,
        "revision": instance.revision,
        "due_ms": instance.due_ms,
        "changed_ms": instance.story[-1].time_ms,
        "document": write_instance(instance),
    }


def _prepare_sqlite(connection: Any, _record: object) -> None:
    # WAL lets readers work while an engine writes; FULL, as the queue is committed after this database; engines wait
    # for each other's writes.
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "busy_timeout=10000"):
        connection.execute(f"PRAGMA {pragma}")

"""The schema, its statements and its migrations. All names of tables begin with ``pyjms_``, so that an application's may be in the same schema.

A message in one queue is one row of `MESSAGE` that names the queue. A message in several queues has no queue there, and a row of `ENTRY`
for each; it is deleted with its last entry. A message of a prepared branch names the branch, and is in no queue until the branch is
committed.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    Text,
    and_,
    bindparam,
    cast,
    column,
    delete,
    exists,
    false,
    func,
    insert,
    inspect,
    null,
    select,
    table,
    text,
    tuple_,
    update,
)
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.sql.compiler import SQLCompiler

from pyjms_provider.stores.errors import DamagedStoreError, ForeignStoreError, NewerStoreError

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Dialect
    from sqlalchemy.sql.elements import ClauseElement, ColumnElement

    from pyjms.spi.clock import Clock, Signal
    from pyjms_provider.settings import Synchronous


VERSION = 5
"""The version of the schema. Each change needs a function in `MIGRATIONS`."""
PREFIX = "pyjms_"
SCHEMA = MetaData()

# In SQLite only a column of type INTEGER can be the row id itself; it holds 64 bits.
_Id = BigInteger().with_variant(Integer(), "sqlite")

META = Table(
    f"{PREFIX}meta",
    SCHEMA,
    Column("one", SmallInteger, primary_key=True),
    Column("product", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("next_queue", BigInteger, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("clean", Boolean, nullable=False),
    Column("holder", Text, nullable=False),
)
"""One row, number 1. `epoch` is increased at each opening: a broker that finds another epoch than its own has lost the store."""

QUEUE = Table(
    f"{PREFIX}queue",
    SCHEMA,
    Column("number", _Id, primary_key=True, autoincrement=False),
    Column("kind", SmallInteger, nullable=False),
    Column("name", Text, nullable=False),
    Column("temporary", Boolean, nullable=False),
    Column("client_id", Text),
    Column("subscription", Text),
    Column("selector", Text),
    Column("no_local", Boolean, nullable=False),
    Column("policy", Text),
    Column("shared", Boolean, nullable=False, server_default=false()),
)
"""Queues and durable subscriptions; the latter have a subscription name, and may have a client id. `shared`: since version 5."""

MESSAGE = Table(
    f"{PREFIX}message",
    SCHEMA,
    Column("id", _Id, primary_key=True, autoincrement=False),
    Column("queue", BigInteger),
    Column("branch", BigInteger),
    Column("priority", SmallInteger, nullable=False),
    Column("expiration", BigInteger, nullable=False),
    Column("deliver_at", BigInteger, nullable=False),
    Column("reliable", Boolean, nullable=False),
    Column("deliveries", Integer, nullable=False),
    Column("payload", LargeBinary, nullable=False),
)
"""`payload` is the message encoded by `stores.codec`; it is the last column, so that the others can be read without it.

The connection that sent a message is not stored: it ended with the broker, and the message's subscribers were chosen before.
"""

Index(
    f"{PREFIX}message_branch",
    MESSAGE.c.branch,
    sqlite_where=MESSAGE.c.branch.is_not(None),
    postgresql_where=MESSAGE.c.branch.is_not(None),
)

ENTRY = Table(
    f"{PREFIX}entry",
    SCHEMA,
    Column("message", BigInteger, nullable=False),
    Column("queue", BigInteger, nullable=False),
    Column("deliveries", Integer, nullable=False),
    PrimaryKeyConstraint("message", "queue"),
    sqlite_with_rowid=False,
)

BRANCH = Table(
    f"{PREFIX}branch",
    SCHEMA,
    Column("number", _Id, primary_key=True, autoincrement=False),
    Column("format_id", BigInteger, nullable=False),
    Column("global_id", LargeBinary, nullable=False),
    Column("qualifier", LargeBinary, nullable=False),
    Column("prepared_ms", BigInteger, nullable=False),
)

REMOVAL = Table(
    f"{PREFIX}removal",
    SCHEMA,
    Column("branch", BigInteger, nullable=False),
    Column("message", BigInteger, nullable=False),
    Column("queue", BigInteger, nullable=False),
    PrimaryKeyConstraint("branch", "message", "queue"),
    sqlite_with_rowid=False,
)
"""The messages that a prepared branch removes from queues when it is committed."""

HEURISTIC = Table(
    f"{PREFIX}heuristic",
    SCHEMA,
    Column("format_id", BigInteger, nullable=False),
    Column("global_id", LargeBinary, nullable=False),
    Column("qualifier", LargeBinary, nullable=False),
    Column("committed", Boolean, nullable=False),
    PrimaryKeyConstraint("format_id", "global_id", "qualifier"),
    sqlite_with_rowid=False,
)

MARK = Table(
    f"{PREFIX}mark",
    SCHEMA,
    Column("queue", BigInteger, nullable=False),
    Column("priority", SmallInteger, nullable=False),
    Column("message", BigInteger, nullable=False),
    PrimaryKeyConstraint("queue", "priority"),
    sqlite_with_rowid=False,
)

DUPLICATE = Table(
    f"{PREFIX}duplicate",
    SCHEMA,
    Column("kind", SmallInteger, nullable=False),
    Column("name", Text, nullable=False),
    Column("temporary", Boolean, nullable=False),
    Column("serial", BigInteger, nullable=False),
    Column("duplicate_id", Text, nullable=False),
    Column("until_ms", BigInteger, nullable=False),
    PrimaryKeyConstraint("kind", "name", "temporary", "serial"),
    sqlite_with_rowid=False,
)
"""Duplicate ids chosen by producers. The key is a serial, so that the ids of a destination are added at one end of the index and deleted at the other."""

SET_ASIDE = Table(
    f"{PREFIX}set_aside",
    SCHEMA,
    Column("id", _Id, primary_key=True, autoincrement=False),
    Column("queues", Text, nullable=False),
    Column("found_ms", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),
    Column("payload", LargeBinary),
)
"""The quarantine: messages that could not be decoded, for an operator."""

GROUP = Table(
    f"{PREFIX}group",
    SCHEMA,
    Column("number", _Id, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),
    Column("queue", BigInteger, nullable=False),
    Column("selector", Text),
    Column("generation", Text, nullable=False),
    Column("low", BigInteger, nullable=False),
    Column("fence", BigInteger, nullable=False),
    Column("opened_ms", BigInteger, nullable=False),
)
"""Reader groups. Since version 2."""

RESERVED = Table(
    f"{PREFIX}reserved",
    SCHEMA,
    Column("group_number", BigInteger, nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("message", BigInteger, nullable=False),
    Column("deliveries", Integer, nullable=False),
    PrimaryKeyConstraint("group_number", "number"),
    sqlite_with_rowid=False,
)
"""The reservations of a reader group in its queue, above its low mark. Since version 2."""

STAGE = Table(
    f"{PREFIX}stage",
    SCHEMA,
    Column("number", _Id, primary_key=True, autoincrement=False),
    Column("sink", Text, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("attempt", Text, nullable=False),
    Column("messages", BigInteger, nullable=False),
    Column("staged_ms", BigInteger, nullable=False),
    Column("discard_ms", BigInteger, nullable=False),
)
"""Staged units. Their messages name them in `branch`, so a branch and a unit never have the same number. Since version 2."""

Index(f"{PREFIX}stage_name", STAGE.c.sink, STAGE.c.epoch, STAGE.c.partition, STAGE.c.attempt, unique=True)

STAGE_MARKER = Table(
    f"{PREFIX}stage_marker",
    SCHEMA,
    Column("sink", Text, primary_key=True),
    Column("epoch", BigInteger, nullable=False),
)
"""The last promoted epoch of each sink. Since version 2."""

_CLIENT_COLUMNS: Final = (
    ("generation", Text, False),
    ("incarnation", BigInteger, False),
    ("owner", Text, False),
    ("registered_ms", BigInteger, False),
    ("request_tag", Text, True),
    ("request_ms", BigInteger, False),
    ("reply_tag", Text, True),
    ("reply_ms", BigInteger, False),
    ("left_ms", BigInteger, True),
)

CLIENT = Table(
    f"{PREFIX}client",
    SCHEMA,
    Column("name", Text, primary_key=True),
    *(Column(name, kind, nullable=nullable) for name, kind, nullable in _CLIENT_COLUMNS),
)
"""Registered clients, with the tags of their last committed requests and replies. Since version 4."""

BRANCH_CLIENT = Table(
    f"{PREFIX}branch_client",
    SCHEMA,
    Column("branch", BigInteger, nullable=False),
    Column("name", Text, nullable=False),
    *(Column(name, kind, nullable=nullable) for name, kind, nullable in _CLIENT_COLUMNS),
    PrimaryKeyConstraint("branch", "name"),
    sqlite_with_rowid=False,
)
"""The rows of registered clients that a prepared branch puts when it is committed. Since version 4."""

PAGED = Table(
    f"{PREFIX}paged",
    MetaData(),
    Column("id", _Id, primary_key=True, autoincrement=False),
    Column("payload", LargeBinary, nullable=False),
)
"""Paged-out messages, which need not survive a restart; in a separate file (SQLite), or an unlogged table (PostgreSQL)."""


_BOUNDS: Final = ("after_", "until_")
_ADDRESS: Final = ("kind", "name", "temporary")


@dataclass(frozen=True, slots=True, kw_only=True)
class Statements:
    """The text of all statements; the comment after each lists its parameters in the order of the tuple."""

    add_message: str  # id, queue, branch, priority, expiration, deliver_at, reliable, deliveries, payload
    add_entry: str  # message, queue, deliveries
    add_missing_message: str  # as add_message; nothing happens if it is there
    add_missing_entry: str  # as add_entry; nothing happens if it is there
    remove_single: str  # id, queue
    remove_entry: str  # message, queue
    remove_unreferenced: str  # id
    count_single: str  # deliveries, id, queue
    count_entry: str  # deliveries, message, queue
    drop_mark: str  # queue, priority
    put_mark: str  # queue, priority, message; the higher one stays
    put_duplicate: str  # kind, name, temporary, serial, duplicate_id, until_ms
    put_queue_duplicate: str  # kind, name, temporary, serial, duplicate_id, until_ms, number
    forget_duplicates: str  # kind, name, temporary, serial below which all go
    drop_old_duplicates: str  # until_ms

    add_branch: str  # number, format_id, global_id, qualifier, prepared_ms
    add_branch_removal: str  # branch, message, queue
    find_branch: str  # format_id, global_id, qualifier
    has_branch: str  # number
    drop_branch: str  # number
    publish_branch: str  # number
    drop_branch_entries: str  # number
    drop_branch_messages: str  # number
    branch_removals: str  # number
    drop_branch_removals: str  # number
    put_heuristic: str  # format_id, global_id, qualifier, committed
    drop_heuristic: str  # format_id, global_id, qualifier

    put_group: str  # number, name, queue, selector, generation, low, fence, opened_ms
    raise_low: str  # low, number
    drop_group: str  # number
    put_reserved: str  # group_number, number, message, deliveries
    drop_acknowledged: str  # group_number, upto
    drop_reserved: str  # group_number
    drop_queue_reserved: str  # queue
    drop_queue_groups: str  # queue
    add_stage: str  # number, sink, epoch, partition, attempt, messages, staged_ms, discard_ms
    find_stage: str  # sink, epoch, partition, attempt
    has_stage: str  # number
    drop_stage: str  # number
    put_stage_marker: str  # sink, epoch

    put_client: str  # name, generation, incarnation, owner, registered_ms, request_tag, request_ms, reply_tag, reply_ms, left_ms
    leave_client: str  # left_ms, name
    drop_client: str  # name
    add_branch_client: str  # branch, and as put_client
    branch_clients: str  # branch
    drop_branch_clients: str  # branch

    read_message: str  # id
    has_message: str  # id
    has_single: str  # id, queue
    has_entry: str  # message, queue
    add_paged: str  # id, payload
    read_paged: str  # id
    drop_paged: str  # id

    put_queue: str  # number, kind, name, temporary, client_id, subscription, selector, no_local, policy, shared
    add_queue: str  # as put_queue; an existing queue is not changed
    raise_next_queue: str  # next_queue, the same
    drop_queue: str  # number
    has_queue: str  # number
    last_message: str
    next_message: str  # id before
    drop_queue_messages: str  # queue, id before, last id
    drop_queue_entries: str  # queue, message before, last message
    drop_queue_removals: str  # queue
    drop_queue_marks: str  # queue
    drop_queue_duplicates: str  # number
    drop_unreferenced: str  # id before, last id
    put_set_aside: str  # id, queues, found_ms, reason, payload
    drop_message: str  # id
    drop_message_entries: str  # message
    drop_message_removals: str  # message
    drop_marks: str
    set_clean: str  # clean


class _Compiler:
    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._insert = postgresql_insert if dialect.name == "postgresql" else sqlite_insert

    def __call__(self, clause: ClauseElement, *order: str) -> str:
        """Compile `clause`, whose parameters must stand in `order`."""
        compiled = clause.compile(dialect=self._dialect)
        assert isinstance(compiled, SQLCompiler)
        found = tuple(compiled.positiontup or ())
        # The rows are tuples: a parameter at a wrong position would silently write a value into the wrong column.
        if found != order:
            raise AssertionError(f"{compiled} has its parameters in the order {found}, not {order}")
        return str(compiled)

    def insert(self, table: Table) -> str:
        return self(insert(table), *table.c.keys())

    def add(self, table: Table) -> str:
        """Insert a row, unless there is one with its key."""
        return self(self._insert(table).on_conflict_do_nothing(), *table.c.keys())

    def put(self, table: Table, *values: str) -> str:
        """Insert a row, or set `values` of the row with its key."""
        statement = self._insert(table)
        changed = {name: statement.excluded[name] for name in values}
        return self(
            statement.on_conflict_do_update(index_elements=list(table.primary_key), set_=changed), *table.c.keys()
        )

    def put_if_exists(self, table: Table, value: str, other: Table, name: str) -> str:
        """Insert or update as `put`, but only if a row of `other` has the parameter's value in column `name`."""
        # INSERT from SELECT, as VALUES takes no condition.
        row = [bindparam(f"{key}_", type_=column.type) for key, column in table.c.items()]
        statement = self._insert(table).from_select(table.c.keys(), select(*row).where(*_equal(other, [name])))
        statement = statement.on_conflict_do_update(
            index_elements=list(table.primary_key), set_={value: statement.excluded[value]}
        )
        return self(statement, *(f"{each}_" for each in (*table.c.keys(), name)))

    def raise_to(self, table: Table, value: str) -> str:
        """Insert a row, or raise `value` of the row with its key; a higher value is not changed."""
        statement = self._insert(table)
        new = statement.excluded[value]
        return self(
            # The condition is in the statement, so that the order of commits of two marks does not matter.
            statement.on_conflict_do_update(
                index_elements=list(table.primary_key), set_={value: new}, where=new > table.c[value]
            ),
            *table.c.keys(),
        )

    def remove(self, table: Table, *names: str) -> str:
        return self(delete(table).where(*_equal(table, names)), *(f"{name}_" for name in names))


def _equal(table: Table, names: Sequence[str]) -> list[ColumnElement[bool]]:
    return [table.c[name] == bindparam(f"{name}_", type_=table.c[name].type) for name in names]


def _bytes(column: ColumnElement[bytes]) -> ColumnElement[bytes]:
    """Cast a column to bytes: a damaged bit in SQLite's file may declare a value as text, and the driver fails if it is not UTF-8."""
    return cast(column, LargeBinary)


def compile_statements(dialect: Dialect) -> Statements:
    """Return the statements for a dialect with positional parameters, compiled once."""
    # All stores of a process need the same statements, and compiling them is slow.
    known = _compiled.get((dialect.name, dialect.paramstyle))
    if known is None:
        known = _compiled[dialect.name, dialect.paramstyle] = _compile(_Compiler(dialect))
    return known


_compiled: dict[tuple[str, str], Statements] = {}


def _compile(c: _Compiler) -> Statements:
    return Statements(
        **_for_messages(c),
        **_for_branches(c),
        **_for_groups(c),
        **_for_stages(c),
        **_for_clients(c),
        **_for_paging(c),
        **_for_queues(c),
        **_for_rows_set_aside(c),
    )


def _unreferenced() -> ColumnElement[bool]:
    message = MESSAGE.c
    return and_(message.queue.is_(None), ~exists().where(ENTRY.c.message == message.id))


def _within(column: ColumnElement[int]) -> ColumnElement[bool]:
    after, until = (bindparam(name, type_=column.type) for name in _BOUNDS)
    return and_(column > after, column <= until)


def _for_messages(c: _Compiler) -> dict[str, str]:
    message, entry, duplicate = MESSAGE, ENTRY, DUPLICATE
    deliveries = bindparam("deliveries_", type_=message.c.deliveries.type)
    until_ms, serial = (bindparam(f"{name}_", type_=duplicate.c[name].type) for name in ("until_ms", "serial"))
    return {
        "add_message": c.insert(message),
        "add_entry": c.insert(entry),
        "add_missing_message": c.add(message),
        "add_missing_entry": c.add(entry),
        "remove_single": c.remove(message, "id", "queue"),
        "remove_entry": c.remove(entry, "message", "queue"),
        "remove_unreferenced": c(delete(message).where(*_equal(message, ["id"]), _unreferenced()), "id_"),
        "count_single": c(
            update(message).values(deliveries=deliveries).where(*_equal(message, ["id", "queue"])),
            *("deliveries_", "id_", "queue_"),
        ),
        "count_entry": c(
            update(entry).values(deliveries=deliveries).where(*_equal(entry, ["message", "queue"])),
            *("deliveries_", "message_", "queue_"),
        ),
        "drop_mark": c.remove(MARK, "queue", "priority"),
        "put_mark": c.raise_to(MARK, "message"),
        "put_duplicate": c.put(duplicate, "until_ms"),
        # Only while the queue exists: its ids were deleted with it, and a late write must not restore one.
        "put_queue_duplicate": c.put_if_exists(duplicate, "until_ms", QUEUE, "number"),
        "forget_duplicates": c(
            delete(duplicate).where(*_equal(duplicate, _ADDRESS), duplicate.c.serial < serial),
            *(f"{name}_" for name in (*_ADDRESS, "serial")),
        ),
        "drop_old_duplicates": c(delete(duplicate).where(duplicate.c.until_ms < until_ms), "until_ms_"),
        "read_message": c(select(_bytes(message.c.payload)).where(*_equal(message, ["id"])), "id_"),
        "has_message": c(select(message.c.id).where(*_equal(message, ["id"])), "id_"),
        "has_single": c(select(message.c.id).where(*_equal(message, ["id", "queue"])), "id_", "queue_"),
        "has_entry": c(select(entry.c.message).where(*_equal(entry, ["message", "queue"])), "message_", "queue_"),
    }


def _for_branches(c: _Compiler) -> dict[str, str]:
    message, branch, removal = MESSAGE, BRANCH, REMOVAL
    xid = ("format_id", "global_id", "qualifier")
    number = bindparam("number_", type_=branch.c.number.type)
    of_branch = select(message.c.id).where(message.c.branch == number)
    return {
        "add_branch": c.insert(branch),
        "add_branch_removal": c.insert(removal),
        "find_branch": c(select(branch.c.number).where(*_equal(branch, xid)), *(f"{name}_" for name in xid)),
        "has_branch": c(select(branch.c.number).where(*_equal(branch, ["number"])), "number_"),
        "drop_branch": c.remove(branch, "number"),
        # One statement for the commit of a branch, so that all its messages become visible at once.
        "publish_branch": c(update(message).values(branch=null()).where(message.c.branch == number), "number_"),
        "drop_branch_entries": c(delete(ENTRY).where(ENTRY.c.message.in_(of_branch)), "number_"),
        "drop_branch_messages": c(delete(message).where(message.c.branch == number), "number_"),
        "branch_removals": c(select(removal.c.message, removal.c.queue).where(removal.c.branch == number), "number_"),
        "drop_branch_removals": c(delete(removal).where(removal.c.branch == number), "number_"),
        "put_heuristic": c.put(HEURISTIC, "committed"),
        "drop_heuristic": c.remove(HEURISTIC, *xid),
    }


def _for_groups(c: _Compiler) -> dict[str, str]:
    group, reserved = GROUP, RESERVED
    low, upto = (bindparam(name, type_=group.c.low.type) for name in ("low_", "upto_"))
    of_queue = select(group.c.number).where(*_equal(group, ["queue"]))
    return {
        "put_group": c.put(group, *group.c.keys()[1:]),
        "raise_low": c(update(group).values(low=low).where(*_equal(group, ["number"])), "low_", "number_"),
        "drop_group": c.remove(group, "number"),
        "put_reserved": c.put(reserved, "message", "deliveries"),
        "drop_acknowledged": c(
            delete(reserved).where(*_equal(reserved, ["group_number"]), reserved.c.number <= upto),
            *("group_number_", "upto_"),
        ),
        "drop_reserved": c.remove(reserved, "group_number"),
        "drop_queue_reserved": c(delete(reserved).where(reserved.c.group_number.in_(of_queue)), "queue_"),
        "drop_queue_groups": c.remove(group, "queue"),
    }


def _for_stages(c: _Compiler) -> dict[str, str]:
    stage, name = STAGE, ("sink", "epoch", "partition", "attempt")
    return {
        "add_stage": c.insert(stage),
        "find_stage": c(select(stage.c.number).where(*_equal(stage, name)), *(f"{each}_" for each in name)),
        "has_stage": c(select(stage.c.number).where(*_equal(stage, ["number"])), "number_"),
        "drop_stage": c.remove(stage, "number"),
        "put_stage_marker": c.put(STAGE_MARKER, "epoch"),
    }


def _for_clients(c: _Compiler) -> dict[str, str]:
    client, of_branch = CLIENT, BRANCH_CLIENT
    left_ms = bindparam("left_ms_", type_=client.c.left_ms.type)
    return {
        "put_client": c.put(client, *client.c.keys()[1:]),
        "leave_client": c(update(client).values(left_ms=left_ms).where(*_equal(client, ["name"])), "left_ms_", "name_"),
        "drop_client": c.remove(client, "name"),
        "add_branch_client": c.insert(of_branch),
        "branch_clients": c(
            select(*(of_branch.c[each.name] for each in client.c)).where(*_equal(of_branch, ["branch"])), "branch_"
        ),
        "drop_branch_clients": c.remove(of_branch, "branch"),
    }


def _for_paging(c: _Compiler) -> dict[str, str]:
    return {
        "add_paged": c.put(PAGED, "payload"),
        "read_paged": c(select(_bytes(PAGED.c.payload)).where(*_equal(PAGED, ["id"])), "id_"),
        "drop_paged": c.remove(PAGED, "id"),
    }


def _for_queues(c: _Compiler) -> dict[str, str]:
    next_queue = bindparam("next_queue_", type_=META.c.next_queue.type)
    above = bindparam("above_", type_=META.c.next_queue.type)
    clean = bindparam("clean_", type_=META.c.clean.type)
    after = bindparam("after_", type_=MESSAGE.c.id.type)
    address = tuple_(*(DUPLICATE.c[name] for name in _ADDRESS))
    of_queue = select(*(QUEUE.c[name] for name in _ADDRESS)).where(
        *_equal(QUEUE, ["number"]), QUEUE.c.subscription.is_(None)
    )
    return {
        "put_queue": c.put(QUEUE, *QUEUE.c.keys()[1:]),
        "add_queue": c.add(QUEUE),
        "raise_next_queue": c(
            update(META).values(next_queue=next_queue).where(META.c.next_queue < above), "next_queue_", "above_"
        ),
        "drop_queue": c.remove(QUEUE, "number"),
        "has_queue": c(select(QUEUE.c.number).where(*_equal(QUEUE, ["number"])), "number_"),
        "last_message": c(select(func.max(MESSAGE.c.id))),
        # The smallest id above the bound, so that a gap costs one query by the primary key.
        "next_message": c(select(func.min(MESSAGE.c.id)).where(MESSAGE.c.id > after), "after_"),
        "drop_queue_messages": c(
            delete(MESSAGE).where(*_equal(MESSAGE, ["queue"]), _within(MESSAGE.c.id)), "queue_", *_BOUNDS
        ),
        "drop_queue_entries": c(
            delete(ENTRY).where(*_equal(ENTRY, ["queue"]), _within(ENTRY.c.message)), "queue_", *_BOUNDS
        ),
        "drop_queue_removals": c.remove(REMOVAL, "queue"),
        "drop_queue_marks": c.remove(MARK, "queue"),
        "drop_queue_duplicates": c(delete(DUPLICATE).where(address.in_(of_queue)), "number_"),
        "drop_unreferenced": c(delete(MESSAGE).where(_within(MESSAGE.c.id), _unreferenced()), *_BOUNDS),
        "drop_marks": c(delete(MARK)),
        "set_clean": c(update(META).values(clean=clean), "clean_"),
    }


def _for_rows_set_aside(c: _Compiler) -> dict[str, str]:
    return {
        "put_set_aside": c.put(SET_ASIDE, *SET_ASIDE.c.keys()[1:]),
        "drop_message": c.remove(MESSAGE, "id"),
        "drop_message_entries": c.remove(ENTRY, "message"),
        "drop_message_removals": c.remove(REMOVAL, "message"),
    }


# Migrations from older schemas, version by version.

_OF_DUPLICATES: Final = ("kind", "name", "temporary", "duplicate_id", "until_ms")
_NUMBERED: Final = 3  # the version since which duplicate ids have serials
Migration = Callable[["Connection"], None]
"""A function that changes the schema and its data, in the transaction of the connection."""


def _add_pipelines(connection: Connection) -> None:
    """Create the tables of reader groups and staged units."""
    SCHEMA.create_all(connection, tables=[GROUP, RESERVED, STAGE, STAGE_MARKER])


def _add_clients(connection: Connection) -> None:
    """Create the tables of registered clients."""
    SCHEMA.create_all(connection, tables=[CLIENT, BRANCH_CLIENT])


def _number_duplicates(connection: Connection) -> None:
    """Give the duplicate ids the serials that are their key now: the ids that expire first get the lowest."""
    name = DUPLICATE.name
    # The columns are listed by name: the present table has one more, and another key.
    kept = _OF_DUPLICATES
    by_age = func.row_number().over(order_by=column("until_ms")).label("serial")
    old = str(select(*map(column, kept), by_age).select_from(table(name)))
    # Not a temporary table: PostgreSQL has a separate privilege for those, which users often
    # lack, and this table is dropped in the same transaction anyway.
    connection.execute(text(f"CREATE TABLE {name}_old AS {old}"))
    connection.execute(text(f"DROP TABLE {name}"))
    SCHEMA.create_all(connection, tables=[DUPLICATE])
    connection.execute(
        insert(DUPLICATE).from_select(
            [*kept, "serial"], select(*map(column, (*kept, "serial"))).select_from(table(f"{name}_old"))
        )
    )
    connection.execute(text(f"DROP TABLE {name}_old"))


def _add_shared(connection: Connection) -> None:
    """Add the column that says whether a durable subscription is shared: none has been so far."""
    connection.execute(text(f"ALTER TABLE {QUEUE.name} ADD COLUMN shared BOOLEAN DEFAULT false NOT NULL"))


def create_missing_tables(connection: Connection, version: int) -> None:
    """Create the tables of `version` that migrations change, and that the store being salvaged may have lost."""
    if version < _NUMBERED and not inspect(connection).has_table(DUPLICATE.name):
        columns = (Column(each, DUPLICATE.c[each].type) for each in _OF_DUPLICATES)
        Table(DUPLICATE.name, MetaData(), *columns).create(connection)


FIRST: Final = 1
"""The oldest version."""
MIGRATIONS: Final[Mapping[int, Migration]] = {1: _add_pipelines, 2: _number_duplicates, 3: _add_clients, 4: _add_shared}
"""For each version, the migration to the next one."""
ADDED_COLUMNS: Final[Mapping[int, tuple[str, str]]] = {
    2: (GROUP.name, "number"),
    _NUMBERED: (DUPLICATE.name, "serial"),
    4: (CLIENT.name, "name"),
    5: (QUEUE.name, "shared"),
}
"""For each version, a table and a column that it has added: they show the version of a store whose version number is lost."""


# Opening a store.


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRequest:
    """A broker's request to open a store."""

    url: URL
    holder: str
    """The broker's name."""
    clock: Clock
    synchronous: Synchronous
    waits: bool
    """Whether to wait while another broker holds it."""
    cancelled: Signal | None
    """The signal that ends that wait; None: nothing ends it."""
    is_shared: bool
    """Whether other applications' tables may be in the same database or schema."""
    keep_free_bytes: int
    """The space on the disk that is reserved for acknowledgements; not used for a server."""
    held_until_s: Callable[[], float] | None = None
    """As in `StoreSettings`."""


_log = logging.getLogger(__name__)

PRODUCT: Final = "pyjms"
_REMEDY: Final = "Put a backup in its place, or, if it is a file of SQLite, save what can be read with: pyjms broker salvage FILE NEW-FILE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Meta:
    """The meta data of an opened database; `was_closed`: whether the last holder closed it cleanly."""

    epoch: int
    """The epoch of this opening."""
    opening: tuple[object, ...]
    """The identity of this opening, different from all others."""
    next_queue: int
    was_closed: bool


def prepare_schema(
    connection: Connection,
    where: str,
    *,
    is_shared: bool,
) -> bool:
    """Create the schema, or migrate it to the present version; return whether it is new or was closed cleanly.

    `where`: the name of the database, for errors; `is_shared`: other applications' tables may be there. Until the transaction ends,
    there can be no other opening, and no joined transaction. Raises `ForeignStoreError`, `NewerStoreError`, `DamagedStoreError`.
    """
    names = set(inspect(connection).get_table_names())
    if META.name not in names:
        refuse_foreign(names, where, is_shared=is_shared)
        create_schema(connection)
        return True
    # Locked, as an application's joined transaction with the last holder may just
    # be raising the next number of a queue.
    found = select(META.c.product, META.c.version, META.c.clean).with_for_update()
    row: Any = connection.execute(found).first()
    if row is None:
        raise DamagedStoreError(f"{where} has lost its row in {META.name}. {_REMEDY}")
    if row.product != PRODUCT:
        raise ForeignStoreError(f"{where} is a store of {row.product!r}; name another database")
    if row.version > VERSION:
        raise NewerStoreError(
            f"{where} has schema {row.version}, and this pyjms knows schema {VERSION}: install the pyjms that wrote it, "
            "or a newer one"
        )
    if row.version < FIRST:
        raise DamagedStoreError(f"{where} says that it has schema {row.version}, which there never was. {_REMEDY}")
    _migrate(connection, where, row.version)
    return bool(row.clean)


def create_schema(connection: Connection) -> None:
    """Create the schema of an empty store, where there is none."""
    SCHEMA.create_all(connection)
    first = {"one": 1, "product": PRODUCT, "version": VERSION, "next_queue": 1, "epoch": 0, "clean": True}
    connection.execute(insert(META).values(**first, holder=""))


def refuse_foreign(names: set[str], where: str, *, is_shared: bool) -> None:
    """Raise `ForeignStoreError` if these tables, without that of the meta data, forbid creating the schema."""
    ours = sorted(name for name in names if name.startswith(PREFIX))
    if ours:
        raise ForeignStoreError(
            f"{where} has tables of pyjms ({', '.join(ours[:3])}) but not {META.name}: put a backup in its place, or "
            "name another database"
        )
    if names and not is_shared:
        raise ForeignStoreError(
            f"{where} has tables of others ({', '.join(sorted(names)[:3])}): name another database, or write "
            "?pyjms_shared=true at the end of its URL to have the store's tables beside them"
        )


def _migrate(connection: Connection, where: str, found: int) -> None:
    for step in range(found, VERSION):
        migration = MIGRATIONS.get(step)
        if migration is None:
            raise NewerStoreError(
                f"{where} has schema {step}, which this pyjms cannot read any more: open it once with an older pyjms"
            )
        migration(connection)
        # After each step, in the same transaction: if a step fails, the store keeps its old version.
        connection.execute(update(META).values(version=step + 1))
        _log.info("%s: schema %d became schema %d", where, step, step + 1)


def name_of_opening(holder: str) -> str:
    """Return what the meta data calls a new opening by this holder."""
    # Two stores may have the same epoch; the random part makes their openings different.
    return f"{holder}, opening {uuid.uuid4().hex[:12]}"


def take(connection: Connection, holder: str, opening_of: Callable[[Connection], tuple[object, ...]]) -> Meta:
    """Record a new opening and its holder; return the meta data. `opening_of` is the method of the database."""
    row: Any = connection.execute(select(META.c.next_queue, META.c.epoch, META.c.clean)).one()
    named = name_of_opening(holder)
    # Not clean from now on: the next opening must see an end without `close`.
    connection.execute(update(META).values(epoch=row.epoch + 1, clean=False, holder=named))
    return Meta(
        epoch=row.epoch + 1,
        opening=opening_of(connection),
        next_queue=row.next_queue,
        was_closed=bool(row.clean),
    )

"""Every statement that runs for messages, as text of one dialect, compiled once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sqlalchemy import LargeBinary, and_, bindparam, cast, delete, exists, func, insert, null, select, tuple_, update
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.sql.compiler import SQLCompiler

from pyjms_provider.stores.sql import tables as t

if TYPE_CHECKING:
    from sqlalchemy import Dialect, Table
    from sqlalchemy.sql.elements import ClauseElement, ColumnElement

_BOUNDS: Final = ("after_", "until_")
_ADDRESS: Final = ("kind", "name", "temporary")


@dataclass(frozen=True, slots=True, kw_only=True)
class Statements:
    """All of them; behind each stand its parameters, in the order in which a tuple gives them."""

    add_message: str  # id, queue, branch, priority, expiration, deliver_at, reliable, deliveries, payload
    add_entry: str  # message, queue, deliveries
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

    read_message: str  # id
    has_message: str  # id
    has_single: str  # id, queue
    has_entry: str  # message, queue
    add_paged: str  # id, payload
    read_paged: str  # id
    drop_paged: str  # id

    put_queue: str  # number, kind, name, temporary, client_id, subscription, selector, no_local, policy
    add_queue: str  # as put_queue; one that is there stays as it is
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
        if found != order:
            raise AssertionError(f"{compiled} has its parameters in the order {found}, not {order}")
        return str(compiled)

    def insert(self, table: Table) -> str:
        return self(insert(table), *table.c.keys())

    def add(self, table: Table) -> str:
        """Insert a row, or leave the row alone that has its key."""
        return self(self._insert(table).on_conflict_do_nothing(), *table.c.keys())

    def put(self, table: Table, *values: str) -> str:
        """Insert a row, or set `values` of the row that has its key."""
        statement = self._insert(table)
        changed = {name: statement.excluded[name] for name in values}
        return self(
            statement.on_conflict_do_update(index_elements=list(table.primary_key), set_=changed), *table.c.keys()
        )

    def put_if(self, table: Table, value: str, other: Table, name: str) -> str:
        """Do as `put` where there is a row in `other` with that `name`; else do nothing."""
        row = [bindparam(f"{key}_", type_=column.type) for key, column in table.c.items()]
        statement = self._insert(table).from_select(table.c.keys(), select(*row).where(*_equal(other, [name])))
        statement = statement.on_conflict_do_update(
            index_elements=list(table.primary_key), set_={value: statement.excluded[value]}
        )
        return self(statement, *(f"{each}_" for each in (*table.c.keys(), name)))

    def raise_to(self, table: Table, value: str) -> str:
        """Insert a row, or raise `value` of the row that has its key; one that is higher already stays."""
        statement = self._insert(table)
        new = statement.excluded[value]
        return self(
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
    """Return a column's bytes, also where one bit of SQLite's file says that they are text: the driver fails at what is not UTF-8."""
    return cast(column, LargeBinary)


def compile_statements(dialect: Dialect) -> Statements:
    """Return the statements for a dialect with positional parameters, compiled once."""
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
        **_for_paging(c),
        **_for_queues(c),
        **_for_rows_set_aside(c),
    )


def _unreferenced() -> ColumnElement[bool]:
    message = t.MESSAGE.c
    return and_(message.queue.is_(None), ~exists().where(t.ENTRY.c.message == message.id))


def _within(column: ColumnElement[int]) -> ColumnElement[bool]:
    after, until = (bindparam(name, type_=column.type) for name in _BOUNDS)
    return and_(column > after, column <= until)


def _for_messages(c: _Compiler) -> dict[str, str]:
    message, entry, duplicate = t.MESSAGE, t.ENTRY, t.DUPLICATE
    deliveries = bindparam("deliveries_", type_=message.c.deliveries.type)
    until_ms, serial = (bindparam(f"{name}_", type_=duplicate.c[name].type) for name in ("until_ms", "serial"))
    return {
        "add_message": c.insert(message),
        "add_entry": c.insert(entry),
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
        "drop_mark": c.remove(t.MARK, "queue", "priority"),
        "put_mark": c.raise_to(t.MARK, "message"),
        "put_duplicate": c.put(duplicate, "until_ms"),
        "put_queue_duplicate": c.put_if(duplicate, "until_ms", t.QUEUE, "number"),
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
    message, branch, removal = t.MESSAGE, t.BRANCH, t.REMOVAL
    xid = ("format_id", "global_id", "qualifier")
    number = bindparam("number_", type_=branch.c.number.type)
    of_branch = select(message.c.id).where(message.c.branch == number)
    return {
        "add_branch": c.insert(branch),
        "add_branch_removal": c.insert(removal),
        "find_branch": c(select(branch.c.number).where(*_equal(branch, xid)), *(f"{name}_" for name in xid)),
        "has_branch": c(select(branch.c.number).where(*_equal(branch, ["number"])), "number_"),
        "drop_branch": c.remove(branch, "number"),
        "publish_branch": c(update(message).values(branch=null()).where(message.c.branch == number), "number_"),
        "drop_branch_entries": c(delete(t.ENTRY).where(t.ENTRY.c.message.in_(of_branch)), "number_"),
        "drop_branch_messages": c(delete(message).where(message.c.branch == number), "number_"),
        "branch_removals": c(select(removal.c.message, removal.c.queue).where(removal.c.branch == number), "number_"),
        "drop_branch_removals": c(delete(removal).where(removal.c.branch == number), "number_"),
        "put_heuristic": c.put(t.HEURISTIC, "committed"),
        "drop_heuristic": c.remove(t.HEURISTIC, *xid),
    }


def _for_groups(c: _Compiler) -> dict[str, str]:
    group, reserved = t.GROUP, t.RESERVED
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
    stage, name = t.STAGE, ("sink", "epoch", "partition", "attempt")
    return {
        "add_stage": c.insert(stage),
        "find_stage": c(select(stage.c.number).where(*_equal(stage, name)), *(f"{each}_" for each in name)),
        "has_stage": c(select(stage.c.number).where(*_equal(stage, ["number"])), "number_"),
        "drop_stage": c.remove(stage, "number"),
        "put_stage_marker": c.put(t.STAGE_MARKER, "epoch"),
    }


def _for_paging(c: _Compiler) -> dict[str, str]:
    return {
        "add_paged": c.put(t.PAGED, "payload"),
        "read_paged": c(select(_bytes(t.PAGED.c.payload)).where(*_equal(t.PAGED, ["id"])), "id_"),
        "drop_paged": c.remove(t.PAGED, "id"),
    }


def _for_queues(c: _Compiler) -> dict[str, str]:
    next_queue = bindparam("next_queue_", type_=t.META.c.next_queue.type)
    above = bindparam("above_", type_=t.META.c.next_queue.type)
    clean = bindparam("clean_", type_=t.META.c.clean.type)
    after = bindparam("after_", type_=t.MESSAGE.c.id.type)
    address = tuple_(*(t.DUPLICATE.c[name] for name in _ADDRESS))
    of_queue = select(*(t.QUEUE.c[name] for name in _ADDRESS)).where(
        *_equal(t.QUEUE, ["number"]), t.QUEUE.c.subscription.is_(None)
    )
    return {
        "put_queue": c.put(t.QUEUE, *t.QUEUE.c.keys()[1:]),
        "add_queue": c.add(t.QUEUE),
        "raise_next_queue": c(
            update(t.META).values(next_queue=next_queue).where(t.META.c.next_queue < above), "next_queue_", "above_"
        ),
        "drop_queue": c.remove(t.QUEUE, "number"),
        "has_queue": c(select(t.QUEUE.c.number).where(*_equal(t.QUEUE, ["number"])), "number_"),
        "last_message": c(select(func.max(t.MESSAGE.c.id))),
        "next_message": c(select(func.min(t.MESSAGE.c.id)).where(t.MESSAGE.c.id > after), "after_"),
        "drop_queue_messages": c(
            delete(t.MESSAGE).where(*_equal(t.MESSAGE, ["queue"]), _within(t.MESSAGE.c.id)), "queue_", *_BOUNDS
        ),
        "drop_queue_entries": c(
            delete(t.ENTRY).where(*_equal(t.ENTRY, ["queue"]), _within(t.ENTRY.c.message)), "queue_", *_BOUNDS
        ),
        "drop_queue_removals": c.remove(t.REMOVAL, "queue"),
        "drop_queue_marks": c.remove(t.MARK, "queue"),
        "drop_queue_duplicates": c(delete(t.DUPLICATE).where(address.in_(of_queue)), "number_"),
        "drop_unreferenced": c(delete(t.MESSAGE).where(_within(t.MESSAGE.c.id), _unreferenced()), *_BOUNDS),
        "drop_marks": c(delete(t.MARK)),
        "set_clean": c(update(t.META).values(clean=clean), "clean_"),
    }


def _for_rows_set_aside(c: _Compiler) -> dict[str, str]:
    return {
        "put_set_aside": c.put(t.SET_ASIDE, *t.SET_ASIDE.c.keys()[1:]),
        "drop_message": c.remove(t.MESSAGE, "id"),
        "drop_message_entries": c.remove(t.ENTRY, "message"),
        "drop_message_removals": c.remove(t.REMOVAL, "message"),
    }

"""Reader groups and staged units as rows: what groups hold, and messages that wait for their epoch."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import TYPE_CHECKING, Any

from pyjms.spi.replay import StageName
from pyjms_provider.core.journal.journal import GroupNumber, GroupRecord, QueueNumber, RecoveredGroup, StageRecord
from pyjms_provider.core.message.reference import ReferenceId
from pyjms_provider.stores.sql import tables as t
from pyjms_provider.stores.sql.batch import text_from_column, text_to_column
from pyjms_provider.stores.sql.whole_rows import all_rows, is_whole, tell_damage, whole_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from pyjms_provider.core.journal.journal import Changes, PipelineChanges
    from pyjms_provider.stores.sql.batch import Batch, Row
    from pyjms_provider.stores.sql.database import Database

__all__ = ["add_pipelines", "read_groups", "read_markers", "read_stages"]


def add_pipelines(batch: Batch, changes: Changes, database: Database, next_number: Callable[[], int]) -> None:
    """Add what `changes` do to reader groups and staged units.

    Reads which rows belong to the units that end. Raises `StoreError`, `CodecError`.
    """
    pipelines = changes.pipelines
    assert pipelines is not None
    _add_groups(batch, pipelines, database)
    statements, others = database.statements, batch.others
    staged = pipelines.staged
    if staged is not None:
        number = next_number()
        for message in changes.messages:
            batch.add(message, number)
        name = _name_row(staged.name)
        row = (number, *name, staged.messages, staged.staged_ms, staged.discarded_after_ms)
        others.append((statements.add_stage, [row]))
        batch.witness = (statements.has_stage, (number,))
    for stage_name, is_promoted in pipelines.outcomes:
        for (number,) in database.query(statements.find_stage, _name_row(stage_name)):
            if is_promoted:
                others.append((statements.publish_branch, [(number,)]))
            else:
                others.append((statements.drop_branch_entries, [(number,)]))
                others.append((statements.drop_branch_messages, [(number,)]))
            others.append((statements.drop_stage, [(number,)]))
    if pipelines.markers:
        others.append(
            (statements.put_stage_marker, [(text_to_column(sink), epoch) for sink, epoch in pipelines.markers])
        )


def _add_groups(batch: Batch, pipelines: PipelineChanges, database: Database) -> None:
    statements, others = database.statements, batch.others
    if pipelines.groups:
        others.append((statements.put_group, [_group_row(record) for record in pipelines.groups]))
    if pipelines.reserved:
        rows = [(each.group, each.number, each.reference.id, each.count) for each in pipelines.reserved]
        others.append((statements.put_reserved, rows))
    for group, upto in pipelines.acknowledged:
        others.append((statements.drop_acknowledged, [(group, upto)]))
        others.append((statements.raise_low, [(upto, group)]))
    for group in pipelines.released:
        others.append((statements.drop_reserved, [(group,)]))
        others.append((statements.drop_group, [(group,)]))


def _name_row(name: StageName) -> Row:
    return text_to_column(name.sink), name.epoch, name.partition, text_to_column(name.attempt)


def _group_row(record: GroupRecord) -> Row:
    return (
        *(record.number, text_to_column(record.name), record.queue, text_to_column(record.selector_text)),
        *(text_to_column(record.generation), record.low, record.fence, record.opened_ms),
    )


def read_groups(connection: Connection) -> tuple[Sequence[RecoveredGroup], Sequence[GroupNumber]]:
    """Return the reader groups, by number, with what they hold; and the numbers of those that are damaged."""
    rows = whole_rows(connection, t.RESERVED, t.RESERVED.c.group_number, t.RESERVED.c.number)
    held = {
        group: [(row.number, ReferenceId(row.message), row.deliveries) for row in found]
        for group, found in groupby(rows, key=lambda row: row.group_number)
    }
    found: list[RecoveredGroup] = []
    lost: list[GroupNumber] = []
    for row in all_rows(connection, t.GROUP, t.GROUP.c.number):
        if is_whole(t.GROUP, row):
            found.append(RecoveredGroup(record=_group(row), reserved=held.get(row.number, [])))
        else:
            tell_damage(t.GROUP, row, "what the reader group held is its queue's again")
            lost.append(GroupNumber(row.number))
    return found, lost


def _group(row: Any) -> GroupRecord:
    return GroupRecord(
        number=GroupNumber(row.number),
        name=text_from_column(row.name) or "",
        queue=QueueNumber(row.queue),
        selector_text=text_from_column(row.selector),
        generation=text_from_column(row.generation) or "",
        low=row.low,
        fence=row.fence,
        opened_ms=row.opened_ms,
    )


def read_stages(connection: Connection) -> Sequence[tuple[int, StageRecord]]:
    """Return the staged units, by number."""
    return [
        (
            row.number,
            StageRecord(
                name=StageName(
                    text_from_column(row.sink) or "", row.epoch, row.partition, text_from_column(row.attempt) or ""
                ),
                messages=row.messages,
                staged_ms=row.staged_ms,
                discarded_after_ms=row.discard_ms,
            ),
        )
        for row in whole_rows(connection, t.STAGE, t.STAGE.c.number)
    ]


def read_markers(connection: Connection) -> Sequence[tuple[str, int]]:
    """Return the last epoch of each sink."""
    return [(text_from_column(row.sink) or "", row.epoch) for row in whole_rows(connection, t.STAGE_MARKER)]

"""Dropping a queue: it is gone in one write, and its messages follow in bounded runs, between the writes of others.

There is no index by queue, as each send would pay for it. So all messages are looked at, a run of ids at a time; if the
process dies meanwhile, the next opening finds messages of a queue that is not there, and removes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from pyjms_provider.stores.sql.batch import Batch

if TYPE_CHECKING:
    from pyjms_provider.core.journal.journal import QueueNumber
    from pyjms_provider.stores.sql.database import Database
    from pyjms_provider.stores.sql.statements import Statements

__all__ = ["add_dropped", "drop_messages", "drop_queue"]

_RUN: Final = 1000
"""So many ids are looked at in one write: a few milliseconds in which nobody else writes."""


def drop_queue(statements: Statements, number: QueueNumber) -> Batch:
    """Return what makes a queue unknown."""
    batch = Batch()
    batch.others = [
        (statement, [(number,)])
        for statement in (
            statements.drop_queue_removals,
            statements.drop_queue_marks,
            statements.drop_queue_reserved,
            statements.drop_queue_groups,
            statements.drop_queue_duplicates,
            statements.drop_queue,
        )
    ]
    return batch


def add_dropped(batch: Batch, statements: Statements, numbers: Sequence[QueueNumber]) -> None:
    """Have a batch make queues unknown; the next ones of their names may be in it, or in one that it is merged with."""
    for number in numbers:
        batch.put("drop_queue_duplicates", number, (number,))
        batch.others += [
            each for each in drop_queue(statements, number).others if each[0] != statements.drop_queue_duplicates
        ]


def drop_messages(database: Database, number: QueueNumber) -> Iterator[Batch]:
    """Yield what removes the messages of a queue, run by run; each is to be written before the next is asked for.

    Raises `StoreError`.
    """
    statements = database.statements
    after = 0
    ((last,),) = database.query(statements.last_message)
    while last is not None and after < last:
        ((first,),) = database.query(statements.next_message, (after,))
        if first is None:
            return
        until = first + _RUN - 1
        batch = Batch()
        batch.others = [
            (statements.drop_queue_entries, [(number, after, until)]),
            (statements.drop_queue_messages, [(number, after, until)]),
            (statements.drop_unreferenced, [(after, until)]),
        ]
        yield batch
        after = until

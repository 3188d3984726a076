"""The books of a run, kept in queues: what was done is written in the unit of work that did it.

Where the broker keeps its messages, so it keeps the books, and a run that was killed goes on where its last commit left
it. A *sheet* says which run there is. A *stamp* counts what a stage did. A *page* holds what a collector received. Stamps
and pages are only added and browsed, so nothing that is undone can leave a trace in them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from uuid import uuid4

from pyjms import Connection, Message, MessageConsumer, Session, StreamMessage
from pyjms.demo.accounting import Entry
from pyjms.demo.names import DEAD_LETTERS, RUNS, Names
from pyjms.demo.plan import Plan
from pyjms.demo.tally import Happening

_PURGE_BATCH = 500


class OtherRunError(Exception):
    """The store holds a run over other records, or with other lanes, that is not finished."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """What the books said when they were read."""

    counts: Mapping[str, Counter[Happening]] = field(default_factory=dict)
    """By stage or collector."""
    entries: Mapping[str, Sequence[Entry]] = field(default_factory=dict)
    """By collector, in order of arrival."""


class Stamps:
    """Counts what one stage does, as part of the session's present unit of work."""

    def __init__(self, session: Session, names: Names, stage: str) -> None:
        self._session = session
        self._stage = stage
        self._producer = session.create_producer(session.create_queue(names.stamps))

    def put(self, counts: Mapping[Happening, int]) -> None:
        """Add the counts."""
        stamp = self._session.create_message()
        stamp.set_string_property("stage", self._stage)
        for happening, count in counts.items():
            stamp.set_int_property(happening.name, count)
        self._producer.send(stamp)


class Pages:
    """Writes down what one collector receives, as part of the session's present unit of work."""

    def __init__(self, session: Session, names: Names, account: str) -> None:
        self._session = session
        self._account = account
        self._producer = session.create_producer(session.create_queue(names.pages))

    def put(self, messages: Sequence[Message]) -> None:
        """Add the entries of these messages."""
        page = self._session.create_stream_message()
        page.set_string_property("account", self._account)
        page.set_int_property("entries", len(messages))
        page.set_int_property(Happening.REDELIVERED.name, sum(message.jms_redelivered for message in messages))
        for entry in map(_entry, messages):
            page.write_int(entry.record_id)
            page.write_object(entry.amount)
            page.write_string(entry.label)
        self._producer.send(page)


def begin_or_resume(connection: Connection, plan: Plan) -> tuple[str, bool]:
    """Return the name of the run that the broker keeps, and whether it was there: if there is none it begins now.

    Raises:
        OtherRunError: The one that it keeps is over other records.
    """
    connection.start()
    with closing(connection.create_session(False, Session.AUTO_ACKNOWLEDGE)) as session:
        queue = session.create_queue(RUNS)
        with closing(session.create_browser(queue)) as browser:
            sheets = list(browser)
        for sheet in sheets:
            run = sheet.get_string_property("run") or ""
            if sheet.get_boolean_property("finished"):
                _purge(connection, Names(prefix=run, lanes=sheet.get_int_property("lanes")))
                continue
            if sheet.get_string_property("plan") != plan.fingerprint:
                raise OtherRunError(
                    f"The store holds a run that is not finished: {sheet.get_string_property('title')}. Start it again "
                    "with the same file and options, or name another store."
                )
            return run, True
        run = f"demo-{uuid4().hex[:8]}"
        sheet = session.create_message()
        sheet.set_string_property("run", run)
        sheet.set_string_property("plan", plan.fingerprint)
        sheet.set_string_property("title", plan.title)
        sheet.set_int_property("lanes", len(plan.lanes))
        sheet.set_boolean_property("finished", False)
        session.create_producer(queue).send(sheet)
        return run, False


def read_books(connection: Connection, names: Names) -> Books:
    """Read all stamps and pages; they stay where they are."""
    counts: dict[str, Counter[Happening]] = {}
    entries: dict[str, list[Entry]] = {}
    with closing(connection.create_session(False, Session.AUTO_ACKNOWLEDGE)) as session:
        with closing(session.create_browser(session.create_queue(names.stamps))) as stamps:
            for stamp in stamps:
                stage = counts.setdefault(stamp.get_string_property("stage") or "", Counter())
                for happening in Happening:
                    if stamp.property_exists(happening.name):
                        stage[happening] += stamp.get_int_property(happening.name)
        with closing(session.create_browser(session.create_queue(names.pages))) as pages:
            for page in pages:
                account = page.get_string_property("account") or ""
                found = _entries(page)
                entries.setdefault(account, []).extend(found)
                collector = counts.setdefault(account, Counter())
                collector[Happening.DONE] += len(found)
                collector[Happening.REDELIVERED] += page.get_int_property(Happening.REDELIVERED.name)
    return Books(counts=counts, entries=entries)


def close_books(connection: Connection, names: Names) -> None:
    """End a run whose outcome was told: the next one begins anew. Killed within, it is told once more, or not at all."""
    with closing(connection.create_session(True, Session.SESSION_TRANSACTED)) as session:
        queue = session.create_queue(RUNS)
        with closing(session.create_consumer(queue, f"run = '{names.prefix}' AND finished = FALSE")) as consumer:
            if consumer.receive_no_wait() is not None:
                sheet = session.create_message()
                sheet.set_string_property("run", names.prefix)
                sheet.set_int_property("lanes", names.lanes)
                sheet.set_boolean_property("finished", True)
                session.create_producer(queue).send(sheet)
                session.commit()
    _purge(connection, names)


def _purge(connection: Connection, names: Names) -> None:
    """Take out what a finished run has left, and its sheet last."""
    with closing(connection.create_session(True, Session.SESSION_TRANSACTED)) as session:
        for queue, selector in (
            *((name, None) for name in names.queues),
            (DEAD_LETTERS, names.dead_letters),
            (RUNS, f"run = '{names.prefix}' AND finished = TRUE"),
        ):
            with closing(session.create_consumer(session.create_queue(queue), selector)) as consumer:
                while _take(consumer, _PURGE_BATCH):
                    session.commit()


def _take(consumer: MessageConsumer, most: int) -> int:
    for taken in range(most):
        if consumer.receive_no_wait() is None:
            return taken
    return most


def _entry(message: Message) -> Entry:
    amount = message.get_object_property("amount")
    label = message.get_string_property("label")
    return Entry(message.get_int_property("record_id"), _number(amount), label or "")


def _entries(page: Message) -> list[Entry]:
    if not isinstance(page, StreamMessage):
        raise TypeError(f"a {type(page).__name__} came where pages were sent")
    count = page.get_int_property("entries")
    return [Entry(page.read_int(), _number(page.read_object()), page.read_string() or "") for _ in range(count)]


def _number(value: object) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"the amount came as {value!r}, which is no number")
    return value

"""The books of a run, stored in queues, and the comparison of arrivals with the expectation.

Each unit of work records what it did. Sums are fractions, so they are exact and do not depend on the order of arrival.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from threading import Lock
from uuid import uuid4

from pyjms import Connection, Message, MessageConsumer, Session, StreamMessage
from pyjms.demo.plan import DEAD_LETTERS, RUNS, Lane, Names, Plan


@dataclass(frozen=True, slots=True)
class Entry:
    """One record as it was sent, or as it arrived."""

    record_id: int
    amount: int | float
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result at one destination. The tuples hold record ids, in order."""

    destination: str
    expected: int
    found: int
    expected_total: Fraction
    found_total: Fraction
    lost: tuple[int, ...]
    doubled: tuple[int, ...]
    unexpected: tuple[int, ...]
    altered: tuple[int, ...]

    @property
    def adds_up(self) -> bool:
        """Whether each expected record arrived exactly once, unaltered, and nothing else; and the sum agrees."""
        faults = self.lost or self.doubled or self.unexpected or self.altered
        return not faults and self.expected == self.found and self.expected_total == self.found_total


def judge(destination: str, expected: Iterable[Entry], found: Iterable[Entry]) -> Verdict:
    """Compare the entries found at a destination with the expected ones; `expected` names each record once."""
    wanted = {entry.record_id: entry for entry in expected}
    arrived = list(found)
    times = Counter(entry.record_id for entry in arrived)
    # An unexpected record is reported as such, so it counts as unaltered here.
    altered = {entry.record_id for entry in arrived if wanted.get(entry.record_id, entry) != entry}
    return Verdict(
        destination=destination,
        expected=len(wanted),
        found=len(arrived),
        expected_total=total(wanted.values()),
        found_total=total(arrived),
        lost=tuple(sorted(wanted.keys() - times.keys())),
        doubled=tuple(sorted(record_id for record_id, count in times.items() if count > 1)),
        unexpected=tuple(sorted(times.keys() - wanted.keys())),
        altered=tuple(sorted(altered)),
    )


def total(entries: Iterable[Entry]) -> Fraction:
    """Return the exact sum of the amounts."""
    return sum((Fraction(entry.amount) for entry in entries), Fraction(0))


# The outcome of a run: every destination compared with the plan. Pure.


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The entries found, in order of arrival. `lanes` is in the order of the plan's lanes."""

    lanes: Sequence[Sequence[Entry]]
    ledger: Sequence[Entry]
    board: Sequence[Entry]
    attention: Sequence[Entry]
    left_over: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The verdicts. `left_over` has the number of messages in each work queue that should be empty."""

    lanes: tuple[tuple[Lane, Verdict], ...]
    all_lanes: Verdict
    ledger: Verdict
    board: Verdict
    attention: Verdict
    left_over: Mapping[str, int]

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """All verdicts."""
        return (*(verdict for _, verdict in self.lanes), self.all_lanes, self.ledger, self.board, self.attention)

    @property
    def nothing_lost(self) -> bool:
        """Whether every record is where it must be, and no message remained in a work queue."""
        return not self.left_over and not any(verdict.lost for verdict in self.verdicts)

    @property
    def nothing_twice(self) -> bool:
        """Whether no record is anywhere more than once."""
        return not any(verdict.doubled for verdict in self.verdicts)

    @property
    def adds_up(self) -> bool:
        """Whether ids, places, labels and sums are all correct."""
        return not self.left_over and all(verdict.adds_up for verdict in self.verdicts)


def judge_all(plan: Plan, found: Found) -> Outcome:
    """Compare the entries found with the plan, which does not depend on messages or selectors."""
    records = plan.table.records
    sent = [Entry(record.id, plan.amount_of(record), plan.label_of(record)) for record in records]
    placed = list(zip((plan.lane_of(record) for record in records), sent, strict=True))
    incomplete = [entry for entry, record in zip(sent, records, strict=True) if not plan.is_complete(record)]
    lanes = tuple(
        (lane, judge(lane.name, [entry for place, entry in placed if place is lane], entries))
        for lane, entries in zip(plan.lanes, found.lanes, strict=True)
    )
    return Outcome(
        lanes=lanes,
        all_lanes=judge("all lanes", sent, [entry for entries in found.lanes for entry in entries]),
        ledger=judge("ledger", sent, found.ledger),
        board=judge("board", sent, found.board),
        attention=judge("attention", incomplete, found.attention),
        left_over={queue: count for queue, count in found.left_over.items() if count},
    )


_PURGE_BATCH = 500


class OtherRunError(Exception):
    """The store holds an unfinished run over other records, or with other lanes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """The content of the books when they were read."""

    counts: Mapping[str, Counter[Happening]] = field(default_factory=dict)
    """By stage or collector."""
    entries: Mapping[str, Sequence[Entry]] = field(default_factory=dict)
    """By collector, in order of arrival."""


class Stamps:
    """Counts the work of one stage, as part of the session's present unit of work."""

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
    """Records the messages that one collector receives, as part of the session's present unit of work."""

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
            # As an object, which preserves whether the amount was a whole number.
            page.write_object(entry.amount)
            page.write_string(entry.label)
        self._producer.send(page)


def begin_or_resume(connection: Connection, plan: Plan) -> tuple[str, bool]:
    """Return the name of the broker's run, and whether it existed; a new run begins if there is none.

    Raises:
        OtherRunError: The existing run is over other records.
    """
    connection.start()
    with closing(connection.create_session(False, Session.AUTO_ACKNOWLEDGE)) as session:
        queue = session.create_queue(RUNS)
        with closing(session.create_browser(queue)) as browser:
            # Read whole before anything is purged: the loop below takes messages out of this queue.
            sheets = list(browser)
        for sheet in sheets:
            run = sheet.get_string_property("run") or ""
            if sheet.get_boolean_property("finished"):
                # A run that was killed while its queues were being emptied: its outcome was reported, so the rest is
                # removed now.
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
    """Read all stamps and pages, without removing them."""
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
    """End a run whose outcome was reported: the next call starts a new one. After a kill within, the outcome is
    reported once more, or not at all.
    """
    with closing(connection.create_session(True, Session.SESSION_TRANSACTED)) as session:
        queue = session.create_queue(RUNS)
        with closing(session.create_consumer(queue, f"run = '{names.prefix}' AND finished = FALSE")) as consumer:
            # In one transaction: the sheet is either open or finished, never missing, even after a kill.
            if consumer.receive_no_wait() is not None:
                sheet = session.create_message()
                sheet.set_string_property("run", names.prefix)
                sheet.set_int_property("lanes", names.lanes)
                sheet.set_boolean_property("finished", True)
                session.create_producer(queue).send(sheet)
                session.commit()
    _purge(connection, names)


def _purge(connection: Connection, names: Names) -> None:
    """Remove the messages of a finished run, and its sheet last."""
    with closing(connection.create_session(True, Session.SESSION_TRANSACTED)) as session:
        for queue, selector in (
            *((name, None) for name in names.queues),
            (DEAD_LETTERS, names.dead_letters),
            # The sheet last: as long as it exists, an interrupted purge is resumed.
            (RUNS, f"run = '{names.prefix}' AND finished = TRUE"),
        ):
            with closing(session.create_consumer(session.create_queue(queue), selector)) as consumer:
                # In portions, so that no transaction holds a whole queue.
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


class Happening(Enum):
    """An event that a stage counts."""

    DONE = "done"
    ROLLED_BACK = "rolled back"
    CRASHED = "crashed"
    REDELIVERED = "redelivered"
    SET_ASIDE = "set aside"


class StageCounter:
    """The counts of one stage. Safe for any thread."""

    def __init__(self, name: str, total: int) -> None:
        self.name = name
        self.total = total
        self.before = 0
        """The number of records done before this process started."""
        self._lock = Lock()
        self._counts: Counter[Happening] = Counter()
        self._attempts: Counter[int] = Counter()

    def resume(self, counts: Mapping[Happening, int]) -> None:
        """Continue earlier counts."""
        with self._lock:
            self._counts.update(counts)
            self.before = self._counts[Happening.DONE]

    def add(self, happening: Happening, count: int = 1) -> None:
        """Count an event."""
        with self._lock:
            self._counts[happening] += count

    def attempt(self, record_id: int) -> int:
        """Count another attempt at the record; return its number, from 1."""
        with self._lock:
            # Counted in this process alone: after a restart the attempts start again, and with them the same failures.
            self._attempts[record_id] += 1
            return self._attempts[record_id]

    def __getitem__(self, happening: Happening) -> int:
        with self._lock:
            return self._counts[happening]

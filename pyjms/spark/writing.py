"""Writing one partition, and making an epoch visible, apart from Spark: by staged units, or by plain transactions.

Exactly once is *stage, then promote*: each partition is stored under a name and stays invisible; one call then makes
the whole epoch visible and moves the sink's marker, so that a repeated epoch does nothing. The other ways promise less:
transactions, and XA with a branch for each partition; docs/reference/spark.md has the guarantees.
"""

from __future__ import annotations

import hashlib
import logging
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from pyjms.forwarding.unit import readdressed
from pyjms.spark.connecting import Link, link_of, require
from pyjms.spark.options import JmsOptions
from pyjms.spi.capability import Capability
from pyjms.spi.envelope import Address, AddressKind, BodyKind, Envelope
from pyjms.spi.errors import BranchError, ClosedError, ConnectionLostError, InDoubtError, ProviderError, StageError
from pyjms.spi.provider import ProviderConnection, ProviderSession, SubscribeRequest
from pyjms.spi.replay import StageName, Stages
from pyjms.spi.selector import compile_selector
from pyjms.spi.xid import BranchFailure, Xid
from pyjms.types import Long

# Digests of epochs, by which a sink tells the repetition of an epoch from other rows under the same number. A sink
# whose marker has reached an epoch takes rows under that number for its repetition. A checkpoint that is an old copy
# gives the number to other messages, which would vanish. So the number of the rows and the sum of their digests, which
# are the same however the rows are cut into partitions, are stored beside the marker: as the marker of a second sink,
# whose epochs combine the real epoch and 20 bits of the digest.

_BITS = 20
_EPOCHS = 1 << 63 - _BITS
_MANY = 1 << 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The number of rows and their digest, in any order."""

    rows: int = 0
    digests: int = 0
    """The sum of the rows' digests, of 64 bits."""

    @property
    def mark(self) -> int:
        """Return the bits that are stored."""
        return mark_of(f"{self.rows}:{self.digests}")


class RowSum:
    """Counts and digests the rows that pass."""

    def __init__(self) -> None:
        self.content = Content()

    def add(self, names: Sequence[str], columns: Sequence[Sequence[Any]]) -> None:
        """Add rows given by columns."""
        # Sorted by name: a repetition may have its columns in another order, with the same rows.
        by_name = sorted(zip(names, columns, strict=True), key=lambda each: each[0])
        # `repr` distinguishes 1 from "1" and None from "None", which joined text would not.
        rows = [repr(row) for row in zip(*(column for _, column in by_name), strict=True)]
        # A sum, and not a hash of all rows: Spark may cut a repeated batch into other partitions, in another order.
        digests = self.content.digests + sum(map(_digest, rows))
        self.content = Content(rows=self.content.rows + len(rows), digests=digests % _MANY)


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest())


def mark_of(text: str) -> int:
    """Return the bits that are stored for any other text."""
    return _digest(text) % (1 << _BITS)


def together(parts: Sequence[Content | None]) -> Content | None:
    """Return the content that the tasks of an epoch have written; None if a task did not count."""
    known = [each for each in parts if each is not None]
    # A task that did not count makes the sum worthless: a comparison with part
    # of the rows would refuse a true repetition.
    if len(known) < len(parts):
        return None
    return Content(rows=sum(each.rows for each in known), digests=sum(each.digests for each in known) % _MANY)


def note(stages: Stages, sink: str, epoch: int, mark: int) -> None:
    """Store the mark of an epoch after its promotion; for the same or an earlier epoch nothing changes."""
    # The marker is a signed 64-bit number in the stores; only a table's own `epoch` can be so large, and then it is not
    # compared.
    if epoch < _EPOCHS:
        stages.promote(_name(sink), epoch << _BITS | mark, [])


def noted(stages: Stages, sink: str, epoch: int) -> int | None:
    """Return the mark of an epoch; None if it is not known: an older pyjms wrote the epoch, or the writer died after the
    promotion.
    """
    found = stages.marker(_name(sink))
    return None if found is None or found >> _BITS != epoch else found % (1 << _BITS)


def _name(sink: str) -> str:
    """Return the name under which marks are stored: a sink's name may already have the maximum length."""
    # A digest has a fixed length: a sink's name may have 200 characters already, and the prefix would exceed the limit.
    return f"content:{hashlib.sha256(sink.encode('utf-8', 'surrogatepass')).hexdigest()}"


_log = logging.getLogger(__name__)
_RUN_MAX = 64
"""The maximum length of an attempt is 100 characters."""

SOURCE_PROPERTY = "JMS_pyjms_src"
"""Has ``sink:epoch:partition:row`` on messages that the sink may write twice, so that a reader can detect duplicates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The result of a task, for the writer that commits."""

    name: StageName
    way: str
    """The way of writing: ``stage``, ``xa`` or ``transaction``."""
    messages: int
    waits: bool
    """Whether messages wait under the name; otherwise there were none, or they are already visible."""
    expired: int = 0
    """The number of rows left out because they had expired."""
    content: Content | None = None
    """The content of the rows, including those left out; None: it is not compared."""


def attempt_of(run: str | None) -> str:
    """Return a unique name for an attempt, which contains the run of a query, or the writer of a table, that makes it.

    run: None if it is not known; then no units of other runs are discarded.
    """
    # A new id for each attempt: Spark runs two attempts of a task at once when it
    # speculates, and only one of them is promoted.
    own = uuid.uuid4().hex
    return own if run is None else f"{run[:_RUN_MAX]}.{own}"


def _run_of(attempt: str) -> str | None:
    run, dot, _ = attempt.rpartition(".")
    return run if dot else None


class Way(ABC):
    """One way of writing."""

    @abstractmethod
    def write(
        self, connection: ProviderConnection, name: StageName, envelopes: Iterable[Envelope], options: JmsOptions
    ) -> Written:
        """Write a partition. A failure leaves nothing visible, within the way's guarantee."""

    @abstractmethod
    def finish(self, link: Link, sink: str, epoch: int, written: Sequence[Written]) -> None:
        """Make an epoch visible. May be called again."""

    @abstractmethod
    def abandon(self, link: Link, written: Sequence[Written]) -> None:
        """Drop unpromoted messages; harmless after `finish`."""


def _marked(name: StageName, row: int, envelope: Envelope) -> Envelope:
    properties = {**envelope.properties, SOURCE_PROPERTY: f"{name.sink}:{name.epoch}:{name.partition}:{row}"}
    return readdressed(envelope, envelope.destination, properties, envelope.reply_to)


def marked(name: StageName, envelopes: Iterable[Envelope]) -> Iterable[Envelope]:
    """Yield messages with a property that identifies the row."""
    return (_marked(name, row, envelope) for row, envelope in enumerate(envelopes))


class Staging(Way):
    """Staged units: exactly once."""

    def write(
        self, connection: ProviderConnection, name: StageName, envelopes: Iterable[Envelope], options: JmsOptions
    ) -> Written:
        marker = connection.stages().marker(name.sink)
        # Checked before anything is sent: the promotion would refuse the epoch in any case, after a whole partition was
        # staged.
        if marker is not None and marker >= name.epoch:
            return self._repeated(marker, name, envelopes)
        # Before sending: the staged messages of a dead run use the capacity of a limited queue, perhaps all of it.
        self._end_former_runs(connection, name)
        session = connection.open_session(transacted=True)
        try:
            count = 0
            for envelope in envelopes:
                session.send(envelope)
                count += 1
            # A partition without rows stages nothing: an empty unit would cost a write, and
            # promotion of the epoch moves the marker anyway.
            if count:
                session.stage(name, keep_s=options.stage_timeout_s)
        finally:
            with suppress(ClosedError, ConnectionLostError):
                session.close()
        return Written(name=name, way="stage", messages=count, waits=count > 0)

    @staticmethod
    def _end_former_runs(connection: ProviderConnection, name: StageName) -> None:
        """Discard the units that earlier runs staged and never promoted: they use the capacity of a limited queue,
        perhaps all of it.

        If such a run is still alive, it cannot promote the discarded units, and fails: nothing is written twice.
        """
        run = _run_of(name.attempt)
        if run is None:
            return
        stages = connection.stages()
        waiting = [unit.name for unit in stages.units(name.sink)]
        # Only units of other runs: other tasks of this run are writing their partitions of the same epoch now.
        former = [each for each in waiting if each.epoch <= name.epoch and _run_of(each.attempt) != run]
        if former:
            # their promotion got no answer: our promotion completes that one first
            with suppress(InDoubtError):
                stages.discard(former)

    @staticmethod
    def _repeated(marker: int, name: StageName, envelopes: Iterable[Envelope]) -> Written:
        if marker == name.epoch:  # the driver died after it had promoted this epoch, and before Spark recorded that
            # The iterator has to be consumed, since the row sum is counted as rows pass through it.
            for _ in envelopes:
                pass  # `finish` checks whether the promoted rows were the same
            return Written(name=name, way="stage", messages=0, waits=False)
        raise StageError(
            f"sink {name.sink!r} has come to epoch {marker}, and this is epoch {name.epoch}, which was written before it: number "
            "what is new on, or give it a new sinkId. If it is a query's, its checkpoint is an old copy: start it with a new checkpoint"
        )

    def finish(self, link: Link, sink: str, epoch: int, written: Sequence[Written]) -> None:
        units = sorted(each.name for each in written if each.waits)
        is_new = link.call(lambda connection: connection.stages().promote(sink, epoch, units))
        # The marker has reached this epoch, so units staged by a repetition are never promoted: they would use the
        # queue's capacity until their time-out.
        if not is_new and units:
            link.call(lambda connection: connection.stages().discard(units))
        # The comparison comes after the promotion and not in one write with it (decision
        # 0208): without the mark an epoch counts as a repetition.
        content = together([each.content for each in written])
        if content is None:
            return
        if not is_new and content.rows:
            # nothing is lost if an epoch is repeated without rows, as with `mode=at-least-once`
            before = link.call(lambda connection: noted(connection.stages(), sink, epoch))
            if before is not None and before != content.mark:
                raise StageError(_other_rows(sink, epoch))
        link.call(lambda connection: note(connection.stages(), sink, epoch, content.mark))

    def abandon(self, link: Link, written: Sequence[Written]) -> None:
        units = [each.name for each in written]
        if units:
            link.call(lambda connection: connection.stages().discard(units))


def _other_rows(sink: str, epoch: int) -> str:
    return (
        f"sink {sink!r} has written epoch {epoch} already, with other rows, and nothing of these. If it is a query's, its checkpoint is an old copy: "
        "start it with a new checkpoint, which loses nothing; the batch that was under way comes again. A table needs a new jobId, or the next "
        "epoch. If it is the same batch, and its rows only came out in another way (a clock, random numbers, another program), have them come out "
        "as before, or write it with repeated=trust, once"
    )


class Transactions(Way):
    """One transaction for each partition: at least once, and each message identifies its row."""

    def write(
        self, connection: ProviderConnection, name: StageName, envelopes: Iterable[Envelope], options: JmsOptions
    ) -> Written:
        _log.warning(
            "%s can neither stage nor prepare: rows are written at least once; %s tells repeated ones",
            connection.info.name,
            SOURCE_PROPERTY,
        )
        session = connection.open_session(transacted=True)
        try:
            count = 0
            for envelope in marked(name, envelopes):
                session.send(envelope)
                count += 1
            session.commit()
        finally:
            with suppress(ClosedError, ConnectionLostError):
                session.close()
        return Written(name=name, way="transaction", messages=count, waits=False)

    def finish(self, link: Link, sink: str, epoch: int, written: Sequence[Written]) -> None:
        """Do nothing: each task has committed its own."""

    def abandon(self, link: Link, written: Sequence[Written]) -> None:
        """Do nothing: what was committed is visible."""


# Writing by XA, where a message system can prepare but not stage: one prepared branch a partition. Each branch also
# holds one message of the *ledger*, a queue of the sink's own, that names its epoch and partition. A repeated epoch
# finds there which of its partitions are visible. So rows are duplicated only when the driver dies between the commits
# of two branches *and* the repetition cuts the rows in another way.

_FORMAT = 0x4A4D5350
_EPOCH, _PARTITION = "sinkEpoch", "sinkPartition"
_PERSISTENT, _PRIORITY = 2, 4


def ledger_of(sink: str) -> Address:
    """Return the queue that records which partitions of a sink are visible."""
    return Address(AddressKind.QUEUE, f"pyjms.spark.ledger.{sink}")


def _xid(name: StageName) -> Xid:
    return Xid(_FORMAT, _transaction(name.sink, name.epoch), f"{name.partition}:{name.attempt}".encode()[:64])


def _transaction(sink: str, epoch: int) -> bytes:
    return hashlib.sha256(f"{sink}:{epoch}".encode("utf-8", "surrogatepass")).digest()


class Branches(Way):
    """Prepared branches, and a ledger of the visible partitions."""

    def write(
        self, connection: ProviderConnection, name: StageName, envelopes: Iterable[Envelope], options: JmsOptions
    ) -> Written:
        session = connection.open_session(transacted=True)
        try:
            # The driver died after it had committed this branch: the partition is
            # visible, and a second branch would write it twice.
            if (name.epoch, name.partition) in _visible(session, name.sink):
                return Written(name=name, way="xa", messages=0, waits=False)
            xid = _xid(name)
            session.xa_start(xid)
            count = 0
            for envelope in marked(name, envelopes):
                session.send(envelope)
                count += 1
            # The ledger's message is in the same branch as the rows, so both become visible together or not at all.
            session.send(_ledger_entry(name))
            session.xa_end(xid)
            session.xa_prepare(xid)
        finally:
            _close(session)
        return Written(name=name, way="xa", messages=count, waits=True)

    def finish(self, link: Link, sink: str, epoch: int, written: Sequence[Written]) -> None:
        link.call(lambda connection: self._finish(connection, sink, epoch, written))

    def _finish(self, connection: ProviderConnection, sink: str, epoch: int, written: Sequence[Written]) -> None:
        ours = [_xid(each.name) for each in sorted(written, key=lambda each: each.name) if each.waits]
        session = connection.open_session(transacted=True)
        try:
            of_this_epoch = _transaction(sink, epoch)
            # Rolled back before ours are committed: a failed attempt's branch holds a copy of the same rows, which
            # nothing else would end.
            for xid in session.xa_recover():
                if xid.global_transaction_id == of_this_epoch and xid not in ours:
                    _settled(session.xa_rollback, xid)  # of an attempt that failed, or of a driver that died
            for xid in ours:
                _settled(session.xa_commit, xid)
        finally:
            _close(session)
        _prune(connection, sink, epoch)

    def abandon(self, link: Link, written: Sequence[Written]) -> None:
        def roll_back(connection: ProviderConnection) -> None:
            session = connection.open_session(transacted=True)
            try:
                for each in written:
                    _settled(session.xa_rollback, _xid(each.name))
            finally:
                _close(session)

        if written:
            link.call(roll_back)


def _settled(settle: Callable[[Xid], None], xid: Xid) -> None:
    """Settle a branch; a missing one was settled before."""
    try:
        settle(xid)
    except BranchError as error:
        if error.failure is not BranchFailure.UNKNOWN:
            raise


def _close(session: ProviderSession) -> None:
    with suppress(ClosedError, ConnectionLostError):
        session.close()


def _ledger_entry(name: StageName) -> Envelope:
    properties = {_EPOCH: Long(name.epoch), _PARTITION: name.partition}
    address = ledger_of(name.sink)
    return Envelope(address, None, 0, 0, _PERSISTENT, _PRIORITY, None, None, None, properties, BodyKind.NONE, None)


def _visible(session: ProviderSession, sink: str) -> set[tuple[int, int]]:
    """Return epoch and partition of each message in the ledger."""
    found = set()
    for delivery in session.browse(ledger_of(sink), None):
        entry = delivery.envelope.properties
        found.add((int(entry[_EPOCH] or 0), int(entry[_PARTITION] or 0)))
    return found


def _prune(connection: ProviderConnection, sink: str, epoch: int) -> None:
    """Remove the records of epochs before `epoch` from the ledger: Spark never repeats those."""
    # A consumer receives nothing on a stopped connection (JMS 1.1 §4.3.3); sending and browsing work on it.
    connection.start()
    session = connection.open_session(transacted=False)
    try:
        older = SubscribeRequest(
            address=ledger_of(sink),
            selector=compile_selector(f"{_EPOCH} < {epoch}"),
            no_local=False,
            durable_name=None,
        )
        consumer = session.subscribe(older, lambda: None)
        consumer.catch_up()
        while (delivery := consumer.poll()) is not None:
            session.acknowledge((delivery,))
            consumer.catch_up()
    finally:
        _close(session)


# Which way a partition is written and an epoch made visible: the best that the message system supports.

WAYS: Mapping[str, Way] = {"stage": Staging(), "xa": Branches(), "transaction": Transactions()}


class _Living:
    """Skips messages that have expired (JMS 1.1 §3.4.9): a transaction with one of them could never be committed."""

    def __init__(self, envelopes: Iterable[Envelope], now_ms: Callable[[], int]) -> None:
        self._envelopes = envelopes
        self._now_ms = now_ms
        self.expired = 0

    def __iter__(self) -> Iterator[Envelope]:
        for envelope in self._envelopes:
            if 0 < envelope.expiration_ms <= self._now_ms():
                self.expired += 1
            else:
                yield envelope


def write_partition(
    name: StageName, envelopes_of: Callable[[ProviderConnection], Iterable[Envelope]], options: JmsOptions
) -> Written:
    """Write one partition in the best way that the message system supports; leave out expired rows.

    envelopes_of: makes the messages, given the connection. Raises `ProviderError`: Spark then tries the task again.
    """
    link = link_of(options)
    # The link repeats only connecting, not the write: the rows come from an iterator that cannot be read twice.
    connection = link.call(lambda opened: opened)
    try:
        living = _Living(envelopes_of(connection), link.clock.time_ms)
        written = WAYS[way_of(connection)].write(connection, name, living, options)
        return replace(written, expired=living.expired)
    except (ClosedError, ConnectionLostError):
        # A dead connection would be given to Spark's next attempt in this worker, which continues with other tasks.
        link.forget(connection)
        raise


def way_of(connection: ProviderConnection) -> str:
    """Return the best of `WAYS` that a connection supports. Raises `CapabilityError`."""
    if Capability.STAGE in connection.capabilities:
        return "stage"
    if Capability.XA | Capability.BROWSING in connection.capabilities:
        return "xa"
    require(connection, Capability.TRANSACTIONS, 'the sink of format("jms") needs at least transactions')
    return "transaction"


def finish(sink: str, epoch: int, written: Sequence[Written], options: JmsOptions) -> None:
    """Make all of an epoch visible; may be called again. Raises `ProviderError`: nothing of a staged epoch is visible then."""
    for way in {each.way for each in written}:
        WAYS[way].finish(link_of(options), sink, epoch, [each for each in written if each.way == way])
    expired = sum(each.expired for each in written)
    if expired:
        _log.warning(
            "epoch %d of sink %r was written without %d messages whose time to live was over", epoch, sink, expired
        )


def abandon(written: Sequence[Written], options: JmsOptions) -> None:
    """Drop unpromoted messages. Those that cannot be dropped now are dropped by a later epoch, or at their time-out."""
    for way in {each.way for each in written}:
        try:
            WAYS[way].abandon(link_of(options), [each for each in written if each.way == way and each.waits])
        # The epoch has already failed, and Spark reports why: staged messages are dropped at their time-out.
        except ProviderError as error:
            _log.warning("what an epoch had prepared is left to its timeout: %s", error.reason)

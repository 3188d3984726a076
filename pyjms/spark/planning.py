"""How the batches of a stream are planned, apart from Spark: the contract of planners, and the planner of reader groups.

A planner lives in one process as long as its query runs. Spark may kill it at any moment: its state is in the message
system or on a disk, and another process may repeat every call.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pyjms.spark.connecting import Link, link_of, require
from pyjms.spark.options import AckOn, DataLossError, JmsOptions, OptionError, old_checkpoint
from pyjms.spi.capability import Capability
from pyjms.spi.clock import Signal
from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address, AddressKind, content_size
from pyjms.spi.errors import ClosedError, ConnectionLostError, FencedError, GroupError, ProviderError
from pyjms.spi.provider import ProviderConnection, ProviderConsumer, ProviderSession, SubscribeRequest
from pyjms.spi.replay import GroupRequest, OpenGroup, ReservedMessage
from pyjms.spi.selector import selector_or_none

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


# The progress of a stream, as Spark stores it in a checkpoint: ``{"v":1,"group":"g","gen":"…","seq":123}``. Pure.

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """A position in the numbers of one generation of a reader group, or of a spool."""

    group: str
    generation: str
    seq: int
    """The number of the last message before this position."""
    begins_after: int | None = None
    """The start of the batch that ends here, if it is not where the previous batch ended: messages were lost, and the
    user allowed the query to continue. It is part of the offset, as a repeated batch must start at the same position.
    """

    def to_json(self) -> dict[str, Any]:
        """Return the offset in Spark's form."""
        told = {"v": VERSION, "group": self.group, "gen": self.generation, "seq": self.seq}
        return told if self.begins_after is None else {**told, "from": self.begins_after}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Offset:
        """Read the result of `to_json`. Raises `DataLossError` for an offset of another program."""
        try:
            # `DataLossError` is no `ValueError`, so the handler below does not replace this text by a vaguer one.
            if value["v"] != VERSION:
                raise DataLossError(
                    f"the checkpoint was written in version {value['v']} of pyjms's offsets, and this is {VERSION}: run the "
                    "version of pyjms that wrote it, or begin with a new checkpoint"
                )
            begins_after = value.get("from")
            return cls(
                group=str(value["group"]),
                generation=str(value["gen"]),
                seq=int(value["seq"]),
                begins_after=None if begins_after is None else int(begins_after),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise DataLossError(
                f'the checkpoint has an offset that is none of format("jms") ({error}): give each query a checkpoint of its own'
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The messages from ``after + 1`` to `upto`."""

    after: int
    upto: int

    def __len__(self) -> int:
        return self.upto - self.after


def between(start: Offset, end: Offset) -> Range:
    """Return the messages between two offsets."""
    if end.begins_after is not None:
        return Range(after=end.begins_after, upto=end.seq)
    # An end before the start is possible when a checkpoint of another generation is
    # in use; it is an empty batch, not a negative one.
    return Range(after=start.seq, upto=max(start.seq, end.seq))


def cut(whole: Range, parts: int | None, *, processors: int, least: int) -> list[Range]:
    """Return `whole` in equal parts, in order; none for an empty range.

    parts: how many; None: as many as there are `processors`, but each of at least `least` messages.
    """
    count = len(whole)
    if parts is None:
        parts = max(1, min(processors, count // least))
    # The option `partitions` may ask for more tasks than the batch has messages; an empty range gets no task at all.
    parts = min(parts, count)
    # Edges are computed from the whole, not by adding a rounded length: so they end at
    # `upto` exactly, and parts differ by one at most.
    edges = [whole.after + count * number // parts for number in range(parts + 1)] if parts else []
    return [Range(after=low, upto=high) for low, high in pairwise(edges)]


WAIT_MS = 300
"""How long a planner waits for a first message: Spark asks again at once, and would otherwise spin."""
_LEAST_IN_PARTITION = 1_000
_PAGE = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one batch."""

    max_messages: int | None
    """None: no limit."""
    max_bytes: int | None = None


class Piece(Protocol):
    """The part of a batch that one task reads; it is pickled. Reading changes nothing, and gives the same result each
    time.
    """

    def rows(self, schema: StructType, options: JmsOptions) -> Iterator[Any]:
        """Yield record batches, or tuples."""
        ...


class Planner(ABC):
    """The interface between Spark's source and a stream's messages."""

    @abstractmethod
    def initial(self) -> Offset:
        """Return where a query without a checkpoint starts. Changes nothing."""

    @abstractmethod
    def prepare_available_now(self) -> None:
        """Fix the end of the query at the messages present now: later offsets do not pass it, however many are sent
        meanwhile.
        """

    @abstractmethod
    def latest(self, start: Offset, limits: Limits) -> Offset:
        """Return where the batch after `start` ends; `start` itself when there is none. All messages before `start` are
        done.
        """

    @abstractmethod
    def reported(self) -> Offset | None:
        """Return the position up to which messages are known, for the progress report."""

    @abstractmethod
    def pieces(self, start: Offset, end: Offset) -> Sequence[Piece]:
        """Cut the batch between two offsets."""

    @abstractmethod
    def commit(self, end: Offset) -> None:
        """Take note that all messages before `end` are done. May be called late, repeatedly, or never."""

    @abstractmethod
    def close(self) -> None:
        """Close connections and files."""


def source_address(options: JmsOptions) -> Address:
    """Return the address to read from. Raises `OptionError`."""
    address = options.destination
    if address is None:
        raise OptionError(
            "option destination is missing: write queue:NAME, or topic:NAME with subscription and clientId"
        )
    if address.kind is AddressKind.TOPIC and options.subscription is None:
        raise OptionError(
            f"destination={address.kind.name.lower()}:{address.name}: a topic keeps no messages; give subscription and clientId, the "
            "durable subscription to read from"
        )
    return address


def group_request(options: JmsOptions, name: str) -> GroupRequest:
    """Return the request that opens the reader group `name` with these options. Raises `OptionError`."""
    return GroupRequest(
        name=name, address=source_address(options), subscription=options.subscription, selector=options.selector
    )


def processors() -> int:
    """Return the number of processors of this machine: the default number of parts of a batch."""
    return os.cpu_count() or 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPiece:
    """A range of a reader group."""

    group: str
    generation: str
    span: Range

    def rows(self, schema: StructType, options: JmsOptions) -> Iterator[Any]:
        """Yield the range from the message system. Raises `GroupError` if it no longer has it."""
        pages = pages_of_group(options, self.group, self.generation, self.span.after, self.span.upto)
        return rows(one_ahead(pages), schema, options)


def pieces_of_group(group: str, generation: str, whole: Range, parts: int | None) -> list[GroupPiece]:
    """Return `whole` in pieces."""
    spans = cut(whole, parts, processors=processors(), least=_LEAST_IN_PARTITION)
    return [GroupPiece(group=group, generation=generation, span=span) for span in spans]


def reserve_all(link: Link, opened: OpenGroup, max_bytes: int | None = None) -> int:
    """Reserve all deliverable messages, up to `max_bytes`, and return the highest number. Ends when a page is not full."""
    first = high = opened.group.high
    while True:
        found = link.call(
            # `reserve` counts from `after`: with the first number in each call, `max_bytes` limits all pages together,
            # and a call that is made again after a lost connection reserves nothing twice.
            lambda connection, most=high - first + _PAGE: connection.reader_groups().reserve(  # type: ignore[misc]
                opened, after=first, max_messages=most, max_bytes=max_bytes, wait_ms=0
            )
        )
        # A page that was not filled means that the queue is empty or `max_bytes` is reached; a full one says neither.
        if found < high + _PAGE:
            return int(found)
        high = found


class GroupPlanner(Planner):
    """Plans by a reader group of the message system: `Capability.REPLAY`."""

    def __init__(self, options: JmsOptions) -> None:
        if options.reader_group is None:
            raise OptionError(
                "option readerGroup is missing: give the query a name of its own, by which the broker knows what it holds; a query "
                "that starts again gives the same"
            )
        self._request = group_request(options, options.reader_group)
        self._options = options
        self._name = options.reader_group
        self._opened: OpenGroup | None = None
        self._low = self._high = 0
        self._ends_with_present_messages = False
        self._target: int | None = None

    @property
    def _link(self) -> Link:
        return link_of(self._options, with_client_id=self._options.subscription is not None)

    def _open(self) -> OpenGroup:
        """Open the group, once: a query that opens it later takes it over, which this planner must detect."""
        if self._opened is None:
            # Opened once only: a second `open` would raise the fence and take the group back from a
            # query that started later, which would hide the conflict.
            self._opened = self._link.call(self._open_with)
            # The marks are cached, as they only change by this planner's own
            # calls: another query's calls would fence it.
            self._low, self._high = self._opened.group.low, self._opened.group.high
        return self._opened

    def _open_with(self, connection: Any) -> OpenGroup:
        require(
            connection,
            Capability.REPLAY,
            "read with mode=spool and a spoolDir that driver and executors share, or with mode=at-least-once",
        )
        opened: OpenGroup = connection.reader_groups().open(self._request)
        return opened

    def _offset(self, seq: int, begins_after: int | None = None) -> Offset:
        generation = self._open().group.generation
        return Offset(group=self._name, generation=generation, seq=seq, begins_after=begins_after)

    def initial(self) -> Offset:
        self._open()
        return self._offset(self._low)

    def prepare_available_now(self) -> None:
        """Reserve nothing before the checkpoint's position is checked: in a store that is older, new messages would get
        its numbers.
        """
        self._ends_with_present_messages = True

    def _reserve_target(self) -> None:
        """Reserve the messages present now, once, if the query ends with them."""
        if self._ends_with_present_messages and self._target is None:
            opened = self._open()
            self._target = self._high = self._guarded(lambda: reserve_all(self._link, opened))

    def latest(self, start: Offset, limits: Limits) -> Offset:
        self._open()
        # The checkpoint's position is checked before anything is reserved: an old copy of the store would give new
        # messages numbers that the checkpoint calls done.
        after = self._position_of(start)
        self._reserve_target()
        # A position of another generation must not acknowledge: its numbers denote other messages here.
        is_known = after == start.seq and self._is_ours(start)
        if is_known and self._options.ack_on is AckOn.PROGRESS:
            # Spark asks what follows `start` only when the batch that ended there is in its commit
            # log (decision 0170), so the output has these messages.
            self._acknowledge(start.seq)
        high = self._reserve(after, limits)
        if high == after:
            return start
        # After a loss of messages the batch starts elsewhere than its start offset says, and Spark stores the end
        # offset alone.
        return self._offset(high, None if is_known else after)

    def _reserve(self, after: int, limits: Limits) -> int:
        opened = self._open()
        most = limits.max_messages
        if self._target is not None:  # all up to there is reserved, and the broker knows how many bytes that is
            left = self._target - after
            most = left if most is None else min(left, most)
            if most <= 0:
                return after
        if most is None:
            self._high = self._guarded(lambda: reserve_all(self._link, opened))
            return self._high
        high = self._guarded(
            lambda: self._link.call(
                lambda connection: connection.reader_groups().reserve(
                    opened, after=after, max_messages=most, max_bytes=limits.max_bytes, wait_ms=WAIT_MS
                )
            )
        )
        # With enough reserved already, `reserve` returns a number below the highest one.
        self._high = max(self._high, high)
        return int(high)

    def _is_ours(self, offset: Offset) -> bool:
        return offset.group == self._name and offset.generation == self._open().group.generation

    def _position_of(self, start: Offset) -> int:
        """Return the number after which the next batch begins. Raises `DataLossError`."""
        if not self._is_ours(start):
            self._lose(self._foreign(start))
            # Numbers of another generation mean nothing here, so the query continues with all messages that the group
            # holds.
            return self._low
        if start.seq < self._low:
            # Refused for any value of failOnDataLoss: Spark's sinks would take the next
            # batches for repetitions and drop new messages.
            raise old_checkpoint(start.seq, f"reader group {self._name!r}", self._low)
        if start.seq > self._high:
            self._lose(self._beyond(start.seq))
            self._begin_generation()
            return self._low
        return start.seq

    def _begin_generation(self) -> None:
        """Begin a new generation, as the numbers up to the checkpoint's position would be given out again. Spark has
        them acknowledged when it plans the next batch, or after a crash before that, and this would remove new
        messages. The output has all messages that the group holds.
        """
        # The order makes each step repeatable: after a crash in between, the next driver finds the group empty or
        # missing, and completes them.
        self._acknowledge(self._high)
        self._guarded(lambda: self._link.call(self._release))
        self._opened = None
        self._open()

    def _release(self, connection: Any) -> None:
        with suppress(GroupError):  # the answer to an earlier attempt was lost, and it had taken effect
            connection.reader_groups().release(self._name)

    def _foreign(self, offset: Offset) -> str:
        return (
            f"the checkpoint is at message {offset.seq} of reader group {offset.group!r}, generation {offset.generation}, and the "
            f"broker has generation {self._open().group.generation} of {self._name!r}: the group was released, or the broker's "
            "store replaced"
        )

    def _beyond(self, seq: int) -> str:
        return (
            f"the checkpoint is at message {seq} of reader group {self._name!r}, and the broker knows {self._high}: its "
            "store is an old copy"
        )

    def _lose(self, what: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLossError(
                f"{what}. What is missing will not be read: start the query with failOnDataLoss=false (`pyjms pipeline archive` and "
                "`route` with --no-fail-on-data-loss) to go on with what the broker holds now"
            )

    def reported(self) -> Offset | None:
        return None if self._opened is None else self._offset(self._high)

    def pieces(self, start: Offset, end: Offset) -> Sequence[Piece]:
        wanted = self._available(start, end)
        return pieces_of_group(end.group, end.generation, wanted, self._options.partitions)

    def _available(self, start: Offset, end: Offset) -> Range:
        """Return the part of a batch that the broker has. A restarted query begins here, with a batch that the
        checkpoint has and that no output reports as done. Raises `DataLossError`; for a checkpoint that has only whole
        batches, `_position_of` does the same.
        """
        wanted = between(start, end)
        if not wanted:
            return wanted
        self._open()
        if not self._is_ours(end):
            self._lose(self._foreign(end))
            return Range(after=wanted.after, upto=wanted.after)
        if wanted.after < self._low:
            raise old_checkpoint(wanted.after, f"reader group {self._name!r}", self._low)
        if wanted.upto > self._high:
            self._lose(self._beyond(end.seq))
            # With failOnDataLoss=false Spark still expects the planned batch: it
            # gets the part of it that the store has.
            return Range(after=min(wanted.after, self._high), upto=self._high)
        # With availableNow the repeated batch comes before the first `latest`; the messages present now are reserved
        # when the checkpoint's position is known.
        self._reserve_target()
        return wanted

    def commit(self, end: Offset) -> None:
        if self._is_ours(end):
            self._acknowledge(end.seq)

    def _acknowledge(self, upto: int) -> None:
        # Spark's `commit` comes late and repeatedly; no request is sent for messages that this planner has settled
        # itself.
        if upto <= self._low:
            return
        # The group is bound outside of the lambda: a link that reconnects repeats the call
        # with the same fence, and a newer query stays protected.
        opened = self._open()
        self._guarded(lambda: self._link.call(lambda connection: connection.reader_groups().acknowledge(opened, upto)))
        self._low = upto

    def _guarded(self, action: Any) -> Any:
        try:
            return action()
        except FencedError as error:
            raise FencedError(
                f"another query has opened reader group {self._name!r} since: give each query a readerGroup of its own, and let one "
                f"run at a time ({error.reason})"
            ) from error
        except GroupError as error:
            raise GroupError(
                f"reader group {self._name!r}: {error.reason}. If an operator released it, start the query again with "
                "failOnDataLoss=false (`pyjms pipeline archive` and `route` with --no-fail-on-data-loss)"
            ) from error

    def close(self) -> None:
        self._link.close()


# Receiving from a message system that cannot replay: one consumer, single acknowledgements.

_ROW_BYTES = 500


class Receiver:
    """One consumer, created at first use, and again after a lost connection. For one thread."""

    def __init__(self, options: JmsOptions) -> None:
        self._options = options
        self._request = SubscribeRequest(
            address=source_address(options),
            selector=selector_or_none(options.selector),
            no_local=False,
            durable_name=options.subscription,
        )
        # The provider sets this signal from its own thread; everything else here belongs to the planner's one thread.
        self._signal = Signal()
        self._connection: ProviderConnection | None = None
        self._session: ProviderSession | None = None
        self._consumer: ProviderConsumer | None = None
        self.life = 0
        """Counts connections: a delivery can be settled only on the connection that received it."""
        self._since_ms: int | None = None
        self._is_over = False

    @property
    def _link(self) -> Link:
        return link_of(self._options, with_client_id=True)

    def end_with_present_messages(self) -> None:
        """Let `receive` return nothing more after the messages present now, and those that arrive while it receives
        them.
        """
        self._since_ms = self._link.clock.time_ms()

    def receive(self, limits: Limits, wait_ms: int) -> list[Delivery]:
        """Return the available messages, within `limits`; wait up to `wait_ms` for a first message.

        Nothing if the connection is lost meanwhile: all unacknowledged messages are redelivered.
        """
        if self._is_over:
            return []
        # A lost connection is opened here, outside of the `try`: `Link.call` has its own
        # time limit, and its error should end the query.
        consumer = self._open()
        until_ms = self._link.clock.monotonic_ms() + wait_ms
        found: list[Delivery] = []
        size = 0
        try:
            while (limits.max_messages is None or len(found) < limits.max_messages) and (
                limits.max_bytes is None or size < limits.max_bytes
            ):
                # `poll` alone is the short way: `catch_up` costs a round trip to a remote broker, so it is only called
                # when no message is available.
                delivery = consumer.poll() or self._poll_or_wait(consumer, may_wait=not found, until_ms=until_ms)
                if delivery is None:
                    self._is_over = self._since_ms is not None  # all messages that were present have been received
                    break
                found.append(delivery)
                # The size is added after the message is taken: a batch has one message at least, even if that exceeds
                # `max_bytes`, or the query would stand still.
                size += _ROW_BYTES + content_size(delivery.envelope)
        except (ClosedError, ConnectionLostError):
            # The deliveries received so far are dropped with their connection: they could not be
            # acknowledged, and the broker delivers them again.
            self.disconnect()
            return []
        if self._since_ms is not None and all(each.envelope.timestamp_ms > self._since_ms for each in found):
            self._is_over = True  # the sender is quicker than the query
        return found

    def _poll_or_wait(self, consumer: ProviderConsumer, *, may_wait: bool, until_ms: float) -> Delivery | None:
        """Return a message that is on its way; if there is none, wait for one."""
        # The broker may have sent messages that the client has not processed yet: without this,
        # an empty `poll` would end `availableNow` too early.
        consumer.catch_up()
        delivery = consumer.poll()
        while delivery is None and may_wait:
            delivery = consumer.poll_or_wait()
            if delivery is None and not self._link.clock.wait(self._signal, until_ms):
                # The wait is over: with its interest still registered, the provider would wake this consumer, which no
                # longer looks, in place of another one.
                consumer.set_interested(False)
                # A message may have been delivered between the end of the wait and the
                # loss of interest; it is already this session's.
                return consumer.poll()
        return delivery

    def _open(self) -> ProviderConsumer:
        if self._consumer is None:
            self._consumer = self._link.call(self._subscribe)
        return self._consumer

    def _subscribe(self, connection: ProviderConnection) -> ProviderConsumer:
        connection.start()
        self._connection = connection
        self._session = connection.open_session(transacted=False)
        return self._session.subscribe(self._request, self._signal.set)

    def acknowledge(self, deliveries: Sequence[Delivery]) -> bool:
        """Settle deliveries that `receive` returned; return False when the connection is lost: they may or may not be
        redelivered.
        """
        if self._session is None:
            return False
        try:
            self._session.acknowledge(deliveries)
        except ProviderError as error:
            # Providers report a broken connection by various errors, so its state decides too;
            # the acknowledgement may have arrived all the same.
            is_gone = self._connection is None or self._connection.state != "connected"
            if not is_gone and not isinstance(error, (ClosedError, ConnectionLostError)):
                raise
            self.disconnect()
            return False
        return True

    def disconnect(self) -> None:
        """Drop the connection; all unacknowledged messages are redelivered."""
        connection, self._connection = self._connection, None
        self._session = self._consumer = None
        # Counted before the close, which may fail: deliveries of the former
        # connection must never be acknowledged on a new one.
        self.life += 1
        if connection is not None:
            with suppress(ProviderError):
                self._link.forget(connection)


# One page of read-ahead: the next page is fetched while the present one is turned into columns. Otherwise the broker
# and the task would wait for each other in turn. At most one page waits, so that memory stays bounded.

_T = TypeVar("_T")


def one_ahead(pages: Iterable[_T]) -> Iterator[_T]:
    """Yield `pages`; each is requested, on another thread, when the previous one is handed out. Raises what they raise.

    A caller that stops early does not wait: the page under way is dropped when it arrives, within the connection's
    time-out.
    """
    source = iter(pages)
    # One thread only: `source` is a generator, and two threads must not be in it at once.
    pool = ThreadPoolExecutor(1, "pyjms page")

    def ask() -> Future[list[_T]]:
        # A list of one or none, since StopIteration cannot pass through a Future.
        return pool.submit(lambda: list(islice(source, 1)))

    try:
        coming = ask()
        while found := coming.result():
            coming = ask()
            yield found[0]
    finally:
        # Without waiting: a task that Spark cancels would otherwise hang in the request that is under way.
        pool.shutdown(wait=False, cancel_futures=True)


BATCH_MESSAGES = 5_000
_BATCH_BYTES = 8 * 1024 * 1024
_MESSAGE_BYTES = 500
"""The size of a message beside its body and properties, roughly."""

Page = Sequence[ReservedMessage]


def pages_of_group(options: JmsOptions, group: str, generation: str, after: int, upto: int) -> Iterator[Page]:
    """Yield the messages from ``after + 1`` to `upto`. Raises `GroupError` when they no longer exist."""
    # Reading needs no client id: only the planner's connection may have it, and tasks run beside it in other processes.
    link = link_of(options)
    while after < upto:
        page = link.call(_page(group, generation, after, upto))
        yield page
        # The broker decides how many messages make a page, so the next page begins after the last number received.
        after = page[-1].number


def _page(group: str, generation: str, after: int, upto: int) -> Callable[[Any], Page]:
    return lambda connection: connection.reader_groups().read(group, generation, after=after, upto=upto)


def rows(pages: Iterable[Page], schema: StructType, options: JmsOptions) -> Iterator[Any]:
    """Yield the objects that Spark's reader protocol expects: record batches; with ``arrow=false`` tuples, which are
    slower.
    """
    from pyjms.spark.arrow import arrow_schema, record_batch, tuples

    wanted = arrow_schema(schema)
    for batch in in_batches(pages):
        if options.arrow:
            yield record_batch(batch, wanted, with_bodies=options.with_bodies)
        else:
            yield from tuples(batch, wanted.names, with_bodies=options.with_bodies)


def in_batches(pages: Iterable[Page]) -> Iterator[list[ReservedMessage]]:
    """Yield the messages of pages in chunks of a size that suits Arrow, none of them empty."""
    batch: list[ReservedMessage] = []
    size = 0
    for page in pages:
        for message in page:
            batch.append(message)
            size += _MESSAGE_BYTES + content_size(message.envelope)
            if len(batch) >= BATCH_MESSAGES or size >= _BATCH_BYTES:
                yield batch
                batch, size = [], 0
    if batch:
        yield batch

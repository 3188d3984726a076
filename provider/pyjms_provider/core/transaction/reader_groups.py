"""The reader groups of a virtual host: who may number, read, acknowledge and release what (`pyjms.spi.replay`).

A group belongs to the host, not to a connection: it stays as it is when its reader's connection is lost, and, with a store,
when the broker dies. What it reserves is written before anybody is told, and what it acknowledges is written before it goes.

Locks: each group has a turn, in which one thread writes and no lock is held, and a lock for its fields, held for a few
steps; the table's lock guards the table. Each is taken alone, or with the table's first.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Final

from pyjms.spi.clock import Signal
from pyjms.spi.envelope import AddressKind, ConnectionId
from pyjms.spi.errors import DestinationError, GroupError, SubscriptionInUseError
from pyjms.spi.provider import SubscribeRequest
from pyjms.spi.replay import GroupRequest, OpenGroup, ReaderGroup, ReservedMessage
from pyjms.spi.selector import Selector, is_same_text, selector_or_none
from pyjms_provider.core.journal.in_doubt_writes import is_doubt
from pyjms_provider.core.journal.journal import (
    Changes,
    GroupNumber,
    GroupRecord,
    PipelineChanges,
    QueueNumber,
    SubscriptionKey,
)
from pyjms_provider.core.queue.turn import WritingTurn
from pyjms_provider.core.topic.subscription import Subscription
from pyjms_provider.core.transaction.reader_group import Group

if TYPE_CHECKING:
    from pyjms_provider.core.host.virtual_host import VirtualHost
    from pyjms_provider.core.queue.consumer import Consumer
    from pyjms_provider.core.queue.queue import Queue
    from pyjms_provider.core.transaction.reader_group import Held

__all__ = ["GroupTable"]

_log = logging.getLogger(__name__)

NAME_MAX: Final = 200
_WAIT_MAX_MS: Final = 1000
_IN_MEMORY: Final = QueueNumber(0)


class GroupTable:
    """All groups of one host. Safe to use from any thread."""

    def __init__(self, host: VirtualHost) -> None:
        self._host = host
        self._lock = Lock()
        self._opening = WritingTurn()
        self._groups: dict[str, Group] = {}
        self._numbers = count(1)

    # Opening

    def open(self, request: GroupRequest, client_id: str | None) -> OpenGroup:
        """Do as `ReaderGroups.open` says, for a connection with this client id. Waits for the journal."""
        if not 1 <= len(request.name) <= NAME_MAX:
            raise GroupError(f"the name of a reader group has 1 to {NAME_MAX} characters")
        selector = selector_or_none(request.selector)
        request = replace(request, selector=None if selector is None else selector.text)
        with self._opening:
            return self._host.work(partial(self._open, request, selector, client_id))

    def _open(self, request: GroupRequest, selector: Selector | None, client_id: str | None) -> OpenGroup:
        group = self._find_or_none(request.name)
        if group is None:
            return self._make(request, selector, client_id)
        _check_same(group, request, client_id)
        with group.turn:
            if group.is_gone:
                raise _unknown(request.name)
            group.check_kept()
            self._acknowledge(group, group.doubtful)  # else an older low mark could be written over a newer one
            record = replace(group.record, fence=group.record.fence + 1, low=group.low, opened_ms=self._now_ms())
            try:
                self._write_all(Changes(pipelines=PipelineChanges(groups=[record])), force=True)
            except Exception as error:
                if is_doubt(error):
                    group.record = record  # nobody has the new fence, and the old one may not be good any more
                raise
            group.record = record
        return OpenGroup(group=group.report(), fence=record.fence)

    def _make(self, request: GroupRequest, selector: Selector | None, client_id: str | None) -> OpenGroup:
        key = None
        if request.address.kind is AddressKind.QUEUE:
            queue: Queue = self._queue(request)
        else:
            key = _key_of(request, client_id)
            queue = self._subscription(request, key, selector)
            selector = None  # the subscription has it
        number = GroupNumber(next(self._numbers))
        kept = queue.kept
        record = GroupRecord(
            number=number,
            name=request.name,
            queue=_IN_MEMORY if kept is None else kept.number,
            selector_text=request.selector,
            generation=f"{self._host.store.store_id}-{number}",
            low=0,
            fence=1,
            opened_ms=self._now_ms(),
        )
        changes = Changes(pipelines=PipelineChanges(groups=[record]))
        if kept is not None:
            kept.add_definition(changes)
        try:
            self._write_all(changes, force=True)
        except Exception:
            self._let_go(queue)
            raise
        if kept is not None:
            kept.was_defined()
        group = Group(record, request.address, key, selector, queue)
        with self._lock:
            self._groups[request.name] = group
        return OpenGroup(group=group.report(), fence=1)

    def _queue(self, request: GroupRequest) -> Queue:
        if request.subscription is not None:
            raise DestinationError(f"{request.address} is a queue, and has no subscriptions")
        if request.address.temporary:
            raise DestinationError(
                f"{request.address} is temporary, and goes with its connection; a reader group stays"
            )
        queue = self._host.queue(request.address.name)
        if queue.policy.non_destructive:
            raise GroupError(
                f"messages of {request.address} are only looked at (non_destructive), so nobody can hold them"
            )
        return queue

    def _subscription(self, request: GroupRequest, key: SubscriptionKey, selector: Selector | None) -> Subscription:
        known = self._host.subscriptions.durable().get(key)
        if known is not None:
            terms = known.terms
            if known.is_active:
                raise SubscriptionInUseError(
                    f"durable subscription {key.name!r} has a subscriber; close that one first"
                )
            if terms.topic != request.address or not is_same_text(terms.selector_text, request.selector):
                raise GroupError(
                    f"durable subscription {key.name!r} of client {key.client_id!r} reads {terms.topic}, selector "
                    f"{terms.selector_text!r}; ask for the same, or delete it first"
                )
            no_local = terms.no_local
        else:
            no_local = False
        wanted = SubscribeRequest(address=request.address, selector=selector, no_local=no_local, durable_name=key.name)
        return self._host.subscriptions.subscribe(wanted, _holder_of(request.name), key.client_id, self)

    def _let_go(self, queue: Queue) -> None:
        if isinstance(queue, Subscription):
            self._host.subscriptions.end(queue, self)

    # Reserving

    def reserve(self, opened: OpenGroup, *, after: int, max_messages: int, max_bytes: int | None, wait_ms: int) -> int:
        """Do as `ReaderGroups.reserve` says."""
        if max_messages < 1 or (max_bytes is not None and max_bytes < 1):
            raise GroupError("a reader group reserves one message, and one byte, at least")
        group = self._find(opened.group.name)
        clock = self._host.clock
        until_ms = clock.monotonic_ms() + min(wait_ms, _WAIT_MAX_MS)
        signal = Signal()
        consumer: Consumer | None = None
        try:
            while True:
                with group.turn:
                    group.check(opened)
                    enough = group.is_enough(after, max_messages, max_bytes)
                    if enough is not None:
                        return enough
                    if consumer is None:
                        consumer = group.new_consumer(signal.set)
                        group.queue.add_consumer(consumer)
                    self._host.work(partial(self._reserve_more, group, consumer, after, max_messages, max_bytes))
                    if group.high > after or clock.monotonic_ms() >= until_ms:
                        return group.high
                group.queue.set_notify_work_desired(consumer, True)
                clock.wait(signal, until_ms)
                group.queue.set_notify_work_desired(consumer, False)
        finally:
            if consumer is not None:
                group.queue.remove_consumer(consumer)

    def _reserve_more(
        self, group: Group, consumer: Consumer, after: int, max_messages: int, max_bytes: int | None
    ) -> None:
        """Reserve what is there now. The turn is taken."""
        store = self._host.store
        if group.unsure:
            self._keep(group, group.unsure)
        room = after + max_messages - group.high
        if room <= 0:
            return
        room_bytes = None if max_bytes is None else max_bytes - group.bytes_after(after)
        pulled = group.pull(consumer, room, room_bytes, one=group.high == after, store=store)
        if pulled:
            self._keep(group, pulled)

    def _keep(self, group: Group, pulled: list[Held]) -> None:
        """Write that messages are the group's, and hold them; or give them back. The turn is taken."""
        keeper = self._host.keeper
        if keeper is not None:
            try:
                added = group.keep_transient(pulled, self._host.store)
                reserved = group.reservations(pulled)
                changes = Changes(messages=added, pipelines=PipelineChanges(reserved=reserved))
                keeper.journal.write(changes, force=True)
            except Exception as error:
                if is_doubt(error):
                    group.note_unsure(pulled)
                elif pulled is not group.unsure:
                    group.give_back_unseen(pulled)
                raise
            for message in added:
                message.reference.journaled = True
        group.take(pulled)

    # Reading

    def read(self, name: str, generation: str, *, after: int, upto: int) -> Sequence[ReservedMessage]:
        """Do as `ReaderGroups.read` says. Waits for a disk, or for the journal."""
        group = self._find(name)
        if group.record.generation != generation:
            raise GroupError(
                f"reader group {name!r} is a new one: the one with these numbers was released, or its queue deleted, or the "
                f"broker has another store"
            )
        if after >= upto:
            return ()
        keeper = self._host.keeper
        if keeper is not None and not keeper.journal.is_held:
            keeper.journal.confirm()
        return group.read(group.page(after, upto), after, self._host.store)

    # Letting go

    def acknowledge(self, opened: OpenGroup, upto: int) -> None:
        """Do as `ReaderGroups.acknowledge` says. Waits for the journal."""
        group = self._find(opened.group.name)
        with group.turn:
            group.check(opened)
            self._host.work(partial(self._acknowledge, group, upto))

    def _acknowledge(self, group: Group, upto: int) -> None:
        gone = group.acknowledged(upto)
        if upto <= group.low:
            return
        keeper = self._host.keeper
        if keeper is not None:
            pipelines = PipelineChanges(acknowledged=[(group.record.number, upto)])
            changes = Changes(removals=group.removals(gone), pipelines=pipelines)
            try:
                keeper.journal.write(changes, force=keeper.force_acknowledgements)
            except Exception as error:
                if is_doubt(error):
                    group.doubtful = max(group.doubtful, upto)
                raise
        group.settle(upto, gone)

    def release(self, name: str) -> int:
        """Do as `ReaderGroups.release` says. Waits for the journal."""
        group = self._find(name)
        with group.turn:
            if group.is_gone:
                raise _unknown(name)
            released = self._host.work(partial(self._release, group))
        _log.info(
            "PYJMS-BROKER-23 reader group %r was released; %d messages went back to %s", name, released, group.address
        )
        return released

    def _release(self, group: Group) -> int:
        self._acknowledge(group, group.doubtful)  # else what is gone could come back
        if group.unsure:  # else the store could have transient messages of which the queue knows nothing
            self._keep(group, group.unsure)
        changes = Changes(counts=group.counts(), pipelines=PipelineChanges(released=[group.record.number]))
        try:
            self._write_all(changes, force=True)
        except Exception as error:
            if is_doubt(error):
                group.is_perhaps_released = True
            raise
        return self._end(group)

    def _end(self, group: Group) -> int:
        """Give back what a group holds; return how many messages that were. Only the first of several who end it does so."""
        with self._lock:
            if self._groups.get(group.record.name) is not group:
                return 0
            del self._groups[group.record.name]
        released = group.end()
        self._let_go(group.queue)
        return released

    # Looking

    def groups(self) -> list[ReaderGroup]:
        """Return all groups, by name."""
        return [group.report() for group in self.all()]

    def all(self) -> list[Group]:
        """Return the groups themselves, by name."""
        with self._lock:
            names = sorted(self._groups)
        return [group for name in names if (group := self._find_or_none(name)) is not None]

    def _find(self, name: str) -> Group:
        group = self._find_or_none(name)
        if group is None:
            raise _unknown(name)
        return group

    def _find_or_none(self, name: str) -> Group | None:
        group = self._groups.get(name)
        if group is None or not group.is_gone:
            return group
        self._end(group)  # its queue was deleted, and the journal forgot the group with it
        return None

    # What a journal has kept

    def restore(self, group: Group) -> None:
        """Know a group again that the journal has kept; before anybody uses it."""
        self._numbers = count(max(group.record.number + 1, next(self._numbers)))
        if isinstance(group.queue, Subscription):
            group.queue.user = self
            group.queue.subscriber = _holder_of(group.record.name)
        self._groups[group.record.name] = group

    # Writing

    def _write_all(self, changes: Changes, *, force: bool) -> None:
        if self._host.keeper is not None:
            self._host.keeper.journal.write(changes, force=force)

    def _now_ms(self) -> int:
        return self._host.clock.time_ms()


def _unknown(name: str) -> GroupError:
    return GroupError(
        f"there is no reader group {name!r}: it was never opened, or was released, or its queue was deleted"
    )


def _key_of(request: GroupRequest, client_id: str | None) -> SubscriptionKey:
    if request.address.temporary:
        raise DestinationError(f"{request.address} is temporary, so it can have no durable subscription")
    if request.subscription is None:
        raise GroupError(f"{request.address} is a topic: name the durable subscription that the group reads")
    if client_id is None:
        raise GroupError(f"durable subscription {request.subscription!r} needs a connection with a client id")
    return SubscriptionKey(client_id, request.subscription)


def _check_same(group: Group, request: GroupRequest, client_id: str | None) -> None:
    key = group.key
    is_same = group.address == request.address and group.record.selector_text == request.selector
    if key is None:
        is_same = is_same and request.subscription is None
    else:
        is_same = is_same and (key.client_id, key.name) == (client_id, request.subscription)
    if not is_same:
        what = str(group.address) if key is None else f"{group.address}, subscription {key.name!r} of {key.client_id!r}"
        raise GroupError(
            f"reader group {request.name!r} reads {what}, selector {group.record.selector_text!r}; ask for the same, choose "
            f"another name, or release it first"
        )


def _holder_of(name: str) -> ConnectionId:
    return ConnectionId(f"reader group {name}")

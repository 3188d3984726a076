"""How a queue pushes messages to receivers (JBoss Messaging Core, Revision 1, §5 to §8).

Applications and plug-ins connect receivers by `pyjms_provider.receivers`. Clients that consume are not pushed to: their consumers pull,
and a queue without receivers asks no more than whether it has some.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING

from pyjms.spi.errors import InDoubtError, ProviderError
from pyjms.spi.receivers import NotAcceptedError, PushTo, UnknownDeliveryError
from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.queue.search import waiting_entries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyjms_provider.core.channel import Receiver
    from pyjms_provider.core.message.entry import QueueEntry, ReceiverId, Transaction
    from pyjms_provider.core.message.reference import ReferenceId
    from pyjms_provider.core.queue.contracts import QueueCore

_log = logging.getLogger(__name__)


class Pusher:
    """Pushes the messages of one channel to its receivers.

    The thread whose call makes a message available pushes it, as the specification has it; with `schedule` one thread of its own does,
    so that a slow receiver keeps no sender waiting.
    """

    __slots__ = (
        "_channel",
        "_offers_all",
        "_waiting",
        "_written",
        "has_failed",
        "push_to",
        "receivers",
        "schedule",
        "write_early",
        "write_settled",
    )

    def __init__(self, channel: QueueCore) -> None:
        """Make one without receivers."""
        self._channel = channel
        self.push_to = PushTo.FIRST
        self.receivers: tuple[Receiver, ...] = ()
        self.schedule: Callable[[], None] | None = None
        """Asks the thread that pushes to call `run`; None: there is no such thread."""
        self.write_settled: Callable[[Sequence[QueueEntry]], None] | None = None
        """Writes that messages have left the channel, and waits for it; None: the journal has it with its next write."""
        self.write_early: Callable[[Sequence[QueueEntry]], None] | None = None
        """Writes the same of messages that are still being delivered, and stay in the channel until that has ended."""
        self._waiting: deque[QueueEntry] = deque()
        self._written: set[QueueEntry] = set()
        """Messages that `write_early` has written."""
        self._offers_all = False
        self.has_failed = False
        """Whether a receiver has raised an exception; the thread that pushes resets it when it offers the messages again."""

    def add(self, receiver: Receiver) -> None:
        """Connect a receiver."""
        with self._channel.lock:
            self.receivers = (*self.receivers, receiver)
            self._channel.has_receivers = True

    def remove(self, receiver: Receiver) -> None:
        """Disconnect a receiver; what it owes stays."""
        with self._channel.lock:
            self.receivers = tuple(other for other in self.receivers if other is not receiver)
            self._channel.has_receivers = bool(self.receivers)

    def offer(self, entry: QueueEntry) -> None:
        """Offer a message that has just become available to receivers, and to consumers if no receiver takes it. No lock is held."""
        self._waiting.append(entry)
        self._wake()

    def offer_all(self) -> None:
        """Offer all messages that are available now. No lock is held."""
        self._offers_all = True
        self._wake()

    @property
    def has_waiting(self) -> bool:
        """Whether messages wait for `run`."""
        return bool(self._waiting)

    def _wake(self) -> None:
        # Read after the message is in `_waiting`: the end of the thread that pushes clears `schedule`, and then looks there once more.
        schedule = self.schedule
        if schedule is None:
            self.run()
        else:
            schedule()

    def run(self) -> None:
        """Push the messages that wait, in the order in which they became available. Raises `ProviderError`: the rest waits on."""
        if self._offers_all:
            self._offers_all = False
            try:
                self.deliver()
            except ProviderError:
                self._offers_all = True
                raise
        while self._waiting:
            try:
                entry = self._waiting.popleft()
            except IndexError:  # another thread was faster
                return
            try:
                self._push_or_notify(entry)
            except ProviderError:
                # A message that is back in its queue is offered once more; one that was taken is not found there.
                self._waiting.appendleft(entry)
                raise

    def _push_or_notify(self, entry: QueueEntry) -> None:
        self.push(entry)
        channel = self._channel
        with channel.lock:
            woken = channel.choose(entry) if entry.state is MessageState.NEW else ()
        for consumer in woken:
            consumer.notify_work()

    def deliver(self) -> bool:
        """Do as `Channel.deliver`. Raises `ProviderError`."""
        # Receivers are called without the lock; of a long backlog only the next few entries are made at a time.
        for entry in waiting_entries(self._channel):
            if not self.receivers:  # the last one was disconnected meanwhile
                break
            self.push(entry)
        with self._channel.lock:
            return not self._channel.state.count(MessageState.NEW)

    def redeliver(self, receiver: Receiver) -> None:
        """Do as `Channel.redeliver`. Raises `ProviderError`."""
        receiver_id, channel = receiver.receiver_id, self._channel
        with channel.lock:
            owed = channel.state.unacknowledged_by(receiver_id)
        for entry in owed:
            with channel.lock:
                # One at a time, under the lock: the receiver may have acknowledged others while it handled this one.
                begun = channel.state.begin_push_again(entry, receiver_id)
            if begun:
                is_positive = False
                try:
                    # A refusal leaves all as it was: the receiver owes what it owed (§8.1.2).
                    is_positive = self._offer_to(receiver, entry) or False
                finally:
                    with channel.lock:
                        channel.state.update(entry, receiver_id, is_positive)
                        is_settled = self._end_push(entry, handled=True)
                self._let_go(entry, is_settled=is_settled)

    def push(self, entry: QueueEntry) -> None:
        """Offer an available message to the receivers (§5.2.3, §5.3.2). Raises `ProviderError`: then it is available again."""
        channel = self._channel
        with channel.lock:
            if channel.policy.paused or channel.remove_if_expired(entry) or channel.state.begin_push(entry) is None:
                return
            # A copy: receivers may come and go while those here are called, without the lock.
            receivers = self.receivers
        handled = False
        try:
            for receiver in receivers:
                answer = self._offer_to(receiver, entry)
                # A receiver that has acknowledged early, and failed afterwards, has taken the message.
                if answer is None and not entry.has_early(receiver.receiver_id):
                    continue
                handled = True
                with channel.lock:
                    channel.state.update(entry, receiver.receiver_id, answer or False)
                    # A receiver that was disconnected meanwhile must not come back by this.
                    if self.push_to is PushTo.FIRST and receiver in self.receivers:
                        # In turn: the receiver that took this message is asked last for the next.
                        self.receivers = (*(other for other in self.receivers if other is not receiver), receiver)
                if self.push_to is PushTo.FIRST:
                    break
        finally:
            with channel.lock:
                is_settled = self._end_push(entry, handled=handled)
        self._let_go(entry, is_settled=is_settled)

    def _offer_to(self, receiver: Receiver, entry: QueueEntry) -> bool | None:
        """Return the receiver's acknowledgement, or None if there is none: it does not accept, or is broken. Raises `ProviderError`."""
        # No lock is held: a receiver may wait in here for another thread that uses the channel.
        if not self._ask(receiver, lambda: receiver.accept(entry.reference)):
            return None
        journal = self._channel.journal
        if journal is not None and not journal.is_covered(entry.reference, entry.delivery_count):
            # Before the receiver has it: after a crash a message that it may have seen comes again flagged.
            journal.cover(entry.reference, entry.delivery_count)
        return self._ask(receiver, lambda: receiver.handle(entry.reference, None, entry.redelivered))

    def _ask(self, receiver: Receiver, call: Callable[[], bool]) -> bool | None:
        try:
            return call()
        except NotAcceptedError:
            return None
        except Exception:
            self.has_failed = True
            # §5.2: a receiver that raises anything else is broken; the message must not be lost with it.
            _log.exception(
                "PYJMS-RECEIVER-2 %s: receiver %s is broken; the message is kept, and offered again later",
                self._channel.name,
                receiver.receiver_id,
            )
            return None

    def _end_push(self, entry: QueueEntry, *, handled: bool) -> bool:
        """End a delivery; return whether the message is settled, so that `_let_go` follows. The lock is held."""
        is_settled = self._channel.state.end_push(entry, handled=handled)
        if is_settled:
            self._channel.note_out(entry)
        return is_settled

    def _let_go(self, entry: QueueEntry, *, is_settled: bool) -> None:
        """Have the journal and the store let go of a message that is settled. No lock is held. Raises `ProviderError`."""
        channel, write = self._channel, self.write_settled
        with channel.lock:
            is_written = entry in self._written
            self._written.discard(entry)
        if not is_settled:
            return
        if is_written:
            channel.store.release(entry.reference)
        elif write is None or not entry.reference.journaled:
            channel.release_removed(entry)
        else:
            # As for a message that a client acknowledges: if the write fails, the message is in the channel again.
            channel.store.release(entry.reference)
            write([entry])
        channel.wake_freed()

    def acknowledge(
        self, message_id: ReferenceId, receiver_id: ReceiverId, transaction: Transaction | None = None
    ) -> None:
        """Do as `Channel.acknowledge`. Raises `ProviderError` too if that could not be written."""
        channel = self._channel
        with channel.lock:
            entry = channel.state.pushed(message_id)
            if entry is None:
                # §5.3.4: without a message that is being delivered there is nothing that could be acknowledged.
                raise UnknownDeliveryError(
                    f"{channel.name} is not delivering message {message_id}, so {receiver_id} cannot acknowledge it; "
                    f"it may have been acknowledged before, or have expired"
                )
            is_settled = transaction is None and channel.state.update_later(entry, receiver_id)
            is_early = transaction is None and not is_settled and entry.has_early(receiver_id)
            if is_settled:
                channel.note_out(entry)
            elif transaction is not None and entry.state is MessageState.DELIVERED:
                channel.state.record_acknowledgement(entry, transaction)
        if transaction is not None:
            # Without the channel's lock, as a unit's comes before it.
            transaction.add_acknowledgement(entry, receiver_id)
        elif is_early:
            self._write_early(entry, receiver_id)
        else:
            self._let_go(entry, is_settled=is_settled)

    def _write_early(self, entry: QueueEntry, receiver_id: ReceiverId) -> None:
        """Write an acknowledgement that overtakes its delivery, if no other receiver can be asked; else it is written with the last one (§5.3.4)."""
        write = self.write_early
        if write is None or self.push_to is PushTo.ALL or not entry.reference.journaled:
            return
        try:
            write([entry])
        except InDoubtError:
            raise
        except ProviderError:
            with self._channel.lock:
                if entry.acknowledgements is not None:
                    # The receiver owes it, whatever becomes of its call.
                    entry.acknowledgements.positive.discard(receiver_id)
                    entry.acknowledgements.negative.add(receiver_id)
            raise
        with self._channel.lock:
            # Not if the delivery has ended meanwhile: its end has written the same.
            if self._channel.state.pushed(entry.reference.id) is entry:
                self._written.add(entry)

    def apply_acknowledgements(self, acknowledged: Iterable[tuple[QueueEntry, ReceiverId]]) -> None:
        """Apply acknowledgements of pushed messages whose unit of work commits (§6.2.1)."""
        channel = self._channel
        with channel.lock:
            for entry, receiver_id in acknowledged:
                entry.transaction = None
                if channel.state.update_later(entry, receiver_id):
                    channel.forget(entry)

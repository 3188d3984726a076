"""Puts messages elsewhere that leave their queue: dead letters, expired ones, and what an administrator moves.

The old message goes and the new one comes in one write of the journal, so that a message is never lost and never there
twice. All methods may wait for I/O, so no lock is held by who calls them.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from pyjms.spi.errors import ProviderError
from pyjms_provider.core.channel import ChannelClosedError
from pyjms_provider.core.dead_letters import DeadEntry, DeadKind, dead_letter
from pyjms_provider.core.doorkeeper import Admission

if TYPE_CHECKING:
    from pyjms.spi.delivery import Delivery
    from pyjms.spi.envelope import ConnectionId, Envelope
    from pyjms_provider.core.consumer import ConsumerSession
    from pyjms_provider.core.entry import QueueEntry
    from pyjms_provider.core.queue import Queue
    from pyjms_provider.core.stories import Happening
    from pyjms_provider.core.virtual_host import VirtualHost

__all__ = ["DeadLetterOffice"]

_log = logging.getLogger(__name__)
_PERSISTENT: Final = 2


class DeadLetterOffice:
    """Of one virtual host."""

    def __init__(self, host: VirtualHost) -> None:
        self._host = host

    def reject(self, delivery: Delivery, entry: QueueEntry, session: ConsumerSession, reason: str) -> None:
        """Settle a delivery and keep its message in its queue's queue of dead letters. Raises `ResourceError`.

        At once, whatever transaction the session is in: a message that cannot be processed must not come back with
        the rollback that it causes. A delivery that is no longer the session's is left alone.
        """
        queue = entry.queue
        envelope = delivery.envelope
        if not queue.settle(entry, delivery.count, session):
            return
        dead = DeadEntry(
            entry=entry,
            kind=DeadKind.REJECTED,
            reason=reason,
            delivery_count=delivery.count,
            consumer=session.receiver_id,
            subscription=queue.subscription_name,
            at_ms=self._host.clock.time_ms(),
        )
        self._bury(dead, envelope, queue.policy.dead_letter)

    def set_aside(self, dead: Sequence[DeadEntry]) -> None:
        """Keep messages that have left their queue where its policy says; what fails is logged, and comes back."""
        waiting = deque(dead)
        try:
            while waiting:
                self._set_one_aside(waiting.popleft())
        except BaseException:  # the thread was interrupted
            for each in waiting:
                self._give_back(each)
            raise

    def _set_one_aside(self, dead: DeadEntry) -> None:
        queue = dead.entry.queue
        expired = dead.kind is DeadKind.EXPIRED
        target = queue.policy.expiry_queue if expired else queue.policy.dead_letter
        if not dead.is_kept or target is None:
            self._let_expire(dead)
            return
        try:
            envelope = queue.message_of(dead.entry.reference)
        except ProviderError as error:
            _tell_failure(queue, error)
            self._give_back(dead)
            return
        except BaseException:
            self._give_back(dead)
            raise
        self._host.store.release(dead.entry.reference)
        try:
            if envelope is not None:
                self._bury(dead, envelope, target)
                if expired:
                    self._host.expiries.tell(dead, envelope)
        except ProviderError as error:
            _tell_failure(queue, error)

    def _give_back(self, dead: DeadEntry) -> None:
        """Have a message in its queue again that was not set aside."""
        queue, keeper = dead.entry.queue, self._host.keeper
        if not dead.is_kept:
            queue.let_go_of_expired(dead.entry)
        elif keeper is None:
            queue.reinstate(dead.entry)
        else:
            keeper.reinstate(dead.entry)

    def _let_expire(self, dead: DeadEntry) -> None:
        """Let go of a message that has expired and goes nowhere, and tell of it."""
        queue, envelope = dead.entry.queue, None
        try:
            with suppress(ProviderError):  # one that cannot be read goes as well, but nobody knows which it was
                envelope = queue.message_of(dead.entry.reference)
        finally:
            queue.let_go_of_expired(dead.entry)
        if envelope is not None:
            self._host.expiries.tell(dead, envelope)

    def _bury(self, dead: DeadEntry, envelope: Envelope, target: str) -> None:
        letter = dead_letter(envelope, dead, target, self._host.clock.time_ms())
        self.relocate(dead.entry, letter, target)
        _log.warning(
            "PYJMS-BROKER-21 message %r of %r is in queue %r: %r",  # clients' texts, which a log may not be able to write
            _printable(str(envelope.message_id)),
            _printable(dead.entry.queue.name),
            _printable(target),
            _printable(dead.reason),
        )

    def put(self, envelope: Envelope, origin: ConnectionId | None, deliver_at_ms: int) -> None:
        """Put another message into the queue that is its destination, where it waits for its time. Raises `ResourceError`."""
        host = self._host
        queue = host.queue(envelope.destination.name)
        if host.keeper is not None and envelope.delivery_mode == _PERSISTENT:
            host.keeper.send(queue, envelope, origin, Admission(envelope, deliver_at_ms, None, None))
            return
        reference = host.store.store(envelope, origin)
        reference.deliver_at_ms = deliver_at_ms
        try:
            queue.take_over(reference)
        except ProviderError:
            host.store.release(reference)
            raise

    def relocate(
        self,
        entry: QueueEntry,
        envelope: Envelope,
        target: str | Queue,
        cause: Happening | None = None,
        deliver_at_ms: int = 0,
    ) -> None:
        """Put `envelope` into a queue in place of a message that was taken out of another one, and released.

        `cause`: why, for an office that tells of it; None: it has been told. `deliver_at_ms`: the time that it still
        waits for; 0: it is for whoever looks after the queue, at once.
        Raises `ResourceError`; the old message is then where it was, flagged as redelivered.
        """
        host = self._host
        queue = host.queue(target) if isinstance(target, str) else target
        if cause is not None:
            self._tell_move(entry, envelope, target if isinstance(target, str) else target.name, cause)
        reference = host.store.store(envelope, entry.reference.origin)
        reference.deliver_at_ms = deliver_at_ms
        try:
            if host.keeper is not None:
                host.keeper.replace(entry, reference, envelope, queue)
        except BaseException:
            host.store.release(reference)
            raise
        try:
            try:
                queue.take_over(reference)
            except ChannelClosedError:
                host.queue(envelope.destination.name).take_over(reference)  # it was destroyed at this moment
        except ProviderError:
            host.store.release(reference)
            raise

    def _tell_move(self, entry: QueueEntry, envelope: Envelope, target: str, cause: Happening) -> None:
        """Tell the message's story, where stories are told."""


def _tell_failure(queue: Queue, error: ProviderError) -> None:
    _log.error(
        "PYJMS-BROKER-20 a message of %r could not be set aside: %s", _printable(queue.name), _printable(error.reason)
    )


def _printable(text: str) -> str:
    """Return what clients wrote as a log can take it: half of a surrogate pair is no text anywhere else."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")

"""The queue manager of an embedded broker: administrative operations on queues.

Queues are created, altered and destroyed by name, listed, browsed, purged, and their messages moved. All calls are safe
from any thread, and may wait for the store. A message that a consumer holds, or that is not committed, is never touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from pyjms.spi.clock import Clock, SystemClock
from pyjms.spi.envelope import Address, AddressKind, Envelope
from pyjms.spi.errors import DestinationError, DestinationInUseError, ResourceError, UrlError
from pyjms.spi.interrupts import defers_signals
from pyjms.spi.selector import selector_or_none
from pyjms.spi.url import ProviderUrl
from pyjms.spi.words import counted
from pyjms_provider.broker import find_broker, inherited_broker, running_broker
from pyjms_provider.core.channel import ChannelClosedError
from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.message.trace_events import Happening
from pyjms_provider.core.policy import QueuePolicies, QueuePolicy
from pyjms_provider.core.queue.dead_letters import origin_of, replayed
from pyjms_provider.core.queue.queue import Queue
from pyjms_provider.core.queue.scheduled_messages import is_expired
from pyjms_provider.core.queue.search import waiting_entries
from pyjms_provider.core.queue.statistics import counts_of
from pyjms_provider.settings import BrokerSettings, read_url

if TYPE_CHECKING:
    from pyjms_provider.core.host.virtual_host import VirtualHost
    from pyjms_provider.core.message.entry import QueueEntry

__all__ = ["AT_ONCE", "GoOn", "QueueExistsError", "QueueManager", "QueueReport", "Replay", "UnknownQueueError"]

AT_ONCE: Final = 500
"""The most messages deleted in one write: some milliseconds, and little space, on a disk that is nearly full."""

GoOn = Callable[[int], bool]


def _always(done: int) -> bool:  # noqa: ARG001 - it is called as any other
    """Let work continue to its end."""
    return True


class QueueExistsError(DestinationError):
    """There is a queue of that name."""

    code = "PYJMS-QUEUE-EXISTS"


class UnknownQueueError(DestinationError):
    """There is no queue of that name."""

    code = "PYJMS-QUEUE-UNKNOWN"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueReport:
    """A queue. The four counts are of one moment, and together all its messages."""

    name: str
    policy: QueuePolicy
    waiting: int
    """Messages that a consumer could get now."""
    delayed: int
    """Messages whose delivery time is in the future."""
    held: int
    """Messages that consumers hold, neither acknowledged nor released."""
    uncommitted: int
    """Messages in transactions that have not ended."""
    size: int
    """The approximate number of their bytes, as far as the broker had to count them: where bytes are limited, or there is a store."""
    consumers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The outcome of a replay of dead letters."""

    returned: int
    left: int
    """Letters whose original destination no longer exists, and messages that are no dead letters."""


class QueueManager:
    """The queues of one broker."""

    def __init__(self, host: VirtualHost) -> None:
        self._managed = host

    @property
    def _host(self) -> VirtualHost:
        """The broker's host. Raises `ResourceError` in a process that was forked from the broker's."""
        host = self._managed
        if host.refusal is not None:
            raise ResourceError(host.refusal)
        return host

    @classmethod
    def of(cls, broker: str) -> QueueManager:
        """Return the manager of ``vm://BROKER``, which runs in this process. Raises `ResourceError` if it does not."""
        found = running_broker(broker)
        if found is None:
            refusal = inherited_broker(broker)
            raise ResourceError(
                refusal or f"there is no broker {broker!r} in this process; connect to vm://{broker} first"
            )
        return cls(found.virtual_host)

    @classmethod
    def start(cls, url: str, policies: QueuePolicies, clock: Clock | None = None) -> QueueManager:
        """Start the broker of a ``vm://`` URL with policies for its queues, and return its manager.

        Connect to it by its name alone, without options. `clock` None: the system's. Raises `UrlError`, also for a
        policy in the URL, and `ResourceError` when it runs already with other settings, or its store cannot be opened.
        """
        name, settings = read_url(ProviderUrl.parse(url))
        settings = settings or BrokerSettings()
        if settings.policy.queues != QueuePolicies():
            raise UrlError("the URL chooses a policy of queues, and so does the call: leave the URL's out")
        chosen = replace(settings, policy=replace(settings.policy, queues=policies))
        return cls(find_broker(name, clock or SystemClock(), chosen).virtual_host)

    # Definition

    @defers_signals()
    def create(self, name: str, policy: QueuePolicy | None = None, **choices: Any) -> None:
        """Create a queue with a policy of its own, given whole or by its fields; with neither, with that of the broker.

        It is stored in the broker's store. Raises `QueueExistsError`, `PolicyError`; `ResourceError`: it was not created; `InDoubtError`:
        it was, and whether it is in the store is not known yet.
        """
        if not name:
            raise DestinationError("a queue needs a name that is not empty")
        if choices:
            policy = (policy or QueuePolicy()).altered(**choices)
        if not self._host.create_queue(name, policy):
            raise QueueExistsError(f"there is a queue {name!r} already; alter it, or destroy it first")

    @defers_signals()
    def alter(self, name: str, **changes: Any) -> None:
        """Change fields of a queue's policy; from now on it has one of its own. Concurrent changes of other fields stay.

        The change takes effect once it is written. Raises `UnknownQueueError`, `PolicyError`; `ResourceError` and `InDoubtError`: nothing has
        changed; `DestinationInUseError` for another type, or another
        way to serve consumers, while there are messages or consumers.
        """
        if not self._host.alter_queue(name, **changes):
            raise _unknown(name)

    @defers_signals()
    def destroy(self, name: str, *, if_empty: bool = False) -> None:
        """Delete a queue with its messages. The next use of its name creates another.

        It exists until the deletion is written. Raises `UnknownQueueError`; `ResourceError`: it is unchanged; `InDoubtError`: it is
        deleted for all users of this broker; `DestinationInUseError` while it has consumers or messages that are
        held or not committed, also by a prepared branch of a distributed transaction, and, with `if_empty`, while it
        has any.
        """
        queue = self._queue(name)
        states = [MessageState.DELIVERED, MessageState.NOT_COMMITTED, *([MessageState.NEW] if if_empty else [])]
        # Looked at without the right to alter the queue: a message that comes after this goes with the queue.
        users, messages = queue.consumer_count + len(queue.pusher.receivers), sum(map(queue.count, states))
        if users or messages:
            in_doubt = ", ".join(map(str, self._host.branches.in_doubt_at(queue)))
            remedy = (
                f"prepared transactions hold some of them: {in_doubt}; their coordinator settles these, or an operator"
                if in_doubt
                else "close the consumers, end their sessions, or empty the queue first"
            )
            raise DestinationInUseError(
                f"queue {name!r} has {counted(users, 'consumer')} and {counted(messages, 'message')} that keep it from being destroyed; {remedy}"
            )
        if not self._host.destroy_queue(name):
            raise _unknown(name)  # another thread was faster

    @defers_signals()
    def pause(self, name: str) -> None:
        """Deliver no messages; senders and browsers go on. May be repeated. Raises `UnknownQueueError`."""
        self.alter(name, paused=True)

    @defers_signals()
    def resume(self, name: str) -> None:
        """End a pause. May be repeated. Raises `UnknownQueueError`."""
        self.alter(name, paused=False)

    # Reading

    def names(self, pattern: str = "*") -> list[str]:
        """Return the names of the queues that match a glob, sorted; temporary ones are left out."""
        return [name for name in self._host.queue_names() if fnmatchcase(name, pattern)]

    def report(self, name: str) -> QueueReport:
        """Return the report of a queue. Raises `UnknownQueueError`."""
        queue = self._queue(name)
        counts = counts_of(queue)
        return QueueReport(
            name=name,
            policy=queue.policy,
            waiting=counts.new - counts.delayed,
            delayed=counts.delayed,
            held=counts.held,
            uncommitted=counts.uncommitted,
            size=queue.size,
            consumers=queue.consumer_count,
        )

    def browse(self, name: str, selector: str | None = None) -> Iterator[Envelope]:
        """Yield the messages that no consumer holds, in their order, then those that are delayed; of a temporary queue, too.

        Raises `UnknownQueueError`, `InvalidSelectorError`, `ResourceError`.
        """
        # Temporary queues are found by name only here: they are browsed for diagnosis, and never changed.
        temporary = self._host.temporaries.find(name)
        queue = temporary if isinstance(temporary, Queue) else self._queue(name)
        return (envelope for _, envelope in self._matching(queue, selector))

    def browse_counted(self, name: str, selector: str | None = None) -> Iterator[tuple[Envelope, int]]:
        """Yield the messages of `browse`, each with its delivery count. Raises as `browse`."""
        return ((envelope, entry.delivery_count) for entry, envelope in self._matching(self._queue(name), selector))

    # Messages

    # `go_on` is called before each message with the number of those done; when it returns False, the rest is skipped.

    @defers_signals()
    def purge(self, name: str, selector: str | None = None, *, go_on: GoOn = _always) -> int:
        """Delete the messages that no consumer holds and the selector matches; return their number when the deletion is durable.

        They are deleted in runs, each in one step of the store. Raises as `browse`: those of the last run are still there; and
        `InDoubtError`: they are not delivered until the store has answered whether they exist. Earlier runs stay deleted.
        """
        queue = self._queue(name)
        deleted = 0
        run: list[QueueEntry] = []
        # Gathered in runs: each is one write, where a write for each message would be as many commits.
        for entry, _ in self._matching(queue, selector):
            if not go_on(deleted + len(run)):
                break
            run.append(entry)
            if len(run) == AT_ONCE:
                deleted += self._host.mover.delete(run)
                run = []
        return deleted + self._host.mover.delete(run)

    @defers_signals()
    def move(
        self, name: str, target: str, selector: str | None = None, most: int | None = None, *, go_on: GoOn = _always
    ) -> int:
        """Move messages that no consumer holds to another queue, at most `most`; return their number.

        Each is moved in one step: it is in one of the two queues at any moment. If the other one is destroyed meanwhile, the
        remaining ones go into the next queue of its name, as if sent there. Raises as `browse`.
        """
        queue = self._queue(name)
        if name == target:
            raise DestinationError(f"messages of {name!r} cannot be moved to {target!r}: it is the same queue")
        self._host.queue(target)  # it exists afterwards, even if there was nothing to move
        moved = 0
        for entry, envelope in self._matching(queue, selector):
            if moved == most or not go_on(moved):
                break
            # JMSDestination says where a message is, so it changes with the move (JMS 1.1 §3.4.1).
            there = replace(envelope, destination=_address_of(target))
            moved += self._relocate(entry, there, target, Happening.MOVED)
        return moved

    @defers_signals()
    def copy(
        self, name: str, target: str, selector: str | None = None, most: int | None = None, *, go_on: GoOn = _always
    ) -> int:
        """Copy messages that no consumer holds to another queue, at most `most`; return their number. Raises as `browse`."""
        queue = self._queue(name)
        if name == target:
            raise DestinationError(f"messages of {name!r} cannot be copied to {target!r}: it is the same queue")
        copied = 0
        for entry, envelope in self._matching(queue, selector):
            if copied == most or not go_on(copied):
                break
            there = replace(envelope, destination=_address_of(target))
            # The scheduled time is copied: a copy of a delayed message is delayed, too.
            self._host.mover.put(there, entry.reference.origin, entry.reference.deliver_at_ms)
            copied += 1
        return copied

    @defers_signals()
    def replay(
        self, name: str = "DLQ", selector: str | None = None, *, dry_run: bool = False, go_on: GoOn = _always
    ) -> Replay:
        """Return dead letters to their original queues and subscriptions, as they were sent.

        They no longer expire, and their deliveries count from 1 again. `dry_run`: only count the outcome.
        Raises as `browse`.
        """
        returned = left = 0
        for entry, letter in self._matching(self._queue(name), selector):
            if not go_on(returned + left):
                break
            origin = origin_of(letter.properties)
            target = None if origin is None else self._origin(*origin)
            if origin is None or target is None:
                left += 1
            elif dry_run:
                returned += 1
            else:
                try:
                    returned += self._relocate(entry, replayed(letter, origin[0]), target, Happening.REPLAYED)
                except ChannelClosedError:  # the subscription has just ended, and the letter is where it was
                    left += 1
        return Replay(returned=returned, left=left)

    def _origin(self, address: Address, subscription: str | None) -> Queue | None:
        if subscription is not None:
            found = self._host.subscriptions.find(subscription)
            # A subscription of that name may read another topic by now: the letter is none of its messages.
            return found if found is not None and found.terms.topic == address else None
        if address.kind is AddressKind.TOPIC or address.temporary:
            return None  # its subscription has ended; the topic's other subscribers have had it
        return self._host.queue(address.name)

    def _relocate(
        self, entry: QueueEntry, envelope: Envelope, target: Queue | str, cause: Happening = Happening.MOVED
    ) -> bool:
        # A move keeps a message's delivery time; a replay delivers it now.
        deliver_at_ms = entry.reference.deliver_at_ms if cause is Happening.MOVED else 0
        return self._host.mover.move(entry, envelope, target, cause, deliver_at_ms)  # False: it was delivered meanwhile

    def _queue(self, name: str) -> Queue:
        queue = self._host.find_queue(name)
        if queue is None:
            raise _unknown(name)
        return queue

    def _matching(self, queue: Queue, selector: str | None) -> Iterator[tuple[QueueEntry, Envelope]]:
        compiled = selector_or_none(selector)
        return self._found(queue, None if compiled is None else compiled.matches)

    def _found(self, queue: Queue, matches: Callable[[Envelope], bool] | None) -> Iterator[tuple[QueueEntry, Envelope]]:
        for entry in waiting_entries(queue):
            if is_expired(entry.reference, self._host.clock.time_ms()):
                continue
            envelope = queue.message_of(entry.reference)
            if envelope is not None and (matches is None or matches(envelope)):
                yield entry, envelope


def _unknown(name: str) -> UnknownQueueError:
    return UnknownQueueError(f"there is no queue {name!r}; names() lists those that there are")


def _address_of(name: str) -> Address:
    return Address(AddressKind.QUEUE, name)

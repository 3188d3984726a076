"""The queue manager of an embedded broker: what its owner does with queues, beside sending and receiving.

Queues are made, altered and destroyed by name, listed, looked into, emptied, and their messages moved. All calls are safe
from any thread, and may wait for the store. A message that somebody holds, or that is not committed, is never touched.
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
from pyjms_provider.core.queue.dead_letters import origin_of, revived
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
"""So many messages are deleted in one write: some milliseconds, and little room, on a disk that is nearly full."""

GoOn = Callable[[int], bool]


def _always(done: int) -> bool:  # noqa: ARG001 - it is called as any other
    """Let work go on to its end."""
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
    """Messages whose time has not come."""
    held: int
    """Messages that consumers have, and have neither acknowledged nor given back."""
    uncommitted: int
    """Messages in transactions that have not ended."""
    size: int
    """About how many bytes they take, as far as the broker had to know: where bytes are limited, or there is a store."""
    consumers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What became of the dead letters."""

    returned: int
    left: int
    """Letters whose origin is gone, and messages that are no dead letters."""


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

        Connect to it by its name alone: it has its options. `clock` None: the system's. Raises `UrlError`, also for a
        policy in the URL, and `ResourceError` when it runs already with others, or its store cannot be opened.
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
        """Make a queue with a policy of its own, given whole or by its fields; with neither, with that of the broker.

        It is kept in the broker's store. Raises `QueueExistsError`, `PolicyError`; `ResourceError`: there is none; `InDoubtError`:
        there is one, and whether it is in the store is not known yet.
        """
        if not name:
            raise DestinationError("a queue needs a name that is not empty")
        if choices:
            policy = (policy or QueuePolicy()).altered(**choices)
        if not self._host.create_queue(name, policy):
            raise QueueExistsError(f"there is a queue {name!r} already; alter it, or destroy it first")

    @defers_signals()
    def alter(self, name: str, **changes: Any) -> None:
        """Change fields of a queue's policy; from now on it has one of its own. What others change meanwhile stays.

        It is obeyed once it is written. Raises `UnknownQueueError`, `PolicyError`; `ResourceError` and `InDoubtError`: it is as
        it was; `DestinationInUseError` for another type, or another
        way to serve consumers, while there are messages or consumers.
        """
        if not self._host.alter_queue(name, **changes):
            raise _unknown(name)

    @defers_signals()
    def destroy(self, name: str, *, if_empty: bool = False) -> None:
        """Delete a queue with its messages. Who names it again makes another.

        It is there until that is written. Raises `UnknownQueueError`; `ResourceError`: it is as it was; `InDoubtError`: it is
        gone, as far as anybody here is concerned; `DestinationInUseError` while it has consumers or messages that are
        held or not committed, also by a prepared branch of a distributed transaction, and, with `if_empty`, while it
        has any.
        """
        queue = self._queue(name)
        states = [MessageState.DELIVERED, MessageState.NOT_COMMITTED, *([MessageState.NEW] if if_empty else [])]
        # Looked at without the right to alter the queue: a message that comes after this goes with the queue.
        users, messages = queue.consumer_count, sum(map(queue.count, states))
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
        """Let no message out; senders and browsers go on. May be repeated. Raises `UnknownQueueError`."""
        self.alter(name, paused=True)

    @defers_signals()
    def resume(self, name: str) -> None:
        """End a pause. May be repeated. Raises `UnknownQueueError`."""
        self.alter(name, paused=False)

    # Looking

    def names(self, pattern: str = "*") -> list[str]:
        """Return the names of the queues that match a glob, sorted; temporary ones are left out."""
        return [name for name in self._host.queue_names() if fnmatchcase(name, pattern)]

    def report(self, name: str) -> QueueReport:
        """Return what there is to know of a queue. Raises `UnknownQueueError`."""
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
        """Yield the messages that nobody holds, in their order, then those that are delayed; of a temporary queue, too.

        Raises `UnknownQueueError`, `InvalidSelectorError`, `ResourceError`.
        """
        # Temporary queues are found by name here alone: they are browsed for diagnosis, and changed by nobody.
        temporary = self._host.temporaries.find(name)
        queue = temporary if isinstance(temporary, Queue) else self._queue(name)
        return (envelope for _, envelope in self._matching(queue, selector))

    def browse_counted(self, name: str, selector: str | None = None) -> Iterator[tuple[Envelope, int]]:
        """Yield what `browse` does, each message with how often it was delivered. Raises as `browse`."""
        return ((envelope, entry.delivery_count) for entry, envelope in self._matching(self._queue(name), selector))

    # Messages

    # `go_on` hears before each message with how many the work is done; when it returns False, the rest is left undone.

    @defers_signals()
    def purge(self, name: str, selector: str | None = None, *, go_on: GoOn = _always) -> int:
        """Delete the messages that nobody holds and the selector matches; return how many when that survives the process.

        They are deleted in runs, each in one step of the store. Raises as `browse`: those of the last run are there still; and
        `InDoubtError`: nobody gets them until the store has answered whether they are there. What was deleted before stays so.
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
        """Move messages that nobody holds to another queue, at most so many; return how many.

        Each is moved in one step: it is in one of the two queues at any moment. If the other one is destroyed meanwhile, what
        follows goes into the next one of its name, as if it were sent there. Raises as `browse`.
        """
        queue = self._queue(name)
        if name == target:
            raise DestinationError(f"messages of {name!r} cannot be moved to {target!r}: it is the same queue")
        self._host.queue(target)  # it is there afterwards, also if there was nothing to move
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
        """Copy messages that nobody holds to another queue, at most so many; return how many. Raises as `browse`."""
        queue = self._queue(name)
        if name == target:
            raise DestinationError(f"messages of {name!r} cannot be copied to {target!r}: it is the same queue")
        copied = 0
        for entry, envelope in self._matching(queue, selector):
            if copied == most or not go_on(copied):
                break
            there = replace(envelope, destination=_address_of(target))
            # The scheduled time goes along: a copy of a message that waits, waits too.
            self._host.mover.put(there, entry.reference.origin, entry.reference.deliver_at_ms)
            copied += 1
        return copied

    @defers_signals()
    def replay(
        self, name: str = "DLQ", selector: str | None = None, *, dry_run: bool = False, go_on: GoOn = _always
    ) -> Replay:
        """Return dead letters to the queues and subscriptions where they came from, as they were sent.

        They have no time to live any more, and their deliveries count from 1 again. `dry_run`: only count what would
        become of them. Raises as `browse`.
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
                    returned += self._relocate(entry, revived(letter, origin[0]), target, Happening.REPLAYED)
                except ChannelClosedError:  # the subscription has just ended, and the letter is where it was
                    left += 1
        return Replay(returned=returned, left=left)

    def _origin(self, address: Address, subscription: str | None) -> Queue | None:
        if subscription is not None:
            found = self._host.subscriptions.find(subscription)
            # A subscription of that name may read another topic by now: the letter is none of its messages.
            return found if found is not None and found.terms.topic == address else None
        if address.kind is AddressKind.TOPIC or address.temporary:
            return None  # whom it was for has gone; the topic's other subscribers have had it
        return self._host.queue(address.name)

    def _relocate(
        self, entry: QueueEntry, envelope: Envelope, target: Queue | str, cause: Happening = Happening.MOVED
    ) -> bool:
        # Who moves a message leaves its time alone; who replays one wants it tried again now.
        deliver_at_ms = entry.reference.deliver_at_ms if cause is Happening.MOVED else 0
        return self._host.mover.move(entry, envelope, target, cause, deliver_at_ms)  # False: somebody got it meanwhile

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

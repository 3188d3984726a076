"""Topics and their subscriptions: a topic passes each message to its subscriptions and stores nothing (§2; JMS 1.1 §6).

A subscription is the queue between a topic and one subscriber, or several if it is shared. Where many selectors compare the same identifiers with values, as ``account = '17'`` does,
only those are evaluated whose values the message has (`pyjms.spi.selector.headers`).
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter
from threading import Lock
from typing import TYPE_CHECKING, Final, Self, TypeAlias

from pyjms.spi.errors import ProviderError
from pyjms.spi.receivers import NotAcceptedError, UnknownDeliveryError
from pyjms.spi.selector import is_same_text
from pyjms.spi.selector.headers import UNKNOWN_KEY, key_of_literals, key_of_message
from pyjms_provider.core.channel import Channel, ChannelClosedError, Filter, Receiver
from pyjms_provider.core.message.reference import MessageSequencer
from pyjms_provider.core.policy import QueuePolicy
from pyjms_provider.core.queue.queue import WITHOUT_LIMITS, Queue
from pyjms_provider.core.queue_types import QueueType

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyjms.spi.clock import Clock
    from pyjms.spi.envelope import Address, ConnectionId, Envelope
    from pyjms.spi.provider import SubscribeRequest
    from pyjms.spi.selector import Selector
    from pyjms_provider.core.journal.queue_journal import QueueJournal
    from pyjms_provider.core.message.entry import ReceiverId, Transaction
    from pyjms_provider.core.message.message_state import MessageState
    from pyjms_provider.core.message.reference import MessageReference, ReferenceId
    from pyjms_provider.core.queue.channel_state import ChannelState
    from pyjms_provider.core.queue.dead_letters import DeadEntry
    from pyjms_provider.core.queue.message_trace import MessageTrace
    from pyjms_provider.core.store import MessageStore


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionTerms:
    """The terms of a subscription. A durable subscription whose terms change becomes another one (§6.11.1)."""

    topic: Address
    selector_text: str | None
    no_local: bool
    is_shared: bool = False
    """Whether it may have several consumers at once (JMS 2.0 §8.3.2, §8.3.4)."""

    @classmethod
    def of(cls, request: SubscribeRequest) -> Self:
        """Return the terms of a request."""
        text = None if request.selector is None else request.selector.text
        is_shared = request.shared_name is not None or (request.is_shared and request.durable_name is not None)
        # The consumers of a shared subscription may be on several connections, so it has no `own` connection.
        no_local = request.no_local and not is_shared
        return cls(topic=request.address, selector_text=text, no_local=no_local, is_shared=is_shared)

    def is_same(self, other: Self) -> bool:
        """Return whether they are equivalent: white space in a selector makes no difference."""
        return (
            self.topic == other.topic
            and self.no_local == other.no_local
            and self.is_shared == other.is_shared
            and is_same_text(self.selector_text, other.selector_text)
        )


class Subscription(Queue):
    """A queue that a topic fills with the messages that match its subscriber's terms; messages are selected before they are stored."""

    def __init__(
        self,
        name: str,
        store: MessageStore,
        state: ChannelState,
        clock: Clock,
        *,
        terms: SubscriptionTerms,
        selector: Selector | None,
        subscriber: ConnectionId,
        is_durable: bool,
        schedule: Callable[[Queue, int], None] | None = None,
        journal: QueueJournal | None = None,
        policy: QueuePolicy = WITHOUT_LIMITS,
        on_dead: Callable[[deque[DeadEntry]], None] | None = None,
    ) -> None:
        super().__init__(name, store, state, clock, schedule=schedule, journal=journal, policy=policy, on_dead=on_dead)
        self.terms = terms
        self.selector = selector
        self.subscriber = subscriber
        """The connection of the present subscriber, or of the last one; `no_local` means this connection."""
        self.find_client: Callable[[], ConnectionId | None] = _no_connection
        """Returns the connection that has the subscription's client id, if there is one: `no_local` means it, too (JMS 2.0 §8.3.3)."""
        self.is_durable = is_durable
        self.users: dict[object, None] = {}
        """The consumers that use it, compared by identity: one at most unless it is shared. Guarded by the lock of the virtual host."""

    def accept(self, reference: MessageReference) -> bool:
        """Return whether the subscription matches the message, by `no_local` and the selector (§6.11)."""
        return (
            super().accept(reference)
            and not self.leaves_out(reference)
            and (self.selector is None or self.selector.matches(self.store.retrieve(reference)))
        )

    @property
    def is_active(self) -> bool:
        """Whether a consumer uses it."""
        return bool(self.users)

    @property
    def subscription_name(self) -> str | None:
        return self.name if self.is_durable else None

    def leaves_out(self, reference: MessageReference) -> bool:
        """Return whether `no_local` excludes the message, as the subscriber's own connection, or one of its client id, has published it."""
        if not self.terms.no_local:
            return False
        origin = reference.origin
        return origin == self.subscriber or (origin is not None and origin == self.find_client())


def _no_connection() -> ConnectionId | None:
    """Return None: the subscription belongs to no client id."""
    return None


_MANY: Final = 8  # selectors of one kind that are evaluated one by one

_Group: TypeAlias = tuple["Selector | None", tuple["Subscription", ...]]
_Numbered: TypeAlias = tuple[int, _Group]
_number = itemgetter(0)


class Addressees:
    """An immutable table of the subscriptions of one topic, grouped by selector."""

    __slots__ = ("_alone", "_by_names", "everybody", "groups")

    def __init__(self, groups: Iterable[tuple[Subscription, ...]] = ()) -> None:
        """`groups`: the subscriptions of one selector each."""
        self.groups: tuple[_Group, ...] = tuple((each[0].selector, each) for each in groups if each)
        """Selectors, and the subscriptions that have them."""
        has_selectors = any(selector is not None for selector, _ in self.groups)
        self.everybody = None if has_selectors else tuple(group for _, group in self.groups)
        """All subscriptions, if none has a selector; otherwise None."""
        by_names: dict[tuple[str, ...], list[tuple[int, _Numbered]]] = {}
        alone: list[_Numbered] = []
        # Numbered, so that the groups found by values and the others can be merged into one order.
        for numbered in enumerate(self.groups):
            selector = numbered[1][0]
            equalities = () if selector is None else selector.equalities
            if equalities:
                names = tuple(name for name, _ in equalities)
                by_names.setdefault(names, []).append((key_of_literals(equalities), numbered))
            else:
                alone.append(numbered)
        self._by_names: list[tuple[tuple[str, ...], dict[int, list[_Numbered]]]] = []
        """By the names of identifiers, then by key: the groups whose selectors only messages with that key can match."""
        for names, found in by_names.items():
            # Evaluating a few selectors costs less than reading the key of every message.
            if len(found) <= _MANY:
                alone += [numbered for _, numbered in found]
            else:
                by_key: dict[int, list[_Numbered]] = {}
                for key, numbered in found:
                    by_key.setdefault(key, []).append(numbered)
                self._by_names.append((names, by_key))
        self._alone = sorted(alone, key=_number)

    def wanting(self, envelope: Envelope) -> Iterator[tuple[Subscription, ...]]:
        """Yield the groups whose selectors match the message, in their order. Raises `NotInMemoryError`."""
        candidates = self._alone
        if self._by_names:
            candidates = sorted([*candidates, *self._found(envelope)], key=_number)
        # Evaluated all the same: a key only excludes messages that cannot match.
        for _, (selector, group) in candidates:
            if selector is None or selector.matches(envelope):
                yield group

    def _found(self, envelope: Envelope) -> Iterator[_Numbered]:
        for names, by_key in self._by_names:
            key = key_of_message(envelope, names)
            if key != UNKNOWN_KEY:
                yield from by_key.get(key, ())
            else:
                # The message's value has no key, so it might equal any of them.
                for found in by_key.values():
                    yield from found


_NO_POLICY: Final = QueuePolicy()


class Topic(Channel):
    """Routes to one subscription channel each; a message without receivers is acknowledged and discarded (§5.2.4).

    Publishing works on a snapshot of the receivers, and takes the lock only if subscriptions were added or removed since
    the last message. Subscriptions are grouped by selector text, so that a selector is evaluated once for a message,
    however many subscriptions share it, and groups are found by the values that their selectors compare with.
    """

    def __init__(
        self, name: str, store: MessageStore, policy: QueuePolicy = _NO_POLICY, trace: MessageTrace | None = None
    ) -> None:
        """`policy`: of the topic's subscriptions; its overrides and its duplicate window are the topic's. `trace` records messages without receivers."""
        super().__init__(name, store)
        self.policy = policy
        self._sequencer = MessageSequencer(self.wake_held_back) if policy.type is QueueType.TOTAL_ORDER else None
        self.needs_admission = policy.changes_messages or self._sequencer is not None
        """Whether the policy requires checks of each incoming message."""
        self.journal: QueueJournal | None = None
        """Nothing is stored for the topic itself, only for its durable subscriptions."""
        self._lock = Lock()
        self._closed = False
        self._trace = trace if trace is not None and trace.every_step else None
        self._members: dict[str | None, dict[Subscription, None]] = {}
        """The subscriptions by selector text, to find one among thousands; in the order in which they were added."""
        self._addressees: Addressees | None = Addressees()
        """The snapshot for publishing; None: subscriptions were added or removed, and the next message rebuilds it."""
        self._receivers: tuple[Receiver, ...] = ()

    # Properties

    @property
    def is_synchronous(self) -> bool:
        return True

    @property
    def is_reliable(self) -> bool:
        """Nothing is stored here that could be lost; each subscription answers for itself."""
        return all(subscription.is_reliable for subscription in self.subscriptions)

    @property
    def is_transactional(self) -> bool:
        return True

    @property
    def is_storing_undeliverable(self) -> bool:
        return False

    @property
    def sequencer(self) -> MessageSequencer | None:
        """The sequencer of its total order, which its subscriptions share; None: it has none."""
        return self._sequencer

    @property
    def subscriptions(self) -> list[Subscription]:
        """The subscriptions, grouped by selector."""
        return [subscription for _, group in self._grouped().groups for subscription in group]

    def accept(self, reference: MessageReference) -> bool:
        return not self._closed

    # Receivers

    def add_subscription(self, subscription: Subscription) -> None:
        """Connect a subscription. Raises `ChannelClosedError`."""
        with self._lock:
            if self._closed:
                raise ChannelClosedError(f"{self._name} no longer exists")
            if self._sequencer is not None and subscription.rules is not None:
                subscription.rules.sequencer = self._sequencer
            # Rebuilt by the next message, and not here: thousands of subscriptions may be added one after the other.
            self._addressees = None
            self._members.setdefault(subscription.terms.selector_text, {})[subscription] = None

    def remove_subscription(self, subscription: Subscription) -> None:
        """Disconnect a subscription. May be repeated."""
        text = subscription.terms.selector_text
        with self._lock:
            group = self._members.get(text, {})
            if subscription in group:
                self._addressees = None
                del group[subscription]
            if not group:
                self._members.pop(text, None)

    def wake_held_back(self) -> None:
        """Wake consumers of its subscriptions, as messages of its total order may have been freed. No lock is held."""
        for subscription in self.subscriptions:
            subscription.wake_held_back()

    def _grouped(self) -> Addressees:
        """Return the current snapshot of the subscriptions by selector."""
        # Read once: an immutable table, so publishing takes the lock only after a subscription was added or removed.
        addressees = self._addressees
        if addressees is None:
            with self._lock:
                addressees = self._addressees = Addressees(map(tuple, self._members.values()))
        return addressees

    def add_receiver(self, receiver: Receiver) -> None:
        """Connect a receiver that is no subscription: it gets each message at once, and nothing is stored for it."""
        with self._lock:
            # A tuple that is replaced: publishing walks over it without the lock.
            self._receivers = (*self._receivers, receiver)

    def remove_receiver(self, receiver: Receiver) -> None:
        """Disconnect a receiver that is no subscription."""
        with self._lock:
            self._receivers = tuple(other for other in self._receivers if other is not receiver)

    # Messages

    def enqueue(self, reference: MessageReference, transaction: Transaction | None = None) -> bool:
        """Pass the message on now, and return the receivers' acknowledgement: False if one was negative (§2).

        A message that a receiver did not take is the sender's affair; nothing is stored for it here.
        """
        if self._closed:
            raise ChannelClosedError(f"{self._name} no longer exists")
        return self.pass_on(reference, self.wanting(reference), transaction)

    def pass_on(
        self, reference: MessageReference, wanting: Sequence[Subscription], transaction: Transaction | None = None
    ) -> bool:
        """Pass the message on to the subscriptions that `wanting` has returned."""
        store, passed, acknowledged = self.store, 0, True
        # All holds before the first subscription has it: a consumer that settles at once would otherwise be the last holder.
        store.acquire(reference, len(wanting))
        try:
            for subscription in wanting:
                try:
                    subscription.enqueue(reference, transaction)
                except ChannelClosedError:
                    # The journal may have the message for it already.
                    subscription.defer_refused(reference)
                    store.release(reference)  # it ended while the message was on its way
                # Counted after the subscription has taken it, or refused it: after an error the remaining holds are released.
                passed += 1
            for receiver in self._receivers:
                try:
                    if receiver.accept(reference):
                        acknowledged = receiver.handle(reference, transaction) and acknowledged
                # The receiver has refused it after `accept`, which is no acknowledgement (§8.1.2).
                except NotAcceptedError:
                    continue
        except ProviderError:
            for _ in wanting[passed:]:
                store.release(reference)
            raise
        if not wanting and self._trace is not None:
            self._trace.unwanted(self._name, reference)
        # The publisher's own hold, at the end: until then the message stays in the store whatever the subscriptions do.
        store.release(reference)
        return acknowledged

    def wanting(self, reference: MessageReference) -> list[Subscription]:
        """Return the subscriptions that match the message."""
        wanting: list[Subscription] = []
        addressees = self._grouped()
        groups = addressees.everybody
        for group in addressees.wanting(self.store.retrieve(reference)) if groups is None else groups:
            wanting.extend(
                subscription
                for subscription in group
                # Compared in this order, without a call: few subscriptions have noLocal.
                if not subscription.terms.no_local or not subscription.leaves_out(reference)
            )
        return wanting

    # A topic stores nothing, so no message is delivered later, redelivered, browsed or acknowledged

    def deliver(self) -> bool:
        return True

    def redeliver(self, receiver: Receiver) -> None:
        """Do nothing: a synchronous channel does not keep what it has passed on."""

    def browse(self, message_filter: Filter | None = None) -> list[Envelope]:
        return []

    def acknowledge(
        self,
        message_id: ReferenceId,
        receiver_id: ReceiverId,
        transaction: Transaction | None = None,
    ) -> None:
        raise UnknownDeliveryError(
            f"{self._name} is a topic and holds no message {message_id} for {receiver_id} to acknowledge"
        )

    def has_messages(self, state: MessageState) -> bool:
        return False

    def get_messages(self, state: MessageState) -> list[MessageReference]:
        return []

    def close(self) -> None:
        with self._lock:
            self._closed = True
            subscriptions = [each for members in self._members.values() for each in members]
            self._addressees = Addressees()
            self._members = {}
            self._receivers = ()
        # Without the topic's lock, as each subscription takes its own.
        for subscription in subscriptions:
            subscription.close()

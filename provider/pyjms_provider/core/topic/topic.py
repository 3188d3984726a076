"""A topic: the synchronous channel that passes each message to its subscriptions and stores nothing (§2; JMS 1.1 §6)."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING, Final

from pyjms.spi.envelope import Envelope
from pyjms.spi.errors import ProviderError
from pyjms_provider.core.channel.channel import (
    Channel,
    ChannelClosedError,
    Filter,
    NotAcceptedError,
    Receiver,
    UnknownDeliveryError,
)
from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.queue.policy import QueuePolicy
from pyjms_provider.core.store.store import MessageStore
from pyjms_provider.core.topic.addressees import Addressees
from pyjms_provider.core.topic.subscription import Subscription

if TYPE_CHECKING:
    from pyjms_provider.core.journal.queue_journal import QueueJournal
    from pyjms_provider.core.message.reference import MessageReference, ReferenceId
    from pyjms_provider.core.queue.entry import ReceiverId
    from pyjms_provider.core.queue.message_trace import MessageTrace
    from pyjms_provider.core.transaction.unit_of_work import UnitOfWork

_NO_POLICY: Final = QueuePolicy()


class Topic(Channel):
    """Routes to one subscription channel each; a message without receivers is acknowledged and discarded (§5.2.4).

    Publishing works on the receivers as they were when it began, and takes the lock only if some have come or gone since
    the last message. Subscriptions are grouped by selector text, so that a selector is evaluated once for a message,
    however many subscriptions share it, and found by the values that selectors ask for.
    """

    def __init__(
        self, name: str, store: MessageStore, policy: QueuePolicy = _NO_POLICY, trace: MessageTrace | None = None
    ) -> None:
        """`policy`: of the topic's subscriptions; its overrides and its duplicate window are the topic's. `trace` hears of messages without receivers."""
        super().__init__(name, store)
        self.policy = policy
        self.needs_admission = policy.changes_messages
        """Whether the policy says something of each message that comes."""
        self.kept: QueueJournal | None = None
        """Nothing is kept for the topic itself; its durable subscriptions are."""
        self._lock = Lock()
        self._closed = False
        self._trace = trace if trace is not None and trace.every_step else None
        self._members: dict[str | None, dict[Subscription, None]] = {}
        """The subscriptions by selector text: to find one among thousands, in the order in which they came."""
        self._addressees: Addressees | None = Addressees()
        """The same for publishing; None: some have come or gone, and the next message makes it anew."""
        self._receivers: tuple[Receiver, ...] = ()

    # What it is

    @property
    def is_synchronous(self) -> bool:
        return True

    @property
    def is_reliable(self) -> bool:
        """Nothing is kept here that could be lost; each subscription answers for itself."""
        return all(subscription.is_reliable for subscription in self.subscriptions)

    @property
    def is_transactional(self) -> bool:
        return True

    @property
    def is_storing_undeliverable(self) -> bool:
        return False

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

    def _grouped(self) -> Addressees:
        """Return the subscriptions by selector, as they are now."""
        addressees = self._addressees
        if addressees is None:
            with self._lock:
                addressees = self._addressees = Addressees(map(tuple, self._members.values()))
        return addressees

    def add_receiver(self, receiver: Receiver) -> None:
        """Connect a receiver that is no subscription: it gets each message at once, and nothing is kept for it."""
        with self._lock:
            self._receivers = (*self._receivers, receiver)

    def remove_receiver(self, receiver: Receiver) -> None:
        """Disconnect such a receiver."""
        with self._lock:
            self._receivers = tuple(other for other in self._receivers if other is not receiver)

    # Messages

    def enqueue(self, reference: MessageReference, transaction: UnitOfWork | None = None) -> bool:
        """Pass the message on now, and return the receivers' acknowledgement: False if one was negative (§2).

        What a receiver did not take is the sender's affair; nothing is kept for it here.
        """
        if self._closed:
            raise ChannelClosedError(f"{self._name} no longer exists")
        return self.pass_on(reference, self.wanting(reference), transaction)

    def pass_on(
        self, reference: MessageReference, wanting: Sequence[Subscription], transaction: UnitOfWork | None = None
    ) -> bool:
        """Do the same for the subscriptions that `wanting` has found."""
        store, passed, acknowledged = self.store, 0, True
        store.acquire(reference, len(wanting))
        try:
            for subscription in wanting:
                try:
                    subscription.enqueue(reference, transaction)
                except ChannelClosedError:
                    subscription.note_refused(reference)
                    store.release(reference)  # it ended while the message was on its way
                passed += 1
            for receiver in self._receivers:
                try:
                    if receiver.accept(reference):
                        acknowledged = receiver.handle(reference, transaction) and acknowledged
                except NotAcceptedError:
                    continue
        except ProviderError:
            for _ in wanting[passed:]:
                store.release(reference)
            raise
        if not wanting and self._trace is not None:
            self._trace.unwanted(self._name, reference)
        store.release(reference)
        return acknowledged

    def wanting(self, reference: MessageReference) -> list[Subscription]:
        """Return the subscriptions that want the message."""
        wanting: list[Subscription] = []
        addressees = self._grouped()
        groups = addressees.everybody
        for group in addressees.wanting(self.store.retrieve(reference)) if groups is None else groups:
            wanting.extend(
                subscription
                for subscription in group
                if not subscription.terms.no_local or not subscription.leaves_out(reference)
            )
        return wanting

    # A topic stores nothing, so there is nothing to deliver later, to redeliver, to browse or to acknowledge

    def deliver(self) -> bool:
        return True

    def redeliver(self, receiver: Receiver) -> None:
        """Do nothing: what a synchronous channel passed on is no longer its own."""

    def browse(self, message_filter: Filter | None = None) -> list[Envelope]:
        return []

    def acknowledge(
        self,
        message_id: ReferenceId,
        receiver_id: ReceiverId,
        transaction: UnitOfWork | None = None,
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
        for subscription in subscriptions:
            subscription.close()

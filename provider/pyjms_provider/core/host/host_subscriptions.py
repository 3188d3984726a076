"""The subscriptions of one virtual host: how they begin, come back, and end (JMS 1.1 §6.11)."""

from __future__ import annotations

from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from pyjms.spi.envelope import ConnectionId
from pyjms.spi.errors import (
    DestinationError,
    ProviderError,
    SubscriptionInUseError,
    UnknownSubscriptionError,
)
from pyjms.spi.provider import SubscribeRequest
from pyjms.spi.words import counted
from pyjms_provider.core.host.temporaries import check_name
from pyjms_provider.core.journal.durable_ddl import end_at_once, end_when_written, succeed_when_written
from pyjms_provider.core.journal.journal import SubscriptionKey
from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.topic.subscription import Subscription, SubscriptionTerms
from pyjms_provider.core.topic.topic import Topic

if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Lock

    from pyjms.spi.envelope import Address
    from pyjms.spi.selector import Selector
    from pyjms_provider.core.host.virtual_host import VirtualHost
    from pyjms_provider.core.journal.journal import QueueRecord
    from pyjms_provider.core.journal.queue_journal import QueueJournal
    from pyjms_provider.core.queue.channel_state import ChannelState
    from pyjms_provider.core.timed import HasTimes


class HostSubscriptions:
    """Safe to use from any thread. Its tables are guarded by the host's lock, which is not held while anything is written."""

    def __init__(
        self,
        host: VirtualHost,
        lock: Lock,
        make_state: Callable[[], ChannelState],
        on_due: Callable[[HasTimes, int], None] | None,
    ) -> None:
        """`lock`: the host's; `make_state`: of each subscription; `on_due` as in `Queue`."""
        self._host = host
        self._lock = lock
        self._make_state = make_state
        self._on_due = on_due
        self._durable: dict[SubscriptionKey, Subscription] = {}
        self._changing: set[SubscriptionKey] = set()
        self._numbers = count(1)

    # Looking

    def durable(self) -> dict[SubscriptionKey, Subscription]:
        """Return the durable subscriptions, with a subscriber or without."""
        with self._lock:
            return dict(self._durable)

    def find(self, name: str) -> Subscription | None:
        """Return the durable subscription whose channel has that name, as dead letters show it; None: there is none, or there are two."""
        with self._lock:
            found = [each for each in self._durable.values() if each.name == name]
        return found[0] if len(found) == 1 else None

    # Beginning and ending

    def subscribe(
        self, request: SubscribeRequest, subscriber: ConnectionId, client_id: str | None, user: object
    ) -> Subscription:
        """Return the subscription that a new consumer of a topic shall read; `user` has it until it says so to `end`.

        Raises `DestinationError`; `SubscriptionInUseError` when a durable one has a subscriber.
        """
        address = request.address
        topic = self._readable_topic(address, subscriber)
        if request.durable_name is None:
            subscription = self._make_subscription(f"{address}#{next(self._numbers)}", request, subscriber, user)
            try:
                topic.add_subscription(subscription)
            except ProviderError:
                self.end(subscription, user)
                raise
            return subscription
        if address.temporary:
            raise DestinationError(f"{address} is temporary, so it can have no durable subscription")
        if client_id is None:
            raise ProviderError(f"durable subscription {request.durable_name!r} needs a connection with a client id")
        check_name(request.durable_name, "the name of the subscription", ProviderError)
        return self._subscribe_durably(SubscriptionKey(client_id, request.durable_name), request, subscriber, user)

    def _readable_topic(self, address: Address, subscriber: ConnectionId) -> Topic:
        """Return the topic that connection `subscriber` wants to consume from. Raises `DestinationError`."""
        if not address.temporary:
            own = self._host.temporaries.named(address, subscriber)
            return own if isinstance(own, Topic) else self._host.topic(address.name)
        channel = self._host.temporaries.owned(address, subscriber)
        if not isinstance(channel, Topic):
            raise DestinationError(f"{address} is no topic")
        return channel

    def _subscribe_durably(
        self, key: SubscriptionKey, request: SubscribeRequest, subscriber: ConnectionId, user: object
    ) -> Subscription:
        terms = SubscriptionTerms.of(request)
        with self._lock:
            subscription = self._durable.get(key)
            if key in self._changing or (subscription is not None and subscription.is_active):
                raise SubscriptionInUseError(
                    f"durable subscription {key.name!r} has a subscriber; close that one first"
                )
            if subscription is not None and subscription.terms.is_same(terms):
                subscription.subscriber = subscriber
                subscription.user = user
                return subscription
            self._changing.add(key)
        try:
            if subscription is None:
                return self._make_durable(key, request, subscriber, user)
            # §6.11.1: other terms make another subscription
            made = self._make_successor(key, subscription, request, subscriber)
            with self._lock:
                made.user = user
            return made
        finally:
            with self._lock:
                self._changing.discard(key)

    def _make_durable(
        self, key: SubscriptionKey, request: SubscribeRequest, subscriber: ConnectionId, user: object
    ) -> Subscription:
        """Make a durable subscription, or none if that fails; the caller keeps others away from it."""
        storage = self._host.storage
        kept = None if storage is None else storage.define_subscription(key, SubscriptionTerms.of(request))
        made = self._make_subscription(_durable_name(key, request.address), request, subscriber, user, kept)
        with self._lock:
            self._durable[key] = made
        try:
            self._host.topic(request.address.name).add_subscription(made)
        except ProviderError:
            end_at_once(made, storage, kept, partial(self._forget_subscription, key, made))
            raise
        return made

    def _make_successor(
        self, key: SubscriptionKey, old: Subscription, request: SubscribeRequest, subscriber: ConnectionId
    ) -> Subscription:
        """Make a durable subscription, which nobody has yet, in place of one without a subscriber; the caller keeps others away from both.

        Raises `ResourceError`: then the old one is as it was; after any other error the new one is there nevertheless.
        """
        storage = self._host.storage
        if storage is None or old.kept is None:
            self._drop_durable(key, old)
            return self._make_durable(key, request, subscriber, None)
        _check_settled(key, old)
        terms = SubscriptionTerms.of(request)
        kept = storage.succeed_later(key, terms)
        made = self._make_subscription(_durable_name(key, request.address), request, subscriber, None, kept)

        def exchange() -> None:
            self._host.topic(old.terms.topic.name).remove_subscription(old)
            self._host.topic(terms.topic.name).add_subscription(made)
            with self._lock:
                self._durable[key] = made

        succeed_when_written(old, kept, storage, exchange)
        return made

    def restore(
        self, key: SubscriptionKey, record: QueueRecord, selector: Selector | None, kept: QueueJournal
    ) -> Subscription:
        """Make a durable subscription again that the journal has kept; it has no subscriber."""
        request = SubscribeRequest(
            address=record.address, selector=selector, no_local=record.no_local, durable_name=key.name
        )
        made = self._make_subscription(_durable_name(key, record.address), request, ConnectionId(""), None, kept)
        with self._lock:
            self._durable[key] = made
        self._host.topic(record.address.name).add_subscription(made)
        return made

    def unsubscribe(self, client_id: str | None, name: str) -> None:
        """Delete a durable subscription, which gets what is published until that is written.

        Raises `UnknownSubscriptionError`, `SubscriptionInUseError`, `ResourceError`; `InDoubtError`: it is gone nevertheless.
        """
        if client_id is None:
            raise UnknownSubscriptionError(f"without a client id there is no durable subscription {name!r}")
        key = SubscriptionKey(client_id, name)
        with self._lock:
            subscription = self._durable.get(key)
            if subscription is None:
                raise UnknownSubscriptionError(f"client {client_id!r} has no durable subscription {name!r}")
            if key in self._changing or subscription.is_active:
                raise SubscriptionInUseError(f"durable subscription {name!r} has a subscriber; close that one first")
            self._changing.add(key)
        try:
            self._drop_durable(key, subscription)
        finally:
            with self._lock:
                self._changing.discard(key)

    def _drop_durable(self, key: SubscriptionKey, subscription: Subscription) -> None:
        """Delete a durable subscription without a subscriber; the caller keeps others away from it."""
        _check_settled(key, subscription)
        end_when_written(subscription, self._host.storage, partial(self._forget_subscription, key, subscription))

    def _forget_subscription(self, key: SubscriptionKey, subscription: Subscription) -> None:
        self._host.topic(subscription.terms.topic.name).remove_subscription(subscription)
        with self._lock:
            self._durable.pop(key, None)

    def end(self, subscription: Subscription, user: object) -> None:
        """Let a subscription go whose consumer has closed: a durable one stays, any other ends. May be repeated, also when another `user` has it."""
        with self._lock:
            if subscription.user is user:
                subscription.user = None
            if subscription.is_durable:
                return
        terms = subscription.terms
        host = self._host
        find = host.temporaries.find if terms.topic.temporary else host.find_topic
        topic = find(terms.topic.name)
        if isinstance(topic, Topic):
            topic.remove_subscription(subscription)
        subscription.close()

    def end_all(self) -> list[Subscription]:
        """Let go of all durable ones, as the host closes, and return them. The lock is held."""
        found = list(self._durable.values())
        self._durable.clear()
        return found

    def _make_subscription(
        self,
        name: str,
        request: SubscribeRequest,
        subscriber: ConnectionId,
        user: object,
        kept: QueueJournal | None = None,
    ) -> Subscription:
        host, terms = self._host, SubscriptionTerms.of(request)
        made = Subscription(
            name,
            host.store,
            self._make_state(),
            host.clock,
            terms=terms,
            selector=request.selector,
            subscriber=subscriber,
            is_durable=request.durable_name is not None,
            on_due=self._on_due,
            kept=kept,
            policy=host.policy.queues.for_subscription(terms.topic.name),
            on_dead=host.mover.set_aside,
        )
        made.user = user
        made.watch, made.back_off_ms = host.expiries, host.policy.back_off_ms
        return made


def _check_settled(key: SubscriptionKey, subscription: Subscription) -> None:
    """Raise `SubscriptionInUseError` while somebody has messages of a subscription that is to end."""
    unsettled = subscription.count(MessageState.DELIVERED)
    if unsettled:
        raise SubscriptionInUseError(
            f"durable subscription {key.name!r} has {counted(unsettled, 'message')}, received and neither acknowledged "
            f"nor rolled back; settle that, or close the session"
        )


def _durable_name(key: SubscriptionKey, topic: Address) -> str:
    """Return what the channel of a durable subscription is called, in dead letters too."""
    return f"{topic}#{key.client_id}/{key.name}"

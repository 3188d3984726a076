"""Topics and durable subscriptions as operators see them. Both come and go with the clients that use them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms.spi.errors import SubscriptionInUseError, UnknownSubscriptionError
from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.model.errors import ObjectInUseError, UnknownObjectError
from pyjms_provider.model.observed import ObservedObject
from pyjms_provider.model.statistics import statistic
from pyjms_provider.security.contracts import Target, TargetKind

if TYPE_CHECKING:
    from pyjms_provider.core.journal.journal import SubscriptionKey
    from pyjms_provider.core.topic.subscription import Subscription
    from pyjms_provider.core.topic.topic import Topic

__all__ = ["DurableSubscription", "ManagedTopic"]


class ManagedTopic(ObservedObject):
    """A topic that somebody has named since the host was opened."""

    category = "topic"

    def target(self) -> Target:
        return Target(kind=TargetKind.TOPIC, name=self.name, virtual_host=self.host.name)

    def _topic(self) -> Topic:
        topic = self.host.embedded.virtual_host.find_topic(self.name)
        if topic is None:
            raise UnknownObjectError(f"{self.host.path} has no topic {self.name!r}")
        return topic

    @statistic("Subscriptions, durable ones among them.", unit="subscriptions")
    def subscriptions(self) -> int:
        """How many subscriptions it has."""
        return len(self._topic().subscriptions)

    @statistic("Durable subscriptions.", unit="subscriptions")
    def durable_subscriptions(self) -> int:
        """How many durable subscriptions it has."""
        return sum(each.is_durable for each in self._topic().subscriptions)

    @statistic("Messages that wait for its subscribers.", unit="messages")
    def waiting(self) -> int:
        """How many messages wait for its subscribers."""
        return sum(each.count(MessageState.NEW) for each in self._topic().subscriptions)


class DurableSubscription(ObservedObject):
    """A durable subscription; deleting it is what JMS calls to unsubscribe."""

    category = "durable_subscription"

    def target(self) -> Target:
        return Target(kind=TargetKind.SUBSCRIPTION, name=self.name, virtual_host=self.host.name)

    def _found(self) -> tuple[SubscriptionKey, Subscription]:
        for key, found in self.host.embedded.virtual_host.subscriptions.durable().items():
            if str(key) == self.name:
                return key, found
        raise UnknownObjectError(f"{self.host.path} has no durable subscription {self.name!r}")

    def delete(self, *, by: str = "") -> None:
        key, _ = self._found()
        try:
            self.host.embedded.virtual_host.subscriptions.unsubscribe(key.client_id, key.name)
        except UnknownSubscriptionError as error:
            raise UnknownObjectError(error.reason) from error
        except SubscriptionInUseError as error:
            raise ObjectInUseError(error.reason) from error

    @statistic("The topic.")
    def topic(self) -> str:
        """The topic."""
        return self._found()[1].terms.topic.name

    @statistic("The client id that it belongs to.")
    def client_id(self) -> str:
        """The client id that it belongs to."""
        return self._found()[0].client_id

    @statistic("What it selects.")
    def selector(self) -> str | None:
        """What it selects."""
        return self._found()[1].terms.selector_text

    @statistic("Whether messages of its subscriber's own connection are left out.")
    def no_local(self) -> bool:
        """Whether messages of its subscriber's own connection are left out."""
        return self._found()[1].terms.no_local

    @statistic("Whether a subscriber is there.")
    def is_active(self) -> bool:
        """Whether a subscriber is there."""
        return self._found()[1].is_active

    @statistic("Messages that wait.", unit="messages")
    def waiting(self) -> int:
        """How many messages wait."""
        return self._found()[1].count(MessageState.NEW)

    @statistic("Messages that its subscriber has and has not settled.", unit="messages")
    def held(self) -> int:
        """How many messages its subscriber has."""
        return self._found()[1].count(MessageState.DELIVERED)

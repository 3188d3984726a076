"""Receivers below a virtual host: plug-ins in the broker's process that a queue or a topic pushes its messages to (`pyjms.spi.receivers`).

While a receiver is ACTIVE it is attached, and its statistics say what it has done and how many messages it has not acknowledged. One whose kind is not installed, or that
cannot be made, is ERRORED with the reason, and `start` tries again; messages wait in their queue meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import InvalidSelectorError, ProviderError
from pyjms.spi.receivers import PushTo, ReceiverError, ReceiverRequest, find_receiver_kind
from pyjms.spi.selector import selector_or_none
from pyjms_provider.model.attributes import Attributes, Reached, Secret, attribute
from pyjms_provider.model.configured import Stoppable
from pyjms_provider.model.errors import WrongStateError
from pyjms_provider.model.host_views import connect_within
from pyjms_provider.model.managed import State
from pyjms_provider.model.operations import StatisticKind, operation, statistic
from pyjms_provider.receivers import Attachment, Receivers, ReceiverStatistics
from pyjms_provider.security.contracts import Operation, TargetKind

if TYPE_CHECKING:
    from pyjms_provider.broker import EmbeddedBroker
    from pyjms_provider.model.contracts import ManagedHost

_PUSH_TO: Final = {"first": PushTo.FIRST, "all": PushTo.ALL}
_NOTHING_YET: Final = ReceiverStatistics()
_PATIENCE_S: Final = 10.0
"""So long an operation waits for a receiver; then it goes on without the operator."""


class ReceiverAttributes(Attributes):
    """The attributes of a receiver. After a change it is made and attached again; unacknowledged messages go back to their queue first."""

    kind: str = attribute(
        "The kind of receiver: the name of an entry point of the group pyjms.receivers.", min_length=1
    )
    queue: str | None = attribute("The queue that pushes to it; none: `topic` names a topic.", default=None)
    topic: str | None = attribute("The topic that pushes to it.", default=None)
    subscription: str | None = attribute(
        "The name of a durable subscription of the topic, which gathers messages also while the receiver is stopped; none: it gets what is "
        "published while it is attached.",
        default=None,
    )
    selector: str | None = attribute("Which messages are pushed to it; none: all.", default=None)
    push_to: Literal["first", "all"] = attribute(
        "Whether a message goes to the first receiver of the queue that takes it, or to all that accept it.",
        default="first",
    )
    settings: dict[str, Any] = attribute("What the kind of receiver asks for.", default={})
    secret: Secret | None = attribute(
        "Given to the kind of receiver as the setting `secret`.", default=None, secure=True
    )

    @property
    def address(self) -> Address:
        """What pushes to it."""
        return (
            Address(AddressKind.QUEUE, self.queue or "")
            if self.topic is None
            else Address(AddressKind.TOPIC, self.topic)
        )

    def reaches(self) -> Iterator[Reached]:
        if self.queue is not None:
            yield Operation.READ, TargetKind.QUEUE, self.queue
        if self.topic is not None:
            yield Operation.READ, TargetKind.TOPIC, self.topic


class ManagedReceiver(Stoppable):
    """A receiver that the broker makes, and attaches while it is ACTIVE."""

    category = "receiver"
    attributes_class = ReceiverAttributes

    _receivers: Receivers | None = None
    _attachment: Attachment | None = None
    _broker: EmbeddedBroker | None = None
    """The broker that has its destination; None: another member of a cluster leads its shard."""

    # The hooks

    def _validate(self, new: Attributes, old: Attributes | None) -> None:
        assert isinstance(new, ReceiverAttributes)
        if (new.queue is None) == (new.topic is None):
            raise self._wrong("queue", "names a queue, or topic a topic: give one of the two")
        if new.subscription is not None and new.topic is None:
            raise self._wrong("subscription", "belongs to a topic: leave it out, or name a topic")
        try:
            selector_or_none(new.selector)
        except InvalidSelectorError as error:
            raise self._wrong("selector", error.reason) from error
        try:
            find_receiver_kind(new.kind).check(_settings(new))
        except ReceiverError as error:
            raise self._wrong("settings" if "kind of receiver" not in error.reason else "kind", error.reason) from error

    def _on_open(self) -> None:
        attributes = self.attributes
        assert isinstance(attributes, ReceiverAttributes)
        self._attach(attributes)

    def _attach(self, attributes: ReceiverAttributes) -> None:
        host = self._host
        address = attributes.address
        # None: another member of a cluster leads its shard, and the receiver of that name is attached there.
        self._broker = broker = host.broker_with(address)
        if broker is None:
            return
        cluster = host.joined
        while cluster is not None and not cluster.is_settled(address):
            cluster.await_placed(address.name)
        if cluster is not None and len(cluster.placement.places_of(address)) > 1:
            raise WrongStateError(
                f"{address} is partitioned, and a receiver is attached to one queue: give it a queue that is not, or use a consumer"
            )
        made = find_receiver_kind(attributes.kind).make(
            ReceiverRequest(
                name=self.name,
                settings=_settings(attributes),
                here=lambda events: connect_within(host, events, f"receiver {self.name}", address),
                clock=self.clock,
            )
        )
        destination = f"queue://{attributes.queue}" if attributes.topic is None else f"topic://{attributes.topic}"
        try:
            client_id = None if attributes.subscription is None else f"receiver {self.name}"
            receivers = Receivers(broker, client_id=client_id, protocol=f"receiver {self.name}")
            try:
                self._attachment = receivers.attach(
                    destination,
                    made,
                    name=self.name,
                    selector=attributes.selector,
                    push_to=_PUSH_TO[attributes.push_to],
                    subscription=attributes.subscription,
                )
            except ProviderError:
                receivers.close()
                raise
        except ProviderError:
            made.close()
            raise
        self._receivers = receivers

    def follow_leaders(self) -> None:
        attributes = self.attributes if self.state is State.ACTIVE else None
        if not isinstance(attributes, ReceiverAttributes):
            return
        if self._host.broker_with(attributes.address) is self._broker:
            return
        self._on_stop()
        try:
            self._attach(attributes)
        except (ProviderError, OSError) as error:
            self._fail(error, "could not be taken over")

    def _on_change(self, old: Attributes, new: Attributes) -> None:
        assert isinstance(old, ReceiverAttributes)
        assert isinstance(new, ReceiverAttributes)
        # The old one ends first: two receivers of one name would compete for the messages.
        self._on_stop()
        try:
            self._attach(new)
        except Exception:
            try:
                # The attributes are still the old ones: a change is published only after it was obeyed.
                self._attach(old)
            except ProviderError as error:
                self._fail(error, "could not be attached again after a change that was refused")
            raise

    def _on_stop(self) -> None:
        receivers, self._receivers, self._attachment = self._receivers, None, None
        if receivers is not None:
            receivers.close()

    @property
    def _host(self) -> ManagedHost:
        return cast("ManagedHost", self.parent)  # receivers stand below virtual hosts

    # Operations

    @operation("Offer it all messages again that it has not accepted, or that failed.")
    def deliver(self, *, by: str = "") -> None:
        """Have all messages offered that are NEW; the operation returns before a slow receiver has had all of them."""
        attachment = self._attachment
        if attachment is not None:
            with suppress(TimeoutError):
                attachment.deliver(_PATIENCE_S)

    @operation("Deliver all its unacknowledged messages again.")
    def redeliver(self, *, by: str = "") -> None:
        """Have all unacknowledged messages delivered again; the operation returns before a slow receiver has had all of them."""
        attachment = self._attachment
        if attachment is not None:
            with suppress(TimeoutError):
                attachment.redeliver(_PATIENCE_S)

    @operation("Give its unacknowledged messages back to their queue.")
    def release(self, *, by: str = "") -> int:
        """Give back the unacknowledged messages; return how many."""
        attachment = self._attachment
        return 0 if attachment is None else attachment.release()

    # Statistics

    @property
    def _counted(self) -> ReceiverStatistics:
        attachment = self._attachment
        return _NOTHING_YET if attachment is None else attachment.statistics

    @statistic("Messages that it has taken and not acknowledged.", unit="messages")
    def unacknowledged(self) -> int:
        attachment = self._attachment
        return 0 if attachment is None else attachment.unacknowledged

    @statistic("Messages that it took.", unit="messages", kind=StatisticKind.COUNTER)
    def handled(self) -> int:
        return self._counted.handled

    @statistic("Messages that it acknowledged, at once or later.", unit="messages", kind=StatisticKind.COUNTER)
    def acknowledged(self) -> int:
        return self._counted.acknowledged

    @statistic("Offers of messages that it did not accept.", unit="offers", kind=StatisticKind.COUNTER)
    def declined(self) -> int:
        return self._counted.declined

    @statistic("Calls of it that failed.", unit="calls", kind=StatisticKind.COUNTER)
    def failures(self) -> int:
        return self._counted.failures

    @statistic("What went wrong last; none: nothing did.")
    def last_error(self) -> str | None:
        return self._counted.last_error


def _settings(attributes: ReceiverAttributes) -> dict[str, Any]:
    """Return what the kind of receiver is given."""
    secret = attributes.secret
    return {**attributes.settings, **({} if secret is None else {"secret": secret.get_secret_value()})}

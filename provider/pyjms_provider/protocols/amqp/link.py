"""Links and their deliveries (part 2, 2.6): credit, draining, deliveries of several frames, and settlement."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from pyjms.spi.envelope import fact
from pyjms_provider.amqp.errors import AmqpError, Condition, LinkFault, ProtocolMisuseError
from pyjms_provider.amqp.performatives import (
    Attach,
    Detach,
    Error,
    Flow,
    ReceiverSettleMode,
    Transfer,
    is_outcome,
)
from pyjms_provider.protocols.amqp.states import ATTACHED, LINK, Input, LinkState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_MASK: Final = 2**32 - 1
TAG_MAX: Final = 32
"""Bytes of a delivery's tag (part 2, 2.8.7)."""


def error_of(fault: AmqpError) -> Error:
    """Return an error as it is told to the peer."""
    return Error(fault.condition, fault.description, fault.info)


class OutgoingDelivery:
    """A message that this side has sent, until it is settled."""

    __slots__ = ("context", "id", "is_settled", "link", "state", "tag")

    def __init__(self, link: Sender, number: int, tag: bytes, *, is_settled: bool) -> None:
        self.link = link
        self.id = number
        """The delivery's number in its session."""
        self.tag = tag
        self.is_settled = is_settled
        self.state: Any = None
        """What the receiver has told last."""
        self.context: Any = None
        """For the owner."""


class IncomingDelivery:
    """A message that the peer has sent, until it is settled."""

    __slots__ = ("context", "data", "id", "is_settled", "link", "message_format", "rcv_settle_mode", "state", "tag")

    def __init__(self, link: Receiver, number: int, tag: bytes, message_format: int) -> None:
        self.link = link
        self.id = number
        """The delivery's number in its session."""
        self.tag = tag
        self.message_format = message_format
        self.data = b""
        """The message, as it came."""
        self.is_settled = False
        """Whether the sender has settled it already: nothing is to be told of it."""
        self.state: Any = None
        """What the sender has told last: the transaction that the message belongs to, for instance."""
        self.rcv_settle_mode: int | None = None
        self.context: Any = None
        """For the owner."""


class LinkOwner(Protocol):
    """What links need of their session."""

    @property
    def outgoing(self) -> dict[int, OutgoingDelivery]:
        """What this side has sent and nobody has settled, by number."""
        ...

    @property
    def incoming(self) -> dict[int, IncomingDelivery]:
        """What the peer has sent and nobody has settled, by number."""
        ...

    def write(self, record: Any) -> None:
        """Send a performative."""
        ...

    def write_flow(self, link: Link | None = None, *, drain: bool = False) -> None:
        """Tell the peer the state of a link."""
        ...

    def take_delivery_id(self) -> int:
        """Return the number of the next delivery."""
        ...

    def send(self, transfer: Transfer, data: bytes) -> None:
        """Send a message's frames."""
        ...

    def update_incoming(self, deliveries: Iterable[IncomingDelivery], state: Any, *, is_settled: bool = True) -> None:
        """Tell the sender the state of deliveries."""
        ...

    def forget(self, link: Link) -> None:
        """Give up a link that has ended."""
        ...

    def tell(self, event: Any) -> None:
        """Add an event to those that `Connection.receive` returns."""
        ...


class Link:
    """One end of a link. `Sender` and `Receiver` are the two kinds."""

    role: ClassVar[bool]

    def __init__(self, session: LinkOwner, name: str, handle: int) -> None:
        self.session = session
        self.name = name
        self.handle = handle
        """The number that this side has for the link."""
        self.state = LinkState.DETACHED
        self.local: Attach | None = None
        """The attach that this side has sent."""
        self.remote: Attach | None = None
        """The attach that the peer has sent."""
        self.delivery_count = 0
        self.credit = 0
        """How many more messages the sender may send."""
        self.available = 0
        """How many messages the sender had when it told so last."""
        self.context: Any = None
        """For the owner."""

    def attach(self, attach: Attach) -> None:
        """Send the attach: to ask for a link, or to answer the peer's.

        Args:
            attach: its name, handle and role are those of this link, whatever it says.

        A link that has ended meanwhile, as its session or connection has, stays as it is.

        Raises:
            ForbiddenTransitionError: the link is attached already.
        """
        if self.state is LinkState.ENDED:
            return
        self.move(Input.SEND_ATTACH)
        count = None if self.role else self.delivery_count
        attach = replace(attach, name=self.name, handle=self.handle, role=self.role, initial_delivery_count=count)
        self.local = attach
        self.session.write(attach)

    def refuse(self, fault: AmqpError) -> None:
        """Refuse the link that the peer asks for: an attach without termini, and a detach with the error (part 2, 2.6.3)."""
        remote = self.remote
        if remote is None:
            raise ProtocolMisuseError("a link that the peer has not asked for cannot be refused")
        self.attach(Attach(self.name, self.handle, self.role, remote.snd_settle_mode, remote.rcv_settle_mode))
        self.detach(is_closed=True, fault=fault)

    def detach(self, *, is_closed: bool = True, fault: AmqpError | None = None) -> None:
        """Detach the link, or answer the peer's detach.

        Args:
            is_closed: whether the link's state is given up; else the link may be attached again.
            fault: why, for the peer.
        """
        if self.state is LinkState.ENDED:  # with its session, or its connection
            return
        self.move(Input.SEND_DETACH)
        self.session.write(Detach(self.handle, is_closed, error_of(fault) if fault else None))
        self._end_if_over()

    @property
    def is_attached(self) -> bool:
        """Whether messages may pass."""
        return self.state is ATTACHED

    def move(self, given: Input) -> None:
        """Enter the state that the table has for an input. Raises `ForbiddenTransitionError`: it has none."""
        self.state = LINK[self.state, given]

    def received_attach(self, attach: Attach) -> None:
        """Take the peer's attach."""
        self.move(Input.RECEIVE_ATTACH)
        self.remote = attach

    def received_detach(self) -> None:
        """Take the peer's detach."""
        self.move(Input.RECEIVE_DETACH)
        self._end_if_over()

    def _end_if_over(self) -> None:
        if self.state is LinkState.ENDED:
            self.session.forget(self)

    def received_flow(self, flow: Flow) -> None:
        """Take what the peer tells of its end. The session answers an echo."""
        raise NotImplementedError


class Sender(Link):
    """The end that sends."""

    role = False

    def __init__(self, session: LinkOwner, name: str, handle: int) -> None:
        super().__init__(session, name, handle)
        self.is_draining = False
        """Whether the receiver wants all that there is now, and the rest of its credit back: `drained` answers."""
        self.drain = False
        """What the receiver has said of draining last: each flow says it back (part 2, 2.6.7)."""
        self.properties: Mapping[str, Any] | None = None
        """The properties of the receiver's last flow."""

    def send(
        self,
        data: bytes,
        tag: bytes,
        *,
        is_settled: bool = False,
        state: Any = None,
        message_format: int = 0,
    ) -> OutgoingDelivery:
        """Send a message, in as many frames as it needs.

        Args:
            data: the message's sections.
            tag: names the delivery, in at most 32 bytes; no two unsettled deliveries of a link have the same.
            is_settled: whether the receiver has nothing to tell of it.
            state: for instance the transaction that it belongs to.
            message_format: 0, but for formats that other documents define.

        Raises:
            ProtocolMisuseError: the link is not attached, or there is no credit.
        """
        if self.state is not ATTACHED or self.credit <= 0:
            raise ProtocolMisuseError(
                f"the link {self.name!r} is {self.state.value} and has a credit of {self.credit}: nothing may be sent"
            )
        if len(tag) > TAG_MAX:
            raise ProtocolMisuseError(f"a delivery's tag has at most {TAG_MAX} bytes")
        self.credit -= 1
        self.delivery_count = (self.delivery_count + 1) & _MASK
        delivery = OutgoingDelivery(self, self.session.take_delivery_id(), tag, is_settled=is_settled)
        self.session.send(
            Transfer(self.handle, delivery.id, tag, message_format, is_settled or None, False, None, state), data
        )
        if not is_settled:
            self.session.outgoing[delivery.id] = delivery
        return delivery

    def drained(self) -> None:
        """Say that nothing more is there to be sent: the credit that is left is used up (part 2, 2.6.7)."""
        if not self.is_attached:
            return
        self.delivery_count = (self.delivery_count + self.credit) & _MASK
        self.credit = 0
        self.is_draining = False
        self.session.write_flow(self, drain=self.drain)

    def received_flow(self, flow: Flow) -> None:
        if flow.link_credit is not None:
            # The receiver may not have seen what was sent meanwhile: its credit counts from the deliveries that it has seen.
            start = (
                self.local.initial_delivery_count or 0
                if self.local and flow.delivery_count is None
                else flow.delivery_count or 0
            )
            credit = (start + flow.link_credit - self.delivery_count) & _MASK
            self.credit = credit if credit < 2**31 else 0
        self.is_draining = self.drain = flow.drain
        self.properties = flow.properties
        self.session.tell(CreditChanged(self))


class Receiver(Link):
    """The end that receives."""

    role = True

    def __init__(self, session: LinkOwner, name: str, handle: int) -> None:
        super().__init__(session, name, handle)
        self._partial: IncomingDelivery | None = None
        self._parts: list[bytes] = []
        self._size = 0
        self._limit = 0
        """The highest delivery count that was ever granted: credit that is taken back may have been used already."""
        self.is_draining = False

    def give_credit(self, credit: int, *, drain: bool = False) -> None:
        """Let the sender send so many messages from now on.

        Args:
            credit: how many, in place of what is left.
            drain: whether it is to give back what it does not use at once.
        """
        if not self.is_attached:
            return
        self.credit = credit
        self.is_draining = drain
        limit = (self.delivery_count + credit) & _MASK
        if (limit - self._limit) & _MASK < 2**31:
            self._limit = limit
        self.session.write_flow(self, drain=drain)

    def received_attach(self, attach: Attach) -> None:
        super().received_attach(attach)
        if attach.initial_delivery_count is None:
            raise LinkFault(Condition.INVALID_FIELD, "a sender's attach has no initial-delivery-count")
        self.delivery_count = self._limit = attach.initial_delivery_count

    def received_flow(self, flow: Flow) -> None:
        if flow.available is not None:
            self.available = flow.available
        if flow.delivery_count is not None:
            used = (flow.delivery_count - self.delivery_count) & _MASK
            if used < 2**31:
                self.credit = max(self.credit - used, 0)
                self.delivery_count = flow.delivery_count
        if self.is_draining and self.credit == 0:
            self.is_draining = False
            self.session.tell(Drained(self))

    def received_transfer(self, transfer: Transfer, data: bytes) -> None:
        """Take one frame of a message. Raises `LinkFault`: the peer does not keep to the link's rules."""
        delivery = self._partial
        if delivery is None:
            delivery = self._begin(transfer)
            self._partial = delivery
        elif (transfer.delivery_id is not None and transfer.delivery_id != delivery.id) or (
            transfer.delivery_tag is not None and transfer.delivery_tag != delivery.tag
        ):
            raise LinkFault(Condition.NOT_ALLOWED, "a message begins before the one before it has ended")
        elif transfer.message_format is not None and transfer.message_format != delivery.message_format:
            raise LinkFault(Condition.INVALID_FIELD, "the parts of a message have different formats")
        if transfer.settled:
            delivery.is_settled = True
        if transfer.state is not None:
            delivery.state = transfer.state
        if transfer.rcv_settle_mode is not None:
            delivery.rcv_settle_mode = transfer.rcv_settle_mode
        if transfer.aborted:  # part 2, 2.6.14: as if it had been settled, and nothing of it counts
            self._forget_partial()
            return
        if transfer.more or self._parts:
            self._parts.append(data)
            self._size += len(data)
        self._check_size(max(self._size, len(data)))
        if transfer.more:
            return
        delivery.data = b"".join(self._parts) if self._parts else data
        self._forget_partial()
        if not delivery.is_settled:
            self.session.incoming[delivery.id] = delivery
        self.session.tell(DeliveryReceived(delivery))
        if self.is_draining and self.credit == 0:
            self.is_draining = False
            self.session.tell(Drained(self))

    def _begin(self, transfer: Transfer) -> IncomingDelivery:
        if transfer.resume:
            raise LinkFault(Condition.NOT_IMPLEMENTED, "deliveries are not resumed here: send the message again")
        if transfer.delivery_id is None or transfer.delivery_tag is None:
            raise LinkFault(
                Condition.INVALID_FIELD, "the first transfer of a message has no delivery-id or delivery-tag"
            )
        if len(transfer.delivery_tag) > TAG_MAX:
            raise LinkFault(Condition.INVALID_FIELD, f"a delivery-tag has more than {TAG_MAX} bytes")
        is_second = transfer.rcv_settle_mode == ReceiverSettleMode.SECOND
        if is_second and self.local and self.local.rcv_settle_mode == ReceiverSettleMode.FIRST:
            raise LinkFault(
                Condition.INVALID_FIELD, "a message asks for rcv-settle-mode second on a link of mode first"
            )
        if transfer.delivery_id in self.session.incoming:
            raise LinkFault(
                Condition.INVALID_FIELD, f"the delivery-id {transfer.delivery_id} is an unsettled message's"
            )
        if self.delivery_count == self._limit:
            raise LinkFault(Condition.TRANSFER_LIMIT_EXCEEDED, "a message was sent without credit")
        self.credit = max(self.credit - 1, 0)
        self.delivery_count = (self.delivery_count + 1) & _MASK
        return IncomingDelivery(self, transfer.delivery_id, transfer.delivery_tag, transfer.message_format or 0)

    def _check_size(self, size: int) -> None:
        limit = self.local.max_message_size if self.local else None
        if limit and size > limit:
            self._forget_partial()
            raise LinkFault(
                Condition.MESSAGE_SIZE_EXCEEDED, f"a message has more than the {limit} bytes that are taken here"
            )

    def _forget_partial(self) -> None:
        self._partial = None
        self._parts = []
        self._size = 0


@fact
class LinkRequested:
    """The peer has attached a link: `link.attach` or `link.refuse` answers."""

    link: Link


@fact
class LinkAttached:
    """The peer has answered this side's attach. A null terminus means that it refuses the link: its detach follows."""

    link: Link


@fact
class LinkDetached:
    """The peer has detached the link, or, with `failure`, this side has as the peer broke a rule; `link.detach` answers."""

    link: Link
    is_closed: bool
    error: Error | None
    failure: AmqpError | None = None


@fact
class LinkEnded:
    """The peer has answered this side's detach: all that was told on the link before has reached it."""

    link: Link
    error: Error | None = None
    """What the peer could not do of it."""


@fact
class CreditChanged:
    """The receiver has given credit, or asked the sender to drain."""

    link: Sender


@fact
class Drained:
    """The sender has used up the credit, or given it up as there is nothing."""

    link: Receiver


@fact
class DeliveryReceived:
    """A message has come whole."""

    delivery: IncomingDelivery


@fact
class OutgoingUpdated:
    """The receiver has told the state of what this side sent; what it has settled is settled here as well."""

    deliveries: Sequence[OutgoingDelivery]
    state: Any
    is_settled: bool


@fact
class IncomingUpdated:
    """The sender has told the state of what this side received."""

    deliveries: Sequence[IncomingDelivery]
    state: Any
    is_settled: bool


def is_final(state: Any) -> bool:
    """Whether a delivery's state is an outcome, alone or within a transaction."""
    return is_outcome(getattr(state, "outcome", state))


def filter_of(source: Any, name: str) -> Any:
    """Return the filter that a source has under a name; None: it has none."""
    filters: Mapping[str, Any] | None = getattr(source, "filter", None)
    return filters.get(name) if filters else None

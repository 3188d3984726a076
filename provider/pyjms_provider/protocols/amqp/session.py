"""Sessions (part 2, 2.5): windows of transfers, links by their handles, and the dispositions of deliveries."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from pyjms.spi.envelope import fact
from pyjms_provider.amqp.codec import Symbol
from pyjms_provider.amqp.errors import (
    AmqpError,
    Condition,
    ConnectionFault,
    LinkFault,
    ProtocolMisuseError,
    SessionFault,
)
from pyjms_provider.amqp.performatives import Accepted, Attach, Begin, Detach, Disposition, End, Flow, Transfer, write
from pyjms_provider.protocols.amqp.link import (
    IncomingDelivery,
    IncomingUpdated,
    Link,
    LinkAttached,
    LinkDetached,
    LinkEnded,
    LinkRequested,
    OutgoingDelivery,
    OutgoingUpdated,
    Receiver,
    Sender,
    error_of,
)
from pyjms_provider.protocols.amqp.states import ATTACHED, SESSION, SESSION_DEAF, Input, LinkState, SessionState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyjms_provider.amqp.performatives import Error

_MASK: Final = 2**32 - 1
_L = TypeVar("_L", bound=Link)


class SessionSettings(Protocol):
    """What a session needs of the settings of its connection."""

    @property
    def incoming_window(self) -> int:
        """Transfers of a session that may be under way to this side."""
        ...

    @property
    def handle_max(self) -> int:
        """The highest handle in a session."""
        ...

    @property
    def session_properties(self) -> frozenset[str]:
        """Properties of sessions that this side knows: its begin answers those that the peer's has as true."""
        ...


class SessionOwner(Protocol):
    """What sessions need of their connection."""

    @property
    def is_client(self) -> bool:
        """Whether this is the client's end."""
        ...

    @property
    def settings(self) -> SessionSettings:
        """What this side is ready for."""
        ...

    @property
    def frame_room(self) -> int:
        """How many bytes a frame to the peer may have behind its header."""
        ...

    def frame(self, channel: int, performative: bytes, payload: bytes) -> bytes:
        """Return a frame's bytes."""
        ...

    def write(self, channel: int, performative: bytes) -> None:
        """Send a performative."""
        ...

    def write_frame(self, frame: bytes) -> None:
        """Send a frame."""
        ...

    def write_accepted(self, channel: int, role: bool, first: int, last: int, *, is_settled: bool) -> None:
        """Tell that deliveries are accepted."""
        ...

    def unmap(self, session: Session) -> None:
        """Give up a session that has ended."""
        ...

    def tell(self, event: Any) -> None:
        """Add an event to those that `Connection.receive` returns."""
        ...


class Session:
    """One end of a session."""

    def __init__(self, connection: SessionOwner, channel: int) -> None:
        self.connection = connection
        self.channel = channel
        """The channel that this side sends on."""
        self.remote_channel: int | None = None
        self.state = SessionState.UNMAPPED
        self.remote: Begin | None = None
        """The peer's begin."""
        self.outgoing: dict[int, OutgoingDelivery] = {}
        """What this side has sent and nobody has settled, by number."""
        self.incoming: dict[int, IncomingDelivery] = {}
        """What the peer has sent and nobody has settled, by number."""
        self.context: Any = None
        """For the owner."""
        self._links: dict[int, Link] = {}
        self._remote_links: dict[int, Link] = {}
        self._by_name: dict[tuple[str, bool], Link] = {}
        self._next_handle = 0
        self._next_delivery_id = 0
        self._next_outgoing_id = 0
        self._next_incoming_id = 0
        self._incoming_window = connection.settings.incoming_window
        self._remote_incoming_window = 0
        self._waiting: deque[bytes] = deque()
        """Transfers that wait for the peer's window, as they are written."""

    # ---------------------------------------------------------------------------------------------------- this side

    def begin(self, properties: Mapping[str, Any] | None = None) -> None:
        """Send the begin: to ask for a session, or to answer the peer's."""
        self.move(Input.SEND_BEGIN)
        settings = self.connection.settings
        self.write(
            Begin(
                self.remote_channel,
                self._next_outgoing_id,
                self._incoming_window,
                outgoing_window=settings.incoming_window,
                handle_max=settings.handle_max,
                properties=properties,
            )
        )

    def end(self, fault: AmqpError | None = None) -> None:
        """End the session, for a reason if something is wrong. Its links end without a frame of their own. May be repeated."""
        if self.state in (SessionState.UNMAPPED, SessionState.END_SENT, SessionState.DISCARDING):
            return
        self.move(Input.SEND_END_WITH_ERROR if fault and self.state is SessionState.MAPPED else Input.SEND_END)
        self.write(End(error_of(fault) if fault else None))
        self._clear()
        self._unmap_if_over()

    def sender(self, name: str) -> Sender:
        """Make the sending end of a link that this side asks for; `attach` asks."""
        return self._add(Sender(self, name, self._free_handle()))

    def receiver(self, name: str) -> Receiver:
        """Make the receiving end of a link that this side asks for; `attach` asks."""
        return self._add(Receiver(self, name, self._free_handle()))

    @property
    def links(self) -> Iterator[Link]:
        """The links, in the order in which they were attached."""
        return iter(tuple(self._links.values()))

    def link_named(self, name: str, role: bool) -> Link | None:
        """Return the link of a name in one direction; None: there is none."""
        return self._by_name.get((name, role))

    @property
    def is_open(self) -> bool:
        """Whether links may be attached."""
        return self.state is SessionState.MAPPED

    @property
    def can_send(self) -> bool:
        """Whether a transfer would go out at once. What is sent while this is false waits here, in memory."""
        return not self._waiting and self._remote_incoming_window > 0

    @property
    def holds_transfers(self) -> bool:
        """Whether frames of messages wait for the peer's window."""
        return bool(self._waiting)

    def settle_outgoing(self, delivery: OutgoingDelivery, state: Any = None) -> None:
        """Settle what this side has sent, and tell the receiver."""
        delivery.is_settled = True
        if self.outgoing.pop(delivery.id, None) is not None:
            self._write_state(False, delivery.id, delivery.id, state, is_settled=True)

    def update_incoming(self, deliveries: Iterable[IncomingDelivery], state: Any, *, is_settled: bool = True) -> None:
        """Tell the sender the state of deliveries. Numbers that follow each other go in one frame.

        Args:
            deliveries: deliveries of this session; those that are settled already are passed over.
            state: their state.
            is_settled: whether this side settles them, and forgets them.
        """
        numbers = []
        for each in deliveries:
            if each.id in self.incoming:
                numbers.append(each.id)
                if is_settled:
                    each.is_settled = True
                    del self.incoming[each.id]
        for first, last in _ranges(numbers):
            self._write_state(True, first, last, state, is_settled=is_settled)

    def _write_state(self, role: bool, first: int, last: int, state: Any, *, is_settled: bool) -> None:
        if type(state) is Accepted:
            self.connection.write_accepted(self.channel, role, first, last, is_settled=is_settled)
        else:
            self.write(Disposition(role, first, None if last == first else last, is_settled, state))

    def write_flow(self, link: Link | None = None, *, drain: bool = False, echo: bool = False) -> None:
        """Tell the peer the state of the session's windows, and of a link."""
        flow = Flow(
            None if self.remote is None else self._next_incoming_id,
            self._incoming_window,
            self._next_outgoing_id,
            self.connection.settings.incoming_window,
            handle=link.handle if link else None,
            delivery_count=link.delivery_count if link else None,
            link_credit=link.credit if link else None,
            available=link.available if link and not link.role else None,
            drain=drain,
            echo=echo,
        )
        self.write(flow)

    # ------------------------------------------------------------------------------------------ for links, and inside

    def write(self, record: Any) -> None:
        """Send a performative on this session's channel."""
        self.connection.write(self.channel, write(record))

    def tell(self, event: Any) -> None:
        """Add an event to those that `Connection.receive` returns."""
        self.connection.tell(event)

    def take_delivery_id(self) -> int:
        """Return the number of the next delivery."""
        number = self._next_delivery_id
        self._next_delivery_id = (number + 1) & _MASK
        return number

    def send(self, transfer: Transfer, data: bytes) -> None:
        """Send a message's frames, as far as the peer's window lets; the rest when it opens."""
        channel, room = self.channel, self.connection.frame_room
        head = write(transfer)
        if len(head) + len(data) <= room:
            self._send_frame(self.connection.frame(channel, head, data))
            return
        head = write(replace(transfer, more=True))
        at = room - len(head)
        self._send_frame(self.connection.frame(channel, head, data[:at]))
        more, last = write(Transfer(transfer.handle, more=True)), write(Transfer(transfer.handle))
        while at < len(data):
            size = room - len(more)
            head = last if len(data) - at <= room - len(last) else more
            self._send_frame(
                self.connection.frame(channel, head, data[at : at + (room - len(last) if head is last else size)])
            )
            at += room - len(last) if head is last else size

    def _send_frame(self, frame: bytes) -> None:
        if self._waiting or self._remote_incoming_window <= 0:
            self._waiting.append(frame)
            return
        self._remote_incoming_window -= 1
        self._next_outgoing_id = (self._next_outgoing_id + 1) & _MASK
        self.connection.write_frame(frame)

    def _send_waiting(self) -> None:
        while self._waiting and self._remote_incoming_window > 0:
            self._remote_incoming_window -= 1
            self._next_outgoing_id = (self._next_outgoing_id + 1) & _MASK
            self.connection.write_frame(self._waiting.popleft())

    def forget(self, link: Link) -> None:
        """Give up a link that has ended, with what is unsettled on it."""
        self._links.pop(link.handle, None)
        if self._by_name.get((link.name, link.role)) is link:
            del self._by_name[link.name, link.role]
        if link.remote is not None and self._remote_links.get(link.remote.handle) is link:
            del self._remote_links[link.remote.handle]
        unsettled: dict[int, Any] = self.incoming if link.role else self.outgoing
        for number in [number for number, delivery in unsettled.items() if delivery.link is link]:
            del unsettled[number]

    def move(self, given: Input) -> None:
        """Enter the state that the table has for an input. Raises `ForbiddenTransitionError`: it has none."""
        self.state = SESSION[self.state, given]

    def _add(self, link: _L) -> _L:
        if (link.name, link.role) in self._by_name:
            raise ProtocolMisuseError(f"the session has a link with the name {link.name!r} in this direction")
        self._links[link.handle] = self._by_name[link.name, link.role] = link
        return link

    def _free_handle(self) -> int:
        limit = self.remote.handle_max if self.remote else _MASK
        if len(self._links) > limit:
            raise ProtocolMisuseError(f"the peer takes at most {limit + 1} links in a session")
        # The lowest free one: peers keep tables by handle.
        while self._next_handle in self._links or self._next_handle > limit:
            self._next_handle = 0 if self._next_handle >= limit else self._next_handle + 1
        handle = self._next_handle
        self._next_handle = handle + 1
        return handle

    # ------------------------------------------------------------------------------------------------- the peer's side

    def received_begin(self, begin: Begin, channel: int) -> None:
        """Take the peer's begin."""
        self.move(Input.RECEIVE_BEGIN)
        self.remote, self.remote_channel = begin, channel
        self._next_incoming_id = begin.next_outgoing_id
        self._remote_incoming_window = begin.incoming_window
        if self.state is SessionState.BEGIN_RECEIVED:
            said, known = begin.properties or {}, self.connection.settings.session_properties
            self.begin({Symbol(name): True for name in sorted(known) if said.get(name) is True} or None)
        if self.state is SessionState.MAPPED:
            self.connection.tell(SessionBegun(self))

    def received(self, performative: Any, payload: bytes) -> None:
        """Take a frame of this session. Raises `ConnectionFault` and `SessionFault`: the peer breaks a rule."""
        if self.state in SESSION_DEAF and type(performative) is not End:
            return
        if self.state is SessionState.END_RECEIVED:
            raise ConnectionFault(Condition.NOT_ALLOWED, "a frame came behind the end of its session")
        match performative:
            case Transfer():
                self._received_transfer(performative, payload)
            case Disposition():
                self._received_disposition(performative)
            case Flow():
                self._received_flow(performative)
            case Attach():
                self._received_attach(performative)
            case Detach():
                self._received_detach(performative)
            case End():
                self._received_end(performative)
            case _:
                raise ConnectionFault(
                    Condition.NOT_ALLOWED, f"{type(performative).__name__} is no performative of a session"
                )

    def fail(self, fault: AmqpError) -> None:
        """End the session, as the peer has broken a rule."""
        if self.state is not SessionState.MAPPED:
            return
        self.end(fault)
        self.connection.tell(SessionEnded(self, error_of(fault), fault))

    def _received_end(self, end: End) -> None:
        is_answer = self.state is not SessionState.MAPPED
        self.move(Input.RECEIVE_END)
        if not is_answer:
            self._clear()
            # The broker's side answers by `end`, when it has done what the client had asked before.
            if self.connection.is_client:
                self.move(Input.SEND_END)
                self.write(End())
        self.connection.tell(SessionEnded(self, end.error, is_answer=is_answer))
        self._unmap_if_over()

    def cut(self) -> None:
        """Hear that the connection has ended: nothing can be told any more."""
        self.state = SessionState.UNMAPPED
        self._clear()

    def _clear(self) -> None:
        for link in tuple(self._links.values()):
            link.state = LinkState.ENDED
        self._links.clear()
        self._remote_links.clear()
        self._by_name.clear()
        self.outgoing.clear()
        self.incoming.clear()
        self._waiting.clear()

    def _unmap_if_over(self) -> None:
        if self.state is SessionState.UNMAPPED:
            self.connection.unmap(self)

    def _received_attach(self, attach: Attach) -> None:
        if attach.handle > self.connection.settings.handle_max:
            raise ConnectionFault(
                Condition.FRAMING_ERROR,
                f"a link's handle is above the {self.connection.settings.handle_max} that begin has told",
            )
        if attach.handle in self._remote_links:
            raise SessionFault(Condition.HANDLE_IN_USE, f"the handle {attach.handle} is another link's")
        role = not attach.role
        link = self._by_name.get((attach.name, role))
        is_answer = (
            link is not None and link.state in (LinkState.ATTACH_SENT, LinkState.DETACH_SENT) and link.remote is None
        )
        if link is not None and not is_answer:
            self._steal(link)
            link = None
        if link is None:
            try:
                handle = self._free_handle()
            except ProtocolMisuseError as error:  # it asks for more links than it has said that it takes
                raise SessionFault(Condition.RESOURCE_LIMIT_EXCEEDED, str(error)) from None
            link = self._add((Receiver if role else Sender)(self, attach.name, handle))
        self._remote_links[attach.handle] = link
        is_asking = link.state is LinkState.ATTACH_SENT
        try:
            is_refused = is_answer and (attach.source if role else attach.target) is None
            if is_refused and role:
                attach = replace(attach, initial_delivery_count=attach.initial_delivery_count or 0)
            link.received_attach(attach)
        except LinkFault as fault:
            self._fail_link(link, fault)
            return
        if not is_answer:
            self.connection.tell(LinkRequested(link))
        elif is_asking:
            self.connection.tell(LinkAttached(link))

    def _steal(self, link: Link) -> None:
        """Let a second attach have the name of a link (part 2, 2.6.1). A link that is being detached has given its name up."""
        if link.state is LinkState.ATTACH_RECEIVED:
            raise SessionFault(Condition.HANDLE_IN_USE, f"the link {link.name!r} is being attached already")
        del self._by_name[link.name, link.role]
        self._fail_link(link, LinkFault(Condition.STOLEN, f"the link {link.name!r} is attached a second time"))

    def _received_detach(self, detach: Detach) -> None:
        link = self._remote_links.pop(detach.handle, None)
        if link is None:
            raise SessionFault(Condition.UNATTACHED_HANDLE, f"no link is attached as {detach.handle}")
        is_answer = link.state is LinkState.DETACH_SENT
        link.received_detach()
        if is_answer:
            self.connection.tell(LinkEnded(link, detach.error))
        else:
            self.connection.tell(LinkDetached(link, detach.closed, detach.error))

    def _link_of(self, handle: int) -> Link:
        link = self._remote_links.get(handle)
        if link is None:
            raise SessionFault(Condition.UNATTACHED_HANDLE, f"no link is attached as {handle}")
        return link

    def _fail_link(self, link: Link, fault: LinkFault) -> None:
        if link.state is LinkState.ATTACH_RECEIVED:
            link.refuse(fault)
        elif link.state is LinkState.ATTACHED:
            link.detach(is_closed=True, fault=fault)
            self.connection.tell(LinkDetached(link, True, error_of(fault), fault))

    def _received_transfer(self, transfer: Transfer, payload: bytes) -> None:
        if self._incoming_window <= 0:
            raise SessionFault(Condition.WINDOW_VIOLATION, "more transfers were sent than the session's window takes")
        self._next_incoming_id = (self._next_incoming_id + 1) & _MASK
        self._incoming_window -= 1
        link = self._remote_links.get(transfer.handle) or self._link_of(transfer.handle)
        if link.state is ATTACHED:
            if not isinstance(link, Receiver):
                raise SessionFault(
                    Condition.ERRANT_LINK, f"a transfer came on the link {link.name!r}, on which this side sends"
                )
            try:
                link.received_transfer(transfer, payload)
            except LinkFault as fault:
                self._fail_link(link, fault)
        if self._incoming_window * 2 <= self.connection.settings.incoming_window:
            self._incoming_window = self.connection.settings.incoming_window
            self.write_flow()

    def _received_flow(self, flow: Flow) -> None:
        if (flow.next_outgoing_id - self._next_incoming_id) & _MASK < 2**31:  # some clients never count it up
            self._next_incoming_id = flow.next_outgoing_id
        start = 0 if flow.next_incoming_id is None else flow.next_incoming_id
        window = (start + flow.incoming_window - self._next_outgoing_id) & _MASK
        # A window that the peer has made smaller may end before what is under way to it.
        self._remote_incoming_window = window if window < 2**31 or flow.incoming_window >= 2**31 else 0
        self._send_waiting()
        link = None
        if flow.handle is not None:
            link = self._link_of(flow.handle)
            if link.state in (
                LinkState.ATTACHED,
                LinkState.ATTACH_RECEIVED,
            ):  # credit may come before this side has answered the attach
                link.received_flow(flow)
            elif link.state is LinkState.DETACH_SENT:
                return
        if flow.echo:
            self.write_flow(link, drain=isinstance(link, Sender) and link.drain)

    def _received_disposition(self, disposition: Disposition) -> None:
        last = disposition.first if disposition.last is None else disposition.last
        state, is_settled = disposition.state, disposition.settled
        if disposition.role:
            sent = _in_range(self.outgoing, disposition.first, last)
            for each in sent:
                each.state = state if state is not None else each.state
                if is_settled:
                    each.is_settled = True
                    del self.outgoing[each.id]
            if sent:
                self.connection.tell(OutgoingUpdated(sent, state, is_settled))
        else:
            got = _in_range(self.incoming, disposition.first, last)
            for delivery in got:
                delivery.state = state if state is not None else delivery.state
                if is_settled:
                    delivery.is_settled = True
                    del self.incoming[delivery.id]
            if got:
                self.connection.tell(IncomingUpdated(got, state, is_settled))


@fact
class SessionBegun:
    """A session is there: the peer has begun it, or answered this side's begin."""

    session: Session


@fact
class SessionEnded:
    """The session has ended: by the peer, which may answer this side's end, or, with `failure`, by this side as the peer broke a rule.
    Its links are gone.

    On the broker's side `Session.end` answers the peer's end.
    """

    session: Session
    error: Error | None
    failure: AmqpError | None = None
    is_answer: bool = False


def _in_range(deliveries: dict[int, Any], first: int, last: int) -> list[Any]:
    """Return the deliveries from one number to another, both counted; numbers begin again after 2³²-1 (part 2, 2.8.10)."""
    if first == last:
        delivery = deliveries.get(first)
        return [] if delivery is None else [delivery]
    size = (last - first) & _MASK
    if size >= 2**31:
        raise SessionFault(Condition.INVALID_FIELD, f"a disposition goes from {first} back to {last}")
    if size > len(deliveries):  # a peer can say any range: its size costs nothing here
        return [each for number, each in deliveries.items() if (number - first) & _MASK <= size]
    numbers = ((first + offset) & _MASK for offset in range(size + 1))
    return [deliveries[number] for number in numbers if number in deliveries]


def _ranges(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """Return runs of numbers that follow each other, as first and last."""
    if not numbers:
        return
    first = last = numbers[0]
    for number in numbers[1:]:
        if number == (last + 1) & _MASK:
            last = number
        else:
            yield first, last
            first = last = number
    yield first, last

"""Links on which a client sends: to a node, to any node (the anonymous relay), or to a node that the link makes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from pyjms.spi.envelope import DELIVER_AT, SET_BY_PROVIDERS, Address, AddressKind, Envelope, MessageId
from pyjms.spi.errors import AccessDeniedError, DestinationError, ProviderError
from pyjms_provider.amqp.addresses import capability_of, kind_of, resolve
from pyjms_provider.amqp.codec import Array, Described
from pyjms_provider.amqp.envelope import envelope_of
from pyjms_provider.amqp.errors import AmqpError, Condition, LinkFault
from pyjms_provider.amqp.jms import DELIVERY_TIME, USER_ID
from pyjms_provider.amqp.message import Message
from pyjms_provider.amqp.performatives import Accepted, Attach, ReceiverSettleMode, Rejected, Target, TransactionalState
from pyjms_provider.core.host.admission import DUPLICATE_ID
from pyjms_provider.core.host.temporaries import TemporaryEndedError
from pyjms_provider.protocols.amqp.link import Receiver
from pyjms_provider.protocols.amqp.server.refusals import as_provider_error, link_fault, told
from pyjms_provider.protocols.amqp.server.reply_nodes import CBS
from pyjms_provider.protocols.amqp.server.work import Work, nothing
from pyjms_provider.protocols.hosts import Sending

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyjms.spi.provider import ProviderSession
    from pyjms.types import Stored
    from pyjms_provider.protocols.amqp.link import IncomingDelivery, Link
    from pyjms_provider.protocols.amqp.server.contracts import LinkSession
    from pyjms_provider.protocols.amqp.server.transactions import Transaction

ACCEPTED: Final = Accepted()
_DELIVERY_DELAY: Final = "x-opt-delivery-delay"
_OWN: Final = "JMS_pyjms_"
"""Properties of the broker begin so."""
_SETTABLE: Final = frozenset({DELIVER_AT, DUPLICATE_ID})
_NEVER_SETTLES: Final = "azsdk-python-"
"""The product of clients that ask for the second mode, wait for the broker to settle, and would wait for ever."""
_MANY: Final = 64
"""Messages that are sent in one step."""


def attach_producer(session: LinkSession, link: Receiver) -> ProducerLink:
    """Attach a link on which the client sends. Raises `LinkFault`: it cannot be."""
    assert link.remote is not None
    target = link.remote.target
    if not isinstance(target, Target):
        raise LinkFault(Condition.INVALID_FIELD, "a link of a sender has a target: an address, or none for any node")
    if target.dynamic:
        return DynamicProducerLink(session, link, target)
    address = None
    if target.address is not None:
        address = resolve(target.address, target.capabilities, session.engine.guard.host.has)
    return ProducerLink(session, link, target, address)


class ProducerLink:
    """A link on which a client sends."""

    def __init__(self, session: LinkSession, link: Receiver, target: Target, address: Address | None) -> None:
        """`address`: the node; None: each message names its own."""
        self.link = link
        self.address = address
        self.session = session
        self._target = target
        self._pending = 0
        self._credit = 0
        self._message_prefix = f"ID:{session.engine.connection.connection_id}-{next(_links)}-"
        self._numbers = count(1)
        opened = session.engine.machine.remote
        self._is_from_pyjms = opened is not None and (opened.properties or {}).get("product") == "pyjms"
        """Whether a message without an id is to have none: its sender has disabled them."""
        self._late: tuple[Work, _Sends] | None = None
        session.add(Work(self._begin, self._begun, may_wait=session.waits))

    def _begin(self) -> None:
        """Check that the client may send there, and make the node if it is missing. May wait; raises `ProviderError`."""
        if self.address is not None:
            guard = self.session.engine.guard
            guard.write(self.address)
            if self.address.temporary and not guard.host.has(self.address):
                raise DestinationError(f"there is no {self.address}: it has gone with its connection")

    def _begun(self, error: Exception | None) -> None:
        if error is not None:
            self.session.refuse(self.link, error)
            return
        remote, settings = self.link.remote, self.session.engine.service.settings
        assert remote is not None
        self.link.attach(
            Attach(
                "",
                0,
                False,
                snd_settle_mode=remote.snd_settle_mode,
                rcv_settle_mode=self._settle_mode(remote),
                source=remote.source,
                target=self._answered(),
                max_message_size=settings.message_bytes_max,
                offered_capabilities=remote.desired_capabilities and ("DELAYED_DELIVERY",),
            )
        )
        self._give_credit()

    def _settle_mode(self, remote: Attach) -> int:
        """Return when the broker settles: as the client wants, if it can."""
        opened = self.session.engine.machine.remote
        product = (opened.properties or {}).get("product") if opened is not None else None
        if isinstance(product, str) and product.startswith(_NEVER_SETTLES):
            return ReceiverSettleMode.FIRST
        return remote.rcv_settle_mode

    def _answered(self) -> Target:
        """Return the target as the broker has it."""
        kinds = () if self.address is None else (capability_of(self.address),)
        wanted = self._target.capabilities
        return replace(self._target, capabilities=tuple(each for each in kinds if each in wanted) if wanted else ())

    def _give_credit(self) -> None:
        link = self.link
        if link.credit and link.credit + self._pending > self._credit // 2:
            return
        settings, host = self.session.engine.service.settings, self.session.engine.guard.host
        # Asked again each time: the queue may have been made by the first message, or have got a limit.
        waits = self.address is not None and host.may_wait_for_room(self.address)
        self._credit = settings.blocking_credit if waits else settings.credit
        free = self._credit - self._pending
        if free > 0:
            link.give_credit(free)

    def credit_changed(self) -> None:
        """Receivers give credit here."""

    # Messages

    def received(self, delivery: IncomingDelivery) -> None:
        """Send a message of the client's, now or in its turn."""
        session = self.session
        self._pending += 1
        try:
            envelope = self._read(delivery)
            state = delivery.state
            if isinstance(state, TransactionalState):
                transaction = session.engine.transactions.find(state.txn_id)
                sends = _Sends(self, transaction.session, transaction)
                sends.items.append((delivery, envelope))
                transaction.executor.add(
                    Work(sends.do, sends.done, transaction.session.may_wait(envelope), content_bytes=len(delivery.data))
                )
                return
        except LinkFault as fault:
            session.end_link(self.link, fault)
            return
        except (AmqpError, ProviderError) as error:
            if delivery.is_settled and session.unit.transacted:
                # In its turn: an earlier commit must not fail for it.
                spoil = partial(session.unit.spoil, as_provider_error(error))
                session.add(Work(spoil, partial(self._answer_with, delivery, error)))
            else:
                self._answer(delivery, error)
            return
        self._send(delivery, envelope)

    def _send(self, delivery: IncomingDelivery, envelope: Envelope) -> None:
        session, host = self.session, self.session.engine.guard.host
        late = self._late
        size = len(delivery.data)
        if late is not None and session.executor.last is late[0] and len(late[1].items) < _MANY:
            late[1].items.append((delivery, envelope))
            late[0].content_bytes += size
            session.executor.grow(size)
            return
        may_wait = session.receiving.may_wait(envelope)
        is_brief = may_wait and host.waits_briefly(envelope)
        sends = _Sends(self, session.receiving)
        sends.items.append((delivery, envelope))
        work = Work(sends.do, sends.done, may_wait, is_brief, content_bytes=size)
        # Work that does not wait now may have to when its turn comes: the queue may be full by then.
        if not is_brief and (may_wait or not session.executor.is_idle):
            work.is_patient = host.may_wait_for_room(envelope.destination)
        if work.is_patient:
            session.patient += 1
            sends.is_patient = True
        elif may_wait:
            self._late = work, sends
        # Consumers of this loop may take the message while it is sent; `close` writes it to them (decision 0610).
        direct_deliveries = session.engine.service.direct_deliveries
        direct_deliveries.open()
        try:
            session.add(work)
        finally:
            direct_deliveries.close()

    def _read(self, delivery: IncomingDelivery) -> Envelope:
        """Return the envelope of a message. Raises `AmqpError`, `ProviderError`."""
        if not delivery.data:
            raise LinkFault(Condition.NOT_IMPLEMENTED, "a message has sections: this one has no bytes")
        if delivery.message_format:
            raise AmqpError(
                Condition.NOT_IMPLEMENTED,
                f"messages of the format {delivery.message_format} are not taken here, but of 0",
            )
        session = self.session
        now_ms = session.engine.service.clock.time_ms()
        message = Message(delivery.data)
        annotations = message.message_annotations
        address = self.address
        if address is None:
            said = annotations.get("x-opt-jms-dest")
            address = self._routed(message.properties.to, (_KINDS[said],) if said in _KINDS else ())
        envelope: Envelope = envelope_of(message, now_ms=now_ms, destination=address)
        # The envelope is not shared yet.
        envelope.reply_to = self._reply_to(envelope, message.properties.reply_to)  # type: ignore[misc]
        if envelope.message_id is None and not self._is_from_pyjms:
            envelope.message_id = MessageId(f"{self._message_prefix}{next(self._numbers)}")  # type: ignore[misc]
        if not envelope.timestamp_ms:
            envelope.timestamp_ms = now_ms  # type: ignore[misc]
        if DELIVERY_TIME in annotations or _DELIVERY_DELAY in annotations:
            envelope.deliver_at_ms = _deliver_at(annotations, now_ms)  # type: ignore[misc]
        properties = envelope.properties
        if any(name[:3] == "JMS" for name in properties):
            envelope = self._permitted(envelope, properties)
        return envelope

    def _reply_to(self, envelope: Envelope, said: Any) -> Address | None:
        """Return where replies go: clients write the name of a temporary queue, and of a link for answers, as any other."""
        engine, reply_to = self.session.engine, envelope.reply_to
        link = engine.replies.find(envelope.destination.name, said)
        if link is not None:
            return link
        if reply_to is None or reply_to.temporary:
            return reply_to
        temporary = Address(reply_to.kind, reply_to.name, True)
        return temporary if engine.guard.host.has(temporary) else reply_to

    def _routed(self, to: Any, kinds: tuple[str, ...]) -> Address:
        """Return the node that a message names. Raises `AmqpError`: the message goes nowhere, while its link goes on."""
        if to == CBS:  # else the token would stand in a queue
            raise AmqpError(Condition.NOT_IMPLEMENTED, f"tokens are taken on a link to {CBS} alone")
        try:
            return resolve(to, kinds, self.session.engine.guard.host.has)
        except LinkFault as fault:
            raise AmqpError(Condition.NOT_FOUND, f"the field `to` of a message without a target: {fault}") from None

    def _permitted(self, envelope: Envelope, properties: Mapping[str, Stored]) -> Envelope:
        """Return a message without the properties that the broker sets."""
        user = properties.get(USER_ID)
        principal = self.session.engine.guard.principal
        if user is not None and principal.provider and principal.unchecked_login is None and user != principal.name:
            raise AccessDeniedError(
                f"the user-id of a message is the name of the user who sends it, {principal.name!r}"
            )
        dropped = {
            name
            for name in properties
            if (name in SET_BY_PROVIDERS and name != USER_ID) or (name.startswith(_OWN) and name not in _SETTABLE)
        }
        if not dropped:
            return envelope
        # A copy, which is written from its fields: the client's bytes have these properties.
        return replace(envelope, properties={name: value for name, value in properties.items() if name not in dropped})

    def _answer_with(self, delivery: IncomingDelivery, error: Exception, _: Exception | None) -> None:
        self._answer(delivery, error)

    def answered(self, delivery: IncomingDelivery, error: Exception | None) -> None:
        """Tell the client what became of a message."""
        self._answer(delivery, error)

    def _answer(self, delivery: IncomingDelivery, error: Exception | None) -> None:
        room = self.session.session.connection.frame_room
        if error is not None:
            is_in_transaction = isinstance(delivery.state, TransactionalState)
            if is_in_transaction:
                self.session.engine.transactions.spoil(delivery.state.txn_id, error)
            if self.address is None:
                error = _with_tag(error, delivery, room)
            # Of a settled message of a transaction the commit tells that it was not taken, and else the end of the link.
            is_told_later = is_in_transaction or self.session.unit.transacted
            if (delivery.is_settled and not is_told_later) or not (delivery.is_settled or takes_rejected(self.link)):
                self.session.end_link(self.link, error)
                return
        state: Any = ACCEPTED if error is None else Rejected(told(error, room))
        if isinstance(delivery.state, TransactionalState):
            state = TransactionalState(delivery.state.txn_id, state)
        if self.session.answer(delivery, state):
            delivery.data = b""  # the number waits for the client, and the message needs not
        else:
            self.settled_by_client(1)

    def settled_by_client(self, count: int) -> None:
        """Give credit, as so many messages are over. One that the client has to settle takes credit until then: they are limited so."""
        self._pending -= count
        self._give_credit()

    # The end

    def detach(self, *, is_closed: bool, is_lost: bool) -> Work | None:
        """Return the work that ends it: none."""
        # In its turn: what was sent before is done first.
        return Work(nothing, nothing, may_wait=False)


class DynamicProducerLink(ProducerLink):
    """A link to a temporary queue or topic of its own, which lives as long as the link."""

    def __init__(self, session: LinkSession, link: Receiver, target: Target) -> None:
        super().__init__(session, link, target, None)

    def _begin(self) -> None:
        self.address = create_dynamic(self.session, self._target)

    def _answered(self) -> Target:
        assert self.address is not None
        return replace(self._target, address=self.address.name, capabilities=(capability_of(self.address),))

    def detach(self, *, is_closed: bool, is_lost: bool) -> Work | None:
        """Return the work that ends it: the node ends with a link that is closed, and with its connection."""
        address = self.address
        if address is None or not is_closed:
            return None
        delete = self.session.engine.connection.delete_temporary
        return Work(partial(delete, address), nothing, may_wait=self.session.waits)


def create_dynamic(session: LinkSession, terminus: Any) -> Address:
    """Make the temporary node that a source or target asks for. Raises `ProviderError`."""
    kind, _ = kind_of(terminus.capabilities) or (AddressKind.QUEUE, True)
    if terminus.address is not None:
        raise LinkFault(Condition.INVALID_FIELD, "the broker names a dynamic node: leave its address out")
    _check_policies(terminus.dynamic_node_properties or {})
    guard = session.engine.guard
    guard.create(Address(kind, "", True))
    return session.engine.connection.create_temporary(kind)


def _check_policies(properties: Mapping[str, Any]) -> None:
    """Check what a client asks of a dynamic node (part 3, 3.5.9). Raises `LinkFault`."""
    policy = properties.get("lifetime-policy")
    if policy is not None and not (isinstance(policy, Described) and policy.descriptor in _LIFETIMES):
        raise LinkFault(Condition.INVALID_FIELD, "the lifetime-policy of a dynamic node is none that there is")
    modes = properties.get("supported-dist-modes")
    found = modes.items if isinstance(modes, Array) else () if modes is None else (modes,)
    if not all(each in ("move", "copy") for each in found):
        raise LinkFault(Condition.INVALID_FIELD, "the supported-dist-modes of a dynamic node are move and copy")


class _Sends:
    """Messages of one link that are sent in one step."""

    def __init__(self, link: ProducerLink, session: ProviderSession, transaction: Transaction | None = None) -> None:
        self.items: list[tuple[IncomingDelivery, Envelope]] = []
        self.is_patient = False
        self._link = link
        self._session = link.session
        self._to = session
        self._transaction = transaction
        self._errors: list[Exception | None] = []

    def do(self) -> None:
        """Send them. May wait; each has its own error."""
        guard, unit = self._session.engine.guard, self._session.unit
        if len(self.items) == 1:
            self._send(*self.items[0])
            return
        # Messages of several sessions are written together where they belong to no transaction, and no tags.
        if unit.is_open or unit.is_tagged:
            self._errors = [self._tried(*item) for item in self.items]
            return
        sendings = [Sending(self._to, envelope, guard) for _, envelope in self.items]
        self._errors = list(guard.host.send_together(sendings))

    def _send(self, delivery: IncomingDelivery, envelope: Envelope) -> None:
        """Send a message. Raises `ProviderError`."""
        unit = self._session.unit
        try:
            self._session.engine.guard.send(envelope)
            self._to.send(envelope)
        except ProviderError as error:
            # The commit may be the next work.
            if self._transaction is not None:
                self._transaction.spoil(error)
            elif delivery.is_settled and not isinstance(error, TemporaryEndedError):
                # A message that no client can receive any more does not spoil the transaction: it would have been deleted with
                # its destination before the commit.
                unit.spoil(error)
            raise
        if self._transaction is None:
            unit.grow(1, len(delivery.data))

    def _tried(self, delivery: IncomingDelivery, envelope: Envelope) -> ProviderError | None:
        try:
            self._send(delivery, envelope)
        except ProviderError as error:
            return error
        return None

    def done(self, error: Exception | None) -> None:
        """Answer the client. The connection's thread."""
        if self.is_patient:
            self._session.patient -= 1
        errors = self._errors or [error] * len(self.items)
        for (delivery, _), each in zip(self.items, errors, strict=True):
            self._link.answered(delivery, each)


def takes_rejected(link: Link) -> bool:
    """Return whether the client's source says that it takes rejected as an outcome (part 3, 3.5.3)."""
    outcomes = getattr(link.remote.source, "outcomes", ()) if link.remote is not None else ()
    return not outcomes or "amqp:rejected:list" in outcomes


def _with_tag(error: Exception, delivery: IncomingDelivery, room: int) -> AmqpError:
    """Return an error that says which message of an anonymous relay it is about."""
    fault = link_fault(error, room)
    fault.info = {**(fault.info or {}), "delivery-tag": delivery.tag}
    return fault


def _deliver_at(annotations: Mapping[str, Any], now_ms: int) -> int:
    """Return the delivery time that annotations say. Raises `AmqpError`."""
    at, delay = annotations.get(DELIVERY_TIME), annotations.get(_DELIVERY_DELAY)
    value = at if at is not None else delay
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise AmqpError(Condition.INVALID_FIELD, "a delivery time or delay is a number of milliseconds, from 0")
    return int(value) if at is not None else now_ms + int(value)


_LIFETIMES: Final = frozenset(
    {
        0x2B,
        0x2C,
        0x2D,
        0x2E,
        "amqp:delete-on-close:list",
        "amqp:delete-on-no-links:list",
        "amqp:delete-on-no-messages:list",
        "amqp:delete-on-no-links-or-messages:list",
    }
)
_KINDS: Final = {0: "queue", 1: "topic", 2: "temporary-queue", 3: "temporary-topic"}
_links = count(1)

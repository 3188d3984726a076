"""Links of the nodes that answer requests, ``$management`` and ``$cbs``: those on which answers come, and that on which tokens come.

A client may attach a receiver whose source is such a node, and name the link in `reply-to` by the address of its target. The link has a
temporary queue of its own, which only this connection knows by that address.
"""

from __future__ import annotations

import uuid
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import AccessDeniedError, DestinationError
from pyjms_provider.amqp import performatives
from pyjms_provider.amqp.addresses import resolve
from pyjms_provider.amqp.codec import NULL
from pyjms_provider.amqp.envelope import read_envelope
from pyjms_provider.amqp.errors import AmqpError
from pyjms_provider.amqp.message import VALUE, Message, write_application_properties, write_section
from pyjms_provider.amqp.performatives import ACCEPTED, Attach, Properties, Rejected, Source, Target
from pyjms_provider.protocols.amqp.server.consumers import ConsumerLink
from pyjms_provider.protocols.amqp.server.producers import create_dynamic, takes_rejected
from pyjms_provider.protocols.amqp.server.refusals import told
from pyjms_provider.protocols.amqp.server.reply_nodes import CBS, MANAGEMENT
from pyjms_provider.protocols.amqp.server.work import Work

if TYPE_CHECKING:
    from pyjms_provider.protocols.amqp.link import IncomingDelivery, Receiver, Sender
    from pyjms_provider.protocols.amqp.server.contracts import LinkSession

_MANAGEMENT_QUEUE: Final = Address(AddressKind.QUEUE, MANAGEMENT)
_CREDIT: Final = 10
_LONGEST: Final = 64 * 1024
"""Bytes of a message with a token."""
_ANSWER_LIVES_MS: Final = 60_000
_JSON_WEB_TOKENS: Final = frozenset({"jwt", "amqp:jwt"})
STATUS_CODE: Final = "status-code"
STATUS_DESCRIPTION: Final = "status-description"


class ReplyLink(ConsumerLink):
    """A link on which the answers of a node come."""

    def __init__(self, session: LinkSession, link: Sender, source: Source, node: str) -> None:
        self._node = node
        target = link.remote.target if link.remote is not None else None
        self._target = target.address if isinstance(target, Target) else None
        super().__init__(session, link, source, Address(AddressKind.QUEUE, ""))

    def _make_node(self) -> None:
        if self._node == MANAGEMENT and not self.session.engine.guard.host.has(_MANAGEMENT_QUEUE):
            raise DestinationError("this virtual host has no queue $management: see the context variable for it")
        self.address = create_dynamic(self.session, Source(dynamic=True))

    def _begun(self, error: Exception | None) -> None:
        if error is None:
            self.session.engine.replies.add(self._node, self._target, self.address)
        super()._begun(error)

    def detach(self, *, is_closed: bool, is_lost: bool) -> Work | None:
        """Return the work that ends it, with its queue."""
        self.session.engine.replies.remove(self.address)
        return super().detach(is_closed=is_closed, is_lost=is_lost)

    def _end(self, *, is_closed: bool) -> None:
        super()._end(is_closed=is_closed)
        if self.address.name:
            self.session.engine.connection.delete_temporary(self.address)


class TokenLink:
    """A client's link to ``$cbs``, on which it shows tokens (claims-based security)."""

    def __init__(self, session: LinkSession, link: Receiver) -> None:
        self.link = link
        self._session = session
        self._pending = 0
        remote = link.remote
        assert remote is not None
        link.attach(
            Attach(
                "",
                0,
                False,
                snd_settle_mode=remote.snd_settle_mode,
                rcv_settle_mode=remote.rcv_settle_mode,
                source=remote.source,
                target=remote.target,
                max_message_size=_LONGEST,
            )
        )
        link.give_credit(_CREDIT)

    def credit_changed(self) -> None:
        """Receivers give credit here."""

    def received(self, delivery: IncomingDelivery) -> None:
        """Take a request."""
        engine = self._session.engine
        self._pending += 1
        try:
            message = Message(delivery.data)
            said = message.properties.reply_to
            where = engine.replies.find(CBS, said)
            if where is None:
                where = resolve(said, (), engine.guard.host.has)
        except AmqpError as error:
            self._settle(delivery, error)
            return
        # Checking a token may ask another server.
        self._session.add(Work(partial(self._serve, message, where), partial(self._settle, delivery), may_wait=True))

    def _serve(self, message: Message, where: Address) -> None:
        """Do a request, and send the answer. May wait; raises `ProviderError`, `AmqpError`."""
        engine = self._session.engine
        status, description = self._done(message)
        asked = message.properties
        now_ms = engine.service.clock.time_ms()
        properties = Properties(
            message_id=f"ID:{uuid.uuid4()}",
            to=asked.reply_to,
            correlation_id=asked.message_id if asked.correlation_id is None else asked.correlation_id,
            absolute_expiry_time=now_ms + _ANSWER_LIVES_MS,
            creation_time=now_ms,
        )
        told_properties = {STATUS_CODE: int(status), STATUS_DESCRIPTION: description or status.phrase}
        data = b"".join(
            (
                performatives.write(properties),
                write_application_properties(told_properties),
                write_section(VALUE, NULL),
            )
        )
        envelope = read_envelope(data, now_ms=now_ms, destination=where)
        engine.guard.send(envelope)
        self._session.receiving.send(envelope)

    def _done(self, message: Message) -> tuple[HTTPStatus, str]:
        """Do a request; return the status, and why. May wait."""
        given, token = message.application_properties, message.body
        operation, kind = given.get("operation"), given.get("type")
        if operation != "put-token":
            return HTTPStatus.NOT_IMPLEMENTED, "the operation here is put-token"
        engine = self._session.engine
        # Where nobody's login is checked, those of Azure are let in with tokens that only Azure could check.
        if kind not in _JSON_WEB_TOKENS and not engine.lets_in_everybody:
            return HTTPStatus.NOT_IMPLEMENTED, "tokens of the types jwt and amqp:jwt are taken here"
        if not isinstance(given.get("name"), str) or not isinstance(token, str) or not token:
            return HTTPStatus.BAD_REQUEST, "a request has the audience as its name, and the token as a text in its body"
        if not engine.takes_token(token):
            return HTTPStatus.NOT_IMPLEMENTED, "no authentication provider of this port takes tokens"
        try:
            engine.show_token(token)
        except AccessDeniedError as error:
            return HTTPStatus.UNAUTHORIZED, error.reason
        return HTTPStatus.ACCEPTED, ""

    def _settle(self, delivery: IncomingDelivery, error: Exception | None) -> None:
        session = self._session
        if error is not None and (delivery.is_settled or not takes_rejected(self.link)):
            session.end_link(self.link, error)
            return
        room = session.session.connection.frame_room
        if not session.answer(delivery, ACCEPTED if error is None else Rejected(told(error, room))):
            self.settled_by_client(1)

    def settled_by_client(self, count: int) -> None:
        """Give credit, as so many requests are over."""
        self._pending -= count
        if self.link.credit + self._pending <= _CREDIT // 2:
            self.link.give_credit(_CREDIT - self._pending)

    def detach(self, *, is_closed: bool, is_lost: bool) -> Work | None:
        """Return the work that ends it: none."""
        return None

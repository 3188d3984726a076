"""Links as a client asks for them: the answer to the attach, credit and outcomes of what is sent, the coordinator of transactions.

A link belongs to one physical connection. Its methods are called with the lock of the connection held where they say so; the others take it.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, Final

from pyjms.spi.errors import ClosedError, DestinationError, ProviderError, ResourceError, RolledBackError
from pyjms_provider.amqp.message import VALUE, write_section
from pyjms_provider.amqp.performatives import (
    Attach,
    Coordinator,
    Declare,
    Declared,
    Discharge,
    Source,
    write,
)
from pyjms_provider.clients.amqp.physical_connection import PhysicalConnection, Reply
from pyjms_provider.clients.amqp.refusals import outcome_refusal, refusal
from pyjms_provider.clients.network.calls import ConnectionLostInCallError, NotSentError, UnansweredError
from pyjms_provider.protocols.amqp.link import Sender, is_final

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyjms_provider.amqp.performatives import Error
    from pyjms_provider.protocols.amqp.link import Link, OutgoingDelivery
    from pyjms_provider.protocols.amqp.session import Session

_names = count(1)


def new_name(what: str) -> str:
    """Return a name for a link that no other link of this process has: some brokers hang on the name of a refused one."""
    return f"pyjms:{what}:{next(_names)}"


class ClientLink:
    """One end of a link, and what waits for the broker's answers about it."""

    def __init__(self, physical: PhysicalConnection, session: Session) -> None:
        self.physical = physical
        self.session = session
        self.link: Link | None = None
        self.error: ProviderError | None = None
        """Why the broker has detached it."""
        self.condition = ""
        """The broker's condition, then."""
        self._attaching: Reply | None = None
        self._detaching: Reply | None = None

    def attach(self, name: str, attach: Attach, what: str) -> Attach:
        """Ask for the link, and return the broker's answer. Raises the broker's refusal, and as `PhysicalConnection.call`."""

        def ask(reply: Reply) -> None:
            self._attaching = reply
            link = self.session.receiver(name) if attach.role else self.session.sender(name)
            self.link, link.context = link, self
            link.attach(attach)

        answer: Attach = self.physical.call(ask, what)
        return answer

    @property
    def is_usable(self) -> bool:
        """Whether messages may pass."""
        return self.link is not None and self.link.is_attached and self.error is None

    @property
    def has_unsettled(self) -> bool:
        """Whether messages have come on it that are not settled."""
        with self.physical.lock:
            return any(delivery.link is self.link for delivery in self.session.incoming.values())

    def detach(self, *, is_closed: bool = True) -> None:
        """Detach, and wait until the broker has heard all that was told on the link. Raises as `PhysicalConnection.call`."""
        link = self.link
        if link is None:
            return

        def ask(reply: Reply) -> None:
            if link.is_attached and self.session.is_open:
                self._detaching = reply
                link.detach(is_closed=is_closed)
            else:
                self.physical.settle(reply)

        self.physical.call(ask, "the end of a link", is_last=True)

    # With the lock held

    def attached(self) -> None:
        """Take the broker's answer; a null terminus says that its detach with the reason follows."""
        link = self.link
        remote = None if link is None else link.remote
        if link is None or remote is None or (remote.source if link.role else remote.target) is None:
            return
        reply, self._attaching = self._attaching, None
        self.physical.settle(reply, remote)

    def detached(self, error: Error | None) -> None:
        """Take the broker's detach, which may be its refusal."""
        self.condition = "" if error is None else str(error.condition)
        self.error = refusal(error, ResourceError if self._attaching is None else DestinationError)
        for reply in (self._attaching, self._detaching):
            self.physical.settle(reply, error=self.error)
        if self._attaching is None:
            self.on_lost(self.error)
        self._attaching = self._detaching = None

    def ended(self, error: Error | None = None) -> None:
        """Take the answer to this side's detach; an error tells what the broker could not do of it."""
        reply, self._detaching = self._detaching, None
        if error is not None:
            self.condition, self.error = str(error.condition), refusal(error, ResourceError)
        self.physical.settle(reply, error=self.error)

    def session_ended(self) -> None:
        """Hear that this side has ended the session: what is not answered will not be, and the broker has heard of a detach."""
        self.physical.settle(self._attaching, error=ClosedError("the session is closed"))
        self.physical.settle(self._detaching)
        self._attaching = self._detaching = None

    def on_lost(self, error: ProviderError) -> None:
        """Hear that the broker has detached the link by itself."""


class SendingLink(ClientLink):
    """A link on which this side sends, and waits for credit and outcomes."""

    link: Sender | None

    def __init__(self, physical: PhysicalConnection, session: Session) -> None:
        super().__init__(physical, session)
        self._tags = count(1)
        self._waiting: list[Reply] = []
        """The calls that wait for credit."""
        self._pending: dict[OutgoingDelivery, Reply | Callable[[Any], None]] = {}
        self.is_ending = False
        """Whether calls that wait for credit end with `ClosedError`."""
        self.is_known = False
        """Whether the broker has taken a message on this link, and has refused none since."""

    def send(self, data: bytes, what: str, *, state: Any = None) -> Any:
        """Send a message and return its outcome: the delivery's state. Waits for credit.

        Raises as `PhysicalConnection.call`; the broker's error if it detaches the link.
        """
        physical = self.physical
        while True:
            reply = Reply()
            if self.try_send(data, reply, state):
                break
            self.await_credit(reply, what)
        if physical.is_own_thread():
            physical.drop(reply)
            return None
        return physical.await_reply(reply, what, may_last=True)

    def post(self, data: bytes, what: str, *, state: Any = None, done: Callable[[Any], None] | None) -> None:
        """Send a message without waiting for its outcome. Waits for credit. Raises as `send`.

        Args:
            data: the message.
            what: it is, for the text of an error.
            state: for instance the transaction that it belongs to.
            done: gets the outcome, with the lock held; None: the message is settled, so that there is none.
        """
        while True:
            reply = Reply()
            physical = self.physical
            with physical.lock:
                if physical.has_ended or physical.is_closing:
                    raise NotSentError(physical.reason or "it was closed")
                self._check()
                if self._can_send():
                    sent = self._send(data, state, is_settled=done is None)
                    if done is not None:
                        self._pending[sent] = done
                    return
            self._begin_waiting(reply)
            self.await_credit(reply, what)

    def try_send(self, data: bytes, reply: Reply, state: Any, done: Callable[[Any], None] | None = None) -> bool:
        """Send if there is credit, and return whether; else the reply is settled when there is. Raises as `send`.

        `done` gets the outcome, with the lock held; None: it settles the reply.
        """
        is_sent = False

        def ask(reply: Reply) -> None:
            nonlocal is_sent
            self._check()
            if self._can_send():
                self._pending[self._send(data, state)] = done or reply
                is_sent = True
            else:
                self._enter(reply)

        self.physical.begin(ask, reply)
        return is_sent

    def _begin_waiting(self, reply: Reply) -> None:
        def ask(reply: Reply) -> None:
            self._check()
            if self._can_send():
                self.physical.settle(reply)
            else:
                self._enter(reply)

        self.physical.begin(ask, reply)

    def await_credit(self, reply: Reply, what: str) -> None:
        """Wait for credit. Raises as `send`; `ResourceError`: none came in time, so that nothing was sent."""
        if self.physical.is_own_thread():
            self.physical.drop(reply)
            raise ResourceError(
                f"the broker takes no message at the moment, and this thread cannot wait for it: {what}"
            )
        try:
            self.physical.await_reply(reply, what, may_last=True)
        except UnansweredError as error:
            # Nothing was sent, so that nothing is in doubt.
            raise ResourceError(f"the broker takes no message: it has given no credit for {what}") from error

    # With the lock held

    def _check(self) -> None:
        if self.error is not None:
            raise self.error

    def _enter(self, reply: Reply) -> None:
        """Have a call wait for credit. Raises `ClosedError` while the session closes: a listener that still runs sends where there is credit."""
        if self.is_ending:
            raise ClosedError("the session is closed")
        self._waiting.append(reply)

    def _can_send(self) -> bool:
        link = self.link
        return link is not None and link.credit > 0 and link.is_attached and self.session.can_send

    def _send(self, data: bytes, state: Any, *, is_settled: bool = False) -> OutgoingDelivery:
        link = self.link
        assert link is not None
        sent = link.send(data, next(self._tags).to_bytes(4, "big"), is_settled=is_settled, state=state)
        sent.context = self.on_outcome
        return sent

    def credit_changed(self) -> None:
        """Wake the calls that wait for credit; a drain is answered at once, as nothing is kept here."""
        link = self.link
        if link is not None and link.is_draining:
            link.drained()
        waiting, self._waiting = self._waiting, []
        for reply in waiting:
            self.physical.settle(reply)

    def on_outcome(self, delivery: OutgoingDelivery, state: Any) -> None:
        """Take what the broker tells of a delivery; `state` is what it has said now, and the delivery's state what it has said last."""
        if not (delivery.is_settled or is_final(delivery.state)):
            return
        waiting = self._pending.pop(delivery, None)
        if not delivery.is_settled:
            self.session.settle_outgoing(delivery)
        outcome = getattr(delivery.state, "outcome", delivery.state)
        if isinstance(waiting, Reply):
            self.physical.settle(waiting, outcome)
        elif waiting is not None:
            waiting(outcome)

    def on_lost(self, error: ProviderError) -> None:
        """Fail what waits: the broker's error is the answer to what it did not take."""
        for reply in (*self._waiting, *self._pending.values()):
            if isinstance(reply, Reply):
                self.physical.settle(reply, error=error)
            else:
                reply(error)
        self._waiting.clear()
        self._pending.clear()

    @property
    def is_awaited(self) -> bool:
        """Whether outcomes are to come."""
        return bool(self._pending)

    def end_waits(self) -> None:
        """End the waits for credit; later ones end at once."""
        self.is_ending = True
        for reply in self._waiting:
            self.physical.settle(reply, error=ClosedError("the session is closed"))
        self._waiting.clear()


TRANSACTIONS: Final = "amqp:local-transactions"


class TransactionLink:
    """The link to the coordinator, which begins and ends the transactions of one session (part 4)."""

    def __init__(self, physical: PhysicalConnection, session: Session) -> None:
        self.physical = physical
        self._link = SendingLink(physical, session)
        self._next: Reply | None = None
        """The declaration of the next transaction, which went out behind the end of the last one."""

    def attach(self) -> None:
        """Ask for the link. Raises as `ClientLink.attach`."""
        target = Coordinator((TRANSACTIONS,))
        self._link.attach(
            new_name("transactions"), Attach("", 0, False, source=Source(), target=target), "transactions"
        )

    @property
    def is_usable(self) -> bool:
        """Whether the broker has not ended the link."""
        return self._link.is_usable

    def declare(self) -> bytes:
        """Begin a transaction, and return its id. Raises as `SendingLink.send`."""
        reply, self._next = self._next, None
        if reply is None:
            outcome = self._link.send(_DECLARE, "the begin of a transaction")
        else:
            outcome = self.physical.await_reply(reply, "the begin of a transaction")
        if not isinstance(outcome, Declared):
            raise outcome_refusal(outcome) or ResourceError("the broker begins no transaction")
        return outcome.txn_id

    def discharge(self, transaction: bytes, *, fail: bool = False) -> None:
        """End a transaction, and begin the next one, so that its id is here when it is wanted.

        Raises `RolledBackError` if the broker has rolled it back instead; and as `SendingLink.send`.
        """
        link = self._link
        data = write_section(VALUE, write(Discharge(transaction, fail)))
        reply = Reply()
        if not link.try_send(data, reply, None):
            link.await_credit(reply, "the end of a transaction")
            outcome = link.send(data, "the end of a transaction")
        else:
            following = Reply()
            try:
                if link.try_send(_DECLARE, following, None):
                    self._next = following
                else:
                    self.physical.drop(following)
            except (ConnectionLostInCallError, ProviderError):
                self._next = None  # the outcome of the discharge says more
            outcome = self.physical.await_reply(reply, "the end of a transaction")
        error = outcome_refusal(outcome)
        if error is not None and not fail:
            raise error if isinstance(error, RolledBackError) else RolledBackError(error.reason)

    def end_waits(self) -> None:
        """End the waits for credit; the lock is held."""
        self._link.end_waits()


_DECLARE: Final = write_section(VALUE, write(Declare()))

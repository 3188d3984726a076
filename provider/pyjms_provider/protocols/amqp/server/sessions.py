"""One AMQP session at the broker: a session of the virtual host, its links, and the outcomes of deliveries both ways."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyjms.spi.errors import (
    AccessDeniedError,
    CapabilityError,
    ConnectionLostError,
    DestinationError,
    DestinationInUseError,
    InvalidSelectorError,
    ProviderError,
    SubscriptionInUseError,
    UnknownSubscriptionError,
)
from pyjms_provider.amqp.capabilities import COMMANDS, PAGES, TRANSACTED
from pyjms_provider.amqp.errors import Condition, LinkFault, SessionFault
from pyjms_provider.amqp.performatives import (
    Accepted,
    Coordinator,
    Modified,
    Rejected,
    Released,
    Source,
    Target,
    TransactionalState,
)
from pyjms_provider.protocols.amqp.link import Receiver, Sender, is_final
from pyjms_provider.protocols.amqp.server.commands import CommandLink
from pyjms_provider.protocols.amqp.server.consumers import attach_consumer
from pyjms_provider.protocols.amqp.server.coordinator import CoordinatorLink
from pyjms_provider.protocols.amqp.server.pages import PageLink
from pyjms_provider.protocols.amqp.server.producers import attach_producer
from pyjms_provider.protocols.amqp.server.refusals import as_provider_error, link_fault
from pyjms_provider.protocols.amqp.server.replies import ReplyLink, TokenLink
from pyjms_provider.protocols.amqp.server.reply_nodes import CBS, reply_node_of
from pyjms_provider.protocols.amqp.server.transactions import AcceptedInUnit, Retired, channel_in
from pyjms_provider.protocols.amqp.server.work import Work, do_all, nothing
from pyjms_provider.protocols.profile.unit import ServedUnit
from pyjms_provider.protocols.scheduling import SerialExecutor, SessionScheduler

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyjms.spi.delivery import Delivery
    from pyjms_provider.protocols.amqp.link import (
        IncomingDelivery,
        Link,
        LinkDetached,
        OutgoingDelivery,
        OutgoingUpdated,
    )
    from pyjms_provider.protocols.amqp.server.contracts import Engine, LinkSession, ServedLink
    from pyjms_provider.protocols.amqp.server.transactions import Transaction
    from pyjms_provider.protocols.amqp.session import Session

ACCEPTED: Final = Accepted()
_PERSISTENT: Final = 2
_OF_THE_CONSUMER: Final = (
    AccessDeniedError,
    CapabilityError,
    DestinationError,
    DestinationInUseError,
    InvalidSelectorError,
    SubscriptionInUseError,
    UnknownSubscriptionError,
)
"""The errors that concern a consumer alone."""


class ServedSession:
    """One session of a client. The connection's thread calls all of it."""

    def __init__(self, engine: Engine, session: Session) -> None:
        """Raises `ProviderError`: the virtual host has ended the connection."""
        self.engine = engine
        self.session = session
        said = {} if session.remote is None else session.remote.properties or {}
        is_transacted = said.get(TRANSACTED) is True
        self.receiving = engine.connection.open_session(transacted=is_transacted)
        """The session of the virtual host that has its consumers, and its sends outside of the coordinator's transactions."""
        self._accepted_in_unit = AcceptedInUnit(self.receiving)
        self.unit = ServedUnit(self.receiving, self._accepted_in_unit, transacted=is_transacted)
        """The open transaction or branch; a session that is not transacted has none open."""
        self.executor: SerialExecutor[Work] = SerialExecutor(
            engine.transport, engine.perform, engine.fail, engine.backlog
        )
        self.consumers = SessionScheduler(engine.scheduler)
        """The links that may have messages for the client; any thread may call `schedule`."""
        self.waits = engine.guard.host.writes
        """Whether settling and committing may wait for a disk."""
        self.asks_others = engine.guard.host.asks_others
        """Whether most calls may wait for another process, also those in a transaction or branch."""
        self.patient = 0
        """Sends that may be waiting for room."""
        self.held_up: list[Callable[[], None]] = []
        """What goes on when `may_send` holds again."""
        self.behind_transfers: list[Callable[[], None]] = []
        """What goes on when no frame of a message waits for the client's window."""
        self.returning = 0
        """Work by which messages go back to their places, and which has not had its turn."""
        self.written: list[Delivery] = []
        """Messages of links whose transfers are settled, which are acknowledged when they are on the wire."""
        self._links: dict[Link, ServedLink] = {}
        self._accepted: list[IncomingDelivery] = []
        self._late: tuple[Work, list[tuple[OutgoingDelivery, Delivery]]] | None = None
        self._is_leaving = False

    # Links

    def requested(self, link: Link) -> None:
        """Attach the link that the client asks for."""
        self.engine.steal(link)
        try:
            self._links[link] = link.context = self._made(link)
        except (LinkFault, SessionFault) as fault:
            link.context = _Refused()
            link.refuse(self._link_fault(fault))

    def lose(self, name: str, role: bool) -> None:
        """End the link of a name that another session of the connection attaches (part 2, 2.6.1)."""
        link = self.session.link_named(name, role)
        if link is not None and not _is_durable(link):
            self.end_link(link, LinkFault(Condition.STOLEN, f"the link {name!r} is attached in another session"))

    def _made(self, link: Link) -> ServedLink:
        assert link.remote is not None
        if isinstance(link, Sender):
            source = link.remote.source
            if isinstance(source, Source) and source.address == PAGES:
                return PageLink(self, link)
            node = reply_node_of(source, link.remote.target)
            return attach_consumer(self, link) if node is None else ReplyLink(self, link, source, node)
        assert isinstance(link, Receiver)
        if isinstance(link.remote.target, Coordinator):
            wanted = link.remote.target.capabilities
            return CommandLink(self, link) if COMMANDS in wanted else CoordinatorLink(self, link)
        if isinstance(link.remote.target, Target) and link.remote.target.address == CBS:
            return TokenLink(self, link)
        return attach_producer(self, link)

    def refuse(self, link: Link, error: Exception) -> None:
        """Refuse a link that waits for its answer."""
        self._links.pop(link, None)
        link.context = _Refused()
        link.refuse(self._link_fault(error))

    def detached(self, event: LinkDetached) -> None:
        """End a link that the client has detached, or that has ended as the client broke a rule."""
        link = event.link
        served = self._links.pop(link, None)
        has_failed = event.failure is not None
        if event.failure is not None:
            self._spoil(link, event.failure)
        work = None if served is None else served.detach(is_closed=event.is_closed, is_lost=has_failed)
        if work is None:
            if not has_failed:
                link.detach(is_closed=event.is_closed)
            return
        self.add(Work(work.do, partial(self._detached, link, event.is_closed, has_failed, work.done), work.may_wait))

    def _detached(
        self,
        link: Link,
        is_closed: bool,
        has_failed: bool,
        done: Callable[[Exception | None], None],
        error: Exception | None,
    ) -> None:
        done(error)
        if not has_failed:
            link.detach(is_closed=is_closed, fault=None if error is None else self._link_fault(error))

    def end_link(self, link: Link, error: Exception) -> None:
        """End a link for a reason of the broker's."""
        served = self._links.pop(link, None)
        if served is None:
            return
        link.context = _Refused()
        self._spoil(link, error)
        if link.is_attached:
            link.detach(is_closed=True, fault=self._link_fault(error))
        work = served.detach(is_closed=False, is_lost=True)
        if work is not None:
            self.add(work)

    def end_consumers(self, links: Iterable[Link], error: Exception) -> None:
        """End the links of consumers, which cannot go on: with the whole connection, unless the reason is their own.

        The store may not answer, or another member lead the queue. A client makes a lost connection anew, and its consumers with it. A link
        that the broker has detached stays away, and its consumer would receive nothing more.
        """
        if isinstance(error, ProviderError) and not isinstance(error, _OF_THE_CONSUMER):
            self.engine.fail(ConnectionLostError(error.reason))
            return
        for link in links:
            self.end_link(link, error)

    def _link_fault(self, error: BaseException) -> LinkFault:
        return link_fault(error, self.session.connection.frame_room)

    def _spoil(self, link: Link, error: Exception) -> None:
        """Have the open transaction fail, as the broker has ended a link on which the client sends in it."""
        if self.unit.transacted and isinstance(link, Receiver):
            # In its turn: an earlier commit must not fail for it.
            self.add(Work(partial(self.unit.spoil, as_provider_error(error)), nothing))

    @property
    def link_count(self) -> int:
        """How many links are attached, or wait for their answer."""
        return len(self._links)

    @property
    def may_send(self) -> bool:
        """Whether messages may go to the client: its window is open, and what it has given back is in its place.

        Else a later message would overtake one that the client has released before it gave credit.
        """
        return not self.returning and self.session.can_send

    # Work

    def add(self, work: Work) -> None:
        """Do work now, or in its turn."""
        self.executor.add(work)

    def flush(self) -> None:
        """Answer what was taken since the last call, acknowledge what was written, and go on where the window has opened."""
        if self._accepted:
            accepted, self._accepted = self._accepted, []
            self.session.update_incoming(accepted, ACCEPTED)
        if self.written:
            written, self.written = self.written, []
            self.add(Work(partial(self._acknowledge, written), nothing, self.waits))
        if self.held_up and self.may_send:
            waiting, self.held_up = self.held_up, []
            for go_on in waiting:
                go_on()
        if self.behind_transfers and not self.session.holds_transfers:
            waiting, self.behind_transfers = self.behind_transfers, []
            for go_on in waiting:
                go_on()

    def answer(self, delivery: IncomingDelivery, state: Any) -> bool:
        """Tell the client the outcome of its message; most are told together. Return whether the client has to settle it yet."""
        if delivery.is_settled:
            return False
        is_second = delivery.rcv_settle_mode == 1 or (
            delivery.rcv_settle_mode is None
            and delivery.link.local is not None
            and delivery.link.local.rcv_settle_mode == 1
        )
        if state is ACCEPTED and not is_second:
            self._accepted.append(delivery)
            return False
        self.flush()
        self.session.update_incoming((delivery,), state, is_settled=not is_second)
        return is_second

    # What clients tell of their deliveries

    def updated(self, event: OutgoingUpdated) -> None:
        """Settle what the client has told the outcome of."""
        state = event.state
        held = [(each, each.context.take(each)) for each in event.deliveries if each.context is not None]
        known = [(each, delivery) for each, delivery in held if delivery is not None]
        if not known:
            return
        if not is_final(state):
            if not event.is_settled:  # it tells how much it has received
                for each, delivery in known:
                    each.context.put_back(each, delivery)
                return
            state = _default_outcome(known[0][0].link)
        if isinstance(state, TransactionalState):
            self._retire(known, state, is_settled=event.is_settled)
        elif isinstance(state, Accepted):
            self._accept(known, is_settled=event.is_settled)
        else:
            deliveries = [delivery for _, delivery in known]
            self.returning += 1
            self.add(
                Work(
                    partial(self._give_back, deliveries, state),
                    partial(self._given_back, known, state, event.is_settled),
                    self.waits,
                )
            )

    def _accept(self, known: list[tuple[OutgoingDelivery, Delivery]], *, is_settled: bool) -> None:
        # Acknowledgements that wait in a row are one write.
        late = self._late
        if is_settled and late is not None and self.executor.last is late[0]:
            late[1].extend(known)
            return
        joined = list(known)
        # Messages that are on no disk are settled at once, so that what comes behind need not wait for its turn.
        unit = self.unit
        persists_all = self.engine.guard.host.persists_all
        is_written = unit.is_tagged or (
            not unit.transacted
            and any(persists_all or delivery.envelope.delivery_mode == _PERSISTENT for _, delivery in joined)
        )
        waits = self.asks_others or (self.waits and is_written)
        work = Work(
            lambda: self._acknowledge([delivery for _, delivery in joined]),
            lambda error: self._settled(joined, ACCEPTED, is_settled, error),
            waits,
            is_brief=waits and self.engine.guard.host.waits_briefly(None),
        )
        if is_settled:
            self._late = work, joined
        self.add(work)

    def _acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """Settle deliveries; in a transaction or branch, when it commits. Any thread; raises `ProviderError`."""
        unit = self.unit
        try:
            self.receiving.acknowledge(deliveries)
        except ProviderError as error:
            unit.spoil(error)  # the commit may be the next work
            raise
        if unit.is_open:
            unit.size += len(deliveries)
            self._accepted_in_unit.add(deliveries)

    def _give_back(self, deliveries: Sequence[Delivery], state: Any) -> None:
        """Do the outcomes that are not accepted (part 3, 3.4.3 to 3.4.5). Any thread."""
        session = self.receiving
        if isinstance(state, Rejected):
            error = state.error
            reason = "the client has rejected it"
            if error is not None:
                reason += f": {error.condition}" + (f": {error.description}" if error.description else "")
            for delivery in deliveries:
                session.reject(delivery, reason)
        elif isinstance(state, Modified) and state.undeliverable_here:
            now_ms = self.engine.service.clock.time_ms()
            for delivery in deliveries:
                expiration = delivery.envelope.expiration_ms
                if (
                    expiration and expiration <= now_ms
                ):  # clients say so of expired messages, which the broker ends itself
                    session.recover((delivery,))
                else:
                    session.reject(delivery, "the client says that it cannot be delivered to it")
        elif isinstance(state, Modified) and state.delivery_failed:
            session.recover(deliveries)
        else:
            session.give_back_unseen(deliveries)

    def _given_back(
        self, known: Sequence[tuple[OutgoingDelivery, Delivery]], state: Any, is_settled: bool, error: Exception | None
    ) -> None:
        self.returning -= 1
        self._settled(known, state, is_settled, error)

    def _settled(
        self, known: Sequence[tuple[OutgoingDelivery, Delivery]], state: Any, is_settled: bool, error: Exception | None
    ) -> None:
        links = dict.fromkeys(each.context for each, _ in known)
        if error is not None:
            # The client takes its messages for settled: the end of the link tells it that they are not.
            self.end_consumers([each.link for each in links], error)
            return
        if not is_settled:
            if isinstance(state, Rejected):
                # Without its own error, which clients would take for the broker's.
                state = Rejected()
            for each, _ in known:
                self.session.settle_outgoing(each, state)
        for link in links:
            link.settled()

    def _retire(
        self, known: Sequence[tuple[OutgoingDelivery, Delivery]], state: TransactionalState, *, is_settled: bool
    ) -> None:
        """Have the outcome of deliveries be a transaction's (part 4, 4.4.2)."""
        try:
            adopter = self._adopter_of(state)
            transaction = None if adopter is not None else self._transaction_for(state)
        except LinkFault as fault:
            for each, delivery in known:
                each.context.put_back(each, delivery)
            self.end_link(known[0][0].context.link, fault)
            return
        if adopter is not None:
            deliveries = [delivery for _, delivery in known]
            adopter.add(
                Work(partial(adopter.adopt, deliveries), partial(self._adopted, known, is_settled), self.asks_others)
            )
            return
        assert transaction is not None
        retired = [
            Retired(self.receiving, delivery, None if is_settled else partial(each.context.put_back, each))
            for each, delivery in known
        ]
        work = Work(
            partial(transaction.retire, retired),
            partial(self._retired, known, state),
            may_wait=self.asks_others,
        )
        transaction.executor.add(work)

    def _transaction_for(self, state: TransactionalState) -> Transaction:
        if not isinstance(state.outcome, Accepted):
            raise LinkFault(
                Condition.NOT_IMPLEMENTED,
                "in a transaction deliveries can be accepted; tell other outcomes outside of it",
            )
        return self.engine.transactions.find(state.txn_id)

    def _adopter_of(self, state: TransactionalState) -> LinkSession | None:
        """Return the transacted session that a state names; None: it names a transaction of a coordinator. Raises `LinkFault`."""
        channel = channel_in(state.txn_id)
        if channel is None:
            return None
        found = self.engine.session_on(channel)
        if found is None or not found.unit.transacted:
            raise LinkFault(Condition.UNKNOWN_TRANSACTION, f"no transacted session is on channel {channel}")
        if not isinstance(state.outcome, Accepted):
            raise LinkFault(Condition.NOT_IMPLEMENTED, "deliveries are accepted in a transaction of another session")
        return found

    def adopt(self, deliveries: Sequence[Delivery]) -> None:
        """Accept deliveries of other sessions in the open transaction or branch. Any thread; raises `ProviderError`."""
        try:
            self.receiving.adopt(deliveries)
        except ProviderError as error:
            self.unit.spoil(error)
            raise
        self._acknowledge(deliveries)

    def _adopted(
        self, known: Sequence[tuple[OutgoingDelivery, Delivery]], is_settled: bool, error: Exception | None
    ) -> None:
        # Of an error the commit tells.
        if not is_settled:
            for each, _ in known:
                self.session.settle_outgoing(each, ACCEPTED if error is None else Released())
        for link in dict.fromkeys(each.context for each, _ in known):
            link.settled()

    def _retired(
        self, known: Sequence[tuple[OutgoingDelivery, Delivery]], state: TransactionalState, error: Exception | None
    ) -> None:
        links = dict.fromkeys(each.context for each, _ in known)
        if error is not None:
            self.end_consumers([each.link for each in links], error)
            return
        for link in links:
            link.settled()

    # The end

    def leave(self) -> None:
        """End when all work has been done: the client has ended the session, or the connection."""
        if self._is_leaving:
            return
        self._is_leaving = True
        if self.patient:  # else a send could wait for room for ever
            self.receiving.end_waits()
        self.add(Work(self._close, self._left, may_wait=True))

    def _close(self) -> None:
        ends = [served.detach(is_closed=False, is_lost=False) for served in self._links.values()]
        do_all([*(work.do for work in ends if work is not None), self.receiving.close])

    def _left(self, error: Exception | None) -> None:
        fault = SessionFault(Condition.INTERNAL_ERROR, str(error)) if error is not None else None
        self._links.clear()
        self.session.end(fault)
        self.engine.forget(self)

    def end(self) -> None:
        """Stop all work: the connection is lost."""
        self.executor.clear()
        self.receiving.end_waits()


class _Refused:
    """A link that the broker has refused, or has ended: what still comes is passed over."""

    def credit_changed(self) -> None:
        """Give nothing."""

    def received(self, delivery: IncomingDelivery) -> None:
        """Take nothing."""

    def settled_by_client(self, count: int) -> None:
        """Give nothing."""

    def detach(self, *, is_closed: bool, is_lost: bool) -> Work | None:
        """End nothing."""
        return None


def _is_durable(link: Link) -> bool:
    """Return whether a link is that of a durable subscription: a second one of the same name is refused while it is attached."""
    source = None if link.remote is None else link.remote.source
    return isinstance(link, Sender) and bool(
        getattr(source, "durable", 0) or getattr(source, "expiry_policy", "") == "never"
    )


def _default_outcome(link: Link) -> Any:
    """Return the outcome of a delivery that is settled without one (part 3, 3.5.3)."""
    source = None if link.remote is None else link.remote.source
    return getattr(source, "default_outcome", None) or Released()

"""A session at the pyjms broker."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Final

from pyjms.spi.delivery import Delivery
from pyjms.spi.errors import (
    BranchError,
    CapabilityError,
    ClosedError,
    InDoubtError,
    ProviderError,
    ResourceError,
    RolledBackError,
)
from pyjms.spi.provider import ProviderSession, SubscribeRequest
from pyjms.spi.xid import BranchFailure, Xid
from pyjms_provider.clients.ending import Ending
from pyjms_provider.clients.stomp.epoch import InterruptedLinkError
from pyjms_provider.clients.stomp.profiled.browser import begin_browsing
from pyjms_provider.clients.stomp.profiled.consumer import ProfiledConsumer
from pyjms_provider.clients.stomp.profiled.received import Received
from pyjms_provider.protocols.stomp import verbs
from pyjms_provider.protocols.stomp.answers import Prepared, Recovered
from pyjms_provider.protocols.stomp.delivery_ids import DeliveryIds, delivery_ids

if TYPE_CHECKING:
    from pyjms.spi.envelope import Address, Envelope
    from pyjms.spi.selector import Selector
    from pyjms_provider.clients.stomp.profiled.connection import ProfiledConnection
    from pyjms_provider.protocols.stomp.frames import Frame

__all__ = ["ProfiledSession"]

_log = logging.getLogger("pyjms.stomp")
_PERSISTENT: Final = 2
_GOOD_MAX: Final = 10_000


class ProfiledSession(ProviderSession):
    """A session of a `ProfiledConnection`."""

    def __init__(self, connection: ProfiledConnection, name: str, *, transacted: bool) -> None:
        self.connection = connection
        self.name = name
        self.transacted = transacted
        self._numbers = count(1)
        self._lock = Lock()
        self._consumers: dict[ProfiledConsumer, None] = {}
        self._held: dict[Received, None] = {}
        self._good: set[Address] = set()
        """Destinations that this session has sent to, and heard that it may."""
        self._unit_epoch = 0
        """The epoch in which the open transaction has begun; 0: nothing is in it."""
        self._timeout_s = 0
        self._closed = False
        self._ending = Ending()

    @property
    def is_closed(self) -> bool:
        """Whether it has been closed."""
        return self._closed

    def verb(self) -> verbs.OpenSession:
        """Return what makes it at the broker."""
        return verbs.OpenSession(session=self.name, transacted=self.transacted)

    # Sending

    def send(self, envelope: Envelope) -> None:
        self._check_open()
        frame = self.connection.frame_of(envelope, self.name)
        address = envelope.destination
        try:
            if self.transacted:
                self._enter_unit()
                self.connection.link.current().post(frame)
            elif envelope.delivery_mode == _PERSISTENT or address.temporary or address not in self._good:
                # Whether it may be sent there is asked once; then messages that may be lost need no answer.
                self.connection.link.current().ask(frame)
                if len(self._good) < _GOOD_MAX:
                    self._good.add(address)
            else:
                self.connection.link.current().post(frame)
        except InterruptedLinkError as error:
            self._check_open()
            if self.transacted:
                return  # the commit tells
            raise InDoubtError(
                f"the connection was lost while a message was sent ({error}): it is not known whether it arrived"
            ) from error

    def may_wait(self, envelope: Envelope) -> bool:
        return True

    def _enter_unit(self) -> None:
        if not self._unit_epoch:
            self._unit_epoch = self.connection.link.current().number

    def commit(self) -> None:
        self._check_transacted()
        epoch, self._unit_epoch = self._unit_epoch, 0
        if not epoch:
            return
        if epoch != self.connection.link.current().number:
            raise RolledBackError("the transaction was rolled back, as the connection was lost in it")
        try:
            self.connection.ask(verbs.CommitTransaction(session=self.name))
        except InterruptedLinkError as error:
            raise InDoubtError(
                f"the connection was lost during the commit ({error}): it is not known whether it was done"
            ) from error

    def rollback(self) -> None:
        self._check_transacted()
        epoch, self._unit_epoch = self._unit_epoch, 0
        if epoch and epoch == self.connection.link.epoch_number:
            self._tell(verbs.AbortTransaction(session=self.name))

    def _check_transacted(self) -> None:
        self._check_open()
        if not self.transacted:
            raise CapabilityError("the session is not transacted")

    # Receiving

    def subscribe(self, request: SubscribeRequest, on_ready: Callable[[], None]) -> ProfiledConsumer:
        self._check_open()
        name = f"{self.name}.{next(self._numbers)}"
        consumer = ProfiledConsumer(self, name, request, on_ready, self.connection.settings.prefetch_messages)
        self.connection.subscribe(consumer)
        with self._lock:
            is_open = not self._closed
            if is_open:
                self._consumers[consumer] = None
        if not is_open:
            consumer.close()
            self._check_open()
        return consumer

    def browse(self, address: Address, selector: Selector | None) -> Iterator[Delivery]:
        self._check_open()
        name = f"{self.name}.{next(self._numbers)}"
        return begin_browsing(self, name, address, None if selector is None else selector.text).messages()

    def unsubscribe(self, name: str) -> None:
        self._ask(verbs.DeleteSubscription(session=self.name, durable_name=name))

    def consumers(self) -> list[ProfiledConsumer]:
        """Return those that are open."""
        with self._lock:
            return list(self._consumers)

    def forget(self, consumer: ProfiledConsumer) -> None:
        """Let go of a consumer that closes."""
        with self._lock:
            self._consumers.pop(consumer, None)

    def hold(self, received: Received) -> bool:
        """Take a message that a consumer hands out; return False if the session is closed, which gives it back."""
        with self._lock:
            if not self._closed:
                self._held[received] = None
            return not self._closed

    # Settling

    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        self._check_open()
        live = self._live(deliveries)
        if not live:
            return
        verb = verbs.Acknowledge(session=self.name, ids=_ids(live))
        if self.transacted:
            self._enter_unit()
            self.connection.post(verb.write())
            return
        if self.connection.settings.confirm_acknowledge and any(each.is_persistent for each in live):
            self._tell(verb)
        else:
            self.connection.post(verb.write())
        self._forget(live)

    def recover(self, deliveries: Sequence[Delivery]) -> None:
        self._check_open()
        live = self._live(deliveries)
        if live:
            self._give_back(live, verbs.GiveBack(session=self.name, ids=_ids(live)))

    def give_back_unseen(self, deliveries: Sequence[Delivery]) -> None:
        self._check_open()
        live = self._live(deliveries)
        if live:
            self._give_back(live, verbs.GiveBack(session=self.name, ids=_ids(live), unseen=True))

    def retry(self, delivery: Delivery, reason: str) -> None:
        self._check_open()
        live = self._live([delivery])
        if live:
            self._give_back(live, verbs.Retry(session=self.name, ids=_ids(live), reason=reason))

    def _give_back(self, live: Sequence[Received], verb: verbs.Verb) -> None:
        """Give messages back to their old places: what was fetched after them goes back, too, so that they come first."""
        self._forget(live)
        consumers = self.consumers()
        try:
            unseen = [number for consumer in consumers for number in consumer.withdraw()]
            if unseen:
                self.connection.ask(verbs.GiveBack(session=self.name, ids=delivery_ids(sorted(unseen)), unseen=True))
            self.connection.ask(verb)
        except InterruptedLinkError:
            _log.debug("the connection ended before the broker had heard %s", verb.COMMAND)  # all is the broker's again
        finally:
            for consumer in consumers:
                consumer.resume()

    def reject(self, delivery: Delivery, reason: str) -> None:
        self._check_open()
        live = self._live([delivery])
        self._forget(live)
        if live:
            self._tell(verbs.Reject(session=self.name, ids=_ids(live), reason=reason))

    def adopt(self, deliveries: Sequence[Delivery]) -> None:
        self._check_open()
        live = self._live(deliveries)
        if live:
            self._ask(verbs.Adopt(session=self.name, ids=_ids(live)))
        for each in live:
            self.hold(each)

    def _live(self, deliveries: Sequence[Delivery]) -> list[Received]:
        """Return those of the present epoch; the others are the broker's again, and come again."""
        number = self.connection.link.epoch_number
        tags = [delivery.tag for delivery in deliveries]
        live = [tag for tag in tags if isinstance(tag, Received) and tag.epoch == number]
        if len(live) < len(tags):
            _log.warning(
                "PYJMS-EPOCH %d messages were settled after the connection that they came by was lost; they come again",
                len(tags) - len(live),
            )
        return live

    def _forget(self, received: Sequence[Received]) -> None:
        with self._lock:
            for each in received:
                self._held.pop(each, None)

    # Distributed transactions

    def xa_start(self, xid: Xid, *, join: bool = False, resume: bool = False) -> None:
        if join and resume:
            raise BranchError("a session joins a branch or resumes it, not both", BranchFailure.INVALID)
        mode = verbs.BeginMode.JOIN if join else verbs.BeginMode.RESUME if resume else verbs.BeginMode.NEW
        self._branch(verbs.BeginBranch(session=self.name, xid=xid, mode=mode, timeout_s=self._timeout_s))

    def xa_end(self, xid: Xid, *, suspend: bool = False, fail: bool = False) -> None:
        if suspend and fail:
            raise BranchError("work is suspended or has failed, not both", BranchFailure.INVALID)
        mode = verbs.EndMode.SUSPEND if suspend else verbs.EndMode.FAIL if fail else verbs.EndMode.SUCCESS
        self._branch(verbs.EndBranch(session=self.name, xid=xid, mode=mode))

    def xa_prepare(self, xid: Xid) -> bool:
        return Prepared.read(self._branch(verbs.PrepareBranch(session=self.name, xid=xid)).headers).needs_commit

    def xa_commit(self, xid: Xid, *, one_phase: bool = False) -> None:
        self._branch(verbs.CommitBranch(session=self.name, xid=xid, one_phase=one_phase))

    def xa_rollback(self, xid: Xid) -> None:
        self._branch(verbs.RollbackBranch(session=self.name, xid=xid))

    def xa_recover(self) -> Sequence[Xid]:
        return Recovered.read(self._branch(verbs.RecoverBranches(session=self.name)).headers).xids

    def xa_forget(self, xid: Xid) -> None:
        self._branch(verbs.ForgetBranch(session=self.name, xid=xid))

    def xa_set_timeout(self, seconds: int) -> bool:
        self._timeout_s = seconds
        return True

    def xa_get_timeout(self) -> int:
        return self._timeout_s or self.connection.transaction_timeout_s

    def _branch(self, verb: verbs.Verb) -> Frame:
        self._check_open()
        try:
            return self.connection.ask(verb)
        except InterruptedLinkError as error:
            raise BranchError(
                f"the connection was lost ({error}): it is not known what became of the branch",
                BranchFailure.UNREACHABLE,
            ) from error

    # Asking

    def _ask(self, verb: verbs.Verb) -> Frame:
        self._check_open()
        try:
            return self.connection.ask(verb)
        except InterruptedLinkError as error:
            raise ResourceError(f"the connection was lost: {error}; try again") from error

    def _tell(self, verb: verbs.Verb) -> None:
        """Ask, and do not mind if the connection is lost: then all is the broker's again."""
        try:
            self.connection.ask(verb)
        except InterruptedLinkError:
            _log.debug("the connection ended before the broker had heard %s", verb.COMMAND)

    # Ending

    def interrupted(self) -> None:
        """Hear that the epoch has ended."""
        with self._lock:
            self._held.clear()
            self._good.clear()

    def end_waits(self) -> None:
        self.connection.post(verbs.Interrupt(session=self.name).write())

    def close(self) -> None:
        if not self._ending.begin():
            return
        try:
            self._shut_down()
        finally:
            self._ending.finish()

    def _shut_down(self) -> None:
        with self._lock:
            self._closed = True
            consumers = list(self._consumers)
        for consumer in consumers:
            try:
                consumer.close()
            except ProviderError as error:
                _log.warning("a consumer could not be closed in order: %s", error.reason)
        self.connection.end_session(self)

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError(f"session {self.name} is closed")
        self.connection.link.check_open()


def _ids(received: Sequence[Received]) -> DeliveryIds:
    return delivery_ids(each.number for each in received)

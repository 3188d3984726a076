"""A received message that is not settled: the tag of a delivery."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from threading import Lock
from typing import Any, Protocol, TypeAlias

from pyjms.spi.envelope import Address, Envelope
from pyjms.spi.errors import InDoubtError, ProviderError, ResourceError, RolledBackError
from pyjms_provider.clients.network.calls import ConnectionLostInCallError, UnansweredError, lost_while_ended
from pyjms_provider.clients.network.delivery_counts import DeliveryCounts
from pyjms_provider.clients.stomp.physical_connection import PhysicalConnection, Request
from pyjms_provider.clients.stomp.transport import SentFlag
from pyjms_provider.protocols.stomp.frames import Frame


class Settlement(SentFlag):
    """An ACK or NACK of one or several messages."""

    __slots__ = ("transaction",)

    def __init__(self, transaction: Transaction | None = None) -> None:
        super().__init__()
        self.transaction = transaction
        """The transaction that it is a part of; None: it settles at once."""


class MessageSource(Protocol):
    """What a held message uses of its subscription."""

    @property
    def is_open(self) -> bool:
        """Whether the client has not closed it."""
        ...

    @property
    def identity(self) -> str:
        """Whose copies of messages it gets: empty for a queue, else the durable subscription."""
        ...

    def settled(self, messages: Iterable[HeldMessage]) -> None:
        """Remove messages that are settled."""
        ...

    def give_back(self, messages: Iterable[HeldMessage]) -> None:
        """Return messages to their places, or to the broker."""
        ...


class MessageHolder(Protocol):
    """What a held message uses of its session."""

    def remove_held(self, held: HeldMessage) -> None:
        """Remove a message that another session has adopted."""
        ...


class HeldMessage:
    """A message that the client has received and not settled. Guarded by its subscription's lock; `session` by those of the sessions."""

    __slots__ = (
        "count",
        "dead_letter_request",
        "envelope",
        "frame",
        "is_counted",
        "is_redelivered",
        "number",
        "physical",
        "session",
        "settlement",
        "subscription",
    )

    def __init__(self, subscription: MessageSource, physical: int, frame: Frame, number: int) -> None:
        self.subscription = subscription
        self.physical = physical
        """The only physical connection on which it can be settled and given back."""
        self.frame = frame
        self.number = number
        """Its place among the messages of its subscription."""
        self.envelope: Envelope | None = None
        self.count = 0
        """How often it has been delivered."""
        self.is_redelivered = False
        self.is_counted = False
        """Whether its subscription counts it as polled, and neither settled nor given back."""
        self.session: MessageHolder | None = None
        """The session that holds it now."""
        self.settlement: Settlement | None = None
        """The last settlement that was sent for it, or is about to be."""
        self.dead_letter_request: Request | None = None
        """The request that sends its copy to the dead letters, kept for a repeated call."""

    @property
    def owner(self) -> str:
        """Whose copy of the message it is; see `MessageSource.identity`."""
        return self.subscription.identity

    def is_settled(self, transaction: Transaction | None = None) -> bool:
        """Whether its settlement was sent: for good, or in `transaction`. The broker may not have answered that call."""
        settlement = self.settlement
        if settlement is None or not settlement.is_sent:
            return False
        part_of = settlement.transaction
        return part_of is None or part_of is transaction or part_of.has_committed

    @property
    def ack_id(self) -> str:
        """The id in ACK and NACK."""
        headers = self.frame.headers
        return headers.get("ack") or headers.get("message-id", "")


def begin_settlement(held: Iterable[HeldMessage], transaction: Transaction | None = None) -> Settlement:
    """Return one new settlement for all these messages; its flag says whether it was sent."""
    settlement = Settlement(transaction)
    for each in held:
        each.settlement = settlement
    return settlement


# What this process remembers of messages that a broker will deliver again, after a lost connection or a closed session.
#
# By JMSMessageID, destination and durable subscription: how often a message was delivered here, and whether it was acknowledged
# without an answer. Both tables are bounded; a message that was dropped from them is delivered with the broker's flag alone.

_KEPT_MAX = 10_000
_Key: TypeAlias = tuple[str, Address, str]


class Redeliveries:
    """Delivery counts and acknowledgements of messages that may be redelivered. Any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts = DeliveryCounts()
        self._acknowledged: OrderedDict[_Key, None] = OrderedDict()

    def record_deliveries(self, messages: Iterable[HeldMessage]) -> None:
        """Remember the delivery counts of these messages, which the broker will deliver again."""
        for held in messages:
            if held.envelope is not None:
                self._counts.record(held.envelope, held.owner, held.count)

    def record_acknowledged(self, messages: Iterable[HeldMessage]) -> None:
        """Remember that the client has acknowledged these messages, perhaps unknown to the broker."""
        with self._lock:
            for held in messages:
                if held.envelope is not None and (key := _key(held.envelope, held.owner)) is not None:
                    self._acknowledged[key] = None
            _shorten(self._acknowledged)

    def count_of(self, envelope: Envelope, owner: str) -> int:
        """Return how often a message was delivered before its return to the broker, and forget it."""
        return self._counts.take(envelope, owner)

    def was_acknowledged(self, envelope: Envelope, owner: str) -> bool:
        """Return whether the client has acknowledged the message, and forget that."""
        if not self._acknowledged:
            return False
        key = _key(envelope, owner)
        with self._lock:
            if key is None or key not in self._acknowledged:
                return False
            del self._acknowledged[key]
            return True


def _key(envelope: Envelope, owner: str) -> _Key | None:
    return None if envelope.message_id is None else (envelope.message_id, envelope.destination, owner)


REDELIVERIES = Redeliveries()
"""The instance of this process: a client that reconnects gets its messages marked, too."""


def _shorten(kept: OrderedDict[_Key, Any]) -> None:
    # The oldest go first: their messages have most likely come again, or never will.
    while len(kept) > _KEPT_MAX:
        kept.popitem(last=False)


# A session's transaction at the broker: it begins with the first send or acknowledgement, on one physical connection, and ends
# once.

_log = logging.getLogger("pyjms.stomp")


class Transaction:
    """A transaction on one physical connection. One thread at a time, except `doom`."""

    def __init__(self, name: str, physical: PhysicalConnection) -> None:
        """Begin the transaction. Raises `ConnectionLostInCallError`."""
        self.name = name
        self.physical = physical
        self.acknowledged: list[HeldMessage] = []
        """The messages that its commit settles."""
        self._commit = SentFlag()
        self._is_refused = False
        """Whether the broker has answered COMMIT with an error."""
        self._abort = SentFlag()
        self._failure: str | None = None
        # Without waiting: `commit` flushes before COMMIT, and finds an ERROR that BEGIN has caused.
        physical.post(Frame("BEGIN", {"transaction": name}))

    def doom(self, reason: str) -> None:
        """Let it end only with a rollback. Any thread."""
        self._failure = self._failure or reason

    @property
    def failure(self) -> str | None:
        """Why it can only be rolled back; None: it may commit."""
        # The broker rolls back what was open on a connection that has ended (STOMP 1.2, "BEGIN").
        if self.physical.has_ended:
            return self._failure or f"the connection was lost meanwhile: {self.physical.reason}"
        return self._failure

    @property
    def has_committed(self) -> bool:
        """Whether COMMIT was sent, and not refused as far as is known: messages acknowledged in it are then settled."""
        return self._commit.is_sent and not self._is_refused

    @property
    def has_ended(self) -> bool:
        """Whether COMMIT or ABORT was sent: no more work can be done in it."""
        return self._commit.is_sent or self._abort.is_sent

    def check(self) -> None:
        """Raise `RolledBackError` if it can only be rolled back: more work in it would be lost."""
        if self.failure is not None:
            raise RolledBackError(f"the transaction was rolled back: {self.failure}")

    def commit(self) -> None:
        """Commit. Raises `RolledBackError`, `InDoubtError`."""
        if self._commit.is_sent:
            raise InDoubtError(
                "a signal interrupted the commit of the transaction: it is not known whether that was done"
            )
        self._prepare()
        try:
            self.physical.request(Frame("COMMIT", {"transaction": self.name}), sent=self._commit)
        except (ConnectionLostInCallError, UnansweredError) as error:
            raise lost_while_ended(error, "committed") from error
        except ResourceError as error:
            self._is_refused = True
            raise lost_while_ended(error, "committed") from error
        except InDoubtError:
            raise
        except ProviderError as error:
            self._is_refused = True
            raise RolledBackError(f"the transaction was rolled back: {error.reason}") from error

    def _prepare(self) -> None:
        """Make sure that COMMIT can be sent. Raises `RolledBackError`."""
        try:
            flush(self.physical)  # so that an ERROR for one of its frames is here before COMMIT is written
            if self.failure is not None:
                self.abort()
                self.check()
        except ConnectionLostInCallError as error:
            raise RolledBackError(f"the transaction was rolled back: the connection was lost: {error}") from error
        except ResourceError as error:
            self.abort()
            raise RolledBackError(f"the transaction was rolled back: {error.reason}") from error

    def abort(self) -> None:
        """Roll back, unless the broker has done so itself, or the end was sent before."""
        # A COMMIT that was sent may still be done: an ABORT behind it would only be refused.
        if self.physical.has_ended or self.has_ended:
            return
        with suppress(ConnectionLostInCallError):
            try:
                self.physical.request_last(Frame("ABORT", {"transaction": self.name}), sent=self._abort)
            except ProviderError as error:
                _log.warning("PYJMS-STOMP the broker did not roll back a transaction: %s", error.reason)


def flush(physical: PhysicalConnection) -> None:
    """Wait until the broker has processed all that was sent, by an empty transaction, as STOMP has no other way.

    Raises `ConnectionLostInCallError`, `ResourceError`.
    """
    headers = {"transaction": "flush"}
    physical.request(Frame("BEGIN", headers), Frame("ABORT", dict(headers)))

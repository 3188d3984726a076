"""The contract between the JMS API and a message system: notify, then pull.

A provider implements four small abstract classes. It tells a consumer that there *may* be work (`on_ready`); the
runtime answers by calling `ProviderConsumer.poll` until that returns None. One contract so serves a blocking
``receive``, a listener's thread and an event loop alike.

Threads. A `ProviderConnection` is called from any thread. A `ProviderSession` and its consumers are called by one
thread at a time, except `close`, `ProviderConnection.stop` and `ProviderConsumer.set_interested`, which may come at any
moment from any thread; and `acknowledge`, if the application hands a listener's message to another thread which
acknowledges it, comes while the listener's polls. `on_ready` and `on_exception` may be called from any thread, must be cheap and never block, and
a provider calls them without holding a lock of its own.

Waiting. `poll` never waits. `send`, `commit` and `acknowledge` may wait where durability asks for it, and must return
or raise when the connection is closed from another thread.

Errors. Whatever fails raises a subclass of `pyjms.spi.errors.ProviderError`; every call on something closed raises
`ClosedError`, except `close`, which may be repeated.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from pyjms.spi.capability import Capability
from pyjms.spi.clock import Clock, Signal
from pyjms.spi.delivery import Delivery, Elsewhere
from pyjms.spi.envelope import Address, AddressKind, ConnectionId, Envelope
from pyjms.spi.errors import CapabilityError, ProviderError
from pyjms.spi.replay import ReaderGroups, StageName, Stages
from pyjms.spi.selector import Selector
from pyjms.spi.url import ProviderUrl
from pyjms.spi.xid import Xid

__all__ = [
    "ConnectRequest",
    "ConnectionEvents",
    "ExpiredMessage",
    "Provider",
    "ProviderConnection",
    "ProviderConsumer",
    "ProviderInfo",
    "ProviderSession",
    "SubscribeRequest",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredMessage:
    """A message that a provider let go of because its time was over (JMS 1.1 §3.4.9)."""

    message_id: str | None
    destination: Address
    """The queue, or the topic, that it was waiting at."""
    subscription: str | None
    """Of a topic: CLIENT-ID/NAME of the durable subscription that it was waiting in; None: of no durable one."""
    expiration_ms: int
    """When its time is over, in milliseconds since 1970 UTC: as the provider has it, which may have been told otherwise."""
    at_ms: int
    """When it was let go of, in milliseconds since 1970 UTC, by the provider's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectRequest:
    """All that a provider is told when a client connects."""

    url: ProviderUrl
    user_name: str | None
    password: str | None = field(repr=False)
    """The credentials; both None: those of the process, or none (JMS 1.1 §4.3.1)."""
    client_id: str | None
    """The client identifier configured in the factory, or None."""
    clock: Clock
    on_expired: Callable[[ExpiredMessage], None] | None = None
    """Who wants to hear of each message that expires while the connection is open, whoever sent it; None: nobody does.

    A provider tells of those that it knows of, which may be none. It calls from any thread, without holding a lock of its
    own; the call is short, may write to a file, and raises nothing. What several connections ask for with one callable
    is told once. A message that expires in several subscriptions is told of for each.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderInfo:
    """What `ConnectionMetaData` shows of a provider (JMS 1.1 §4.3.6)."""

    name: str
    version: str
    """``MAJOR.MINOR…``, digits first."""
    jmsx_property_names: tuple[str, ...]
    """The JMSX properties that the provider sets, or keeps when a client sets them (§3.5.9)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscribeRequest:
    """What one consumer wants."""

    address: Address
    selector: Selector | None
    no_local: bool
    """Leave out messages sent through the consumer's own connection. Topics only; ignored on queues (§6.11)."""
    durable_name: str | None
    """The name of a durable subscription of this client, or None (§6.3)."""
    priority: int = 0
    """A consumer of higher priority is served first while it wants messages; any int."""


class ConnectionEvents(Protocol):
    """What a provider tells of by itself."""

    def on_exception(self, error: ProviderError) -> None:
        """The connection has a problem that no running call reports (JMS 1.1 §4.3.8).

        Called once for each problem; `ConnectionLostError` says that the connection is gone for good.
        """
        ...


class Provider(ABC):
    """A message system that the API can connect to; registered as an entry point of ``pyjms.providers``.

    The entry point's name is the URL scheme and its object a `Provider` class, made without arguments.
    """

    @abstractmethod
    def connect(self, request: ConnectRequest, events: ConnectionEvents) -> ProviderConnection:
        """Open a connection with delivery stopped.

        Raises `UrlError` for options that it does not know, `AccessDeniedError`, `DuplicateClientIdError`,
        `ResourceError` when there is nothing to connect to.
        """

    def check_url(self, url: ProviderUrl) -> None:  # noqa: B027 - `connect` tells it, if later
        """Raise `UrlError` for what `connect` would find wrong with `url` before it reaches for anything: options and their values.

        For who makes much ready before it connects. A provider that leaves it out finds nothing wrong here.
        """

    def stop_broker(self, url: ProviderUrl) -> None:
        """Stop the broker behind `url` and close its connections (`Capability.EMBEDDED_BROKER`)."""
        raise _lacks(Capability.EMBEDDED_BROKER, f"broker in this process: that of {url.scheme}:// lives elsewhere")


class ProviderConnection(ABC):
    """One client's connection. Safe to use from any thread."""

    @property
    @abstractmethod
    def connection_id(self) -> ConnectionId:
        """A name that no other connection of this message system has; message ids are built from it."""

    @property
    @abstractmethod
    def capabilities(self) -> Capability:
        """What this connection can do; constant while it is open. `EMBEDDED_BROKER` needs no connection to hold."""

    @property
    @abstractmethod
    def info(self) -> ProviderInfo:
        """Name and version of the provider."""

    @property
    def state(self) -> str:
        """Where an open connection is: ``connected``; ``reconnecting`` while it is being made anew; ``lost`` for good."""
        return "connected"

    @property
    def resource_manager(self) -> str:
        """Names what keeps branches (`Capability.XA`): connections of equal names can work in one branch."""
        return self.connection_id

    def advice(self, capability: Capability) -> str:
        """Return what its owner can do so that a connection has `capability`, which this one lacks; "": nothing."""
        return ""

    @abstractmethod
    def set_client_id(self, client_id: str) -> None:
        """Take `client_id` for this connection; it is free again when the connection closes.

        Raises `DuplicateClientIdError` when another connection has it. The runtime calls this at most once.
        """

    @abstractmethod
    def open_session(self, *, transacted: bool) -> ProviderSession:
        """Open a session. In a transacted one, sends and acknowledgements take effect with `commit`."""

    @abstractmethod
    def start(self) -> None:
        """Let `poll` answer. May be repeated."""

    @abstractmethod
    def stop(self) -> None:
        """Make `poll` answer None until `start`; messages that were polled stay with the client. May be repeated."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection and all it opened: unsettled deliveries go back, marked redelivered; open transactions
        are rolled back; temporary destinations and non-durable subscriptions end. May be repeated.
        """

    def abort(self) -> bool:
        """Hear that a signal has interrupted a call of this connection in its midst, so that nobody knows how far it came.

        Called by the signal's handler: takes no lock, and waits for nothing. Return True if the connection ends for that as it does
        when the network breaks: it is made anew, or tells of its loss. False: the runtime gives it up, and closes it in another thread,
        since `close` may wait for what does not answer. As given here it is right for every provider.
        """
        return False

    def create_temporary(self, kind: AddressKind) -> Address:
        """Make a destination that only this connection may consume from (`Capability.TEMPORARY_DESTINATIONS`)."""
        raise _lacks(Capability.TEMPORARY_DESTINATIONS, f"temporary {kind.name.lower()}s")

    def delete_temporary(self, address: Address) -> None:
        """Delete it with its messages. Raises `DestinationInUseError` while it has consumers, `DestinationError` when
        it is unknown or another connection's.
        """
        raise _lacks(Capability.TEMPORARY_DESTINATIONS, f"temporary {address.kind.name.lower()}s")

    def reader_groups(self) -> ReaderGroups:
        """Return the reader groups of the message system (`Capability.REPLAY`); usable while the connection is open."""
        raise _lacks(Capability.REPLAY, "reader groups")

    def stages(self) -> Stages:
        """Return the staged units of the message system (`Capability.STAGE`); usable while the connection is open."""
        raise _lacks(Capability.STAGE, "staged units")


class ProviderSession(ABC):
    """A single-threaded context of sends and receives, in order."""

    @abstractmethod
    def send(self, envelope: Envelope) -> None:
        """Send to ``envelope.destination``. When it returns, a PERSISTENT message outside a transaction is safe.

        Raises `DestinationError`, `ResourceError`.
        """

    def may_wait(self, envelope: Envelope) -> bool:
        """Say whether `send` of this message may wait, for the disk, a network or room in a queue. Never waits itself.

        For who must not wait, such as a server's event loop. As given here it is right for every provider.
        """
        return True

    @abstractmethod
    def subscribe(self, request: SubscribeRequest, on_ready: Callable[[], None]) -> ProviderConsumer:
        """Attach a consumer. It starts uninterested: `on_ready` is called only after `set_interested(True)`.

        Raises `DestinationError`; `SubscriptionInUseError` when the durable subscription has a subscriber. A durable
        name that exists with another topic, selector or no_local is deleted and made anew (JMS 1.1 §6.11.1).
        """

    @abstractmethod
    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """Settle `deliveries`: they are never delivered again. In a transacted session: when it commits.

        Raises `InDoubtError` when nobody knows whether they are settled: the client gets them then, and they may come again.
        After any other error they are given back, so they must not be settled.
        """

    @abstractmethod
    def recover(self, deliveries: Sequence[Delivery]) -> None:
        """Give back unsettled `deliveries`, in their old places, marked redelivered (JMS 1.1 §4.4.11).

        In a transacted session only after `rollback`, which the runtime calls first.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the session as `ProviderConnection.close` does. May be repeated."""

    def end_waits(self) -> None:  # noqa: B027 - a provider that never waits long has nothing to do
        """Hear that the session is about to be closed: calls of it that wait, such as a `send` for room, end now.

        They raise `ClosedError`, as do those to come. Any thread; never waits. `close` follows, once listeners that run
        have returned.
        """

    def waiter(self, clock: Clock) -> Callable[[Signal, float | None], bool]:
        """Return how a thread waits that blocks in a receive of this session: as `Clock.wait` does, and ended by the same.

        A provider may have such a thread do its own work meanwhile, such as to read the socket by which the message comes: then
        no other thread has to wake it. As given here it sleeps.
        """
        return clock.wait

    def commit(self) -> None:
        """Make the sends and acknowledgements since the last commit or rollback one atomic fact.

        Raises `RolledBackError` when they were rolled back instead: the runtime then recovers what was received;
        `InDoubtError` when it is not known. (`Capability.TRANSACTIONS`)
        """
        raise _lacks(Capability.TRANSACTIONS, "transactions")

    def commit_with(self, transaction: object) -> None:
        """Commit together with `transaction`, the application's own, in the database where the messages are.

        What `transaction` is, the provider's documentation says (the bundled broker: an SQLAlchemy connection with an
        open transaction). It is ended in any case. Raises as `commit`; `ResourceError` when it is no such transaction.
        (`Capability.SHARED_TRANSACTIONS`)
        """
        raise _lacks(Capability.SHARED_TRANSACTIONS, "transactions that it shares with an application")

    def rollback(self) -> None:
        """Drop the sends and acknowledgements since the last commit or rollback (`Capability.TRANSACTIONS`).

        Deliveries stay with the client until `recover` gives them back.
        """
        raise _lacks(Capability.TRANSACTIONS, "transactions")

    def stage(self, name: StageName, *, keep_s: int) -> int:
        """Make the sends since the last commit or rollback safe under `name` instead of committing them; return how many.

        Messages whose time to live is over are left out, whatever a commit would do: who stages writes what others had sent.
        Nobody sees them until they are promoted; after `keep_s` seconds without that they are discarded. Nothing may have been
        received in this transaction. Raises `StageError` when `name` is taken, or its epoch promoted already; `RolledBackError`
        and `InDoubtError` as `commit`. (`Capability.STAGE`)
        """
        raise _lacks(Capability.STAGE, "staged units")

    def give_back_unseen(self, deliveries: Sequence[Delivery]) -> None:
        """Give back deliveries that were fetched in advance and that no application has seen.

        As given here it is `recover`. A provider that can takes them back as if they had never been delivered: neither
        marked redelivered nor counted.
        """
        self.recover(deliveries)

    def retry(self, delivery: Delivery, reason: str) -> None:
        """Give back a delivery that the client failed to process, saying why.

        As given here it is `recover`. A provider that limits redelivery itself (`Capability.REDELIVERY_LIMITS`) may
        deliver the message later, or keep it aside with `reason`, instead.
        """
        self.recover((delivery,))

    def retry_all(self, deliveries: Sequence[Delivery], reason: str) -> None:
        """Do so with several, all for the same `reason`.

        As given here it calls `retry` for each. A provider that can gives them back in one step.
        """
        for delivery in deliveries:
            self.retry(delivery, reason)

    def reject(self, delivery: Delivery, reason: str) -> None:
        """Settle a delivery that the client cannot process: kept aside, with `reason` (`Capability.DEAD_LETTERS`)."""
        raise _lacks(Capability.DEAD_LETTERS, "dead letters")

    def has_destination(self, address: Address) -> bool | None:
        """Say whether there is such a destination, and make none; None: the provider does not tell. Raises as `browse`."""
        return None

    def browse(self, address: Address, selector: Selector | None) -> Iterator[Delivery]:
        """Look at the messages of a queue in order, leaving them there (`Capability.BROWSING`).

        Messages that come or go meanwhile may or may not be seen (JMS 1.1 §5.9).
        """
        raise _lacks(Capability.BROWSING, "queue browsers")

    def unsubscribe(self, name: str) -> None:
        """Delete this client's durable subscription `name` (`Capability.DURABLE_SUBSCRIPTIONS`).

        Raises `UnknownSubscriptionError`; `SubscriptionInUseError` while it has a subscriber or unsettled messages.
        """
        raise _lacks(Capability.DURABLE_SUBSCRIPTIONS, "durable subscriptions")

    def adopt(self, deliveries: Sequence[Delivery]) -> None:
        """Take over what another session of this connection received (`Capability.CONNECTION_CONSUMERS`).

        From now on this session settles them, or gives them back when it closes.
        """
        raise _lacks(Capability.CONNECTION_CONSUMERS, "connection consumers")

    # Distributed transactions (`Capability.XA`). A coordinator names branches by `Xid`; any session of the same resource
    # manager may prepare and settle a branch, whichever sessions worked in it. Each call raises `BranchError` with the
    # failure of X/Open XA that fits: PROTOCOL for a call that comes at a wrong time, UNKNOWN for a branch that is not
    # there. Prepared branches survive the death of provider and client.

    def xa_start(self, xid: Xid, *, join: bool = False, resume: bool = False) -> None:
        """Put the session's work under `xid`: a new branch, one that others work in, or one this session suspended.

        Raises `BranchError`: DUPLICATE when a new branch is there already, OUTSIDE when the session has work of its own,
        ROLLED_BACK or TIMED_OUT when the branch can only be rolled back.
        """
        raise _lacks(Capability.XA, "distributed transactions")

    def xa_end(self, xid: Xid, *, suspend: bool = False, fail: bool = False) -> None:
        """End, suspend or fail the session's work under `xid`; a failed branch can only be rolled back.

        Raises `BranchError`: ROLLED_BACK or TIMED_OUT when the branch was rolled back meanwhile; the work has ended then.
        """
        raise _lacks(Capability.XA, "distributed transactions")

    def xa_prepare(self, xid: Xid) -> bool:
        """Make the branch safe; return False if it did nothing that a commit could add to (read only): it is over then.

        Raises `BranchError`: ROLLED_BACK or TIMED_OUT when it was rolled back instead, UNREACHABLE when that is not known.
        """
        raise _lacks(Capability.XA, "distributed transactions")

    def xa_commit(self, xid: Xid, *, one_phase: bool = False) -> None:
        """Commit the branch: a prepared one, or an ended one in one phase.

        Raises `BranchError`: RETRY or UNREACHABLE when a prepared branch is still prepared, the HEURISTICALLY codes; in one phase
        ROLLED_BACK, TIMED_OUT.
        """
        raise _lacks(Capability.XA, "distributed transactions")

    def xa_rollback(self, xid: Xid) -> None:
        """Roll the branch back: what was received in it is in its old places again, marked redelivered.

        Raises `BranchError`: UNREACHABLE when a prepared branch is still prepared, the HEURISTICALLY codes.
        """
        raise _lacks(Capability.XA, "distributed transactions")

    def xa_recover(self) -> Sequence[Xid]:
        """Return the branches that are prepared and in doubt, and those that were settled heuristically."""
        raise _lacks(Capability.XA, "distributed transactions")

    def xa_forget(self, xid: Xid) -> None:
        """Forget a branch that was settled heuristically."""
        raise _lacks(Capability.XA, "distributed transactions")

    def xa_set_timeout(self, seconds: int) -> bool:
        """Have branches that this session starts from now on rolled back unless they are prepared within `seconds`.

        0: the provider's own time. Return whether the provider heeds it.
        """
        return False

    def xa_get_timeout(self) -> int:
        """Return that time in seconds; 0: never."""
        return 0


class ProviderConsumer(ABC):
    """One consumer's end at one destination."""

    # The default stands on the class, so that a provider's consumer need not call a constructor of this one.
    _polled: Delivery | None = None
    """What `poll_or_wait`, as given here, has taken and not returned."""

    @abstractmethod
    def poll(self) -> Delivery | None:
        """Take the next message, or return None: nothing there, connection stopped, or consumer closed.

        Never waits. The message stays the consumer's until acknowledged, rejected, recovered or its session closes. After an error
        that may pass the runtime asks for a listener once more by itself, within a second: `on_ready` need not be called again.
        After None it may ask no more before `on_ready` is called.
        """

    def poll_or_wait(self) -> Delivery | None:
        """As `poll`, and begin interest when there is nothing, end it when there is something. Never waits.

        What a blocking receive calls before it sleeps and when it was woken. As given here it is right for every
        provider; one whose `poll` and `set_interested` take the same lock may do both under it at once. What was polled when a call
        was interrupted (KeyboardInterrupt), or `set_interested` raised, the next call returns.
        """
        if self._polled is None:
            # The delivery is kept in the object until the end: a signal may interrupt this call between
            # any two of its lines.
            self._polled = self.poll()
        delivery = self._polled
        # No wake-up is lost between the two calls: where interest begins and there is work, the
        # provider calls `on_ready`.
        self.set_interested(delivery is None)
        self._polled = None  # no call from here on, as nobody else has it
        return delivery

    def poll_at_once(self) -> Delivery | Literal[Elsewhere.ELSEWHERE] | None:
        """As `poll_or_wait`, for who must not even wait for a disk, such as a server's event loop.

        `ELSEWHERE`: a thread that may has to call `poll_or_wait` in its place; nothing has come of this call. As given here
        it is right for every provider whose messages are in memory.
        """
        return self.poll_or_wait()

    def take_unreturned(self) -> Delivery | None:
        """Take what a call that was interrupted has polled, if the next one would return it: it is given back in place of that.

        As given here it is right for every provider whose `poll` keeps nothing by itself.
        """
        polled, self._polled = self._polled, None
        return polled

    def catch_up(self) -> None:  # noqa: B027 - a provider whose `poll` is exact has nothing to do
        """Wait until `poll` would return what the message system has for this consumer now.

        What ``receive_no_wait`` calls first. A provider that is sent its messages over a network may ask for them here,
        and wait for the answer; `ProviderSession.end_waits` and `close` end that.
        """

    @abstractmethod
    def set_interested(self, interested: bool) -> None:
        """Say whether `on_ready` is wanted. Any thread; ignored on a closed consumer.

        When interest begins and there may be work for this consumer, `on_ready` is called: not for messages that its `poll`
        has passed over, or it would look at them without end. A provider that was about to wake this consumer wakes another one
        when interest ends.
        """

    @abstractmethod
    def close(self) -> None:
        """Detach. Its unsettled deliveries stay with the session (JMS 1.1 §4.4.11). May be repeated."""


def _lacks(capability: Capability, what: str) -> CapabilityError:
    return CapabilityError(f"this provider has no {what} (Capability.{capability.name})")

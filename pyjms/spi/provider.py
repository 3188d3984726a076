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
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from pyjms.spi.capability import Capability
from pyjms.spi.clock import Clock, Signal
from pyjms.spi.delivery import Delivery, Elsewhere
from pyjms.spi.envelope import Address, AddressKind, ConnectionId, Envelope
from pyjms.spi.errors import CapabilityError, ProviderError
from pyjms.spi.replay import ReaderGroups, StageName, Stages
from pyjms.spi.selector import Selector
from pyjms.spi.sessions import ClientTags, PersistentSessions
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
    """A message that a provider removed because it had expired (JMS 1.1 §3.4.9)."""

    message_id: str | None
    destination: Address
    """The queue, or the topic, that it was waiting at."""
    subscription: str | None
    """Of a topic: CLIENT-ID/NAME of the durable subscription that it was in; None: it was in no durable one."""
    expiration_ms: int
    """Its expiration time, in milliseconds since 1970 UTC, as the provider knows it, which may differ from the sender's."""
    at_ms: int
    """The time of its removal, in milliseconds since 1970 UTC, by the provider's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectRequest:
    """The arguments of a new connection of a client."""

    url: ProviderUrl
    user_name: str | None
    password: str | None = field(repr=False)
    """The credentials; both None: those of the process, or none (JMS 1.1 §4.3.1)."""
    client_id: str | None
    """The client identifier configured in the factory, or None."""
    clock: Clock
    on_expired: Callable[[ExpiredMessage], None] | None = None
    """Callback for each message that expires while the connection is open, whoever sent it; None: not wanted.

    A provider reports the expiries that it knows of, which may be none. It calls from any thread, without holding a lock of its
    own; the call is short, may write to a file, and raises nothing. Several connections with the same callable get one call
    for each message. A message that expires in several subscriptions is reported for each.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderInfo:
    """The facts about a provider in `ConnectionMetaData` (JMS 1.1 §4.3.6)."""

    name: str
    version: str
    """``MAJOR.MINOR…``, digits first."""
    jmsx_property_names: tuple[str, ...]
    """The JMSX properties that the provider sets, or keeps when a client sets them (§3.5.9)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscribeRequest:
    """The arguments of a new consumer."""

    address: Address
    selector: Selector | None
    no_local: bool
    """Leave out messages sent through the consumer's own connection. Topics only; ignored on queues (§6.11)."""
    durable_name: str | None
    """The name of a durable subscription of this client, or None (§6.3)."""
    priority: int = 0
    """A consumer of higher priority is served first while it wants messages; any int."""
    shared_name: str | None = None
    """The name of a shared non-durable subscription, or None (JMS 2.0 §8.3.2). Needs `Capability.SHARED_SUBSCRIPTIONS`; excludes `durable_name`.

    All consumers that give this name on connections of one client id, or on any connections without one, divide the messages of one
    subscription, which ends with the last of them. `no_local` does not apply to shared subscriptions.
    """
    is_shared: bool = False
    """Whether the durable subscription is shared (JMS 2.0 §8.3.4). Needs `Capability.SHARED_SUBSCRIPTIONS`.

    It has any number of consumers, and the connection need not have a client id: without one the name is known to all that have none.
    """


class ConnectionEvents(Protocol):
    """Notifications that a provider sends by itself."""

    def on_exception(self, error: ProviderError) -> None:
        """The connection has a problem that no running call reports (JMS 1.1 §4.3.8).

        Called once for each problem; `ConnectionLostError` means that the connection is lost for good.
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
        """Raise `UrlError` for problems with the options of `url` and their values that `connect` would find before it opens anything.

        For callers that prepare much before they connect. A provider that leaves it out finds no problem here.
        """

    def login_places(self, url: ProviderUrl) -> tuple[str, ...]:
        """Return the places, as SCHEME://HOST:PORT, that a connection to `url` may send credentials to; (): it sends none.

        The account's credentials (`pyjms.spi.credentials`) are looked up by them. A provider whose URLs name several hosts, or have a default
        port, overrides it. Raises `UrlError`.
        """
        host = f"[{url.host}]" if ":" in url.host else url.host
        return (f"{url.scheme}://{host.lower()}{'' if url.port is None else f':{url.port}'}",)

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
        """The capabilities of this connection; constant while it is open. `EMBEDDED_BROKER` needs no connection to hold."""

    @property
    @abstractmethod
    def info(self) -> ProviderInfo:
        """Name and version of the provider."""

    @property
    def state(self) -> str:
        """The state of an open connection: ``connected``; ``reconnecting`` while it is being restored; ``lost`` for good."""
        return "connected"

    @property
    def resource_manager(self) -> str:
        """The name of the resource manager that keeps branches (`Capability.XA`): connections of equal names can work in one branch."""
        return self.connection_id

    def advice(self, capability: Capability) -> str:
        """Return why this connection lacks `capability`, or what the operator can do about it; "": there is no more to say."""
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
        """Let `poll` return messages. May be repeated."""

    @abstractmethod
    def stop(self) -> None:
        """Make `poll` return None until `start`; messages that were polled stay with the client. May be repeated."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection and all that it opened: unsettled deliveries are released, marked redelivered; open transactions
        are rolled back; temporary destinations and non-durable subscriptions end. May be repeated.
        """

    def abort(self) -> bool:
        """Handle that a signal has interrupted a call of this connection half way, so that its progress is unknown.

        Called by the signal's handler: takes no lock, and never waits. Return True if the connection then ends as it does
        when the network breaks: it reconnects, or reports its loss. False: the runtime gives it up, and closes it in another thread,
        since `close` may wait for a system that does not answer. The default is right for every provider.
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

    def persistent_sessions(self) -> PersistentSessions:
        """Return the registered clients of the message system (`Capability.PERSISTENT_SESSIONS`); usable while the connection is open."""
        raise _lacks(Capability.PERSISTENT_SESSIONS, "persistent sessions")


class ProviderSession(ABC):
    """A single-threaded context of sends and receives, in order."""

    @abstractmethod
    def send(self, envelope: Envelope) -> None:
        """Send to ``envelope.destination``. When it returns, a PERSISTENT message outside a transaction is safe.

        Raises `DestinationError`, `ResourceError`.
        """

    def send_async(self, envelope: Envelope, done: Callable[[ProviderError | None], None]) -> None:
        """Send as `send` does, without waiting for the outcome, which `done` is told: None, or the error that `send` would have raised.

        `done` is called once, from any thread, perhaps before this returns; it is cheap, never blocks and raises nothing, and is called without
        a lock of the provider. It is called in any case: at the latest within the time that `send` would have waited, when the session
        closes, or, before `on_exception`, when the connection is lost. An error that this method raises is the outcome, too: `done` is not called.
        In a transaction, the outcome may come when the provider has taken the message.

        All messages of the session arrive in the order of the calls, whether they are sent by this method or by `send`. It may wait while
        the provider has no room for more. The default calls `send`; a provider over a network does not wait for the answer.
        """
        self.send(envelope)
        done(None)

    def may_wait(self, envelope: Envelope) -> bool:
        """Return whether `send` of this message may wait, for the disk, a network or capacity in a queue. Never waits itself.

        For callers that must not wait, such as a server's event loop. The default is right for every provider.
        """
        return True

    @abstractmethod
    def subscribe(self, request: SubscribeRequest, on_ready: Callable[[], None]) -> ProviderConsumer:
        """Attach a consumer. It starts without interest: `on_ready` is called only after `set_interested(True)`.

        Raises `DestinationError`; `SubscriptionInUseError` when the durable subscription has a subscriber. A durable
        name that exists with another topic, selector or no_local is deleted and created again (JMS 1.1 §6.11.1).

        A shared subscription takes any number of consumers. Raises `SubscriptionInUseError` when it has some, and the request names another
        topic or selector (JMS 2.0 §8.3.2, §8.3.4), and when a durable subscription of that name exists that is shared where the request's is
        not, or the other way round, whether it has consumers or not. Durable and non-durable names are separate.
        """

    @abstractmethod
    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """Settle `deliveries`: they are never delivered again. In a transacted session: when it commits.

        Raises `InDoubtError` when it is unknown whether they are settled: the client gets them then, and they may be redelivered.
        After any other error they are released, so they must not be settled.
        """

    @abstractmethod
    def recover(self, deliveries: Sequence[Delivery]) -> None:
        """Release unsettled `deliveries` to their old places, marked redelivered (JMS 1.1 §4.4.11).

        In a transacted session only after `rollback`, which the runtime calls first.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the session as `ProviderConnection.close` does. May be repeated."""

    def end_waits(self) -> None:  # noqa: B027 - a provider that never waits long has nothing to do
        """Prepare for the close of the session: calls of it that wait, such as a `send` for capacity, end now.

        They raise `ClosedError`, as do later ones. Any thread; never waits. `close` follows, once running listeners
        have returned.
        """

    def waiter(self, clock: Clock) -> Callable[[Signal, float | None], bool]:
        """Return the function by which a thread waits in a receive of this session: it works like `Clock.wait`, and the same events end it.

        A provider may have such a thread do its own work meanwhile, such as reading the socket on which the message arrives: then
        no other thread has to wake it. The default sleeps.
        """
        return clock.wait

    def commit(self) -> None:
        """Make the sends and acknowledgements since the last commit or rollback take effect atomically.

        Raises `RolledBackError` when they were rolled back instead: the runtime then recovers the received messages;
        `InDoubtError` when the outcome is unknown. (`Capability.TRANSACTIONS`)
        """
        raise _lacks(Capability.TRANSACTIONS, "transactions")

    def prepare(self, xid: Xid) -> bool:
        """Make the present transaction safe as branch `xid`, which any session of the same resource manager commits or rolls back by
        `xa_commit`, `xa_rollback`; return False if it changes nothing: then it is over. (`Capability.XA`; transacted sessions only)

        For a system that coordinates local transactions at several brokers. With any outcome the session's next work is a new transaction.
        Raises `RolledBackError` when the transaction was rolled back instead, and `BranchError` DUPLICATE when it was rolled back because a
        branch `xid` is there: the received messages are as after a `commit` that was rolled back. Raises `InDoubtError` when the outcome
        is unknown: `xa_rollback` ends the branch if it is there. While the session works in a branch, raises `BranchError` PROTOCOL, and changes
        nothing.
        """
        raise _lacks(Capability.XA, "distributed transactions")

    def commit_with(self, transaction: object) -> None:
        """Commit together with `transaction`, the application's own, in the database where the messages are.

        The provider's documentation defines the type of `transaction` (the bundled broker: an SQLAlchemy connection with an
        open transaction). It is ended in any case. Raises as `commit`; `ResourceError` when it is no such transaction.
        (`Capability.SHARED_TRANSACTIONS`)
        """
        raise _lacks(Capability.SHARED_TRANSACTIONS, "transactions that it shares with an application")

    def rollback(self) -> None:
        """Drop the sends and acknowledgements since the last commit or rollback (`Capability.TRANSACTIONS`).

        Deliveries stay with the client until `recover` releases them.
        """
        raise _lacks(Capability.TRANSACTIONS, "transactions")

    def stage(self, name: StageName, *, keep_s: int) -> int:
        """Store the sends since the last commit or rollback safely under `name` instead of committing them; return how many.

        Expired messages are left out, even where a commit would send them: a stage writes what other clients had sent.
        Staged messages stay invisible until they are promoted; after `keep_s` seconds without that they are discarded. Nothing may have been
        received in this transaction. Raises `StageError` when `name` is taken, or its epoch promoted already: the transaction goes on;
        `RolledBackError` and `InDoubtError` as `commit`. (`Capability.STAGE`)
        """
        raise _lacks(Capability.STAGE, "staged units")

    def tag(self, tags: ClientTags) -> None:
        """Have `tags` stored in the same write as this session's next unit of work (`Capability.PERSISTENT_SESSIONS`).

        In a transacted session, or in a branch, that is the present transaction, also if it does nothing else; a rollback drops the tags.
        In any other session the request's tag is stored with the next `send`, and the reply's with the next `acknowledge`; if that raises
        `TooLateError`, with the one after it. A call replaces the tags of an earlier one that are not stored yet. A write with tags is
        forced to the disk.

        Raises `RegistrationError` for tags, or a second client, that are not allowed, or when the client is not registered, and
        `SupersededError` when it has registered again since. The send, the acknowledgement and the commit check the last two again, and a
        provider may leave them to these: a commit then raises `RolledBackError` with that cause. A unit with tags cannot be staged.
        """
        raise _lacks(Capability.PERSISTENT_SESSIONS, "persistent sessions")

    def give_back_unseen(self, deliveries: Sequence[Delivery]) -> None:
        """Release deliveries that were prefetched and that no application has seen.

        The default is `recover`. A provider that can takes them back as if they had never been delivered: neither
        marked redelivered nor counted.
        """
        self.recover(deliveries)

    def retry(self, delivery: Delivery, reason: str) -> None:
        """Release a delivery that the client failed to process, with the reason.

        The default is `recover`. A provider that limits redelivery itself (`Capability.REDELIVERY_LIMITS`) may
        deliver the message later, or dead-letter it with `reason`, instead.
        """
        self.recover((delivery,))

    def retry_all(self, deliveries: Sequence[Delivery], reason: str) -> None:
        """Release several deliveries that the client failed to process, all with the same `reason`.

        The default calls `retry` for each. A provider that can releases them in one step.
        """
        for delivery in deliveries:
            self.retry(delivery, reason)

    def reject(self, delivery: Delivery, reason: str) -> None:
        """Settle a delivery that the client cannot process, as a dead letter with `reason` (`Capability.DEAD_LETTERS`)."""
        raise _lacks(Capability.DEAD_LETTERS, "dead letters")

    def has_destination(self, address: Address) -> bool | None:
        """Return whether there is such a destination, without creating it; None: the provider does not know. Raises as `browse`."""
        return None

    def browse(self, address: Address, selector: Selector | None) -> Iterator[Delivery]:
        """Yield the messages of a queue in order, leaving them there (`Capability.BROWSING`).

        Messages that arrive or leave meanwhile may or may not be seen (JMS 1.1 §5.9).
        """
        raise _lacks(Capability.BROWSING, "queue browsers")

    def unsubscribe(self, name: str) -> None:
        """Delete this client's durable subscription `name` (`Capability.DURABLE_SUBSCRIPTIONS`).

        Raises `UnknownSubscriptionError`; `SubscriptionInUseError` while it has a subscriber or unsettled messages.
        """
        raise _lacks(Capability.DURABLE_SUBSCRIPTIONS, "durable subscriptions")

    def adopt(self, deliveries: Sequence[Delivery]) -> None:
        """Take over deliveries that another session of this connection received (`Capability.CONNECTION_CONSUMERS`).

        From now on this session settles them, or releases them when it closes.
        """
        raise _lacks(Capability.CONNECTION_CONSUMERS, "connection consumers")

    # Distributed transactions (`Capability.XA`). A coordinator names branches by `Xid`; any session of the same resource
    # manager may prepare and settle a branch, regardless of the sessions that worked in it. Each call raises `BranchError` with the
    # matching failure of X/Open XA: PROTOCOL for a call at a wrong time, UNKNOWN for a branch that does not
    # exist. Prepared branches survive the death of provider and client.

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
        """Make the branch safe; return False if it changed nothing that a commit could make durable (read only): it is over then.

        Raises `BranchError`: ROLLED_BACK or TIMED_OUT when it was rolled back instead, UNREACHABLE when the outcome is unknown.
        """
        raise _lacks(Capability.XA, "distributed transactions")

    def xa_prepare_as(self, xid: Xid, name: Xid) -> bool:
        """Do as `xa_prepare`, and have the branch be `name` from then on: `xid` is unknown, and `xa_commit`, `xa_rollback` of `name` end it.

        For a resource manager of several brokers, which commits in one phase what is at more than one of them: the decision is its own then,
        and the application's coordinator has none to make. Where the branch was rolled back before the call, that call ends it. Raises as
        `xa_prepare`: after UNREACHABLE, `xa_rollback` of `name` ends it if it is there; `BranchError` DUPLICATE when there is a branch `name`.
        """
        raise _lacks(Capability.XA, "distributed transactions")

    def xa_note(self, xid: Xid, notes: Collection[str] = ()) -> Collection[str]:
        """Add notes to a branch that is not prepared, and return all that it has; they are lost with the provider.

        For the same resource manager: whoever prepares the branch learns from them at which brokers it was worked in. Raises `BranchError`:
        UNKNOWN, PROTOCOL when the branch is prepared, ROLLED_BACK or TIMED_OUT when notes are added to one that was rolled back.
        """
        raise _lacks(Capability.XA, "distributed transactions")

    def xa_commit(self, xid: Xid, *, one_phase: bool = False) -> None:
        """Commit the branch: a prepared one, or an ended one in one phase.

        Raises `BranchError`: RETRY or UNREACHABLE when a prepared branch is still prepared, the HEURISTICALLY codes; in one phase
        ROLLED_BACK, TIMED_OUT.
        """
        raise _lacks(Capability.XA, "distributed transactions")

    def xa_rollback(self, xid: Xid) -> None:
        """Roll the branch back: the messages received in it return to their old places, marked redelivered.

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
        """Set the time-out of branches that this session starts from now on: they are rolled back unless prepared within `seconds`.

        0: the provider's own time. Return whether the provider supports it.
        """
        return False

    def xa_get_timeout(self) -> int:
        """Return the time-out of branches in seconds; 0: never."""
        return 0


class ProviderConsumer(ABC):
    """One consumer's end at one destination."""

    # The default stands on the class, so that a provider's consumer need not call a constructor of this one.
    _polled: Delivery | None = None
    """The message that the default `poll_or_wait` has taken and not returned."""

    @abstractmethod
    def poll(self) -> Delivery | None:
        """Take the next message, or return None: there is none, the connection is stopped, or the consumer closed.

        Never waits. The message belongs to the consumer until acknowledged, rejected, recovered or its session closes. After a
        temporary error the runtime polls for a listener once more by itself, within a second: `on_ready` need not be called again.
        After None it need not poll again before `on_ready` is called.
        """

    def poll_or_wait(self) -> Delivery | None:
        """Work as `poll`, and begin interest when there is no message, end it when there is one. Never waits.

        Called by a blocking receive before it sleeps and when it was woken. The default is right for every
        provider; one whose `poll` and `set_interested` take the same lock may do both under it at once. A message polled by a call
        that was interrupted (KeyboardInterrupt), or whose `set_interested` raised, is returned by the next call.
        """
        if self._polled is None:
            # The delivery is kept in the object until the end: a signal may interrupt this call between
            # any two of its lines.
            self._polled = self.poll()
        delivery = self._polled
        # No wake-up is lost between the two calls: when interest begins and there is work, the
        # provider calls `on_ready`.
        self.set_interested(delivery is None)
        self._polled = None  # no call from here on, as nothing else refers to it
        return delivery

    def poll_at_once(self) -> Delivery | Literal[Elsewhere.ELSEWHERE] | None:
        """Work as `poll_or_wait`, for callers that must not even wait for a disk, such as a server's event loop.

        `ELSEWHERE`: a thread that may wait has to call `poll_or_wait` instead; this call has changed nothing. The default
        is right for every provider whose messages are in memory.
        """
        return self.poll_or_wait()

    def take_unreturned(self) -> Delivery | None:
        """Take the message polled by an interrupted call, which the next call would return, so that it can be released.

        The default is right for every provider whose `poll` keeps nothing by itself.
        """
        polled, self._polled = self._polled, None
        return polled

    def catch_up(self) -> None:  # noqa: B027 - a provider whose `poll` is exact has nothing to do
        """Wait until `poll` would return what the message system has for this consumer now.

        Called first by ``receive_no_wait``. A provider that receives its messages over a network may request them here,
        and wait for the answer; `ProviderSession.end_waits` and `close` end that wait.
        """

    @abstractmethod
    def set_interested(self, interested: bool) -> None:
        """Set whether `on_ready` is wanted. Any thread; ignored on a closed consumer.

        When interest begins and there may be work for this consumer, `on_ready` is called: not for messages that its `poll`
        has passed over, or it would poll them without end. A provider that was about to wake this consumer wakes another one
        when interest ends.
        """

    @abstractmethod
    def close(self) -> None:
        """Detach. Its unsettled deliveries stay with the session (JMS 1.1 §4.4.11). May be repeated."""


def _lacks(capability: Capability, what: str) -> CapabilityError:
    return CapabilityError(f"this provider has no {what} (Capability.{capability.name})")

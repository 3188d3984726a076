"""A provider around another one that records all calls, so that any provider can be recorded.

It changes nothing in the calls that it passes on. Deliveries carry a tag of the recorder, as the SPI allows, and reach the
provider as it made them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import Literal, TypeVar

from pyjms.history.events import (
    ACK,
    BEGIN_TX,
    BROWSE,
    CLOSE,
    COMMIT,
    CRASH,
    DELIVER,
    FAIL,
    OK,
    RECOVER,
    ROLLBACK,
    SEND,
    SUBSCRIBE,
    UNKNOWN,
    UNSUBSCRIBE,
)
from pyjms.history.groups import RecordedGroups
from pyjms.history.recording import Recording
from pyjms.history.rows import Call, Held, Scope, branch_name
from pyjms.spi.delegating import DelegatingConnection, DelegatingConsumer, DelegatingSession
from pyjms.spi.delivery import ELSEWHERE, Delivery, Elsewhere
from pyjms.spi.envelope import Address, AddressKind, Envelope
from pyjms.spi.errors import (
    AccessDeniedError,
    CapabilityError,
    ConnectionLostError,
    DestinationError,
    DestinationInUseError,
    GroupError,
    ProviderError,
    RegistrationError,
    ResourceError,
    RolledBackError,
    StageError,
    SubscriptionInUseError,
    UnknownSubscriptionError,
)
from pyjms.spi.provider import (
    ConnectionEvents,
    ConnectRequest,
    ExpiredMessage,
    Provider,
    ProviderConnection,
    ProviderConsumer,
    ProviderSession,
    SubscribeRequest,
)
from pyjms.spi.replay import ReaderGroups, StageName
from pyjms.spi.selector import Selector
from pyjms.spi.url import ProviderUrl
from pyjms.spi.xid import Xid

_T = TypeVar("_T")

_REFUSALS = (
    AccessDeniedError,
    CapabilityError,
    DestinationError,
    DestinationInUseError,
    GroupError,
    RegistrationError,
    ResourceError,
    RolledBackError,
    StageError,
    SubscriptionInUseError,
    UnknownSubscriptionError,
)
"""Errors that mean that nothing was done. After any other the outcome is unknown."""


def _outcome(error: BaseException) -> str:
    # A verdict must never rest on a guess: any other error counts as either
    # outcome.
    # outcome.
    return FAIL if isinstance(error, _REFUSALS) else UNKNOWN


def _unless_over(error: BaseException) -> str:
    """Return the outcome of a transaction after a failed call other than commit: if the call was refused, the transaction may go on, and be committed."""
    return FAIL if isinstance(error, RolledBackError) else UNKNOWN


class RecordedProvider(Provider):
    """Connects through `inner`, and records the calls of its connections into `recording`."""

    def __init__(self, inner: Provider, recording: Recording) -> None:
        self._inner = inner
        self._recording = recording

    def connect(self, request: ConnectRequest, events: ConnectionEvents) -> ProviderConnection:
        watch = _Events(events, self._recording, self._recording.ticker.reader(request.clock))
        # Before the connect: the provider may report a lost connection, or an expiry, as soon as it is made.
        self._recording.acquire()
        try:
            inner = self._inner.connect(replace(request, on_expired=self._expiry_callback(request.on_expired)), watch)
        except Exception:
            self._recording.release()
            raise
        # The connection's id is known only now, so the watch gets its scope afterwards; a loss before that concerns no
        # recorded call.
        connection = _Connection(inner, self._recording, watch.now, request.client_id)
        watch.scope = connection.scope
        return connection

    def _expiry_callback(self, other: Callable[[ExpiredMessage], None] | None) -> Callable[[ExpiredMessage], None]:
        """Return the callback that records expired messages: one and the same for all connections, so that each message is reported once."""
        note = self._recording.record_expired
        if other is None:
            return note

        def tell(expired: ExpiredMessage) -> None:
            note(expired)
            other(expired)

        return tell

    def check_url(self, url: ProviderUrl) -> None:
        self._inner.check_url(url)

    def login_places(self, url: ProviderUrl) -> tuple[str, ...]:
        return self._inner.login_places(url)

    def stop_broker(self, url: ProviderUrl) -> None:
        began_ns = self._recording.now_ns()
        # In use for the whole of it: the last connection may close meanwhile, and would end the recording before the
        # death is noted.
        with self._recording:
            self._inner.stop_broker(url)
            self._recording.broker_died(began_ns)


class _Events:
    """Wraps the runtime's `ConnectionEvents`, to record lost connections."""

    def __init__(self, inner: ConnectionEvents, recording: Recording, now: Callable[[], int]) -> None:
        self._inner = inner
        self._recording = recording
        self.now = now
        self.scope: Scope | None = None

    def on_exception(self, error: ProviderError) -> None:
        # On a thread of the provider, perhaps during a call of this connection: the checker must not rely
        # on it from now on.
        scope, now_ns = self.scope, self.now()
        if scope is not None:
            note = {"error": type(error).__name__, "lost": isinstance(error, ConnectionLostError)}
            self._recording.log.put(Call(CRASH, scope, now_ns, None, None, note), OK, now_ns)
        self._inner.on_exception(error)


class _Connection(DelegatingConnection):
    def __init__(
        self, inner: ProviderConnection, recording: Recording, now: Callable[[], int], client_id: str | None
    ) -> None:
        super().__init__(inner)
        self.recording = recording
        self.log = recording.log
        self.now = now
        self.client_id = client_id
        self.scope = Scope(recording.pid, str(inner.connection_id))
        self._numbers = count(1)
        self._uses = iter((None,))  # exhausted by the first close: `next` on it is atomic

    def set_client_id(self, client_id: str) -> None:
        self._inner.set_client_id(client_id)
        self.client_id = client_id

    def open_session(self, *, transacted: bool) -> ProviderSession:
        inner = self._inner.open_session(transacted=transacted)
        return _Session(self, inner, f"{self.scope.conn}/{next(self._numbers)}", transacted=transacted)

    def reader_groups(self) -> ReaderGroups:
        return RecordedGroups(self._inner.reader_groups(), self.recording, self.scope, self.now, self.noted)

    def close(self) -> None:
        # close may be repeated and may be called by several threads, but the recording counts its users, so only one close
        # gives the use back.
        is_first = next(self._uses, self) is None
        if not is_first:
            self._inner.close()
            return
        try:
            self.noted(Call(CLOSE, self.scope, self.now(), None, None), self._inner.close)
        finally:
            self.recording.release()

    def noted(self, call: Call, act: Callable[[], _T]) -> _T:
        """Run `act`, record its begin and its end, and return its result."""
        with _Noting(self, call):
            return act()


class _Noting:
    """A context around a call of the provider, which records its begin and its end."""

    __slots__ = ("_begun", "_connection", "_outcome_of")

    def __init__(
        self, connection: _Connection, call: Call, outcome_of: Callable[[BaseException], str] = _outcome
    ) -> None:
        self._connection = connection
        self._outcome_of = outcome_of
        self._begun = connection.log.begin(call)

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        connection = self._connection
        # Also for KeyboardInterrupt and the like: a begin without an end would stay in the journal as a call of a
        # process that died.
        connection.log.end(self._begun, OK if error is None else self._outcome_of(error), connection.now())


class _Session(DelegatingSession):
    def __init__(self, connection: _Connection, inner: ProviderSession, name: str, *, transacted: bool) -> None:
        super().__init__(inner)
        self._connection = connection
        self._transacted = transacted
        self._now = connection.now
        # Kept as attributes, since they are used for each message: recording costs an in-memory message three to four times
        # its own time.
        self._put = connection.log.put
        self.scope = Scope(connection.recording.pid, connection.scope.conn, name)
        self._numbers = count(1)
        self._transactions = count(1)
        self._tx: str | None = None

    def transaction(self) -> str | None:
        """Return the name of the transaction of work done now; in a transacted session it begins one."""
        # JMS begins the next transaction at the first work after a commit (JMS 1.1 §4.4.7), so its name is made then.
        if self._tx is None and self._transacted:
            self._enter(f"{self.scope.sess}#{next(self._transactions)}")
        return self._tx

    def _enter(self, tx: str) -> None:
        self._tx = tx
        now_ns = self._now()
        self._put(Call(BEGIN_TX, self.scope, now_ns, tx, None), OK, now_ns)

    def _scope_of(self, dest: str | None, sub: str | None = None, selector: Selector | None = None) -> Scope:
        own = self.scope
        name = f"{own.sess}/{next(self._numbers)}"
        return Scope(own.pid, own.conn, own.sess, name, dest=dest, sub=sub, selector=selector, session=own)

    # Sending

    def send(self, envelope: Envelope) -> None:
        tx = self.transaction() if self._transacted else None
        with _Noting(self._connection, Call(SEND, self.scope, self._now(), tx, envelope)):
            self._inner.send(envelope)

    def send_async(self, envelope: Envelope, done: Callable[[ProviderError | None], None]) -> None:
        tx = self.transaction() if self._transacted else None
        log, now = self._connection.log, self._now
        begun = [log.begin(Call(SEND, self.scope, now(), tx, envelope))]  # one element until the end is recorded

        def note(error: BaseException | None) -> None:
            with suppress(
                IndexError
            ):  # an interrupt (KeyboardInterrupt) may end the call although its outcome was told
                log.end(begun.pop(), OK if error is None else _outcome(error), now())

        def noted(error: ProviderError | None) -> None:
            note(error)
            done(error)

        try:
            self._inner.send_async(envelope, noted)
        except BaseException as error:
            note(error)
            raise

    def commit(self) -> None:
        # The transaction is over for this session with any outcome of the commit, so later work belongs to the next one.
        tx, self._tx = self.transaction(), None
        self._connection.noted(Call(COMMIT, self.scope, self._now(), tx, None), self._inner.commit)

    def commit_with(self, transaction: object) -> None:
        tx, self._tx = self.transaction(), None
        # If the application's database refuses, the session's transaction may still be open and be committed later.
        with _Noting(self._connection, Call(COMMIT, self.scope, self._now(), tx, None), _unless_over):
            self._inner.commit_with(transaction)

    def prepare(self, xid: Xid) -> bool:
        """Record a commit with an unknown outcome: any session may commit the branch, or roll it back."""
        return self._open_ended({"prepared": branch_name(xid)}, lambda: self._inner.prepare(xid))

    def stage(self, name: StageName, *, keep_s: int) -> int:
        """Record a commit with an unknown outcome: another process may promote the unit."""
        return self._open_ended({"staged": str(name)}, lambda: self._inner.stage(name, keep_s=keep_s))

    def _open_ended(self, note: Mapping[str, object], end: Callable[[], _T]) -> _T:
        """End the transaction, and record a commit whose outcome is decided elsewhere."""
        tx, self._tx = self.transaction(), None
        call = Call(COMMIT, self.scope, self._now(), tx, None, note)
        outcome = UNKNOWN
        try:
            return end()
        except ProviderError as error:
            outcome = _unless_over(error)
            raise
        finally:
            self._put(call, outcome, self._now())

    def rollback(self) -> None:
        tx, self._tx = self.transaction(), None
        self._connection.noted(Call(ROLLBACK, self.scope, self._now(), tx, None), self._inner.rollback)

    # Receiving

    def subscribe(self, request: SubscribeRequest, on_ready: Callable[[], None]) -> ProviderConsumer:
        dest, sub, shared = str(request.address), request.durable_name, request.shared_name
        scope = self._scope_of(dest, selector=request.selector)
        if request.address.kind is AddressKind.TOPIC:
            # A non-durable subscription belongs to one consumer, unless it is shared; a durable one continues by its name with other consumers.
            if sub is not None:
                scope.sub = self._durable(sub)
            else:
                scope.sub = scope.consumer if shared is None else f"#{self._durable(shared)}"
        note: dict[str, object] = {"durable": sub is not None}
        if request.is_shared or shared is not None:
            note["shared"] = True
        if request.no_local:
            note["no_local"] = True
        if request.selector is not None:
            note["selector"] = request.selector.text
        call = Call(SUBSCRIBE, scope, self._now(), None, None, note)
        inner = self._connection.noted(call, lambda: self._inner.subscribe(request, on_ready))
        return _Consumer(self, self._connection, inner, scope)

    def _durable(self, name: str) -> str:
        return f"{self._connection.client_id or ''}/{name}"

    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        # One row for each delivery: without any there is nothing to record, but the provider may still need the call.
        if not deliveries:
            self._inner.acknowledge(deliveries)
            return
        tx = self.transaction() if self._transacted else None
        with _Noting(self._connection, Call(ACK, self.scope, self._now(), tx, tuple(deliveries))):
            self._inner.acknowledge([_inner_of(delivery) for delivery in deliveries])

    def recover(self, deliveries: Sequence[Delivery]) -> None:
        # The provider knows only its own deliveries; a tag of the recorder would be foreign to it.
        inner = [_inner_of(delivery) for delivery in deliveries]
        self._settle(RECOVER, deliveries, None, lambda: self._inner.recover(inner))

    def give_back_unseen(self, deliveries: Sequence[Delivery]) -> None:
        self.recover(deliveries)  # a delivery polled through here is in the history, so it has been seen

    def retry(self, delivery: Delivery, reason: str) -> None:
        inner = _inner_of(delivery)
        self._settle(RECOVER, (delivery,), {"failed": reason}, lambda: self._inner.retry(inner, reason))

    def retry_all(self, deliveries: Sequence[Delivery], reason: str) -> None:
        inner = [_inner_of(delivery) for delivery in deliveries]
        self._settle(RECOVER, deliveries, {"failed": reason}, lambda: self._inner.retry_all(inner, reason))

    def reject(self, delivery: Delivery, reason: str) -> None:
        inner = _inner_of(delivery)
        self._settle(ACK, (delivery,), {"rejected": reason}, lambda: self._inner.reject(inner, reason))

    def adopt(self, deliveries: Sequence[Delivery]) -> None:
        inner = [_inner_of(delivery) for delivery in deliveries]
        # Recorded as a recover with a mark: the holder changes, but the message does not return to its queue.
        self._settle(RECOVER, deliveries, {"adopted": self.scope.sess}, lambda: self._inner.adopt(inner))

    def _settle(
        self, op: str, deliveries: Sequence[Delivery], note: dict[str, object] | None, act: Callable[[], None]
    ) -> None:
        if deliveries:
            self._connection.noted(Call(op, self.scope, self._now(), self._tx, tuple(deliveries), note), act)
        else:
            act()

    def browse(self, address: Address, selector: Selector | None) -> Iterator[Delivery]:
        began_ns = self._now()
        return self._walk(self._inner.browse(address, selector), self._scope_of(str(address)), selector, began_ns)

    def _walk(
        self, found: Iterator[Delivery], scope: Scope, selector: Selector | None, began_ns: int
    ) -> Iterator[Delivery]:
        seen, outcome = 0, UNKNOWN
        try:
            for delivery in found:
                now_ns = self._now()
                # fetched now: later it may no longer exist
                shown = Delivery(delivery.envelope, delivery.count, delivery.redelivered, None)
                self._put(Call(BROWSE, scope, began_ns, None, shown), OK, now_ns)
                seen += 1
                yield delivery
            outcome = OK
        finally:
            # The end of a walk is an event of its own: only a walk through the whole queue proves that a message is not
            # there.
            note = {"seen": seen, "selector": None if selector is None else selector.text}
            self._put(Call(BROWSE, scope, began_ns, None, None, note), outcome, self._now())

    def unsubscribe(self, name: str) -> None:
        scope = self._scope_of(None, self._durable(name))
        self._connection.noted(Call(UNSUBSCRIBE, scope, self._now(), None, None), lambda: self._inner.unsubscribe(name))

    def close(self) -> None:
        self._connection.noted(Call(CLOSE, self.scope, self._now(), None, None), self._inner.close)

    # Distributed transactions: their work belongs to the branch, even if another session ends it

    def xa_start(self, xid: Xid, *, join: bool = False, resume: bool = False) -> None:
        self._inner.xa_start(xid, join=join, resume=resume)
        # The branch has begun elsewhere or before; a second begin would look like another transaction of the same name.
        if join or resume:
            self._tx = branch_name(xid)
        else:
            self._enter(branch_name(xid))

    def xa_end(self, xid: Xid, *, suspend: bool = False, fail: bool = False) -> None:
        try:
            self._inner.xa_end(xid, suspend=suspend, fail=fail)
        finally:
            if self._tx == branch_name(xid):  # not if it was suspended, and the session works in another one
                self._tx = None

    def xa_commit(self, xid: Xid, *, one_phase: bool = False) -> None:
        call = Call(COMMIT, self.scope, self._now(), branch_name(xid), None)
        self._connection.noted(call, lambda: self._inner.xa_commit(xid, one_phase=one_phase))

    def xa_rollback(self, xid: Xid) -> None:
        call = Call(ROLLBACK, self.scope, self._now(), branch_name(xid), None)
        self._connection.noted(call, lambda: self._inner.xa_rollback(xid))


class _Consumer(DelegatingConsumer):
    def __init__(self, session: _Session, connection: _Connection, inner: ProviderConsumer, scope: Scope) -> None:
        super().__init__(inner)
        self._session = session
        self._connection = connection
        self._scope = scope
        self._now = connection.now
        self._put = connection.log.put
        self._number = 0
        self._taken: Delivery | None = None
        """The delivery that was polled, and not returned."""
        self._made: Delivery | None = None
        """The same delivery, as it is returned."""

    def poll(self) -> Delivery | None:
        called_ns = self._now()
        if self._taken is None:
            self._taken = self._inner.poll()
        return self._delivered(called_ns)

    def poll_or_wait(self) -> Delivery | None:
        called_ns = self._now()
        if self._taken is None:
            self._taken = self._inner.poll_or_wait()
        return self._delivered(called_ns)

    def poll_at_once(self) -> Delivery | Literal[Elsewhere.ELSEWHERE] | None:
        called_ns = self._now()
        if self._taken is None:
            found = self._inner.poll_at_once()
            # Nothing was taken: the call is repeated on another thread, and recorded there.
            if found is ELSEWHERE:
                return found
            self._taken = found
        return self._delivered(called_ns)

    def take_unreturned(self) -> Delivery | None:
        called_ns = self._now()
        if self._taken is None:
            self._taken = self._inner.take_unreturned()
        return self._delivered(called_ns)

    def _delivered(self, called_ns: int) -> Delivery | None:
        """Record the polled delivery, and return it; one that an interrupted call (KeyboardInterrupt) has not returned is returned by the next call."""
        taken = self._taken
        if taken is None:
            return None
        if self._made is None:
            try:
                envelope = taken.envelope  # fetched now: it may be released before it is written
            except Exception:
                self._taken = None  # a message that cannot be read is in its queue again
                raise
            # The number counts this consumer's deliveries, so that a settlement names its delivery even when a message was delivered
            # several times.
            held = Held(taken, self._scope, self._number + 1)
            made = Delivery(envelope, taken.count, taken.redelivered, held)
            call, now_ns = Call(DELIVER, self._scope, called_ns, self._session.transaction(), held), self._now()
            self._number, self._made = held.number, made  # before the call: an interrupted one has mostly recorded it
            self._put(call, OK, now_ns)
        made, self._taken, self._made = self._made, None, None  # no call from here on: nothing else refers to it
        return made

    def close(self) -> None:
        self._connection.noted(Call(CLOSE, self._scope, self._now(), None, None), self._inner.close)


def _inner_of(delivery: Delivery) -> Delivery:
    """Return the delivery as the provider made it; one that is not from a recorded consumer is passed on unchanged."""
    held = delivery.tag
    return held.inner if isinstance(held, Held) else delivery

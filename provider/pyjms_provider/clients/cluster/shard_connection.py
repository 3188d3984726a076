"""One client's connection to one shard: another one takes its place when another member becomes the leader.

A *term* is the time for which one connection lasts. Messages of an earlier term are settled by nobody: the shard delivers them again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from functools import partial
from itertools import count
from random import Random
from threading import Lock, Thread
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from pyjms.spi.clock import BackOff, Clock, Delays, Signal
from pyjms.spi.errors import (
    ClosedError,
    ConnectionLostError,
    DestinationError,
    DuplicateClientIdError,
    ProviderError,
    ResourceError,
)
from pyjms.spi.interrupts import deferred
from pyjms_provider.clients.network.failover import ConnectionInterruptedError
from pyjms_provider.core.state_machine import StateMachine
from pyjms_provider.repeatable import LOST, REPEATED, RepeatableError

if TYPE_CHECKING:
    from pyjms.spi.provider import ProviderConnection, ProviderSession
    from pyjms_provider.cluster.contracts import Cluster
    from pyjms_provider.cluster.placement import Place

_Result = TypeVar("_Result")
_Subject = TypeVar("_Subject")
_log = logging.getLogger("pyjms.cluster")
WAIT_MS: Final = 25_000
"""How long a call waits for a shard without a leader, in milliseconds: less than the client waits for its answer, see `cluster.settings`."""
_BACK_OFF: Final = BackOff(first_ms=20, most_ms=500, jitter=0.5)
_CLIENT_ID_MS: Final = 10_000
"""How long a client id may stay with a connection that has ended: until its broker has noticed that."""


class ShardState(Enum):
    """The state of a connection to a shard."""

    NEW = "was not used yet, or could not be made"
    CONNECTING = "is being made, or made again"
    CONNECTED = "is there"
    GONE = "cannot be made any more: the shard is the front of a member that has ended"
    CLOSED = "is closed by the client"


class ShardEvent(Enum):
    """An event of a connection to a shard."""

    OPEN = "a call needs it"
    SUCCEED = "it was made, and its consumers are there"
    FAIL = "it could not be made for the first call"
    LOSE = "it was lost"
    GIVE_UP = "there is nothing to connect to any more"
    CLOSE = "the client closes"


_STATE = ShardState
_EVENT = ShardEvent
SHARD_TRANSITIONS: Final = StateMachine(
    "a connection to a shard",
    {
        _STATE.NEW: {_EVENT.OPEN: _STATE.CONNECTING, _EVENT.CLOSE: _STATE.CLOSED},
        _STATE.CONNECTING: {
            _EVENT.SUCCEED: _STATE.CONNECTED,
            _EVENT.FAIL: _STATE.NEW,
            _EVENT.GIVE_UP: _STATE.GONE,
            _EVENT.CLOSE: _STATE.CLOSED,
        },
        _STATE.CONNECTED: {_EVENT.LOSE: _STATE.CONNECTING, _EVENT.CLOSE: _STATE.CLOSED},
        _STATE.GONE: {_EVENT.CLOSE: _STATE.CLOSED},
        _STATE.CLOSED: {_EVENT.CLOSE: _STATE.CLOSED},
    },
)


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """One connection to the shard, for as long as it lasts."""

    number: int
    """Grows by one with each."""
    connection: ProviderConnection


class RestoredSession(Protocol):
    """A part of a session at the shard, as its connection restores it."""

    def restore(self, term: Term) -> None:
        """Open the part again, with its consumers, on another term, which is not in use yet. Raises `ProviderError` if that term is lost as well."""
        ...


class ShardOwner(Protocol):
    """The client's connection to the cluster."""

    @property
    def is_started(self) -> bool:
        """Whether messages may be delivered."""
        ...

    def on_exception(self, error: ProviderError) -> None:
        """Report a problem to the client."""
        ...


class _TermEvents:
    """Implements `ConnectionEvents` for one term."""

    def __init__(self, shard: ShardConnection, number: int) -> None:
        self._shard = shard
        self._number = number

    def on_exception(self, error: ProviderError) -> None:
        """Replace the connection if it is lost; tell the client everything else."""
        if isinstance(error, ConnectionLostError):
            self._shard.lose(self._number, error)
        else:
            self._shard.owner.on_exception(error)


class _Unheard:
    """Implements `ConnectionEvents` for one call, which raises what happens."""

    def on_exception(self, error: ProviderError) -> None:
        """Do nothing."""


def unless_done(act: Callable[[_Subject], None], done: type[ProviderError]) -> Callable[[_Subject], None]:
    """Return `act` for calls that are repeated: `done`, which says that there is nothing left to do, is no error of a second call.

    Then the first one, whose answer was lost, has done it.
    """
    calls = count()

    def act_unless_done(subject: _Subject) -> None:
        is_first = next(calls) == 0
        try:
            act(subject)
        except done:
            if is_first:
                raise

    return act_unless_done


@contextmanager
def _closing_if_lost(connection: ProviderConnection) -> Iterator[None]:
    """Close a connection if a call of it fails before it is in use. `ClosedError` of its broker becomes `ConnectionLostError`: the member goes on."""
    try:
        yield
    except ClosedError as error:
        connection.close()
        raise ConnectionLostError(error.reason) from error
    except Exception:
        connection.close()
        raise


class ShardConnection:
    """The connection of one client to one shard. Any thread."""

    def __init__(self, cluster: Cluster, place: Place, owner: ShardOwner, clock: Clock, client_id: str | None) -> None:
        """Nothing is connected before `current`.

        Args:
            cluster: Connects to places.
            place: The shard, or the front of a member.
            owner: Is told of problems.
            clock: For waits.
            client_id: The client id that each term takes; None: none.
        """
        self.place = place
        self.owner = owner
        self._cluster = cluster
        self._clock = clock
        self._client_id = client_id
        self._lock = Lock()
        self._state = ShardState.NEW
        self._term: Term | None = None
        self._made = 0
        self._lost = 0
        """The number of the last term that is known to be lost."""
        self._sessions: dict[RestoredSession, None] = {}
        self._waiting: set[Signal] = set()
        self._closing = Signal()
        self._why: ProviderError | None = None

    def begin(self, connection: ProviderConnection) -> None:
        """Use a connection that is there already for the first term; before any other call."""
        self._made, self._term, self._state = 1, Term(1, connection), ShardState.CONNECTED

    # The present term

    def current(self, check: Callable[[], None] | None = None) -> Term:
        """Return the present term; connect for the first call, and wait while the connection is being replaced.

        Args:
            check: Raises an error if the caller need not wait any more; called before each wait, and after `wake`.

        Raises:
            ResourceError: There was no leader in time.
            DestinationError: The place has ended.
            ClosedError: The client has closed the connection.
        """
        term = self._term
        if (
            self._state is ShardState.CONNECTED and term is not None
        ):  # without the lock: it may be a moment late, as any answer is
            return term
        until_ms = self._clock.monotonic_ms() + WAIT_MS
        signal = Signal()
        try:
            while True:
                with self._lock:
                    if self._state is ShardState.CONNECTED and self._term is not None:
                        return self._term
                    if self._state in (ShardState.CLOSED, ShardState.GONE):
                        raise self._ended()
                    opens = self._state is ShardState.NEW
                    if opens:
                        self._state = SHARD_TRANSITIONS[self._state, ShardEvent.OPEN]
                    self._waiting.add(signal)
                if opens:
                    self._open(until_ms)
                    continue
                if check is not None:
                    check()
                if not deferred.wait(self._clock.wait, signal, until_ms):
                    raise ResourceError(
                        f"there has been no leader of {self.place} for {WAIT_MS} ms; it is still looked for"
                    )
        finally:
            with self._lock:
                self._waiting.discard(signal)

    def wake(self) -> None:
        """Have the threads that wait for a term check whether they still need one. Never blocks."""
        with self._lock:
            waiting = list(self._waiting)
        for signal in waiting:
            signal.set()

    def call(self, act: Callable[[ProviderConnection], _Result]) -> _Result:
        """Return the result of a call that may be repeated: it is made again if its term, or the link below it, is lost meanwhile.

        Raises as `act`, and as `current`; the error of a loss after `WAIT_MS`.
        """
        until_ms = self._clock.monotonic_ms() + WAIT_MS
        while True:
            term = self.current()
            try:
                return act(term.connection)
            except REPEATED as error:
                if not isinstance(error, RepeatableError):
                    self.lose(term.number, error)
                if self._clock.monotonic_ms() >= until_ms:
                    raise

    def is_current(self, number: int) -> bool:
        """Return whether that term is the present one, and not known to be lost."""
        term = self._term
        return term is not None and term.number == number and self._state is ShardState.CONNECTED

    def resource_manager(self) -> str:
        """Return what the present leader of the place is known by among those before and after it; empty: there is no connection."""
        term = self._term
        return "" if term is None else term.connection.resource_manager

    def is_led_for(self, number: int) -> bool:
        """Return whether that term is not known to be lost, though the client may have closed it."""
        return number > self._lost and self._state in (ShardState.CONNECTED, ShardState.CLOSED)

    def act_apart(self, act: Callable[[ProviderSession], None]) -> None:
        """Call `act` with a transacted session of a connection of its own: for what must be done though the client has closed. Raises as `act`, and as `Cluster.connect`."""
        connection = self._cluster.connect(self.place, _Unheard())
        try:
            act(connection.open_session(transacted=True))
        finally:
            connection.close()

    def act_at_next_leader(self, act: Callable[[ProviderSession], None]) -> None:
        """Call `act` as `act_apart` does, until a leader has answered. Raises its error after `WAIT_MS`, and when the client closes."""
        until_ms = self._clock.monotonic_ms() + WAIT_MS
        delays = Delays(_BACK_OFF, Random().random)  # noqa: S311
        while True:
            try:
                self.act_apart(act)
            except ProviderError:
                if self._clock.monotonic_ms() >= until_ms or self._pause(delays.next_ms()):
                    raise
            else:
                return

    def add(self, session: RestoredSession) -> None:
        """Have a part of a session restored from now on."""
        with self._lock:
            self._sessions[session] = None

    def remove(self, session: RestoredSession) -> None:
        """Forget a part of a session that has closed."""
        with self._lock:
            self._sessions.pop(session, None)

    def enter_if_current(self, number: int, enter: Callable[[], None]) -> bool:
        """Call `enter`, which only changes fields, if that term is the present one: then the next one finds what was entered."""
        with self._lock:
            if self._state is not ShardState.CONNECTED or self._term is None or self._term.number != number:
                return False
            enter()
            return True

    def _open(self, until_ms: float) -> None:
        """Connect for the first call; return as well if the leader has just stopped, and there is time for another attempt."""
        try:
            term = self._connect()
        except ConnectionLostError as error:
            self._change(ShardEvent.FAIL)
            if self._clock.monotonic_ms() >= until_ms:
                raise ResourceError(f"{self.place} was not reached: {error.reason}") from error
            self._pause(_BACK_OFF.first_ms)
        except Exception:
            self._change(ShardEvent.FAIL)
            raise
        else:
            self._take(term)

    def _connect(self) -> Term:
        """Return a new term, at which nothing is delivered yet."""
        with self._lock:
            self._made += 1
            number = self._made
        connection = self._cluster.connect(self.place, _TermEvents(self, number))
        with _closing_if_lost(connection):
            if self._client_id is not None:
                self._identify(connection, self._client_id)
        return Term(number, connection)

    def _identify(self, connection: ProviderConnection, client_id: str) -> None:
        # The shard may not have noticed yet that the client's last connection has ended.
        until_ms = self._clock.monotonic_ms() + _CLIENT_ID_MS
        while True:
            try:
                connection.set_client_id(client_id)
            except DuplicateClientIdError:
                if self._clock.monotonic_ms() >= until_ms or self._pause(50):
                    raise
            except RepeatableError:
                if self._clock.monotonic_ms() >= until_ms:
                    raise
            else:
                return

    def _take(self, term: Term) -> bool:
        """Make `term` the present one; return False if it is lost already, or the client has closed."""
        with self._lock:
            is_taken = self._state is ShardState.CONNECTING and term.number > self._lost
            if is_taken:
                self._term = term
                self._state = SHARD_TRANSITIONS[self._state, ShardEvent.SUCCEED]
            elif self._state is ShardState.CONNECTING and self._term is None:
                self._state = SHARD_TRANSITIONS[self._state, ShardEvent.FAIL]
        if is_taken:
            # Not before: what is received at a term that is not the present one cannot be settled, and its session keeps it.
            is_started = False
            while self.owner.is_started is not is_started:  # the client may start or stop it meanwhile
                is_started = not is_started
                self.set_started(started=is_started)
        else:
            term.connection.close()
        self.wake()
        return is_taken

    def _change(self, event: ShardEvent) -> None:
        with self._lock:
            if self._state is not ShardState.CLOSED:
                self._state = SHARD_TRANSITIONS[self._state, event]
        self.wake()

    # Another term

    def lose(self, number: int, error: ProviderError) -> None:
        """Replace the connection, as that term is lost. Any thread; never blocks; may be repeated."""
        with self._lock:
            self._lost = max(self._lost, number)
            if self._state is not ShardState.CONNECTED or self._term is None or self._term.number != number:
                return
            self._state = SHARD_TRANSITIONS[self._state, ShardEvent.LOSE]
        _log.info("the connection to %s was lost: %s", self.place, error.reason)
        Thread(target=partial(self._replace, error), name=f"pyjms-cluster-{self._cluster.name}", daemon=True).start()

    def _replace(self, error: ProviderError) -> None:
        self.owner.on_exception(
            ConnectionInterruptedError(
                f"the leader of a part of {self._cluster.name} has changed ({error.reason}); messages in processing come again"
            )
        )
        with self._lock:
            term = self._term
        if term is not None:
            # If it is not lost in truth, it would keep messages and the client id, and what was not committed.
            with suppress(ProviderError):
                term.connection.close()
        delays = Delays(_BACK_OFF, Random().random)  # noqa: S311
        while self._state is ShardState.CONNECTING:
            try:
                if self._renew():
                    return
            except (
                ClosedError,
                DestinationError,
            ) as ended:  # this member stops, or the one whose front it is has ended
                self._give_up(ended)
                return
            except ProviderError as failed:
                _log.info("no connection to %s: %s", self.place, failed.reason)
            if self._pause(delays.next_ms()):
                return

    def _renew(self) -> bool:
        """Connect, restore all sessions, and use that term; return False if it is lost already. Raises `ProviderError`."""
        term = self._connect()
        with self._lock:
            sessions = list(self._sessions)
        # What was restored there would keep messages, and the client id.
        with _closing_if_lost(term.connection):
            for session in sessions:
                session.restore(term)
        return self._take(term)

    def _give_up(self, error: ProviderError) -> None:
        self._why = error
        self._change(ShardEvent.GIVE_UP)

    def _pause(self, ms: float) -> bool:
        """Wait; return whether the client closes."""
        if self._clock.wait(self._closing, self._clock.monotonic_ms() + ms):
            self._closing.set()
            return True
        return False

    def _ended(self) -> ProviderError:
        return (
            self._why
            if self._state is ShardState.GONE and self._why is not None
            else ClosedError("the connection is closed")
        )

    # The client's calls

    def set_started(self, *, started: bool) -> None:
        """Start or stop the delivery of messages."""
        term = self._term
        if term is None or self._state is not ShardState.CONNECTED:
            return  # the next term asks
        try:
            if started:
                term.connection.start()
            else:
                term.connection.stop()
        except LOST as error:
            self.lose(term.number, error)

    def claim(self, client_id: str) -> None:
        """Take the client id, on this term and on later ones, if no other client has it. Raises `DuplicateClientIdError`, and as `current`."""
        is_first = True
        while True:
            term = self.current()
            try:
                if is_first:
                    term.connection.set_client_id(client_id)
                else:
                    self._identify(term.connection, client_id)  # it may be this client's own, of the call that was lost
            except REPEATED as error:
                if not isinstance(error, RepeatableError):
                    self.lose(term.number, error)
            else:
                # A term that has ended meanwhile had the client id, and the next one has not taken it.
                if self.enter_if_current(term.number, partial(self._keep_client_id, client_id)):
                    return
            is_first = False

    def _keep_client_id(self, client_id: str) -> None:
        self._client_id = client_id

    def identify(self, client_id: str) -> None:
        """Take the client id, which the client has at another shard, on this term and on later ones. Raises `DuplicateClientIdError`."""
        self._client_id = client_id
        term = self._term
        if term is not None and self._state is ShardState.CONNECTED:
            try:
                self._identify(term.connection, client_id)
            except LOST as error:
                self.lose(term.number, error)  # the next one takes it

    def close(self) -> None:
        """Close the connection. May be repeated."""
        with self._lock:
            term, self._term = self._term, None
            self._state = SHARD_TRANSITIONS[self._state, ShardEvent.CLOSE]
        self._closing.set()
        self.wake()
        if term is not None:
            term.connection.close()

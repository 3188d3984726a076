"""A connection that fails over: physical connections, one after the other, at any endpoint that answers.

The states are a table. The owner is told of each loss once; then a thread tries the endpoints, round after round, with a growing wait
between rounds, until one answers and all subscriptions are restored there.
"""

from __future__ import annotations

import logging
from _thread import start_new_thread
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from itertools import count
from random import Random
from threading import Lock, Thread
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from pyjms.spi.clock import BackOff, Clock, Delays, Signal
from pyjms.spi.errors import (
    ClosedError,
    ConnectionLostError,
    DuplicateClientIdError,
    ProviderError,
    ResourceError,
)
from pyjms.spi.interrupts import deferred
from pyjms.spi.provider import ProviderConnection
from pyjms_provider.clients.close_once import CloseOnce
from pyjms_provider.clients.network.calls import ConnectionLostInCallError
from pyjms_provider.clients.network.endpoints import Endpoint
from pyjms_provider.forks import forget_in_children

if TYPE_CHECKING:
    from pyjms.spi.envelope import ConnectionId
    from pyjms.spi.provider import ConnectionEvents, ConnectRequest, ProviderSession
    from pyjms_provider.clients.network.endpoints import NetworkSettings

_log = logging.getLogger("pyjms.network")
_JITTER = 0.5
"""A random half of each wait keeps a thousand clients from coming back at one moment."""
_LASTS_MS: Final = 5_000
"""A replaced connection that ends sooner counts as a failed attempt: the next one waits, longer each time. Otherwise a broker that accepts
connections and drops them would get log-ins from each client all the time.
"""


class FailoverState(Enum):
    """The state of a connection; `ProviderConnection.state` returns the values."""

    CONNECTED = "connected"
    RECONNECTING = "reconnecting"
    LOST = "lost"
    CLOSED = "closed"


class FailoverEvent(Enum):
    """The events that change the state."""

    LOSE = "the connection ended"
    HEAL = "a connection was made, and everything restored"
    GIVE_UP = "no connection can be made any more"
    CLOSE = "the client closes it"


TRANSITIONS: Final[Mapping[tuple[FailoverState, FailoverEvent], FailoverState]] = MappingProxyType(
    {
        (FailoverState.CONNECTED, FailoverEvent.LOSE): FailoverState.RECONNECTING,
        (FailoverState.RECONNECTING, FailoverEvent.HEAL): FailoverState.CONNECTED,
        (FailoverState.RECONNECTING, FailoverEvent.GIVE_UP): FailoverState.LOST,
        (FailoverState.CONNECTED, FailoverEvent.CLOSE): FailoverState.CLOSED,
        (FailoverState.RECONNECTING, FailoverEvent.CLOSE): FailoverState.CLOSED,
        (FailoverState.LOST, FailoverEvent.CLOSE): FailoverState.CLOSED,
    }
)


class ConnectionInterruptedError(ProviderError):
    """The connection to the broker was lost and is being replaced; messages in processing are delivered again."""

    code = "PYJMS-INTERRUPTED"


class Physical(Protocol):
    """A physical connection, as a failover connection uses it."""

    number: int
    """Grows by one with each connection of the failover connection."""
    endpoint: Endpoint
    is_closing: bool
    """Whether it is ending, or has ended."""
    has_ended: bool
    """Whether it has ended: `reason` says why."""
    reason: str
    was_interrupted: bool
    """Whether it ends by `abort`, and not through the network or the broker."""

    def wait(self, signal: Signal, until_ms: float | None) -> bool:
        """Wait as a clock does, for a signal that this connection sets."""
        ...

    def is_own_thread(self) -> bool:
        """Return whether the caller is the thread that reads."""
        ...

    def close(self) -> None:
        """End the connection; its thread ends soon. May be repeated."""
        ...

    def abort(self, why: str) -> None:
        """End the connection on this side."""
        ...

    def join(self, timeout_s: float) -> None:
        """Wait for its thread to end."""
        ...

    def forget(self, reason: str) -> None:
        """Mark it as ended, in a child of this process."""
        ...


_P = TypeVar("_P", bound=Physical)
_P_contra = TypeVar("_P_contra", bound=Physical, contravariant=True)


class FailoverOwner(Protocol[_P_contra]):
    """The callbacks of a failover connection. None may wait, except `restore`."""

    def on_interrupted(self, error: ConnectionInterruptedError) -> None:
        """The connection was lost; it is being replaced."""
        ...

    def restore(self, physical: _P_contra) -> None:
        """Subscribe on `physical`, which clients use as soon as this returns. Raises `ConnectionLostInCallError`, `ProviderError`."""
        ...

    def on_lost(self, error: ConnectionLostError) -> None:
        """The connection is lost for good."""
        ...


class FailoverConnection(ABC, Generic[_P]):
    """The connection of one client. Any thread."""

    log_code: str
    """The code of its log records about errors of pyjms."""
    protocol: str
    """The protocol's name, for names of threads."""

    def __init__(
        self, settings: NetworkSettings, clock: Clock, owner: FailoverOwner[_P], random: Random | None = None
    ) -> None:
        """Connect: one round through the endpoints. A loss is not repaired before `begin`.

        Raises `AccessDeniedError`, `DuplicateClientIdError`, `ResourceError` with the reason at each endpoint.
        """
        self._settings = settings
        self._clock = clock
        self._owner = owner
        self._endpoints = settings.endpoints
        self._lock = Lock()
        self._state = FailoverState.CONNECTED
        self._waiting: set[Signal] = set()
        self._awake = Signal()
        """Ends the healer's pause."""
        self.made = 0
        """How many physical connections were made."""
        self._first = 0  # where the next round begins
        back_off = BackOff(
            first_ms=settings.reconnect_delay_ms, most_ms=settings.reconnect_delay_max_ms, jitter=_JITTER
        )
        self._delays = Delays(back_off, (random or Random()).random)  # noqa: S311
        self._healed_ms: float | None = None
        """When the present physical connection replaced a lost one; None: it is the first one."""
        self._error: ProviderError | None = None
        self._heals = False
        self._is_down = False
        """Whether it has no physical connection because of `reopen`, so that no healer starts."""
        self.newest = self._physical = self._connect_anywhere()
        """The present physical connection, or the one on which subscriptions are being restored, or the last one, which has ended.

        Messages come as soon as their consumer is restored. So this connection decides whether a message is still valid, and settles it: a
        message that is not settled on the connection on which it came stays at the broker, as delivered.
        """
        forget_in_children(self)

    @abstractmethod
    def connect(self, endpoint: Endpoint) -> _P:
        """Connect to `endpoint`.

        Raises `ResourceError`, `ConnectionLostInCallError` if another endpoint may do, other errors if none will.
        """

    def begin(self) -> None:
        """Repair losses from now on, also one that has happened: the owner can `restore`. Called once, before anything was done."""
        # The flag first: a loss before it is found by `_heal_if_ended`, one after it
        # by `on_ended`. If both find it, the state lets only the first one heal.
        self._heals = True
        self._heal_if_ended(self._physical)

    def add_endpoints(self, endpoints: Sequence[Endpoint], *, is_next: bool = False) -> None:
        """Try other endpoints as well from now on, as a broker has named them; `is_next`: the next round begins with them."""
        with self._lock:
            new = [each for each in endpoints if each not in self._endpoints]
            self._endpoints = (*self._endpoints, *new)
            if is_next and endpoints:
                self._first = self._endpoints.index(endpoints[0])

    def go_to(self, endpoint: Endpoint, why: str) -> None:
        """Be connected to `endpoint` now, as the broker is there from now on; nothing happens if the connection is. Any thread; never blocks.

        `why`: the reason for which a connection to another endpoint is aborted.
        """
        self.add_endpoints([endpoint], is_next=True)
        if self._state is FailoverState.RECONNECTING:
            # What has failed so far says nothing about this endpoint, so the pause after it is cut short.
            self._delays.reset()
            self._awake.set()
        elif self.newest.endpoint != endpoint:
            # At once: a broker that is stopped, or cut off, does not end its connections.
            self.abort(why)

    @property
    def state(self) -> FailoverState:
        """The present state."""
        return self._state

    @property
    def physical_number(self) -> int:
        """The number of the newest physical connection."""
        return self.newest.number

    def current(self, check: Callable[[], None] | None = None) -> _P:
        """Return the present physical connection; while it is being replaced, wait for the new one, for `timeout_ms` at most.

        `check` raises an error if the caller need not wait any more; it is called before each wait, and after `wake`. Raises `ResourceError`
        when it takes longer, `ConnectionLostError`, `ClosedError`.
        """
        state, physical = self._state, self._physical  # without the lock it may be a moment late, as any answer is
        if state is FailoverState.CONNECTED and not physical.is_closing:
            return physical
        until_ms = self._clock.monotonic_ms() + self._settings.timeout_ms
        signal = Signal()
        try:
            while True:
                # Registered under the lock with the check: a change of
                # the state between the two would not wake this thread.
                with self._lock:
                    if self._state is FailoverState.CONNECTED and not self._is_about_to_heal():
                        return self._physical
                    if self._state not in (FailoverState.CONNECTED, FailoverState.RECONNECTING):
                        raise self._ended_error()
                    self._waiting.add(signal)
                if check is not None:
                    check()
                if not deferred.wait(self._clock.wait, signal, until_ms):
                    raise ResourceError(
                        f"there has been no connection to {self._places()} for {self._settings.timeout_ms} ms; it is still tried"
                    )
        finally:
            with self._lock:
                self._waiting.discard(signal)

    def wake(self) -> None:
        """Have the threads that wait for a connection check whether they still need one. Never blocks."""
        with self._lock:
            waiting = list(self._waiting)
        for signal in waiting:
            signal.set()

    def _is_about_to_heal(self) -> bool:
        """Return whether the present physical connection is closing, and another thread than the caller's will soon report its end."""
        physical = self._physical
        return self._heals and physical.is_closing and not physical.is_own_thread()

    def check_open(self) -> None:
        """Raise `ClosedError` or `ConnectionLostError` when the connection is over."""
        if self._state in (FailoverState.CLOSED, FailoverState.LOST):
            raise self._ended_error()

    def reopen(self, set_up: Callable[[_P], None]) -> None:
        """Connect again, with changed headers, before anything was done; `set_up` runs before others use the connection. If the connection
        is being replaced already, wait for that first.

        If `set_up` raises, there is no connection, and no healer starts: call `reopen` again. Raises as the constructor, as `set_up`, and
        as `current`.
        """
        old = self._take_down()
        try:
            old.close()
            physical = self._connect_anywhere()
        except ProviderError as error:
            # This call raises it: the exception listener must not be told as well.
            self._give_up(error, notifies=False)
            raise
        try:
            set_up(physical)
            self._set_present(physical)
        except Exception:
            physical.close()
            raise
        # It may have ended before it was the present one, when `on_ended` ignored that.
        self._heal_if_ended(physical)

    def _take_down(self) -> _P:
        """Return the present physical connection, whose end is neither reported nor repaired from now on."""
        while True:
            if not self._is_down:
                self.current()
            with self._lock:
                # Another thread may have lost or closed the connection
                # since `current` returned; then the loop looks again.
                if self._state is FailoverState.CONNECTED or (
                    self._is_down and self._state is not FailoverState.CLOSED
                ):
                    self._is_down, self._state = True, FailoverState.RECONNECTING
                    return self._physical
            self.check_open()

    def _set_present(self, physical: _P) -> None:
        """Make `physical` the present one. Raises `ClosedError` if the connection was closed meanwhile."""
        with self._lock:
            if self._state is not FailoverState.RECONNECTING:
                raise self._ended_error()
            self.newest = self._physical = physical
            self._is_down, self._state = False, TRANSITIONS[self._state, FailoverEvent.HEAL]
            waiting = self._take_waiting()
        for signal in waiting:
            signal.set()

    def close(self, farewell: Callable[[_P], object] | None) -> None:
        """Close the connection, after `farewell`, which takes leave of the broker if that still answers. May be repeated."""
        with self._lock:
            # A copy: each thread takes its own signal out of the set when it wakes.
            physical, waiting = self._physical, list(self._waiting)
            was_connected = self._state is FailoverState.CONNECTED
            # Before the connection ends: its end is then no loss, and no healer starts.
            self._state = FailoverState.CLOSED
        self._awake.set()
        for signal in waiting:
            signal.set()
        if was_connected and farewell is not None:
            try:
                farewell(physical)
            except (ProviderError, ConnectionLostInCallError) as error:
                _log.debug("the broker did not answer the end of the connection: %s", error)
        physical.close()
        physical.join(self._settings.connect_timeout_ms / 1000)

    def abort(self, why: str = "a signal interrupted a call that used it") -> None:
        """Abort the present physical connection; it is replaced like a lost one."""
        start_new_thread(
            self._physical.abort, (why,)
        )  # the caller handles a signal, and its thread may hold the connection's locks

    def forget(self) -> None:
        """Mark the connection as lost, in a child of this process, which has none of its threads."""
        why = f"the connection to {self._places()} is of the process that this one was forked from: make one here"
        # A thread of the parent may have held the lock at the fork; in the child it would stay locked.
        self._lock, self._state, self._error = Lock(), FailoverState.LOST, ConnectionLostError(why)
        for physical in (self._physical, self.newest):
            physical.forget(why)

    # Events of a physical connection

    def wait(self, signal: Signal, until_ms: float | None) -> bool:
        """Wait as the clock does, for a signal that this connection sets."""
        if self._state is not FailoverState.CONNECTED:
            return self._clock.wait(signal, until_ms)
        return self._physical.wait(signal, until_ms)

    def on_ended(self, physical: _P, reason: str) -> None:
        """Start the healer, if `physical` was the present connection."""
        with self._lock:
            # The healer itself notices the end of a connection on which it is restoring subscriptions.
            if not self._heals or physical is not self._physical or self._state is not FailoverState.CONNECTED:
                return
            self._state = TRANSITIONS[self._state, FailoverEvent.LOSE]
        place = physical.endpoint
        _log.warning("PYJMS-INTERRUPTED the connection to %s was lost: %s", place, reason)
        if not self._settings.reconnect:
            self._give_up(ProviderError(f"the connection to {place} was lost: {reason}"))
            return
        error = ConnectionInterruptedError(f"the connection to {place} was lost ({reason}); it is being made anew")
        try:
            self._owner.on_interrupted(error)
        except Exception:
            # An error of the exception listener's must not keep the
            # healer from starting: every call would wait for ever.
            _log.exception("%s somebody could not be told that the connection to %s was lost", self.log_code, place)
        try:
            Thread(target=self._heal, name=f"pyjms-healer-{self.protocol}-{place.host}", daemon=True).start()
        except RuntimeError:
            # The system has no more threads for the moment, and this one, whose connection has just ended, is free.
            self._heal()

    def _heal_if_ended(self, physical: _P) -> None:
        """Start the healer if `physical` ended before it was the present one, when `on_ended` ignored that."""
        if physical.has_ended:
            self.on_ended(physical, physical.reason)

    # Healing

    def _heal(self) -> None:
        rounds = 0
        try:
            if self._has_lasted():
                self._delays.reset()
            elif not self._physical.was_interrupted:
                # It was ended on this side: that says nothing
                # about the broker, so there is no pause.
                self._pause()
            while not self._try_round() and self._is_healing():
                rounds += 1
                # `reconnect_attempts` is 0 for no limit, which the count never equals.
                if rounds == self._settings.reconnect_attempts:
                    self._give_up(
                        ResourceError(f"{rounds} rounds of attempts have failed; the last one: {self._error}")
                    )
                    return
                self._pause()
        except ProviderError as error:
            self._give_up(error)
        except Exception as error:
            # The top of a thread: without this no client would learn that nothing arrives any more.
            _log.exception("%s the connection cannot be made anew because of an error of pyjms", self.log_code)
            self._give_up(ProviderError(f"{type(error).__name__}: {error}"))

    def _has_lasted(self) -> bool:
        return self._healed_ms is None or self._clock.monotonic_ms() - self._healed_ms >= _LASTS_MS

    def _pause(self) -> None:
        self._clock.wait(self._awake, self._clock.monotonic_ms() + self._delays.next_ms())

    def _is_healing(self) -> bool:
        return self._state is FailoverState.RECONNECTING

    def _try_round(self) -> bool:
        """Try each endpoint once; return whether one is connected now. Raises an error that no further attempt can cure."""
        endpoints = self._endpoints
        first = self._first
        for step in range(len(endpoints)):
            index = (first + step) % len(endpoints)
            # The client may have closed the connection during the last attempt.
            if not self._is_healing():
                return False
            try:
                physical = self.connect(endpoints[index])
            except (ResourceError, DuplicateClientIdError, ConnectionLostInCallError) as error:
                # The client id is in use until the broker has noticed the end of the old connection.
                self._error = ProviderError(str(error))
                _log.info("no connection to %s: %s", endpoints[index], error)
                continue
            if self._restore_on(physical):
                self._first = index
                return True
        return False

    def _restore_on(self, physical: _P) -> bool:
        """Restore all subscriptions on `physical` and make it the present one; return False if that failed."""
        # Before the restore: messages arrive as soon as the first consumer is restored, and are judged by `newest`.
        self.newest = physical
        try:
            self._owner.restore(physical)
        except (ProviderError, ConnectionLostInCallError) as error:
            self._error = ProviderError(f"{physical.endpoint} was reached, but: {error}")
            _log.warning("%s a connection to %s was made and dropped: %s", self.log_code, physical.endpoint, error)
            physical.close()
            return False
        with self._lock:
            # An end during the restore was ignored by `on_ended`, as this was not the present
            # connection; an end after this check finds the present one, and heals again.
            if self._state is FailoverState.RECONNECTING and not physical.has_ended:
                self._physical = physical
                self._awake.wait(0)  # reset, so that it cuts no later pause short
                self._healed_ms = self._clock.monotonic_ms()
                self._state = TRANSITIONS[self._state, FailoverEvent.HEAL]
                waiting = self._take_waiting()
                is_taken = True
            else:
                waiting, is_taken = set(), False
        if not is_taken:
            physical.close()
            return False
        for signal in waiting:
            signal.set()
        _log.info("connected to %s again", physical.endpoint)
        return True

    def _give_up(self, error: ProviderError, *, notifies: bool = True) -> None:
        lost = ConnectionLostError(error.reason)
        lost.__cause__ = error
        with self._lock:
            if self._state is not FailoverState.RECONNECTING:
                return
            self._error = lost
            self._state = TRANSITIONS[self._state, FailoverEvent.GIVE_UP]
            waiting = self._take_waiting()
        for signal in waiting:
            signal.set()
        if notifies:
            # Without the lock, since this runs code of the application's.
            self._owner.on_lost(lost)

    def _take_waiting(self) -> set[Signal]:
        waiting, self._waiting = self._waiting, set()
        return waiting

    # Connecting

    def _connect_anywhere(self) -> _P:
        reasons = []
        for index, endpoint in enumerate(self._endpoints):
            try:
                physical = self.connect(endpoint)
            except (ResourceError, ConnectionLostInCallError) as error:
                # Any other error, such as a wrong password, would be the same at the next endpoint.
                reasons.append(str(error))
                continue
            self._first = index
            return physical
        raise ResourceError("; ".join(reasons))

    def _places(self) -> str:
        return ", ".join(map(str, self._endpoints))

    def _ended_error(self) -> ProviderError:
        if self._state is FailoverState.LOST:
            return ConnectionLostError(self._error.reason if self._error is not None else "the connection is lost")
        return ClosedError(f"the connection to {self._places()} is closed")


class FailoverProviderConnection(ProviderConnection):
    """What connections that fail over have in common: their state, and an end that closes the sessions first.

    It implements half of `FailoverOwner`. Subclasses set the attributes declared here.
    """

    _connection_id: ConnectionId

    def __init__(self, request: ConnectRequest, events: ConnectionEvents) -> None:
        self.clock = request.clock
        self.is_started = False
        """Whether messages may be polled."""
        self._events = events
        self._client_id = request.client_id
        self._lock = Lock()
        self._numbers = count(1)
        self._closed = False
        self._close_once = CloseOnce()

    @property
    @abstractmethod
    def failover(self) -> FailoverConnection[Any]:
        """The physical connections, one after the other."""

    @property
    def connection_id(self) -> ConnectionId:
        return self._connection_id

    @property
    def state(self) -> str:
        """``connected``, ``reconnecting``, ``lost`` or ``closed``."""
        return self.failover.state.value

    def abort(self) -> bool:
        self.failover.abort()
        return True

    def close(self) -> None:
        self._close_once.do(self._shut_down)

    def _shut_down(self) -> None:
        with self._lock:
            # Under the lock of the list: no session is entered between the flag and the copy.
            self._closed = True
            sessions = self._open_sessions()
        for session in sessions:
            session.close()
        self.failover.close(self._take_leave)

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the connection is closed")
        self.failover.check_open()

    def on_interrupted(self, error: ConnectionInterruptedError) -> None:
        """Drop the state that ended with the physical connection, and tell the client."""
        # First, so that sessions and consumers know of the loss whatever the client does in the callback.
        self._leave_physical()
        self._events.on_exception(error)

    def on_lost(self, error: ConnectionLostError) -> None:
        """Tell the client."""
        self._leave_physical()
        self._events.on_exception(error)

    @abstractmethod
    def _open_sessions(self) -> Sequence[ProviderSession]:
        """Return the sessions that have not been closed. The lock is held."""

    @abstractmethod
    def _leave_physical(self) -> None:
        """Have sessions and consumers drop messages that the broker has taken back."""

    @abstractmethod
    def _take_leave(self, physical: Any) -> None:
        """Tell the broker that the connection ends, and wait for its answer."""

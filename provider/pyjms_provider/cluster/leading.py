"""One shard at this member: its broker is opened, serves, and is stopped, each on a thread of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum
from functools import partial
from random import Random
from threading import Lock, Thread
from typing import TYPE_CHECKING, Final

from pyjms.spi.clock import BackOff, Delays, Signal
from pyjms.spi.errors import ClosedError, ProviderError
from pyjms_provider.broker import EmbeddedBroker
from pyjms_provider.core.state_machine import StateMachine
from pyjms_provider.stores.errors import HeldStoreError

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock
    from pyjms_provider.settings import BrokerSettings

_log = logging.getLogger(__name__)
_HELD_MS: Final = 10_000
"""How long a store may stay held by a member that is taken for dead, until the shard is given up."""
_HELD_RETRY_MS: Final = 50
_BACK_OFF: Final = BackOff(first_ms=250, most_ms=10_000)


class LeadState(Enum):
    """The state of a shard at a member."""

    IDLE = "this member does not lead it"
    OPENING = "its store is being opened"
    LEADING = "its broker serves"
    STOPPING = "its broker is being stopped"


class LeadEvent(Enum):
    """An event of a shard at a member."""

    OPEN = "the member has become its leader"
    SUCCEED = "its broker has started"
    FAIL = "its broker could not be started"
    LOSE = "its store has another holder, and its broker has stopped"
    STOP = "it is to be handed over, or the member ends"
    END = "its broker has stopped"


_S, _E = LeadState, LeadEvent
LEAD_TRANSITIONS: Final = StateMachine(
    "a shard at a member",
    {
        _S.IDLE: {_E.OPEN: _S.OPENING},
        _S.OPENING: {_E.SUCCEED: _S.LEADING, _E.FAIL: _S.IDLE, _E.STOP: _S.STOPPING},
        _S.LEADING: {_E.LOSE: _S.IDLE, _E.STOP: _S.STOPPING},
        _S.STOPPING: {_E.END: _S.IDLE},
    },
)


class ShardLeader:
    """A shard at this member. Any thread; no method waits."""

    def __init__(
        self,
        number: int,
        name: str,
        clock: Clock,
        *,
        changed: Callable[[], None],
        opened: Callable[[EmbeddedBroker], None],
        end_dead_sessions: Callable[[], None],
    ) -> None:
        """Lead nothing yet.

        Args:
            number: The number of the shard.
            name: The name of its broker.
            clock: For waits, and for the broker.
            changed: Called after each change of the state, on any thread; must not block.
            opened: Prepares a broker before it serves anybody.
            end_dead_sessions: Ends the sessions of dead members at the database, which may hold the store. May wait; raises `ResourceError`.
        """
        self.number = number
        self.name = name
        self._clock = clock
        self._changed = changed
        self._opened = opened
        self._end_dead_sessions = end_dead_sessions
        self._lock = Lock()
        self._state = LeadState.IDLE
        self._broker: EmbeddedBroker | None = None
        self._cancelled = Signal()
        self._program_ends = False
        self._delays = Delays(_BACK_OFF, Random().random)  # noqa: S311
        self._not_before_ms = 0.0

    @property
    def state(self) -> LeadState:
        """The present state."""
        return self._state

    @property
    def broker(self) -> EmbeddedBroker | None:
        """The broker; None: it does not serve now."""
        with self._lock:
            return self._broker if self._state is LeadState.LEADING else None

    @property
    def may_open(self) -> bool:
        """Whether it may be opened now: after a failure there is a pause."""
        return self._state is LeadState.IDLE and self._clock.monotonic_ms() >= self._not_before_ms

    def open(self, settings: BrokerSettings) -> None:
        """Begin to open it."""
        with self._lock:
            self._state = LEAD_TRANSITIONS[self._state, LeadEvent.OPEN]
            self._cancelled = Signal()
        act = partial(self._open, settings, self._cancelled)
        _begin(Thread(target=act, name=f"pyjms opening {self.name}", daemon=True), act)

    def stop(self, *, program_ends: bool = False) -> None:
        """Begin to stop it; nothing happens if it is not led. program_ends: see `EmbeddedBroker.stop`."""
        with self._lock:
            if self._state not in (LeadState.OPENING, LeadState.LEADING):
                return
            was_leading = self._state is LeadState.LEADING
            self._state = LEAD_TRANSITIONS[self._state, LeadEvent.STOP]
            self._program_ends = program_ends
            self._cancelled.set()
            broker = self._broker
        if was_leading and broker is not None:
            act = partial(self._end, broker)
            _begin(Thread(target=act, name=f"pyjms stopping {self.name}", daemon=True), act)

    def abandon(self, error: ProviderError) -> None:
        """Lead it no more, and write nothing, as at the death of the process."""
        broker = self.broker
        if broker is None:
            self.stop()
        else:
            broker.lose_store(error)

    def _open(self, settings: BrokerSettings, cancelled: Signal) -> None:
        try:
            broker = self._start(settings, cancelled)
            self._opened(broker)
        except Exception as error:  # the top of a thread: otherwise the shard would stay without a leader
            _log_failure(self.name, error)
            with self._lock:
                is_stopped = self._state is LeadState.STOPPING
                self._state = LEAD_TRANSITIONS[self._state, LeadEvent.END if is_stopped else LeadEvent.FAIL]
                self._not_before_ms = self._clock.monotonic_ms() + self._delays.next_ms()
            self._changed()
            return
        with self._lock:
            is_leading = self._state is LeadState.OPENING
            if is_leading:
                self._broker = broker
                self._state = LEAD_TRANSITIONS[self._state, LeadEvent.SUCCEED]
                self._delays.reset()
        if is_leading:
            broker.when_store_lost(partial(self._lose, broker))
            self._changed()
        else:
            self._end(broker)

    def _start(self, settings: BrokerSettings, cancelled: Signal) -> EmbeddedBroker:
        until_ms = self._clock.monotonic_ms() + _HELD_MS
        while True:
            try:
                return EmbeddedBroker(self.name, self._clock, settings, cancelled=cancelled)
            except HeldStoreError:
                if self._clock.monotonic_ms() >= until_ms:
                    raise
            # The former leader has been taken for dead, and has connected again since.
            self._end_dead_sessions()
            if self._clock.wait(cancelled, self._clock.monotonic_ms() + _HELD_RETRY_MS):
                raise ClosedError("the shard is no longer this member's")

    def _lose(self, broker: EmbeddedBroker, error: ProviderError) -> None:
        with self._lock:
            if self._broker is not broker or self._state is not LeadState.LEADING:
                return
            self._broker = None
            self._state = LEAD_TRANSITIONS[self._state, LeadEvent.LOSE]
            self._not_before_ms = self._clock.monotonic_ms() + self._delays.next_ms()
        self._changed()

    def _end(self, broker: EmbeddedBroker) -> None:
        try:
            broker.stop(program_ends=self._program_ends)
        except Exception as error:  # the top of a thread: otherwise the shard would stay with this member
            _log_failure(self.name, error)
        finally:
            with self._lock:
                self._broker = None
                self._state = LEAD_TRANSITIONS[self._state, LeadEvent.END]
            self._changed()


def _begin(thread: Thread, act: Callable[[], None]) -> None:
    try:
        thread.start()
    except RuntimeError:  # the system has no more threads at the moment
        act()


def _log_failure(name: str, error: Exception) -> None:
    if isinstance(error, ProviderError):
        _log.warning("PYJMS-CLUSTER-3 %s is not led by this member: %s", name, error.reason)
    else:
        _log.error("PYJMS-CLUSTER-3 %s is not led by this member", name, exc_info=error)

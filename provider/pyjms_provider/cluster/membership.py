"""The membership of this process in its cluster: an incarnation, from joining until it leaves or is taken for dead."""

from __future__ import annotations

import logging
import math
import secrets
from collections.abc import Callable
from threading import Thread
from typing import TYPE_CHECKING, Final, TypeVar

from pyjms.spi.clock import Signal, seconds_since_boot
from pyjms.spi.errors import ClosedError, ResourceError
from pyjms.spi.words import installed_version
from pyjms_provider.cluster.errors import ClusterError
from pyjms_provider.cluster.placement import SHARDS_DEFAULT
from pyjms_provider.stores.errors import StoreError, TakenNameError, UnavailableStoreError, WrongClusterError

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock
    from pyjms.spi.errors import ProviderError
    from pyjms_provider.cluster.contracts import ControlTables, HeldMembership
    from pyjms_provider.cluster.settings import ClusterSettings
    from pyjms_provider.stores.sql.cluster import ClusterFacts

_log = logging.getLogger(__name__)
_LISTEN_S: Final = 1.0
_BEATS: Final = 5
"""How many heartbeats there are in one lease."""
_CLOCK_ERROR_MS: Final = 1_000
_NAME_TAKEN_MS: Final = 2_000
"""How long a start waits for the sessions of an earlier process of the same name to end, after the lease for which members are taken to be alive when the
database was started again."""
_RETRY_MS: Final = 100
_Found = TypeVar("_Found")


class Listener:
    """Waits for changes of the tables, on the connection that holds the lock of an incarnation, until that is lost."""

    def __init__(self, lock: HeldMembership, name: str, changed: Callable[[], None]) -> None:
        """`changed` is called on the listener's thread, and must not block."""
        self._member_lock = lock
        self._changed = changed
        self._is_closing = False
        self.is_lost = False
        """Whether the connection, and so the lock, is lost."""
        self._thread = Thread(target=self._run, name=f"pyjms listening {name}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._is_closing:
                if self._member_lock.await_changes(_LISTEN_S):
                    self._changed()
        except StoreError as error:
            _log.info("the connection that holds a member's lock was lost: %s", error.reason)
        finally:
            self.is_lost = True
            self._member_lock.release()
            self._changed()

    def begin_close(self) -> None:
        """Release the lock with the next change, or within a second."""
        self._is_closing = True

    def join(self) -> None:
        """Wait until the lock is released."""
        self._thread.join(_LISTEN_S * 5)


class Membership:
    """The incarnation of this process. One thread at a time, but any thread reads `incarnation`."""

    def __init__(
        self,
        database: ControlTables,
        settings: ClusterSettings,
        clock: Clock,
        changed: Callable[[], None],
        cancelled: Signal | None = None,
    ) -> None:
        """Not joined yet.

        Args:
            database: The control tables.
            settings: Those of the member.
            clock: For all waits.
            changed: Is called after each change of the tables, on any thread; it must not block.
            cancelled: Ends the waits of the start when it is raised.
        """
        self._database = database
        self._settings = settings
        self._clock = clock
        self._changed = changed
        self._listener: Listener | None = None
        self._incarnation: str | None = None
        self._last: str | None = None
        """The last incarnation, whose row may still be there."""
        self._beat_ms = 0.0
        """When the last heartbeat was sent that was written."""
        self._now_s = seconds_since_boot(clock)
        self._taken_over_s = 0.0
        """When the other members take this one for dead at the earliest, unless it writes another heartbeat, by `_now_s`."""
        store = settings.broker.store
        self._start_until_ms = clock.monotonic_ms() + (0 if store is None else store.wait_ms)
        """How long a start waits for the database."""
        self._cancelled = cancelled or Signal()
        self._has_told = False
        """Whether the log has told that the start waits."""

    @property
    def incarnation(self) -> str | None:
        """The incarnation; None: it is no member now."""
        return self._incarnation

    @property
    def is_overdue(self) -> bool:
        """Whether no heartbeat could be written for longer than the lease: the others may take it for dead."""
        return self._clock.monotonic_ms() - self._beat_ms > self._settings.lease_ms

    @property
    def next_ms(self) -> float:
        """When the next heartbeat is due."""
        return self._beat_ms + self._settings.lease_ms / _BEATS

    def prepare(self) -> ClusterFacts:
        """Check clocks and facts, and make the tables that are missing. Raises `ClosedError`, `ClusterError`, `StoreError`."""
        try:
            return self.retry_until_reached(self._prepare)
        except WrongClusterError as error:
            raise ClusterError(error.reason) from error

    def _prepare(self) -> ClusterFacts:
        settings = self._settings
        self._check_clock()
        return self._database.prepare(
            shards=settings.shards, default_shards=SHARDS_DEFAULT, virtual_host=settings.virtual_host
        )

    def retry_until_reached(self, call: Callable[[], _Found]) -> _Found:
        """Return what a call of the start returns; repeat it while the database cannot be reached, for as long as the store's settings say.

        Raises:
            ClosedError: The start was cancelled.
            StoreError: It was not reached, or the call failed otherwise.
        """
        while True:
            try:
                return call()
            except UnavailableStoreError as error:
                if self._clock.monotonic_ms() >= self._start_until_ms:
                    raise
                if not self._has_told:
                    self._has_told = True
                    self.tell_unreached(error)
            self._pause()

    def tell_unreached(self, error: ProviderError) -> None:
        """Write to the log why the database cannot be reached."""
        _log.warning("PYJMS-CLUSTER-2 member %s does not reach its cluster: %s", self._settings.member, error.reason)

    def _pause(self) -> None:
        """Wait a moment before the start tries something again. Raises `ClosedError`."""
        if self._clock.wait(self._cancelled, self._clock.monotonic_ms() + _RETRY_MS):
            raise ClosedError(f"the start of member {self._settings.member} was cancelled")

    def _check_clock(self) -> None:
        error_ms = self._database.clock_error_ms()
        if abs(error_ms) > _CLOCK_ERROR_MS:
            raise ClusterError(
                f"this machine's clock is {abs(error_ms) / 1000:.1f} s {'ahead of' if error_ms > 0 else 'behind'} the database's: "
                "have both set by NTP, as messages expire by the clock of the member that leads their shard"
            )

    def join_first(self, address: str, run_id: str) -> None:
        """Join when the process starts: an earlier one of the same name may just be ending. Raises `ClosedError`, `ClusterError`, `StoreError`."""
        self.retry_until_reached(lambda: self._join_when_free(address, run_id))

    def _join_when_free(self, address: str, run_id: str) -> None:
        until_ms = self._clock.monotonic_ms() + self._settings.lease_ms + _NAME_TAKEN_MS
        while True:
            try:
                self.join(address, run_id)
            except TakenNameError as error:
                if self._clock.monotonic_ms() >= until_ms:
                    raise ClusterError(error.reason) from error
            else:
                return
            self._pause()

    def join(self, address: str, run_id: str) -> None:
        """Join with a new incarnation. Raises `ClusterError`, `StoreError`."""
        self._check_clock()
        incarnation = secrets.token_hex(8)
        begun_ms, begun_s = self._clock.monotonic_ms(), self._now_s()
        lock = self._database.hold(incarnation)
        assert lock is not None, "the incarnation is new"
        try:
            self._database.join(
                self._settings.member,
                incarnation,
                run_id=run_id,
                address=address,
                version=installed_version(),
                lease_ms=self._settings.lease_ms,
                replaces=self._last,
            )
        except BaseException:
            lock.release()
            raise
        self._listener = Listener(lock, self._settings.member, self._changed)
        self._note_beat(begun_ms, begun_s)
        self._incarnation = self._last = incarnation
        _log.info("PYJMS-CLUSTER-1 %s has joined cluster %s", self._settings.member, self._settings.name)

    def need(self) -> str:
        """Return the incarnation. Raises `ResourceError` if it is no member now."""
        found = self._incarnation
        if found is None:
            raise ResourceError(
                f"this member of cluster {self._settings.name} has not reached its database for too long; it is still tried"
            )
        return found

    def keep(self) -> bool:
        """Take the lock again if its connection was lost, and write the heartbeat if it is due. Raises `StoreError`.

        Returns:
            False if the others have taken this incarnation for dead.
        """
        incarnation = self.need()
        is_new = self._listener is None or self._listener.is_lost
        if is_new:
            lock = self._database.hold(incarnation)
            if lock is not None:
                self._listener = Listener(lock, self._settings.member, self._changed)
        now_ms, now_s = self._clock.monotonic_ms(), self._now_s()
        if is_new or now_ms >= self.next_ms:
            if not self._database.beat(incarnation):
                return False
            self._note_beat(now_ms, now_s)
        return True

    def _note_beat(self, begun_ms: float, begun_s: float) -> None:
        self._beat_ms = begun_ms
        self._taken_over_s = begun_s + self._settings.lease_ms / 1000

    def held_until_s(self, incarnation: str) -> float:
        """Return until when the stores that an incarnation has opened can be its own at most: others end its sessions then. Any thread."""
        return self._taken_over_s if self._incarnation == incarnation else -math.inf

    def lose(self) -> None:
        """Give the incarnation up."""
        self._incarnation = None
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.begin_close()

    def leave(self) -> None:
        """Delete the row, and release the lock. Raises `StoreError`; then the others see the end of the lock."""
        incarnation = self._incarnation
        listener = self._listener
        self.lose()
        try:
            if incarnation is not None:
                self._database.leave(incarnation)
        finally:
            if listener is not None:
                listener.join()

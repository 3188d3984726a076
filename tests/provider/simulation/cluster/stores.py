"""The simulated stores of shards: volatile journals that commit on the session which holds the store's advisory lock, as `PostgresqlDatabase` does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from pyjms.spi.clock import Signal
from pyjms.spi.errors import ClosedError, InDoubtError, ProviderError
from pyjms_provider.core.journal.journal import Changes, Journal, QueueNumber, QueueRecord, Recovery
from pyjms_provider.core.message.reference import ReferenceId
from pyjms_provider.stores.contract import StoreOpener, StoreRequest
from pyjms_provider.stores.errors import (
    HeldStoreError,
    LostStoreError,
    StoreError,
    UnavailableStoreError,
)
from pyjms_provider.stores.sql.database import Lease, LeaseMonitor
from pyjms_provider.stores.volatile import VolatileJournal
from tests.provider.simulation.cluster.cooperative import (
    Mutex,
    SimulatedClock,
    present_task,
)
from tests.provider.simulation.cluster.database import LostSessionError, Server, Session, Store

if TYPE_CHECKING:
    from pyjms.spi.envelope import Envelope
    from pyjms_provider.stores.configuration_contract import ConfigurationStore

_Result = TypeVar("_Result")
_ANSWER_MS: Final = 5_000
_SETTLE_MS: Final = 5_000
_RETRY_MS: Final = 100


class SimulatedStores(StoreOpener):
    """Opens the stores of shards for the hosts that ask."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def open_journal(self, request: StoreRequest) -> Journal:
        """Take the lock of a shard's store."""
        shard, _, incarnation = request.settings.url.removeprefix("simulated://").partition("/")
        return SimulatedJournal(self._server, self._server.stores[int(shard)], incarnation, request)

    def configuration_store(self, url: str) -> ConfigurationStore:
        """Refuse it."""
        raise NotImplementedError


class SimulatedJournal(VolatileJournal):
    """The journal of a shard: it commits on the session that holds the store's lock, as `PostgresqlDatabase` does."""

    def __init__(self, server: Server, store: Store, incarnation: str, request: StoreRequest) -> None:
        """Raises `HeldStoreError`, `UnavailableStoreError`."""
        self._host = present_task().host
        self._clock = SimulatedClock(server.scheduler, self._host)
        self._server = server
        self.store = store
        self._incarnation = incarnation
        self._on_lost = request.on_lost
        self._mutex = Mutex(server.scheduler)
        self._session: Session | None = None
        self._lost: LostStoreError | None = None
        self._closing = Signal()
        self._limit_ms = _ANSWER_MS
        self.lease = Lease(self._clock, request.settings.held_until_s)
        self.epoch: int | None = None
        try:
            self._hold()
            self.epoch = self._on_session(self._take)
        except LostSessionError as error:
            self._disconnect()
            raise UnavailableStoreError(str(error)) from error
        except Exception:
            self._disconnect()
            raise
        super().__init__(store.medium)
        self._medium.holder = None
        self._watch = LeaseMonitor(self._look, self._clock, name=str(store.number))
        self._watch.start()

    def _take(self) -> int:
        assert self.store.holder is self._session, "it was just locked"
        self.store.epoch += 1
        return self.store.epoch

    # The session

    def _on_session(self, act: Callable[[], _Result]) -> _Result:
        """Raises `LostSessionError`."""
        session = self._session
        assert session is not None, "it is connected"
        return self._server.execute(session, act, self._limit_ms)

    def _disconnect(self) -> None:
        self.lease.end()
        session, self._session = self._session, None
        # Of a host that is cut off, the server learns nothing.
        if session is not None and not session.host.is_cut:
            self._server.end(session)

    def _acquire(self) -> bool:
        """Connect, and take the lock. Raises `LostSessionError`, `LostStoreError`."""
        former = self._session
        self._disconnect()
        session = self._server.connect(self._host, self._incarnation)
        try:
            is_free = self._server.execute(session, lambda: self.store.try_lock(session), self._limit_ms)
            self._check_epoch(session)
            if not is_free and former is not None:
                self._server.execute(session, lambda: self._server.end(former), self._limit_ms)
        except (LostSessionError, LostStoreError):
            if not self._host.is_cut:
                self._server.end(session)
            raise
        if is_free:
            self._session = session
        elif not self._host.is_cut:
            self._server.end(session)
        return is_free

    def _acquire_again(self) -> None:
        if not self._acquire():
            raise UnavailableStoreError("the store's lock is not free yet")

    def _ready(self) -> None:
        if self._session is None:
            self._acquire_again()

    def _check_epoch(self, session: Session) -> None:
        epoch = self._server.execute(session, lambda: self.store.epoch, self._limit_ms)
        if self.epoch is not None and epoch != self.epoch:
            raise LostStoreError("another broker has held the store since then")

    def _hold(self) -> None:
        if not self._acquire():
            raise HeldStoreError(f"the store of shard {self.store.number} is held")

    # Writing

    @property
    def is_held(self) -> bool:  # type: ignore[override]
        """Whether the lease lasts."""
        return self.lease.is_valid

    def recover(self, progress: Callable[[int], None]) -> Recovery:
        """Read all at once."""
        try:
            return self._on_session(lambda: super(SimulatedJournal, self).recover(progress))
        except LostSessionError as error:
            raise UnavailableStoreError(str(error)) from error

    def write(self, changes: Changes, *, force: bool) -> None:
        """Commit, and find out what became of a commit that was not answered."""
        whole = changes.with_envelopes(self.read)
        with self._mutex:
            batch = [*self._noted, whole]
            noted = len(self._noted)
            self._perform(lambda session, number: self.store.apply(session, number, batch))
            del self._noted[:noted]

    def _perform(self, act: Callable[[Session, int], None]) -> None:
        """Do something once on the session that holds the lock. Raises `StoreError`, `InDoubtError`, `ClosedError`."""
        if self._lost is not None:
            raise self._lost
        if self._closed:
            raise ClosedError("the store is closed")
        begun_s = self.lease.now_s()
        number = self._server.scheduler.turns * 1000 + len(self.store.written)

        def once() -> None:
            session = self._session
            assert session is not None, "it is connected"
            if number not in self.store.written:
                act(session, number)
                self.store.written.add(number)

        try:
            try:
                self._ready()
            except LostSessionError as error:
                raise UnavailableStoreError(str(error)) from error
            try:
                self._on_session(partial(self._as_holder, self._session, once))
            except LostSessionError as error:
                self._settle(once, error)
        except ProviderError as error:
            self._look_for_loss(error)
            raise
        self.lease.renew(begun_s)

    def _as_holder(self, session: Session | None, once: Callable[[], None]) -> None:
        # A statement that comes late is made on the session that it was sent on.
        assert session is not None, "it is connected"
        assert self.store.holder is session, "a session without the lock has written"
        present, self._session = self._session, session
        try:
            once()
        finally:
            self._session = present

    def _settle(self, once: Callable[[], None], cause: Exception) -> None:
        scheduler = self._server.scheduler
        until_ms = scheduler.now_ms + _SETTLE_MS
        while True:
            try:
                self._acquire_again()
                self._on_session(partial(self._as_holder, self._session, once))
            except LostStoreError as error:
                raise InDoubtError(f"{error.reason}; it is not known whether the last changes were written") from error
            except (LostSessionError, UnavailableStoreError):
                self._disconnect()
            else:
                return
            if scheduler.wait(self._closing, min(until_ms, scheduler.now_ms + _RETRY_MS)):
                self._closing.set()
                break
            if scheduler.now_ms >= until_ms:
                break
        raise InDoubtError(f"it is not known whether the changes were written: {cause}") from cause

    def _look_for_loss(self, error: ProviderError) -> None:
        lost = error.__cause__ if isinstance(error, InDoubtError) else error
        if isinstance(lost, LostStoreError) and self._lost is None:
            self._lost = lost
            self._on_lost(lost)

    def confirm(self) -> None:
        """Ask the server."""
        self.write(Changes(), force=False)

    def read(self, ids: Sequence[ReferenceId]) -> dict[ReferenceId, Envelope]:
        """Read at once."""
        if self._lost is not None or self._closed:
            raise ClosedError("the store is closed")
        return super().read(ids)

    def define_queue(self, record: QueueRecord) -> QueueNumber:
        """Write the row of a queue."""
        found: list[QueueNumber] = []

        def define(_: Session, __: int) -> None:
            found.append(super(SimulatedJournal, self).define_queue(record))

        with self._mutex:
            self._perform(define)
        return found[-1]

    def drop_queue(self, number: QueueNumber) -> None:
        """Delete a queue."""
        with self._mutex:
            self._perform(lambda *_: super(SimulatedJournal, self).drop_queue(number))

    # The lease

    def _look(self) -> None:
        """Do as `SqlJournal` and `PostgresqlDatabase.look` do."""
        if self._mutex.is_taken:
            self.lease.extend(self.lease.now_s())
            return
        with self._mutex:
            if self._lost is not None or self._closed:
                return
            begun_s = self.lease.now_s()
            try:
                self._ready()
                if not self._is_there():
                    self._acquire_again()
            except LostSessionError:
                self._disconnect()
                return
            except StoreError as error:
                self._look_for_loss(error)
                return
            self.lease.renew(begun_s)

    def _is_there(self) -> bool:
        session = self._session
        assert session is not None, "it is connected"
        if self.lease.is_valid:
            # The socket alone: a host that is cut off is told of no end.
            return session.host.is_cut or not session.is_ended
        try:
            self._on_session(lambda: None)
        except LostSessionError:
            return False
        return True

    # The end

    def hasten(self) -> None:
        """End waits."""
        self._limit_ms = 1_000
        self._closing.set()

    def close(self, *, clean: bool) -> None:
        """Write what was noted if the store is held, and release it."""
        self.hasten()
        self._watch.stop()
        with self._mutex:
            if self._closed:
                return
            if self._lost is None and self._session is not None:
                with suppress(LostSessionError):
                    self._on_session(partial(self._end, self._session, clean=clean))
            self._closed = True
            self._disconnect()

    def _end(self, session: Session, *, clean: bool) -> None:
        if self.store.holder is not session:
            return
        for noted in self._noted:
            self._medium.apply(noted)
        self._noted.clear()
        self._medium.is_clean = clean
        if clean:
            self._medium.marks.clear()

"""The broker in this process, and the register of running brokers, by name."""

from __future__ import annotations

import atexit
import logging
import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import count
from threading import Lock, Thread, get_ident
from typing import TYPE_CHECKING, Final

from pyjms.spi.clock import Clock, Signal, SystemClock
from pyjms.spi.envelope import ConnectionId
from pyjms.spi.errors import (
    AccessDeniedError,
    ClosedError,
    ConnectionLostError,
    ProgramEndsError,
    ProviderError,
    ResourceError,
    UrlError,
)
from pyjms_provider.core.host.restoring import restore_host
from pyjms_provider.core.host.virtual_host import VirtualHost
from pyjms_provider.core.journal.storage_manager import StorageManager
from pyjms_provider.core.message.reference import ReferenceId
from pyjms_provider.core.store import MemoryMessageStore, PagingMessageStore
from pyjms_provider.core.transaction.registered_clients import IN_PROCESS, ClientUser
from pyjms_provider.forks import forget_in_children
from pyjms_provider.housekeeping import ScheduledTasks
from pyjms_provider.security.contracts import Operation, Target, TargetKind
from pyjms_provider.settings import DEFAULT_MEMORY, Acknowledge, BrokerSettings, StandBy
from pyjms_provider.stores.errors import LostStoreError, UnavailableStoreError
from pyjms_provider.stores.file_lock import RETRY_MS
from pyjms_provider.stores.opening import open_store, open_temporary_file
from pyjms_provider.stories.log import StoryLog
from pyjms_provider.stories.settings import StoryLevel

if TYPE_CHECKING:
    from uuid import UUID

    from pyjms.spi.provider import ConnectionEvents, ConnectRequest, ProviderConnection
    from pyjms_provider.core.host.message_mover import OnExpired
    from pyjms_provider.core.journal.journal import Journal
    from pyjms_provider.core.scheduled import Scheduled
    from pyjms_provider.core.store import MessageStore
    from pyjms_provider.security.contracts import AccessPolicy, Principal
    from pyjms_provider.stores.temporary_file import TemporaryFile

ConnectHere = Callable[["ConnectRequest", "ConnectionEvents"], "ProviderConnection"]

__all__ = [
    "Client",
    "ConnectHere",
    "EmbeddedBroker",
    "find_broker",
    "inherited_broker",
    "running_broker",
    "serve_in_process",
    "served_host",
    "stop_all_brokers",
    "stop_broker",
]

_log = logging.getLogger(__name__)
_STOPPING_S: Final = 60.0
"""The time for which a connection waits until the broker of that name has stopped: a commit may be waiting for a server."""
_LOOK_S: Final = 0.1
"""The interval at which a waiting thread checks by itself: of several waiting threads, a signal wakes one."""
_PROGRESS_MS: Final = 1000  # a start shorter than this is not logged


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A connection, as observers of the broker see it."""

    handle: object
    """The connection itself."""
    since_ms: int
    """When it was opened, in milliseconds since 1970 UTC."""
    user: str = ""
    """Empty: no log-in, as within one process."""
    address: str = ""
    """The client's address; empty: this process."""
    protocol: str = "vm"
    principal: Principal | None = None
    """The user that logged in; None: no log-in."""
    access: AccessPolicy | None = None
    """The access policy for the client; None: no checks."""
    port: UUID | None = None
    """The id of the port of the connection; None: no port."""


class EmbeddedBroker:
    """A broker that runs in this process, from its first connection until `stop`. Safe to use from any thread."""

    def __init__(
        self,
        name: str,
        clock: Clock,
        settings: BrokerSettings | None = None,
        *,
        journal: Journal | None = None,
        cancelled: Signal | None = None,
        on_expired: OnExpired | None = None,
    ) -> None:
        """Start a broker; with a store, recover its contents. May wait for the disk.

        `journal`: replaces the store that the settings name; `cancelled`: ends the wait of a stand-by broker;
        `on_expired`: that of the connection for which it is started. Raises `ResourceError`, `MissingProviderError`.
        """
        self.name = name
        self.clock = clock
        self.settings = settings or BrokerSettings()
        # Ids stay unique when a broker of the same name is started again, here or elsewhere.
        self.run_id = uuid.uuid4().hex[:12]
        """Identifies this run of the broker among all runs."""
        self._numbers = count(1)
        self._lock = Lock()
        self._stopped = False
        self._has_started = False
        self._lost: ProviderError | None = None
        """Why the store no longer belongs to this broker."""
        self._has_left = False
        self._on_left: list[Callable[[ProviderError], None]] = []
        self._on_stop: dict[ConnectionId, Callable[[ConnectionLostError], None]] = {}
        self._clients: dict[ConnectionId, Client] = {}
        self._scheduled_tasks = ScheduledTasks(name, clock)
        self._journal = journal
        self._temporary_file: TemporaryFile | None = None
        self._first_watch = on_expired
        self.stories: StoryLog | None = None
        """The record of the messages' lives; None: there is none."""
        # A start that fails closes all open files: the store would stay locked by this process otherwise.
        with ExitStack() as undo:
            undo.callback(self._close_open)
            self.virtual_host = self._take_over(cancelled or Signal())
            self._begin_serving()
            undo.pop_all()
        forget_in_children(self)

    def forget(self) -> None:
        """Stop serving, in a forked child: it has a copy of the messages, but none of the threads."""
        refusal = _of_parent(self.name)
        # A new lock: another thread may have held the old one at the fork, and is not in the child.
        self._lock, self._stopped, self._lost = Lock(), True, ResourceError(refusal)
        self._on_stop, self._clients = {}, {}
        self._scheduled_tasks.forget()
        self.virtual_host.refusal = refusal

    @property
    def refusal(self) -> ConnectionLostError:
        """The error that calls of its connections raise in a forked process."""
        return ConnectionLostError(_of_parent(self.name))

    def __repr__(self) -> str:
        return f"<EmbeddedBroker {self.name}>"

    def _take_over(self, cancelled: Signal) -> VirtualHost:
        """Open the store, and return a host with its contents.

        A stand-by broker may lose the store's server again before it has read all, as its failure is what ends most holders: it waits on then.
        Any broker waits for a server as long as its settings say.
        """
        store = self.settings.store if self._journal is None else None
        has_opened = False
        logged: type[ProviderError] | None = None
        until_ms = self.clock.monotonic_ms() + (0 if store is None else store.wait_ms)
        while True:
            try:
                if store is not None:
                    self._journal = open_store(
                        store, self.name, self.clock, on_lost=self.lose_store, cancelled=cancelled
                    )
                return self._open_all()
            # Other errors are final: waiting does not repair a wrong schema or a damaged file.
            except (UnavailableStoreError, LostStoreError) as error:
                has_opened = has_opened or self._journal is not None  # otherwise the URL may be wrong
                stands_by = store is not None and store.stand_by is StandBy.WAIT and has_opened
                if not stands_by and self.clock.monotonic_ms() >= until_ms:
                    raise
                # Once for each kind of error: the attempts may go on for hours.
                if type(error) is not logged:
                    _log.warning(
                        "PYJMS-BROKER-27 broker %s could not take its store over, and waits on: %s",
                        self.name,
                        error.reason,
                    )
                logged = type(error)
            self._undo_take_over()
            if self.clock.wait(cancelled, self.clock.monotonic_ms() + RETRY_MS):
                raise ClosedError("the wait for the store was cancelled")

    def _open_all(self) -> VirtualHost:
        self.stories = self._open_stories()
        host = self._open_host()
        # The store may have been lost while it was read; before `_has_started` no listener is told.
        with self._lock:
            lost = self._lost
        if lost is not None:
            raise lost
        return host

    def _undo_take_over(self) -> None:
        """Undo a take-over that has failed."""
        self._close_open()
        self._journal, self.stories, self._lost = None, None, None
        self._scheduled_tasks = ScheduledTasks(self.name, self.clock)

    def _close_open(self) -> None:
        """Close all open files of a broker that does not serve."""
        self._scheduled_tasks.stop()
        if self.stories is not None:
            self.stories.close()
        if self._journal is not None:
            # Not clean: this broker has served no client, and the delivery marks of the last one must stay.
            self._journal.close(clean=False)
        if self._temporary_file is not None:
            self._temporary_file.close()

    def _open_host(self) -> VirtualHost:
        settings, journal, store_id = self.settings, self._journal, f"{self.name}-{self.run_id}"
        stories = None if self.stories is None else self.stories.buffer
        if journal is None:
            paging = settings.paging
            if paging is None:
                return self._make_host(MemoryMessageStore(store_id), None)
            self._temporary_file = pages = open_temporary_file(paging)
            bounded = PagingMessageStore(
                store_id,
                pages,
                last_id=ReferenceId(0),
                memory_bytes=paging.memory_bytes,
                stories=stories,
                is_reliable=False,
            )
            return self._make_host(bounded, None)
        journal.keeps_transient = settings.policy.keep_transient
        recovery = journal.recover(self._progress_logger())
        chosen = settings.store
        # New ids are greater than all that the journal knows, as ids are never reused.
        store = PagingMessageStore(
            store_id,
            journal,
            last_id=recovery.last_id,
            memory_bytes=DEFAULT_MEMORY if chosen is None else chosen.memory_bytes,
            stories=stories,
        )
        forced = chosen is not None and chosen.acknowledge is Acknowledge.FORCED
        storage = StorageManager(
            journal, store, self.clock, force_acknowledgements=forced, schedule=self._scheduled_tasks.schedule
        )
        host = self._make_host(store, storage)
        restored = restore_host(host, journal, store, recovery)
        if restored.messages:
            _log.info(
                "PYJMS-BROKER-1 broker %s has recovered %d messages, %d of which may have been seen before",
                self.name,
                restored.messages,
                restored.redelivered,
            )
        if restored.in_doubt:
            _log.warning(
                "PYJMS-BROKER-11 broker %s has %d prepared transactions in doubt; their coordinator settles them when it "
                "recovers, and you can: pyjms manage list URL transaction, or virtual_host.branches in the broker's program",
                self.name,
                restored.in_doubt,
            )
        return host

    def _begin_serving(self) -> None:
        """Begin to report events and losses to connections. Raises `ResourceError` if the store was lost meanwhile."""
        # From here on: recovery is no part of a message's life.
        if self.stories is not None:
            self.stories.buffer.begin()
        # In one step with reading `_lost`: a loss is either seen here, or finds the broker started and stops it.
        with self._lock:
            self._has_started = True
            lost = self._lost
        if lost is not None:
            self.stop()
            raise lost

    def _make_host(self, store: MessageStore, storage: StorageManager | None) -> VirtualHost:
        host = VirtualHost(
            self.name,
            store,
            self.clock,
            policy=self.settings.policy,
            schedule=self._scheduled_tasks.schedule,
            storage=storage,
            stories=None if self.stories is None else self.stories.buffer,
        )
        if self._first_watch is not None:
            host.expiries.add_first(self._first_watch)
        return host

    def _open_stories(self) -> StoryLog | None:
        chosen = self.settings.story
        if chosen is None or chosen.level is StoryLevel.OFF:
            return None
        return StoryLog(self.name, self.run_id, self.clock, chosen, self._who)

    def _who(self, connection_id: str) -> Mapping[str, str] | None:
        # Without the lock: one look-up, for a name in the log.
        client = self._clients.get(ConnectionId(connection_id))
        return None if client is None else _facts_of(client)

    def _progress_logger(self) -> Callable[[int], None]:
        """Return a callback for the number of recovered entries, which writes to the log once a second."""
        next_ms = self.clock.monotonic_ms() + _PROGRESS_MS

        def progress(entries: int) -> None:
            nonlocal next_ms
            if self.clock.monotonic_ms() >= next_ms:
                next_ms += _PROGRESS_MS
                _log.warning("PYJMS-BROKER-2 broker %s is starting: %d messages so far", self.name, entries)

        return progress

    def schedule(self, task: Scheduled, at_ms: int) -> None:
        """Schedule a call of `task` at `at_ms`, in milliseconds since 1970 UTC. Any thread; never blocks."""
        self._scheduled_tasks.schedule(task, at_ms)

    def attach(
        self, lose: Callable[[ConnectionLostError], None], handle: object = None, on_expired: OnExpired | None = None
    ) -> ConnectionId:
        """Register a connection, which `lose` ends when the broker stops; return its id. Raises `ClosedError`.

        `handle`: the connection itself, for observers. `on_expired`: as in `ConnectRequest`.
        """
        connection_id = ConnectionId(f"{self.name}-{self.run_id}-{next(self._numbers)}")
        # In one step: a connection that is not refused here is in the table that `_stop` iterates over.
        with self._lock:
            if self._stopped:
                why = "has been stopped" if self._lost is None else f"has lost its store: {self._lost.reason}"
                raise ClosedError(f"broker {self.name} {why}")
            self._on_stop[connection_id] = lose
            self._clients[connection_id] = Client(handle=handle, since_ms=self.clock.time_ms())
        if on_expired is not None:
            self.virtual_host.expiries.add(connection_id, on_expired)
        return connection_id

    def describe(
        self,
        connection_id: ConnectionId,
        *,
        user: str,
        address: str,
        protocol: str,
        principal: Principal | None = None,
        access: AccessPolicy | None = None,
        port: UUID | None = None,
    ) -> None:
        """Describe the client of a connection, for observers. Ignored once it has closed.

        `principal`, `access`, `port`: for management by messages, which acts with the rights of the sender.
        """
        with self._lock:
            found = self._clients.get(connection_id)
            if found is not None:
                self._clients[connection_id] = replace(
                    found, user=user, address=address, protocol=protocol, principal=principal, access=access, port=port
                )

    def clients(self) -> dict[ConnectionId, Client]:
        """Return the present connections."""
        with self._lock:
            return dict(self._clients)

    def client_user(self, connection_id: ConnectionId) -> ClientUser:
        """Return the user of a connection, for registered clients: an administrator of the virtual host may use those of all users."""
        client = self.clients().get(connection_id)
        if client is None or client.principal is None or client.access is None:
            return IN_PROCESS
        host = Target(kind=TargetKind.VIRTUAL_HOST, name=self.name, virtual_host=self.name)
        try:
            client.access.check(client.principal, Operation.ADMINISTER, host, connection_id)
        except AccessDeniedError:
            return ClientUser(client.user, False)
        return ClientUser(client.user, True)

    def end_connection(self, connection_id: ConnectionId, reason: str) -> bool:
        """End a connection, with the reason for its client; return False if there is none. May wait."""
        with self._lock:
            # Taken out under the lock, so that a connection is told once, here or by the end of the broker.
            lose = self._on_stop.pop(connection_id, None)
        if lose is not None:
            # Without the lock, as it closes the connection, which calls `detach`.
            lose(ConnectionLostError(reason))
        return lose is not None

    def detach(self, connection_id: ConnectionId) -> None:
        """Forget a connection that has closed. May be repeated."""
        with self._lock:
            self._on_stop.pop(connection_id, None)
            client = self._clients.pop(connection_id, None)
        self.virtual_host.expiries.remove(connection_id)
        if client is not None and self.stories is not None:
            self.stories.remember(connection_id, _facts_of(client))

    @property
    def has_stopped(self) -> bool:
        """Whether it has stopped serving, or is just stopping."""
        return self._stopped

    def stop(self, *, program_ends: bool = False) -> None:
        """End all connections, each with one notification, and release the store. May be repeated.

        The next connection to its name starts another broker, as after `stop_broker`. program_ends: the reason of the end, which is no loss to report.
        """
        kept = "its messages are gone" if self._journal is None else "what was sent PERSISTENT is in its store"
        # Its name stays taken until the store is free: a connection made now waits for that.
        with _ending(self.name, self):
            kind = ProgramEndsError if program_ends else ConnectionLostError
            self._stop(kind(f"broker {self.name} was stopped, and {kept}"))

    def _stop(self, error: ConnectionLostError) -> None:
        is_first = is_certain = False
        try:
            with self._lock:
                if self._stopped:
                    return
                self._stopped = is_first = True
                connections = list(self._on_stop.values())
                self._on_stop.clear()
            if self._journal is not None:
                # Before connections are ended: their threads may be writing,
                # and would wait for a server that does not answer.
                self._journal.hasten()
            for lose in connections:
                lose(error)
            self._scheduled_tasks.stop()
            if self.stories is not None:
                self.stories.close()  # before the host drops its messages, which does not end their lives
            storage = self.virtual_host.storage
            if storage is not None:
                # Clients' threads may be writing still; the journal must not close under them.
                storage.end()
                is_certain = self._lost is None and storage.in_doubt_writes.settle()
            self.virtual_host.close()
        finally:  # no later call would release the store
            if is_first and self._journal is not None:
                # Messages held in doubt are delivered again, and need the marks for the redelivered flag.
                self._journal.close(clean=is_certain)
            if is_first and self._temporary_file is not None:
                self._temporary_file.close()

    def lose_store(self, error: ProviderError) -> None:
        """Stop serving: the store has another holder, or no longer exists. Does not wait, as any thread may have detected the loss.

        Nothing is written any more, as after the death of the process.
        """
        with self._lock:
            self._lost = error
            if not self._has_started:
                return  # the starting thread is told
        _log.error("PYJMS-BROKER-3 broker %s has lost its store and stops: %s", self.name, error.reason)
        # On a thread of its own: the detecting thread may hold the right to write, for which the end would wait.
        Thread(target=self._leave, args=(error,), name=f"pyjms stopping {self.name}", daemon=True).start()

    def _leave(self, error: ProviderError) -> None:
        with _ending(self.name, self):
            self._stop(ConnectionLostError(f"broker {self.name} has lost its store: {error.reason}"))
        # After the end, so that listeners find a broker that has stopped serving.
        with self._lock:
            self._has_left = True
            listeners, self._on_left = self._on_left, []
        for listener in listeners:
            listener(error)

    def when_store_lost(self, listener: Callable[[ProviderError], None]) -> None:
        """Call `listener` once, when this broker has lost its store and has stopped serving; at once if it has already.

        It gets the reason, on a thread that must not be blocked.
        """
        with self._lock:
            if not self._has_left:
                self._on_left.append(listener)
                return
            lost = self._lost
        assert lost is not None, "only a lost store ends a broker in this way"
        listener(lost)


def _facts_of(client: Client) -> Mapping[str, str]:
    client_id = getattr(client.handle, "client_id", None) or ""
    facts = {"user": client.user, "address": client.address, "protocol": client.protocol, "client_id": client_id}
    return {name: value for name, value in facts.items() if value}


class _Place:
    """The place of a name in the register: its broker runs, or is being started by the first thread, or stopped by another one."""

    def __init__(self) -> None:
        self.broker: EmbeddedBroker | None = None
        """The broker, once it runs."""
        self.failure: ProviderError | None = None
        """Why it was not started."""
        self.cancelled = Signal()
        self.stopper: int | None = None
        """The thread that stops it; None: none."""
        self.changed = Signal()
        """Raised when the broker has been started or stopped, or that has failed; one of the waiting threads is woken."""

    def await_start(self) -> EmbeddedBroker | ProviderError:
        """Return the broker once it runs, or why it was not started."""
        # With a limit: of several waiting threads a signal wakes one, and the others check by themselves.
        while (found := self.broker or self.failure) is None:
            self.changed.wait(_LOOK_S)
        return found


_lock = Lock()
_running: dict[str, _Place] = {}
_inherited: set[str] = set()
"""The names of the brokers that ran in the parent process at the fork."""
_served: dict[str, list[ConnectHere]] = {}
"""The clustered virtual hosts that this process serves, by name: what opens a connection, for each member; the longest running one first."""


def serve_in_process(name: str, connect: ConnectHere) -> Callable[[], None]:
    """Have connections to ``vm://NAME`` opened by `connect`, until the returned function is called: the host is in no broker of that name."""
    with _lock:
        _served.setdefault(name, []).append(connect)

    def end() -> None:
        with _lock:
            members = _served.get(name, [])
            if connect in members:
                members.remove(connect)
            if not members:
                _served.pop(name, None)

    return end


def served_host(name: str, settings: BrokerSettings | None) -> ConnectHere | None:
    """Return what opens connections to the clustered virtual host `name`; None: this process has no member that serves it.

    `settings`: those of a URL; raises `ResourceError` if there are any.
    """
    with _lock:
        found = next(iter(_served.get(name, ())), None)
    if found is not None and settings is not None:
        raise ResourceError(
            f"a member of a cluster in this process serves the virtual host {name}, as its configuration says: leave the URL's options out"
        )
    return found


def inherited_broker(name: str) -> str | None:
    """Return why the broker `name` is not available, and what to use instead, if it belongs to the parent process of a fork."""
    return _of_parent(name) if name in _inherited and name not in _running else None


def _of_parent(name: str) -> str:
    return (
        f"broker {name} lives in the process that this one was forked from, and nobody else reaches it: use a broker that is served, "
        "as pyjms broker run --listen stomp://127.0.0.1:61613 --anonymous, or one of this process under another name"
    )


def find_broker(
    name: str, clock: Clock, settings: BrokerSettings | None, on_expired: OnExpired | None = None
) -> EmbeddedBroker:
    """Return the broker `name`, started now if it does not run. `settings` None: those of the running one, or the default.

    `on_expired`: the caller's callback, which also gets the messages that expire while the broker is started.

    A broker keeps the clock and the settings with which it was started: `ResourceError` for others, except the
    system's clock. Raises `ResourceError` and `MissingProviderError` when its store cannot be opened.

    Waits while the broker is started, or stopped: `ResourceError` if that takes a minute, or is done by this very thread.
    `UrlError` for a broker of the process that has forked this one, unless the store itself refuses that.
    """
    refusal = inherited_broker(name)
    # With a store of its own the child may start a broker: the store's lock shows whether the parent has it.
    if refusal is not None and (settings is None or settings.store is None):
        raise UrlError(refusal)
    while True:
        # Made before the look-up, so that the first thread takes the name in one step.
        own = _Place()
        with _lock:
            place = _running.setdefault(name, own)
            stopper = place.stopper
        if place is own:
            # Without the register's lock: a start may take minutes, and other brokers are looked up meanwhile.
            return _start(name, clock, settings, own, on_expired)
        if stopper is None:
            break
        _await_end(name, stopper, place)
    broker = place.await_start()
    if isinstance(broker, ProviderError):
        raise broker
    # With two clocks a message could expire before it was sent (decision 0106).
    if clock is not broker.clock and not isinstance(clock, SystemClock):
        raise ResourceError(
            f"broker {name} runs by another clock; stop it first, or connect with the clock that it was started with"
        )
    if settings is not None and settings != broker.settings:
        raise ResourceError(f"broker {name} runs with other options than the URL's; stop it first, or leave them out")
    return broker


def _start(
    name: str, clock: Clock, settings: BrokerSettings | None, place: _Place, on_expired: OnExpired | None
) -> EmbeddedBroker:
    """Start a broker in its place of the register; if that fails, free the place, and wake the waiting threads with the reason."""
    failure: ProviderError = ResourceError(f"broker {name} was not started; connect again")
    try:
        broker = place.broker = EmbeddedBroker(name, clock, settings, cancelled=place.cancelled, on_expired=on_expired)
    except ProviderError as error:
        failure = error
        raise
    finally:
        # The place is freed first: a thread that gets the reason connects again, and must find none.
        if place.broker is None:
            with _lock:
                if _running.get(name) is place:
                    del _running[name]
            place.failure = failure
        place.changed.set()
    return broker


def _await_end(name: str, stopper: int, place: _Place) -> None:
    # This thread is inside `stop`, perhaps in an exception listener, and would wait for itself.
    if stopper == get_ident():
        raise ResourceError(f"broker {name} is just being stopped by this very thread; connect when it has done so")
    left_s = _STOPPING_S
    while _is_stopping(name, stopper, place):
        if left_s <= 0:
            raise ResourceError(f"broker {name} is still being stopped; connect again when that has ended")
        place.changed.wait(min(_LOOK_S, left_s))
        left_s -= _LOOK_S


def _is_stopping(name: str, stopper: int, place: _Place) -> bool:
    with _lock:
        return _running.get(name) is place and place.stopper == stopper


@contextmanager
def _ending(name: str, broker: EmbeddedBroker | None = None) -> Iterator[_Place | None]:
    """Make connections to a broker wait until it has been stopped here and has released its store.

    Yields None if it does not run, if another thread stops it already, or if it is not `broker`.
    """
    found: _Place | None = None
    try:
        with _lock:
            place = _running.get(name)
            # One thread stops it; another one with the same request finds nothing to do.
            if place is not None and place.stopper is None and (broker is None or place.broker is broker):
                place.stopper = get_ident()
                found = place
        yield found
    finally:
        if found is not None:
            _end(name, found)


def _end(name: str, place: _Place) -> None:
    """Free a place whose broker this thread has stopped, and wake the threads that wait for that."""
    with _lock:
        if place.broker is not None and not place.broker.has_stopped:
            place.stopper = None  # a second signal interrupted the wait for its start: it runs on
        elif _running.get(name) is place:
            del _running[name]
    place.changed.set()


def running_broker(name: str) -> EmbeddedBroker | None:
    """Return the broker `name` if it runs."""
    with _lock:
        found = _running.get(name)
        return None if found is None or found.stopper is not None else found.broker


def stop_broker(name: str, *, program_ends: bool = False) -> None:
    """Stop the broker `name`; the next connection starts a new one, when this one has released its store.

    Does nothing if it does not run, or is being stopped. program_ends: see `EmbeddedBroker.stop`.
    """
    with _ending(name) as found:
        if found is None:
            return
        # This also stops a broker that waits for its store as a stand-by.
        found.cancelled.set()
        broker = found.await_start()
        if isinstance(broker, EmbeddedBroker):
            broker.stop(program_ends=program_ends)


@atexit.register
def stop_all_brokers() -> None:
    """Stop every broker of this process in order: those with a store need no recovery check at the next start."""
    # A copy, as stopping a broker takes its name out.
    with _lock:
        names = list(_running)
    for name in names:
        stop_broker(name, program_ends=True)


def _after_fork_in_child() -> None:
    """Leave the brokers to the process that runs them: a child that ends would close their stores under its parent."""
    global _lock, _running, _served
    # Remembered, so that a child that names one of them gets the reason, and not an empty broker.
    _inherited.update(_running, _served)
    _lock, _running, _served = Lock(), {}, {}  # a thread that is not in the child may have held the lock


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)

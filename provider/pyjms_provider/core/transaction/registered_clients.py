"""The registered clients of a virtual host, with the tags of their last committed requests and replies (`pyjms.spi.sessions`).

The tags of a unit of work are written with its commit, or with the prepare of its branch. A client's record follows the unit: it is
replaced when the unit is COMMITTED, and stays when the unit is ROLLED_BACK. Until the unit is one of both, nobody can register as the
client, as the answer is not known.

Locks: each client has a turn, a lock held by one thread while it writes the record; the table's lock guards the table and the records,
for a few steps.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from pyjms.spi.errors import (
    AccessDeniedError,
    InDoubtError,
    ProviderError,
    RegistrationError,
    RolledBackError,
    SupersededError,
)
from pyjms.spi.sessions import RegisteredClient, check_client_name, check_tags
from pyjms_provider.core.journal.in_doubt_writes import is_outcome_unknown
from pyjms_provider.core.journal.journal import Changes, ClientChanges, ClientRecord
from pyjms_provider.core.transaction.unit_of_work import UnitState

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock
    from pyjms.spi.envelope import ConnectionId
    from pyjms.spi.sessions import ClientTags
    from pyjms_provider.core.journal.journal import Journal
    from pyjms_provider.core.journal.storage_manager import RunsWork
    from pyjms_provider.core.scheduled import Scheduled
    from pyjms_provider.core.transaction.unit_of_work import UnitOfWork

_log = logging.getLogger(__name__)

_T = TypeVar("_T")

DEFAULT_CLIENTS_MAX: Final = 10_000
_UNDECIDED: Final = (UnitState.COMMITTING, UnitState.PREPARED)
_AGAIN_MS: Final = 1000
"""The interval until the timer thread tries a busy client again."""


class ClientUser(NamedTuple):
    """The user of a connection that names a client."""

    name: str
    """"": a program in the broker's process."""
    may_use_all: bool
    """Whether clients that other users have registered may be used, too."""


IN_PROCESS: Final = ClientUser("", True)
"""The user of a program in the broker's process."""


class _Client:
    __slots__ = ("connection", "is_gone", "pending", "record", "turn")

    def __init__(self, record: ClientRecord) -> None:
        self.record = record
        self.connection: ConnectionId | None = None
        """The connection that has used it last, while that is open."""
        self.pending: list[tuple[UnitOfWork, ClientRecord]] = []
        """Units whose tags are being written, prepared or in doubt, each with the record that its commit makes true."""
        self.turn = Lock()
        self.is_gone = False
        """Whether it was deregistered or forgotten, for threads that waited for its turn."""


class RegisteredClients:
    """The registered clients of one host. Safe to use from any thread."""

    def __init__(
        self,
        clock: Clock,
        journal: Journal | None,
        work: RunsWork,
        *,
        clients_max: int = DEFAULT_CLIENTS_MAX,
        forget_after_ms: int = 0,
        schedule: Callable[[Scheduled, int], None] | None = None,
    ) -> None:
        """`work`: as `VirtualHost.work`. `forget_after_ms`: a client without a connection is forgotten after this time; 0: never.
        `schedule` asks for a call of `run_due`, as in `Queue`.
        """
        self._clock = clock
        self._journal = journal
        self._work = work
        self._clients_max = clients_max
        self._forget_after_ms = forget_after_ms
        self._schedule = schedule
        self._lock = Lock()
        self._clients: dict[str, _Client] = {}

    # Registering

    def register(self, name: str, user: ClientUser, connection: ConnectionId | None) -> RegisteredClient:
        """Register, as `PersistentSessions.register` says. Waits for the journal."""
        check_client_name(name)
        while True:
            with self._lock:
                client = self._clients.get(name)
                if client is None:
                    self._check_room()
                    # Without a record in the journal until its first write: until then no other thread sees it as registered.
                    client = self._clients[name] = _Client(_new_record(name, user.name))
            with client.turn:
                # Deregistered, or refused by the journal, while this thread waited for its turn: the next round makes it again.
                if not client.is_gone:
                    return self._work(partial(self._register, client, user, connection))

    def _check_room(self) -> None:
        if len(self._clients) >= self._clients_max:
            raise RegistrationError(
                f"{self._clients_max} clients are registered here, and no more are allowed: deregister those that never come back, or "
                "have the broker's owner raise the limit"
            )

    def _register(self, client: _Client, user: ClientUser, connection: ConnectionId | None) -> RegisteredClient:
        with self._lock:
            before = client.record
            _check_owner(before, user)
            self._follow_units(client)
            self._check_settled(client)
            before = client.record
            now_ms = self._clock.time_ms()
            record = replace(before, incarnation=before.incarnation + 1, registered_ms=now_ms, left_ms=None)
        is_new = not before.incarnation
        try:
            self._write(ClientChanges(put=[record]))
        except Exception as error:
            if is_outcome_unknown(error):
                undo = ClientChanges(dropped=[record.name]) if is_new else ClientChanges(put=[before])
                self._note(undo)
            if is_new:
                self._remove(client)
            raise
        with self._lock:
            client.record, client.connection = record, connection
        return _report(record)

    def deregister(self, name: str, user: ClientUser) -> None:
        """Forget a client, as `PersistentSessions.deregister` says. Waits for the journal."""
        client = self._find(name)
        with client.turn:
            self._work(partial(self._deregister, client, user))

    def _deregister(self, client: _Client, user: ClientUser) -> None:
        with self._lock:
            if client.is_gone:
                raise _unknown(client.record.name)
            _check_owner(client.record, user)
            self._follow_units(client)
            self._check_settled(client)
        dropped = ClientChanges(dropped=[client.record.name])
        try:
            self._write(dropped)
        except Exception as error:
            if not is_outcome_unknown(error):
                raise
            # It may be gone from the store, so it goes here, too.
            self._note(dropped)
            self._remove(client)
            raise
        self._remove(client)

    def _remove(self, client: _Client) -> None:
        with self._lock:
            client.is_gone = True
            if self._clients.get(client.record.name) is client:
                del self._clients[client.record.name]

    # Tags

    def check(self, tags: ClientTags, connection: ConnectionId, user_of: Callable[[], ClientUser]) -> None:
        """Check tags that a session of `connection` sets, and count the client as connected by it. Raises `RegistrationError`.

        `user_of` is called if the client is not that connection's already.
        """
        check_tags(tags)
        client = self._find(tags.name)
        is_known = client.connection == connection
        user = None if is_known else user_of()
        with self._lock:
            if user is not None:
                _check_owner(client.record, user)
            _check_incarnation(client, tags)
            if user is not None:
                # The client has lost its connection, and goes on in this one.
                client.connection, client.record = connection, replace(client.record, left_ms=None)

    def commit(self, unit: UnitOfWork, act: Callable[[], _T]) -> _T:
        """Return the result of `act`, which commits a unit that has tags, or prepares it. Raises `RolledBackError` in place of it if
        the client has registered again since.
        """
        tags = unit.tags
        assert tags is not None, "it has tags"
        try:
            client = self._find(tags.name)
        except RegistrationError as error:
            raise _rolled_back(unit, error) from error
        with client.turn, self._tags_pending(client, unit, tags):
            return act()

    @contextmanager
    def _tags_pending(self, client: _Client, unit: UnitOfWork, tags: ClientTags) -> Iterator[None]:
        with self._lock:
            self._follow_units(client)
            try:
                _check_incarnation(client, tags)
                self._check_settled(client)
            except ProviderError as error:
                raise _rolled_back(unit, error) from error
            before = client.record
            record = _tagged(before, tags, self._clock.time_ms())
            unit.client_changes = ClientChanges(put=[record], before=[before])
            client.pending.append((unit, record))
        try:
            yield
        finally:
            with self._lock:
                self._follow_units(client)
                # A branch may have been refused before its prepare began: it changes nothing here.
                if unit.state not in _UNDECIDED:
                    client.pending = [each for each in client.pending if each[0] is not unit]

    def _follow_units(self, client: _Client) -> None:
        """Apply the tags of units that have been committed, and drop those of units that were rolled back. The lock is held."""
        for unit, record in tuple(client.pending):
            if unit.state is UnitState.COMMITTED:
                # Only the tags: the connection may have ended since the commit began.
                client.record = replace(
                    client.record,
                    request_tag=record.request_tag,
                    request_ms=record.request_ms,
                    reply_tag=record.reply_tag,
                    reply_ms=record.reply_ms,
                )
            elif unit.state is not UnitState.ROLLED_BACK:
                continue
            client.pending.remove((unit, record))

    def _check_settled(self, client: _Client) -> None:
        """Raise `InDoubtError` while a unit with the client's tags is prepared or in doubt. The lock is held."""
        if client.pending:
            unit = client.pending[0][0]
            how = (
                "is prepared: have its coordinator, or an operator, settle it"
                if unit.is_prepared
                else "was written without an answer: try again in a second"
            )
            raise InDoubtError(f"{unit} has tags of client {client.record.name!r}, and {how}")

    # The connections of clients

    def end_connection(self, connection: ConnectionId) -> None:
        """Note that a connection has ended. Does not wait. May be repeated."""
        if not self._clients:
            return
        now_ms = self._clock.time_ms()
        with self._lock:
            left = [client for client in self._clients.values() if client.connection == connection]
            for client in left:
                client.connection = None
                client.record = replace(client.record, left_ms=now_ms)
        if left:
            # Deferred: if the broker dies before it is written, its next start counts as the end of the connection.
            self._note(ClientChanges(left=[(client.record.name, now_ms) for client in left]))
            self._ask(now_ms)

    def run_due(self, now_ms: int) -> int | None:
        """Forget clients that have been without a connection for too long; return when to call again, in wall-clock ms; None: when asked."""
        if not self._forget_after_ms:
            return None
        with self._lock:
            late = [client for client in self._clients.values() if self._is_late(client, now_ms)]
        busy = [client for client in late if not self._try_to_forget(client, now_ms)]
        with self._lock:
            left = [client.record.left_ms for client in self._clients.values() if client.connection is None]
        due_ms = min((each for each in left if each is not None), default=None)
        if due_ms is None:
            return None
        return max(due_ms + self._forget_after_ms, now_ms + _AGAIN_MS if busy else 0)

    def _is_late(self, client: _Client, now_ms: int) -> bool:
        left_ms = client.record.left_ms
        return client.connection is None and left_ms is not None and left_ms + self._forget_after_ms <= now_ms

    def _try_to_forget(self, client: _Client, now_ms: int) -> bool:
        """Forget a client that is still late; return False while a thread writes its record, or its tags are prepared or in doubt."""
        # The timer thread serves the whole broker, and must not wait for a disk.
        if not client.turn.acquire(blocking=False):
            return False
        try:
            with self._lock:
                self._follow_units(client)
                if client.pending:
                    return False
                if client.is_gone or not self._is_late(client, now_ms):
                    return True
            # Deferred, as the timer thread must not wait for the journal; a crash before that only repeats it.
            self._note(ClientChanges(dropped=[client.record.name]))
            self._remove(client)
        finally:
            client.turn.release()
        _log.warning(
            "PYJMS-BROKER-28 client %r was forgotten with its tags, as it had no connection for %d ms",
            client.record.name,
            self._forget_after_ms,
        )
        return True

    def _ask(self, left_ms: int) -> None:
        if self._forget_after_ms and self._schedule is not None:
            self._schedule(self, left_ms + self._forget_after_ms)

    # Queries

    def reports(self, user: ClientUser = IN_PROCESS) -> list[RegisteredClient]:
        """Return the clients that a user may see, by name."""
        with self._lock:
            for client in self._clients.values():
                self._follow_units(client)
            records = [client.record for client in self._clients.values() if client.record.incarnation]
        visible = [each for each in records if user.may_use_all or each.owner == user.name]
        return [_report(record) for record in sorted(visible, key=lambda each: each.name)]

    def owner_of(self, name: str) -> str:
        """Return the user who registered a client. Raises `RegistrationError`."""
        return self._find(name).record.owner

    def _find(self, name: str) -> _Client:
        with self._lock:
            client = self._clients.get(name)
        if client is None or not client.record.incarnation:
            raise _unknown(name)
        return client

    # Restoring from a journal

    def restore(self, record: ClientRecord) -> None:
        """Restore a client; before the host is used."""
        if record.left_ms is None:
            # It was connected when the broker died, and so it was until now.
            now_ms = self._clock.time_ms()
            record = replace(record, left_ms=now_ms)
            self._note(ClientChanges(left=[(record.name, now_ms)]))
        assert record.left_ms is not None
        self._clients[record.name] = _Client(record)
        self._ask(record.left_ms)

    def restore_prepared(self, unit: UnitOfWork, record: ClientRecord) -> None:
        """Restore the tags of a prepared branch; after the clients."""
        client = self._clients.get(record.name)
        if client is not None:
            client.pending.append((unit, record))

    # Writing

    def _write(self, changes: ClientChanges) -> None:
        if self._journal is not None:
            self._journal.write(Changes(clients=changes), force=True)

    def _note(self, changes: ClientChanges) -> None:
        if self._journal is not None:
            self._journal.note(Changes(clients=changes))


def _new_record(name: str, owner: str) -> ClientRecord:
    # Incarnation 0 is that of a client whose first registration is being written.
    return ClientRecord(name=name, generation=uuid.uuid4().hex, incarnation=0, owner=owner, registered_ms=0)


def _tagged(record: ClientRecord, tags: ClientTags, now_ms: int) -> ClientRecord:
    if tags.request is not None:
        record = replace(record, request_tag=tags.request, request_ms=now_ms)
    if tags.reply is not None:
        record = replace(record, reply_tag=tags.reply, reply_ms=now_ms)
    return record


def _report(record: ClientRecord) -> RegisteredClient:
    return RegisteredClient(
        name=record.name,
        generation=record.generation,
        incarnation=record.incarnation,
        request_tag=record.request_tag,
        request_ms=record.request_ms,
        reply_tag=record.reply_tag,
        reply_ms=record.reply_ms,
        registered_ms=record.registered_ms,
        left_ms=record.left_ms,
    )


def _check_owner(record: ClientRecord, user: ClientUser) -> None:
    if not user.may_use_all and record.owner != user.name:
        raise AccessDeniedError(f"client {record.name!r} was registered by another user: choose another name")


def _check_incarnation(client: _Client, tags: ClientTags) -> None:
    if client.is_gone:
        raise _unknown(tags.name)
    if client.record.incarnation != tags.incarnation:
        raise SupersededError(
            f"client {tags.name!r} has registered again since, in another program or run: end one of the two"
        )


def _unknown(name: str) -> RegistrationError:
    return RegistrationError(
        f"there is no registered client {name!r}: it never registered, was deregistered, or was without a connection for too long"
    )


def _rolled_back(unit: UnitOfWork, error: ProviderError) -> RolledBackError:
    return RolledBackError(f"{unit} was rolled back: {error.reason}")

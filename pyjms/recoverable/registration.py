"""The register of a client at the broker: kept by the queue manager, or, at other brokers, a message in a queue of its own."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from pyjms.api.producer import DeliveryMode
from pyjms.errors import JMSException
from pyjms.recoverable.client_log import ClientLogException, LogEntry, Register, SessionTakenException
from pyjms.recoverable.persistent_session import PersistentSession
from pyjms.spi.clock import Signal
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import InDoubtError, ProviderError, SupersededError

if TYPE_CHECKING:
    from pyjms.api.message import Message
    from pyjms.api.session import Session
    from pyjms.recoverable.client_log import ClientLog
    from pyjms.runtime.session import JmsSession

_PAUSE_MS = 100
_FIRST_LOOK_MS = 1_000
"""How long a client that never registered looks for a register: one that lost its log has one."""


class Registration(ABC):
    """One client's register, used within the transactions of one session. Not for several threads."""

    register: Register
    """As of the last known commit."""

    @abstractmethod
    def enter(self, log: ClientLog) -> LogEntry:
        """Register again, as the only client of this name; return the log's entry.

        Raises `ClientLogException` when log and register are of different registrations, `SessionTakenException` when
        another program's unfinished transaction holds the register all the time.
        """

    @abstractmethod
    def take(self) -> Register:
        """Return the register, which the present transaction may replace. Raises `SessionTakenException`."""

    @abstractmethod
    def put(self, register: Register) -> None:
        """Have the commit store the register. Raises `SessionTakenException`."""

    @abstractmethod
    def commit(self) -> None:
        """Commit the transaction. Raises `SessionTakenException`."""


def registration_of(session: Session, client: str, patience_ms: int) -> Registration:
    """Return the client's registration: with the queue manager if it has such registers, otherwise as a message."""
    if PersistentSession.is_supported(session):
        return StoredRegistration(session, client, patience_ms)
    return MessageRegistration(session, client, patience_ms)


class MessageRegistration(Registration):
    """A register that is a message in a queue of its own, for providers without persistent sessions."""

    def __init__(self, session: Session, client: str, patience_ms: int) -> None:
        queue = session.create_queue(_queue_of(client))
        self._session = session
        self._client = client
        self._patience_ms = patience_ms
        # The register is a message: a transaction that has received it locks out all other programs of this name
        # (decision 0920).
        self._consumer = session.create_consumer(queue)
        self._producer = session.create_producer(queue)
        self._producer.delivery_mode = DeliveryMode.PERSISTENT
        self.register = Register(session="", incarnation=0)

    def enter(self, log: ClientLog) -> LogEntry:
        entry = log.read(self._client)
        is_known = entry is not None and entry.registered
        # A dead predecessor's connection may hold the register until the broker notices, so a client that has a
        # register waits for it.
        found = self._take(self._patience_ms if is_known else min(_FIRST_LOOK_MS, self._patience_ms))
        # The log gets the session's name before the register is made, so that a crash in between leaves a log that fits
        # the later register.
        if entry is None:
            entry = LogEntry(client=self._client, session=found.session if found else str(uuid.uuid4()))
            log.write(entry)
        if found is None:
            # A known client has a register somewhere; making a second one would let two programs run as one client.
            if entry.registered:
                raise SessionTakenException(
                    f"the register of client {self._client!r} did not come within {self._patience_ms} ms: it is in a transaction of "
                    "another program, or the broker has lost its messages. In that case delete the client's log entry"
                )
            found = Register(session=entry.session, incarnation=0)
        if found.session != entry.session:
            raise ClientLogException(
                f"the log of client {self._client!r} belongs to another registration than the one at the broker: use the log "
                "that it was made with, or another name"
            )
        self.put(replace(found, incarnation=found.incarnation + 1))
        # Two programs that register for the first time at once both find none; the second check finds both registers,
        # and refuses.
        if self._consumer.receive_no_wait() is not None:
            self._session.rollback()
            raise ClientLogException(
                f"there are two registers of client {self._client!r}: leave one in pyjms.registered.{self._client}"
            )
        self.commit()
        # Written after the commit: before, the entry would make the next run wait for a register that may not exist.
        entry = replace(entry, registered=True)
        log.write(entry)
        return entry

    def take(self) -> Register:
        found = self._take(self._patience_ms)
        # A successor has written a higher number: this process is the predecessor, and must not commit.
        if found is None or found.incarnation != self.register.incarnation:
            raise SessionTakenException(
                f"another program has registered as {self._client!r} since, or holds its register: end one of the two"
            )
        return found

    def put(self, register: Register) -> None:
        message = self._session.create_message()
        message.set_string_property("pyjms_session", register.session)
        message.set_long_property("pyjms_incarnation", register.incarnation)
        message.set_long_property("pyjms_request_number", register.request_number)
        message.set_string_property("pyjms_request_id", register.request_id)
        message.set_long_property("pyjms_reply_number", register.reply_number)
        message.set_string_property("pyjms_reply_id", register.reply_id)
        self._producer.send(message)
        self._next = register

    def commit(self) -> None:
        self._session.commit()
        # Only after the commit: on failure the register in memory must stay that of the last known commit.
        self.register = self._next

    def _take(self, patience_ms: int) -> Register | None:
        message = self._consumer.receive(patience_ms)
        return None if message is None else _read(message)


class StoredRegistration(Registration):
    """A register that the queue manager keeps: the tags of a persistent session, each a number and an id."""

    def __init__(self, session: Session, client: str, patience_ms: int) -> None:
        self._session = session
        self._client = client
        self._patience_ms = patience_ms
        self._persistent: PersistentSession | None = None
        self.register = self._next = Register(session="", incarnation=0)

    def enter(self, log: ClientLog) -> LogEntry:
        entry = log.read(self._client)
        persistent = self._persistent = self._enter()
        generation = persistent.client.generation
        self.register = Register(
            session=generation,
            incarnation=persistent.client.incarnation,
            **_numbered("request", persistent.last_request, self._client),
            **_numbered("reply", persistent.last_reply, self._client),
        )
        self._next = self.register
        is_strange = entry is not None and entry.registered and entry.session != generation
        former = None if self._has_tags else self._take_former(self._patience_ms if is_strange else _FIRST_LOOK_MS)
        if is_strange and (former is None or entry is None or entry.session != former.session):
            if persistent.client.incarnation == 1:
                # Made just now: it must not answer for the client when it comes with the right log.
                persistent.deregister()
            raise ClientLogException(
                f"the log of client {self._client!r} belongs to another registration than the one at the broker, which has lost its "
                "messages, or has forgotten the client, or is another one. Use the log that it was made with, or another name; if the "
                "broker no longer has the client's requests, delete its log entry"
            )
        if entry is None or not entry.registered or is_strange:
            # The log before the register that was a message: after a crash between the two the next run finds that message again.
            entry = replace(entry or LogEntry(client=self._client, session=""), session=generation, registered=True)
            log.write(entry)
        if former is not None:
            if former.request_number:
                self.put(replace(former, session=generation, incarnation=self.register.incarnation))
            self.commit()
        return entry

    @property
    def _has_tags(self) -> bool:
        return bool(self.register.request_number or self.register.reply_number)

    def _enter(self) -> PersistentSession:
        """Register; wait while a transaction with the client's tags is in doubt."""
        clock = cast("JmsSession", self._session).clock
        until_ms = clock.monotonic_ms() + self._patience_ms
        while True:
            try:
                return PersistentSession(self._session, self._client)
            except JMSException as error:
                if not isinstance(error.linked_exception, InDoubtError) or clock.monotonic_ms() >= until_ms:
                    raise
            clock.wait(Signal(), clock.monotonic_ms() + _PAUSE_MS)

    def _take_former(self, patience_ms: int) -> Register | None:
        """Receive the register that an earlier version of pyjms has made as a message, in the session's transaction; None: there is none."""
        name = _queue_of(self._client)
        try:
            found = cast("JmsSession", self._session).provider_session.has_destination(Address(AddressKind.QUEUE, name))
        except ProviderError:
            return None  # who made one had the right to read it
        if found is False:
            return None
        consumer = self._session.create_consumer(self._session.create_queue(name))
        try:
            message = consumer.receive(min(patience_ms, self._patience_ms))
        finally:
            consumer.close()
        return None if message is None else _read(message)

    def take(self) -> Register:
        return self.register

    def put(self, register: Register) -> None:
        persistent, known = self._persistent, self.register
        assert persistent is not None, "it was entered"
        try:
            if register.request_id != known.request_id:
                persistent.tag_request(f"{register.request_number} {register.request_id}")
            if register.reply_id != known.reply_id:
                persistent.tag_reply(f"{register.reply_number} {register.reply_id}")
        except JMSException as error:
            raise self._taken(error) from error
        self._next = register

    def commit(self) -> None:
        try:
            self._session.commit()
        except JMSException as error:
            raise self._taken(error) from error
        self.register = self._next

    def _taken(self, error: JMSException) -> JMSException:
        """Return the exception to raise in place of one that a tag, or the commit with it, has raised."""
        found = error.linked_exception
        if isinstance(found, SupersededError) or (found is not None and isinstance(found.__cause__, SupersededError)):
            return SessionTakenException(
                f"another program has registered as {self._client!r} since: end one of the two"
            )
        return error


def _numbered(what: str, tag: str | None, client: str) -> dict[str, Any]:
    """Return the fields of `Register` that a tag has."""
    if tag is None:
        return {}
    number, _, name = tag.partition(" ")
    if not (number.isascii() and number.isdigit() and name):
        raise ClientLogException(f"client {client!r} was registered by another kind of program: use another name")
    return {f"{what}_number": int(number), f"{what}_id": name}


def _queue_of(client: str) -> str:
    return f"pyjms.registered.{client}"


def _read(message: Message) -> Register:
    return Register(
        session=message.get_string_property("pyjms_session") or "",
        incarnation=message.get_long_property("pyjms_incarnation"),
        request_number=message.get_long_property("pyjms_request_number"),
        request_id=message.get_string_property("pyjms_request_id") or "",
        reply_number=message.get_long_property("pyjms_reply_number"),
        reply_id=message.get_string_property("pyjms_reply_id") or "",
    )

"""The client's place at the queue manager: a queue of its own that holds one message, the register.

Each transaction of the client takes the register and puts it back with the new ids in the same unit as the request or reply. So
the ids are those of committed transactions, whatever the provider is, and two programs of one name meet at one message.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

from pyjms.api.producer import DeliveryMode
from pyjms.recoverable.client_log import LogEntry
from pyjms.recoverable.errors import ClientLogException, SessionTakenException
from pyjms.recoverable.states import Register

if TYPE_CHECKING:
    from pyjms.api.message import Message
    from pyjms.api.session import Session
    from pyjms.recoverable.client_log import ClientLog

_FIRST_LOOK_MS = 1_000
"""How long a client that never registered looks for a register: one that lost its log has one."""


class Registration:
    """One client's register, used within the transactions of one session. Not for several threads."""

    def __init__(self, session: Session, client: str, patience_ms: int) -> None:
        queue = session.create_queue(f"pyjms.registered.{client}")
        self._session = session
        self._client = client
        self._patience_ms = patience_ms
        self._consumer = session.create_consumer(queue)
        self._producer = session.create_producer(queue)
        self._producer.delivery_mode = DeliveryMode.PERSISTENT
        self.register = Register(session="", incarnation=0)
        """As of the last commit that is known."""

    def enter(self, log: ClientLog) -> LogEntry:
        """Register again, as the only client of this name; return the log's entry.

        Raises `ClientLogException` when log and register are of different registrations, `SessionTakenException` when the
        register is in somebody's unfinished transaction all the time.
        """
        entry = log.read(self._client)
        is_known = entry is not None and entry.registered
        found = self._take(self._patience_ms if is_known else min(_FIRST_LOOK_MS, self._patience_ms))
        if entry is None:
            entry = LogEntry(client=self._client, session=found.session if found else str(uuid.uuid4()))
            log.write(entry)
        if found is None:
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
        if self._consumer.receive_no_wait() is not None:
            self._session.rollback()
            raise ClientLogException(
                f"there are two registers of client {self._client!r}: leave one in pyjms.registered.{self._client}"
            )
        self._session.commit()
        self.committed()
        entry = replace(entry, registered=True)
        log.write(entry)
        return entry

    def take(self) -> Register:
        """Take the register in the session's transaction. Raises `SessionTakenException`."""
        found = self._take(self._patience_ms)
        if found is None or found.incarnation != self.register.incarnation:
            raise SessionTakenException(
                f"another program has registered as {self._client!r} since, or holds its register: end one of the two"
            )
        return found

    def put(self, register: Register) -> None:
        """Put the register back, as it is to be after the commit."""
        message = self._session.create_message()
        message.set_string_property("pyjms_session", register.session)
        message.set_long_property("pyjms_incarnation", register.incarnation)
        message.set_long_property("pyjms_request_number", register.request_number)
        message.set_string_property("pyjms_request_id", register.request_id)
        message.set_long_property("pyjms_reply_number", register.reply_number)
        message.set_string_property("pyjms_reply_id", register.reply_id)
        self._producer.send(message)
        self._next = register

    def committed(self) -> None:
        """Hear that the transaction with the last `put` has committed."""
        self.register = self._next

    def _take(self, patience_ms: int) -> Register | None:
        message = self._consumer.receive(patience_ms)
        return None if message is None else _read(message)


def _read(message: Message) -> Register:
    return Register(
        session=message.get_string_property("pyjms_session") or "",
        incarnation=message.get_long_property("pyjms_incarnation"),
        request_number=message.get_long_property("pyjms_request_number"),
        request_id=message.get_string_property("pyjms_request_id") or "",
        reply_number=message.get_long_property("pyjms_reply_number"),
        reply_id=message.get_string_property("pyjms_reply_id") or "",
    )

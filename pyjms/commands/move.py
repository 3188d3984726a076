"""``pyjms move``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Final

import typer

from pyjms import (
    Connection,
    Message,
    MessageProducer,
    ResourceAllocationException,
    Session,
    TransactionRolledBackException,
)
from pyjms.commands.connecting import Login, check_queue, destination, queue
from pyjms.commands.options import AsJson, BrokerUrl, PasswordFile, QueueName, Selector, UserName
from pyjms.commands.reporting import CommandError, errors_told, progress, tables
from pyjms.commands.taking import can_browse, count_messages, take
from pyjms.forwarding.link import DUPLICATE_PROPERTIES
from pyjms.messages.properties import Properties
from pyjms.spi.clock import SystemClock
from pyjms.spi.errors import ResourceError
from pyjms.spi.terminal import escaped, note, put_json
from pyjms.spi.words import counted

__all__ = ["EXAMPLES", "move"]

EXAMPLES: Final = (
    "pyjms move stomp://127.0.0.1:61613 orders.failed orders",
    "pyjms move stomp://127.0.0.1:61613 orders archive --selector \"colour = 'red'\" --most 100",
    "pyjms move stomp://old:61613 orders orders --to-url stomp://new:61613",
)

_BATCH: Final = 100


def move(
    url: BrokerUrl,
    source: QueueName,
    target: Annotated[
        str,
        typer.Argument(help="Where to: queue:NAME, topic:NAME, or the name of a queue.", metavar="TO"),
    ],
    selector: Selector = None,
    most: Annotated[
        int | None, typer.Option(help="Move so many at most.", min=1, metavar="NUMBER", show_default=False)
    ] = None,
    to_url: Annotated[
        str | None, typer.Option(help="The broker of the other queue.", metavar="URL", show_default=False)
    ] = None,
    user: UserName = None,
    password_file: PasswordFile = None,
    as_json: AsJson = False,
) -> None:
    """Move the messages that are in a queue now to another one, or to another broker; the same user logs in to both.

    Within a broker each message is in one queue or the other, whatever happens. Between two brokers none is lost; those
    of the last transaction, 100 at most, may be in both when it breaks off. It breaks off when the other queue is full, with what fits moved, and says what is left. Exit code: 0 done, 1 it broke off, 2 it
    cannot be done as asked, 130 Ctrl-C.
    """
    with errors_told("move"):
        check_queue(source)
        if to_url is None and source.removeprefix("queue:") == target.removeprefix("queue:"):
            raise CommandError("both queues are the same; name another one, or another broker with --to-url")
        login = Login(user, password_file)
        with login.connect(url) as connection:
            if to_url is None:
                moved = _move(connection, source, connection, target, selector, most)
            else:
                with login.connect(to_url) as other:
                    moved = _move(connection, source, other, target, selector, most)
        if as_json:
            put_json({"from": source.removeprefix("queue:"), "to": target, "moved": moved})
        else:
            tables().print(f"[green]moved[/] {counted(moved, 'message')} to {escaped(target)}", soft_wrap=True)


def _move(
    connection: Connection, source: str, other: Connection, target: str, selector: str | None, most: int | None
) -> int:
    reading = connection.create_session(True, Session.SESSION_TRANSACTED)
    writing = reading if other is connection else other.create_session(True, Session.SESSION_TRANSACTED)
    connection.start()
    found = queue(reading, source)
    total = count_messages(reading, found, selector) if can_browse(connection) else None
    limit = most if total is None else min(total, most or total)
    producer = writing.create_producer(destination(writing, target))
    with progress("moving", limit) as bars:
        moving = _Moving(reading, writing, producer, lambda moved: bars.update(bars.task_ids[0], completed=moved))
        while not moving.go_through(lambda most: take(reading, found, selector, most), limit):
            for session in {reading, writing}:
                session.rollback()
    return moving.moved


class _Moving:
    """How many messages were moved, and how many go in one transaction: so many as the target has room for."""

    def __init__(
        self, reading: Session, writing: Session, producer: MessageProducer, tell: Callable[[int], object]
    ) -> None:
        """`reading` and `writing` are one session within a broker; `tell` hears after each full transaction how many were moved."""
        self.moved = 0
        self._reading = reading
        self._writing = writing
        self._producer = producer
        self._tell = tell
        self._batch = _BATCH

    def go_through(self, take_up_to: Callable[[int | None], Iterable[Message]], limit: int | None) -> bool:
        """Move what is there, up to the limit; False: a transaction was too large, must be rolled back, and the next ones are smaller."""
        sent = 0
        for message in take_up_to(None if limit is None else limit - self.moved):
            try:
                _send_on(self._producer, message)
            except ResourceAllocationException:
                if not sent:  # there is no room for one
                    self._tell_end(limit)
                    raise
                self._batch = sent
                return False
            sent += 1
            if sent == self._batch:
                if not self._commits(sent, limit):
                    return False
                sent = 0
                self._tell(self.moved)
        return self._commits(sent, limit)

    def _commits(self, sent: int, limit: int | None) -> bool:
        """Commit; return False if the target has room for less, which a broker far away says only now."""
        try:
            self._writing.commit()  # first: what is in both is better than what is in neither
        except TransactionRolledBackException as error:
            if not _is_full(error):
                raise
            if sent <= 1:
                self._tell_end(limit)
                raise
            self._batch = 1  # nobody knows how many fit, and each attempt counts as a delivery
            return False
        if self._writing is not self._reading:
            self._reading.commit()
        self.moved += sent
        return True

    def _tell_end(self, limit: int | None) -> None:
        left = "" if limit is None else f", and {limit - self.moved:,} were not"
        note(f"{counted(self.moved, 'message was', 'messages were')} moved before{left}")


def _is_full(error: TransactionRolledBackException) -> bool:
    """Say whether what made the transaction fail was a want of room."""
    cause = error.linked_exception
    return cause is not None and isinstance(cause.__cause__, ResourceError)


def _send_on(producer: MessageProducer, message: Message) -> None:
    """Send a received message as it is: with its mode, its priority, and what is left of its time.

    Without its sender's duplicate id, by which the broker would drop it where it has been before: the sender's own repetitions end there.
    """
    if isinstance(message, Properties):
        for name in DUPLICATE_PROPERTIES:
            message.drop_property(name)
    expiration = message.jms_expiration
    left_ms = 0 if expiration == 0 else max(1, expiration - int(SystemClock().time_ms()))
    producer.send(message, message.jms_delivery_mode, message.jms_priority, left_ms)

"""``pyjms move``."""

from __future__ import annotations

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
            tables().print(f"[green]moved[/] {moved:,} messages to {escaped(target)}", soft_wrap=True)


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
    moved, batch = 0, _BATCH

    def tell() -> None:
        left = "" if limit is None else f", and {limit - moved:,} were not"
        note(f"{moved:,} messages were moved before{left}")

    def commits(sent: int) -> bool:
        """Commit; return False if the target has room for less, which a broker far away says only now."""
        try:
            writing.commit()  # first: what is in both is better than what is in neither
        except TransactionRolledBackException as error:
            if not _is_full(error):
                raise
            if sent <= 1:
                tell()
                raise
            return False
        if writing is not reading:
            reading.commit()
        return True

    with progress("moving", limit) as bars:
        while True:
            sent = 0
            for message in take(reading, found, selector, None if limit is None else limit - moved):
                try:
                    _send_on(producer, message)
                except ResourceAllocationException:
                    if not sent:  # there is no room for one
                        tell()
                        raise
                    batch = sent
                    break
                sent += 1
                if sent == batch:
                    if not commits(sent):
                        batch = 1  # nobody knows how many fit, and each attempt counts as a delivery
                        break
                    moved, sent = moved + sent, 0
                    bars.update(bars.task_ids[0], completed=moved)
            else:
                if commits(sent):
                    return moved + sent
                batch = 1
            for session in {reading, writing}:
                session.rollback()


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

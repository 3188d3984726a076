"""``pyjms move``."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from pyjms import Connection, Session
from pyjms.commands.connecting import Login, check_queue, destination, queue
from pyjms.commands.moving import Moving, can_browse, count_messages, send_on, take, tells_left
from pyjms.commands.options import AsJson, AtMost, BrokerUrl, PasswordFile, QueueName, Selector, UserName
from pyjms.commands.reporting import CommandError, errors_told, progress, tables
from pyjms.spi.terminal import FAILED, escaped, put_json
from pyjms.spi.words import counted

EXAMPLES: Final = (
    "pyjms move stomp://127.0.0.1:61613 orders.failed orders",
    "pyjms move stomp://127.0.0.1:61613 orders archive --selector \"colour = 'red'\" --limit 100",
    "pyjms move stomp://old:61613 orders orders --to-url stomp://new:61613",
)


def move(
    url: BrokerUrl,
    source: QueueName,
    target: Annotated[
        str,
        typer.Argument(help="Where to: queue:NAME, topic:NAME, or the name of a queue.", metavar="TO"),
    ],
    selector: Selector = None,
    limit: AtMost = 0,
    to_url: Annotated[
        str | None, typer.Option(help="The broker of the other queue.", metavar="URL", show_default=False)
    ] = None,
    user: UserName = None,
    password_file: PasswordFile = None,
    as_json: AsJson = False,
) -> None:
    """Move the messages that are in a queue now to another one, or to another broker; the same user logs in to both.

    Within a broker each message is in one queue or the other, whatever happens. Between two brokers none is lost; those
    of the last transaction, 100 at most, may be in both when it breaks off. It breaks off when the other queue is full, with what fits moved, and says what is left. A paused
    queue hands out nothing. Exit code: 0 done, 1 it broke off or messages are left, 2 it cannot be done as asked, 130 Ctrl-C.
    """
    with errors_told("move"):
        check_queue(source)
        if to_url is None and source.removeprefix("queue:") == target.removeprefix("queue:"):
            raise CommandError("both queues are the same; name another one, or another broker with --to-url")
        login = Login(user, password_file)
        with login.connect(url) as connection:
            if to_url is None:
                moved, is_all = _move(connection, source, connection, target, selector, limit or None)
            else:
                with login.connect(to_url) as other:
                    moved, is_all = _move(connection, source, other, target, selector, limit or None)
        if as_json:
            put_json({"from": source.removeprefix("queue:"), "to": target, "moved": moved})
        else:
            tables().print(f"[green]moved[/] {counted(moved, 'message')} to {escaped(target)}", soft_wrap=True)
        if not is_all:
            raise typer.Exit(FAILED)


def _move(
    connection: Connection, source: str, other: Connection, target: str, selector: str | None, most: int | None
) -> tuple[int, bool]:
    """Return how many were moved, and whether nothing of what was to be moved is left."""
    reading = connection.create_session(True, Session.SESSION_TRANSACTED)
    writing = reading if other is connection else other.create_session(True, Session.SESSION_TRANSACTED)
    connection.start()
    found = queue(reading, source)
    total = count_messages(reading, found, selector) if can_browse(connection) else None
    limit = most if total is None else min(total, most or total)
    there = destination(writing, target)
    producer = writing.create_producer(None)
    with progress("moving", limit) as bars:
        moving = Moving(
            reading,
            writing,
            lambda message: send_on(producer, there, message),
            lambda moved: bars.update(bars.task_ids[0], completed=moved),
        )
        moving.go_through(lambda most: take(reading, found, selector, most), limit)
    return moving.moved, not tells_left(reading, found, selector, limit, moving.moved)

"""``pyjms browse``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Final

import typer

from pyjms import Connection, Message, Session
from pyjms.commands.bodies import add_message, message_table, message_to_json, show_message
from pyjms.commands.connecting import (
    AsJson,
    AtMost,
    BrokerUrl,
    Login,
    PasswordFile,
    QueueName,
    Selector,
    UserName,
    errors_told,
    queue,
    tables,
)
from pyjms.spi.terminal import note, put_json
from pyjms.spi.words import counted

if TYPE_CHECKING:
    from rich.table import Table

EXAMPLES: Final = (
    "pyjms browse stomp://127.0.0.1:61613 orders",
    "pyjms browse stomp://127.0.0.1:61613 orders --selector \"colour = 'red'\" --full",
    "pyjms browse stomp://127.0.0.1:61613 orders --limit 0 --json > orders.jsonl",
)


def browse(
    url: BrokerUrl,
    name: QueueName,
    selector: Selector = None,
    limit: AtMost = 100,
    full: Annotated[bool, typer.Option("--full", help="Show all of each message.")] = False,
    user: UserName = None,
    password_file: PasswordFile = None,
    as_json: AsJson = False,
) -> None:
    """Look at the messages of a queue; they stay there. With --json, one JSON document a line.

    Exit code: 0 done, also when there are none; 1 it broke off, 2 it cannot be done as asked, 130 Ctrl-C.
    """
    table = message_table()

    def show(message: Message) -> None:
        if as_json:
            put_json(message_to_json(message), is_line=True)
        elif full:
            show_message(tables(), message)
        else:
            add_message(table, message)

    with errors_told("browse"), Login(user, password_file).connect(url) as connection:
        show_queue(connection, name, selector, limit, show, table, as_json=as_json)


def show_queue(
    connection: Connection,
    name: str,
    selector: str | None,
    limit: int,
    show: Callable[[Message], None],
    table: Table,
    *,
    as_json: bool,
) -> None:
    """Call `show` with at most `limit` messages of a queue, 0: with all; then print `table`, and report how many there
    were.

    `as_json`: the reader is a program, which is only told that there are more.
    """
    session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
    connection.start()
    shown, is_more = 0, False
    with session.create_browser(queue(session, name), selector) as browser:
        for message in browser:
            # One message more than the limit is requested: it shows that there are more.
            if limit and shown == limit:
                is_more = True
                break
            shown += 1
            show(message)
    # A table is printed at the end, as the widths of its columns depend on all rows; other forms are printed at once.
    if table.row_count:
        tables().print(table)
    if is_more:
        note(f"there are more than these {shown:,}; see --limit", style="yellow")
    elif not as_json:
        note(counted(shown, "message"))

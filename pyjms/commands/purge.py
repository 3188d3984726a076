"""``pyjms purge``."""

from __future__ import annotations

import sys
from typing import Annotated, Final

import typer

from pyjms import Session
from pyjms.commands.connecting import Login, queue
from pyjms.commands.moving import can_browse, count_messages, take, tells_left
from pyjms.commands.options import AsJson, BrokerUrl, PasswordFile, QueueName, Selector, UserName
from pyjms.commands.reporting import CommandError, errors_told, progress, tables
from pyjms.spi.terminal import FAILED, note, put_json
from pyjms.spi.words import counted

EXAMPLES: Final = (
    "pyjms purge stomp://127.0.0.1:61613 orders",
    "pyjms purge stomp://127.0.0.1:61613 orders --selector \"colour = 'red'\" --yes",
)

_BATCH: Final = 100


def purge(
    url: BrokerUrl,
    name: QueueName,
    selector: Selector = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    user: UserName = None,
    password_file: PasswordFile = None,
    as_json: AsJson = False,
) -> None:
    """Remove the messages that are in a queue now, or those that a selector chooses. Asks before, unless --yes.

    A paused queue hands out nothing. Exit code: 0 done, 1 it broke off, was answered with no or left messages, 2 it cannot be done as asked, 130 Ctrl-C.
    """
    with errors_told("purge"):
        if not yes and not sys.stdin.isatty():
            raise CommandError("nobody is there to be asked; say --yes to remove the messages")
        with Login(user, password_file).connect(url) as connection:
            session = connection.create_session(False, Session.CLIENT_ACKNOWLEDGE)
            connection.start()
            source = queue(session, name)
            total = count_messages(session, source, selector) if can_browse(connection) else None
            many = "an unknown number of messages" if total is None else counted(total, "message")
            if total != 0 and not yes and not typer.confirm(f"Remove {many} from {name}?", err=True):
                note("nothing was removed")
                raise typer.Exit(FAILED)
            removed = 0
            with progress("removing", total) as bars:
                message = None
                for message in take(session, source, selector, total):
                    removed += 1
                    if removed % _BATCH == 0:
                        message.acknowledge()
                        bars.update(bars.task_ids[0], completed=removed)
                if message is not None:
                    message.acknowledge()
            is_left = tells_left(session, source, selector, total, removed)
        if as_json:
            put_json({"queue": name.removeprefix("queue:"), "removed": removed})
        else:
            tables().print(f"[green]removed[/] {counted(removed, 'message')}")
        if is_left:
            raise typer.Exit(FAILED)

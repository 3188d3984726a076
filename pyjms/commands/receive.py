"""``pyjms receive``."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from pyjms import Message, MessageConsumer, Session, Topic
from pyjms.commands.bodies import body_bytes, body_to_json, message_to_json, show_message, text_of, type_of
from pyjms.commands.connecting import (
    AsJson,
    BrokerUrl,
    CommandError,
    Login,
    PasswordFile,
    Selector,
    UserName,
    destination,
    errors_told,
    tables,
)
from pyjms.spi.arguments import span_ms
from pyjms.spi.terminal import FAILED, note, printable, put_json
from pyjms.spi.words import counted

EXAMPLES: Final = (
    "pyjms receive stomp://127.0.0.1:61613 orders",
    "pyjms receive stomp://127.0.0.1:61613 orders --count 0 --timeout 0 --json | jq .body",
    'pyjms receive vm://shop orders --selector "cups > 1" --count 10 --save inbox --transacted',
    "pyjms receive stomp://127.0.0.1:61613 topic:prices --durable desk --client-id trader-7 --count 0",
    "pyjms receive stomp://127.0.0.1:61613 topic:prices --shared desks --count 0 --timeout 0",
)

_ENDINGS: Final = {"text": "txt", "bytes": "bin", "map": "json", "stream": "json", "none": "txt"}


_Source = Annotated[
    str,
    typer.Argument(help="queue:NAME, topic:NAME, or the name of a queue.", metavar="DESTINATION", show_default=False),
]
_Count = Annotated[int, typer.Option(help="How many messages; 0: all that come.", min=0)]
_Timeout = Annotated[
    int,
    typer.Option(
        help="How long to wait for each message: 500ms, 30s, 5m; 0: for ever.",
        metavar="SPAN",
        parser=span_ms,
        show_default="10s",
    ),
]
_Durable = Annotated[
    str | None,
    typer.Option(help="Receive from this durable subscription of the topic.", metavar="NAME", show_default=False),
]
_Shared = Annotated[
    str | None,
    typer.Option(
        help="Divide the topic's messages with all who name this subscription; it ends with the last of them.",
        metavar="NAME",
        show_default=False,
    ),
]
_SharedDurable = Annotated[
    str | None,
    typer.Option(help="The same, of a subscription that stays.", metavar="NAME", show_default=False),
]
_ClientId = Annotated[str | None, typer.Option(help="Whose subscription it is.", metavar="ID", show_default=False)]
_Save = Annotated[
    Path | None,
    typer.Option(help="Write each body into a new file of this folder.", metavar="DIR", show_default=False),
]
_Transacted = Annotated[
    bool, typer.Option("--transacted", help="Take all of them at the end, or none if that is not reached.")
]
_Full = Annotated[bool, typer.Option("--full", help="Show header fields and properties too.")]


def receive(
    url: BrokerUrl,
    source: _Source,
    count: _Count = 1,
    timeout: _Timeout = 10_000,
    selector: Selector = None,
    durable: _Durable = None,
    shared: _Shared = None,
    shared_durable: _SharedDurable = None,
    client_id: _ClientId = None,
    save: _Save = None,
    transacted: _Transacted = False,
    full: _Full = False,
    user: UserName = None,
    password_file: PasswordFile = None,
    as_json: AsJson = False,
) -> None:
    """Take messages from a queue or a topic of any broker; with --json, one JSON document a line.

    A message is acknowledged after it was printed, or is safe in its file. Exit code: 0 all that were asked for came,
    1 too few came in time, or none with --count 0, or it broke off; 2 it cannot be done as asked; 130 Ctrl-C.
    """
    with errors_told("receive"):
        # Before the log-in, so that a command-line mistake asks for no password.
        if sum(each is not None for each in (durable, shared, shared_durable)) > 1:
            raise CommandError("a consumer has one subscription; give one of --durable, --shared and --shared-durable")
        if durable is not None and client_id is None:
            raise CommandError("a durable subscription belongs to a client; name it with --client-id")
        if save is not None:
            save.mkdir(parents=True, exist_ok=True)
        with Login(user, password_file).connect(url, client_id=client_id) as connection:
            # CLIENT_ACKNOWLEDGE: with AUTO_ACKNOWLEDGE a message would be acknowledged before it is printed or in its
            # file.
            session = connection.create_session(transacted, Session.CLIENT_ACKNOWLEDGE)
            consumer = _consumer(session, source, selector, durable, shared, shared_durable)
            connection.start()
            output = _Output(save, as_json=as_json, full=full)
            received = 0
            while not count or received < count:
                message = consumer.receive(timeout)
                if message is None:
                    break
                # First the output, then the acknowledgement: if the process dies in between, the message is
                # redelivered.
                output.put(message)
                if not transacted:
                    message.acknowledge()
                received += 1
            if transacted:
                session.commit()
        if received < max(count, 1):
            note(f"{counted(received, 'message')} came in time" if received else "nothing came in time", style="yellow")
            raise typer.Exit(FAILED)


def _consumer(
    session: Session,
    source: str,
    selector: str | None,
    durable: str | None,
    shared: str | None,
    shared_durable: str | None,
) -> MessageConsumer:
    found = destination(session, source)
    if durable is shared is shared_durable is None:
        return session.create_consumer(found, selector)
    if not isinstance(found, Topic):
        kind = "durable" if shared is None else "shared"
        raise CommandError(f"only topics have {kind} subscriptions; write topic:{source.removeprefix('queue:')}")
    if shared is not None:
        return session.create_shared_consumer(found, shared, selector)
    if shared_durable is not None:
        return session.create_shared_durable_consumer(found, shared_durable, selector)
    assert durable is not None, "one of the three is given"
    return session.create_durable_consumer(found, durable, selector)


class _Output:
    """Prints messages, and writes their bodies into files."""

    def __init__(self, folder: Path | None, *, as_json: bool, full: bool) -> None:
        self._folder = folder
        self._as_json = as_json
        self._full = full
        self._next = 1

    def put(self, message: Message) -> None:
        """Show a message; on return it is safe to acknowledge it."""
        file = None if self._folder is None else self._save(self._folder, message)
        if self._as_json:
            put_json(message_to_json(message) | ({} if file is None else {"file": str(file)}), is_line=True)
            return
        if self._full:
            show_message(tables(), message)
        elif file is not None:
            sys.stdout.write(f"{file}\n")
        # Raw bytes for a file or a program; they could control a terminal.
        elif type_of(message) == "bytes" and not sys.stdout.isatty():
            # The text layer has a buffer of its own, whose content must come before these bytes.
            sys.stdout.flush()
            sys.stdout.buffer.write(body_bytes(message) + b"\n")
        elif type_of(message) == "text" and not sys.stdout.isatty():
            sys.stdout.write(f"{body_bytes(message).decode('utf-8', 'replace')}\n")
        else:
            sys.stdout.write(f"{printable(text_of(body_to_json(message)))}\n")
        # Flushed before the message is acknowledged, as only this shows that the reader has closed the pipe.
        sys.stdout.flush()

    def _save(self, folder: Path, message: Message) -> Path:
        body = body_bytes(message)
        while True:
            path = folder / f"{self._next:06}.{_ENDINGS[type_of(message)]}"
            self._next += 1
            try:
                # x: an existing file is never overwritten, even if two commands save into one folder.
                with path.open("xb") as file:
                    file.write(body)
                    file.flush()
                    # On the disk before the acknowledgement removes the message at the broker.
                    os.fsync(file.fileno())
            except FileExistsError:
                continue
            return path

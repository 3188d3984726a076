"""The shared part of all commands: options, the log-in to a broker, destinations, and errors that end a command."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NoReturn, TypeAlias

import typer

from pyjms import (
    Connection,
    ConnectionFactory,
    Destination,
    IllegalArgumentException,
    InvalidClientIDException,
    InvalidDestinationException,
    InvalidSelectorException,
    JMSException,
    JMSSecurityException,
    MessageFormatException,
    Queue,
    Session,
    UnsupportedOperationException,
)
from pyjms.spi.arguments import NoPasswordError, read_password, span_ms
from pyjms.spi.credentials import CredentialsError
from pyjms.spi.terminal import CANNOT_BE_USED, FAILED, INTERRUPTED, complain, is_of_writing, note, on_one_line, results

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress


BrokerUrl: TypeAlias = Annotated[
    str,
    typer.Argument(help="The broker, such as stomp://127.0.0.1:61613.", metavar="URL", show_default=False),
]
QueueName: TypeAlias = Annotated[
    str, typer.Argument(help="The queue, as NAME or queue:NAME.", metavar="QUEUE", show_default=False)
]
UserName: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--user",
        help="Log in as this user. The password comes from PYJMS_PASSWORD, from --password-file, or is asked for.",
        metavar="NAME",
        envvar="PYJMS_USER",
        show_default=False,
    ),
]
PasswordFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(help="A file whose first line is the password.", metavar="FILE", show_default=False),
]
Selector: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Only the messages that this selector chooses: \"colour = 'red' AND size > 3\".",
        metavar="TEXT",
        show_default=False,
    ),
]
AtMost: TypeAlias = Annotated[
    int, typer.Option("--limit", help="So many messages at most; 0: all.", min=0, metavar="NUMBER")
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Idle: TypeAlias = Annotated[
    int, typer.Option(help="End when nothing has come for so long; 0: never.", metavar="SPAN", parser=span_ms)
]
Every: TypeAlias = Annotated[
    int,
    typer.Option(help="With --json: tell how it goes so often.", metavar="SPAN", parser=span_ms, show_default="10s"),
]


# The format of times on the command line: ``2030-01-31T12:00``.


def moment_ms(text: str) -> int:
    """Return a time in milliseconds since 1970 UTC; without a zone it is local. Raises `typer.BadParameter`."""
    # isdigit alone accepts digits that int() does not read, such as a superscript.
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError) as error:
        raise typer.BadParameter(
            f"{text!r} is no moment; write 2030-01-31T12:00, with Z or +01:00 after it for a zone"
        ) from error


_QUEUE, _TOPIC = "queue:", "topic:"
_SILENT = logging.NullHandler()
"""The logger of the client: the commands report its problems themselves."""
_BROKERS = ("pyjms_provider", "pyjms.store")
"""The logger of a broker in this process, as for a ``vm://`` URL: the progress of its start, and unreadable messages."""


class _Note(logging.Handler):
    """Prints a broker's warnings to standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        note(self.format(record), style="yellow")


_NOTE = _Note(logging.WARNING)


class Login:
    """Opens connections of one user; asks for the password at most once."""

    def __init__(self, user: str | None, password_file: Path | None) -> None:
        if user is None and password_file is not None:
            raise CommandError("--password-file goes with --user NAME")
        self._user = user
        self._file = password_file
        self._password: str | None = None

    def connect(self, url: str, *, client_id: str | None = None) -> Connection:
        """Return a stopped connection."""
        if self._user is not None and self._password is None:
            # Asked for at the first connection, and stored: a command that moves between two brokers asks once.
            self._password = read_password(self._user, self._file)
        # Without any handler, Python's logging prints warnings to standard error by itself. Adding the same handler
        # again changes nothing.
        logging.getLogger("pyjms").addHandler(_SILENT)
        # Only if the broker belongs to the command: warnings of another one in this process do not concern it.
        if url.startswith("vm:"):
            for name in _BROKERS:
                logging.getLogger(name).addHandler(_NOTE)
        factory = ConnectionFactory(url, client_id=client_id)
        try:
            connection = factory.create_connection(self._user, self._password)
        except JMSSecurityException as error:
            # If a user was given, the broker's own text says what is wrong.
            if self._user is not None:
                raise
            raise CommandError(f"{error}; a command logs in with --user NAME, or by the credentials file") from error
        # Before the connection is used, so that a loss is reported from the first call on.
        connection.exception_listener = _tell
        return connection


def _tell(problem: JMSException) -> None:
    """Report a problem that no running call reports: a connection was lost, and is being re-established."""
    note(" ".join(str(problem).split()), style="yellow")


def destination(session: Session, text: str) -> Destination:
    """Return the destination that ``queue:NAME``, ``topic:NAME`` or a bare name of a queue denotes. Raises
    `CommandError`.
    """
    if text.startswith(_TOPIC):
        return session.create_topic(_name(text.removeprefix(_TOPIC), text))
    return queue(session, text)


def queue(session: Session, text: str) -> Queue:
    """Return the queue that ``queue:NAME`` or a bare name denotes. Raises `CommandError`."""
    return session.create_queue(queue_name(text))


def queue_name(text: str) -> str:
    """Return the name of the queue that ``queue:NAME`` or a bare name denotes. Raises `CommandError`."""
    check_queue(text)
    return text.removeprefix(_QUEUE)


def check_queue(text: str) -> None:
    """Raise `CommandError` for a text that denotes no queue."""
    if text.startswith(_TOPIC):
        raise CommandError(f"{text} is a topic, and this is for queues: a topic keeps no messages; name a queue")
    _name(text.removeprefix(_QUEUE), text)


def _name(name: str, text: str) -> str:
    if not name:
        raise CommandError(f"{text!r} names no destination; write queue:NAME, topic:NAME, or the name of a queue")
    return name


_UNUSABLE_CODES: Final = frozenset({"PYJMS-URL", "PYJMS-PROVIDER", "PYJMS-CAPABILITY"})
"""Errors that are plain `JMSException` for programs, and permanent."""
_UNUSABLE: Final = (
    IllegalArgumentException,
    InvalidClientIDException,
    InvalidDestinationException,
    InvalidSelectorException,
    JMSSecurityException,
    MessageFormatException,
    UnsupportedOperationException,
)


class CommandError(Exception):
    """The request cannot be done; the text says what to do."""


@contextmanager
def errors_told(command: str) -> Iterator[None]:
    """Report an error in one line, and end the process with its code."""
    try:
        yield
    except OSError as error:
        if is_of_writing(error):
            raise  # reported where the process ends, for all commands
        _end(command, _text(error), CANNOT_BE_USED, error)
    except (CommandError, CredentialsError, NoPasswordError, *_UNUSABLE) as error:
        _end(command, _text(error), CANNOT_BE_USED, error)
    except JMSException as error:
        # Last, as most errors above are subclasses of JMSException.
        _end(command, _text(error), CANNOT_BE_USED if error.error_code in _UNUSABLE_CODES else FAILED, error)
    except KeyboardInterrupt as error:
        _end(command, "stopped; what was not acknowledged or committed stays with the broker", INTERRUPTED, error)


def _text(error: BaseException) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return on_one_line(str(error)) or type(error).__name__


def _end(command: str, text: str, code: int, cause: BaseException) -> NoReturn:
    complain(f"pyjms {command}", text)
    raise typer.Exit(code) from cause


def tables() -> Console:
    """Return a console that prints tables for people."""
    return results()


@contextmanager
def progress(what: str, total: int | None) -> Iterator[Progress]:
    """Show the progress of long work on a terminal; the one task is number 0, and `total` None means unknown."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    # On standard error: the results in standard output stay clean for a pipe.
    console = Console(stderr=True)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        bars.add_task(what, total=total)
        yield bars

"""From a URL and a user's name to a connection, and from what was typed to a destination."""

from __future__ import annotations

import logging
from pathlib import Path

from pyjms import Connection, ConnectionFactory, Destination, JMSException, JMSSecurityException, Queue, Session
from pyjms.commands.reporting import CommandError
from pyjms.spi.passwords import read_password
from pyjms.spi.terminal import note

_QUEUE, _TOPIC = "queue:", "topic:"
_SILENT = logging.NullHandler()
"""What a client logs, the commands tell in their own words."""
_BROKERS = ("pyjms_provider", "pyjms.store")
"""What a broker in this process logs, as that of a ``vm://`` URL is: how far its start is, and which messages could not be read."""


class _Note(logging.Handler):
    """Shows at standard error what a broker warns of."""

    def emit(self, record: logging.LogRecord) -> None:
        note(self.format(record), style="yellow")


_NOTE = _Note(logging.WARNING)


class Login:
    """Makes connections of one user; asks for the password once at most."""

    def __init__(self, user: str | None, password_file: Path | None) -> None:
        if user is None and password_file is not None:
            raise CommandError("--password-file goes with --user NAME")
        self._user = user
        self._file = password_file
        self._password: str | None = None

    def connect(self, url: str, *, client_id: str | None = None) -> Connection:
        """Return a connection that is stopped."""
        if self._user is not None and self._password is None:
            self._password = read_password(self._user, self._file)
        logging.getLogger("pyjms").addHandler(_SILENT)
        if url.startswith("vm:"):
            for name in _BROKERS:
                logging.getLogger(name).addHandler(_NOTE)
        factory = ConnectionFactory(url, client_id=client_id)
        try:
            connection = factory.create_connection(self._user, self._password)
        except JMSSecurityException as error:
            if self._user is not None:
                raise
            raise CommandError(f"{error}; a command logs in with --user NAME") from error
        connection.exception_listener = _tell
        return connection


def _tell(problem: JMSException) -> None:
    """Tell of what no call that runs reports: a connection that was lost, and is being made anew."""
    note(" ".join(str(problem).split()), style="yellow")


def destination(session: Session, text: str) -> Destination:
    """Return what ``queue:NAME``, ``topic:NAME`` or a bare name of a queue stands for. Raises `CommandError`."""
    if text.startswith(_TOPIC):
        return session.create_topic(_name(text.removeprefix(_TOPIC), text))
    return queue(session, text)


def queue(session: Session, text: str) -> Queue:
    """Return the queue that ``queue:NAME`` or a bare name stands for. Raises `CommandError`."""
    return session.create_queue(queue_name(text))


def queue_name(text: str) -> str:
    """Return the name that ``queue:NAME`` or a bare name of a queue stands for. Raises `CommandError`."""
    check_queue(text)
    return text.removeprefix(_QUEUE)


def check_queue(text: str) -> None:
    """Refuse what names no queue. Raises `CommandError`."""
    if text.startswith(_TOPIC):
        raise CommandError(f"{text} is a topic, and this is for queues: a topic keeps no messages; name a queue")
    _name(text.removeprefix(_QUEUE), text)


def _name(name: str, text: str) -> str:
    if not name:
        raise CommandError(f"{text!r} names no destination; write queue:NAME, topic:NAME, or the name of a queue")
    return name

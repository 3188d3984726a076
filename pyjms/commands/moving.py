"""``pyjms move`` and ``pyjms purge``: a queue's messages move in transactions, each as large as the target has room
for.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Final

import typer

from pyjms import (
    Connection,
    Destination,
    Message,
    MessageProducer,
    Queue,
    ResourceAllocationException,
    Session,
    TransactionRolledBackException,
)
from pyjms.commands.bodies import destination_text
from pyjms.commands.connecting import (
    AsJson,
    AtMost,
    BrokerUrl,
    CommandError,
    Login,
    PasswordFile,
    QueueName,
    Selector,
    UserName,
    check_queue,
    destination,
    errors_told,
    progress,
    queue,
    tables,
)
from pyjms.forwarding.sites import DUPLICATE_PROPERTIES
from pyjms.messages.base import Properties
from pyjms.runtime.connection import JmsConnection
from pyjms.spi.capability import Capability
from pyjms.spi.clock import SystemClock
from pyjms.spi.errors import ResourceError
from pyjms.spi.terminal import FAILED, escaped, note, put_json
from pyjms.spi.words import counted

# Receiving the messages that are in a queue now, without those that arrive meanwhile.

_WAIT_MS: Final = 1_000
"""The wait after which a queue counts as empty; a remote broker needs a while to send the first message."""


def can_browse(connection: Connection) -> bool:
    """Whether the provider supports browsing."""
    # Capabilities are pyjms's own; another implementation of the interfaces is assumed to have JMS's browsers.
    return not isinstance(connection, JmsConnection) or Capability.BROWSING in connection.capabilities


def count_messages(session: Session, source: Queue, selector: str | None) -> int:
    """Return the number of messages, by browsing all."""
    with session.create_browser(source, selector) as browser:
        return sum(1 for _ in browser)


def take(session: Session, source: Queue, selector: str | None, most: int | None) -> Iterator[Message]:
    """Yield up to `most` messages, None: until there are none; the caller acknowledges or commits."""
    taken = 0
    # Closed with the loop, so that prefetched messages are requeued at once.
    with session.create_consumer(source, selector) as consumer:
        while most is None or taken < most:
            # receive_no_wait may find a remote queue empty although its first message is under way.
            message = consumer.receive(_WAIT_MS)
            if message is None:
                return
            taken += 1
            yield message


def reports_left(session: Session, source: Queue, selector: str | None, wanted: int | None, taken: int) -> bool:
    """Report messages that exist but could not be received, if fewer were taken than there were; return whether there
    are any.
    """
    # Counted again only if fewer arrived than there were: each count browses all messages.
    left = 0 if wanted is None or taken >= wanted else count_messages(session, source, selector)
    if left:
        note(
            f"{counted(left, 'message is', 'messages are')} there still, and not handed out: "
            "the queue is paused, or other consumers come first, or they came meanwhile",
            style="yellow",
        )
    return left > 0


_BATCH: Final = 100


class Moving:
    """Moves messages in transactions that adapt to the room at the target, and counts them."""

    def __init__(
        self,
        reading: Session,
        writing: Session,
        send: Callable[[Message], str],
        tell: Callable[[int], object],
        done: str = "moved",
    ) -> None:
        """`reading` and `writing` are one session within a broker; `send` returns the target of a message.

        `tell` is called after each full transaction with the number moved; `done` is the verb for it.
        """
        self.to: Counter[str] = Counter()
        """The number of messages per target; uncommitted ones do not count."""
        self._reading = reading
        self._writing = writing
        self._send = send
        self._tell = tell
        self._done = done
        self._batch = _BATCH

    @property
    def moved(self) -> int:
        """The number of messages moved."""
        return self.to.total()

    def move_all(self, take_up_to: Callable[[int | None], Iterable[Message]], limit: int | None) -> None:
        """Move messages, up to the limit. Raises `JMSException`; committed messages are moved."""
        while not self._move_batch(take_up_to, limit):
            # A set, as both are one session within a broker: a second rollback there would undo nothing but cost a
            # call.
            for session in {self._reading, self._writing}:
                session.rollback()

    def _move_batch(self, take_up_to: Callable[[int | None], Iterable[Message]], limit: int | None) -> bool:
        """Move messages; return False if a transaction was too large: it must be rolled back, and the next ones are
        smaller.
        """
        sent: Counter[str] = Counter()
        for message in take_up_to(None if limit is None else limit - self.moved):
            try:
                there = self._send(message)
            except ResourceAllocationException:
                if not sent:  # there is no room for a single message
                    self._tell_end(limit)
                    raise
                # So many had room before this one; the next transactions have that size.
                self._batch = sent.total()
                return False
            sent[there] += 1
            if sent.total() == self._batch:
                if not self._commits(sent, limit):
                    return False
                sent = Counter()
                self._tell(self.moved)
        return self._commits(sent, limit)

    def _commits(self, sent: Counter[str], limit: int | None) -> bool:
        """Commit; return False if the target has room for fewer, which a remote broker reports only now."""
        try:
            self._writing.commit()  # first: a duplicate is better than a loss
        except TransactionRolledBackException as error:
            if not _is_full(error):
                raise
            if sent.total() <= 1:
                self._tell_end(limit)
                raise
            self._batch = 1  # it is unknown how many fit, and each attempt counts as a delivery
            return False
        if self._writing is not self._reading:
            self._reading.commit()
        self.to += sent
        return True

    def _tell_end(self, limit: int | None) -> None:
        left = "" if limit is None else f", and {limit - self.moved:,} were not"
        note(f"{counted(self.moved, 'message was', 'messages were')} {self._done} before{left}")


def _is_full(error: TransactionRolledBackException) -> bool:
    """Say whether a transaction failed for lack of room."""
    # The provider's error is the cause of JMS's, which has one class for all reasons.
    cause = error.linked_exception
    return cause is not None and isinstance(cause.__cause__, ResourceError)


def send_on(producer: MessageProducer, target: Destination, message: Message) -> str:
    """Send a received message unchanged: with its mode, its priority, and its remaining time to live; return the target
    in the notation of commands.

    Its sender's duplicate id is removed: the broker would drop the message where it has been before.
    """
    # Received properties are read-only in JMS (JMS 1.1 §3.10), and clearing all of them would drop the others, too.
    if isinstance(message, Properties):
        for name in DUPLICATE_PROPERTIES:
            message.drop_property(name)
    expiration = message.jms_expiration
    # At least a millisecond: 0 would mean that a message about to expire never does.
    left_ms = 0 if expiration == 0 else max(1, expiration - int(SystemClock().time_ms()))
    producer.send(target, message, message.jms_delivery_mode, message.jms_priority, left_ms)
    return destination_text(target) or ""


EXAMPLES: Final = {
    "move": (
        "pyjms move stomp://127.0.0.1:61613 orders.failed orders",
        "pyjms move stomp://127.0.0.1:61613 orders archive --selector \"colour = 'red'\" --limit 100",
        "pyjms move stomp://old:61613 orders orders --to-url stomp://new:61613",
    ),
    "purge": (
        "pyjms purge stomp://127.0.0.1:61613 orders",
        "pyjms purge stomp://127.0.0.1:61613 orders --selector \"colour = 'red'\" --yes",
    ),
}


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
        # Within one queue each message would be moved to the end, over and over up to the limit.
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
    """Return how many were moved, and whether all messages to be moved were."""
    reading = connection.create_session(True, Session.SESSION_TRANSACTED)
    writing = reading if other is connection else other.create_session(True, Session.SESSION_TRANSACTED)
    connection.start()
    found = queue(reading, source)
    # The number is counted first and is the limit: later messages stay.
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
        moving.move_all(lambda most: take(reading, found, selector, most), limit)
    return moving.moved, not reports_left(reading, found, selector, limit, moving.moved)


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
        # Before the log-in: a script without --yes fails without a connection.
        if not yes and not sys.stdin.isatty():
            raise CommandError("nobody is there to be asked; say --yes to remove the messages")
        with Login(user, password_file).connect(url) as connection:
            session = connection.create_session(False, Session.CLIENT_ACKNOWLEDGE)
            connection.start()
            source = queue(session, name)
            total = count_messages(session, source, selector) if can_browse(connection) else None
            many = "an unknown number of messages" if total is None else counted(total, "message")
            # Also without a number, which a broker without browsing cannot give. The question goes to standard error,
            # past a pipe.
            if total != 0 and not yes and not typer.confirm(f"Remove {many} from {name}?", err=True):
                note("nothing was removed")
                raise typer.Exit(FAILED)
            removed = 0
            with progress("removing", total) as bars:
                message = None
                for message in take(session, source, selector, total):
                    removed += 1
                    # JMS acknowledges all that the session has delivered with one call (JMS 1.1 §4.4.11), so one in a
                    # hundred is enough.
                    if removed % _BATCH == 0:
                        message.acknowledge()
                        bars.update(bars.task_ids[0], completed=removed)
                if message is not None:
                    message.acknowledge()
            is_left = reports_left(session, source, selector, total, removed)
        if as_json:
            put_json({"queue": name.removeprefix("queue:"), "removed": removed})
        else:
            tables().print(f"[green]removed[/] {counted(removed, 'message')}")
        if is_left:
            raise typer.Exit(FAILED)

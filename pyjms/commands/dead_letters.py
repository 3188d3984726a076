"""``pyjms dead-letters``: messages that were given up, why, and their way back. By the properties that they carry, on the public API alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Annotated, Any, Final, Self

import typer

from pyjms import Message, Queue, Session
from pyjms.commands import epilog_of
from pyjms.commands.bodies import message_to_json, one_line, text_of, time_text
from pyjms.commands.browse import show_queue
from pyjms.commands.connecting import (
    AsJson,
    AtMost,
    BrokerUrl,
    Login,
    PasswordFile,
    Selector,
    UserName,
    check_queue,
    errors_told,
    progress,
    queue,
    tables,
)
from pyjms.commands.moving import Moving, can_browse, send_on, take
from pyjms.messages.base import Properties
from pyjms.spi.terminal import FAILED, complain, escaped, listing, put_json
from pyjms.spi.words import counted

_BROKER: Final = "stomp://127.0.0.1:61613"
_LIST: Final = (
    "pyjms dead-letters list 'vm://shop?store=sqlite:///shop.db'",
    f"pyjms dead-letters list {_BROKER} payments.failed --limit 0 --json",
)
_REPLAY: Final = (
    "pyjms dead-letters replay 'vm://shop?store=sqlite:///shop.db'",
    f"pyjms dead-letters replay {_BROKER} payments.failed --limit 10",
    f"pyjms dead-letters replay {_BROKER} --selector \"JMS_pyjms_deadDestination = 'queue://orders'\" --dry-run",
)

_DEAD: Final = "JMS_pyjms_dead"
# The broker filters by this selector: letters that stay are never received, so their deliveries are not counted.
_RETURNABLE: Final = f"{_DEAD}Destination LIKE 'queue://_%' AND {_DEAD}Subscription IS NULL"
_LONGEST_REASON: Final = 300

_SUBSCRIPTION: Final = "subscription"
_GONE: Final = "gone"
_UNKNOWN: Final = "unknown"
_WHY_LEFT: Final = {
    _SUBSCRIPTION: "of durable subscriptions, into which only the broker puts them back (PYJMS-LETTER-OF-SUBSCRIPTION); when it runs "
    "with an http port: pyjms manage call http://… dead_letter NODE/HOST/{queue} replay",
    _GONE: "of temporary destinations, or of topics alone: who they were for has gone (PYJMS-LETTER-WITHOUT-TARGET)",
    _UNKNOWN: "of unknown origin: no property JMS_pyjms_deadDestination names a destination (PYJMS-LETTER-WITHOUT-ORIGIN); send them "
    "where they belong: pyjms move URL {queue} TO",
}
"""Why a message stays, by its code for programs."""

_Dead = Annotated[str, typer.Argument(help="The queue of dead letters, as NAME or queue:NAME.", metavar="QUEUE")]


def commands() -> typer.Typer:
    """Return the commands."""
    app = typer.Typer(help="Look at messages that were given up, with the reasons, and send them back.")
    for name, function, examples in (("list", _list, _LIST), ("replay", _replay, _REPLAY)):
        app.command(name, epilog=epilog_of(examples))(function)
    return app


@dataclass(frozen=True, slots=True, kw_only=True)
class _Letter:
    """The dead-letter data of a message."""

    kind: str | None
    reason: str | None
    came_from: str | None
    subscription: str | None
    deliveries: int | None
    consumer: str | None
    at_ms: int | None

    @classmethod
    def of(cls, message: Message) -> Self:
        def text(name: str) -> str | None:
            value = message.get_object_property(_DEAD + name)
            return value if isinstance(value, str) else None

        def number(name: str) -> int | None:
            value = message.get_object_property(_DEAD + name)
            # Over STOMP each property may be a text.
            return int(value) if isinstance(value, int) or (isinstance(value, str) and value.isdecimal()) else None

        return cls(
            kind=text("Kind"),
            reason=text("Reason"),
            came_from=text("Destination"),
            subscription=text("Subscription"),
            deliveries=number("Count"),
            consumer=text("Consumer"),
            at_ms=number("Time"),
        )

    @property
    def queue_name(self) -> str:
        """The queue to which it returns; "" if none."""
        kind, _, name = (self.came_from or "").partition("://")
        return name if kind == "queue" and self.subscription is None else ""

    @property
    def why_left(self) -> str:
        """Why it stays, if it returns to no queue."""
        if self.subscription is not None:
            return _SUBSCRIPTION
        kind, _, name = (self.came_from or "").partition("://")
        return _GONE if name and kind in {"topic", "temp-queue", "temp-topic"} else _UNKNOWN


def _list(
    url: BrokerUrl,
    name: _Dead = "DLQ",
    selector: Selector = None,
    limit: AtMost = 100,
    user: UserName = None,
    password_file: PasswordFile = None,
    as_json: AsJson = False,
) -> None:
    """Show dead letters: where they came from, how often they were delivered, to whom last, and why they were given up.

    They stay there. With --json, one JSON document a line: the message as `pyjms browse` prints it, and "dead_letter".
    Exit code: 0 done, also when there are none; 1 it broke off, 2 it cannot be done as asked, 130 Ctrl-C.
    """
    table = listing("given up (UTC)", "id", "came from", "times", "last had by", "why", whole={"times"})

    def show(message: Message) -> None:
        letter = _Letter.of(message)
        if as_json:
            put_json(message_to_json(message) | {"dead_letter": _to_json(letter)}, is_line=True)
        else:
            table.add_row(*map(escaped, _cells(message, letter)))

    with errors_told("dead-letters list"), Login(user, password_file).connect(url) as connection:
        show_queue(connection, name, selector, limit, show, table, as_json=as_json)


def _cells(message: Message, letter: _Letter) -> tuple[str, ...]:
    return (
        time_text(letter.at_ms or 0),
        text_of(message.jms_message_id),
        one_line(letter.subscription or letter.came_from),
        text_of(letter.deliveries),
        text_of(letter.consumer),
        one_line(letter.reason or letter.kind, _LONGEST_REASON),
    )


def _to_json(letter: _Letter) -> dict[str, Any]:
    return {name: getattr(letter, name) for name in _Letter.__slots__}


def _replay(
    url: BrokerUrl,
    name: _Dead = "DLQ",
    selector: Selector = None,
    limit: AtMost = 0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would become of them.")] = False,
    user: UserName = None,
    password_file: PasswordFile = None,
    as_json: AsJson = False,
) -> None:
    """Send dead letters back to the queues that they came from, without what was written on them, and without a time to live.

    Each is in one queue or the other, whatever happens: they go in transactions of 100 at most. They get new ids, as all that is
    sent. What cannot go back stays, and the reason is told. It breaks off when a queue is full or refuses, with what was
    committed sent back. Exit code: 0 all went back, 1 some stayed or it broke off, 2 it cannot be done as asked, 130 Ctrl-C.
    """
    with errors_told("dead-letters replay"):
        check_queue(name)
        with Login(user, password_file).connect(url) as connection:
            session = connection.create_session(True, Session.SESSION_TRANSACTED)
            connection.start()
            source = queue(session, name)
            most = limit or None
            there, left = (
                _look(session, source, selector, most) if dry_run or can_browse(connection) else (None, Counter())
            )
            if not dry_run:
                there = _send_back(session, source, selector, most if there is None else there.total())
        _tell(name.removeprefix("queue:"), there or Counter(), left, is_done=not dry_run, as_json=as_json)
        if left:
            raise typer.Exit(FAILED)


def _look(session: Session, source: Queue, selector: str | None, most: int | None) -> tuple[Counter[str], Counter[str]]:
    """Return how many would go to each queue, and how many stay, by the reason."""
    there: Counter[str] = Counter()
    left: Counter[str] = Counter()
    with session.create_browser(source, selector) as browser:
        for letter in map(_Letter.of, browser):
            if not letter.queue_name:
                left[letter.why_left] += 1
            elif most is None or there.total() < most:
                there[f"queue:{letter.queue_name}"] += 1
    return there, left


def _send_back(session: Session, source: Queue, selector: str | None, most: int | None) -> Counter[str]:
    """Send back up to `most` messages, and return the number for each queue."""
    # In parentheses: AND binds more strongly than an OR in the user's selector.
    chosen = f"({selector}) AND {_RETURNABLE}" if selector and selector.strip() else _RETURNABLE
    producer = session.create_producer(None)

    def send(letter: Message) -> str:
        # Read before its properties are dropped.
        origin = session.create_queue(_Letter.of(letter).queue_name)
        if isinstance(letter, Properties):
            # A list is made first, as dropping changes the properties. A letter that is dead-lettered again gets new
            # ones.
            for name in filter(lambda each: each.startswith(_DEAD), map(str, list(letter.property_names))):
                letter.drop_property(name)
        return send_on(producer, origin, letter)

    with progress("sending back", most) as bars:
        moving = Moving(
            session, session, send, lambda done: bars.update(bars.task_ids[0], completed=done), done="sent back"
        )
        moving.move_all(lambda most: take(session, source, chosen, most), most)
    return moving.to


def _tell(name: str, there: Counter[str], left: Counter[str], *, is_done: bool, as_json: bool) -> None:
    if as_json:
        put_json(
            {"queue": name, "returned": there.total(), "to": dict(there), "left": dict(left), "dry_run": not is_done}
        )
    else:
        done = "[green]sent back[/]" if is_done else "[yellow]would send back[/]"
        tables().print(f"{done} {counted(there.total(), 'message')}{' to' if there else ''}", soft_wrap=True)
        table = listing("queue", "messages", whole={"messages"})
        for target, many in there.items():
            table.add_row(escaped(target.removeprefix("queue:")), f"{many:,}")
        if there:
            tables().print(table)
    for why, many in left.items():
        text = _WHY_LEFT[why].format(queue=name)
        complain("pyjms dead-letters replay", f"{counted(many, 'message stays', 'messages stay')}, {text}")

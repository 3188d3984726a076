"""``pyjms send``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path
from typing import Annotated, Final

import typer

from pyjms import DeliveryMode, JMSException, Message, MessageProducer, Session
from pyjms.commands.bodies import BodyType, make_message, read_bodies, set_properties
from pyjms.commands.connecting import (
    AsJson,
    BrokerUrl,
    CommandError,
    Login,
    PasswordFile,
    UserName,
    destination,
    errors_told,
    moment_ms,
    progress,
    tables,
)
from pyjms.messages.base import DUPLICATE_ID
from pyjms.spi.arguments import span_ms
from pyjms.spi.clock import SystemClock
from pyjms.spi.terminal import escaped, note, put_json
from pyjms.spi.words import counted

EXAMPLES: Final = (
    "pyjms send stomp://127.0.0.1:61613 orders 'one espresso'",
    "pyjms send stomp://127.0.0.1:61613 topic:prices --file prices.json --property market=NYSE",
    'pyjms send vm://shop orders --type map \'{"colour": "red", "size": 3}\' --property cups:int=2 --priority 9',
    "tail -f app.log | pyjms send stomp://127.0.0.1:61613 queue:log - --lines --non-persistent",
)

_OURS: Final = "pyjms"


_To = Annotated[
    str,
    typer.Argument(help="queue:NAME, topic:NAME, or the name of a queue.", metavar="DESTINATION"),
]
_Body = Annotated[str | None, typer.Argument(help="The body; - reads standard input.", show_default=False)]
_File = Annotated[Path | None, typer.Option(help="Read the body from this file.", metavar="PATH", show_default=False)]
_Lines = Annotated[bool, typer.Option("--lines", help="Send each line as a message, as it comes.")]
_Kind = Annotated[BodyType, typer.Option("--type", help="What the body is; map and stream are written as JSON.")]
_Properties = Annotated[
    list[str] | None,
    typer.Option(
        "--property",
        help="NAME=VALUE or NAME:TYPE=VALUE, with a type of boolean, byte, short, int, long, float, double, string; "
        "may be given several times.",
        metavar="NAME:TYPE=VALUE",
        show_default=False,
    ),
]
_Priority = Annotated[int, typer.Option(help="0 to 9, the most urgent.", min=0, max=9)]
_Ttl = Annotated[int, typer.Option(help="When it expires: 30s, 5m, 2h; 0: never.", metavar="SPAN", parser=span_ms)]
_NonPersistent = Annotated[bool, typer.Option("--non-persistent", help="Faster; lost when the broker fails.")]
_ReplyTo = Annotated[str | None, typer.Option(metavar="DESTINATION", show_default=False)]
_CorrelationId = Annotated[str | None, typer.Option(metavar="ID", show_default=False)]
_JmsType = Annotated[str | None, typer.Option(metavar="TYPE", show_default=False)]
_DeliverAt = Annotated[
    int | None,
    typer.Option(
        help="Keep it back until then: 2030-01-31T12:00.", metavar="MOMENT", parser=moment_ms, show_default=False
    ),
]
_Delay = Annotated[
    int | None,
    typer.Option(help="Keep it back so long: 30s, 5m, 2h.", metavar="SPAN", parser=span_ms, show_default=False),
]
_DuplicateId = Annotated[
    str | None,
    typer.Option(
        help="The broker drops a second message with this id, where its queue looks for duplicates.",
        metavar="ID",
        show_default=False,
    ),
]
_Count = Annotated[int, typer.Option(help="Send the body so often.", min=1)]
_Batch = Annotated[int, typer.Option(help="Send so many messages in one transaction; 0: each by itself.", min=0)]


def send(
    url: BrokerUrl,
    to: _To,
    body: _Body = None,
    file: _File = None,
    lines: _Lines = False,
    kind: _Kind = BodyType.TEXT,
    properties: _Properties = None,
    priority: _Priority = 4,
    ttl: _Ttl = 0,
    non_persistent: _NonPersistent = False,
    reply_to: _ReplyTo = None,
    correlation_id: _CorrelationId = None,
    jms_type: _JmsType = None,
    deliver_at: _DeliverAt = None,
    delay: _Delay = None,
    duplicate_id: _DuplicateId = None,
    count: _Count = 1,
    batch: _Batch = 0,
    user: UserName = None,
    password_file: PasswordFile = None,
    as_json: AsJson = False,
) -> None:
    """Send messages to a queue or a topic of any broker. Each is safe with the broker when it is counted.

    Exit code: 0 all were sent, 1 it broke off, 2 it cannot be done as asked, 130 Ctrl-C.
    """
    with errors_told("send"):
        if lines and count > 1:
            raise CommandError("--count repeats one body; leave it out with --lines")
        if deliver_at is not None and delay is not None:
            raise CommandError("--deliver-at and --delay say the same in two ways; give one of them")
        choices = _Choices(
            properties=tuple(properties or ()),
            priority=priority,
            ttl_ms=ttl,
            mode=DeliveryMode.NON_PERSISTENT if non_persistent else DeliveryMode.PERSISTENT,
            reply_to=reply_to,
            correlation_id=correlation_id,
            jms_type=jms_type,
            deliver_at_ms=deliver_at,
            delay_ms=delay,
            duplicate_id=duplicate_id,
        )
        # A generator: with --lines each line is sent as it arrives, as from tail -f.
        bodies = read_bodies(body, file, lines=lines)
        with Login(user, password_file).connect(url) as connection:
            # Before anything is sent: another broker would take this property for the application's, and ignore it.
            choices.check(connection.meta_data.jms_provider_name)
            session = connection.create_session(bool(batch), Session.AUTO_ACKNOWLEDGE)
            producer = session.create_producer(destination(session, to))
            every = bodies if lines else chain.from_iterable(repeat(each, count) for each in bodies)
            messages = (choices.apply(session, make_message(session, kind, each)) for each in every)
            sent, last = _send_all(session, producer, choices, messages, batch, None if lines else count)
        if as_json:
            put_json({"destination": to if ":" in to else f"queue:{to}", "sent": sent, "last_message_id": last})
        else:
            what = f"message {last}" if sent == 1 else counted(sent, "message")
            tables().print(f"[green]sent[/] {escaped(what)} to {escaped(to)}", soft_wrap=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choices:
    """The options common to all messages of one call."""

    properties: tuple[str, ...]
    priority: int
    ttl_ms: int
    mode: DeliveryMode
    reply_to: str | None
    correlation_id: str | None
    jms_type: str | None
    deliver_at_ms: int | None
    delay_ms: int | None
    duplicate_id: str | None

    def check(self, provider: str) -> None:
        """Raise `CommandError` for options that the provider would take for an ordinary property."""
        if self.duplicate_id is not None and not provider.startswith(_OURS):
            raise CommandError(f"{provider} does not look for duplicates as pyjms asks; leave --duplicate-id out")

    def set_delay(self, producer: MessageProducer) -> None:
        """Set the producer's delivery delay for a message that is sent now. Raises `JMSException` where the provider has none."""
        if self.deliver_at_ms is not None:
            producer.delivery_delay = max(0, self.deliver_at_ms - int(SystemClock().time_ms()))
        elif self.delay_ms is not None:
            producer.delivery_delay = self.delay_ms

    def apply(self, session: Session, message: Message) -> Message:
        """Set the options on a message."""
        set_properties(message, list(self.properties))
        if self.duplicate_id is not None:
            message.set_string_property(DUPLICATE_ID, self.duplicate_id)
        if self.reply_to is not None:
            message.jms_reply_to = destination(session, self.reply_to)
        if self.correlation_id is not None:
            message.jms_correlation_id = self.correlation_id
        if self.jms_type is not None:
            message.jms_type = self.jms_type
        return message


def _send_all(
    session: Session,
    producer: MessageProducer,
    choices: _Choices,
    messages: Iterator[Message],
    batch: int,
    total: int | None,
) -> tuple[int, str | None]:
    """Send messages, in transactions of `batch`; return their number, and the id of the last one."""
    sent = safe = 0
    last = None
    try:
        with progress("sending", total) as bars:
            for message in messages:
                choices.set_delay(producer)
                producer.send(message, choices.mode, choices.priority, choices.ttl_ms)
                sent += 1
                last = message.jms_message_id
                if batch and sent % batch == 0:
                    session.commit()
                if not batch or sent % batch == 0:
                    # Reported by an interrupted command: sends of an open transaction do not count.
                    safe = sent
                    bars.advance(bars.task_ids[0], batch or 1)
            if batch and safe < sent:
                session.commit()
    # CommandError, too: a later line may be invalid JSON, when earlier ones have been sent.
    except (CommandError, JMSException, KeyboardInterrupt):
        if safe:
            note(f"{counted(safe, 'message was', 'messages were')} sent before that", style="yellow")
        raise
    return sent, last

"""The options that commands share."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from pyjms.spi.spans import span_ms

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


# Moments as they are typed: ``2030-01-31T12:00``.


def moment_ms(text: str) -> int:
    """Return a moment in milliseconds since 1970 UTC; without a zone it is a local time. Raises `typer.BadParameter`."""
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError) as error:
        raise typer.BadParameter(
            f"{text!r} is no moment; write 2030-01-31T12:00, with Z or +01:00 after it for a zone"
        ) from error

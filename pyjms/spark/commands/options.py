"""The options that pipelines and checks on Spark share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from pyjms.spark.archives import FORMS
from pyjms.spark.connecting import read_credentials
from pyjms.spark.errors import OptionError
from pyjms.spark.options import parse_options
from pyjms.spi.envelope import AddressKind

MESSAGES_IN_BATCH: Final = 10_000

Url: TypeAlias = Annotated[str, typer.Argument(help="The broker, such as stomp://127.0.0.1:61613.", metavar="URL")]
Destination: TypeAlias = Annotated[
    str, typer.Argument(help="queue:NAME, topic:NAME, or the name of a queue.", metavar="DESTINATION")
]
ClientId: TypeAlias = Annotated[
    str | None,
    typer.Option(help="Of a topic: the client that the subscription belongs to.", metavar="NAME", show_default=False),
]
Subscription: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Of a topic: the durable subscription to read from. It is made if there is none.",
        metavar="NAME",
        show_default=False,
    ),
]
Master: TypeAlias = Annotated[str, typer.Option(help="Where Spark runs: local[4], spark://host:7077, yarn ...")]
Verbose: TypeAlias = Annotated[
    bool, typer.Option("--verbose", help="Show Spark's own log, with all traces of Java and Python.")
]
Once: TypeAlias = Annotated[bool, typer.Option("--once", help="Work off what is there now, and end.")]
FailOnDataLoss: TypeAlias = Annotated[
    bool,
    typer.Option(
        help="Stop when messages are gone that the checkpoint asks for, as after a release of the group; else go on with what is there."
    ),
]
MOST: Final = 2**31 - 1
"""The largest number that Spark counts messages of a batch with."""
Batch: TypeAlias = Annotated[
    int, typer.Option(help="So many messages has one batch at most.", min=1, max=MOST, metavar="NUMBER")
]
Credentials: TypeAlias = Annotated[
    str | None,
    typer.Option(help="Where user and password are: file:PATH or env:VARIABLE.", metavar="WHERE", show_default=False),
]
MetricsTo: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--metrics",
        help="Tell each batch to programs: FILE.jsonl (or -) as lines of JSON, FILE.prom or HOST:PORT for Prometheus.",
        metavar="WHERE",
        show_default=False,
    ),
]
Form: TypeAlias = Annotated[
    str, typer.Option("--format", help=f"{', '.join(FORMS[:-1])}, or {FORMS[-1]} where this Spark has it.")
]
Page: TypeAlias = Annotated[
    Path | None,
    typer.Option(help="Write a page with plots, for a browser.", metavar="FILE.html", show_default=False),
]


# What the commands that read a destination say of it: a queue, or the durable subscription of a topic.


def source_options(
    url: str,
    destination: str,
    group: str,
    *,
    client_id: str | None,
    subscription: str | None,
    credentials: str | None,
    looks: bool,
) -> dict[str, str]:
    """Return the source's options for what a person has given, besides the first three. Raises `OptionError`, before Spark starts.

    looks: nothing is to be changed, which cannot be done to a subscription.
    """
    given = {"clientId": client_id, "subscription": subscription, "credentials": credentials}
    options = {name: value for name, value in given.items() if value is not None}
    plain = {name: value for name, value in options.items() if name == "credentials"}
    address = parse_options({"url": url, "destination": destination, "readerGroup": group, **plain}).destination
    is_topic = address is not None and address.kind is AddressKind.TOPIC
    if not is_topic and len(options) > len(plain):
        raise OptionError(f"{destination}: a queue has no subscriptions: leave --subscription and --client-id out")
    if (client_id is None) != (subscription is None):
        raise OptionError(
            f"--{'client-id' if subscription is None else 'subscription'} goes with --{'subscription' if subscription is None else 'client-id'}: "
            "a durable subscription belongs to a client id"
        )
    if is_topic and subscription is None:
        raise OptionError(
            f"{destination}: a topic keeps no messages: give --subscription and --client-id, the durable subscription to read from"
        )
    if is_topic and looks:
        raise OptionError(f"{destination}: --dry-run looks at a queue; what a subscription has cannot be looked at")
    parse_options({"url": url, "destination": destination, **options})
    read_credentials(credentials)
    return options

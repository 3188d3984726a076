"""``pyjms forward``."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from pyjms.commands.connecting import queue_name
from pyjms.commands.options import AsJson, BrokerUrl, Every, Idle, PasswordFile, QueueName, Selector, UserName
from pyjms.commands.reporting import CommandError, errors_told
from pyjms.commands.running_routes import run_route
from pyjms.forwarding.settings import Guarantee
from pyjms.spi.errors import ProviderError
from pyjms.spi.passwords import read_password
from pyjms.spi.spans import span_ms

EXAMPLES: Final = (
    "pyjms forward stomp://berlin:61613 orders --to stomp://paris:61613",
    "pyjms forward stomp://berlin:61613 orders --to stomp://paris:61613#inbox --to stomp://rome:61613#topic:news",
    "pyjms forward stomp://old-activemq:61613 orders --to stomp://new:61613 --once-only --name move-orders",
    "pyjms forward stomp://berlin:61613 orders --to stomp://paris:61613 --idle 5s --json",
)

_Name = Annotated[
    str | None,
    typer.Option(
        help="The name of the route: targets know by it what they have got already. Keep it. [default: the queue's]",
        metavar="NAME",
        show_default=False,
    ),
]
_Undeliverable = Annotated[
    str | None,
    typer.Option(
        help="The queue of messages that a target refuses; '': they block the route. [default: QUEUE.undeliverable]",
        metavar="QUEUE",
        show_default=False,
    ),
]


def forward(
    url: BrokerUrl,
    source: QueueName,
    to: Annotated[
        list[str],
        typer.Option(
            help="Where to: URL, URL#QUEUE or URL#topic:NAME; without a name the queue has the same. Each gets each message.",
            metavar="URL#QUEUE",
            show_default=False,
        ),
    ],
    name: _Name = None,
    selector: Selector = None,
    batch: Annotated[int, typer.Option(help="Messages of one transaction at most.", min=1, max=10_000)] = 100,
    linger: Annotated[int, typer.Option(help="How long a batch waits to be full.", metavar="SPAN", parser=span_ms)] = 0,
    hops: Annotated[int, typer.Option(help="Through how many routes a message may come.", min=1, max=1_000)] = 16,
    undeliverable: _Undeliverable = None,
    once_only: Annotated[
        bool, typer.Option("--once-only", help="Refuse a target that cannot tell what it has got already.")
    ] = False,
    idle: Idle = 0,
    every: Every = 10_000,
    user: UserName = None,
    password_file: PasswordFile = None,
    as_json: AsJson = False,
) -> None:
    """Move messages to other brokers as they come, each to each target, until Ctrl-C.

    Messages leave in the order in which the queue hands them out, and keep their type, properties and headers. Nothing is
    lost, whatever fails; while a site is away, the messages keep their places. Nothing comes twice if the targets find
    duplicates, as brokers of pyjms and ActiveMQ Artemis do. The same user logs in everywhere. Exit code: 0 ended in order,
    1 it broke off, 2 it cannot be done as asked.
    """
    with errors_told("forward"):
        queue = queue_name(source)
        settings: dict[str, Any] = {
            "url": url,
            "source": queue,
            "targets": [_target(text, queue) for text in to],
            "selector": selector,
            "batch": batch,
            "linger_ms": linger,
            "hops_max": hops,
            "undeliverable": queue_name(undeliverable) if undeliverable else undeliverable,
            "require": (Guarantee.ONCE_ONLY if once_only else Guarantee.AT_LEAST_ONCE).value,
            "user": user,
            "password": None if user is None else read_password(user, password_file),
        }
        try:
            run_route("forward", name or queue, settings, idle, every, as_json=as_json)
        except ProviderError as error:
            raise CommandError(error.reason) from error


def _target(text: str, queue: str) -> dict[str, str]:
    url, _, name = text.partition("#")
    if name.startswith("topic:"):
        return {"url": url, "topic": name.removeprefix("topic:")}
    return {"url": url, "queue": name.removeprefix("queue:") or queue}

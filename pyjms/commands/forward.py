"""``pyjms forward``, and the loop in which a command runs one route until it ends or a signal ends it."""

from __future__ import annotations

import threading
from typing import Annotated, Any, Final

import typer

from pyjms.commands.connecting import (
    AsJson,
    BrokerUrl,
    CommandError,
    Every,
    Idle,
    PasswordFile,
    QueueName,
    Selector,
    UserName,
    errors_told,
    progress,
    queue_name,
    tables,
)
from pyjms.commands.signals import told_of_signals
from pyjms.errors import JMSException
from pyjms.forwarding.settings import Guarantee
from pyjms.spi.arguments import read_password, span_ms
from pyjms.spi.clock import Clock, Signal, SystemClock
from pyjms.spi.errors import ProviderError
from pyjms.spi.routes import RouteError, RouteRequest, RouteState, RouteStatistics, RunningRoute, find_runner
from pyjms.spi.terminal import escaped, note, put_json

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
            # The password is asked for here and not by the route, which runs on a thread that cannot ask.
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


_LOOKS_EVERY_MS: Final = 200


def run_route(kind: str, name: str, settings: dict[str, Any], idle_ms: int, every_ms: int, *, as_json: bool) -> None:
    """Run a route until a signal, or until no message has arrived for `idle_ms` milliseconds (0: no such end).

    With `as_json`, one line of statistics every `every_ms` milliseconds, and one at the end. Raises `RouteError`;
    `JMSException` if no message arrived because a site was unreachable.
    """
    clock = SystemClock()
    told = Signal()
    # A failure wakes the watching loop, which would otherwise notice it up to 200 ms later.
    request = RouteRequest(name=name, settings=settings, clock=clock, on_failure=lambda _: told.set())
    ended = threading.Event()

    def end() -> None:
        # The flag before the signal: otherwise the loop would wake, find nothing and wait again.
        ended.set()
        told.set()

    # Before the route starts: a Ctrl-C during the connect ends it in order, too.
    with told_of_signals(end):
        running = find_runner(kind).start(request)
        try:
            last = _watch(running, clock, told, ended, idle_ms, every_ms, as_json=as_json)
        finally:
            # With the signal handlers in place: messages under way are settled or released, even after a second Ctrl-C.
            running.stop()
    seen = running.statistics()
    _tell_end(name, seen, as_json=as_json)
    if seen.state is RouteState.FAILED:
        raise RouteError(seen.last_error or "the route has ended by a fault")
    # A person has ended it, so remaining messages are no failure.
    if ended.is_set():
        return
    if last.state is RouteState.AWAY:
        raise JMSException(f"there may be more, as a site was away when the time was up: {seen.last_error}")
    if not last.has_begun:
        raise JMSException(
            "there may be more, as the source had not answered when the time was up: see whether its broker runs"
        )


def _watch(
    running: RunningRoute,
    clock: Clock,
    told: Signal,
    ended: threading.Event,
    idle_ms: int,
    every_ms: int,
    *,
    as_json: bool,
) -> RouteStatistics:
    """Return the last statistics before the stop."""
    last_error: str | None = None
    moved, quiet_since = -1, clock.monotonic_ms()
    tells_at = quiet_since + every_ms
    seen = running.statistics()
    with progress("forwarded", None) as bars:
        while not ended.is_set():
            clock.wait(told, clock.monotonic_ms() + _LOOKS_EVERY_MS)
            seen, now_ms = running.statistics(), clock.monotonic_ms()
            if seen.state is RouteState.FAILED:
                break
            bars.update(bars.task_ids[0], completed=seen.forwarded, description=seen.state.value)
            # Each error once: an unreachable site repeats it with each attempt.
            if seen.last_error not in {last_error, None} and not as_json:
                note(str(seen.last_error), style="yellow")
            last_error = seen.last_error
            done = seen.forwarded + seen.undeliverable + seen.expired + seen.waiting
            # A route may wait for an unreachable site for ever: no messages arrive meanwhile.
            if done != moved or (seen.waiting and seen.state is not RouteState.AWAY):
                moved, quiet_since = done, now_ms
            if as_json and now_ms >= tells_at:
                tells_at = now_ms + every_ms
                put_json(_data(seen), is_line=True)
            if idle_ms and now_ms - quiet_since >= idle_ms:
                break
    return seen


def _tell_end(name: str, seen: RouteStatistics, *, as_json: bool) -> None:
    if as_json:
        put_json({"route": name, **_data(seen)}, is_line=True)
        return
    parts = [f"[green]{seen.forwarded:,}[/] messages forwarded, {seen.sent:,} sent, {seen.guarantee}"]
    parts += [f"[yellow]{seen.undeliverable:,}[/] set aside"] if seen.undeliverable else []
    parts += [f"{seen.expired:,} expired"] if seen.expired else []
    parts += [f"{escaped(rule)}: {number:,}" for rule, number in seen.details.items()]
    tables().print("; ".join(parts), soft_wrap=True)


def _data(seen: RouteStatistics) -> dict[str, Any]:
    return {
        "state": seen.state.value,
        "guarantee": seen.guarantee,
        "forwarded": seen.forwarded,
        "sent": seen.sent,
        "undeliverable": seen.undeliverable,
        "expired": seen.expired,
        "waiting": seen.waiting,
        "failures": seen.failures,
        "last_error": seen.last_error,
        "by_rule": dict(seen.details),
    }

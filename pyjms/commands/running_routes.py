"""Runs one route until somebody or something ends it, and tells how it goes."""

from __future__ import annotations

import threading
from typing import Any, Final

from pyjms.commands.reporting import progress, tables
from pyjms.commands.signals import told_of_signals
from pyjms.errors import JMSException
from pyjms.spi.clock import Clock, Signal, SystemClock
from pyjms.spi.routes import RouteError, RouteRequest, RouteState, RouteStatistics, RunningRoute, find_runner
from pyjms.spi.terminal import escaped, note, put_json

_LOOKS_EVERY_MS: Final = 200


def run_route(kind: str, name: str, settings: dict[str, Any], idle_ms: int, every_ms: int, *, as_json: bool) -> None:
    """Run a route until a signal, or until nothing has come for `idle_ms` milliseconds (0: no such end).

    With `as_json`, one line of statistics every `every_ms` milliseconds, and one at the end. Raises `RouteError`; `JMSException` if
    nothing has come because a site was away.
    """
    clock = SystemClock()
    told = Signal()
    request = RouteRequest(name=name, settings=settings, clock=clock, on_failure=lambda _: told.set())
    ended = threading.Event()

    def end() -> None:
        ended.set()
        told.set()

    with told_of_signals(end):
        running = find_runner(kind).start(request)
        try:
            last = _watch(running, clock, told, ended, idle_ms, every_ms, as_json=as_json)
        finally:
            running.stop()
    seen = running.statistics()
    _tell_end(name, seen, as_json=as_json)
    if seen.state is RouteState.FAILED:
        raise RouteError(seen.last_error or "the route has ended by a fault")
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
    """Return what was seen last, before it is stopped."""
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
            if seen.last_error not in {last_error, None} and not as_json:
                note(str(seen.last_error), style="yellow")
            last_error = seen.last_error
            done = seen.forwarded + seen.undeliverable + seen.expired + seen.waiting
            # What waits for a site that is away may do so for ever: nothing comes meanwhile.
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

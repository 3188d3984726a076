"""Terminal output: bars during the run, tables at the end."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column, Table

from pyjms.demo.books import Happening, Outcome, StageCounter, Verdict
from pyjms.demo.plan import Plan
from pyjms.demo.process import Process
from pyjms.demo.settings import Settings
from pyjms.spi.terminal import escaped
from pyjms.spi.words import counted

# The outcome as data, for ``--json``. Pure.


def as_data(plan: Plan, settings: Settings, process: Process, outcome: Outcome, seconds: float) -> dict[str, Any]:
    """Return the content of all tables, and the ids behind it, in JSON's types."""
    return {
        "input": {
            "file": plan.table.name,
            "records": len(plan.table.records),
            "columns": list(plan.table.columns),
            "route": [plan.table.columns[column] for column in plan.route],
            "amount": plan.amount_name,
            "total": number(outcome.all_lanes.expected_total),
        },
        "settings": {
            "url": without_password(settings.url),
            "store": None if settings.store is None else without_password(settings.store),
            "workers": settings.workers,
            "seed": settings.chance.seed,
            "failure_rate": settings.chance.rate,
        },
        "resumed": process.is_resumed,
        "stages": [stage_data(counter) for counter in process.counters],
        "lanes": [{**verdict_data(verdict), "selector": lane.selector} for lane, verdict in outcome.lanes],
        "all_lanes": verdict_data(outcome.all_lanes),
        "subscribers": [verdict_data(verdict) for verdict in (outcome.ledger, outcome.board, outcome.attention)],
        "left_over": dict(outcome.left_over),
        "nothing_lost": outcome.nothing_lost,
        "nothing_twice": outcome.nothing_twice,
        "adds_up": outcome.adds_up,
        "seconds": round(seconds, 3),
    }


def number(value: Fraction) -> int | float:
    """Return the value as an int if it is whole, otherwise as the nearest float."""
    return value.numerator if value.denominator == 1 else float(value)


def without_password(url: str) -> str:
    """Return the URL for display."""
    # The user's name stays, as it helps to find a wrong URL.
    return re.sub(r"//([^/@:]*):[^/@]*@", r"//\1:***@", url)


def stage_data(counter: StageCounter) -> dict[str, Any]:
    """Return the counts of one stage."""
    counts = {happening.name.lower(): counter[happening] for happening in Happening}
    return {"name": counter.name, "expected": counter.total, "before": counter.before, **counts}


def verdict_data(verdict: Verdict) -> dict[str, Any]:
    """Return the result at one destination."""
    return {
        "destination": verdict.destination,
        "expected": verdict.expected,
        "found": verdict.found,
        "expected_total": number(verdict.expected_total),
        "found_total": number(verdict.found_total),
        "lost": list(verdict.lost),
        "doubled": list(verdict.doubled),
        "unexpected": list(verdict.unexpected),
        "altered": list(verdict.altered),
        "adds_up": verdict.adds_up,
    }


IDS_SHOWN = 10
_WIDE = 100
"""The minimum number of columns for long bars beside the errors."""


def show_plan(console: Console, plan: Plan, url: str) -> None:
    """Print the plan."""
    console.print(
        f"[bold]{escaped(plan.table.name)}[/]: {counted(len(plan.table.records), 'record')}, "
        f"routed by [bold]{escaped(plan.route_names)}[/], adding up [bold]{escaped(plan.amount_name)}[/], "
        f"through {escaped(without_password(url))}",
        soft_wrap=True,
    )


def show_resumed(console: Console, counters: tuple[StageCounter, ...]) -> None:
    """Print that an interrupted run continues, and its progress."""
    done = ", ".join(f"{counter.name} {counter.before:,}" for counter in counters if counter.before) or "nothing yet"
    console.print(f"[yellow]Going on with the run that was broken off.[/] Done before: {done}", soft_wrap=True)


@contextmanager
def progress(console: Console, counters: tuple[StageCounter, ...]) -> Iterator[Callable[[], None]]:
    """Show a bar for each counter; yield the function that updates them."""
    columns = (
        TextColumn("{task.description:<10}"),
        BarColumn(bar_width=30 if console.width >= _WIDE else 6),
        MofNCompleteColumn(table_column=Column(no_wrap=True, min_width=len("9999/9999"))),
        TimeElapsedColumn(),
        TextColumn("{task.fields[mishaps]}", style="yellow"),
    )
    # In a pipe, bars would fill a log with lines.
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars:
        tasks = [(counter, bars.add_task(counter.name, total=counter.total, mishaps="")) for counter in counters]

        def watch() -> None:
            for counter, task in tasks:
                bars.update(task, completed=counter[Happening.DONE], mishaps=_mishaps(counter))

        yield watch
        watch()


def show_outcome(
    console: Console,
    plan: Plan,
    counters: tuple[StageCounter, ...],
    outcome: Outcome,
    seconds: float,
    *,
    is_kept: bool = False,
) -> None:
    """Print the work of each stage, the results at the destinations, and whether all adds up. `is_kept`: all
    subscribers were durable.
    """
    console.print(_stages(counters))
    console.print(_destinations(plan, outcome, is_kept=is_kept))
    for verdict in outcome.verdicts:
        for fault in faults_of(verdict):
            console.print(f"[red]{escaped(fault)}[/]")
    for queue, count in outcome.left_over.items():
        console.print(f"[red]{counted(count, 'message was', 'messages were')} left in {escaped(queue)}[/]")
    records = (
        f"{counted(len(plan.table.records), 'record')}, {figure(outcome.all_lanes.expected_total)} {plan.amount_name}"
    )
    if plan.amount is None:
        records = counted(len(plan.table.records), "record")
    if outcome.adds_up:
        said = f"[green]It adds up: {escaped(records)}. Nothing lost, nothing twice.[/] {seconds:.1f} s"
    else:
        said = f"[bold red]It does not add up: {escaped(records)} went in.[/] {seconds:.1f} s"
    console.print(said, highlight=False, soft_wrap=True)


def _stages(counters: tuple[StageCounter, ...]) -> Table:
    table = Table(title="Who did what", title_justify="left")
    table.add_column("stage")
    is_resumed = any(counter.before for counter in counters)
    happenings = [
        happening
        for happening in Happening
        if happening is not Happening.SET_ASIDE or any(counter[happening] for counter in counters)
    ]
    for heading in ("records", *(["before"] if is_resumed else []), *(each.value for each in happenings[1:])):
        table.add_column(heading, justify="right")
    for counter in counters:
        done, *counts = [counter[happening] for happening in happenings]
        row = [done, counter.before, *counts] if is_resumed else [done, *counts]
        table.add_row(counter.name, *(f"{count:,}" if count else "-" for count in row))
    return table


def _destinations(plan: Plan, outcome: Outcome, *, is_kept: bool) -> Table:
    table = Table(title="What went where", title_justify="left")
    table.add_column("destination")
    table.add_column("chosen by", overflow="fold", max_width=44)
    for heading in ("sent", "arrived", f"{plan.amount_name} sent", f"{plan.amount_name} arrived"):
        table.add_column(escaped(heading), justify="right")
    table.add_column("")
    for lane, verdict in outcome.lanes:
        table.add_row(*_row(_named(plan, lane.key, verdict), lane.selector, verdict))
    table.add_section()
    table.add_row(*_row("all lanes", "", outcome.all_lanes), style="bold")
    table.add_section()
    table.add_row(*_row("ledger", "durable; went away, came back", outcome.ledger))
    table.add_row(*_row("board", "durable" if is_kept else "ordinary subscriber", outcome.board))
    table.add_row(*_row("attention", "complete = FALSE", outcome.attention))
    return table


def _named(plan: Plan, key: tuple[str | None, ...] | None, verdict: Verdict) -> str:
    label = plan.kinds[key].label if key in plan.kinds and key is not None else verdict.destination
    return verdict.destination if label == verdict.destination else f"{verdict.destination}  {label}"


def _row(name: str, chosen_by: str, verdict: Verdict) -> tuple[str, ...]:
    return (
        escaped(name),
        escaped(chosen_by),
        f"{verdict.expected:,}",
        f"{verdict.found:,}",
        figure(verdict.expected_total),
        figure(verdict.found_total),
        "[green]ok[/]" if verdict.adds_up else "[red]no[/]",
    )


def faults_of(verdict: Verdict) -> Iterator[str]:
    """Return the faults at one destination, with the first record ids."""
    for name in ("lost", "doubled", "unexpected", "altered"):
        ids: tuple[int, ...] = getattr(verdict, name)
        if ids:
            shown = ", ".join(str(record_id) for record_id in ids[:IDS_SHOWN])
            more = ", ..." if len(ids) > IDS_SHOWN else ""
            yield f"{verdict.destination}: {len(ids):,} {name} (records {shown}{more})"


def figure(value: Fraction) -> str:
    """Return a sum for display."""
    shown = number(value)
    return f"{shown:,}" if isinstance(shown, int) else f"{shown:,.2f}"


def _mishaps(counter: StageCounter) -> str:
    names = (Happening.ROLLED_BACK, Happening.CRASHED, Happening.REDELIVERED, Happening.SET_ASIDE)
    return ", ".join(f"{counter[name]:,} {name.value}" for name in names if counter[name])

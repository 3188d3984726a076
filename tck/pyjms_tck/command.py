"""The subcommands of ``pyjms-tck``: run, spi, diff."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import IntEnum
from importlib.util import find_spec
from pathlib import Path
from signal import SIGTERM
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from pyjms.spi.arguments import PlainlyTold, span_ms
from pyjms.spi.terminal import INTERRUPTED, printable
from pyjms_tck.catalogue import Catalogue, SelectionError, Version, in_version, load_catalogue, select
from pyjms_tck.report.html import to_html
from pyjms_tck.report.junit import check_can_write, to_junit, write_whole
from pyjms_tck.report.terminal import compare, left_out, print_changes, print_report, print_requirements
from pyjms_tck.results import Report, ReportError
from pyjms_tck.run import SPI_TARGET, SUITE_TARGET, contract_catalogue, judge_provider, judge_spi
from pyjms_tck.runner.pool import GIVE_UP_AFTER, Listener, RunRefusedError, Task
from pyjms_tck.runner.progress import LiveProgress

__all__ = ["Exit", "app"]


MISSING_EXTRA = (
    "to judge a provider takes {missing}, which is not installed. Install it with: pip install 'pyjms-messaging[tck]'. "
    "Without it, `run --list` and `diff` work"
)


class Exit(IntEnum):
    """The exit codes of the command."""

    CONFORMS = 0
    """Nothing failed. For diff: nothing got worse."""
    FAILED = 1
    """A requirement failed. For diff: one got worse."""
    USAGE = 2
    """The request cannot be done; the text says why."""
    UNREACHABLE = 3
    """The connection to the provider failed."""
    GIVEN_UP = 4
    """The provider hung so often that the run was ended."""
    WAIVED = 5
    """Nothing failed, but the profile waives a requirement for every provider."""


app = typer.Typer(
    name="pyjms-tck",
    cls=PlainlyTold,
    help="Judges a JMS provider, requirement by requirement.\n\nExit codes: 0 nothing failed, 1 something failed, "
    "2 wrong usage, 3 the provider cannot be reached, 4 given up, because the provider hangs, 5 nothing failed, but the profile "
    "waives what every provider owes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

_LEAST_MS = 100


def _time_limit_s(text: str) -> float:
    """Return the time limit of a test, in seconds. Raises `typer.BadParameter`."""
    limit_ms = span_ms(text)
    if limit_ms < _LEAST_MS:
        raise typer.BadParameter(f"{text} is too short for any test; the least is {_LEAST_MS}ms")
    return limit_ms / 1000


Profile = Annotated[Path | None, typer.Option("--profile", metavar="FILE", help="The provider's profile.py.")]
Workers = Annotated[int | None, typer.Option("--workers", min=1, help="How many processes run tests.")]
Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        metavar="SPAN",
        parser=_time_limit_s,
        help="How long a test may take, such as 10s.",
        show_default=False,
    ),
]
GiveUp = Annotated[int, typer.Option("--give-up-after", min=1, help="End the run after so many tests that hang.")]
Json = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the report as JSON.")]
Html = Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write the report as one HTML page.")]
JUnit = Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Write the report as JUnit XML.")]


Jms = Annotated[
    Version,
    typer.Option(
        "--jms", help="Judge by this version of JMS: 1.1 leaves out what came with 2.0.", case_sensitive=False
    ),
]


@app.command()
def run(
    url: Annotated[str | None, typer.Argument(help="The provider's URL, such as vm://test.")] = None,
    profile: Profile = None,
    selected: Annotated[
        list[str] | None,
        typer.Option(
            "--select",
            metavar="WHAT",
            help="Only these: an id (3.4.1-a), a section (3.4), a chapter (3), a feature (TOPICS), a level (required), an "
            "official assertion (JMS:SPEC:2). May be repeated.",
        ),
    ] = None,
    version: Jms = Version.V2_0,
    listed: Annotated[bool, typer.Option("--list", help="Print the requirements and run nothing.")] = False,
    workers: Workers = None,
    timeout: Timeout = None,
    give_up_after: GiveUp = GIVE_UP_AFTER,
    json_file: Json = None,
    html_file: Html = None,
    junit_file: JUnit = None,
) -> None:
    """Judge the provider behind URL by the requirements of JMS 2.0, or of JMS 1.1 alone."""
    wanted = tuple(selected or ())
    if listed:
        _list(in_version(load_catalogue(), version), wanted)
        return
    task = Task(
        url=_needed(url, "run"),
        profile=None if profile is None else str(profile),
        select=wanted,
        version=version,
        target=SUITE_TARGET,
        workers=workers,
        limit_s=timeout,
        give_up_after=give_up_after,
    )
    _judge(judge_provider, task, json_file, html_file, junit_file)


@app.command()
def spi(
    url: Annotated[str | None, typer.Argument(help="The provider's URL; its message system should be empty.")] = None,
    profile: Profile = None,
    selected: Annotated[
        list[str] | None,
        typer.Option(
            "--select",
            metavar="WHAT",
            help="Only these: an id (poll-does-not-wait) or a part (closing). May be repeated.",
        ),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="Print the contract tests and run nothing.")] = False,
    workers: Workers = None,
    timeout: Timeout = None,
    give_up_after: GiveUp = GIVE_UP_AFTER,
    json_file: Json = None,
    html_file: Html = None,
    junit_file: JUnit = None,
) -> None:
    """Check the provider behind URL against the contract of pyjms.spi, for its authors."""
    wanted = tuple(selected or ())
    if listed:
        _check_can_judge()  # the contract tests are functions of pytest
        _list(contract_catalogue(), wanted)
        return
    task = Task(
        url=_needed(url, "spi"),
        profile=None if profile is None else str(profile),
        select=wanted,
        target=SPI_TARGET,
        workers=workers,
        limit_s=timeout,
        give_up_after=give_up_after,
    )
    _judge(judge_spi, task, json_file, html_file, junit_file)


@app.command()
def diff(
    before: Annotated[Path, typer.Argument(help="A report, as JSON.")],
    after: Annotated[Path, typer.Argument(help="A later report, or that of another provider.")],
) -> None:
    """Show what came out differently in two reports, of what was selected for both. Exit code 1 when something got worse."""
    old, new = _read(before), _read(after)
    if not {each.requirement.id for each in old.judgements} & {each.requirement.id for each in new.judgements}:
        _refuse("the reports have no requirement in common, so there is nothing to compare: select the same for both")
    changes = compare(old, new)
    print_changes(Console(), changes, left_out(old, new))
    raise typer.Exit(Exit.FAILED if any(change.is_worse for change in changes) else Exit.CONFORMS)


def _needed(url: str | None, command: str) -> str:
    return url or _refuse(f"which provider? Give its URL, such as: pyjms-tck {command} vm://test")


def _list(catalogue: Catalogue, wanted: tuple[str, ...]) -> None:
    try:
        ids = select(catalogue, wanted)
    except SelectionError as error:
        _refuse(str(error))
    print_requirements(Console(), (catalogue.requirements[id] for id in ids))


def _judge(
    judge: Callable[[Task, Listener], Awaitable[Report]],
    task: Task,
    json_file: Path | None,
    html_file: Path | None,
    junit_file: Path | None,
) -> None:
    _check_can_judge()
    console = Console()
    for file in (json_file, html_file, junit_file):
        if file is not None:
            try:
                # Before the run: an unwritable report is reported in the first second, not after minutes.
                check_can_write(file)
            except OSError as error:
                _refuse(f"{file} cannot be written: {error}")
    try:
        # On standard error: standard output is for the report alone.
        with LiveProgress(Console(stderr=True)) as progress:
            report = asyncio.run(_awaited(judge(task, progress)))
    except KeyboardInterrupt:
        typer.echo("pyjms-tck: ended by Ctrl-C; no report was made", err=True)
        sys.exit(INTERRUPTED)
    except asyncio.CancelledError:
        typer.echo("pyjms-tck: ended by SIGTERM", err=True)
        # the shell's code for a process that a signal has ended
        sys.exit(128 + SIGTERM)
    except SelectionError as error:
        _refuse(str(error))
    except RunRefusedError as error:
        _refuse(str(error), Exit.UNREACHABLE if error.is_unreachable else Exit.USAGE)
    print_report(console, report)
    are_written = True
    for file, form in ((json_file, Report.to_json), (html_file, to_html), (junit_file, to_junit)):
        if file is not None:
            are_written &= _write(console, file, form(report))
    raise typer.Exit(_exit_code(report) if are_written else Exit.USAGE)


def _check_can_judge() -> None:
    if find_spec("pytest") is None:
        _refuse(MISSING_EXTRA.format(missing="pytest"))


def _write(console: Console, file: Path, text: str) -> bool:
    """Write a report and say where it is, or why there is none: the other reports are still written."""
    try:
        write_whole(file, text)
    except OSError as error:
        typer.echo(printable(f"pyjms-tck: {file} cannot be written: {error.strerror}"), err=True)
        return False
    console.print(printable(f"written: {file}"), highlight=False, markup=False, soft_wrap=True)
    return True


async def _awaited(report: Awaitable[Report]) -> Report:
    """Return `report`. SIGTERM, which CI sends, ends the run as Ctrl-C does: with its processes and its folder."""
    task = asyncio.current_task()
    assert task is not None
    with suppress(NotImplementedError, RuntimeError):  # on Windows, or outside of the main thread
        asyncio.get_running_loop().add_signal_handler(SIGTERM, task.cancel)
    return await report


def _exit_code(report: Report) -> Exit:
    if report.given_up:
        return Exit.GIVEN_UP
    if not report.has_passed:
        return Exit.FAILED
    return Exit.CONFORMS if report.conforms else Exit.WAIVED


def _read(path: Path) -> Report:
    try:
        return Report.from_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        _refuse(f"cannot read {path}: {error.strerror}")
    except UnicodeDecodeError:
        _refuse(f"{path}: this is no report of pyjms-tck: it is no text in UTF-8")
    except ReportError as error:
        _refuse(f"{path}: {error}")


def _refuse(text: str, code: Exit = Exit.USAGE) -> NoReturn:
    typer.echo(f"pyjms-tck: {printable(text)}", err=True)
    sys.exit(code)

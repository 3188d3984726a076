"""A run's progress on the terminal: the number of ended tests, and their outcomes."""

from __future__ import annotations

from collections import Counter
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Column

from pyjms.spi.terminal import escaped
from pyjms.spi.words import counted
from pyjms_tck.results import Outcome, TestResult
from pyjms_tck.runner.messages import Collected

_WIDE: Final = 120
"""The minimum width of a terminal for the name of the last test."""


class LiveProgress:
    """The `Listener` that draws. Without a terminal it prints one line when the tests start."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._counts: Counter[Outcome] = Counter()
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=40 if console.width >= _WIDE else 10),
            MofNCompleteColumn(table_column=Column(no_wrap=True, min_width=len("999/999"))),
            TextColumn(
                "[green]{task.fields[passed]} passed[/] [red]{task.fields[failed]} failed[/]",
                table_column=Column(no_wrap=True, min_width=len("999 passed 99 failed")),
            ),
            TimeElapsedColumn(),
            *([TextColumn("[bright_black]{task.fields[last]}[/]")] if console.width >= _WIDE else []),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task("looking at the provider", total=None, passed=0, failed=0, last="")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def refresh(self) -> None:
        """Draw at once; otherwise drawing happens some times a second."""
        self._progress.refresh()

    def on_collected(self, collected: Collected) -> None:
        """See `Listener`."""
        about = collected.provider
        name = escaped(f"{about.name} {about.version}")
        self._progress.update(self._task, description=name, total=len(collected.tests))
        if not self._console.is_terminal:
            self._console.print(f"{name}: {counted(len(collected.tests), 'test')}")

    def on_result(self, result: TestResult) -> None:
        """See `Listener`."""
        self._counts[result.outcome] += 1
        self._progress.update(
            self._task,
            advance=1,
            passed=self._counts[Outcome.PASSED],
            failed=self._counts[Outcome.FAILED],
            last=result.test.partition("::")[2][:40],
        )

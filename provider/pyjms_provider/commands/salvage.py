"""``pyjms broker salvage``: copy the readable parts of a damaged store into a new one."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from pyjms.spi.terminal import escaped, listing, put_json
from pyjms.spi.words import counted
from pyjms_provider.commands.telling import AsJson, errors_told, show

if TYPE_CHECKING:
    from pyjms_provider.stores.sql.salvage import SalvagedTable, SalvageResult

_PREFIX: Final = "pyjms_"


def salvage(
    damaged: Annotated[Path, typer.Argument(help="The damaged file.", metavar="DAMAGED", show_default=False)],
    new: Annotated[
        Path, typer.Argument(help="The new store, which must not be there.", metavar="NEW", show_default=False)
    ],
    as_json: AsJson = False,
) -> None:
    """Save what can be read of a damaged SQLite store into a new one.

    No broker may work with the damaged file. Nothing of it is changed, but that its write-ahead log is carried over, as by any program that opens it.
    """
    with errors_told():
        from pyjms.spi.clock import SystemClock
        from pyjms_provider.stores.sql.salvage import salvage as save

        columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
        console = Console(stderr=True)
        # A log would get an empty line in place of the progress that a terminal shows.
        with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as screen:
            task = screen.add_task("reading", total=None)
            salvaged = save(
                damaged,
                new,
                SystemClock(),
                lambda table, rows: screen.update(
                    task, description=f"{table.removeprefix(_PREFIX)}: {counted(rows, 'row')}"
                ),
            )
    if as_json:
        put_json(asdict(salvaged))
    else:
        _tell(salvaged, new)


def _tell(salvaged: SalvageResult, new: Path) -> None:
    table = listing("table", "rows saved", "what is lost")
    for each in salvaged.tables:
        if each.saved or not each.is_whole:
            table.add_row(each.name.removeprefix(_PREFIX), f"{each.saved:,}", _lost(each))
    show(table)
    show(
        f"[green]saved[/] {counted(salvaged.messages, 'message')} in {escaped(str(new))}; all come flagged as redelivered"
    )
    if salvaged.made_queues:
        names = ", ".join(salvaged.made_queues)
        show(f"[yellow]in new queues[/] are those of which it is lost where they were: {escaped(names)}")
    if salvaged.set_aside:
        show(
            f"[yellow]set aside[/] in the table {_PREFIX}set_aside: {counted(salvaged.set_aside, 'message')} of lost transactions"
        )


def _lost(saved: SalvagedTable) -> str:
    if saved.is_whole:
        return ""
    unread = f"what {counted(saved.unread, 'key')} had, at most" if saved.unread else ""
    ends = "what was before the first or behind the last of these" if saved.lacks_ends else ""
    refused = f"{counted(saved.refused, 'row that is', 'rows that are')} damaged, at most" if saved.refused else ""
    return "; ".join(filter(None, (unread, refused, ends))) or "nothing that is known"

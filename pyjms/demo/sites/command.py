"""``pyjms demo`` over two sites."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import typer
from rich.console import Console

from pyjms import JMSException
from pyjms.demo.books import OtherRunError
from pyjms.demo.ending import BROKE_OFF, DOES_NOT_ADD_UP, complain, failure
from pyjms.demo.plan import Plan
from pyjms.demo.screen import progress
from pyjms.demo.sites.processes import SiteError
from pyjms.demo.sites.run import Run
from pyjms.demo.sites.screen import as_data, show_outcome, show_sites
from pyjms.spi.terminal import CANNOT_BE_USED, INTERRUPTED, escaped


def over_two_sites(plan: Plan, folder: Path | None, kills: int, *, as_json: bool) -> None:
    """Run, show the outcome, and only then forget the run."""
    console = Console(stderr=as_json, quiet=as_json, emoji=False)
    with _folder(folder) as place:
        run = Run(plan, place, kills)
        try:
            _work_off(run, console, as_json=as_json)
        except KeyboardInterrupt:
            goes_on = "" if folder is None else " Start it again with the same options, and it goes on."
            complain(f"Stopped: both sites have ended, and what they have committed is in their stores.{goes_on}")
            raise typer.Exit(INTERRUPTED) from None
        except (SiteError, OtherRunError) as error:
            raise failure(error, CANNOT_BE_USED) from error
        except JMSException as error:
            raise failure(error, BROKE_OFF) from error
        finally:
            run.close()


def _work_off(run: Run, console: Console, *, as_json: bool) -> None:
    started = perf_counter()
    run.reach()
    show_sites(console, run)
    with progress(console, run.tallies) as watch:
        outcome = run.run(
            watch, lambda line: console.print(f"[yellow]{escaped(line)}[/]", highlight=False, soft_wrap=True)
        )
    seconds = perf_counter() - started
    if as_json:
        typer.echo(json.dumps(as_data(run, outcome, seconds), indent=2))
    else:
        show_outcome(console, run, outcome, seconds)
    if not outcome.adds_up:
        raise typer.Exit(DOES_NOT_ADD_UP)
    run.finish()


@contextmanager
def _folder(chosen: Path | None) -> Iterator[Path]:
    """Give the folder of the run: the user's, or one that is removed at the end."""
    if chosen is not None:
        yield chosen.absolute()
        return
    with TemporaryDirectory(prefix="pyjms-demo-") as temporary:
        yield Path(temporary)

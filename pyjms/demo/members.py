"""``pyjms demo --members N``: the demo with one site over a cluster, one member of which is killed on the way.

PostgreSQL, and each member, is a process of its own on a free port of this machine. A member's process is this module:
``python -m pyjms.demo.members NAME PORT URL``. It ends with its standard input, so that it never outlives the demo.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from time import perf_counter
from typing import Any, Final

import typer
from rich.console import Console

from pyjms import JMSException
from pyjms.api.base import Closeable
from pyjms.demo.books import Happening, Outcome
from pyjms.demo.ending import BROKE_OFF, DOES_NOT_ADD_UP, complain, failure
from pyjms.demo.plan import InputError, Plan
from pyjms.demo.process import Process
from pyjms.demo.screen import as_data, progress, show_outcome, show_plan, show_resumed
from pyjms.demo.settings import Settings
from pyjms.spi.terminal import INTERRUPTED, escaped
from pyjms.testing import MissingPostgresqlError, PostgresqlServer

INSTALL: Final = "pip install 'pyjms-messaging[broker,stomp,postgresql]'"
_COMMANDS: Final = "pyjms.commands"
_NAMES: Final = ("left", "right", "third", "fourth", "fifth", "sixth", "seventh", "eighth")
_BREAKS_MAX: Final = 5
"""How often a run may be broken off: one member is killed, so one break is expected, and others when members start and get their share of the queues."""


class MemberProcess:
    """One member, whose process may be killed, and started again at the same port. For one thread."""

    def __init__(self, name: str, folder: Path, store_url: str) -> None:
        self.name = name
        self._log = folder / f"{name}.log"
        self._store_url = store_url
        self._port = 0
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        """The id of its process; 0 if there is none."""
        return 0 if self._process is None else self._process.pid

    @property
    def address(self) -> str:
        """``HOST:PORT``, once it was `announced`."""
        return f"127.0.0.1:{self._port}"

    def launch(self) -> None:
        """Start the process; `announced` waits until it serves clients."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - this very Python
                [sys.executable, "-m", "pyjms.demo.members", self.name, str(self._port), self._store_url],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # Ctrl-C is for the demo, which then ends its members
            )

    def announced(self) -> None:
        """Wait until it accepts connections. Raises `InputError` when it does not come up."""
        assert self._process is not None, "it was launched"
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith("listening "):
            text = self._log.read_text(errors="replace").strip()
            raise InputError(f"the member {self.name} does not start: {text or 'it says nothing'}")
        # At first any free port; later the same one, which clients know.
        self._port = int(line.rpartition(":")[2])

    def kill(self) -> None:
        """Kill it (SIGKILL), if it is running."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.communicate()


class Members(Closeable):
    """PostgreSQL, and the members of a cluster over it; they end with `close`, or with this process."""

    def __init__(self, count: int) -> None:
        """Start all. Raises `InputError` if PostgreSQL is missing, or a member does not start."""
        self.deaths: list[dict[str, Any]] = []
        """The members that were killed."""
        self._ends = ExitStack()
        with ExitStack() as undo:
            undo.callback(self.close)
            try:
                server = self._ends.enter_context(PostgresqlServer())
            except (MissingPostgresqlError, RuntimeError) as error:
                raise InputError(str(error)) from error
            folder = Path(self._ends.enter_context(TemporaryDirectory(prefix="pyjms-demo-")))
            self.all = [MemberProcess(name, folder, server.url) for name in _NAMES[:count]]
            for each in self.all:
                self._ends.callback(each.kill)
                each.launch()
            for each in self.all:
                each.announced()
            undo.pop_all()

    @property
    def url(self) -> str:
        """The URL for clients: the first member, and the others for when it is not there.

        A lost connection ends the work on it at once, which then begins anew on the next connection.
        """
        first, *others = (each.address for each in self.all)
        return f"stomp://{first}?{'&'.join(['reconnect=no', *(f'failover={each}' for each in others)])}"

    def close(self) -> None:
        """End all processes. May be repeated."""
        self._ends.close()


class ClusterRun:
    """One run of the chain over a cluster: the member that has the connections is killed when half of the records are looked up."""

    def __init__(self, plan: Plan, settings: Settings, members: Members, tell: Callable[[str], None]) -> None:
        """tell: called with a line when a member was killed, or is started again."""
        self._plan = plan
        self._settings = replace(settings, url=members.url, is_clustered=True)
        self._members = members
        self._tell = tell
        self._half = len(plan.table.records) // 2
        self._breaks = 0
        self.process = self._reach()
        """The present attempt."""

    def _reach(self) -> Process:
        while True:
            process = Process(self._plan, self._settings)
            try:
                process.reach()
            except (JMSException, TimeoutError) as error:
                self._note_break(error)
            else:
                return process

    def run(self, console: Console) -> Outcome:
        """Return the outcome. Raises `JMSException` if it does not come to an end."""
        while True:
            try:
                with progress(console, self.process.counters) as watch:
                    return self.process.run(lambda: self._watch(watch))
            except (JMSException, TimeoutError) as error:
                self._note_break(error)
            # What is committed is in the cluster: the next attempt goes on from there, at a member that lives.
            self.process = self._reach()
            show_resumed(console, self.process.counters)
            self._start_again()

    def _note_break(self, error: Exception) -> None:
        """Tell that the run was broken off. Raises `JMSException` when it was too often."""
        self._breaks += 1
        if self._breaks == _BREAKS_MAX:
            raise JMSException(f"the run was broken off {_BREAKS_MAX} times, the last time by: {error}") from error
        self._tell(f"The run was broken off: {error}")

    def _watch(self, watch: Callable[[], None]) -> None:
        watch()
        if not self._members.deaths and self.process.look_up[Happening.DONE] >= self._half:
            victim = self._members.all[0]
            pid = victim.pid
            victim.kill()
            done = self.process.look_up[Happening.DONE]
            self._members.deaths.append({"member": victim.name, "looked_up": done})
            self._tell(
                f"The member {victim.name} was killed (kill -9, process {pid}): {done} of {self._half * 2} records were looked up."
            )

    def _start_again(self) -> None:
        victim = self._members.all[0]
        if not victim.pid:
            victim.launch()
            self._tell(f"{victim.name} is started again, as process {victim.pid}: it gets its share of the queues.")


def over_members(plan: Plan, settings: Settings, count: int, *, as_json: bool) -> None:
    """Run the chain over a cluster of so many members, and show the outcome.

    Raises:
        InputError: PostgreSQL is missing, or a member does not start.
    """
    # With --json, standard output is for the document alone.
    console = Console(stderr=as_json, quiet=as_json, emoji=False)
    started = perf_counter()
    for name in ("pyjms", "pyjms_provider"):
        # Lost connections are what this demo is about, and its screen tells of them.
        logging.getLogger(name).addHandler(logging.NullHandler())
    try:
        with Members(count) as members:
            show_plan(console, plan, "a cluster over PostgreSQL")
            for each in members.all:
                console.print(
                    f"  [bold]{each.name:<7}[/] stomp://{each.address}  process {each.pid}",
                    highlight=False,
                    soft_wrap=True,
                )
            run = ClusterRun(
                plan,
                settings,
                members,
                lambda line: console.print(f"[yellow]{escaped(line)}[/]", highlight=False, soft_wrap=True),
            )
            outcome = run.run(console)
    except KeyboardInterrupt:
        complain("Stopped: the members and PostgreSQL have ended, and their data is removed.")
        raise typer.Exit(INTERRUPTED) from None
    except (JMSException, TimeoutError) as error:
        raise failure(error, BROKE_OFF) from error
    seconds = perf_counter() - started
    if as_json:
        data = as_data(plan, settings, run.process, outcome, seconds)
        typer.echo(json.dumps({**data, "killed": members.deaths}, indent=2))
    else:
        show_outcome(console, plan, run.process.counters, outcome, seconds, is_kept=True)
    if not outcome.adds_up:
        raise typer.Exit(DOES_NOT_ADD_UP)


def main(name: str, port: str, store_url: str) -> None:
    """Serve until the standard input ends."""
    # By its entry point: the client's package must not import the broker's.
    broker, *_ = metadata.entry_points(group=_COMMANDS, name="broker")
    try:
        commands = broker.load()
    except ModuleNotFoundError as error:
        sys.exit(f"the package {error.name} is missing; install what a member needs with: {INSTALL}")
    # The broker has the main thread, since signal handlers can be set there alone.
    Thread(target=_end_with_input, name="demo member", daemon=True).start()
    listen = f"stomp://127.0.0.1:{port}"
    cluster = ["--name", "demo", "--cluster", "demo", "--member", name, "--store", store_url]
    commands()(["run", "--listen", listen, "--anonymous", *cluster])


def _end_with_input() -> None:
    sys.stdin.read()
    os._exit(0)  # at once: the demo has ended, or was killed


if __name__ == "__main__":
    main(*sys.argv[1:])

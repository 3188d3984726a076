"""Processes that are killed by the hundred: forked from one that has imported everything, as imports are most of what a start costs.

Each is a process of its own, with its own id, standard streams and folder; `kill` is SIGKILL. `broker` and `flow` are programs that
many tests want: the commands of these names.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

from pyjms.commands.flow import commands as flow_commands
from pyjms_provider.commands.broker import commands as broker_commands

__all__ = ["BROKER", "FLOW", "Child", "broker", "flow"]

BROKER, FLOW = "tests.system.nursery:broker", "tests.system.nursery:flow"

_context = get_context("forkserver")
_context.set_forkserver_preload(
    [
        "pyjms.cli",
        "pyjms.commands.flow",
        "pyjms.demo.command",
        "pyjms.flows.sql_store",
        "pyjms.forwarding.transfer",
        "pyjms.history.recording",
        "pyjms.history.recorder",
        "pyjms.recoverable.sql_logs",
        "pyjms.recoverable.sql_logs",
        "pyjms_provider.clients.vm",
        "pyjms_provider.clients.stomp.provider",
        "pyjms_provider.clients.stomp.native.connection",
        "pyjms_provider.commands.broker",
        "pyjms_provider.protocols.stomp.server.engine",
        "pyjms_provider.model.broker",
        "pyjms_provider.model.virtual_host_node",
        "pyjms_provider.security.logins",
        "pyjms_provider.serving.served_broker",
        "pyjms_provider.stores.sql",
        "pyjms_provider.stores.sql.migrations",
        "pyjms_provider.stores.sql.sqlite",
        "uvloop",
    ]
)


def broker() -> None:
    """Run ``pyjms broker``, without looking for other commands."""
    broker_commands()(sys.argv[1:])


def flow() -> None:
    """Run ``pyjms flow``."""
    flow_commands()(sys.argv[1:])


class Child:
    """Runs ``module:function`` with `arguments` as those of its command line."""

    def __init__(self, program: str, *arguments: str, folder: Path, log: Path) -> None:
        stdin, self._into = _context.Pipe(duplex=False)
        self._out_of, stdout = _context.Pipe(duplex=False)
        self._lines = os.fdopen(os.dup(self._out_of.fileno()), encoding="utf-8")
        self._process = _context.Process(
            target=_live, args=(program, arguments, str(folder), str(log), stdin, stdout), daemon=True
        )
        self._process.start()
        stdin.close()
        stdout.close()

    @property
    def pid(self) -> int:
        """The id of the process."""
        assert self._process.pid is not None
        return self._process.pid

    def read_line(self) -> str:
        """Return the next line of its standard output; "" when it has ended."""
        return self._lines.readline().rstrip("\n")

    def end(self) -> tuple[int, str]:
        """Wait until it has ended by itself; return its exit code, -9 for SIGKILL, and what it wrote since."""
        output = self._lines.read()
        self._process.join()
        code = self._process.exitcode
        assert code is not None
        self.kill()
        return code, output

    def write_line(self, line: str) -> None:
        """Give it a line of standard input."""
        os.write(self._into.fileno(), f"{line}\n".encode())

    def has_ended(self) -> bool:
        """Whether it has ended by itself."""
        return not self._process.is_alive()

    def kill(self) -> None:
        """Kill it, if it has not ended. May be repeated."""
        self._process.kill()
        self._process.join()
        self._lines.close()
        self._out_of.close()
        self._into.close()


def _live(
    program: str, arguments: tuple[str, ...], folder: str, log: str, stdin: Connection, stdout: Connection
) -> None:
    os.chdir(folder)
    os.dup2(stdin.fileno(), 0)
    os.dup2(stdout.fileno(), 1)
    with Path(log).open("ab") as file:
        os.dup2(file.fileno(), 2)
    stdin.close()
    stdout.close()
    sys.stdin, sys.stdout, sys.stderr = (
        os.fdopen(0, encoding="utf-8"),
        os.fdopen(1, "w", buffering=1, encoding="utf-8"),
        os.fdopen(2, "w", buffering=1, encoding="utf-8"),
    )
    module, _, function = program.partition(":")
    sys.argv = ["pyjms", *arguments]
    getattr(import_module(module), function)()

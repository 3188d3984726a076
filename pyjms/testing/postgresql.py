"""A PostgreSQL server for one test run or one demo: in a temporary directory, on a free port of this machine."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from pyjms.api.base import Closeable

__all__ = ["MissingPostgresqlError", "PostgresqlServer"]

_BINARIES: Final = "/usr/lib/postgresql"
"""Where Debian and Ubuntu put the programs of each version, which are in no PATH."""
_OPTIONS: Final = (
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "max_connections=100",
    "fsync=off",  # the server goes with its data: they survive a killed process, and need not survive the machine
)
_WATCH: Final = """
cat
if [ -f "$0/data/postmaster.pid" ]; then
    main=$(head -n 1 "$0/data/postmaster.pid")
    kill -QUIT "$main"
    for _ in $(seq 50); do kill -0 "$main" && sleep 0.1; done
fi
rm -rf "$0"
"""
"""Waits until its input ends, which comes with the end of the process that has started the server, and then ends that, and removes its directory."""


class MissingPostgresqlError(RuntimeError):
    """PostgreSQL's server is not installed, or cannot be run by this user."""


class PostgresqlServer(Closeable):
    """A server of the PostgreSQL that is installed on this machine; it ends with `close`, and with this process however that ends."""

    def __init__(self) -> None:
        """Make a database in a temporary directory, and start the server. Takes a few seconds.

        Raises:
            MissingPostgresqlError: It is not installed; the text says what to install.
            RuntimeError: It does not start; the text has its log.
        """
        if os.name != "posix":
            raise MissingPostgresqlError(
                "PostgreSQL's server is started on Linux and macOS alone: use the URL of a database that runs"
            )
        self._programs = _programs()
        # The server refuses to run as root.
        self._user = _user_for_root() if os.geteuid() == 0 else None
        self._directory = Path(tempfile.mkdtemp(prefix="pyjms-postgresql-"))
        if self._user is not None:
            os.chown(self._directory, *self._user)
        self._watch = subprocess.Popen(  # noqa: S603 - a fixed text, and our own directory
            ["/bin/sh", "-c", _WATCH, str(self._directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # a Ctrl-C ends this process, and the server after it
        )
        with ExitStack() as undo:
            undo.callback(self._watch.communicate)
            self._run("initdb", "--auth=trust", "--username=pyjms", "--encoding=UTF8", "--no-sync", "--pgdata")
            port = _free_port()
            options = " ".join([f"-p {port}", *(f"-c {each}" for each in _OPTIONS)])
            log = str(self._directory / "log")
            self._run("pg_ctl", "start", "--wait", "-o", options, "--log", log, "--pgdata")
            undo.pop_all()
        self.url = f"postgresql+psycopg://pyjms@127.0.0.1:{port}/postgres"
        """The URL of its database, as `store_url` of a broker."""

    def close(self) -> None:
        """End the server, and remove its directory. May be repeated."""
        if self._watch.returncode is not None:
            return
        with suppress(RuntimeError):  # it has ended by itself
            self._run("pg_ctl", "stop", "--wait", "--mode", "immediate", "--pgdata")
        self._watch.communicate()

    def _run(self, program: str, *arguments: str) -> None:
        user, output = self._user, self._directory / f"{program}.log"
        # A file, which the server inherits: a pipe would never end.
        with output.open("wb") as written:
            done = subprocess.run(  # noqa: S603 - PostgreSQL's own programs
                [str(self._programs / program), *arguments, str(self._directory / "data")],
                user=None if user is None else user[0],
                group=None if user is None else user[1],
                extra_groups=None if user is None else [],
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=subprocess.STDOUT,
                check=False,
                start_new_session=True,  # Ctrl-C is for this process, which ends the server in order
            )
        if done.returncode:
            logs = (output, self._directory / "log")
            told = " ".join(each.read_text(errors="replace").strip() for each in logs if each.exists())
            raise RuntimeError(f"PostgreSQL: {program} failed: {told}")


def _programs() -> Path:
    on_path = shutil.which("initdb")
    if on_path is not None:
        return Path(on_path).resolve().parent
    found = sorted(Path(_BINARIES).glob("*/bin/initdb"))
    if not found:
        raise MissingPostgresqlError(
            "PostgreSQL's server is not installed on this machine: apt install postgresql (Debian, Ubuntu), dnf install postgresql-server "
            "(Fedora), brew install postgresql (macOS); or use the URL of a database that runs"
        )
    return found[-1].parent


def _user_for_root() -> tuple[int, int]:
    """Return the ids of the user and the group that the server runs as."""
    import pwd  # which Windows does not have

    try:
        found = pwd.getpwnam("postgres")
    except KeyError:
        raise MissingPostgresqlError(
            "PostgreSQL does not run as root, and this machine has no user postgres, which its package makes: run this as another user"
        ) from None
    return found.pw_uid, found.pw_gid


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port

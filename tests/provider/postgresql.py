"""A PostgreSQL server of the tests' own: in a temporary directory, on a free port of the loopback interface."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, Final, LiteralString

import psycopg

from tests.needs.declaring import use
from tests.needs.table import missing_text, postgresql_programs
from tests.ports import free_port

_WATCH = """
cat
if [ -f "$0/data/postmaster.pid" ]; then
    main=$(head -n 1 "$0/data/postmaster.pid")
    kill -QUIT "$main"
    for _ in $(seq 50); do kill -0 "$main" && sleep 0.1; done
fi
rm -rf "$0"
"""
"""Waits for the end of its input, which comes with the end of whoever has started it, and then ends the server, and removes its directory."""

_STORE_LOCK: Final = int.from_bytes(b"pjms")
"""The first half of the key of a store's advisory lock (docs/design/stores.md); the second is made of its schema's name."""
_HOLDER: Final = (
    "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND classid = %s "
    "AND objid::bigint = hashtext(%s)::bigint & 4294967295"
)


class PostgresqlServer:
    """The server does not run as root, so root's tests run it as the user that its package made."""

    def __init__(self, copied: PostgresqlServer | None = None) -> None:
        """`copied`: the server whose data it begins with, as `pg_basebackup` copies them while that server runs; None: it begins with none."""
        use("postgresql")
        found = postgresql_programs()
        assert found is not None, missing_text("postgresql")
        self._programs = found
        self._user = pwd.getpwnam("postgres") if os.geteuid() == 0 else None
        self.directory = Path(tempfile.mkdtemp(prefix="pyjms-postgresql-"))
        if self._user is not None:
            os.chown(self.directory, self._user.pw_uid, self._user.pw_gid)
        self._port = free_port()
        self._schemas = count(1)
        self._watcher = subprocess.Popen(
            ["sh", "-c", _WATCH, str(self.directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # so that it outlives what ends the tests
        )
        try:
            if copied is None:
                self._run("initdb", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--no-sync", "--pgdata")
            else:
                where = ["--host=127.0.0.1", f"--port={copied.port}", "--username=postgres"]
                self._run("pg_basebackup", *where, "--checkpoint=fast", "--no-sync", "--pgdata")
            self.start()
        except BaseException:
            self._watcher.communicate()
            raise

    @property
    def port(self) -> int:
        """Its port of the loopback interface."""
        return self._port

    @property
    def _data(self) -> str:
        return str(self.directory / "data")

    def _run(self, program: str, *arguments: str) -> None:
        ids = {} if self._user is None else {"user": self._user.pw_uid, "group": self._user.pw_gid}
        done = subprocess.run(
            [str(self._programs / program), *arguments, self._data],
            **ids,  # type: ignore[call-overload]  # mypy takes them for any keyword
            extra_groups=[] if self._user is not None else None,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,  # the server inherits it: a pipe would never end
            stderr=subprocess.DEVNULL,
            check=False,
        )
        if done.returncode:
            log = self.directory / "log"
            raise RuntimeError(f"{program} failed: {log.read_text() if log.exists() else 'no log'}")

    def start(self) -> None:
        """Start, and return when connections are accepted. The machine does not lose power, so nothing is forced."""
        options = f"-p {self._port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c max_connections=60 -c fsync=off"
        options += " -c max_prepared_transactions=20"  # none by default, and tests of XA use some
        self._run("pg_ctl", "start", "--wait", "-o", options, "--log", str(self.directory / "log"), "--pgdata")

    def stop(self, mode: str = "fast") -> None:
        """Stop; with `immediate` as if its process had died."""
        self._run("pg_ctl", "stop", "--wait", "--mode", mode, "--pgdata")

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """Have no process of the server do anything; the system takes connections, and what is sent, all the same."""
        main = int((self.directory / "data" / "postmaster.pid").read_text().split()[0])
        os.kill(main, signal.SIGSTOP)  # first, so that it begins no other
        every = [main, *map(int, Path(f"/proc/{main}/task/{main}/children").read_text().split())]
        try:
            for process in every[1:]:
                os.kill(process, signal.SIGSTOP)
            yield
        finally:
            for process in every:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGCONT)

    @contextmanager
    def forgetful(self) -> Iterator[Callable[[], None]]:
        """Write nothing but what is forced, as for some tenths of a second at all times; yields what has the server die and start again."""

        def die() -> None:
            self.stop("immediate")
            self.start()

        self._configure("SET wal_writer_delay = '10s'")
        try:
            yield die
        finally:
            self._configure("RESET wal_writer_delay")

    @contextmanager
    def without_stand_by(self) -> Iterator[None]:
        """Have each forced commit wait for a stand-by server that is not there."""
        with self.connect() as waiting, self.connect() as looking:
            self._configure("SET synchronous_standby_names = 'nobody'")
            try:
                while not _waits_for_stand_by(waiting, looking):
                    pass  # one of the server's processes has not heard of it yet
                yield
            finally:
                self._configure("RESET synchronous_standby_names")
                _await_results(waiting)

    def _configure(self, change: LiteralString) -> None:
        with self.connect() as connection:
            connection.execute(f"ALTER SYSTEM {change}")
            connection.execute("SELECT pg_reload_conf()")

    def remove(self) -> None:
        """Stop, and leave nothing behind."""
        try:
            self.stop("immediate")
        finally:
            self._watcher.communicate()

    def connect(self, database: str = "postgres") -> psycopg.Connection[tuple[object, ...]]:
        """Connect as an administrator; each statement is committed by itself."""
        return psycopg.connect(host="127.0.0.1", port=self._port, user="postgres", dbname=database, autocommit=True)

    def back_up(self, database: str, file: Path, *options: str) -> None:
        """Write a database to a file by `pg_dump`, as operators do."""
        self._client("pg_dump", "--format=custom", f"--file={file}", *options, database)

    def restore(self, file: Path, database: str) -> None:
        """Make a new database of what `back_up` has written."""
        self._client("createdb", database)
        self._client("pg_restore", "--exit-on-error", f"--dbname={database}", str(file))

    def _client(self, program: str, *arguments: str) -> None:
        where = ["--host=127.0.0.1", f"--port={self._port}", "--username=postgres"]
        done = subprocess.run(
            [str(self._programs / program), *where, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{program}: {done.stderr}"

    def make_store(self) -> str:
        """Make an empty schema, and return the URL of a store in it."""
        schema = f"store_{next(self._schemas)}"
        with self.connect() as connection:
            connection.execute(f"CREATE SCHEMA {schema}".encode())
        return f"postgresql+psycopg://postgres@127.0.0.1:{self._port}/postgres?options=-csearch_path%3D{schema}"

    def holder(self, url: str) -> int:
        """Return the process of the server that serves the broker which holds the store with this URL."""
        schema = url.rpartition("%3D")[2].partition("&")[0]
        with self.connect() as connection:
            [[pid]] = connection.execute(_HOLDER, (_STORE_LOCK, schema)).fetchall()
        assert isinstance(pid, int)
        return pid

    def cut_holder(self, url: str) -> None:
        """End the connection of the broker that holds the store."""
        pid = self.holder(url)
        with self.connect() as connection:
            connection.execute("SELECT pg_terminate_backend(%s, 10000)", (pid,))


def _waits_for_stand_by(waiting: psycopg.Connection[Any], looking: psycopg.Connection[Any]) -> bool:
    """Commit something, and return whether that waits for a stand-by server."""
    waiting.pgconn.send_query(b"SELECT pg_logical_emit_message(true, 'tests', '')")
    while True:
        waiting.pgconn.consume_input()
        if not waiting.pgconn.is_busy():
            _await_results(waiting)
            return False
        pid = waiting.info.backend_pid
        found = looking.execute("SELECT wait_event FROM pg_stat_activity WHERE pid = %s", (pid,)).fetchone()
        if found == ("SyncRep",):
            return True


def _await_results(connection: psycopg.Connection[Any]) -> None:
    while connection.pgconn.get_result() is not None:
        pass

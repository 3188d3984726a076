"""What owners and operators do, and the housekeeper, while the store cannot be written: callers get an error, nothing is half done, and the broker goes on."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import LiteralString

import pytest

from tests.needs.table import own_mounts
from tests.provider.kill.chore_driver import WHEN, Play
from tests.provider.kill.chore_worker import READ_ONLY, UNANSWERED
from tests.provider.kill.site import PATIENCE_S, ROOT
from tests.provider.postgresql import PostgresqlServer

KILLED = pytest.mark.parametrize("when", WHEN)


@KILLED
def test_the_database_is_locked(tmp_path: Path, when: str) -> None:
    path = tmp_path / "store.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        play = Play(
            f"sqlite:///{path}",
            "locked",
            when,
            spoil=lambda: other.execute("BEGIN IMMEDIATE"),
            mend=lambda: other.execute("ROLLBACK"),
        )
        assert play.run() == []


@KILLED
@pytest.mark.parametrize("fault", [READ_ONLY, *UNANSWERED])
def test_nothing_is_written_or_nobody_answers(tmp_path: Path, fault: str, when: str) -> None:
    play = Play(f"sqlite:///{tmp_path / 'store.db'}", fault, when, spoil=lambda: None, mend=lambda: None)
    assert play.run() == []


@KILLED
def test_the_server_is_stopped(postgresql: PostgresqlServer, when: str) -> None:
    play = Play(postgresql.make_store(), "stopped", when, spoil=postgresql.stop, mend=postgresql.start)
    assert play.run() == []


@KILLED
def test_the_server_takes_no_writes(postgresql: PostgresqlServer, when: str) -> None:
    """As one that fails over."""
    with postgresql.connect() as administrator:
        administrator.execute("SET default_transaction_read_only = off")

        def change(how: LiteralString) -> None:
            administrator.execute(f"ALTER ROLE postgres {how}")
            administrator.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'pyjms'"
            )

        play = Play(
            postgresql.make_store(),
            "takes no writes",
            when,
            spoil=lambda: change("SET default_transaction_read_only = on"),
            mend=lambda: change("RESET default_transaction_read_only"),
        )
        try:
            assert play.run() == []
        finally:
            change("RESET default_transaction_read_only")


@pytest.mark.requires("unshare")
@KILLED
def test_the_disk_is_full(tmp_path: Path, when: str) -> None:
    namespace = own_mounts()
    assert namespace is not None
    script = [sys.executable, "-m", "tests.provider.kill.chore_driver", str(tmp_path), when]
    done = subprocess.run(
        [*namespace, *script], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")

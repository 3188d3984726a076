"""Programs that get signals at random moments, in every kind of call: nothing is lost, nothing is there twice, nothing hangs.

`PYJMS_SIGNALS_SEEDS` says how many seeds each has (1), `PYJMS_PYTHON` which Python runs them (that of the tests).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.needs.declaring import needing
from tests.provider.commands.served import environment
from tests.provider.postgresql import PostgresqlServer
from tests.system.network.served import port_of, stored_broker
from tests.tidy.source import ROOT

PROGRAM = Path(__file__).with_name("program.py")
SEEDS = int(os.environ.get("PYJMS_SIGNALS_SEEDS", "1"))
PYTHON = os.environ.get("PYJMS_PYTHON", sys.executable)
ITEMS = 60
HANGS_AFTER_S = 150
EMBEDDED = "vm://signals?max_deliveries=0"
WORKS = ("auto", "client", "transacted", "browse", "life", "xa")


def run(work: str, url: str, seed: int, *options: str) -> int:
    """Run the program; return how many calls were interrupted."""
    done = subprocess.run(
        [PYTHON, str(PROGRAM), work, url, str(seed), str(ITEMS), *options],
        cwd=ROOT,
        env=environment(PYTHONPATH=os.pathsep.join([str(ROOT), str(ROOT / "provider")])),
        capture_output=True,
        text=True,
        timeout=HANGS_AFTER_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["wrong"] == []
    return int(result["interrupted"])


@contextmanager
def broker_of(kind: str, folder: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """Yield the URL of a broker of this kind, at which messages may come again as often as they like, at once."""
    if kind == "stomp":
        host: dict[str, Any] = {"queue_defaults": {"max_deliveries": 0}, "redelivery_back_off_ms": 0}
        with stored_broker(f"sqlite:///{folder}/signals.db", **host) as broker:
            yield f"stomp://127.0.0.1:{port_of(broker)}"
    elif kind == "sqlite":
        yield f"{EMBEDDED}&store=sqlite:///{folder}/signals.db"
    elif kind == "postgresql":
        server: PostgresqlServer = request.getfixturevalue("postgresql")
        yield f"{EMBEDDED}&store={quote(server.make_store(), safe='')}"
    else:
        yield EMBEDDED


KINDS = ["memory", "sqlite", needing("postgresql"), "stomp"]


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("work", WORKS)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_lost_or_there_twice(
    kind: str, work: str, seed: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if (kind, work) == ("memory", "xa"):
        work = "auto"  # a broker without a store has no distributed transactions
    with broker_of(kind, tmp_path, request) as url:
        assert run(work, url, seed, "--others", "1") > 0


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_transaction_of_the_programs_own_is_joined_whole_or_not_at_all(seed: int, tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path}/joined.db"
    url = f"{EMBEDDED}&store={quote(f'{database}?pyjms_shared=true', safe='')}"
    assert run("join", url, seed, "--database", database) > 0

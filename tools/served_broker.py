"""A broker in a process of its own, for a conformance run: with one user, and restarted by its profile."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.ports import free_port
from tests.provider.commands.served import PYJMS

__all__ = ["served_broker"]

_USER, _PASSWORD = "judge", "conformance"


@contextmanager
def served_broker(folder: Path, *store: str, scheme: str = "stomp") -> Iterator[int]:
    """Run `pyjms broker run` with one user, and yield its port. `store`: more options; `scheme`: the protocol of the port."""
    users, facts, port = folder / "users.json", folder / "broker.json", free_port()
    subprocess.run(
        [*PYJMS, "broker", "user", "add", str(users), _USER],
        env={**os.environ, "PYJMS_PASSWORD": _PASSWORD},
        check=True,
        capture_output=True,
    )
    command = [*PYJMS, "broker", "run", "--listen", f"{scheme}://127.0.0.1:{port}", "--users", str(users), *store]
    with (folder / "broker.log").open("wb") as log:
        started = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True)
    assert started.stdout is not None
    line = started.stdout.readline()
    if not line.startswith("listening"):
        raise RuntimeError((folder / "broker.log").read_text())
    facts.write_text(json.dumps({"command": command, "pid": started.pid}))
    os.environ["PYJMS_CONFORMANCE_BROKER"] = str(facts)
    try:
        yield port
    finally:
        del os.environ["PYJMS_CONFORMANCE_BROKER"]
        with suppress(ProcessLookupError):
            os.kill(json.loads(facts.read_text())["pid"], signal.SIGTERM)
        started.stdout.close()
        started.wait(30)

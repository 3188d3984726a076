"""Runs one broker for all processes of a test session: `python -m tests.brokers.keeper KIND DIRECTORY`.

Who uses the broker holds a shared lock on DIRECTORY/users. The keeper waits for the exclusive one, which it gets when the
last user has let go or has died, however it died; then it ends the broker. It says ``ready`` on its standard output, or
what went wrong.
"""

from __future__ import annotations

import fcntl
import json
import sys
from pathlib import Path

from tests.brokers.running import KINDS


def main(kind: str, directory: Path) -> None:
    """Run a broker until nobody uses it."""
    broker = KINDS[kind](directory / "broker")
    address = directory / "address"
    with (directory / "users").open("a") as users:
        try:
            broker.start()
            address.write_text(json.dumps(broker.ports))
            sys.stdout.write("ready\n")
            sys.stdout.flush()
            fcntl.flock(users, fcntl.LOCK_EX)
        finally:
            address.unlink(missing_ok=True)
            broker.kill()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))

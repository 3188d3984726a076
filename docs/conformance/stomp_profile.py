"""The profile of the pyjms broker over STOMP, a process of its own that keeps messages in memory.

``PYJMS_CONFORMANCE_BROKER`` names a JSON file: for each broker, the first to be started first, the `command` that starts it, and the `pid` of the
one that runs.
"""

import json
import os
import signal
import subprocess
from pathlib import Path

from pyjms_tck.profile import Profile

_ATTEMPTS = 50


class StompProfile(Profile):
    """The broker is ended by SIGTERM, and started again at the same port."""

    title = "pyjms broker over STOMP"
    user_name = "judge"
    password = "conformance"  # noqa: S105 - of a broker that serves this run alone
    wrong_credentials = ("judge", "guess")
    nothing_ms = 150  # it is on this machine
    parallel = 1  # a broker that is restarted serves nobody meanwhile
    unsupported = dict.fromkeys(("4.7-b", "4.10-a"), "messages are kept in memory and end with the broker")

    def restart_broker(self) -> None:
        """End the broker, and start it again; of several, which are members of a cluster, all."""
        file = Path(os.environ["PYJMS_CONFORMANCE_BROKER"])
        brokers = json.loads(file.read_text())
        for each in reversed(brokers):
            os.kill(each["pid"], signal.SIGTERM)
        for each in brokers:
            each["pid"] = self._start(each["command"], file.parent)
        file.write_text(json.dumps(brokers))

    def _start(self, command: list[str], folder: Path) -> int:
        """Start a broker, and return the id of its process; it may take a moment until its port, its store and its name are free."""
        for _ in range(_ATTEMPTS):
            started = subprocess.Popen(  # noqa: S603 - the command is the one that started the first broker
                command,
                cwd=folder,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # it outlives the process of this test
                text=True,
            )
            assert started.stdout is not None
            if started.stdout.readline().startswith("listening"):
                return started.pid
            started.wait()
        raise RuntimeError("the broker did not start again; its standard error says why")

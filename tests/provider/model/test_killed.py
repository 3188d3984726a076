"""A broker that is killed in the middle of changes: what was answered is there, and nothing is half there."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pyjms_provider.model.managed import State
from tests.provider.model.world import Folder

ROOT = Path(__file__).parents[3]
PROGRAM = """
import sys
from itertools import count
from pathlib import Path
from tests.provider.model.world import Folder

folder = Folder(Path(sys.argv[1]))
broker = folder.open().broker
host = folder.host()
for number in count():
    broker.create_child("port", {"name": f"p{number}", "type": "stomp", "description": "x" * 500})
    host.create_child("queue", {"name": f"q{number}", "max_messages": number + 1, "description": "x" * 500})
    if number:
        broker.child("port", f"p{number - 1}").delete()
    print(number, flush=True)
"""


@pytest.mark.realises("BJ-MOD-3", "BJ-CFG-2")
@pytest.mark.parametrize("after", [1, 4, 9])
def test_what_was_answered_survives_a_kill(tmp_path: Path, after: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        answered = 0
        while answered < after:
            answered = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read().split()
    last = int(rest[-1]) if rest else answered
    folder = Folder(tmp_path)
    broker = folder.open().broker
    host = folder.found_host()
    assert {each.state for each in (broker, host, *broker.children(), *host.children("queue"))} == {State.ACTIVE}
    queues = host.child_names("queue")
    assert len(queues) in {last + 1, last + 2}, "what was answered is there, and at most one more"
    for name in queues:
        assert host.child("queue", name).attribute_values(["max_messages"]) == {"max_messages": int(name[1:]) + 1}
    ports = broker.child_names("port")
    assert set(ports) <= {f"p{number}" for number in (last, last + 1)}
    assert ports
    folder.close()
    assert not list(tmp_path.glob(".*.toml.*"))

"""What remains of a run that is ended from outside while a test hangs: nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from textwrap import dedent
from typing import TypeVar

import pytest

from tests.pyjms.runtime.helpers import Call

HANGS = """
    import os, threading
    from pyjms_tck.profile import Profile

    class Hangs(Profile):
        def create_queue(self, name):
            pipe = open(os.environ["PYJMS_TEST_PIPE"], "w")  # closed when this process is gone
            print(os.getpid(), file=pipe, flush=True)
            threading.Event().wait()
"""
MAIN = "from pyjms_tck.cli import main; main()"
PATIENCE_S = 60
T = TypeVar("T")


def in_time(function: Callable[[], T]) -> T:
    """Return what `function` returns, which waits for another process."""
    call = Call(function)
    call.thread.join(PATIENCE_S)
    return call.result()


def end(process: int) -> None:
    """Kill a process that should be gone."""
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_workers_that_hang_end_with_their_controller(tmp_path: Path, how: signal.Signals) -> None:
    profile, pipe, folder = tmp_path / "hangs.py", tmp_path / "pipe", tmp_path / "temporary"
    profile.write_text(dedent(HANGS), "utf-8")
    folder.mkdir()
    os.mkfifo(pipe)
    options = ("--profile", str(profile), "--select", "3.4.1-a", "--workers", "1", "--timeout", "300s")
    controller = subprocess.Popen(
        [sys.executable, "-c", MAIN, "run", "vm://ending", *options],
        env={**os.environ, "PYJMS_TEST_PIPE": str(pipe), "TMPDIR": str(folder)},
        stderr=subprocess.PIPE,
        text=True,
    )
    with ExitStack() as ending:
        ending.callback(controller.kill)
        told = ending.enter_context(in_time(partial(pipe.open, encoding="utf-8")))
        worker = int(in_time(told.readline))
        ending.callback(end, worker)  # first: what it holds open cannot be closed here while somebody reads it
        controller.send_signal(how)
        _, said = controller.communicate(timeout=PATIENCE_S)
        assert in_time(told.read) == "", "the worker has ended"
    if how is signal.SIGTERM:
        assert controller.returncode == 128 + signal.SIGTERM
        assert said.endswith("pyjms-tck: ended by SIGTERM\n")
    elif how is signal.SIGINT:
        assert controller.returncode == 128 + signal.SIGINT
        assert said.endswith("pyjms-tck: ended by Ctrl-C; no report was made\n")
    if how is not signal.SIGKILL:
        assert list(folder.iterdir()) == []
    else:
        assert controller.returncode == -signal.SIGKILL

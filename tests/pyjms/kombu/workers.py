"""Celery's workers, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.tidy.source import ROOT

__all__ = ["worker"]

_LONG_S = 20


@contextmanager
def worker(url: str, log: Path, *options: str, name: str = "one") -> Iterator[subprocess.Popen[bytes]]:
    """Run a worker, and have it end in order."""
    command = [sys.executable, "-m", "celery", "-A", "tests.pyjms.kombu.application", "worker", "--loglevel=INFO"]
    with log.open("ab") as output:
        process = subprocess.Popen(
            [*command, f"--hostname={name}@test", *(options or ("--pool=solo",))],
            env={**os.environ, "PYJMS_KOMBU_URL": url},
            cwd=ROOT,
            stdout=output,
            stderr=output,
        )
        try:
            yield process
        except BaseException:
            process.kill()
            process.wait()
            sys.stderr.write(log.read_text(errors="replace"))
            raise
        process.terminate()
        process.wait(_LONG_S)

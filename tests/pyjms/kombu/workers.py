"""Celery's workers, each in a process of its own, and their clients."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from celery import Celery
from celery.canvas import Signature
from kombu import pools

from tests.tidy.source import ROOT

__all__ = ["APPLICATION", "client", "task", "worker"]

APPLICATION = "tests.pyjms.kombu.application"
_LONG_S = 20


@contextmanager
def worker(
    url: str, log: Path, *options: str, name: str = "one", queue: str = "work"
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a worker. In the end it is killed, as ending in order takes seconds; but one with a pool, whose processes would stay."""
    command = [sys.executable, "-m", "celery", "-A", APPLICATION, "worker", "--loglevel=INFO"]
    with log.open("ab") as output:
        process = subprocess.Popen(
            [*command, f"--hostname={name}@test", f"--queues={queue}", *(options or ("--pool=solo",))],
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
        if options:
            process.terminate()
        else:
            process.kill()
        process.wait(_LONG_S)


@contextmanager
def client(url: str) -> Iterator[Celery]:
    """Make an application that sends tasks to the workers. In the end its connections are closed: they would look for the broker for ever."""
    with Celery("client", broker=url, backend="rpc://", set_as_current=False) as app:
        app.conf.task_default_queue = "work"
        try:
            yield app
        finally:
            app.backend.result_consumer.stop()
            pools.reset()


def task(app: Celery, name: str, *arguments: Any) -> Signature:
    """Return a task of the workers."""
    return app.signature(f"{APPLICATION}.{name}", arguments)

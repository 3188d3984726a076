"""A demo that kills itself: `run` with ``POINT:N ARGUMENTS`` runs ``pyjms demo --one-site ARGUMENTS``.

It prints ``working`` when it begins to work, and dies, as if by SIGKILL, when it comes by a point for the Nth time. The points
are in `POINTS`; each has a side, as in ``before commit:3``. Without a point (``-``) it is killed from the outside.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from functools import wraps
from itertools import count
from typing import Any, Final

from pyjms import cli
from pyjms.demo import books, command, process
from pyjms.demo.process import Process
from pyjms_provider.clients.vm import VmSession
from pyjms_provider.stores.sql import SqlJournal

POINTS: Final[dict[str, tuple[Any, *tuple[str, ...]]]] = {
    "write": (SqlJournal, "write", "add"),
    "commit": (VmSession, "commit"),
    "unsubscribe": (VmSession, "unsubscribe"),
    "begin": (process, "begin_or_resume"),
    "audit": (Process, "_audit"),
    "judge": (process, "judge_all"),
    "finish": (process, "close_books"),
    "purge": (books, "_take"),
    "outcome": (command, "as_data"),
}
"""What is done at each point; where it has several names, they are counted together."""


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def prepare(point: str) -> None:
    """Have this process die at ``SIDE NAME:N``."""
    place, _, passing = point.partition(":")
    side, name = place.split()
    owner, *attributes = POINTS[name]
    numbers = count(1)

    def make_mortal(act: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(act)
        def mortal(*arguments: Any, **options: Any) -> Any:
            is_last = next(numbers) == int(passing)
            if is_last and side == "before":
                _die()
            result = act(*arguments, **options)
            if is_last and side == "after":
                _die()
            return result

        return mortal

    for attribute in attributes:
        setattr(owner, attribute, make_mortal(getattr(owner, attribute)))


def run() -> None:
    """Run the demo that the command line asks for."""
    _, point, *arguments = sys.argv
    if point != "-":
        prepare(point)
    sys.argv = ["pyjms", "demo", "--one-site", *arguments]
    sys.stdout.write("working\n")
    sys.stdout.flush()
    cli.main()

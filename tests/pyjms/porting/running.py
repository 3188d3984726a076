"""Ported programs as modules."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module, invalidate_caches
from pathlib import Path
from types import ModuleType


@contextmanager
def modules_from(folder: Path) -> Iterator[None]:
    """Have modules in a folder be imported, and forget them afterwards."""
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - before:
            if str(folder) in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]


def imported(folder: Path, name: str, python: str) -> ModuleType:
    """Write a module into a folder, and import it."""
    (folder / f"{name}.py").write_text(python, encoding="utf-8")
    with modules_from(folder):
        return import_module(name)


@contextmanager
def threads_awaited() -> Iterator[None]:
    """Wait for the threads that a program has started, as the end of a process does; not for those of tests before this one."""
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        if not thread.daemon:
            thread.join(20)

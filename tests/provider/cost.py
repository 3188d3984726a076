"""What something costs, seen from outside: the memory that it keeps, and the lines of Python that a call runs."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType, FunctionType, ModuleType
from typing import Any, TypeVar

Kind = TypeVar("Kind")


def kept_by(root: object, *, without: Iterable[object] = ()) -> list[object]:
    """Return all objects that `root` keeps in memory, itself first and then the nearer ones first; not what it keeps through `without`, modules and classes."""
    seen: dict[int, object] = {id(each): each for each in without}
    many = len(seen)
    waiting = deque([root])
    while waiting:
        one = waiting.popleft()
        if id(one) in seen or isinstance(one, (ModuleType, type, FrameType)):
            continue
        seen[id(one)] = one
        # Of a function what it closes over: by its globals it reaches all modules.
        waiting += (one.__closure__ or ()) if isinstance(one, FunctionType) else gc.get_referents(one)
        if isinstance(one, dict):
            waiting += dict.keys(one)  # which the collector leaves out where all are strings
    return list(seen.values())[many:]


def kept(root: object, kind: type[Kind], *, without: Iterable[object] = ()) -> list[Kind]:
    """Return the objects of a type that `root` keeps in memory; `without` as in `kept_by`."""
    return [each for each in kept_by(root, without=without) if isinstance(each, kind)]


def nearest(root: object, kind: type[Kind]) -> Kind:
    """Return the object of a type that `root` keeps, or the nearest of several."""
    return kept(root, kind)[0]


def is_kept(root: object, wanted: object, *, without: Iterable[object] = ()) -> bool:
    """Return whether `root` keeps an object in memory; `without` as in `kept_by`."""
    return any(each is wanted for each in kept_by(root, without=without))


def memory_of(root: object, *, without: Iterable[object] = ()) -> int:
    """Return how many bytes all take that `root` keeps in memory; `without` as in `kept_by`."""
    return sum(sys.getsizeof(each) for each in kept_by(root, without=without))


def steps_of(call: Callable[[], object]) -> int:
    """Return how many lines of Python this thread runs in a call; a line counts again with each turn of a loop."""
    steps = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal steps
        steps += event == "line"
        return trace

    before = sys.gettrace()
    with _without_collector():
        sys.settrace(trace)
        try:
            call()
        finally:
            sys.settrace(before)
    return steps


def spare_memory_of(call: Callable[[], object]) -> int:
    """Return how many bytes a call needs for a while beyond those that stay: those of a list that it copies, for example."""
    with _without_collector():
        tracemalloc.start()
        try:
            call()
            left, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    return most - left


@contextmanager
def _without_collector() -> Iterator[None]:
    """Keep Python's collector from running, whose callbacks, and what it finds, would count."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()

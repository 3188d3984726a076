"""A line for each thing after which Python might look for signals, and for some after which it does not."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock
from types import TracebackType
from typing import Literal

__all__ = ["Caught", "called_back", "calls", "guarded", "turns", "with_arguments"]


class Caught(KeyboardInterrupt):
    """Raised where one was caught."""


class Held:
    """Something for `with`."""

    def __init__(self) -> None:
        self.is_held = False

    def __enter__(self) -> Literal[True]:
        self.is_held = True
        return True

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.is_held = False

    def ask(self, *_: int, **__: int) -> bool:
        """Tell whether it is held."""
        return self.is_held


HELD, LOCK = Held(), Lock()
NAMED = {"a": 1}


def own(*_: int, **__: int) -> None:
    """Do nothing."""


def names() -> Iterator[str]:
    """Yield the name."""
    yield from NAMED


def calls() -> None:
    """Call functions of Python's own and others."""
    own(1)
    own(a=1)
    HELD.ask(1)
    HELD.ask(a=1)
    HELD.ask(*(1,))
    len("a")
    str(1)
    int("1", base=10)
    [0].append(1)
    max(*(1, 2))
    dict(**NAMED)
    with LOCK:
        own()
    try:
        LOCK.acquire()
    finally:
        LOCK.release()
    for name in "ab":
        name.upper()
    any(names())  # which is left after the first


def with_arguments() -> None:
    """Call a function of Python's own with arguments that are in a tuple and in a mapping."""
    own(*(1,))
    own(**NAMED)


def called_back() -> None:
    """Call what calls functions of Python's own."""
    Held()
    sorted([2, 1], key=lambda number: number)
    with HELD:
        own()


def turns() -> None:
    """Have loops of all kinds, with no call in them."""
    number, nothing = 3, None
    while number:
        number -= 1
    while number < 3:
        number += 1
    while not number < 1:
        number -= 1
    while nothing is None:
        number += 1
        if number > 2:
            nothing = number
    while nothing is not None:
        number += 1
        if number > 4:
            nothing = None
    while True:
        number -= 1
        if number < 1:
            break
    for number in (1, 2):
        if number > 1:
            continue
    [number + 1 for number in (1, 2)]


def guarded() -> None:
    """Have calls and loops in a `try`."""
    number, lock = 3, Lock()  # a new one: it stays locked where Python forgets who is to be told
    try:
        own()
        len("a")
        while number:
            number -= 1
        for number in (1, 2, 3):
            if number < 3:
                continue
            own()
        with lock:
            while number:
                number -= 1
        while True:
            number += 1
            if number > 3:
                break
        len("a")
    except KeyboardInterrupt as interrupt:
        raise Caught from interrupt

"""Python itself shows where it raises `KeyboardInterrupt`: the interruptions of these tests come to all those places, and to few others."""

from __future__ import annotations

import signal
import sys
from _thread import interrupt_main
from abc import abstractmethod
from collections.abc import Callable, Iterator
from itertools import count
from types import CodeType, FrameType
from typing import Any

import pytest

from tests.provider import interrupted_sample as sample
from tests.provider.interruptions import Interruption

FILE = "provider/interrupted_sample.py"
OUTSIDE = "outside"
IS_TOLD_APART = sys.version_info < (3, 13)
"""Whether a caller tells of a call that it is inlined, and Python has what a turn of a loop raises caught as all else of the loop."""


@pytest.fixture(autouse=True)
def _sigint_interrupts() -> Iterator[None]:
    """Also where a shell has the process ignore it, as it does in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Signal(int):
    """One that is sent by no call of the main thread, after which Python would look for it at once."""

    send = property(interrupt_main)


SIGINT = Signal(signal.SIGINT)


class Probe(Interruption):
    @abstractmethod
    def line(self, interrupt: BaseException) -> str:
        """Return after which line of the sample it was raised."""

    def place(self, interrupt: BaseException) -> str:
        """Return that line, and whether it was caught in the sample."""
        if isinstance(interrupt, sample.Caught):
            assert interrupt.__cause__ is not None
            return f"{self.line(interrupt.__cause__)} caught"
        return self.line(interrupt)


class Sent(Probe):
    """Sends SIGINT before the instruction of a number, and leaves the rest to Python."""

    def line(self, interrupt: BaseException) -> str:
        found, traceback = OUTSIDE, interrupt.__traceback__
        while traceback is not None:
            code = traceback.tb_frame.f_code
            if code.co_filename.endswith(FILE):
                found = line_of(code, traceback.tb_lasti)
            traceback = traceback.tb_next
        return found

    def _step(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event != "opcode" or self.where is not None:
            return self._step
        self._left -= 1
        if self._left < 0:
            self.where = "sent"
            sys.settrace(None)
            _ = SIGINT.send  # and no call from here to the instruction
            return None
        return self._step


class Raised(Probe):
    """Remembers after which instruction it was raised."""

    _line = OUTSIDE

    def line(self, interrupt: BaseException) -> str:
        return self._line

    def _step(self, frame: FrameType, event: str, arg: Any) -> Any:
        last = self._last.get(frame, 0)
        try:
            return super()._step(frame, event, arg)
        except KeyboardInterrupt:
            self._line = line_of(frame.f_code, last)
            raise


def line_of(code: CodeType, offset: int) -> str:
    line, *_ = list(code.co_positions())[offset // 2]
    return f"{code.co_name}:{line}"


def begin() -> None:
    """Do nothing; Python looks for signals when a function begins."""


def places(kind: type[Probe], work: Callable[[], None]) -> set[str]:
    """Return where `KeyboardInterrupt` is raised in the sample, one place after the other."""
    found = set[str]()
    for number in count():
        probe = kind(number, (FILE,))
        try:
            with probe():
                work()
                begin()  # for a signal that nothing in the sample has looked for
        except KeyboardInterrupt as raised:
            found.add(probe.place(raised))
        if probe.where is None:
            break
    return found - {OUTSIDE}


def start_of(work: Callable[[], None]) -> str:
    """Return the place before the first instruction that a tracer sees, to which no signal is sent."""
    return line_of(work.__code__, 0)


@pytest.mark.parametrize("work", [sample.calls, sample.turns])
def test_they_come_where_python_raises_it_and_nowhere_else(work: Callable[[], None]) -> None:
    assert places(Raised, work) == places(Sent, work) | {start_of(work)}


def test_those_after_calls_with_arguments_are_too_many_where_python_inlines_calls_of_functions() -> None:
    ours, python = places(Raised, sample.with_arguments), places(Sent, sample.with_arguments)
    assert python <= ours
    assert (ours == python | {start_of(sample.with_arguments)}) == (sys.version_info < (3, 12))


def test_those_after_calls_that_call_pythons_functions_are_left_out_where_nothing_tells_them_from_others() -> None:
    left_out = places(Sent, sample.called_back) - places(Raised, sample.called_back)
    assert {found.partition(":")[0] for found in left_out} == (set() if IS_TOLD_APART else {"called_back"})


def test_what_they_raise_is_caught_by_whom_python_has_it_caught_by() -> None:
    """But for what Python 3.13 has caught by nobody, in the turn of a loop: python/cpython#130279."""
    ours, python = places(Raised, sample.guarded), places(Sent, sample.guarded) | {start_of(sample.guarded)}
    assert {found.removesuffix(" caught") for found in ours} == {found.removesuffix(" caught") for found in python}
    assert all(found.endswith("caught") and not IS_TOLD_APART for found in ours - python)

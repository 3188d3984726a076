"""Interrupts of the main thread at each place at which Python can raise them, one after the other."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import CodeType, FrameType
from typing import Any, NamedTuple

__all__ = ["Interruption", "each_interruption"]


class _Rule(NamedTuple):
    """Where a version of Python looks for signals, and raises `KeyboardInterrupt`."""

    after: frozenset[str]
    """The instructions after which it looks: when a function begins or goes on, when a loop turns, when a call has returned."""
    inlined: frozenset[str]
    """At which instruction a caller stands in a call after which it does not look: one of Python's own functions, which it runs itself."""


_CALLS = frozenset({"RESUME", "CALL", "CALL_FUNCTION_EX"})
_TURNS = frozenset({"JUMP_BACKWARD"})
_RULES = {
    # A caller stands at the end of a call that is inlined, and at its start where code that is not Python's calls some that is:
    # to make an object, to sort, to end a `with`. Calls with *arguments are not inlined.
    (3, 11): _Rule(
        _CALLS | _TURNS | {f"POP_JUMP_BACKWARD_IF_{what}" for what in ("TRUE", "FALSE", "NONE", "NOT_NONE")},
        frozenset({"CACHE"}),
    ),
    # Those of functions, not of methods, are now. Nothing tells which one it is: it counts as one that is not.
    (3, 12): _Rule(_CALLS | _TURNS, frozenset({"CACHE"})),
    # A caller stands at the start of each call: those of code that is not Python's, and called some that is, are left out.
    (3, 13): _Rule(_CALLS | _TURNS | {"CALL_KW"}, frozenset({"CALL", "CALL_KW"})),
}
"""By the first version of which each is true. tests/provider/test_interruptions.py has Python itself show where it looks."""
_RULE = _RULES[max(version for version in _RULES if version <= sys.version_info)]
_NOWHERE = -1


@cache
def _handlers(code: CodeType) -> list[tuple[int, int, int]]:
    entries: Any = dis.Bytecode(code)
    return [(entry.start, entry.end, entry.target) for entry in entries.exception_entries]


def _handler(frame: FrameType, offset: int) -> int | None:
    """Return where an exception goes that is raised there: a tracer raises it one instruction late, where it could go elsewhere."""
    found = [target for start, end, target in _handlers(frame.f_code) if start <= offset < end]
    return found[-1] if found else None


def _instruction(frame: FrameType, offset: int) -> str:
    return dis.opname[frame.f_code.co_code[offset]]


def _looks(frame: FrameType, last: int, here: int) -> bool:
    """Return whether Python looks for signals between two instructions, and what it raises there goes where a tracer's at the second does."""
    name = None if last == _NOWHERE else _instruction(frame, last)
    if name not in _RULE.after:
        return False
    if "JUMP" not in name:
        return _handler(frame, last) == _handler(frame, here)
    # What a turn raises is caught as what is before it (python/cpython#108214), or as the jump itself (#130279).
    return here < last and _handler(frame, here) in {_handler(frame, last), _handler(frame, last - 2)}


class Interruption:
    """Raises `KeyboardInterrupt` once, at the place of a number, in code of files that are told."""

    def __init__(self, place: int, files: tuple[str, ...]) -> None:
        self._left = place
        self._files = files
        self._last: dict[FrameType, int] = {}
        """Of each function that runs, its last instruction, after which Python might look for signals now."""
        self.where: str | None = None
        """Where it was raised; None: the code had fewer places."""

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Raise it in this block."""
        before = sys.gettrace()
        sys._getframe().f_trace_opcodes = True  # Python 3.12 tells of instructions only if some frame has asked before
        sys.settrace(self._trace)
        try:
            yield
        finally:
            sys.settrace(before)

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if self.where is not None or not frame.f_code.co_filename.endswith(self._files):
            return None
        frame.f_trace = self._step  # before the next line: Python 3.13 looks for it there
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        self._last[frame] = frame.f_lasti
        return self._step

    def _step(self, frame: FrameType, event: str, _: Any) -> Any:
        if self.where is not None:
            return None
        if event == "opcode":
            here = frame.f_lasti
            last = self._last.get(frame, _NOWHERE)
            self._last[frame] = here
            if _looks(frame, last, here):
                self._left -= 1
                if self._left < 0:
                    self.where = f"{frame.f_code.co_name}:{frame.f_lineno}"
                    self._last.clear()
                    raise KeyboardInterrupt
        elif event == "exception":  # a call that raises has not returned
            self._last[frame] = _NOWHERE
        elif event == "return":
            caller = frame.f_back
            if caller is not None and caller in self._last and _instruction(caller, caller.f_lasti) in _RULE.inlined:
                self._last[caller] = _NOWHERE
            self._last.pop(frame, None)
        return self._step


def each_interruption(attempt: Callable[[Interruption], None], *files: str) -> int:
    """Call `attempt` with an interruption of each place in turn, until there is none left; return how many there were."""
    place = 0
    while True:
        interruption = Interruption(place, files)
        attempt(interruption)
        if interruption.where is None:
            return place
        place += 1

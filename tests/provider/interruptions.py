"""Interrupts of the main thread at each place at which Python can raise them, one after the other."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import CodeType, FrameType
from typing import Any

__all__ = ["Interruption", "each_interruption"]

_AFTER = {"CALL", "CALL_KW", "CALL_FUNCTION_EX", "JUMP_BACKWARD", "RESUME"}
"""Python looks for signals when a call has returned that was not of Python's own, when a function begins, and in each turn of a loop."""
_BEGINNING, _NOWHERE = -1, -2


@cache
def _handlers(code: CodeType) -> list[tuple[int, int, int]]:
    entries: Any = dis.Bytecode(code)
    return [(entry.start, entry.end, entry.target) for entry in entries.exception_entries]


def _handler(frame: FrameType, offset: int) -> int | None:
    """Return where an exception goes that is raised there: a tracer raises it one instruction late, where it could go elsewhere."""
    found = [target for start, end, target in _handlers(frame.f_code) if start <= offset < end]
    return found[-1] if found else None


class Interruption:
    """Raises `KeyboardInterrupt` once, at the place of a number, in code of files that are told."""

    def __init__(self, place: int, files: tuple[str, ...]) -> None:
        self._left = place
        self._files = files
        self._last: dict[FrameType, int] = {}
        """Of each function that runs, where Python would look for signals now, if it would."""
        self.where: str | None = None
        """Where it was raised; None: the code had fewer places."""

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Raise it in this block."""
        before = sys.gettrace()
        sys.settrace(self._trace)
        try:
            yield
        finally:
            sys.settrace(before)

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if self.where is not None or not frame.f_code.co_filename.endswith(self._files):
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        self._last[frame] = _BEGINNING
        return self._step

    def _step(self, frame: FrameType, event: str, _: Any) -> Any:
        if self.where is not None:
            return None
        if event == "opcode":
            here = frame.f_lasti
            last = self._last.get(frame, _NOWHERE)
            is_call = dis.opname[frame.f_code.co_code[here]] in _AFTER
            self._last[frame] = here if is_call else _NOWHERE
            if last != _NOWHERE and (last == _BEGINNING or _handler(frame, last) == _handler(frame, here)):
                self._left -= 1
                if self._left < 0:
                    self.where = f"{frame.f_code.co_name}:{frame.f_lineno}"
                    self._last.clear()
                    raise KeyboardInterrupt
        elif event == "return":
            caller = frame.f_back
            # A call with *arguments is one of the interpreter, also of a function of Python's: it looks for signals after it.
            if caller in self._last and dis.opname[caller.f_code.co_code[caller.f_lasti]] != "CALL_FUNCTION_EX":
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

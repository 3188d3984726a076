"""Comparisons of conformance tests: each failure has the subject, the expected value, and the actual one.

`expect` and `expect_error` check one thing; `Checks` checks many and reports all failures together, so that one run
shows whether a table is wrong in one cell or in all.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

__all__ = ["CheckError", "Checks", "Raised", "attempt", "expect", "expect_error", "is_same"]

_SHOWN = 20
_BYTES = (bytes, bytearray, memoryview)


class CheckError(AssertionError):
    """A check that failed. The text has all details; reports show `expected` beside `seen`."""

    def __init__(self, text: str, expected: str, seen: str) -> None:
        super().__init__(text)
        self.expected = expected
        self.seen = seen


@dataclass(frozen=True, slots=True)
class Raised:
    """The exception that a call raised."""

    error: Exception

    def __str__(self) -> str:
        return f"{type(self.error).__name__}: {self.error}"


@dataclass(frozen=True, slots=True)
class _Problem:
    what: str
    expected: str
    seen: str

    def __str__(self) -> str:
        return f"{self.what}: expected {self.expected}, saw {self.seen}"

    def error(self) -> CheckError:
        return CheckError(str(self), f"{self.what}: {self.expected}", self.seen)


def is_same(seen: object, wanted: object) -> bool:
    """Whether `seen` equals `wanted` as JMS values: 1 is not true, 0.0 is not -0.0, and NaN is NaN."""
    # Before the numbers: in Python a bool is an int, and True is equal to 1.
    if wanted is None or isinstance(wanted, bool):
        return seen is wanted
    if isinstance(wanted, float):
        # By their bits, as 0.0 equals -0.0 in Python; any NaN is right, whatever its bits.
        return isinstance(seen, float) and (
            struct.pack(">d", seen) == struct.pack(">d", wanted) or (math.isnan(seen) and math.isnan(wanted))
        )
    if isinstance(wanted, int):
        return isinstance(seen, int) and not isinstance(seen, bool) and seen == wanted
    # A provider may return bytes, or a bytearray of its own.
    if isinstance(wanted, _BYTES):
        return isinstance(seen, _BYTES) and bytes(seen) == bytes(wanted)
    return seen == wanted


def expect(what: str, seen: object, wanted: object) -> None:
    """Fail unless `seen`, the value of `what`, is `wanted`."""
    if problem := _difference(what, seen, wanted):
        raise problem.error()


def expect_error(what: str, kind: type[Exception], call: Callable[..., object], *arguments: object) -> None:
    """Fail unless `call(*arguments)` raises an exception of `kind`."""
    if problem := _no_error(what, kind, call, arguments):
        raise problem.error()


class Checks:
    """A group of checks that are all made: ``with Checks() as check: check.same(...)`` fails at the end, if any is
    wrong.
    """

    def __init__(self) -> None:
        self.problems: list[_Problem] = []
        self._made = 0

    def same(self, what: str, seen: object, wanted: object) -> None:
        """As `expect`."""
        self._note(_difference(what, seen, wanted))

    def fails(self, what: str, kind: type[Exception], call: Callable[..., object], *arguments: object) -> None:
        """As `expect_error`."""
        self._note(_no_error(what, kind, call, arguments))

    def gives(self, what: str, wanted: object, call: Callable[..., object], *arguments: object) -> None:
        """As `same`, for the result of `call(*arguments)`; an exception counts as a failure, too."""
        self.same(what, attempt(call, *arguments), wanted)

    def _note(self, problem: _Problem | None) -> None:
        self._made += 1
        if problem is not None:
            self.problems.append(problem)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # An exception of the test says more than the checks before it.
        if error is not None:
            return
        # A loop over an empty table would pass otherwise.
        assert self._made, "nothing was checked"
        if len(self.problems) == 1:
            raise self.problems[0].error()
        if self.problems:
            raise self._all()

    def _all(self) -> CheckError:
        shown = self.problems[:_SHOWN]
        rest = len(self.problems) - len(shown)
        more = [f"and {rest} more"] if rest else []
        return CheckError(
            "\n".join([f"{len(self.problems)} of {self._made} checks failed:", *map(str, shown), *more]),
            "\n".join([*(f"{problem.what}: {problem.expected}" for problem in shown), *more]),
            "\n".join([*(problem.seen for problem in shown), *more]),
        )


def _difference(what: str, seen: object, wanted: object) -> _Problem | None:
    return None if is_same(seen, wanted) else _Problem(what, _shown(wanted), _shown(seen))


def _shown(value: object) -> str:
    if isinstance(value, Raised):
        return str(value)
    return repr(value) if value is None or isinstance(value, bool) else f"{value!r} ({type(value).__name__})"


def _no_error(
    what: str, kind: type[Exception], call: Callable[..., object], arguments: tuple[object, ...]
) -> _Problem | None:
    seen = attempt(call, *arguments)
    if isinstance(seen, Raised) and isinstance(seen.error, kind):
        return None
    return _Problem(what, kind.__name__, str(seen) if isinstance(seen, Raised) else f"that it returned {seen!r}")


def attempt(call: Callable[..., object], *arguments: object) -> object:
    """Return the result of ``call(*arguments)``, or `Raised` with its exception."""
    try:
        return call(*arguments)
    except Exception as error:
        return Raised(error)

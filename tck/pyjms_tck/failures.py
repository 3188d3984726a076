"""What a failed test says to a reader who does not know the suite: what was expected, what was seen, and where.

Tests write ``assert ACTUAL == EXPECTED``; pytest tells both values to `Comparisons`, which keeps the last ones.
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

from pyjms_tck.checks import CheckError
from pyjms_tck.results import Failure

if TYPE_CHECKING:
    import pytest

__all__ = ["Comparisons", "describe", "without_places"]

_PACKAGE = Path(__file__).parent
_OPERATORS = {"==": "", "!=": "other than ", "is": "the same object as ", "is not": "another object than ", "in": "one of ",
              "not in": "none of ", "<": "less than ", "<=": "at most ", ">": "more than ", ">=": "at least "}  # fmt: skip
_ADDRESS = re.compile(r" (object )?at 0x[0-9A-Fa-f]+")
_TEXT_MAX = 600


class Comparisons:
    """A pytest plugin that keeps the comparison that failed last."""

    def __init__(self) -> None:
        self._last: tuple[str, str] | None = None

    def pytest_assertrepr_compare(self, op: str, left: object, right: object) -> None:
        """Keep what was expected and what was seen; pytest writes its own text."""
        self._last = (_OPERATORS.get(op, f"{op} ") + _short(right), _short(left))

    def take(self) -> tuple[str, str] | None:
        """Return expected and seen of the last comparison that failed, once."""
        last, self._last = self._last, None
        return last


def _short(value: object) -> str:
    try:
        text = repr(value)
    except Exception as error:
        return f"<{type(value).__name__}, whose repr raises {type(error).__name__}>"
    return _cut(without_places(text))


def _cut(text: str) -> str:
    return text if len(text) <= _TEXT_MAX else text[: _TEXT_MAX - 1] + "…"


def describe(
    error: pytest.ExceptionInfo[BaseException], report: pytest.TestReport, compared: tuple[str, str] | None
) -> Failure:
    """Return what to tell about `error`, which ended the phase of a test that `report` is about."""
    import pytest  # only where tests run: the command lists and compares without it

    frames = [entry for entry in error.traceback if _is_ours(Path(str(entry.path)))] or [error.traceback[-1]]
    in_test = next((entry for entry in reversed(error.traceback) if _is_test_file(Path(str(entry.path)))), frames[-1])
    value = error.value
    if isinstance(value, CheckError):
        expected, seen = value.expected, value.seen
    elif isinstance(value, pytest.fail.Exception):  # also of pytest.raises
        statement = str(in_test.statement).strip()
        expected, seen = statement, str(value).replace("DID NOT RAISE", "no error: it did not raise")
    elif isinstance(value, AssertionError):
        expected, seen = _of_assertion(str(value), str(frames[-1].statement).strip(), compared)
    else:
        phase = {"setup": " (while setting up)", "teardown": " (while cleaning up)"}.get(report.when, "")
        statement = str(in_test.statement).strip()
        expected, seen = f"{statement}{phase} raises nothing", f"{type(value).__name__}: {value}"
    return Failure(
        expected=_cut(without_places(expected)),
        seen=_cut(without_places(seen)),
        where=f"{_relative(Path(str(in_test.path)))}:{in_test.lineno + 1}",
        details=without_places(report.longreprtext),
    )


def _of_assertion(text: str, statement: str, compared: tuple[str, str] | None) -> tuple[str, str]:
    message, _, rest = f"\n{text}".partition("\nassert ")
    message = message.strip()
    if compared and rest:
        expected, seen = compared
    elif rest:
        expected, seen = statement.removeprefix("assert ").split(",\n")[0], rest.strip()
    else:
        return statement, message
    return f"{message}: {expected}" if message else expected, seen


def _is_ours(path: Path) -> bool:
    return path.is_relative_to(_PACKAGE)


def _is_test_file(path: Path) -> bool:
    return path.name.startswith("test_") or path.stem.endswith("_suite")


def _relative(path: Path) -> str:
    return path.relative_to(_PACKAGE).as_posix() if _is_ours(path) else path.name


def without_places(text: str) -> str:
    """Return `text` without what differs between two runs or two machines: addresses of objects, paths of folders."""
    folders = (str(_PACKAGE), sysconfig.get_path("purelib"), sysconfig.get_path("stdlib"), sys.prefix, str(Path.cwd()))
    for folder in folders:
        short = "pyjms_tck/" if folder == str(_PACKAGE) else ""
        text = text.replace(folder + os.sep, short)
    return _ADDRESS.sub("", text)

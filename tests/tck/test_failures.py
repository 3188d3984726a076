"""What is told about a failed test, for each way to fail."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from pyjms_tck.judge_plugin import Comparisons, describe
from pyjms_tck.results import Failure, without_places

HEAD = """
import pytest
from pyjms_tck.checks import expect

class Thing:
    redelivered = False

class Bad:
    def __repr__(self): return 1 / 0

"""


class Gatherer:
    """Describes each failure as the suite's plugin does."""

    def __init__(self, comparisons: Comparisons) -> None:
        self.found: dict[str, Failure] = {}
        self._comparisons = comparisons

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
        report = yield
        if call.excinfo is not None:
            self.found[item.name.removeprefix("test_")] = describe(call.excinfo, report, self._comparisons.take())
        return report


# The body of a test, what it expected, and what it saw.
BODIES = {
    "equal": ("assert 4 == 9", "9", "4"),
    "equal_with_words": ("assert 4 == 9, 'the priority'", "the priority: 9", "4"),
    "different": ("assert 4 != 4", "other than 4", "4"),
    "one_of": ("assert 4 in [1, 2]", "one of [1, 2]", "4"),
    "less": ("assert 4 < 3", "less than 3", "4"),
    "something": ("assert None is not None", "another object than None", "None"),
    "truth": ("assert Thing.redelivered", "Thing.redelivered", "False\n +  where False = Thing.redelivered"),
    "truth_with_words": ("assert False, 'nothing came'", "nothing came: False, 'nothing came'", "False"),
    "no_error": (
        "with pytest.raises(ValueError): int('1')",
        "with pytest.raises(ValueError): int('1')",
        "no error: it did not raise ValueError",
    ),
    "fail": ("pytest.fail('no good')", "pytest.fail('no good')", "no good"),
    "error": ("int('x')", "int('x') raises nothing", "ValueError: invalid literal for int() with base 10: 'x'"),
    "bare": ("raise AssertionError", "raise AssertionError", ""),
    "check": ("expect('JMSPriority', 4, 9)", "JMSPriority: 9 (int)", "4 (int)"),
    "later": (
        "try: assert 1 == 2\n    except AssertionError: pass\n    int('x')",
        "int('x') raises nothing",
        "ValueError: invalid literal for int() with base 10: 'x'",
    ),
    "bad_repr": ("assert Bad() == 1", "1", "<Bad, whose repr raises ZeroDivisionError>"),
    "long": ("assert 'x' * 10_000 == 'y'", "'y'", "'" + "x" * 598 + "…"),
}


def test_each_way_to_fail_tells_what_was_expected_and_seen(pytester: pytest.Pytester) -> None:
    tests = (f"def test_{name}():\n    {body}\n" for name, (body, _, _) in BODIES.items())
    path = pytester.makepyfile(HEAD + "\n".join(tests))
    comparisons = Comparisons()
    gatherer = Gatherer(comparisons)
    pytester.inline_run("-p", "no:randomly", "--tb=short", plugins=[comparisons, gatherer])
    told = {name: (found.expected, found.seen) for name, found in gatherer.found.items()}
    assert told == {name: (expected, seen) for name, (_, expected, seen) in BODIES.items()}
    lines = path.read_text("utf-8").splitlines()
    for name, found in gatherer.found.items():
        file, _, line = found.where.partition(":")
        assert (file, lines[int(line) - 1].strip()) == (path.name, BODIES[name][0].splitlines()[-1].strip())
        assert found.details


def test_a_failure_does_not_show_where_it_was_run() -> None:
    text = f"{sys.prefix}/lib/x.py <Queue object at 0x7f00aa> {__file__}"
    assert without_places(text).startswith("lib/x.py <Queue> ")

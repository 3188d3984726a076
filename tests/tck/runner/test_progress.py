from __future__ import annotations

import io

from rich.console import Console

from pyjms_tck.results import Outcome
from pyjms_tck.runner.messages import Collected, Test
from pyjms_tck.runner.progress import LiveProgress
from tests.tck.samples import result, sample_report

COLLECTED = Collected(
    provider=sample_report().provider,
    lacks={},
    tests=tuple(
        Test(test=f"test_{number}", requirements=(), statement="It.", module="test_it", unsupported=None)
        for number in range(3)
    ),
    limit_s=1,
    parallel=1,
)


def drawn(*, on_a_terminal: bool) -> str:
    output = io.StringIO()
    console = Console(file=output, force_terminal=on_a_terminal, width=160, color_system=None)
    with LiveProgress(console) as progress:
        progress.on_collected(COLLECTED)
        for number, outcome in enumerate((Outcome.PASSED, Outcome.FAILED)):
            progress.on_result(result(f"chapter_03/test_it.py::test_{number}", outcome=outcome))
        progress.refresh()
    return output.getvalue()


def test_a_terminal_shows_a_live_count() -> None:
    text = drawn(on_a_terminal=True)
    assert "Demo 1.2" in text
    assert "2/3" in text
    assert "1 passed 1 failed" in text
    assert "test_1" in text


def test_a_log_gets_one_line() -> None:
    assert drawn(on_a_terminal=False) == "Demo 1.2: 3 tests\n"

from __future__ import annotations

import io
from dataclasses import replace

import pytest
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


def drawn(*, on_a_terminal: bool, collected: Collected = COLLECTED, width: int = 160) -> str:
    output = io.StringIO()
    console = Console(file=output, force_terminal=on_a_terminal, width=width, color_system=None)
    with LiveProgress(console) as progress:
        progress.on_collected(collected)
        for number, outcome in enumerate((Outcome.PASSED, Outcome.FAILED)):
            progress.on_result(
                result(f"chapter_03/test_it.py::test_{number}_of_a_rule_with_a_long_name", outcome=outcome)
            )
        progress.refresh()
    return output.getvalue()


def test_a_terminal_shows_a_live_count() -> None:
    text = drawn(on_a_terminal=True)
    assert "Demo 1.2" in text
    assert "2/3" in text
    assert "1 passed 1 failed" in text
    assert "test_1" in text


def test_the_counts_are_whole_on_a_terminal_of_80_columns() -> None:
    named = replace(COLLECTED.provider, name="the message broker with the long name")
    text = drawn(on_a_terminal=True, collected=replace(COLLECTED, provider=named), width=80)
    assert ("2/3" in text, "1 passed 1 failed" in text) == (True, True), text


def test_a_log_gets_one_line() -> None:
    assert drawn(on_a_terminal=False) == "Demo 1.2: 3 tests\n"


@pytest.mark.parametrize("on_a_terminal", [True, False])
def test_a_provider_cannot_steer_the_terminal(on_a_terminal: bool) -> None:
    named = replace(COLLECTED.provider, name="[bold]\x1b]0;x\x9b")
    text = drawn(on_a_terminal=on_a_terminal, collected=replace(COLLECTED, provider=named))
    assert "[bold]\\x1b]0;x\\x9b 1.2" in text
    assert not {"\x1b]", "\x9b"} & {text[at : at + width] for at in range(len(text)) for width in (1, 2)}

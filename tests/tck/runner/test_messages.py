from __future__ import annotations

from dataclasses import replace

import pytest

from pyjms_tck.results import Outcome
from pyjms_tck.runner.messages import Answer, Collected, Refused, Test, answer_from_line, to_line
from tests.tck.samples import failure, result, sample_report

ANSWERS: list[Answer] = [
    Refused(text="no\nprovider", is_unreachable=True),
    result("test_x", "3.1-a", outcome=Outcome.FAILED, failure=failure(), observed=("é",)),
    result("test_y", "3.1-a", outcome=Outcome.NOT_SUPPORTED, reason="no XA"),
    Collected(
        provider=sample_report().provider,
        lacks={"3.1-a": "no XA"},
        tests=(
            Test(test="test_x", requirements=("3.1-a",), statement="X.", module="test_it", unsupported=None),
            Test(test="test_y", requirements=(), statement="Y.", module="test_it", unsupported="no XA"),
        ),
        limit_s=1.5,
        parallel=3,
    ),
]


def test_what_no_file_can_hold_is_shown_otherwise() -> None:
    """The provider's text has the name of a file that is no UTF-8, as `os.fsdecode` gives it."""
    answer = result("test_x", "3.1-a", outcome=Outcome.FAILED, failure=failure(seen="disk \udc80 \U0001f4be full"))
    heard = answer_from_line(to_line(answer))
    assert heard == replace(answer, failure=failure(seen="disk \\udc80 \U0001f4be full"))


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: type(answer).__name__)
def test_an_answer_is_one_line_and_comes_back_as_it_was(answer: Answer) -> None:
    line = to_line(answer)
    assert line.count("\n") == 1
    assert answer_from_line(line.encode()) == answer

from __future__ import annotations

import io
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.console import Console

from pyjms_tck.report.terminal import (
    FAILURES_SHOWN_MAX,
    TESTS_SHOWN_MAX,
    compare,
    print_changes,
    print_report,
    print_requirements,
)
from pyjms_tck.results import NOT_RUN, Outcome
from tests.tck.samples import failure, judgement, requirement, result

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyjms_tck.results import Report


def printed(show: Callable[[Console], None], *, width: int = 100) -> str:
    output = io.StringIO()
    show(Console(file=output, width=width))
    return output.getvalue()


def test_a_report_shows_the_table_the_failures_and_the_verdict(report: Report) -> None:
    text = printed(lambda console: print_report(console, report))
    lines = [line.rstrip() for line in text.splitlines()]
    assert "Demo 1.2 at demo://<here>" in lines
    assert any(
        line.split("│")[1:4] == [" 3 Messages   ", "      1 ", "      1 "] for line in lines if "Messages" in line
    )
    assert "FAILED 3.4.2-a  A <message> & its 'priority'." in lines
    assert "  expected priority 9" in lines
    assert any(line.startswith("  seen     priority 4") for line in lines)
    assert "  check    Look at 3.4.2-a." in text
    assert "4.3-a  redelivers at once, 6 times" in text
    told = lines.index("Not supported, as was declared before the run")
    assert lines[told + 1] == "    1  the provider does not declare XA"
    assert lines[-1] == "Does not conform to JMS 1.1: 1 requirement failed."


def test_markup_in_texts_is_shown_and_not_obeyed(report: Report) -> None:
    bad = result("test", "3.1-a", outcome=Outcome.FAILED, failure=failure(seen="[red]wine[/red] [/]"))
    one = judgement(requirement("3.1-a", statement="A [bold] claim."), Outcome.FAILED, bad)
    text = printed(lambda console: print_report(console, replace(report, judgements=(one,))))
    assert "[red]wine[/red] [/]" in text
    assert "A [bold] claim." in text


def test_what_a_provider_wrote_does_not_steer_the_terminal(report: Report) -> None:
    seen = failure(seen="\x1b[2J\x9b2J")
    one = judgement(requirement("3.1-a"), Outcome.FAILED, result("test", "3.1-a", outcome=Outcome.FAILED, failure=seen))
    named = replace(report.provider, name="\x1b]0;x\x9c")
    text = printed(lambda console: print_report(console, replace(report, provider=named, judgements=(one,))))
    assert "\\x1b[2J\\x9b2J" in text
    assert "\\x1b]0;x\\x9c" in text
    assert not {"\x1b", "\x9b", "\x9c"} & set(text)


def test_a_flood_of_failures_is_cut(report: Report) -> None:
    tests = [result(f"test[{n}]", "3.1-a", outcome=Outcome.FAILED, failure=failure(seen=f"{n}")) for n in range(5)]
    many = tuple(judgement(requirement(f"3.{n}-a"), Outcome.FAILED, *tests) for n in range(FAILURES_SHOWN_MAX + 3))
    text = printed(lambda console: print_report(console, replace(report, judgements=many)))
    assert text.count("FAILED") == FAILURES_SHOWN_MAX
    assert text.count("expected") == FAILURES_SHOWN_MAX * TESTS_SHOWN_MAX
    assert "and 3 more of its tests failed" in text
    assert "... and 3 more: the HTML report" in text


def test_what_was_not_run_is_counted_and_not_explained(report: Report) -> None:
    not_run = result("test", "3.1-a", outcome=Outcome.FAILED, failure=failure(seen=f"{NOT_RUN}hung"))
    given_up = replace(
        report, judgements=(judgement(requirement("3.1-a"), Outcome.FAILED, not_run),), given_up="2 tests hung"
    )
    text = printed(lambda console: print_report(console, given_up))
    assert "FAILED" not in text
    assert text.endswith("Given up: 2 tests hung.\n")


def test_requirements_are_listed(report: Report) -> None:
    text = printed(lambda console: print_requirements(console, (j.requirement for j in report.judgements)))
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines() if line.startswith("│")]
    assert ["4.1-a", "optional", "XA", "What 4.1-a asks."] in rows
    assert ["4.2-a", "not testable", "", "What 4.2-a asks."] in rows


def test_changes_begin_with_what_got_worse(report: Report) -> None:
    better, worse = report.judgements[1], report.judgements[0]
    after = replace(
        report,
        judgements=(
            replace(better, outcome=Outcome.PASSED, tests=()),
            replace(worse, outcome=Outcome.FAILED),
            *report.judgements[2:],
        ),
    )
    text = printed(lambda console: print_changes(console, compare(report, after)))
    assert text.index("3.4.1-a") < text.index("3.4.2-a")
    assert text.endswith("2 came out differently, 1 of them worse.\n")


def test_no_change_is_said(report: Report) -> None:
    assert printed(lambda console: print_changes(console, ())) == "No requirement came out differently.\n"


def test_tests_that_fail_alike_are_shown_once(report: Report) -> None:
    fails = [failure(), failure(), failure(seen="another"), failure()]
    tests = [result(f"test[{n}]", "3.1-a", outcome=Outcome.FAILED, failure=each) for n, each in enumerate(fails)]
    one = judgement(requirement("3.1-a"), Outcome.FAILED, *tests)
    text = printed(lambda console: print_report(console, replace(report, judgements=(one,))))
    assert text.count(fails[0].seen) == 1
    assert text.count("another") == 1
    assert "and 2 more of its tests failed" in text


def test_what_goes_on_beneath_stands_where_it_began(report: Report) -> None:
    """A text that went on in the first column looked like the next entry."""
    long = judgement(
        requirement("3.1-a", statement="word " * 40, hint="look " * 40),
        Outcome.FAILED,
        result("test", "3.1-a", outcome=Outcome.FAILED, failure=failure(seen="seen " * 40)),
    )
    observed = result("other", "3.2-a", observed=("chosen " * 40,))
    open_left = judgement(requirement("3.2-a"), Outcome.PASSED, observed)
    text = printed(lambda console: print_report(console, replace(report, judgements=(long, open_left))), width=80)
    starts = {"word": 14, "look": 11, "seen seen": 11, "chosen": 9}
    for word, start in starts.items():
        found = [line for line in text.splitlines() if word in line]
        assert len(found) > 2, text
        assert {line.index(word, 9) for line in found} == {start}, found


def test_requirements_with_long_ids_are_listed_whole_where_there_is_little_room() -> None:
    """In a table they left no room for any other column, and were cut off."""
    id = "what-a-branch-received-comes-back-marked-when-it-is-rolled-back-also-on-another-session"
    text = printed(
        lambda console: print_requirements(console, [replace(requirement("3.1-a"), id=id, statement="It comes back.")]),
        width=80,
    )
    assert [line.rstrip() for line in text.splitlines()] == [id, "    It comes back."]

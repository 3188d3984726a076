"""Runs of small suites, some of which hang or die, on the embedded broker."""

from __future__ import annotations

import asyncio
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from pyjms_tck.catalogue import load_catalogue
from pyjms_tck.results import NOT_RUN, Outcome, TestResult
from pyjms_tck.runner.pool import PoolOutcome, RunRefusedError, Task, collect, run_pool

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyjms_tck.runner.messages import Collected

TESTABLE = [one.id for one in load_catalogue().requirements.values() if one.testable and not one.feature]
XA = next(one.id for one in load_catalogue().requirements.values() if one.testable and one.feature == "XA")
HEAD = "import os, threading, pytest\nfrom pyjms_tck.requirements import needs, requirement\n"


class Heard:
    """A listener that keeps what it is told."""

    def __init__(self) -> None:
        self.collected: Collected | None = None
        self.results: list[TestResult] = []

    def on_collected(self, collected: Collected) -> None:
        self.collected = collected

    def on_result(self, result: TestResult) -> None:
        self.results.append(result)


def task(tmp_path: Path, text: str, **changes: object) -> Task:
    (tmp_path / "test_small.py").write_text(HEAD + dedent(text), "utf-8")
    values: dict[str, object] = {
        "url": "vm://pool",
        "profile": None,
        "select": (),
        "target": str(tmp_path),
        "workers": 1,
    }
    return Task(**{**values, **changes})  # type: ignore[arg-type]  # each test says what it changes


def run(tmp_path: Path, text: str, **changes: object) -> tuple[PoolOutcome, Heard]:
    heard = Heard()
    outcome = asyncio.run(run_pool(task(tmp_path, text, **changes), heard))
    assert sorted(map(str, heard.results)) == sorted(map(str, outcome.results))
    return outcome, heard


def by_name(outcome: PoolOutcome) -> dict[str, TestResult]:
    return {result.test.rpartition("::")[2]: result for result in outcome.results}


def test_results_come_with_what_was_expected_seen_and_recorded(tmp_path: Path) -> None:
    outcome, heard = run(
        tmp_path,
        f"""
        @requirement("{TESTABLE[0]}", "{TESTABLE[1]}")
        def test_passes(session, queue, record):
            record("it does so at once")
            session.create_producer(queue).send(session.create_message())

        @requirement("{TESTABLE[0]}")
        @pytest.mark.parametrize("number", [1, 2])
        def test_fails(number):
            assert number == 7

        @requirement("{XA}")
        def test_of_what_the_broker_lacks(): 1 / 0

        @needs("XA")
        @requirement("{TESTABLE[0]}")
        def test_that_needs_what_the_broker_lacks(): 1 / 0

        @requirement("{TESTABLE[0]}")
        def test_that_skips_itself(): pytest.skip("no reason")

        @pytest.fixture
        def broken(): raise ValueError("no fixture")

        @pytest.fixture
        def breaking():
            yield
            raise ValueError("not cleaned up")

        @requirement("{TESTABLE[0]}")
        def test_whose_setup_fails(broken): pass

        @requirement("{TESTABLE[0]}")
        def test_whose_teardown_fails(breaking): pass
        """,
    )
    results = by_name(outcome)
    assert results["test_passes"].outcome is Outcome.PASSED
    assert results["test_passes"].requirements == (TESTABLE[0], TESTABLE[1])
    assert results["test_passes"].observed == ("it does so at once",)
    failure = results["test_fails[2]"].failure
    assert failure is not None
    assert (failure.expected, failure.seen) == ("7", "2")
    assert failure.where == "test_small.py:12"
    assert results["test_of_what_the_broker_lacks"].outcome is Outcome.NOT_SUPPORTED
    assert results["test_that_needs_what_the_broker_lacks"].reason == "the provider does not declare XA"
    assert results["test_that_skips_itself"].outcome is Outcome.FAILED
    for name, told in (("setup", "ValueError: no fixture"), ("teardown", "ValueError: not cleaned up")):
        failure = results[f"test_whose_{name}_fails"].failure
        assert failure is not None
        assert failure.seen == told
    assert heard.collected is not None
    assert "XA" in heard.collected.lacks[XA]
    assert outcome.given_up is None


def test_a_test_that_hangs_costs_its_own_requirement_and_no_other(tmp_path: Path) -> None:
    outcome, _ = run(
        tmp_path,
        f"""
        @requirement("{TESTABLE[0]}")
        def test_1_passes(session): pass

        @requirement("{TESTABLE[1]}")
        def test_2_hangs(): threading.Event().wait()

        @requirement("{TESTABLE[2]}")
        def test_3_passes(session): pass
        """,
        limit_s=0.5,
    )
    results = by_name(outcome)
    assert [results[name].outcome for name in sorted(results)] == [Outcome.PASSED, Outcome.FAILED, Outcome.PASSED]
    failure = results["test_2_hangs"].failure
    assert failure is not None
    assert failure.seen == "it did not end within 0.5 s"
    assert "test_small.py" in failure.details
    assert "line 8 in test_2_hangs" in failure.details


def test_a_test_that_ends_its_process_costs_its_own_requirement_and_no_other(tmp_path: Path) -> None:
    outcome, _ = run(
        tmp_path,
        f"""
        @requirement("{TESTABLE[1]}")
        def test_1_dies():
            os.write(2, b"a last word")
            os._exit(7)

        @requirement("{TESTABLE[2]}")
        def test_2_passes(session): pass
        """,
    )
    results = by_name(outcome)
    failure = results["test_1_dies"].failure
    assert failure is not None
    assert failure.seen == "its process ended with code 7"
    assert results["test_2_passes"].outcome is Outcome.PASSED


def test_a_provider_that_hangs_everywhere_is_given_up_on(tmp_path: Path) -> None:
    outcome, heard = run(
        tmp_path,
        f"""
        @requirement("{TESTABLE[1]}")
        @pytest.mark.parametrize("number", range(8))
        def test_hangs(number): threading.Event().wait()
        """,
        limit_s=0.2,
        give_up_after=2,
    )
    assert outcome.given_up == "2 tests hung or ended their process; 6 tests were not run"
    assert len(heard.results) == 8
    seen = [result.failure.seen for result in outcome.results if result.failure]
    assert [text.startswith(NOT_RUN) for text in seen] == [False, False, *[True] * 6]


def test_a_provider_that_is_gone_in_the_middle_is_given_up_on(tmp_path: Path) -> None:
    """The first test takes the broker along; whoever connects afterwards finds nothing."""
    gone = tmp_path / "gone"
    outcome, _ = run(
        tmp_path,
        f"""
        @requirement("{TESTABLE[1]}")
        @pytest.mark.parametrize("number", range(4))
        def test_dies(number):
            open({str(gone)!r}, "w").close()
            os._exit(1)
        """,
        profile=profile(tmp_path, f"assert not __import__('os').path.exists({str(gone)!r}), 'the broker is gone'"),
    )
    assert outcome.given_up is not None
    assert outcome.given_up.startswith("the provider cannot be reached any more: ")
    assert outcome.given_up.endswith("AssertionError: the broker is gone; 3 tests were not run")
    assert {result.outcome for result in outcome.results} == {Outcome.FAILED}


def test_several_processes_share_the_tests(tmp_path: Path) -> None:
    outcome, _ = run(
        tmp_path,
        f"""
        @requirement("{TESTABLE[1]}")
        @pytest.mark.parametrize("number", range(20))
        def test_tells_its_process(number, record): record(str(os.getpid()))
        """,
        workers=2,
    )
    assert {result.test.rpartition("[")[2] for result in outcome.results} == {f"{number}]" for number in range(20)}
    assert len({result.observed for result in outcome.results}) <= 2


def test_each_test_has_fixtures_of_its_own_whatever_their_scope(tmp_path: Path) -> None:
    outcome, _ = run(
        tmp_path,
        f"""
        @pytest.fixture(scope="session")
        def shared(): return []

        @requirement("{TESTABLE[1]}")
        @pytest.mark.parametrize("number", range(3))
        def test_fills(number, shared):
            shared.append(number)
            assert shared == [number]
        """,
    )
    assert {result.outcome for result in outcome.results} == {Outcome.PASSED}


def test_what_tests_print_and_read_does_not_disturb_the_run(tmp_path: Path) -> None:
    outcome, _ = run(
        tmp_path,
        f"""
        import sys

        @requirement("{TESTABLE[1]}")
        def test_prints(capfd):
            with capfd.disabled():
                print('{{"kind": "Refused"}}')
                os.write(1, b"beneath Python")

        @requirement("{TESTABLE[1]}")
        def test_reads():
            assert sys.__stdin__ is None or sys.__stdin__.readline is not None
            os.read(0, 0)
        """,
    )
    assert {result.outcome for result in outcome.results} == {Outcome.PASSED}


def profile(tmp_path: Path, body: str) -> str:
    path = tmp_path / "profile.py"
    path.write_text(f"from pyjms_tck.profile import Profile\nclass Mine(Profile):\n    {body}\n", "utf-8")
    return str(path)


def test_the_profile_declares_what_is_not_supported_and_what_the_provider_is_called(tmp_path: Path) -> None:
    outcome, _ = run(
        tmp_path,
        f"""
        @requirement("{TESTABLE[0]}")
        def test_x(): 1 / 0
        """,
        profile=profile(tmp_path, f"title = 'ours'; unsupported = {{'{TESTABLE[0]}': 'not yet'}}"),
    )
    (result,) = outcome.results
    assert (result.outcome, result.reason) == (Outcome.NOT_SUPPORTED, "the profile says: not yet")
    assert outcome.collected.provider.title == "ours"


PASSING = f"""
@requirement("{TESTABLE[0]}")
def test_x(): pass
"""


def test_the_title_of_a_provider_shows_no_secrets(tmp_path: Path) -> None:
    collected = asyncio.run(collect(task(tmp_path, PASSING, url="vm://clerk:secret@pool/?client_id=x")))
    assert collected.provider.title == "vm://pool/"
    assert [test.requirements for test in collected.tests] == [(TESTABLE[0],)]
    assert collected.tests[0].statement == "X."


REFUSED: dict[str, tuple[Callable[[Path], Task], str, bool]] = {
    "no such provider": (lambda path: task(path, PASSING, url="nowhere://x"), "no provider is installed", True),
    "no URL": (lambda path: task(path, PASSING, url="x"), "is no provider URL", True),
    "no such profile": (lambda path: task(path, PASSING, profile="missing.py"), "is no Python file", False),
    "selects nothing": (lambda path: task(path, PASSING, select=("99",)), "nothing is selected by '99'", False),
    "an unknown id": (lambda path: task(path, '@requirement("1-zz")\ndef test_x(): pass'), "1-zz is not in the", False),
    "an unknown feature": (
        lambda path: task(path, f'@needs("TEA")\n@requirement("{TESTABLE[0]}")\ndef test_x(): pass'),
        "TEA is no member of",
        False,
    ),
    "a suite that cannot be read": (lambda path: task(path, "import no_such_module"), "no_such_module", False),
    "a provider that asks who it is": (
        lambda path: task(
            path,
            PASSING,
            profile=profile(
                path,
                "options = property(lambda self: (_ for _ in ()).throw(__import__('pyjms').JMSSecurityException('who?')))",
            ),
        ),
        r"who\?; the profile says as whom: user_name and password",
        True,
    ),
    "a provider that never answers": (
        lambda path: task(
            path,
            PASSING,
            start_limit_s=3.0,
            profile=profile(path, "options = property(lambda self: __import__('threading').Event().wait())"),
        ),
        "it was not ready within 3 s",
        True,
    ),
    "a provider that ends the process": (
        lambda path: task(
            path, PASSING, profile=profile(path, "options = property(lambda self: __import__('os')._exit(3))")
        ),
        "its process ended with code 3",
        True,
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_run_that_cannot_be_is_refused(tmp_path: Path, case: str) -> None:
    make, told, is_unreachable = REFUSED[case]
    with pytest.raises(RunRefusedError, match=told) as raised:
        asyncio.run(run_pool(make(tmp_path), Heard()))
    assert raised.value.is_unreachable is is_unreachable


def test_a_run_that_is_cancelled_leaves_no_process(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    text = f"""
    @requirement("{TESTABLE[0]}")
    def test_hangs():
        open({str(path)!r}, "w").write(str(os.getpid()))
        threading.Event().wait()
    """

    async def cancel_when_it_runs() -> None:
        running = asyncio.create_task(run_pool(task(tmp_path, text), Heard()))
        while not (path.exists() and path.read_text("utf-8")):
            await asyncio.wait([running], timeout=0.05)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(cancel_when_it_runs())
    assert not Path(f"/proc/{path.read_text('utf-8')}").exists()


def test_a_provider_that_serves_one_process_at_a_time_is_judged_by_one(tmp_path: Path) -> None:
    """As a broker with a store of its own is; more processes were asked for than it lets in."""
    outcome, _ = run(
        tmp_path,
        f"""
        @requirement("{TESTABLE[0]}")
        @pytest.mark.parametrize("number", range(6))
        def test_passes(session, queue, number):
            session.create_producer(queue).send(session.create_message())
        """,
        url=f"vm://alone?store=sqlite:///{tmp_path / 'alone.db'}",
        workers=3,
    )
    assert outcome.given_up is None
    assert [result.outcome for result in outcome.results] == [Outcome.PASSED] * 6

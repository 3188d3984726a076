"""The kill tests can fail: a broker that breaks a promise about branches is found, by what it loses or by what comes again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.provider.kill.faulty import commit_instead, forget, write_no_promise
from tests.provider.kill.points import DECISION, PREPARE
from tests.provider.kill.site import Site, Verdict

pytestmark = pytest.mark.timeout(600)

_ROUNDS = 8
"""A branch that only moved what is NON_PERSISTENT shows nothing."""


class FaultySite(Site):
    """A site whose broker has a fault."""

    def __init__(self, fault: str, directory: Path) -> None:
        store = quote(f"sqlite:///{directory / 'killed.db'}", safe="")
        super().__init__(f"vm://killed?store={store}", directory / "history")
        self._fault = fault

    def modules(self) -> Sequence[str]:
        return "tests.provider.kill.faulty", self._fault

    def die_until_found(self, kind: str) -> Verdict:
        """Die after such a step, again and again until messages tell of it; return what was found then."""
        for seed in range(_ROUNDS):
            self.kill_at(seed, "after", kind, 3)
            self.drain()
            verdict = self.judge()
            if verdict.report.violations:
                return verdict
        pytest.fail(f"{_ROUNDS} deaths showed nothing")


@pytest.mark.parametrize("fault", [forget.__name__, write_no_promise.__name__])
def test_a_broker_that_forgets_a_prepared_branch_is_found(tmp_path: Path, fault: str) -> None:
    assert "is forgotten" in FaultySite(fault, tmp_path).die_until_found(DECISION).complaints[0]


def test_a_broker_that_commits_what_it_was_told_to_roll_back_is_found(tmp_path: Path) -> None:
    report, _, complaints = FaultySite(commit_instead.__name__, tmp_path).die_until_found(PREPARE)
    assert {each.rule for each in report.violations} <= {"lost", "rolled-back-visible"}
    assert complaints == []

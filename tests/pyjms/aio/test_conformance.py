"""The conformance suite passes through `pyjms.aio` as it does through `pyjms`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pyjms_tck.report.terminal import compare
from pyjms_tck.results import Outcome, Report
from tests.tck.sampling import SEED, part_of_sections
from tests.tidy.source import ROOT
from tools.make_conformance import FOLDER, Judged, judge

FACES = Judged(
    name="faces",
    about="the embedded broker with a store in a file of SQLite, through asyncio",
    url="vm://faces?store=sqlite:///{folder}/faces.db",
    profile=Path(__file__).with_name("face_profile.py"),
)
JUDGED_OTHERWISE = ("4.11-h", "8.2.", "20.2-o", "20.2-p", "20.4-k")
"""What is judged through `pyjms` only: what needs connection consumers, and what a completion listener may not close."""


@pytest.mark.timeout(900)  # half a minute, and minutes where others use the machine, too
def test_the_suite_passes_through_asyncio(monkeypatch: pytest.MonkeyPatch) -> None:
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", path)  # of the processes that run it: the profile imports the face
    ordinary = Report.from_json((FOLDER / "vm-sqlite.json").read_text("utf-8"))
    report = judge(FACES, part_of_sections(ordinary, "faces"))
    failed = {
        each.requirement.id: [test.failure for test in each.failures]
        for each in report.judgements
        if each.outcome is Outcome.FAILED
    }
    assert failed == {}, f"PYJMS_CONFORMANCE_SEED={SEED}"
    changed = [each.id for each in compare(ordinary, report) if each.before != each.after]
    assert [id for id in changed if not id.startswith(JUDGED_OTHERWISE)] == []

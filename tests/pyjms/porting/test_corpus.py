"""Programs in Java do the same in Python: what they print is compared with what Java's own run printed (`record`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyjms.porting.program import port
from tests.pyjms.porting.running import imported, threads_awaited

CORPUS = Path(__file__).parent / "corpus"
TO_LOOK_AT = {"Everyday": {"interrupt()", "the name of a class"}, "LaterAndTogether": {"the property name "}}
"""What is told of programs, whose translation is right here."""
PROGRAMS = sorted(path.stem for path in CORPUS.glob("*.java"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_prints_what_it_prints_in_java(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (made,) = port({f"{name}.java": (CORPUS / f"{name}.java").read_text(encoding="utf-8")})
    assert {(each.kind, each.what) for each in made.findings} == {("check", each) for each in TO_LOOK_AT.get(name, ())}
    assert made.translated == made.statements > 20
    program = getattr(imported(tmp_path, name, made.python), name)
    with threads_awaited():
        program.main([])
    assert capsys.readouterr().out == (CORPUS / f"{name}.out").read_text(encoding="utf-8")

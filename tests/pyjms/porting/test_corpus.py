"""Programs in Java do the same in Python: what they print is compared with what Java's own run printed (`record`)."""

from __future__ import annotations

import threading
from pathlib import Path
from types import ModuleType

import pytest

from pyjms.porting.model import Finding
from pyjms.porting.program import port

CORPUS = Path(__file__).parent / "corpus"
PROGRAMS = sorted(path.stem for path in CORPUS.glob("*.java"))
# The programs that need a human, and for what. All others are translated without one finding.
FINDINGS: dict[str, list[tuple[int, str]]] = {}


def run(name: str, python: str, capsys: pytest.CaptureFixture[str]) -> str:
    module = ModuleType(name)
    code = compile(python, f"{name}.py", "exec")
    exec(code, module.__dict__)
    getattr(module, name).main([])
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join(10)
    return capsys.readouterr().out


def ported(name: str) -> tuple[str, list[Finding]]:
    source = (CORPUS / f"{name}.java").read_text(encoding="utf-8")
    (made,) = port({f"{name}.java": source})
    assert made.statements
    return made.python, made.findings


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_prints_what_it_prints_in_java(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    python, findings = ported(name)
    assert [(each.line, each.what) for each in findings] == FINDINGS.get(name, [])
    assert run(name, python, capsys) == (CORPUS / f"{name}.out").read_text(encoding="utf-8")

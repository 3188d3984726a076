"""A report in a file, whole or not at all; and as JUnit XML: a suite for each chapter, a case for each requirement."""

from __future__ import annotations

import os
import re
from pathlib import Path
from xml.etree import ElementTree as ET

from pyjms_tck.results import Judgement, Outcome, Report


def check_can_write(file: Path) -> None:
    """Raise OSError, with a text for people, if `file` evidently cannot hold a report."""
    if not file.parent.is_dir():
        raise NotADirectoryError(f"there is no folder {file.parent}")
    if file.is_dir():
        raise IsADirectoryError("it is a folder")
    # A report is written to a new file and renamed, so the folder's permissions count; a pipe is written directly.
    if not os.access(file.parent if _is_replaced(file) else file, os.W_OK):
        raise PermissionError(
            f"there is no right to write {'in ' + str(file.parent) if _is_replaced(file) else 'to it'}"
        )


def write_whole(file: Path, text: str) -> None:
    """Write `text`, so that an earlier report remains until this one is complete. Raises OSError."""
    data = text.encode()
    if not _is_replaced(file):
        file.write_bytes(data)
        return
    # A symbolic link stays one: its target is replaced.
    target = file.resolve()
    # In the same folder: a rename to another file system is not atomic.
    part = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        part.write_bytes(data)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _is_replaced(file: Path) -> bool:
    """Return whether `file` is an ordinary file, or does not exist; a pipe or /dev/stdout is written directly."""
    return file.is_file() or not file.exists()


# Characters that XML 1.0 cannot hold, not even escaped.
_FORBIDDEN = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def to_junit(report: Report) -> str:
    """Return the XML text. Not supported and not testable requirements are skipped cases."""
    root = ET.Element("testsuites", name=_text(f"{report.suite}: {report.provider.title}"))
    for number, chapter in report.chapters.items():
        judgements = [judgement for judgement in report.judgements if judgement.requirement.chapter == number]
        if not judgements:
            continue
        suite = ET.SubElement(root, "testsuite", {"name": _text(f"{number} {chapter.title}"), **_counts(judgements)})
        for judgement in judgements:
            _add_case(suite, judgement)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=False) + "\n"


def _counts(judgements: list[Judgement]) -> dict[str, str]:
    failures = sum(judgement.outcome is Outcome.FAILED for judgement in judgements)
    passed = sum(judgement.outcome is Outcome.PASSED for judgement in judgements)
    return {
        "tests": str(len(judgements)),
        "failures": str(failures),
        "errors": "0",
        "skipped": str(len(judgements) - failures - passed),
    }


def _add_case(suite: ET.Element, judgement: Judgement) -> None:
    requirement = judgement.requirement
    case = ET.SubElement(
        suite,
        "testcase",
        classname=f"section {requirement.section}",
        name=_text(f"{requirement.id}: {requirement.statement}"),
    )
    if judgement.outcome is Outcome.FAILED:
        first = next(test.failure for test in judgement.failures if test.failure)
        failure = ET.SubElement(case, "failure", message=_text(f"expected {first.expected}; seen {first.seen}"))
        failure.text = _text("\n\n".join(_explain(judgement)))
    elif judgement.outcome is not Outcome.PASSED:
        ET.SubElement(case, "skipped", message=_text(f"{judgement.outcome}: {judgement.reason}"))
    if judgement.observed:
        ET.SubElement(case, "system-out").text = _text("\n".join(judgement.observed))


def _explain(judgement: Judgement) -> list[str]:
    parts = [
        f"{test.test}\nexpected: {test.failure.expected}\nseen: {test.failure.seen}\n{test.failure.details}"
        for test in judgement.failures
        if test.failure
    ]
    return [*parts, f"What to check: {judgement.requirement.hint}"]


def _text(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)

"""The examples of README.md and of the documentation run, and print what the page says."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.tidy.pages import PageError, markdown_pages, read_page
from tests.tidy.source import ROOT, name_of

if TYPE_CHECKING:
    from pathlib import Path

PAGES = [path for path in markdown_pages() if read_page(path.read_text(encoding="utf-8")).program.strip()]


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_the_examples_of_a_page_run(path: Path, tmp_path: Path) -> None:
    page = read_page(path.read_text(encoding="utf-8"))
    program = tmp_path / f"page-{path.stem}.py"  # no name of a module
    program.write_text(page.program, encoding="utf-8")
    result = subprocess.run(  # a process of its own: a fresh broker, and nothing left behind
        [sys.executable, "-W", "error", program.name],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "provider")])},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, f"{name_of(path)}\n{result.stderr}"
    rest = result.stdout
    for expected in page.prints:
        assert expected in rest, f"{name_of(path)} says that this is printed:\n{expected}\nIt prints:\n{rest}"
        rest = rest.partition(expected)[2]


def test_a_page_becomes_a_program_with_its_own_line_numbers() -> None:
    page = read_page(
        "# One\n\n```python\na = 1\n```\n\n<!-- prints -->\n```text\nx\ny\n```\n1. Two\n   ```python\n   b\n   ```\n"
    )
    assert page.program == "\n\n\na = 1\n" + "\n" * 9 + "b\n"
    assert page.prints == ("x\ny",)


@pytest.mark.parametrize(
    "text",
    [
        "<!-- not run: needs a server -->\n\n```python\nboom\n```",
        "```console\nboom\n```",
        "```text\nboom\n```",
        "````markdown\n```python\nboom\n```\n````",
    ],
)
def test_other_blocks_are_not_run(text: str) -> None:
    page = read_page(text)
    assert (page.program.strip(), page.prints) == ("", ())


def test_an_exception_needs_a_reason_and_serves_one_block() -> None:
    text = "<!-- not run: -->\n```python\na\n```\n<!-- not run: why -->\n```python\nb\n```\n```python\nc\n```"
    assert read_page(text).program.split() == ["a", "c"]


def test_a_block_without_end_is_an_error() -> None:
    with pytest.raises(PageError, match="line 2"):
        read_page("text\n```python\na")

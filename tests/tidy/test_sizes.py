"""Modules and functions stay small enough to be read in one sitting."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tests.tidy.source import EVERYTHING, name_of, parse, python_files

if TYPE_CHECKING:
    from collections.abc import Iterator

MODULE_LINES_MAX = 1000
FUNCTION_LINES_MAX = 100


def functions(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield name and length of each function: from ``def`` to its end, without the docstring."""
    for node in ast.walk(tree):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        first = node.body[0]
        docstring = 0
        if ast.get_docstring(node, clean=False) is not None:
            docstring = (first.end_lineno or first.lineno) - first.lineno + 1
        yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1 - docstring


def test_modules_are_short() -> None:
    sizes = {name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in python_files(*EVERYTHING)}
    too_long = {name: lines for name, lines in sizes.items() if lines > MODULE_LINES_MAX}
    assert not too_long, f"more than {MODULE_LINES_MAX} lines: {too_long}; a second reason to change is a second module"


def test_functions_are_short() -> None:
    too_long = {
        f"{name_of(path)}::{name}": lines
        for path in python_files(*EVERYTHING)
        for name, lines in functions(parse(path))
        if lines > FUNCTION_LINES_MAX
    }
    assert not too_long, f"more than {FUNCTION_LINES_MAX} lines without the docstring: {too_long}"


def test_a_docstring_does_not_count() -> None:
    tree = ast.parse('def f():\n    """One.\n\n    Two.\n    """\n    return 1\n\nasync def g():\n    return 2\n')
    assert dict(functions(tree)) == {"f": 2, "g": 2}

"""The source files of the project, found and parsed once for the tests that judge them."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ("pyjms", "pyspark_jms", "provider/pyjms_provider", "tck/pyjms_tck")
# Tests that ship: their names say what they check, as those of other tests.
SHIPPED_TESTS = ("tck/pyjms_tck/suite/", "tck/pyjms_tck/spi/")
EVERYTHING = (*LIBRARY, "tests", "tools", "docs")
_NOT_SOURCE = {"__pycache__", "_build", "data"}


@cache
def python_files(*folders: str) -> tuple[Path, ...]:
    """Return the Python files below `folders`, which need not exist yet, sorted."""
    files = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return tuple(sorted(path for path in files if not _NOT_SOURCE & set(path.relative_to(ROOT).parts)))


def name_of(path: Path) -> str:
    """Return the path as the lists of exceptions write it."""
    return path.relative_to(ROOT).as_posix()


@cache
def trees() -> dict[Path, ast.Module]:
    """Return the syntax trees of all files, kept from the garbage collector, which would look through them again and again."""
    gc.disable()
    found = {
        path: ast.parse(path.read_text(encoding="utf-8"), filename=str(path)) for path in python_files(*EVERYTHING)
    }
    gc.freeze()
    gc.enable()
    return found


def parse(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return trees()[path]


def is_stub_of_a_body(node: ast.stmt) -> bool:
    """Whether a statement is a docstring, ``...`` or ``pass``."""
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))

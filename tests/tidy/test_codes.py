"""The pages about codes explain each one that the library writes to its log, or that an error of it has, and no other."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from tests.tidy.source import LIBRARY, ROOT, parse, python_files

if TYPE_CHECKING:
    from collections.abc import Iterator

LOG = (ROOT / "docs/reference/log.md").read_text(encoding="utf-8")
ERRORS = (ROOT / "docs/reference/errors.md").read_text(encoding="utf-8")
# Those of the network have a page and a test of their own.
_IN_LOG = re.compile(r"PYJMS-(?!NET-)[A-Z]+-\d+")
_IN_CELL = re.compile(r"PYJMS-[A-Z0-9-]+")


def log_codes(text: str) -> set[str]:
    return set(_IN_LOG.findall(text))


def error_codes(tree: ast.Module) -> Iterator[str]:
    """Yield the codes that classes have."""
    for owner in ast.walk(tree):
        for node in owner.body if isinstance(owner, ast.ClassDef) else ():
            if isinstance(node, ast.AnnAssign):
                targets: list[ast.expr] = [node.target]
            elif isinstance(node, ast.Assign):
                targets = node.targets
            else:
                continue
            named = any(isinstance(target, ast.Name) and target.id == "code" for target in targets)
            if named and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                yield node.value.value


def explained_errors() -> set[str]:
    """Return the codes in the first cells of the tables."""
    cells = (line.split("|")[1] for line in ERRORS.splitlines() if line.startswith("|"))
    return {code for cell in cells for code in _IN_CELL.findall(cell)}


def test_each_numbered_code_of_the_log_is_explained() -> None:
    written = set[str]().union(*(log_codes(path.read_text(encoding="utf-8")) for path in python_files(*LIBRARY)))
    assert "PYJMS-BROKER-1" in written
    assert log_codes(LOG) == written


def test_a_code_of_the_network_is_none_of_these() -> None:
    assert log_codes("PYJMS-NET-5 PYJMS-STORE-10, PYJMS-STORE") == {"PYJMS-STORE-10"}


def test_each_code_of_an_error_is_explained() -> None:
    known = {code for path in python_files(*LIBRARY) for code in error_codes(parse(path))}
    assert "PYJMS-QUEUE-FULL" in known
    assert explained_errors() == known


def test_a_code_is_found_with_its_type_and_without() -> None:
    source = "class A:\n    code = 'PYJMS-A'\nclass B:\n    code: Final = 'PYJMS-B'\n    other = 'PYJMS-C'\n"
    assert list(error_codes(ast.parse(source))) == ["PYJMS-A", "PYJMS-B"]

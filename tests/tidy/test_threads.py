"""`docs/design/threads.md` names each lock of the packages, and each thread that they start, and none that is not there."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.tidy.names import Names
from tests.tidy.source import LIBRARY, ROOT, SHIPPED_TESTS, name_of, parse, python_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

PAGE = ROOT / "docs" / "design" / "threads.md"
_LOCKS = {f"threading.{name}" for name in ("Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore")}
_THREADS = {"threading.Thread": "name", "concurrent.futures.ThreadPoolExecutor": "thread_name_prefix"}
_NAMED = re.compile(r"`(?P<lock>\w+\.\w+)`(?: of `(?P<file>[\w/]+\.py)`)?")
# Programs and tests that are shipped with the packages: no application has their threads and locks.
# And Java's classes, whose threads and locks are those of the ported program that makes them.
_NOT_TOLD = (*SHIPPED_TESTS, "pyjms/demo/", "pyjms/porting/java/", "provider/pyjms_provider/stores/testing/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """`name` is ``Class.attribute``, or ``module.name``."""

    name: str
    file: str


def _files() -> Iterator[Path]:
    return (path for path in python_files(*LIBRARY) if not name_of(path).startswith(_NOT_TOLD))


def _is_lock(node: ast.expr | None, names: Names) -> bool:
    """Whether a lock is made. A condition of a lock that stands elsewhere is none of its own."""
    if not isinstance(node, ast.Call) or names.dotted(node.func) not in _LOCKS:
        return False
    made = names.dotted(node.func)
    return made != "threading.Condition" or not node.args or not isinstance(node.args[0], ast.Attribute)


def locks_of(tree: ast.Module, module: str) -> set[str]:
    """Return the locks that a module makes once for each object, or once."""
    names, found = Names(tree), set()
    for owner in (tree, *(node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))):
        nodes = tree.body if owner is tree else ast.walk(owner)
        for node in nodes:
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and _is_lock(node.value, names):
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                attribute = target.attr if isinstance(target, ast.Attribute) else ast.unparse(target)
                found.add(f"{owner.name if isinstance(owner, ast.ClassDef) else module}.{attribute}")
    return found


def cells(page: str, first: str, column: int) -> list[str]:
    """Return a column of the tables whose first column is called `first`."""
    found: list[str] = []
    is_in = False
    for line in page.splitlines():
        row = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        is_in = bool(row) and (is_in or row[0] == first)
        if is_in and row[0] != first and not row[0].startswith("---"):
            found.append(row[column])
    return found


def offences(page: str, locks: Iterable[Lock]) -> list[str]:
    """Return which locks have no row, and which rows no lock. Locks of one name are told apart by their files."""
    named = [(match["lock"], match["file"]) for cell in cells(page, "lock", 0) for match in _NAMED.finditer(cell)]
    found, known = [], set()
    for lock in locks:
        alike = [each for each in locks if each.name == lock.name]
        rows = [row for row in named if row[0] == lock.name and lock.file.endswith(row[1] or "")]
        rows = [row for row in rows if row[1] is not None or len(alike) == 1]
        known.update(rows)
        if not rows:
            which = f"`{lock.name}` of `{lock.file}`" if len(alike) > 1 else f"`{lock.name}`"
            found.append(f"no row for {which} ({lock.file})")
    return found + [f"no such lock, or several: {row}" for row in named if row not in known]


def _head(node: ast.AST) -> str:
    """Return how a text begins that stands in a module; empty: it is none."""
    if isinstance(node, ast.JoinedStr) and node.values:
        return _head(node.values[0])
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def thread_names(tree: ast.Module) -> Iterator[tuple[int, str | None]]:
    """Yield where threads are made, and how their names begin. None: they have none; empty: it is told by a variable."""
    names = Names(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (keyword := _THREADS.get(names.dotted(node.func) or "")):
            given = [each.value for each in node.keywords if each.arg == keyword] or node.args[1:2]
            yield node.lineno, _head(given[0]) if given else None


def _told() -> list[str]:
    """Return how the names of threads begin that the page tells: before what differs from one to the next."""
    told = (re.findall(r"`(pyjms[^`]*)`", cell) for cell in cells(PAGE.read_text(encoding="utf-8"), "thread", 1))
    return [re.split(r"[A-Z…]| n$", name)[0].rstrip() for names in told for name in names]


def test_each_lock_has_a_row() -> None:
    locks = [
        Lock(name=name, file=name_of(path)) for path in _files() for name in sorted(locks_of(parse(path), path.stem))
    ]
    found = offences(PAGE.read_text(encoding="utf-8"), locks)
    assert not found, f"{name_of(PAGE)}: " + "\n".join(found)


def test_each_thread_has_a_row() -> None:
    told = _told()
    found = [
        f"{name_of(path)}:{line}: {'a thread without a name' if name is None else f'no row for {name!r}'}"
        for path in _files()
        for line, name in thread_names(parse(path))
        if name is None or (name and name.rstrip() not in told)
    ]
    assert not found, f"{name_of(PAGE)}: " + "\n".join(found)


def test_each_row_has_a_thread() -> None:
    # Some names are handed on before a thread gets them, so that all texts are looked at.
    heads = {_head(node).rstrip() for path in _files() for node in ast.walk(parse(path))}
    assert not [name for name in _told() if name not in heads]


_MADE = """
from threading import Condition, Lock
import threading
_lock = Lock()
class A:
    def __init__(self):
        self._lock = threading.RLock()
        self._changed = Condition(self._lock)
        self._other: Condition = Condition(Lock())
        self._value = Value()
"""


def test_locks_are_found() -> None:
    assert locks_of(ast.parse(_MADE), "made") == {"A._lock", "A._other", "made._lock"}


@pytest.mark.parametrize(
    ("row", "files", "count"),
    [
        ("`A._lock`", ["a.py"], 0),
        ("`A._lock`, one each", [], 1),
        ("`B._lock`", ["a.py"], 2),
        ("`A._lock`", ["x/a.py", "x/b.py"], 3),
        ("`A._lock` of `x/a.py`", ["x/a.py", "x/b.py"], 1),
        ("`A._lock` of `x/a.py`, `A._lock` of `x/b.py`", ["x/a.py", "x/b.py"], 0),
    ],
)
def test_what_is_wrong_is_found(row: str, files: list[str], count: int) -> None:
    page = f"| lock | protects |\n|---|---|\n| {row} | it |\n\n| `C._lock` |"
    assert len(offences(page, [Lock(name="A._lock", file=file) for file in files])) == count


def test_names_of_threads_are_found() -> None:
    made = "from threading import Thread\nThread(name=f'a {b}')\nThread(name='c')\nThread(name=d)\nThread(target=e)"
    assert [name for _, name in thread_names(ast.parse(made))] == ["a ", "c", "", None]

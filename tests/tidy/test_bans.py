"""Nothing that is banned is written, save where the list of exceptions has a reason."""

from __future__ import annotations

import ast
from functools import cache
from typing import TYPE_CHECKING

import pytest

from tests.tidy.bans import BANS, BROAD_HANDLERS, Ban, among, bare_handlers, broad_handlers, uses
from tests.tidy.source import EVERYTHING, LIBRARY, SHIPPED_TESTS, name_of, parse, python_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

BANNED = tuple(name for ban in BANS for name in ban.names)
by_title = pytest.mark.parametrize("ban", BANS, ids=lambda ban: ban.title)


@cache
def banned_in(path: Path) -> tuple[tuple[int, str], ...]:
    """Return the uses of whatever any ban names: each file is gone through once, and not for each ban."""
    return tuple(uses(parse(path), BANNED))


@by_title
def test_nothing_banned_is_used(ban: Ban) -> None:
    found = [
        f"{name_of(path)}:{line}: {name}; instead: {ban.instead}"
        for path in python_files(*ban.folders)
        if name_of(path) not in ban.allowed
        for line, name in among(banned_in(path), ban.names)
    ]
    assert not found, "\n".join(found)


@by_title
def test_the_ban_finds_its_example(ban: Ban) -> None:
    assert list(uses(ast.parse(ban.example), ban.names))


@pytest.mark.parametrize("line", ["self.print(1)", "text = 'eval'", "model.eval()", "sleep = 3", "import time"])
def test_the_bans_leave_other_things_alone(line: str) -> None:
    assert not [found for ban in BANS for found in uses(ast.parse(line), ban.names)]


def test_no_handler_is_bare() -> None:
    found = [f"{name_of(path)}:{line}" for path in python_files(*EVERYTHING) for line in bare_handlers(parse(path))]
    assert not found, "\n".join(found)


def test_nothing_is_caught_broadly_save_where_listed() -> None:
    found = [
        f"{name_of(path)}:{line}: in {function or 'the module'}"
        for path in python_files(*LIBRARY)
        if not name_of(path).startswith(SHIPPED_TESTS)
        for line, function in broad_handlers(parse(path))
        if f"{name_of(path)}::{function}" not in BROAD_HANDLERS
    ]
    assert not found, "\n".join(found)


TRY = "def run():\n    try:\n        work()\n    except {caught}:\n        {body}"


@pytest.mark.parametrize(
    ("find", "caught", "body", "count"),
    [
        (broad_handlers, "Exception", "log()", 1),
        (broad_handlers, "BaseException as error", "raise Other() ", 1),
        (broad_handlers, "(ValueError, Exception)", "pass", 1),
        (broad_handlers, "", "pass", 1),
        (broad_handlers, "BaseException", "undo(); raise", 0),
        (broad_handlers, "Exception as error", "raise Other() from error", 0),
        (broad_handlers, "ValueError", "pass", 0),
        (bare_handlers, "", "raise", 1),
        (bare_handlers, "Exception", "raise", 0),
    ],
)
def test_handlers_are_found(find: Callable[[ast.Module], Iterable[object]], caught: str, body: str, count: int) -> None:
    assert len(list(find(ast.parse(TRY.format(caught=caught, body=body))))) == count

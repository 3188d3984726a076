"""The machines of the runtime and the broker's core reach for no clock, no I/O and no threads."""

from __future__ import annotations

import ast

import pytest

from tests.tidy.names import Names
from tests.tidy.source import name_of, parse, python_files

PURE = (
    "pyjms/runtime/machines.py",
    "pyjms/spi/selector/",
    *(f"pyjms/flows/{name}.py" for name in ("codec", "instance", "picture")),
    *(f"pyjms/recoverable/{name}.py" for name in ("client_log", "stored_message")),
    *(f"pyjms/forwarding/{name}.py" for name in ("settings", "unit")),
    *(f"pyjms/routing/{name}.py" for name in ("compiled", "content", "facts", "rules", "transformers")),
    *(
        f"pyjms/porting/{name}"
        for name in (
            "c",
            "e",
            "java/errors.py",
            "java/numbers.py",
            "java/objects.py",
            "java/strings.py",
            "l",
            "m",
            "naming.py",
            "operators.py",
            "p",
            "s",
            "t",
            "unit.py",
        )
    ),
    *(f"pyjms/history/{name}" for name in ("check.py", "events.py", "facts.py", "findings.py", "rows.py", "rules.py")),
    *(
        f"provider/pyjms_provider/protocols/stomp/{name}"
        for name in (
            "answers.py",
            "codec.py",
            "dialects.py",
            "errors.py",
            "frames.py",
            "negotiation.py",
            "commands.py",
            "message_properties.py",
            "messages.py",
            "packed.py",
        )
    ),
)
CORE = "provider/pyjms_provider/core/"
# The composites of the core, which join the machines and own a lock each; they may import `threading.Lock`.
COMPOSITES = frozenset(
    f"{CORE}{name}.py"
    for name in (
        "host/admission",
        "host/message_mover",
        "host/temporaries",
        "host/virtual_host",
        "journal/in_doubt_writes",
        "queue/altering",
        "queue/consumer",
        "queue/contracts",
        "message/entry",
        "queue/queue",
        "store",
        "topic",
        "message/reference",
        "transaction/branches",
        "transaction/reader_groups",
        "transaction/registered_clients",
        "transaction/stages",
        "transaction/unit_of_work",
    )
)
IMPURE = {"asyncio", "concurrent", "datetime", "os", "pathlib", "queue", "random", "select", "selectors", "socket"} | {
    "sqlalchemy", "sqlite3", "ssl", "subprocess", "threading", "time", "_thread"
}  # fmt: skip
# Pure parts of modules that are impure otherwise.
HARMLESS = {"datetime.timedelta"}


def impure_imports(tree: ast.Module, *, may_lock: bool) -> list[str]:
    """Return the imports that a pure module may not have."""
    allowed = HARMLESS | ({"threading.Lock"} if may_lock else set())
    imported = (name for name, _ in Names(tree).imported)
    return sorted({name for name in imported if name.partition(".")[0] in IMPURE and name not in allowed})


def test_pure_modules_import_nothing_impure() -> None:
    found = {
        name: imports
        for path in python_files("pyjms", "provider")
        if (name := name_of(path)).startswith((*PURE, CORE))
        and (imports := impure_imports(parse(path), may_lock=name in COMPOSITES))
    }
    assert not found, found


@pytest.mark.parametrize(
    ("line", "may_lock", "found"),
    [
        ("import time", False, ["time"]),
        ("from time import monotonic", True, ["time.monotonic"]),
        ("import sqlalchemy.orm as orm", False, ["sqlalchemy.orm"]),
        ("def f():\n    import socket", False, ["socket"]),
        ("from threading import Lock", True, []),
        ("from threading import Lock", False, ["threading.Lock"]),
        ("from threading import Lock, Thread", True, ["threading.Thread"]),
        ("import threading", True, ["threading"]),
        ("import dataclasses", False, []),
    ],
)
def test_impure_imports_are_found(line: str, may_lock: bool, found: list[str]) -> None:
    assert impure_imports(ast.parse(line), may_lock=may_lock) == found

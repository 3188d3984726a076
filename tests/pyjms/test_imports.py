"""What takes long to import is imported when it is first used. Modules are counted here; `bench_start.py` measures the time."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import pyjms

HEAVY = (
    *(
        "asyncio",
        "csv",
        "email",
        "http",
        "importlib.metadata",
        "multiprocessing",
        "ssl",
        "tomllib",
        "urllib.request",
        "xml",
    ),
    *("zipfile", "lark", "kombu", "pyarrow", "pydantic", "rich", "sqlalchemy", "stomp", "opentelemetry"),
)
"""Of these none is imported before it is used; each takes as long as all interfaces of JMS together, or brings one that does."""
_OF_TYPER = {"csv", "email", "importlib.metadata", "pydantic", "zipfile"}
"""What typer itself imports, from some version on, for the types of a command's options."""
COMMAND = "import sys; from pyjms.cli import main; sys.argv = ['pyjms', *{arguments!r}]; main()"
LIGHT = (*HEAVY, "decimal", "logging", "socket", "threading", "typer", "pyjms.jndi", "pyjms.runtime", "pyjms.spi")


def imported(program: str) -> set[str]:
    """Return the modules that are there when a program has ended, with the packages that they are in."""
    script = f"import atexit, sys\natexit.register(lambda: print('\\n' + ' '.join(sys.modules)))\n{program}"
    environment = {name: value for name, value in os.environ.items() if name != "PYJMS_OTEL"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    ("program", "unwanted"),
    [
        ("import pyjms", LIGHT),
        ("from pyjms import Session, TextMessage, JMSException", LIGHT),
        ("from pyjms import ConnectionFactory", (*HEAVY, "pyjms.jndi", "pyjms.spi.selector.nodes")),
        ("from pyjms import InitialContext", HEAVY),
    ],
)
def test_a_program_imports_nothing_that_it_does_not_use(program: str, unwanted: tuple[str, ...]) -> None:
    assert imported(program).intersection(unwanted) == imported("pass").intersection(unwanted)


@pytest.mark.parametrize(
    "arguments", [["send", "--help"], ["receive", "--help"], ["stats", "--help"], ["browse", "--help"]]
)
def test_a_command_imports_nothing_of_the_others(arguments: list[str]) -> None:
    unwanted = {*HEAVY} - _OF_TYPER | {
        "pyjms.jndi",
        "pyjms_provider",
        "pyjms.demo",
        "pyjms.history",
        "pyjms.porting",
        "pyjms.spark",
    }
    assert not imported(COMMAND.format(arguments=arguments)) & unwanted


def test_each_public_name_is_found_also_when_it_is_imported_late() -> None:
    assert not [name for name in pyjms.__all__ if not hasattr(pyjms, name)]
    assert set(pyjms.__all__) <= set(dir(pyjms))
    with pytest.raises(AttributeError, match="module 'pyjms' has no attribute 'ConectionFactory'"):
        pyjms.ConectionFactory  # type: ignore[attr-defined]  # noqa: B018

"""The catalogue of AMQP's rules, and the tests that cite them with ``@pytest.mark.amqp_rule``."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FILE: Final = Path(__file__).with_name("rules.toml")
MARK: Final = "amqp_rule"
LEVELS: Final = frozenset({"must", "should", "may"})
KEEPERS: Final = frozenset({"engine", "server"})
STATES: Final = frozenset({"kept", "not-implemented"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule."""

    id: str
    part: str
    """The part of the standard, or the name of an extension."""
    section: str
    title: str
    rule: str
    level: str
    kept_by: str
    status: str


def load_rules() -> dict[str, Rule]:
    """Return the rules by their ids. Raises `ValueError`: an id is there twice."""
    rules: dict[str, Rule] = {}
    for entry in tomllib.loads(FILE.read_text(encoding="utf-8"))["rule"]:
        rule = Rule(**entry)
        if rule.id in rules:
            raise ValueError(f"{rule.id} is there twice")
        rules[rule.id] = rule
    return rules


def citations() -> Iterator[tuple[str, str]]:
    """Yield what the test modules of this folder cite: the id, and the module."""
    for path in sorted(FILE.parent.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == MARK:
                for argument in node.args:
                    yield str(ast.literal_eval(argument)), path.name

"""Files of rules, as TOML or JSON."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from pyjms.routing.reading import Problem, RulesError, read_rules
from pyjms.routing.rules import RuleSet

__all__ = ["load_document", "load_rules"]


def load_rules(file: Path) -> RuleSet:
    """Return the rules of a file. Raises `RulesError`, `OSError`."""
    data, text = load_document(file)
    return read_rules(data, text)


def load_document(file: Path) -> tuple[Any, str | None]:
    """Return what stands in a file, and its text if that has lines that tell something. Raises `RulesError`, `OSError`."""
    is_json = file.suffix.lower() == ".json"
    try:
        text = file.read_text(encoding="utf-8")
        return (json.loads(text), None) if is_json else (tomllib.loads(text), text)
    except ValueError as error:
        kind = "JSON" if is_json else "TOML"
        line = getattr(error, "lineno", None)
        raise RulesError((Problem(file.name, f"it is no {kind}: {error}", line),)) from error

"""Files of rules, as TOML or JSON."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any, Final

from pyjms.routing.reading import Problem, RulesError, read_rules
from pyjms.routing.rules import RuleSet

_BYTES_MAX: Final = 4_000_000


def load_rules(file: Path) -> RuleSet:
    """Return the rules of a file. Raises `RulesError`, `OSError`."""
    data, text = load_document(file)
    return read_rules(data, text)


def load_document(file: Path) -> tuple[Any, str | None]:
    """Return what stands in a file, and its text if that has lines that tell something. Raises `RulesError`, `OSError`."""
    if file.exists() and not file.is_file():
        raise RulesError((Problem(file.name, "it is no file, but a folder, a device or a pipe", None),))
    try:
        with file.open("rb") as opened:
            data = opened.read(_BYTES_MAX + 1)
        text = data.decode()
    except UnicodeDecodeError as error:
        raise RulesError((Problem(file.name, f"it is no text in UTF-8: {error.reason}", None),)) from error
    if len(data) > _BYTES_MAX:
        raise RulesError((Problem(file.name, f"it has more than {_BYTES_MAX} bytes; is it the right file?", None),))
    return parse_document(text, file.name)


def parse_document(text: str, name: str) -> tuple[Any, str | None]:
    """Return what `load_document` does, of the text of a file of that name. Raises `RulesError`."""
    is_json = name.lower().endswith(".json")
    try:
        return (json.loads(text), None) if is_json else (tomllib.loads(text), text)
    except RecursionError as error:
        raise RulesError((Problem(name, "it is nested too deeply; is it the right file?", None),)) from error
    except ValueError as error:
        kind = "JSON" if is_json else "TOML"
        line = getattr(error, "lineno", None)
        raise RulesError((Problem(name, f"it is no {kind}: {error}", line),)) from error

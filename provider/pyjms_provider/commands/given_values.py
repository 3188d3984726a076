"""Attributes and arguments as typed: ``NAME=VALUE`` by the declared type, ``NAME:=JSON``, ``NAME=@FILE``, ``NAME=?``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from pyjms_provider.commands.telling import stop

Resolve = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def read_values(texts: Sequence[str], declared: Mapping[str, Any], resolve: Resolve) -> dict[str, Any]:
    """Return what was typed as JSON has it; `declared`: the JSON schemas by name. Ends the command if it cannot be."""
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.rstrip(":"):
            stop(f"{text!r}: write NAME=VALUE, NAME:=JSON, NAME=@FILE for the text of a file, or NAME=? to be asked")
        if name.endswith(":"):
            name = name[:-1]
            found[name] = _json(value, name)
        elif value == "?":
            found[name] = _ask(name)
        elif value.startswith("@"):
            found[name] = Path(value[1:]).read_text(encoding="utf-8").rstrip("\r\n")
        else:
            found[name] = _convert(value, declared.get(name, {}), resolve, name)
    return found


def _ask(name: str) -> str:
    if not sys.stdin.isatty():
        stop(f"nobody is there to be asked for {name}; write {name}=@FILE")
    return str(typer.prompt(name, hide_input=True, err=True))


def _json(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        stop(f"{name}: {text!r} is no JSON: {error}")


def _convert(text: str, schema: Mapping[str, Any], resolve: Resolve, name: str) -> Any:
    """Return a text as the schema wants it; what does not fit stays a text, which the broker may know to read."""
    if "anyOf" in schema:
        for each in schema["anyOf"]:
            value = _convert(text, each, resolve, name)
            if not isinstance(value, str):
                return value
        return text
    schema = resolve(schema)
    kind = schema.get("type")
    if kind == "boolean":
        return {"true": True, "false": False}.get(text.lower(), text)
    if kind in {"integer", "number"}:
        try:
            return int(text) if kind == "integer" else float(text)
        except ValueError:
            return text  # a variable, or a number with a unit
    if kind == "object" or (kind == "array" and text.startswith("[")):
        return _json(text, name)
    if kind == "array":
        items = schema.get("items", {})
        return [_convert(each.strip(), items, resolve, name) for each in text.split(",") if each.strip()]
    return text

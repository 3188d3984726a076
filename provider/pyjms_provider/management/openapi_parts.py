"""Pieces of the API's description: answers, parameters, and schemas that others refer to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = [
    "ERROR",
    "JSON",
    "answering",
    "content",
    "error_schema",
    "inlined",
    "job_schema",
    "page_of",
    "parameter",
    "reference",
]

JSON: Final = "application/json"
ERROR: Final[Mapping[str, Any]] = {"$ref": "#/components/responses/Error"}


def reference(name: str) -> dict[str, Any]:
    """Return what stands for a schema among the components."""
    return {"$ref": f"#/components/schemas/{name}"}


def inlined(schema: Mapping[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    """Return a schema whose definitions stand among the components.

    Defaults are left out: they may hold variables, which stand for a value of the type and have another.
    """
    plain = {name: value for name, value in schema.items() if name not in {"$defs", "default"} and name[:2] != "x-"}
    for name, definition in schema.get("$defs", {}).items():
        schemas.setdefault(name, _moved(definition))
    moved = _moved(plain)
    assert isinstance(moved, dict)
    return moved


def _moved(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            name: inner.replace("#/$defs/", "#/components/schemas/")
            if name == "$ref" and isinstance(inner, str)
            else _moved(inner)
            for name, inner in value.items()
        }
    return [_moved(inner) for inner in value] if isinstance(value, list) else value


def parameter(name: str, text: str, schema: Mapping[str, Any], *, where: str = "query") -> dict[str, Any]:
    """Return a parameter; one of the path is required."""
    return {"name": name, "in": where, "description": text, "schema": dict(schema), "required": where == "path"}


def content(text: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer, or a body, of JSON."""
    return {"description": text, "content": {JSON: {"schema": dict(schema)}}}


def answering(answers: Mapping[str, Any], **facts: Any) -> dict[str, Any]:
    """Return an operation with its answers; whatever else comes is an error."""
    return {**facts, "responses": {**answers, "default": dict(ERROR)}}


def page_of(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of one page of a list."""
    return {
        "type": "object",
        "required": ["items", "total", "offset"],
        "properties": {
            "items": {"type": "array", "items": dict(item)},
            "total": {"type": "integer"},
            "offset": {"type": "integer"},
        },
    }


def error_schema() -> dict[str, Any]:
    """Return the schema of what all errors say."""
    problem = {"type": "object", "properties": {"name": {"type": "string"}, "text": {"type": "string"}}}
    return {
        "type": "object",
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "required": ["code", "reason"],
                "properties": {
                    "code": {"type": "string"},
                    "reason": {"type": "string"},
                    "problems": {"type": "array", "items": problem},
                },
            }
        },
    }


def job_schema() -> dict[str, Any]:
    """Return the schema of a long operation that runs by itself."""
    return {
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "what": {"type": "string"},
            "state": {"type": "string", "enum": ["running", "done", "ended", "failed"]},
            "started_at_ms": {"type": "integer"},
            "done": {"type": "integer"},
            "total": {"type": ["integer", "null"]},
            "result": {},
            "error": {
                "type": "object",
                "description": "As in answers; `status` is that which the answer would have had.",
                "properties": {"status": {"type": "integer"}},
            },
        },
    }

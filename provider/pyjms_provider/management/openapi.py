"""The API's description (OpenAPI 3.1), made from the declarations of the model: it cannot say anything else than they do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyjms_provider.model import tree
from pyjms_provider.model.attributes import declarations
from pyjms_provider.model.lookup import names_needed
from pyjms_provider.model.operations import OperationDeclaration, operations_of
from pyjms_provider.model.statistics import statistics_of

__all__ = ["describe_api"]

_JSON: Final = "application/json"
_ERROR: Final = {"$ref": "#/components/responses/Error"}
_FACTS: Final[Mapping[str, Any]] = {
    "path": {"type": "array", "items": {"type": "string"}},
    "id": {"type": "string", "format": "uuid"},
    "category": {"type": "string"},
    "state": {"type": "string"},
    "desired_state": {"type": "string"},
    "error": {"type": ["string", "null"]},
    "life_time": {"type": "string"},
    "created_by": {"type": ["string", "null"]},
    "created_at_ms": {"type": ["integer", "null"]},
    "updated_by": {"type": ["string", "null"]},
    "updated_at_ms": {"type": ["integer", "null"]},
}
_LIST_OPTIONS: Final = (
    ("fields", {"type": "string"}, "Names of fields, joined by commas: only these."),
    ("actual", {"type": "boolean"}, "Attributes as they were given, with their variables."),
    ("filter", {"type": "string"}, "A condition on fields, written as a JMS selector."),
    ("sort", {"type": "string"}, "Names of fields, joined by commas; - before one: downwards."),
    ("offset", {"type": "integer", "minimum": 0, "maximum": 999_999_999}, "How many to leave out."),
    ("limit", {"type": "integer", "minimum": 1, "maximum": 1000}, "How many at most."),
)


def describe_api() -> dict[str, Any]:
    """Return the description."""
    schemas: dict[str, Any] = {"Error": _error_schema(), "Job": _job_schema()}
    paths: dict[str, Any] = {
        "/api/latest/job/{job}": {
            method: _answering(
                {"200": _content("How far it is", {"$ref": "#/components/schemas/Job"})},
                operationId=f"{method}_job",
                summary="How far a long operation is" if method == "get" else "End a long operation half way",
                parameters=[_parameter("job", "The id of the job.", {"type": "string"}, where="path")],
            )
            for method in ("get", "delete")
        },
    }
    for shape in tree.TREE.values():
        if shape.category != tree.ROOT:
            _describe_category(shape, paths, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "pyjms broker", "version": "1", "description": "The managed broker's tree of objects."},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": {"Error": _content("Why it was refused", {"$ref": "#/components/schemas/Error"})},
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
        "security": [{"basic": []}, {"bearer": []}, {}],
    }


def _describe_category(shape: tree.CategoryShape, paths: dict[str, Any], schemas: dict[str, Any]) -> None:
    category = shape.category
    classes = dict.fromkeys(tree.class_of(category, name)[1] for name in tree.types_of(category))
    given: dict[str, Any] = {}
    shown: dict[str, Any] = {"name": {"type": "string"}, "type": {"type": "string"}, **_FACTS}
    operations: dict[str, OperationDeclaration] = {}
    for kind in classes:
        for name, declared in declarations(kind.attributes_class).items():
            schema = _inlined(declared.schema, schemas)
            given[name] = {**schema, "description": declared.description}
            shown[name] = {"description": declared.description}
        for name, measured in statistics_of(kind).items():
            shown[name] = {"description": measured.description}
        operations |= operations_of(kind)
    schemas[f"{category}_given"] = {"type": "object", "properties": given}
    schemas[category] = {"type": "object", "properties": shown}
    names = () if category == "broker" else names_needed(category)
    parameters = [
        _parameter(name, f"The {name}'s name.", {"type": "string", "minLength": 1}, where="path") for name in names
    ]
    whole = "/".join((f"/api/latest/{category}", *(f"{{{name}}}" for name in names)))
    one = {"$ref": f"#/components/schemas/{category}"}
    body = {"content": {_JSON: {"schema": {"$ref": f"#/components/schemas/{category}_given"}}}}
    methods: dict[str, Any] = {
        "get": _answering(
            {"200": _content(shape.summary, one)},
            operationId=f"get_{category}",
            summary=f"Look at a {category}",
            parameters=[*parameters, *_options(("fields", "actual"))],
        )
    }
    if not shape.is_observed:
        changes = ("patch",) if category == "broker" else ("put", "patch")
        for method in changes:
            answers = {"200": _content("As it is now", one)}
            if method == "put":
                answers["201"] = _content("It was created", one)
            methods[method] = _answering(
                answers,
                operationId=f"{method}_{category}",
                summary=f"Change a {category}" + (", or create it" if method == "put" else ""),
                parameters=parameters,
                requestBody=body,
            )
        if category != "broker":
            methods["delete"] = _answering(
                {"204": {"description": "It is gone"}},
                operationId=f"delete_{category}",
                summary=f"Delete a {category}",
                parameters=parameters,
            )
    paths[whole] = methods
    if category != "broker":
        items = {
            "type": "object",
            "properties": {
                "items": {"type": "array", "items": one},
                "total": {"type": "integer"},
                "offset": {"type": "integer"},
            },
        }
        paths[f"/api/latest/{category}"] = {
            "get": _answering(
                {"200": _content(shape.summary, items)},
                operationId=f"list_{category}",
                summary=f"List all of category {category}",
                parameters=_options(tuple(name for name, _, _ in _LIST_OPTIONS)),
            )
        }
    for name, operation in operations.items():
        paths[f"{whole}/{name}"] = {"post": _operation(category, operation, parameters, schemas)}


def _operation(
    category: str, declared: OperationDeclaration, parameters: list[dict[str, Any]], schemas: dict[str, Any]
) -> dict[str, Any]:
    result = {"type": "object", "properties": {"result": _inlined(declared.result, schemas)}}
    answers = {"200": _content("What came of it", result)}
    if declared.is_long:
        answers["202"] = _content("It runs as a job", {"$ref": "#/components/schemas/Job"})
        parameters = [
            *parameters,
            _parameter(
                "Prefer",
                "respond-async: run it as a job.",
                {"type": "string", "enum": ["respond-async"]},
                where="header",
            ),
        ]
    return _answering(
        answers,
        operationId=f"{declared.name}_{category}",
        summary=declared.description,
        parameters=parameters,
        requestBody={"content": {_JSON: {"schema": _inlined(declared.parameters, schemas)}}},
    )


def _inlined(schema: Mapping[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    """Return a schema whose definitions stand among the components."""
    plain = {name: value for name, value in schema.items() if name != "$defs" and not name.startswith("x-")}
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


def _options(names: tuple[str, ...]) -> list[dict[str, Any]]:
    return [_parameter(name, text, schema) for name, schema, text in _LIST_OPTIONS if name in names]


def _parameter(name: str, text: str, schema: Mapping[str, Any], *, where: str = "query") -> dict[str, Any]:
    return {"name": name, "in": where, "description": text, "schema": dict(schema), "required": where == "path"}


def _content(text: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"description": text, "content": {_JSON: {"schema": dict(schema)}}}


def _answering(answers: Mapping[str, Any], **facts: Any) -> dict[str, Any]:
    return {**facts, "responses": {**answers, "default": _ERROR}}


def _error_schema() -> dict[str, Any]:
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


def _job_schema() -> dict[str, Any]:
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
            "error": {"type": "object"},
        },
    }

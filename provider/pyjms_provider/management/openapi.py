"""Pieces of the API's description: answers, parameters, and schemas that others refer to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyjms_provider.model import tree
from pyjms_provider.model.attributes import declarations
from pyjms_provider.model.lookup import names_needed
from pyjms_provider.model.managed import OFFSET_MAX
from pyjms_provider.model.operations import OperationDeclaration, operations_of, statistics_of

JSON: Final = "application/json"
ERROR: Final[Mapping[str, Any]] = {"$ref": "#/components/responses/Error"}


def reference(name: str) -> dict[str, Any]:
    """Return a reference to a schema among the components."""
    return {"$ref": f"#/components/schemas/{name}"}


def inlined(schema: Mapping[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    """Return a schema whose definitions are moved to the components.

    Defaults are left out: they may hold variables, which have another type than the value they stand for.
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
    """Return an operation with its answers; any other answer is an error."""
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
    """Return the schema of all errors."""
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
    """Return the schema of a job."""
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


_ROOT: Final = "/api/latest"
_FACTS: Final[Mapping[str, Any]] = {
    "names": {
        "type": "array",
        "items": {"type": "string"},
        "description": "Its address: the names from below the broker down to its own.",
    },
    "id": {"type": "string", "format": "uuid", "description": "Its permanent identifier, independent of its name."},
    "category": {"type": "string", "description": "Of which category it is."},
    "state": {
        "type": "string",
        "description": "Whether it works: active, stopped, errored, or another word of its category.",
    },
    "desired_state": {
        "type": "string",
        "description": "What it should be: active, or stopped, which it then stays over starts of the broker.",
    },
    "error": {"type": ["string", "null"], "description": "Why it does not work."},
    "life_time": {
        "type": "string",
        "description": "How long it lives: permanent, process (until the broker ends), or observed (as clients will).",
    },
    "created_by": {"type": ["string", "null"], "description": "Who made it."},
    "created_at_ms": {"type": ["integer", "null"], "description": "When, in milliseconds since 1970 UTC."},
    "updated_by": {"type": ["string", "null"], "description": "Who changed it last."},
    "updated_at_ms": {"type": ["integer", "null"], "description": "When, in milliseconds since 1970 UTC."},
}
_LIST_OPTIONS: Final = (
    ("fields", {"type": "string"}, "Names of fields, joined by commas: only these."),
    ("actual", {"type": "boolean"}, "Attributes as they were given, with their variables."),
    ("filter", {"type": "string"}, "A condition on fields, written as a JMS selector."),
    ("sort", {"type": "string"}, "Names of fields, joined by commas; - before one: downwards."),
    ("offset", {"type": "integer", "minimum": 0, "maximum": OFFSET_MAX}, "How many to leave out."),
    ("limit", {"type": "integer", "minimum": 1, "maximum": 1000}, "How many at most."),
    ("id", {"type": "string", "format": "uuid"}, "The one object with this id."),
)


_FORCE: Final[Mapping[str, Any]] = parameter(
    "force", "Whether it is done although its author could not undo it, as it locks them out.", {"type": "boolean"}
)
_IF_MATCH: Final[Mapping[str, Any]] = parameter(
    "If-Match",
    "The etag that a look at the object answered with: it is done only if nobody else has changed the object since; else 412.",
    {"type": "string"},
    where="header",
)
_WHO: Final[Mapping[str, Any]] = {
    "type": "object",
    "required": ["user_name", "groups"],
    "properties": {
        "user_name": {"type": "string"},
        "groups": {"type": "array", "items": {"type": "string"}},
        "csrf_token": {"type": "string"},
    },
}
_NOTICE: Final[Mapping[str, Any]] = {
    "type": "object",
    "required": ["notice"],
    "properties": {"notice": {"type": ["string", "null"]}},
}
_LOGIN: Final[Mapping[str, Any]] = {
    "type": "object",
    "required": ["user_name", "password"],
    "properties": {"user_name": {"type": "string"}, "password": {"type": "string", "format": "password"}},
}


def describe_api() -> dict[str, Any]:
    """Return the description."""
    schemas: dict[str, Any] = {"Error": error_schema(), "Job": job_schema()}
    paths = _fixed_paths()
    for shape in tree.TREE.values():
        if shape.category != tree.ROOT:
            paths |= _Category(shape, schemas).paths()
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "pyjms broker",
            "version": "1",
            "description": "The managed broker's tree of objects. /api/v1 stands for /api/latest as long as that is version 1.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": {"Error": content("Why it was refused", reference("Error"))},
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
        "security": [{"basic": []}, {"bearer": []}, {}],
    }


def _fixed_paths() -> dict[str, Any]:
    """Return the paths that do not depend on the model."""
    anything = {"type": "object"}
    return {
        **_log_in_paths(),
        **_monitoring_paths(),
        f"{_ROOT}/openapi.json": {
            "get": answering({"200": content("This", anything)}, operationId="openapi", summary="This description")
        },
        f"{_ROOT}/description": {
            "get": answering(
                {"200": content("All categories", anything)}, operationId="description", summary="The model as data"
            )
        },
        **_job_paths(),
    }


def _log_in_paths() -> dict[str, Any]:
    return {
        "/api/login": {
            "get": answering(
                {"200": content("The notice that the broker shows at the log-in; null: none", _NOTICE)},
                operationId="login_notice",
                summary="What to read before the log-in",
                security=[],
            ),
            "post": answering(
                {"200": content("Who came; the cookie of a session comes with it", _WHO)},
                operationId="login",
                summary="Begin a session",
                requestBody={"content": {JSON: {"schema": dict(_LOGIN)}}, "required": True},
                security=[],
            ),
        },
        "/api/logout": {
            "post": answering(
                {"204": {"description": "The session has ended"}}, operationId="logout", summary="End a session"
            )
        },
        "/api/whoami": {
            "get": answering(
                {"200": content("Who asks", _WHO)}, operationId="whoami", summary="Who the broker takes me for"
            )
        },
    }


def _job_paths() -> dict[str, Any]:
    job = reference("Job")
    by_id = [parameter("job", "The id of the job.", {"type": "string", "minLength": 1}, where="path")]
    jobs = {"type": "object", "required": ["items"], "properties": {"items": {"type": "array", "items": job}}}
    return {
        f"{_ROOT}/job": {
            "get": answering(
                {"200": content("Your jobs", jobs)}, operationId="list_job", summary="Your long operations"
            )
        },
        f"{_ROOT}/job/{{job}}": {
            "get": answering(
                {"200": content("How far it is", job)},
                operationId="get_job",
                summary="How far a long operation is",
                parameters=by_id,
            ),
            "delete": answering(
                {"200": content("How far it is", job)},
                operationId="delete_job",
                summary="End a long operation half way",
                parameters=by_id,
            ),
        },
    }


def _monitoring_paths() -> dict[str, Any]:
    """Return the paths for monitoring systems; `metrics` of the port decides about access to them."""
    text = {
        "description": "In the text format of Prometheus",
        "content": {"text/plain": {"schema": {"type": "string"}}},
    }
    states = {"category": {"type": "string"}, "state": {"type": "string"}}
    status = {
        "type": "object",
        "required": ["status"],
        "properties": {
            "status": {"type": "string"},
            "objects": {"type": "array", "items": {"type": "object", "properties": states}},
        },
    }
    live = {"200": content("The process answers", status)}
    ready = {"200": content("All is active", status), "503": content("What is not active", status)}
    return {
        "/metrics": {"get": answering({"200": text}, operationId="metrics", summary="What is measured")},
        "/health/live": {
            "get": answering(live, operationId="live", summary="Whether the process answers", security=[])
        },
        "/health/ready": {
            "get": answering(ready, operationId="ready", summary="Whether the broker can be used", security=[])
        },
    }


class _Category:
    """Describes the operations on objects of one category."""

    def __init__(self, shape: tree.CategoryShape, schemas: dict[str, Any]) -> None:
        self._shape = shape
        self._schemas = schemas
        self._category = shape.category
        self._names = () if shape.category == "broker" else names_needed(shape.category)
        self._one = reference(shape.category)
        self._operations: dict[str, OperationDeclaration] = {}
        self._declare()

    def _declare(self) -> None:
        given: dict[str, Any] = {}
        shown: dict[str, Any] = {"name": {"type": "string"}, "type": {"type": "string"}, **_FACTS}
        # Types of a category may share a class, which is described once.
        for kind in dict.fromkeys(tree.class_of(self._category, name)[1] for name in tree.types_of(self._category)):
            for name, declared in declarations(kind.attributes_class).items():
                given[name] = {**inlined(declared.schema, self._schemas), "description": declared.description}
                shown[name] = {"description": declared.description}
            for name, measured in statistics_of(kind).items():
                shown[name] = {"description": measured.description}
            self._operations |= operations_of(kind)
        self._schemas[f"{self._category}_given"] = {
            "type": "object",
            "properties": given,
            "additionalProperties": False,
        }
        self._schemas[self._category] = {"type": "object", "properties": shown}

    def paths(self) -> dict[str, Any]:
        """Return its paths: lists, from the broad to the narrow, one object, and the operations on it."""
        found = {self._path(depth): self._list_methods(depth) for depth in range(len(self._names))}
        whole = self._path(len(self._names))
        found[whole] = self._object_methods()
        for name, declared in self._operations.items():
            found[f"{whole}/{name}"] = self._operation_methods(declared)
        return found

    def _path(self, depth: int) -> str:
        return "/".join((f"{_ROOT}/{self._category}", *(f"{{{name}}}" for name in self._names[:depth])))

    def _parameters(self, depth: int) -> list[dict[str, Any]]:
        return [
            parameter(name, f"The {name}'s name.", {"type": "string", "minLength": 1}, where="path")
            for name in self._names[:depth]
        ]

    def _body(self) -> dict[str, Any]:
        return {"content": {JSON: {"schema": reference(f"{self._category}_given")}}}

    def _list_methods(self, depth: int) -> dict[str, Any]:
        category = self._category
        suffix = "".join(f"_in_{name}" for name in self._names[depth - 1 : depth])
        options = tuple(name for name, _, _ in _LIST_OPTIONS)
        found = {
            "get": answering(
                {"200": content(self._shape.summary, {"anyOf": [page_of(self._one), self._one]})},
                operationId=f"list_{category}{suffix}",
                summary=f"List what there is of category {category}; with id: look at the one",
                parameters=[*self._parameters(depth), *_options(options)],
            )
        }
        if self._shape.is_observed:
            return found
        if depth == len(self._names) - 1:
            found["post"] = answering(
                {"201": content("It was created", self._one)},
                operationId=f"create_{category}",
                summary=f"Create a {category}",
                parameters=self._parameters(depth),
                requestBody=self._body(),
            )
        if depth == 0:
            by_id = [{**each, "required": True} for each in _options(("id",))]
            found["patch"] = self._changing(f"patch_{category}_by_id", by_id)
            found["delete"] = self._deleting(f"delete_{category}_by_id", by_id)
        return found

    def _object_methods(self) -> dict[str, Any]:
        category, parameters = self._category, self._parameters(len(self._names))
        found = {
            "get": answering(
                {"200": content(self._shape.summary, self._one)},
                operationId=f"get_{category}",
                summary=f"Look at a {category}",
                parameters=[*parameters, *_options(("fields", "actual"))],
            )
        }
        if self._shape.is_observed:
            return found
        found["patch"] = self._changing(f"patch_{category}", parameters)
        found["post"] = self._changing(f"post_{category}", parameters)
        if category != "broker":
            found["put"] = answering(
                {"200": content("As it is now", self._one), "201": content("It was created", self._one)},
                operationId=f"put_{category}",
                summary=f"Change a {category}, or create it",
                parameters=[*parameters, _FORCE, _IF_MATCH],
                requestBody=self._body(),
            )
            found["delete"] = self._deleting(f"delete_{category}", parameters)
        return found

    def _changing(self, operation_id: str, parameters: list[dict[str, Any]]) -> dict[str, Any]:
        return answering(
            {"200": content("As it is now", self._one)},
            operationId=operation_id,
            summary=f"Change a {self._category}",
            parameters=[*parameters, _FORCE, _IF_MATCH],
            requestBody=self._body(),
        )

    def _deleting(self, operation_id: str, parameters: list[dict[str, Any]]) -> dict[str, Any]:
        return answering(
            {"204": {"description": "It is gone"}},
            operationId=operation_id,
            summary=f"Delete a {self._category}",
            parameters=[*parameters, _IF_MATCH],
        )

    def _operation_methods(self, declared: OperationDeclaration) -> dict[str, Any]:
        result = {
            "type": "object",
            "required": ["result"],
            "properties": {"result": inlined(declared.result, self._schemas)},
        }
        answers = {"200": content("What came of it", result)}
        parameters = self._parameters(len(self._names))
        arguments = inlined(declared.parameters, self._schemas)
        found: dict[str, Any] = {}
        if not declared.changes:
            # A query has texts only: objects and lists are given by POST.
            query = [
                {
                    **parameter(name, schema.get("description", ""), schema),
                    "required": name in arguments.get("required", ()),
                }
                for name, schema in arguments.get("properties", {}).items()
                if not {"object", "array"} & _types(schema)
            ]
            found["get"] = answering(
                answers,
                operationId=f"get_{declared.name}_{self._category}",
                summary=declared.description,
                parameters=[*parameters, *query],
            )
        if declared.is_long:
            answers = {**answers, "202": content("It runs as a job", reference("Job"))}
            prefer = {"type": "string", "enum": ["respond-async"]}
            parameters = [*parameters, parameter("Prefer", "respond-async: run it as a job.", prefer, where="header")]
        if declared.changes:
            parameters = [*parameters, dict(_IF_MATCH)]
        found["post"] = answering(
            answers,
            operationId=f"{declared.name}_{self._category}",
            summary=declared.description,
            parameters=parameters,
            requestBody={"content": {JSON: {"schema": arguments}}},
        )
        return found


def _types(schema: Mapping[str, Any]) -> set[str]:
    """Return the kinds of values that a schema allows; a reference is to an object."""
    inner = set().union(*(_types(each) for each in schema.get("anyOf", ())))
    return inner | {str(schema.get("type", "object" if "$ref" in schema else ""))}


def _options(names: tuple[str, ...]) -> list[dict[str, Any]]:
    return [parameter(name, text, schema) for name, schema, text in _LIST_OPTIONS if name in names]

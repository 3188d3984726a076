"""What a request says: the address in its path, the choices in its query, the object in its body."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote
from uuid import UUID

from pyjms_provider.management.errors import BadRequestError
from pyjms_provider.management.listing import ListRequest
from pyjms_provider.model.errors import UnknownObjectError
from pyjms_provider.model.lookup import names_needed
from pyjms_provider.model.tree import shape_of

if TYPE_CHECKING:
    from starlette.requests import Request

__all__ = ["Address", "read_address", "read_body", "read_list_request"]

_LIST_OPTIONS = frozenset({"fields", "actual", "filter", "sort", "offset", "limit", "id"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """What a path names: ``/CATEGORY``, ``/CATEGORY/NAME/…`` and ``/CATEGORY/NAME/…/OPERATION``."""

    category: str
    names: tuple[str, ...]
    is_whole: bool
    """Whether the names are those of one object; else they begin the addresses of many."""
    operation: str | None = None


def read_address(raw_path: bytes, prefix: str) -> Address:
    """Return what the path after `prefix` names; a name may hold any character, percent-encoded.

    Raises `UnknownObjectError`, `UnknownCategoryError`.
    """
    try:
        text = raw_path.decode("ascii")
    except UnicodeDecodeError:
        raise BadRequestError("the path has characters that are not percent-encoded") from None
    try:
        parts = [unquote(part, errors="strict") for part in text[len(prefix) :].strip("/").split("/")]
    except UnicodeDecodeError:
        raise BadRequestError("the path is not percent-encoded UTF-8") from None
    category, *names = parts
    shape_of(category)  # raises for what is none
    count = 0 if category == "broker" else len(names_needed(category))
    if len(names) > count + 1:
        raise UnknownObjectError(f"a {category} is named by {'/'.join(names_needed(category)) or 'nothing'}")
    operation = names.pop() if len(names) == count + 1 else None
    return Address(category=category, names=tuple(names), is_whole=len(names) == count, operation=operation)


def read_list_request(request: Request) -> tuple[ListRequest, UUID | None]:
    """Return what the query asks for, and the id of one object if it names one. Raises `BadRequestError`."""
    query = request.query_params
    unknown = sorted(set(query) - _LIST_OPTIONS)
    if unknown:
        raise BadRequestError(f"there is no option {unknown[0][:40]!r}; there are: {', '.join(sorted(_LIST_OPTIONS))}")
    fields = query.get("fields")
    wanted = query.get("id")
    try:
        object_id = None if wanted is None else UUID(wanted)
    except ValueError:
        raise BadRequestError("id is no UUID") from None
    return (
        ListRequest(
            fields=None if fields is None else _words(fields),
            actual=_flag(query, "actual"),
            condition=query.get("filter"),
            order=_words(query.get("sort", "")),
            offset=_number(query, "offset", 0),
            limit=_number(query, "limit", 100),
        ),
        object_id,
    )


async def read_body(request: Request, size_max: int) -> dict[str, Any]:
    """Return the JSON object in the body; none is an empty one. Raises `BadRequestError`."""
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > size_max:
            raise BadRequestError(f"the body is longer than the {size_max} bytes that are taken here")
        chunks.append(chunk)
    body = b"".join(chunks)
    if not body.strip():
        return {}
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/json":
        raise BadRequestError("the body is JSON, with content-type: application/json")
    try:
        data = json.loads(body, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise BadRequestError(f"the body is no JSON: {error}") from error
    if not isinstance(data, dict):
        raise BadRequestError("the body is a JSON object: {…}")
    return data


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _flag(query: Mapping[str, str], name: str) -> bool:
    text = query.get(name, "false")
    if text not in {"true", "false"}:
        raise BadRequestError(f"{name} is true or false")
    return text == "true"


def _number(query: Mapping[str, str], name: str, default: int) -> int:
    text = query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise BadRequestError(f"{name} is a number from 0")
    return int(text)

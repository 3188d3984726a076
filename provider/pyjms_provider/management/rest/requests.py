"""The parts of a request: the address in its path, the options in its query, the object in its body."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote
from uuid import UUID

from starlette.concurrency import run_in_threadpool

from pyjms_provider.management.describing import ListRequest
from pyjms_provider.management.errors import (
    BadMethodError,
    BadRequestError,
    ContentTypeError,
    RequestTooLargeError,
)
from pyjms_provider.model.errors import UnknownCategoryError, UnknownObjectError
from pyjms_provider.model.lookup import names_needed
from pyjms_provider.model.managed import OFFSET_MAX
from pyjms_provider.model.tree import ROOT, shape_of

if TYPE_CHECKING:
    from starlette.requests import Request

LIST_OPTIONS: Final = frozenset({"fields", "actual", "filter", "sort", "offset", "limit", "id"})
OBJECT_OPTIONS: Final = frozenset({"fields", "actual", "id"})
_PREFIX_PARTS: Final = 3
_DEPTH_MAX: Final = 100
_LONG: Final = 64 * 1024
"""Reading a longer body would delay the other clients of the event loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """The contents of a path: ``/CATEGORY``, ``/CATEGORY/NAME/…`` and ``/CATEGORY/NAME/…/OPERATION``."""

    category: str
    names: tuple[str, ...]
    is_whole: bool
    """Whether the names are those of one object; otherwise they begin the addresses of many."""
    operation: str | None = None

    @property
    def is_parent(self) -> bool:
        """Whether it is the place where objects of the category are created: their address without their own name."""
        return not self.is_whole and len(self.names) == len(names_needed(self.category)) - 1


def read_address(raw_path: bytes) -> Address:
    """Parse the path after ``/api/VERSION``; a name may hold any character, percent-encoded.

    Raises `UnknownObjectError`, `UnknownCategoryError`, `BadRequestError`.
    """
    try:
        text = raw_path.decode("ascii")
        # Split before it is decoded: a name may hold a slash, which is %2F
        # here. The decoded path would cut such a name in two.
        parts = [unquote(part, errors="strict") for part in text.split("/")[_PREFIX_PARTS:]]
    except UnicodeDecodeError:
        raise BadRequestError("the path is not percent-encoded UTF-8") from None
    if len(parts) > 1 and not parts[-1]:
        parts.pop()
    category, *names = parts
    if shape_of(category).category == ROOT:  # raises for an unknown category
        raise UnknownCategoryError(f"{ROOT} is not managed from here; the broker is the top")
    needed = () if category == "broker" else names_needed(category)
    if len(names) > len(needed) + 1:
        raise UnknownObjectError(f"a {category} is named by {'/'.join(needed) or 'nothing'}")
    operation = names.pop() if len(names) == len(needed) + 1 else None
    return Address(
        category=category, names=tuple(names), is_whole=len(names) == len(needed), operation=operation or None
    )


def check_method(address: Address, method: str) -> None:
    """Refuse a method that no object, or list, of the category supports. Raises `BadMethodError`."""
    allowed = _allowed(address)
    if method not in allowed:
        raise BadMethodError(f"{method} does nothing here; there is {', '.join(allowed)}", allowed)


def _allowed(address: Address) -> tuple[str, ...]:
    if shape_of(address.category).is_observed:
        return "GET", "HEAD"
    if address.category == "broker":
        return "GET", "HEAD", "POST", "PATCH"
    if address.is_whole:
        return "GET", "HEAD", "PUT", "POST", "PATCH", "DELETE"
    return ("GET", "HEAD", "POST", "PATCH", "DELETE") if address.is_parent else ("GET", "HEAD", "PATCH", "DELETE")


def read_options(request: Request, known: frozenset[str]) -> tuple[ListRequest, UUID | None]:
    """Return the options of the query, and the id of one object if it has one. Raises `BadRequestError`."""
    query = read_query(request)
    unknown = sorted(set(query) - known)
    if unknown:
        there_are = f"there are: {', '.join(sorted(known))}" if known else "there is none"
        raise BadRequestError(f"there is no option {unknown[0][:40]!r} here; {there_are}")
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


def read_query(request: Request) -> dict[str, str]:
    """Return the options of the query. Raises `BadRequestError` for one that is given twice, or is no UTF-8."""
    found: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name in found:
            raise BadRequestError(f"the option {name[:40]!r} is given twice")
        if "\ufffd" in value or "\x00" in value:  # Starlette's replacement of bad UTF-8
            raise BadRequestError(f"the option {name[:40]!r} is not percent-encoded UTF-8")
        found[name] = value
    return found


async def read_body(request: Request, size_max: int) -> dict[str, Any]:
    """Return the JSON object in the body; an empty one if there is no body.

    Raises `BadRequestError`, `ContentTypeError`, `RequestTooLargeError`.
    """
    too_large = RequestTooLargeError(f"the body is longer than the {size_max} bytes that are taken here")
    announced = request.headers.get("content-length", "")
    # The digits are counted before they are converted: Python refuses to read a number of thousands of digits.
    if announced.isascii() and announced.isdigit() and (len(announced) > 15 or int(announced) > size_max):
        raise too_large
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > size_max:
            raise too_large
    if not body.strip():
        return {}
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/json":
        raise ContentTypeError("the body is JSON, with content-type: application/json")
    is_long = len(body) > _LONG
    data = await run_in_threadpool(read_json, bytes(body)) if is_long else read_json(bytes(body))
    if not isinstance(data, dict):
        raise BadRequestError("the body is a JSON object: {…}")
    return data


def read_json(body: bytes) -> Any:
    """Parse JSON in UTF-8, as in RFC 8259: without NaN, surrogates, or unlimited depth.

    Raises `BadRequestError`.
    """
    try:
        text = body.decode()
        data = json.loads(text, parse_constant=_no_constant, parse_float=_finite)
        if "\\u" in text:
            json.dumps(data, ensure_ascii=False).encode()  # fails for half of a surrogate pair
        _check_depth(data, 0)
    except (ValueError, RecursionError) as error:
        raise BadRequestError(f"the body is no JSON in UTF-8: {error}") from error
    return data


def _check_depth(data: Any, depth: int) -> None:
    if depth > _DEPTH_MAX:
        raise ValueError(f"it is nested deeper than {_DEPTH_MAX} levels")
    if isinstance(data, (dict, list)):
        for each in data.values() if isinstance(data, dict) else data:
            _check_depth(each, depth + 1)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is larger than any number that is understood")
    return number


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def read_force(request: Request) -> bool:
    """Return whether a change is to be made even if its caller could not undo it. Raises `BadRequestError`."""
    return _flag(read_query(request), "force")


def _flag(query: dict[str, str], name: str) -> bool:
    text = query.get(name, "false")
    if text not in {"true", "false"}:
        raise BadRequestError(f"{name} is true or false")
    return text == "true"


def _number(query: dict[str, str], name: str, default: int) -> int:
    text = query.get(name)
    if text is None:
        return default
    is_short = text.isascii() and text.isdigit() and len(text) <= len(str(OFFSET_MAX))
    if not is_short or int(text) > OFFSET_MAX:
        raise BadRequestError(f"{name} is a number from 0 to {OFFSET_MAX}")
    return int(text)

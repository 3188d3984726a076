"""Serves the console's files.

They are read once, when a port is opened, and found by their names in a table: a path leads nowhere else. A browser asks
each time whether its copy is still right, by the hash of the content, so that a new version of the broker is seen at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from pyjms_provider.management.rest.answers import secured

if TYPE_CHECKING:
    from starlette.requests import Request

PAGE: Final = "index.html"
_FOLDER: Final = "static"
_TYPES: Final[Mapping[str, str]] = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticFile:
    """A file in the form in which it is sent."""

    content: bytes
    content_type: str
    tag: str
    """Its entity tag: it changes with the content."""


@cache
def console_files() -> Mapping[str, StaticFile]:
    """Return the files by their paths below ``/console/``, as ``views/queues.js``."""
    return dict(_read(files(__package__) / _FOLDER, ""))


def _read(folder: Any, prefix: str) -> list[tuple[str, StaticFile]]:
    found: list[tuple[str, StaticFile]] = []
    for each in sorted(folder.iterdir(), key=lambda entry: str(entry.name)):
        if each.is_dir():
            found += _read(each, f"{prefix}{each.name}/")
            continue
        content_type = _TYPES.get(each.name.rpartition(".")[2])
        if content_type is not None:
            content = each.read_bytes()
            tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
            found.append((f"{prefix}{each.name}", StaticFile(content=content, content_type=content_type, tag=tag)))
    return found


def console_routes() -> list[Route]:
    """Return the routes of the console: its page at ``/console/``, and a redirection from ``/``."""
    return [
        Route("/", _lead, methods=["GET"]),
        Route("/console", _lead, methods=["GET"]),
        Route("/console/{path:path}", _send, methods=["GET"]),
    ]


async def _lead(_: Request) -> Response:
    return secured(RedirectResponse("/console/", 307))


async def _send(request: Request) -> Response:
    found = console_files().get(request.path_params["path"] or PAGE)
    if found is None:
        return secured(Response("The console has no such file.\n", 404, media_type="text/plain"))
    headers = {"etag": found.tag, "cache-control": "no-cache"}
    # A proxy that compresses answers makes the tag a weak one, `W/"…"`; the content is the same.
    known = {each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")}
    if found.tag in known:
        return secured(Response(status_code=304, headers=headers))
    return secured(Response(found.content, headers={**headers, "content-type": found.content_type}))

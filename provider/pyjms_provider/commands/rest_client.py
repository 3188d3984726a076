"""A client of a broker's REST API, which knows the objects only from the API's own description."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import quote, urlencode, urlsplit

from pyjms.spi.clock import Clock, Signal, SystemClock
from pyjms.spi.errors import ProviderError, UrlError
from pyjms.spi.trust import explained, trusting
from pyjms.spi.words import said_by_system

_PREFIX: Final = "/api/latest"
_PATIENCE_S: Final = 60.0
_PAGE: Final = 1000
_STEP_MS: Final = 200
_SCHEMAS: Final = "#/components/schemas/"
_SERVER_ERROR: Final = 500


class NoAnswerError(ProviderError):
    """There is no answer, or none that a broker would give."""

    code = "PYJMS-REST-NO-ANSWER"


class RefusedError(ProviderError):
    """The broker refuses; the text is the broker's."""

    code = "PYJMS-REST-REFUSED"

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status

    @property
    def is_failure(self) -> bool:
        """Whether the broker failed, rather than refused."""
        return self.status >= _SERVER_ERROR


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationDescription:
    """The description of an operation."""

    name: str
    summary: str
    is_long: bool
    """Whether it can run as a job, and report progress."""
    arguments: Mapping[str, Any]
    """The JSON schemas of the arguments, by name."""
    required: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CategoryDescription:
    """The API's description of a category."""

    name: str
    names: tuple[str, ...]
    """The parts of an object's address."""
    is_changeable: bool
    attributes: Mapping[str, Any]
    """The JSON schemas of the attributes that can be set, by name."""
    fields: Mapping[str, str]
    """The meaning of each field, by name."""
    operations: Mapping[str, OperationDescription] = field(default_factory=dict)


class RestClient:
    """Belongs to one thread. Every call raises `NoAnswerError`, `RefusedError` or `TrustError`. Redirections are not followed."""

    def __init__(
        self,
        url: str,
        *,
        user: tuple[str, str] | None = None,
        token: str | None = None,
        ca_file: Path | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`user`: name and password. Raises `UrlError` for a URL that is none, `TrustError` for `ca_file`."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise UrlError(f"{url!r} is no URL: {error}; write for instance http://127.0.0.1:8161") from error
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise UrlError(f"{url!r} is no address of a broker's REST API; write for instance http://127.0.0.1:8161")
        # The list of processes and the shell's history show URLs.
        if parts.username is not None or parts.password is not None:
            raise UrlError("a URL is no place for a user's name and password; say --user NAME")
        self._place = f"{parts.scheme}://{parts.netloc}"
        self._connect: Callable[[], HTTPConnection]
        host = parts.hostname
        self._where = (host, port, ca_file)
        if parts.scheme == "https":
            context = trusting(ca_file)
            self._connect = lambda: HTTPSConnection(host, port, timeout=_PATIENCE_S, context=context)
        else:
            self._connect = lambda: HTTPConnection(host, port, timeout=_PATIENCE_S)
        self._connection: HTTPConnection | None = None
        self._headers = {"accept": "application/json", "user-agent": "pyjms-manage"}
        if user is not None:
            self._headers["authorization"] = f"Basic {base64.b64encode(':'.join(user).encode()).decode()}"
        elif token is not None:
            self._headers["authorization"] = f"Bearer {token}"
        self._clock = clock or SystemClock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._connection is not None:
            self._connection.close()

    # Objects

    def get(self, category: str, names: Sequence[str], **options: str) -> dict[str, Any]:
        """Return one object."""
        found: dict[str, Any] = self._ask("GET", self._path(category, names, options))
        return found

    def page(self, category: str, names: Sequence[str], limit: int, offset: int, **options: str) -> dict[str, Any]:
        """Return a page of the objects whose addresses begin so: ``items``, and the number of all, ``total``."""
        items: list[Any] = []
        while True:
            step = min(limit - len(items), _PAGE) if limit else _PAGE
            chosen = {**options, "limit": str(step), "offset": str(offset + len(items))}
            found = self._ask("GET", self._path(category, names, chosen))
            items += found["items"]
            # An empty page ends the loop even if the total promises more: objects
            # may be deleted while the pages are read.
            if not found["items"] or len(items) == limit or offset + len(items) >= found["total"]:
                return {"items": items, "total": found["total"], "offset": offset}

    def create(self, category: str, names: Sequence[str], attributes: Mapping[str, Any]) -> dict[str, Any]:
        """Create an object; it must not exist."""
        body = {**attributes, "name": names[-1]}
        created: dict[str, Any] = self._ask("POST", self._path(category, names[:-1]), body)
        return created

    def change(
        self, category: str, names: Sequence[str], attributes: Mapping[str, Any], *, force: bool = False
    ) -> dict[str, Any]:
        """Change an object; None: the default again. `force`: even a change that its caller could not undo."""
        options = {"force": "true"} if force else {}
        changed: dict[str, Any] = self._ask("PATCH", self._path(category, names, options), attributes)
        return changed

    def delete(self, category: str, names: Sequence[str]) -> None:
        """Delete an object, with all below it."""
        self._ask("DELETE", self._path(category, names))

    def call(
        self,
        category: str,
        names: Sequence[str],
        operation: OperationDescription,
        arguments: Mapping[str, Any],
        watch: Callable[[int, int | None], None],
    ) -> Any:
        """Run an operation and return its result; `watch` is called with the progress of a long one. An interrupt ends the operation."""
        path = self._path(category, (*names, operation.name))
        if not operation.is_long:
            return self._ask("POST", path, arguments)["result"]
        job = self._ask("POST", path, arguments, prefer="respond-async")
        try:
            while job.get("state") == "running":
                watch(int(job["done"]), job["total"])
                self._clock.wait(Signal(), self._clock.monotonic_ms() + _STEP_MS)
                job = self._ask("GET", f"{_PREFIX}/job/{quote(job['id'], safe='')}")
        # Ctrl-C is meant for the operation: without this the job would go on in the broker, unseen.
        except KeyboardInterrupt:
            self._ask("DELETE", f"{_PREFIX}/job/{quote(job['id'], safe='')}")
            raise
        if "error" in job:
            status = job["error"].get("status", _SERVER_ERROR)
            raise RefusedError(status, str(job["error"].get("reason", "it failed")))
        return job.get("result")

    # Description

    @cached_property
    def _described(self) -> dict[str, Any]:
        found: dict[str, Any] = self._ask("GET", f"{_PREFIX}/openapi.json")
        return found

    def categories(self) -> Iterator[CategoryDescription]:
        """Yield the API's description of each category."""
        schemas = self._described["components"]["schemas"]
        for path, methods in self._described["paths"].items():
            words = path.removeprefix(f"{_PREFIX}/").split("/")
            category = words[0]
            if f"{category}_given" not in schemas or f"get_{category}" != methods.get("get", {}).get("operationId"):
                continue
            yield CategoryDescription(
                name=category,
                names=tuple(word.strip("{}") for word in words[1:]),
                is_changeable="patch" in methods,
                attributes=schemas[f"{category}_given"]["properties"],
                fields={
                    name: str(each.get("description", "")) for name, each in schemas[category]["properties"].items()
                },
                operations=self._operations(path),
            )

    def category(self, name: str) -> CategoryDescription:
        """Return the API's description of one category. Raises `RefusedError` if there is none of that name."""
        known = {each.name: each for each in self.categories()}
        if name not in known:
            raise RefusedError(404, f"there is no category {name!r}; there are: {', '.join(known)}")
        return known[name]

    def _operations(self, whole: str) -> dict[str, OperationDescription]:
        found: dict[str, OperationDescription] = {}
        for path, methods in self._described["paths"].items():
            name = path.removeprefix(f"{whole}/")
            post = methods.get("post")
            if name == path or "/" in name or "{" in name or post is None:
                continue
            schema = post.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            found[name] = OperationDescription(
                name=name,
                summary=post.get("summary", ""),
                is_long="202" in post["responses"],
                arguments=schema.get("properties", {}),
                required=frozenset(schema.get("required", ())),
            )
        return found

    def resolved(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a schema, with a reference at its top resolved."""
        target = schema.get("$ref")
        if target is None:
            return schema
        found: Mapping[str, Any] = self._described["components"]["schemas"][target.removeprefix(_SCHEMAS)]
        return found

    # HTTP

    def _path(self, category: str, names: Sequence[str], options: Mapping[str, str] | None = None) -> str:
        path = "/".join((_PREFIX, *(quote(each, safe="") for each in (category, *names))))
        return f"{path}?{urlencode(options)}" if options else path

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None, *, prefer: str | None = None) -> Any:
        headers = dict(self._headers)
        content = None
        if body is not None:
            content = json.dumps(body).encode()
            headers["content-type"] = "application/json"
        if prefer is not None:
            headers["prefer"] = prefer
        self._connection = self._connection or self._connect()
        try:
            self._connection.request(method, path, content, headers)
            response = self._connection.getresponse()
            text = response.read()
        except (OSError, HTTPException) as error:
            self._connection.close()
            if (mistake := explained(error, self._place, *self._where)) is not None:
                raise mistake from error
            raise NoAnswerError(
                f"nothing answers at {self._place}: {said_by_system(error)}; see whether the broker runs"
            ) from error
        # Redirections too: following one would send the credentials to another place.
        if response.status >= 300:
            raise RefusedError(response.status, self._reason(response.status, response.reason, text))
        if not text:
            return None
        try:
            return json.loads(text)
        except ValueError as error:
            raise NoAnswerError(f"{self._place} answers, but not as a pyjms broker does; look at the URL") from error

    def _reason(self, status: int, phrase: str, text: bytes) -> str:
        if status == 401:
            hint = "the credentials are refused" if "authorization" in self._headers else "log in with --user NAME"
            return f"{self._place} lets nobody in without a user that it knows: {hint}"
        try:
            error = json.loads(text)["error"]
            return str(error["reason"])
        except (ValueError, KeyError, TypeError):
            return f"{self._place} answers {status} {phrase}; look at the URL"

"""The application: routes, methods, and the processing of requests.

The model may wait, for its configuration threads and for the disk, so it is called on threads of a pool and never on the
event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar
from urllib.parse import urlsplit
from uuid import UUID

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Route

from pyjms.spi.errors import AccessDeniedError, ProviderError
from pyjms_provider.management.describing import describe_model
from pyjms_provider.management.errors import BadMethodError, BadRequestError, ChangedMeanwhileError, UnknownHostError
from pyjms_provider.management.jobs import Job, JobState
from pyjms_provider.management.openapi import describe_api
from pyjms_provider.management.rest.answers import JSONResponse, error_data, refuse, secured, status_of
from pyjms_provider.management.rest.identity import (
    ForgedRequestError,
    Identity,
    Session,
    Sessions,
    offered_name,
    peer_of,
    read_credentials,
)
from pyjms_provider.management.rest.monitoring import monitoring_routes
from pyjms_provider.management.rest.requests import (
    LIST_OPTIONS,
    OBJECT_OPTIONS,
    Address,
    check_method,
    read_address,
    read_body,
    read_force,
    read_options,
    read_query,
)
from pyjms_provider.management.rest.threads import WaitingThreads
from pyjms_provider.management.service import Expected, read_expected, tag_of
from pyjms_provider.model.errors import UnknownObjectError
from pyjms_provider.security.audit import AuditAction, AuditResult
from pyjms_provider.security.contracts import PasswordCredentials

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from pyjms_provider.management.service import Caller, ManagementService
    from pyjms_provider.model.managed import ManagedObject
    from pyjms_provider.security.contracts import AccessPolicy, Authenticator


ANY_HOST: Final = "*"
_LOOPBACK: Final = "localhost"
_SHOWN: Final = 100


def is_allowed(header: str, names: Iterable[str]) -> bool:
    """Return whether a port accepts a ``Host`` header: addresses, ``localhost``, and `names`, with any port number.

    A proxy, or a forwarded port, has another number than the broker; knowing the right one gives a page no advantage.
    """
    try:
        parts = urlsplit(f"//{header}")
        name = (parts.hostname or "").removesuffix(".")
        if parts.path or parts.query or parts.fragment or parts.username is not None or parts.port == 0:
            return False
        if name == _LOOPBACK or name in {each.lower().removesuffix(".") for each in names}:
            return True
        # A page of another site reaches the broker by a name that its owner
        # points here (DNS rebinding), never by an address.
        return bool(ip_address(name))
    except ValueError:
        return False


class AllowedHosts:
    """Refuses requests to other hosts before any other processing. No browser sends requests without ``Host`` (HTTP/1.0)."""

    def __init__(self, app: ASGIApp, names: Iterable[str]) -> None:
        self._app = app
        self._names = frozenset(names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 421, or pass the request on."""
        if scope["type"] != "http" or ANY_HOST in self._names:
            await self._app(scope, receive, send)
            return
        # Every `Host` of the request is checked: it is unknown which of two a proxy would use.
        for name, value in scope["headers"]:
            host = value.decode("latin-1")
            if name == b"host" and not is_allowed(host, self._names):
                error = UnknownHostError(
                    f"this port does not answer as {host[:_SHOWN]!a}; if it is to, add the name, without a port number, to the "
                    "attribute allowed_hosts of this http port, and restart the port; or ask by its address"
                )
                await secured(refuse(error))(scope, receive, send)
                return
        await self._app(scope, receive, send)


_log = logging.getLogger(__name__)
_T = TypeVar("_T")
VERSIONS: Final = ("latest", "v1")
_LOOKING: Final = ("GET", "HEAD")
_METHODS: Final = ("GET", "PUT", "POST", "PATCH", "DELETE")


@dataclass(frozen=True, slots=True, kw_only=True)
class RestSettings:
    """The settings of one port."""

    max_request_bytes: int = 4 * 2**20
    is_secure: bool = False
    """Whether the port is reached over TLS, so that cookies need not be sent without it."""
    allowed_hosts: tuple[str, ...] = ()
    """The hosts that the port serves, besides localhost and addresses; ``*``: any."""
    metrics: Literal["open", "login", "off"] = "open"
    metrics_queues: int = 100
    port: UUID | None = None
    """The port's id. It is in the name of the cookie: browsers send a cookie to all ports of a host, even those of other programs."""

    @property
    def cookie(self) -> str:
        """The name of the cookie. Over TLS, no page of the host without TLS can set another one in its place."""
        own = "" if self.port is None else f"_{self.port.hex[:12]}"
        return f"{'__Host-' if self.is_secure else ''}pyjms_session{own}"


class RestApi:
    """The handlers."""

    def __init__(self, management: ManagementService, identity: Identity, settings: RestSettings) -> None:
        self._management = management
        self._identity = identity
        self._settings = settings
        self._threads = WaitingThreads()

    def routes(self) -> list[Route]:
        """Return all routes; those of the tree last, as they match all other paths."""
        routes = [
            Route("/api/login", self._guarded(self._log_in, identifies=False), methods=["GET", "POST"]),
            Route("/api/logout", self._guarded(self._log_out), methods=["POST"]),
            Route("/api/whoami", self._guarded(self._who_am_i), methods=["GET"]),
        ]
        for version in VERSIONS:
            prefix = f"/api/{version}"
            routes += [
                Route(f"{prefix}/openapi.json", self._guarded(self._openapi, allowed=_LOOKING), methods=list(_METHODS)),
                Route(
                    f"{prefix}/description", self._guarded(self._description, allowed=_LOOKING), methods=list(_METHODS)
                ),
                Route(f"{prefix}/job", self._guarded(self._jobs, allowed=_LOOKING), methods=list(_METHODS)),
                Route(
                    f"{prefix}/job/{{job}}",
                    self._guarded(self._job, allowed=(*_LOOKING, "DELETE")),
                    methods=list(_METHODS),
                ),
                Route(f"{prefix}/{{address:path}}", self._guarded(self._tree), methods=list(_METHODS)),
            ]
        return routes

    def _guarded(
        self,
        handle: Callable[[Request, Caller], Awaitable[Response]],
        *,
        identifies: bool = True,
        allowed: tuple[str, ...] = (),
    ) -> Callable[[Request], Awaitable[Response]]:
        """Return a handler that identifies the caller, and answers with refusals.

        `allowed`: the methods, if the route takes all of them so that no other route takes the rest; none: as the route says.
        """

        async def guarded(request: Request) -> Response:
            try:
                caller = await self._identity.identify(request) if identifies else None
            except ForgedRequestError as error:
                return secured(refuse(error))
            except AccessDeniedError as error:
                self.note_refused(request)
                # No WWW-Authenticate for the console: the browser would show a dialog of its own.
                wants_dialog = "x-requested-with" not in request.headers
                return secured(refuse(error, status=401, headers=_CHALLENGE if wants_dialog else None))
            except ProviderError as error:
                return secured(refuse(error))
            try:
                if allowed and request.method not in allowed:
                    raise BadMethodError(f"{request.method} does nothing here", allowed)
                return secured(await handle(request, caller))  # type: ignore[arg-type]  # None if the handler needs none
            except ProviderError as error:
                return secured(refuse(error))

        return guarded

    def note_refused(self, request: Request) -> None:
        """Audit a refusal of credentials; a request without any is only not logged in."""
        name = offered_name(request.headers.get("authorization"))
        if name is not None:
            peer = peer_of(request)
            self._management.note_login(None, name, peer, AuditAction.LOG_IN, AuditResult.REFUSED)

    async def _call(self, function: Callable[..., _T], *arguments: Any) -> _T:
        """Run a function that waits neither for a database nor for changes."""
        return await run_in_threadpool(function, *arguments)

    # Identity

    async def _log_in(self, request: Request, _: Caller) -> Response:
        if request.method in _LOOKING:
            values = self._management.system.broker.attribute_values(["login_notice"])
            return JSONResponse({"notice": values["login_notice"]})
        body = await read_body(request, 65_536)
        user_name, password = body.get("user_name"), body.get("password")
        if not isinstance(user_name, str) or not isinstance(password, str):
            raise BadRequestError('a login is {"user_name": …, "password": …}')
        peer = peer_of(request)
        credentials = PasswordCredentials(user_name=user_name, password=password)
        try:
            # Taken before the password is checked: a user who is changed from here on is refused by `begin`.
            mark = self._management.revocations.mark
            authenticate = partial(self._identity.authenticator.authenticate, credentials, peer=peer)
            principal = await self._identity.log_ins.run(peer, authenticate)
            cookie, session = self._identity.sessions.begin(principal, mark)
        except AccessDeniedError as error:
            self._management.note_login(None, user_name, peer, AuditAction.LOG_IN, AuditResult.REFUSED)
            return refuse(error, status=401)
        # Audited once the session exists: a user who was revoked meanwhile has been refused above.
        self._management.note_login(principal, user_name, peer, AuditAction.LOG_IN, AuditResult.DONE)
        response = JSONResponse(_who(session))
        name, is_secure = self._settings.cookie, self._settings.is_secure
        response.set_cookie(name, cookie, httponly=True, samesite="strict", secure=is_secure, path="/")
        return response

    async def _log_out(self, request: Request, caller: Caller) -> Response:
        self._identity.sessions.end(request.cookies.get(self._settings.cookie))
        self._management.note_login(
            caller.principal, caller.principal.name, caller.peer, AuditAction.LOG_OUT, AuditResult.DONE
        )
        response = Response(status_code=204)
        response.delete_cookie(self._settings.cookie, path="/", secure=self._settings.is_secure)
        return response

    async def _who_am_i(self, request: Request, caller: Caller) -> Response:
        session = self._identity.sessions.find(request.cookies.get(self._settings.cookie))
        if session is not None and read_credentials(request.headers.get("authorization")) is None:
            return JSONResponse(_who(session))
        return JSONResponse({"user_name": caller.principal.name, "groups": sorted(caller.principal.groups)})

    # Description

    async def _openapi(self, request: Request, _: Caller) -> Response:
        return JSONResponse(await self._call(describe_api))

    async def _description(self, request: Request, _: Caller) -> Response:
        return JSONResponse(await self._call(describe_model))

    # Jobs

    async def _jobs(self, request: Request, caller: Caller) -> Response:
        return JSONResponse(
            {"items": [_job_data(job) for job in self._management.jobs.all() if job.is_of(caller.principal)]}
        )

    async def _job(self, request: Request, caller: Caller) -> Response:
        job = self._management.job(caller, request.path_params["job"], end=request.method == "DELETE")
        return JSONResponse(_job_data(job))

    # The tree

    async def _tree(self, request: Request, caller: Caller) -> Response:
        address = read_address(request.scope["raw_path"])
        if address.operation is not None:
            return await self._operate(request, caller, address)
        check_method(address, request.method)
        if request.method in {"GET", "HEAD"}:
            return await self._get(request, caller, address)
        options = _ID if not address.names else _NO_OPTIONS
        _, object_id = read_options(request, options if request.method == "DELETE" else options | _FORCE)
        body = await read_body(request, self._settings.max_request_bytes)
        if object_id is not None:
            managed = await self._threads.run(self._management.find_by_id, caller, address.category, object_id)
            return await self._change_or_delete(request, caller, managed, body)
        if request.method == "PUT":
            return await self._put(request, caller, address, body)
        if request.method == "POST" and address.is_parent:
            return await self._create(caller, address.category, address.names, body)
        if not address.is_whole:
            raise BadRequestError("name the whole address of an object, or its id: ?id=…")
        managed = await self._threads.run(self._management.find, caller, address.category, address.names)
        return await self._change_or_delete(request, caller, managed, body)

    async def _get(self, request: Request, caller: Caller, address: Address) -> Response:
        is_list = not address.is_whole
        wanted, object_id = read_options(request, LIST_OPTIONS if is_list else OBJECT_OPTIONS)
        if object_id is not None:
            managed = await self._threads.run(self._management.find_by_id, caller, address.category, object_id)
        elif is_list:
            page = await self._threads.run(self._management.list, caller, address.category, address.names, wanted)
            return JSONResponse({"items": list(page.items), "total": page.total, "offset": page.offset})
        else:
            managed = await self._threads.run(self._management.find, caller, address.category, address.names)
        return await self._show(caller, managed, wanted.fields, actual=wanted.actual)

    async def _show(
        self,
        caller: Caller,
        managed: ManagedObject,
        fields: Sequence[str] | None = None,
        *,
        actual: bool = False,
        status: int = 200,
    ) -> Response:
        """Answer with an object; its version is read first, so that the shown object is at least as new."""

        def look() -> tuple[str, str, dict[str, Any]]:
            may = ", ".join(each.value for each in self._management.permitted(caller, managed))
            # The tag is computed first: with an older tag a later change by
            # `If-Match` fails; a newer one would hide what was changed in between.
            return tag_of(managed), may, self._management.describe(managed, fields, actual=actual)

        tag, may, shown = await self._threads.run(look)
        return JSONResponse(shown, status, headers={"etag": tag, "x-pyjms-may": may})

    async def _put(self, request: Request, caller: Caller, address: Address, body: dict[str, Any]) -> Response:
        """Create an object, or change one that exists, according to the body."""
        names = address.names
        managed = await self._threads.run(self._management.find_or_none, caller, address.category, names)
        if managed is not None:
            return await self._change(request, caller, managed, body)
        # `If-Match` of an object that does not exist is never true (RFC 9110 §13.1.1).
        if _expected(request).tags:
            raise ChangedMeanwhileError(f"there is no {address.category} {names[-1]!r} any more, so nothing was done")
        if body.get("name", names[-1]) != names[-1]:
            raise BadRequestError("the name in the body is not that in the address; leave it out")
        return await self._create(caller, address.category, names[:-1], {**body, "name": names[-1]})

    async def _change_or_delete(
        self, request: Request, caller: Caller, managed: ManagedObject, body: dict[str, Any]
    ) -> Response:
        if request.method != "DELETE":
            return await self._change(request, caller, managed, body)
        if body:
            raise BadRequestError("DELETE takes no body")
        await self._threads.run(self._management.delete, caller, managed, _expected(request))
        return Response(status_code=204)

    async def _change(self, request: Request, caller: Caller, managed: ManagedObject, body: dict[str, Any]) -> Response:
        # A client may send back the whole object that it was shown, with its present name.
        changes = {name: value for name, value in body.items() if name != "name" or value != managed.name}
        force = read_force(request)
        await self._threads.run(
            lambda: self._management.change(caller, managed, changes, _expected(request), force=force)
        )
        return await self._show(caller, managed)

    async def _create(self, caller: Caller, category: str, names: tuple[str, ...], body: dict[str, Any]) -> Response:
        managed: ManagedObject = await self._threads.run(self._management.create, caller, category, names, body)
        return await self._show(caller, managed, status=201)

    async def _operate(self, request: Request, caller: Caller, address: Address) -> Response:
        managed = await self._threads.run(self._management.find, caller, address.category, address.names)
        declared = self._management.operation(managed, address.operation or "")
        allowed = ("POST",) if declared.changes else ("GET", "HEAD", "POST")
        if request.method not in allowed:
            raise BadMethodError(f"{declared.name} is asked for with {', '.join(allowed)}", allowed)
        if request.method == "POST":
            read_options(request, _NO_OPTIONS)
            arguments = await read_body(request, self._settings.max_request_bytes)
        else:
            arguments = dict(read_query(request))
        expected = _expected(request)
        if declared.is_long and "respond-async" in request.headers.get("prefer", ""):
            job = await self._threads.run(self._management.begin, caller, managed, declared.name, arguments, expected)
            return JSONResponse(_job_data(job), 202, headers={"location": f"/api/latest/job/{job.id}"})
        result = await self._threads.run(
            lambda: self._management.invoke(caller, managed, declared.name, arguments, expected=expected)
        )
        return JSONResponse({"result": result})


def _expected(request: Request) -> Expected:
    return read_expected(request.headers.get("if-match"), request.headers.get("if-none-match"))


_ID: Final = frozenset({"id"})
_FORCE: Final = frozenset({"force"})
_NO_OPTIONS: Final[frozenset[str]] = frozenset()
_CHALLENGE: Final = {"www-authenticate": 'Basic realm="pyjms", charset="UTF-8"'}


def make_app(
    management: ManagementService,
    authenticator: Authenticator,
    access: AccessPolicy,
    settings: RestSettings,
    extra: list[Route],
) -> Starlette:
    """Return the application of one port. `extra`: routes of the console, metrics and the like."""
    sessions = Sessions(management.system.clock, management.revocations)
    management.add_sessions(sessions)
    identity = Identity(authenticator, access, sessions, settings.cookie, settings.port)
    api = RestApi(management, identity, settings)
    login = None if settings.metrics == "off" else settings.metrics == "login"
    monitoring = monitoring_routes(
        management.system, identity, login=login, queues=settings.metrics_queues, note_refused=api.note_refused
    )
    # Before the routes: neither the log-in nor the metrics nor the console serve another host.
    hosts = Middleware(AllowedHosts, names=settings.allowed_hosts)
    app = Starlette(routes=[*api.routes(), *monitoring, *extra], middleware=[hosts])
    app.add_exception_handler(Exception, _fail)
    app.add_exception_handler(ClientDisconnect, _leave)
    app.add_exception_handler(HTTPException, _refuse_route)
    return app


async def _refuse_route(request: Request, error: Exception) -> Response:
    """Answer a request for an address, or with a method, that no route takes."""
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        allowed = tuple(sorted((error.headers or {}).get("Allow", "").split(", ")))
        return secured(refuse(BadMethodError(f"{request.method} does nothing here", allowed)))
    return secured(refuse(UnknownObjectError("there is nothing at this address"), status=error.status_code))


async def _leave(_request: Request, _error: Exception) -> Response:
    """Give no answer: the client closed the connection before its request was complete."""
    return Response(status_code=400)


async def _fail(request: Request, error: Exception) -> Response:
    _log.error("PYJMS-REST-1 %s %s failed", request.method, request.url.path, exc_info=error)
    failure = ProviderError("the broker failed to do this; its log says why (PYJMS-REST-1)")
    return secured(refuse(failure, status=500))


def _who(session: Session) -> dict[str, Any]:
    principal = session.principal
    return {
        "user_name": principal.name,
        "groups": sorted(principal.groups),
        "csrf_token": session.csrf_token,
    }


def _job_data(job: Job) -> dict[str, Any]:
    data: dict[str, Any] = {
        "id": job.id,
        "what": job.what,
        "state": job.state.value,
        "started_at_ms": job.started_ms,
        "done": job.done,
        "total": job.total,
    }
    if job.state in {JobState.DONE, JobState.ENDED}:
        data["result"] = job.result
    if job.error is not None:
        data["error"] = {**error_data(job.error), "status": status_of(job.error)}
    return data

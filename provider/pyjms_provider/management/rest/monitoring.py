"""What machines ask that watch over a broker: metrics, and whether it is alive and ready."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response
from starlette.routing import Route

from pyjms.spi.errors import AccessDeniedError
from pyjms_provider.management.errors import BusyError
from pyjms_provider.management.metrics import Metrics
from pyjms_provider.management.rest.answers import JSONResponse, refuse
from pyjms_provider.management.rest.headers import secured
from pyjms_provider.management.rest.threads import WaitingThreads
from pyjms_provider.model.life_cycle import State
from pyjms_provider.model.lookup import collect
from pyjms_provider.security.contracts import Operation

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from pyjms_provider.management.rest.identity import Identity
    from pyjms_provider.model.managed import ManagedObject
    from pyjms_provider.model.system_config import SystemConfig

_CHALLENGE: Final = {"www-authenticate": 'Basic realm="pyjms", charset="UTF-8"'}
_TEXT: Final = {"content-type": CONTENT_TYPE_LATEST}
_NEEDED: Final = ("virtual_host_node", "virtual_host", "port")
_MOST: Final = 8
"""So many of a kind are answered at once: who watches is one, or a few."""


def not_ready(system: SystemConfig) -> list[ManagedObject]:
    """Return what keeps the broker from being ready: ports and virtual hosts that are not ACTIVE."""
    return [each for category in _NEEDED for each in collect(system, category) if each.state is not State.ACTIVE]


def monitoring_routes(
    system: SystemConfig,
    identity: Identity,
    *,
    login: bool | None,
    queues: int,
    note_refused: Callable[[Request], None],
) -> list[Route]:
    """Return the routes.

    `login`: whether metrics are for those alone who may observe the broker; None: there are none. Health is for everybody, as who
    asks for it has no password, and hears no names. `queues`: as for `Metrics`; `note_refused`: has it audited whose
    credentials were refused. Metrics and readiness have threads of their own each, so that neither log-ins that wait for another server nor each other's keep them; that the broker is alive needs no thread.
    """
    metrics = Metrics(system, queues=queues)

    metrics_threads, ready_threads = _threads(), _threads()

    async def show_metrics(request: Request) -> Response:
        if login:
            try:
                caller = await identity.identify(request)
            except AccessDeniedError as error:
                note_refused(request)
                return secured(refuse(error, status=401, headers=_CHALLENGE))
            except BusyError as error:
                return secured(refuse(error))
            try:
                caller.access.check(caller.principal, Operation.OBSERVE, system.broker.target())
            except AccessDeniedError as error:
                return secured(refuse(error))
        return await _answer(metrics_threads, lambda: Response(metrics.render(), headers=_TEXT))

    async def show_live(_: Request) -> Response:
        return secured(JSONResponse({"status": "live"}))

    async def show_ready(_: Request) -> Response:
        return await _answer(ready_threads, lambda: _tell_ready(system))

    routes = [
        Route("/health/live", show_live, methods=["GET"]),
        Route("/health/ready", show_ready, methods=["GET"]),
    ]
    return routes if login is None else [Route("/metrics", show_metrics, methods=["GET"]), *routes]


def _tell_ready(system: SystemConfig) -> Response:
    missing = not_ready(system)
    if not missing:
        return JSONResponse({"status": "ready"})
    objects = [{"category": each.category, "state": each.state.value} for each in missing]
    return JSONResponse({"status": "not ready", "objects": objects}, 503)


def _threads() -> WaitingThreads:
    return WaitingThreads(_MOST, waits="requests for this wait already")


async def _answer(threads: WaitingThreads, show: Callable[[], Response]) -> Response:
    try:
        return secured(await threads.run(show))
    except BusyError as error:
        return secured(refuse(error))

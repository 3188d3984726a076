"""The runner of forwarders: the kind ``forward`` of ``pyjms.route_runners``."""

from __future__ import annotations

from pyjms.forwarding.running import RouteThread
from pyjms.forwarding.settings import Described, RouteSettings, Target
from pyjms.forwarding.transfer import Transfer
from pyjms.forwarding.unit import to_all
from pyjms.spi.routes import RouteRequest, RouteRunner, RunningRoute


class ForwardRunner(RouteRunner):
    """Each message of a queue to each of some targets."""

    def check(self, request: RouteRequest) -> None:
        _read(request)

    def start(self, request: RouteRequest) -> RunningRoute:
        settings, targets = _read(request)
        transfer = Transfer(settings, to_all(targets), lambda: targets, request.clock)
        transfer.set_paused(request.is_paused)
        return RouteThread(transfer, request.on_failure)


def _read(request: RouteRequest) -> tuple[RouteSettings, list[Target]]:
    described = Described(request, ("targets",))
    settings, targets = described.route(), described.targets()
    if settings.source in targets:
        described.problems.append("targets: one is the source itself")
    described.finish()
    return settings, targets

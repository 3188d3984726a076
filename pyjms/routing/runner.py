"""The runner of routers: the kind ``route`` of ``pyjms.route_runners``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pyjms.forwarding.running import RouteThread
from pyjms.forwarding.settings import Described, RouteSettings, Site
from pyjms.forwarding.transfer import Transfer
from pyjms.routing.files import load_rules
from pyjms.routing.reading import RulesError, read_rules
from pyjms.routing.router import Router
from pyjms.routing.rules import TargetSpec
from pyjms.spi.errors import ProviderError
from pyjms.spi.routes import RouteError, RouteRequest, RouteRunner, RouteStatistics, RunningRoute


class RunningRouter(RunningRoute):
    """A router on a thread of its own."""

    def __init__(self, settings: RouteSettings, router: Router, request: RouteRequest) -> None:
        self.router = router
        transfer = Transfer(settings, router.plan, router.targets, request.clock)
        transfer.set_paused(request.is_paused)
        self.thread = RouteThread(transfer, request.on_failure)

    def pause(self) -> None:
        self.thread.pause()

    def resume(self) -> None:
        self.thread.resume()

    def stop(self) -> None:
        self.thread.stop()

    def statistics(self) -> RouteStatistics:
        details = self.router.details()
        seen = self.thread.statistics()
        refused = self.router.refused
        if refused is not None:
            return replace(seen, details=details, last_error=f"new rules were refused: {refused}")
        return replace(seen, details=details)


class RouteRulesRunner(RouteRunner):
    """Each message of a queue to where rules send it."""

    def check(self, request: RouteRequest) -> None:
        _read(request)

    def start(self, request: RouteRequest) -> RunningRoute:
        settings, router = _read(request)
        return RunningRouter(settings, router, request)


def _read(request: RouteRequest) -> tuple[RouteSettings, Router]:
    described = Described(request, ("rules", "rules_file"))
    settings = described.route()
    inline, named = request.settings.get("rules"), described.text("rules_file")
    if (inline is None) == (named is None):
        described.problems.append("rules: give them here, or name a rules_file; one of the two")
    described.finish()
    file = None if named is None else Path(named)
    try:
        rules = read_rules(inline) if file is None else load_rules(file)
        router = Router(rules, lambda name, spec: _site(request, name, spec), request.clock, file)
    except (RulesError, OSError) as error:
        raise RouteError(f"the rules of the route {request.name!r} cannot be used: {error}") from error
    except ProviderError as error:
        raise RouteError(error.reason) from error
    if any(target == settings.source for target in router.targets()):
        raise RouteError(
            f"the route {request.name!r} has its source {settings.source} as a target, too; name another one"
        )
    return settings, router


def _site(request: RouteRequest, name: str, spec: TargetSpec) -> Site:
    """Return the site of a target; one without a URL is at that of the source. Raises `RouteError`."""
    settings: Mapping[str, object] = request.settings
    described = Described(
        replace(request, settings={key: settings[key] for key in ("user", "password") if key in settings}), ()
    )
    url = spec.url if spec.url is not None else settings.get("url")
    password = None if spec.password_file is None else _first_line(Path(spec.password_file))
    site = described.site(None if url is None else str(url), f"targets.{name}.url", spec.user, password)
    described.finish()
    return site


def _first_line(file: Path) -> str:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise RouteError(f"{file}: {error.strerror}") from error
    if not lines or not lines[0]:
        raise RouteError(f"{file} is empty; write the password in its first line")
    return lines[0]

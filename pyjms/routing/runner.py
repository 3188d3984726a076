"""Routers: compiled rules that can be replaced between two messages, and the kind ``route`` of ``pyjms.route_runners``."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock

from pyjms.forwarding.runner import RouteThread
from pyjms.forwarding.settings import Described, RouteSettings, Site, Target
from pyjms.forwarding.transfer import Transfer
from pyjms.forwarding.unit import OutgoingMessage, UndeliverableError
from pyjms.routing.compiled import CompiledRules
from pyjms.routing.reading import RulesError, load_rules, read_rules
from pyjms.routing.rules import Choice, Rule, RuleSet, TargetSpec
from pyjms.routing.transformers import TransformerError
from pyjms.spi.clock import Clock
from pyjms.spi.envelope import Envelope
from pyjms.spi.errors import ProviderError
from pyjms.spi.routes import RouteError, RouteRequest, RouteRunner, RouteStatistics, RunningRoute
from pyjms.spi.words import reason_of


def transformed(rule: Rule, envelope: Envelope) -> Envelope:
    """Return the result of a rule's transformers for a message. Raises `TransformerError`, which names the rule and the
    transformer.
    """
    for transform in rule.transforms:
        try:
            made = transform.apply(envelope)
        except Exception as error:  # whatever error a body causes, the next message is another one
            why = str(error) if isinstance(error, TransformerError) else reason_of(error)
            raise TransformerError(f"{rule.name}: the transformer {transform.use} failed: {why}") from error
        if not isinstance(made, Envelope):
            raise TransformerError(
                f"{rule.name}: the transformer {transform.use} failed: it returned {type(made).__name__}, no Envelope"
            )
        envelope = made
    return envelope


_log = logging.getLogger("pyjms.routes")

_LOOKS_EVERY_MS = 250


class Router:
    """Decides the targets of each message. `plan` is for the route's thread; the other methods are for any thread."""

    def __init__(
        self, rules: RuleSet, sites: Callable[[str, TargetSpec], Site], clock: Clock, file: Path | None = None
    ) -> None:
        """`sites` returns the site of a target, and raises `ProviderError`. `file`: the source of the rules, which is
        checked for changes.
        """
        self._sites = sites
        self._clock = clock
        self._file = file
        self._lock = Lock()
        self._seen = _stamp(file)
        self._looks_at_ms = clock.monotonic_ms() + _LOOKS_EVERY_MS
        self._in_force = self._prepare(rules)
        self._counts: Counter[str] = Counter()
        self.refused: str | None = None
        """Why the last rules were refused; None: they are in force."""

    def targets(self) -> list[Target]:
        """Return all current targets."""
        return list(self._in_force[1].values())

    def plan(self, envelope: Envelope) -> Sequence[OutgoingMessage]:
        """Return the outgoing messages of a message. Raises `UndeliverableError`."""
        if self._file is not None:
            self.reload_if_changed()
        # Both at once: a thread that reads the statistics may replace them between two reads.
        ready, targets = self._in_force
        choices = ready.decide(envelope)
        if not choices:
            raise UndeliverableError("no rule wants it")
        outgoing: list[OutgoingMessage] = []
        for choice in choices:
            rule = choice.rule
            made = _transformed(rule, envelope) if rule is not None and rule.transforms else envelope
            outgoing.append(OutgoingMessage(targets[choice.target], made, choice.target))
        # After the transformers: a message that one of them refuses counts for no rule.
        self._count(choices)
        if not ready.is_wanted(choices):
            raise UndeliverableError("no rule wants it, save for those that only listen in", outgoing=outgoing)
        return outgoing

    def _count(self, choices: Sequence[Choice]) -> None:
        counted: Rule | None = None
        for choice in choices:  # choices of one rule are adjacent
            rule = choice.rule
            if rule is None:
                self._counts["undeliverable"] += 1
            elif rule is not counted:
                self._counts[rule.name] += 1
                counted = rule

    def details(self) -> Mapping[str, int]:
        """Return the number of messages that each rule matched."""
        self.reload_if_changed()
        return dict(self._counts)

    def reload_if_changed(self) -> None:
        """Read the file again if it has changed, at most once per interval."""
        now_ms = self._clock.monotonic_ms()
        # Both the route's thread and readers of statistics call this; the second one need not wait for the first.
        if self._file is None or now_ms < self._looks_at_ms or not self._lock.acquire(blocking=False):
            return
        try:
            self._looks_at_ms = now_ms + _LOOKS_EVERY_MS
            stamp = _stamp(self._file)
            if stamp != self._seen and stamp is not None:
                # Before reading: a wrong file is reported once, and one that changes meanwhile is read again.
                self._seen = stamp
                self._reload(self._file)
        finally:
            self._lock.release()

    def _reload(self, file: Path) -> None:
        try:
            self.replace(load_rules(file))
        # A mistake in a file must not stop a running route: the former rules stay in force.
        except (RulesError, ProviderError, OSError) as error:
            self.refused = str(error)
            _log.warning("PYJMS-ROUTE the rules of %s are refused, those before stay in force: %s", file, error)

    def replace(self, rules: RuleSet) -> None:
        """Put other rules in force from the next message on. Raises `ProviderError`; then nothing changes."""
        self._in_force = self._prepare(rules)
        self.refused = None

    def _prepare(self, rules: RuleSet) -> tuple[CompiledRules, dict[str, Target]]:
        targets = {
            name: Target(site=self._sites(name, spec), address=spec.address, duplicate_property=spec.duplicate_property)
            for name, spec in rules.targets.items()
        }
        return CompiledRules(rules), targets


def _transformed(rule: Rule, envelope: Envelope) -> Envelope:
    """Return the messages that a rule makes of a message. Raises `UndeliverableError`."""
    try:
        return transformed(rule, envelope)
    except TransformerError as error:
        raise UndeliverableError(str(error)) from error


def _stamp(file: Path | None) -> tuple[int, int, int] | None:
    if file is None:
        return None
    try:
        seen = file.stat()
    except OSError:
        return None  # the file is missing, perhaps between two versions: the rules stay
    # With size and inode: a file that is replaced within the clock's resolution has the same time.
    return seen.st_mtime_ns, seen.st_size, seen.st_ino


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
        # Also detects a changed file while no messages arrive.
        details = self.router.details()
        seen = self.thread.statistics()
        refused = self.router.refused
        if refused is not None:
            return replace(seen, details=details, last_error=f"new rules were refused: {refused}")
        return replace(seen, details=details)


class RouteRulesRunner(RouteRunner):
    """Moves each message of a queue to the destinations that rules choose."""

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
    # A message would circle within one queue, up to the limit of hops.
    if any(target == settings.source for target in router.targets()):
        raise RouteError(
            f"the route {request.name!r} has its source {settings.source} as a target, too; name another one"
        )
    return settings, router


def _site(request: RouteRequest, name: str, spec: TargetSpec) -> Site:
    """Return the site of a target; one without a URL is at the source's site. Raises `RouteError`."""
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

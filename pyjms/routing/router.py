"""The plan of a router: compiled rules that are exchanged between two messages.

A file of rules that was altered is read anew when the next message comes, or somebody asks how the route is. Rules that are wrong
are refused and told; those that were in force stay so.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock

from pyjms.forwarding.settings import Site, Target
from pyjms.forwarding.unit import OutgoingMessage, UndeliverableError
from pyjms.routing.applying import transformed
from pyjms.routing.compiled import CompiledRules
from pyjms.routing.files import load_rules
from pyjms.routing.reading import RulesError
from pyjms.routing.rules import Choice, Rule, RuleSet, TargetSpec
from pyjms.routing.transformers import TransformerError
from pyjms.spi.clock import Clock
from pyjms.spi.envelope import Envelope
from pyjms.spi.errors import ProviderError

_log = logging.getLogger("pyjms.routes")

_LOOKS_EVERY_MS = 250


class Router:
    """Decides for each message. `plan` is for the route's thread; all else is for any."""

    def __init__(
        self, rules: RuleSet, sites: Callable[[str, TargetSpec], Site], clock: Clock, file: Path | None = None
    ) -> None:
        """`sites` returns the site of a target, and raises `ProviderError`. `file`: where the rules came from, to be watched."""
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
        """Return all targets at present."""
        return list(self._in_force[1].values())

    def plan(self, envelope: Envelope) -> Sequence[OutgoingMessage]:
        """Return the parcels of a message. Raises `UndeliverableError`."""
        if self._file is not None:
            self.look()
        ready, targets = self._in_force
        choices = ready.decide(envelope)
        if not choices:
            raise UndeliverableError("no rule wants it")
        parcels: list[OutgoingMessage] = []
        for choice in choices:
            rule = choice.rule
            made = _transformed(rule, envelope) if rule is not None and rule.transforms else envelope
            parcels.append(OutgoingMessage(targets[choice.target], made, choice.target))
        self._count(choices)
        if not ready.is_wanted(choices):
            raise UndeliverableError("no rule wants it, save for those that only listen in", parcels=parcels)
        return parcels

    def _count(self, choices: Sequence[Choice]) -> None:
        counted: Rule | None = None
        for choice in choices:  # those of one rule stand together
            rule = choice.rule
            if rule is None:
                self._counts["undeliverable"] += 1
            elif rule is not counted:
                self._counts[rule.name] += 1
                counted = rule

    def details(self) -> Mapping[str, int]:
        """Return how many messages each rule wanted."""
        self.look()
        return dict(self._counts)

    def look(self) -> None:
        """Read the file anew if it has changed, but not all the time."""
        now_ms = self._clock.monotonic_ms()
        if self._file is None or now_ms < self._looks_at_ms or not self._lock.acquire(blocking=False):
            return
        try:
            self._looks_at_ms = now_ms + _LOOKS_EVERY_MS
            stamp = _stamp(self._file)
            if stamp != self._seen and stamp is not None:
                self._seen = stamp
                self._reload(self._file)
        finally:
            self._lock.release()

    def _reload(self, file: Path) -> None:
        try:
            self.replace(load_rules(file))
        except (RulesError, ProviderError, OSError) as error:
            self.refused = str(error)
            _log.warning("PYJMS-ROUTE the rules of %s are refused, those before stay in force: %s", file, error)

    def replace(self, rules: RuleSet) -> None:
        """Have other rules be in force from the next message on. Raises `ProviderError`; then nothing changes."""
        self._in_force = self._prepare(rules)
        self.refused = None

    def _prepare(self, rules: RuleSet) -> tuple[CompiledRules, dict[str, Target]]:
        targets = {
            name: Target(site=self._sites(name, spec), address=spec.address, duplicate_property=spec.duplicate_property)
            for name, spec in rules.targets.items()
        }
        return CompiledRules(rules), targets


def _transformed(rule: Rule, envelope: Envelope) -> Envelope:
    """Return what a rule makes of a message. Raises `UndeliverableError`."""
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
        return None  # between two versions, or gone: the rules stay
    return seen.st_mtime_ns, seen.st_size, seen.st_ino

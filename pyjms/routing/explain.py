"""Why a message goes where it goes: each rule, each condition, and what it saw. Pure, and for people: it takes its time.

Conditions are evaluated one by one here, without what `compiled` knows of them, so that tests can compare the two.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pyjms.routing.content import finder, holds
from pyjms.routing.facts import ABSENT, Facts
from pyjms.routing.rules import Rule, RuleSet
from pyjms.spi.envelope import Envelope

_SHOWN_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionExplained:
    """One condition of a rule, and one message."""

    text: str
    holds: bool
    seen: str
    """What the message has there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleExplained:
    """One rule, and one message."""

    rule: Rule
    is_asked: bool
    """False: an earlier rule has stopped the search."""
    conditions: tuple[ConditionExplained, ...]

    @property
    def holds(self) -> bool:
        """Whether the rule wants the message."""
        return self.is_asked and all(each.holds for each in self.conditions)

    @property
    def deciding(self) -> tuple[ConditionExplained, ...]:
        """The conditions that decided: those that failed, or all when all hold."""
        return tuple(each for each in self.conditions if each.holds is self.holds)


def explain(rules: RuleSet, envelope: Envelope) -> tuple[RuleExplained, ...]:
    """Return what each rule says to a message, in their order."""
    facts = Facts(envelope, rules.sender_properties, rules.body_bytes_max)
    explained: list[RuleExplained] = []
    is_asked = True
    for rule in rules.rules:
        one = RuleExplained(rule=rule, is_asked=is_asked, conditions=tuple(_conditions(rule, facts)))
        explained.append(one)
        is_asked = is_asked and not (one.holds and rule.stop)
    return tuple(explained)


def _conditions(rule: Rule, facts: Facts) -> Iterator[ConditionExplained]:
    if rule.senders is not None:
        yield _one_of("sender", rule.senders, facts.sender)
    if rule.types is not None:
        yield _one_of("type", rule.types, facts.envelope.jms_type)
    if rule.bodies is not None:
        kinds = [facts.kind]
        kinds += ["json"] if facts.json is not ABSENT else []
        kinds += ["xml"] if facts.xml is not None else []
        text = f"body is {' or '.join(rule.bodies)}"
        yield ConditionExplained(text=text, holds=bool(set(kinds) & set(rule.bodies)), seen=", ".join(kinds))
    if rule.selector is not None:
        told = rule.selector.explain(facts.envelope)
        seen = {name: value for each in told.deciding for name, value in each.read}
        shown = ", ".join(f"{name}: {'null' if value is None else repr(value)}" for name, value in seen.items())
        yield ConditionExplained(text=f"selector {rule.selector.text}", holds=told.value is True, seen=_short(shown))
    for content in rule.content:
        values = finder(content)(facts)
        shown = ", ".join(map(repr, values)) or "nothing there"
        yield ConditionExplained(text=str(content), holds=holds(content, values), seen=_short(shown))


def _one_of(what: str, wanted: tuple[str, ...], value: str | None) -> ConditionExplained:
    fits = value is not None and any(
        re.fullmatch(".*".join(map(re.escape, each.split("*"))), value, re.DOTALL) for each in wanted
    )
    return ConditionExplained(
        text=f"{what} is {' or '.join(wanted)}", holds=fits, seen="none" if value is None else repr(value)
    )


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN_MAX else f"{text[: _SHOWN_MAX - 1]}…"

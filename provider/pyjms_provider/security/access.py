"""Who may do what: rules in order, the first that fits decides, and what no rule allows is denied.

What no rule can change: a temporary destination is read and browsed by the connection that made it and by no other (JMS 1.1
§4.4.3), and deleted by it; anybody may write to it who knows its name, as the name is what a client gives away in
JMSReplyTo, unless a rule denies it. A durable subscription that exists belongs to the user who made it, who may delete it; others
neither read it nor take it over, whatever client id they chose (JMS 1.1 §6.3). Whether a temporary destination or a new
subscription may be made at all is a question for the rules.

A decision costs a look into a dictionary for each principal; it is asked for each message. New rules bring new dictionaries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyjms.spi.envelope import ConnectionId
from pyjms.spi.errors import AccessDeniedError
from pyjms_provider.security.contracts import AccessPolicy, Operation, Principal, Target, TargetKind
from pyjms_provider.security.rules import Rule

_PRINCIPALS: Final = 4096  # of which decisions are remembered
_PAGES: Final = 512  # for so many different ones among them
_DECISIONS: Final = 512  # remembered on each
_LONGEST_NAME: Final = 256  # that is remembered
_LONGEST_SHOWN: Final = 200
_OWNERS_OWN: Final = frozenset({Operation.READ, Operation.BROWSE, Operation.ADMINISTER})
_TAKES_OVER: Final = frozenset({Operation.READ, Operation.BROWSE, Operation.WRITE, Operation.CREATE})
# Looking up a member of an enumeration costs more than a global name.
_TEMPORARY, _SUBSCRIPTION, _WRITE = TargetKind.TEMPORARY, TargetKind.SUBSCRIPTION, Operation.WRITE

_Key = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What was decided, and why."""

    is_allowed: bool
    rule: Rule | None
    """The rule that decided; None: none did."""
    reason: str
    """For people."""


class _Page:
    """What was decided for all principals that are equal, and the rules that are about them."""

    __slots__ = ("_by_kind", "_rules", "decisions")

    def __init__(self, principal: Principal, rules: Sequence[Rule]) -> None:
        self._rules = tuple(rule for rule in rules if rule.concerns(principal))
        self._by_kind: dict[tuple[Operation, TargetKind], tuple[Rule, ...]] = {}
        self.decisions: dict[_Key, bool] = {}

    def decide(self, key: _Key, operation: Operation, target: Target, *, otherwise: bool) -> bool:
        """Ask the rules, and remember the answer; `otherwise`: what it is if no rule fits."""
        name, host = target.name, target.virtual_host
        rules = self._about(operation, target.kind)
        answer = next(
            (rule.allows for rule in rules if rule.name.matches(name) and rule.virtual_host.matches(host)), otherwise
        )
        if len(name) <= _LONGEST_NAME:
            if len(self.decisions) >= _DECISIONS:
                self.decisions.clear()  # a client that asks for ever new names must not slow down the others
            self.decisions[key] = answer
        return answer

    def permitted(self, operation: Operation, kind: TargetKind, host: str, names: Sequence[str]) -> list[str]:
        """Return the names that the rules allow, without remembering them: they would push out what clients ask for."""
        rules = [rule for rule in self._about(operation, kind) if rule.virtual_host.matches(host)]
        if not rules:
            return []
        if rules[0].name.matches_all:
            return list(names) if rules[0].allows else []
        return [name for name in names if next((rule.allows for rule in rules if rule.name.matches(name)), False)]

    def _about(self, operation: Operation, kind: TargetKind) -> tuple[Rule, ...]:
        rules = self._by_kind.get((operation, kind))
        if rules is None:
            rules = tuple(r for r in self._rules if operation in r.operations and r.kind in {None, kind})
            self._by_kind[operation, kind] = rules
        return rules


class _Book:
    """One state of the rules, with all that was decided by it. Full dictionaries are left behind, and the next ones filled."""

    __slots__ = ("_pages", "known", "rules")

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)
        self._pages: dict[Principal, _Page] = {}
        self.known: dict[int, tuple[Principal, _Page]] = {}
        """By the identity of a principal, as its hash would cost more than all the rest; nobody else gets the identity of a
        principal that is held here."""

    def page(self, principal: Principal) -> _Page:
        """Return the page of `principal`, which was not found in `known`."""
        page = self._pages.get(principal)
        if page is None:
            if len(self._pages) >= _PAGES:
                self._pages = {}
                self.known = {}
            page = self._pages[principal] = _Page(principal, self.rules)
        if len(self.known) >= _PRINCIPALS:
            self.known = {}
        self.known[id(principal)] = principal, page
        return page


class RuleAccessPolicy(AccessPolicy):
    """Decides by rules, which can be replaced at any time. Safe to use from any thread."""

    def __init__(self, rules: Sequence[Rule] = ()) -> None:
        """`rules`: in the order in which they are tried; none: everything is denied."""
        self._book = _Book(rules)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules in force."""
        return self._book.rules

    @property
    def epoch(self) -> object:
        return self._book

    def replace(self, rules: Sequence[Rule]) -> None:
        """Put `rules` in force, for every question that is asked from now on."""
        self._book = _Book(rules)

    def check(
        self, principal: Principal, operation: Operation, target: Target, connection: ConnectionId | str = ""
    ) -> None:
        kind = target.kind
        is_reply = kind is _TEMPORARY and operation is _WRITE  # of any owner
        if not is_reply and (kind is _TEMPORARY or (kind is _SUBSCRIPTION and target.owner)):
            is_allowed = self._decide_owned(principal, operation, target, connection).is_allowed
        else:
            book = self._book  # as `_page`, which a call would make dearer for each message
            known = book.known.get(id(principal))
            page = known[1] if known is not None and known[0] is principal else book.page(principal)
            key = (operation._value_, kind._value_, target.name, target.virtual_host)
            answer = page.decisions.get(key)
            is_allowed = page.decide(key, operation, target, otherwise=is_reply) if answer is None else answer
        if not is_allowed:
            raise AccessDeniedError(_refusal(principal, operation, target))

    def permitted(
        self, principal: Principal, operation: Operation, kind: TargetKind, virtual_host: str, names: Sequence[str]
    ) -> list[str]:
        if kind in {TargetKind.TEMPORARY, TargetKind.SUBSCRIPTION}:
            return super().permitted(principal, operation, kind, virtual_host, names)
        return self._page(principal).permitted(operation, kind, virtual_host, names)

    def _page(self, principal: Principal) -> _Page:
        book = self._book
        known = book.known.get(id(principal))
        return known[1] if known is not None and known[0] is principal else book.page(principal)

    def explain(
        self, principal: Principal, operation: Operation, target: Target, connection: ConnectionId | str = ""
    ) -> Decision:
        """Return what `check` decides, and which rule is the reason. For operators: the client is not told."""
        if target.kind is TargetKind.TEMPORARY or (target.kind is TargetKind.SUBSCRIPTION and target.owner):
            return self._decide_owned(principal, operation, target, connection)
        return self._by_rules(principal, operation, target)

    def _by_rules(self, principal: Principal, operation: Operation, target: Target) -> Decision:
        for number, rule in enumerate(self._book.rules, 1):
            if rule.concerns(principal) and rule.fits(operation, target.kind, target.name, target.virtual_host):
                place = rule.place or f"rule {number}"
                return Decision(is_allowed=rule.allows, rule=rule, reason=f"{place}: {rule}")
        return Decision(is_allowed=False, rule=None, reason="no rule allows it, and what no rule allows is denied")

    def _decide_owned(
        self, principal: Principal, operation: Operation, target: Target, connection: ConnectionId | str
    ) -> Decision:
        if target.kind is TargetKind.SUBSCRIPTION:
            if target.owner == principal.name and operation is Operation.ADMINISTER:
                return _fixed(True, "the user made this durable subscription")
            if target.owner != principal.name and operation in _TAKES_OVER:
                return _fixed(False, f"the durable subscription belongs to the user {target.owner!a}")
            return self._by_rules(principal, operation, target)
        is_owner = bool(target.owner) and target.owner == connection
        if operation in _OWNERS_OWN:
            if is_owner:
                return _fixed(True, "the connection made this temporary destination")
            if operation is not Operation.ADMINISTER:
                return _fixed(False, "only the connection that made a temporary destination reads it")
        decision = self._by_rules(principal, operation, target)
        if operation is Operation.WRITE and decision.rule is None:
            return _fixed(True, "anybody may answer to a temporary destination, and no rule denies it")
        return decision


def _fixed(is_allowed: bool, reason: str) -> Decision:
    return Decision(is_allowed=is_allowed, rule=None, reason=reason)


def _refusal(principal: Principal, operation: Operation, target: Target) -> str:
    name = f" {target.name[:_LONGEST_SHOWN]!a}" if target.name else ""
    host = f" of the virtual host {target.virtual_host[:_LONGEST_SHOWN]!a}" if target.virtual_host else ""
    what = target.kind.value.replace("_", " ")
    return (
        f"{principal.name[:_LONGEST_SHOWN]!a} has no permission to {operation.value} the {what}{name}{host}: "
        "ask an operator of the broker for it"
    )

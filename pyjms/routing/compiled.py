"""Compiled rules: a message is checked only against rules that may match, not against each in turn. Pure.

Conditions on one of several values (JMSType, the sender, the kind of body, ``property = 'text'`` and ``IN`` at the top
of a selector, ``equals`` at a path) become tables: from the value to the rules that allow it, as bits of a number. One
lookup in each table leaves the candidate rules. Their other conditions are evaluated once for a message, however many
rules share them, and a selector is split at its ANDs, so that its parts are shared, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import translate
from operator import attrgetter
from re import compile as compile_expression
from typing import Any, TypeAlias

from pyjms.routing.content import finder, holds, key_of
from pyjms.routing.facts import ABSENT, Facts
from pyjms.routing.rules import Choice, Content, Rule, RuleSet
from pyjms.spi.envelope import Envelope
from pyjms.spi.selector import Selector
from pyjms.spi.selector.compile import compile_condition
from pyjms.spi.selector.headers import ATTRIBUTES, FUNCTIONS, read
from pyjms.spi.selector.nodes import And, Boolean, Comparison, Identifier, In, Node, String

_Test: TypeAlias = Callable[[Facts], bool]
_Key: TypeAlias = Callable[[Facts], Any]
"""Returns the one value that a message has, or None."""
_Keys: TypeAlias = Callable[[Facts], Iterable[Hashable]]
"""Returns all values that a message has."""
_Getter: TypeAlias = tuple[_Key | None, _Keys | None]
"""One of the two: most tables have the first, which is quicker."""


@dataclass(slots=True)
class _Table:
    """An index of all rules by one value of messages; each rule is a bit."""

    getter: _Getter
    allowed: dict[Hashable, int] = field(default_factory=dict)
    constrained: int = 0
    """The rules that have a condition on it."""

    def add(self, bit: int, values: Iterable[Hashable]) -> None:
        self.constrained |= bit
        for value in values:
            self.allowed[value] = self.allowed.get(value, 0) | bit


class CompiledRules:
    """Decides the targets of messages. Immutable: safe for any thread."""

    def __init__(self, rules: RuleSet) -> None:
        self.rules = rules
        self._tables: dict[Hashable, _Table] = {}
        self._tests: dict[Hashable, tuple[int, _Test]] = {}
        self._tests_of: list[tuple[int, ...]] = []
        for number, rule in enumerate(rules.rules):
            self._add(1 << number, rule)
        # Cheap tables first: costly ones need not check the rules that these exclude. The first digit of each key is
        # its cost: a header first, a path into a body last.
        ordered = [self._tables[key] for key in sorted(self._tables, key=lambda key: str(key)[:2])]
        self._ordered = [(*table.getter, table.allowed, table.constrained) for table in ordered]
        self._choices = [
            (rule, tuple(Choice(target, rule) for target in dict.fromkeys(rule.targets))) for rule in rules.rules
        ]
        # Computed beforehand: most sets of rules have no taps, and then is_wanted need not check each choice.
        self._has_taps = any(rule.tap for rule in rules.rules)
        self._test_list = [test for _, test in self._tests.values()]
        self._all = (1 << len(rules.rules)) - 1
        self._nobody = () if rules.undeliverable is None else (Choice(rules.undeliverable, None),)

    def decide(self, envelope: Envelope) -> tuple[Choice, ...]:
        """Return the targets of a message, each once, with the matching rule; empty if it is undeliverable."""
        rules = self.rules
        facts = Facts(envelope, rules.sender_properties, rules.body_bytes_max)
        candidates = self._candidates(facts)
        known: dict[int, bool] = {}
        found: tuple[Choice, ...] = ()
        is_wanted = False
        while candidates:
            # The lowest bit is the first rule in the file, as rules apply in their order.
            bit = candidates & -candidates
            candidates ^= bit
            number = bit.bit_length() - 1
            tests = self._tests_of[number]
            if tests and not self._holds(tests, facts, known):
                continue
            rule, choices = self._choices[number]
            # Most messages match one rule, whose tuple was made when the rules were compiled.
            found = _joined(found, choices) if found else choices
            is_wanted = is_wanted or not rule.tap
            if rule.stop:
                break
        # Taps get their copies even of a message that no other rule matches.
        return found if is_wanted else _joined(found, self._nobody)

    def is_wanted(self, choices: Iterable[Choice]) -> bool:
        """Say whether a rule other than a tap matched."""
        return any(not self._has_taps or choice.rule is None or not choice.rule.tap for choice in choices)

    def _candidates(self, facts: Facts) -> int:
        candidates = self._all
        for key_of_one, keys_of_all, found, constrained in self._ordered:
            # If no remaining candidate has a condition on this value, it is not read: a body is parsed only for rules
            # that may still match.
            concerned = candidates & constrained
            if not concerned:
                continue
            if key_of_one is not None:
                # Rules with a condition that the value does not meet are removed; all others stay.
                candidates ^= concerned & ~found.get(key_of_one(facts), 0)
                continue
            allowed = 0
            for key in keys_of_all(facts) if keys_of_all is not None else ():
                if key in found:
                    allowed |= found[key]
            candidates ^= concerned & ~allowed
        return candidates

    def _holds(self, tests: tuple[int, ...], facts: Facts, known: dict[int, bool]) -> bool:
        for test in tests:
            # One test may belong to many rules, and is evaluated once for a message.
            value = known.get(test)
            if value is None:
                value = known[test] = self._test_list[test](facts)
            if not value:
                return False
        return True

    # Compiling

    def _add(self, bit: int, rule: Rule) -> None:
        tests: list[int] = []
        asked: dict[Hashable, tuple[_Getter, frozenset[Hashable]]] = {}
        _one_of(rule.types, "1 type", _type, asked, self._test_into(tests))
        _one_of(rule.senders, "2 sender", attrgetter("sender"), asked, self._test_into(tests))
        if rule.bodies is not None:
            asked["4 body"] = (
                ((None, _kinds) if {"json", "xml"} & set(rule.bodies) else _KIND),
                frozenset(rule.bodies),
            )
        if rule.selector is not None:
            self._take_apart(rule.selector, asked, self._test_into(tests))
        for content in rule.content:
            self._add_content(content, asked, self._test_into(tests))
        for key, (getter, values) in asked.items():
            table = self._tables.setdefault(key, _Table(getter))
            # A rule for json or xml needs the getter that parses the body; it serves the others, too.
            if key == "4 body" and getter is not _KIND:
                table.getter = getter
            table.add(bit, values)
        # A dictionary removes duplicates and keeps the order.
        self._tests_of.append(tuple(dict.fromkeys(tests)))

    def _test_into(self, tests: list[int]) -> Callable[[Hashable, _Test], None]:
        def add(key: Hashable, test: _Test) -> None:
            number, _ = self._tests.setdefault(key, (len(self._tests), test))
            tests.append(number)

        return add

    def _take_apart(
        self,
        selector: Selector,
        asked: dict[Hashable, tuple[_Getter, frozenset[Hashable]]],
        add: Callable[[Hashable, _Test], None],
    ) -> None:
        root = selector.root
        # Allowed by three-valued logic: an AND is true only when all its terms are, so that each may be tested
        # separately (decision 0903).
        for term in root.terms if isinstance(root, And) else (root,):
            equality = _equality(term)
            if equality is None:
                if term != Boolean(value=True, start=0, end=0):  # the empty selector
                    add(("selector", selector.text[term.start : term.end]), _condition(term))
                continue
            name, values = equality
            key = f"3 property {name}"
            if key in asked:
                # Two equalities on one name: both must hold, so only common values remain, perhaps none.
                values &= asked[key][1]
            asked[key] = ((_value_of(name), None), values)

    def _add_content(
        self,
        content: Content,
        asked: dict[Hashable, tuple[_Getter, frozenset[Hashable]]],
        add: Callable[[Hashable, _Test], None],
    ) -> None:
        find = finder(content)
        key = f"5 {content.language.value} {content.as_number} {content.path}"
        # One table has one set of values for each rule; a second condition on the same path becomes a test.
        if content.equals is None or key in asked:
            add(("content", str(content), content.as_number), lambda facts: holds(content, find(facts)))
            return
        asked[key] = ((None, _keys_at(find)), frozenset(key_of(each) for each in content.equals))


def _joined(found: tuple[Choice, ...], more: tuple[Choice, ...]) -> tuple[Choice, ...]:
    """Return all choices, each target once."""
    targets = {each.target for each in found}
    return (*found, *(each for each in more if each.target not in targets))


def _one_of(
    wanted: tuple[str, ...] | None,
    name: str,
    value_of: Callable[[Facts], str | None],
    asked: dict[Hashable, tuple[_Getter, frozenset[Hashable]]],
    add: Callable[[Hashable, _Test], None],
) -> None:
    """Add the condition that a value is one of `wanted`, which may have wildcards."""
    if wanted is None:
        return
    # Exact values go into a table; wildcards are tested, as they have no value to look up.
    if not any("*" in each for each in wanted):
        asked[name] = ((value_of, None), frozenset(wanted))
        return
    # fnmatch knows more wildcards than rules do.
    expressions = [
        translate("*".join(part.replace("[", "[[]").replace("?", "[?]") for part in each.split("*"))) for each in wanted
    ]
    matches = compile_expression("|".join(expressions)).match

    def test(facts: Facts) -> bool:
        value = value_of(facts)
        return value is not None and matches(value) is not None

    add((name, wanted), test)


def _equality(term: Node) -> tuple[str, frozenset[Hashable]] | None:
    """Return the name and the texts of ``name = 'text'`` and ``name IN ('text', …)``; None for other terms."""
    match term:
        case Comparison(operator="=", left=Identifier(name=name), right=String(value=value)):
            return name, frozenset((value,))
        case Comparison(operator="=", left=String(value=value), right=Identifier(name=name)):
            return name, frozenset((value,))
        case In(negated=False, operand=Identifier(name=name), items=items):
            texts = [item.value for item in items if isinstance(item, String)]
            return (name, frozenset(texts)) if len(texts) == len(items) else None
        case _:
            return None


def _condition(term: Node) -> _Test:
    matches, _ = compile_condition(term)
    return lambda facts: matches(facts.envelope)


def _type(facts: Facts) -> str | None:
    return facts.envelope.jms_type


def _value_of(name: str) -> _Key:
    """Return the getter of a header field or a property. A value that is no text is not in the table: it equals none."""
    if name in ATTRIBUTES or name in FUNCTIONS:
        return lambda facts: read(facts.envelope, name)
    return lambda facts: facts.envelope.properties.get(name)


def _keys_at(find: Callable[[Facts], tuple[Any, ...]]) -> _Keys:
    return lambda facts: [key_of(value) for value in find(facts) if value is not None]


_KIND: _Getter = (attrgetter("kind"), None)


def _kinds(facts: Facts) -> Iterable[Hashable]:
    yield facts.kind
    if facts.json is not ABSENT:
        yield "json"
    if facts.xml is not None:
        yield "xml"


_SHOWN_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionExplained:
    """One condition of a rule, evaluated for one message."""

    text: str
    holds: bool
    seen: str
    """The message's value for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleExplained:
    """One rule, evaluated for one message."""

    rule: Rule
    is_asked: bool
    """False if an earlier rule has stopped the search."""
    conditions: tuple[ConditionExplained, ...]

    @property
    def holds(self) -> bool:
        """Whether the rule matches the message."""
        return self.is_asked and all(each.holds for each in self.conditions)

    @property
    def deciding(self) -> tuple[ConditionExplained, ...]:
        """The deciding conditions: those that failed, or all if all hold."""
        return tuple(each for each in self.conditions if each.holds is self.holds)


def explain(rules: RuleSet, envelope: Envelope) -> tuple[RuleExplained, ...]:
    """Return the evaluation of each rule for a message, in their order."""
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
        yield _condition_one_of("sender", rule.senders, facts.sender)
    if rule.types is not None:
        yield _condition_one_of("type", rule.types, facts.envelope.jms_type)
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


def _condition_one_of(what: str, wanted: tuple[str, ...], value: str | None) -> ConditionExplained:
    fits = value is not None and any(
        re.fullmatch(".*".join(map(re.escape, each.split("*"))), value, re.DOTALL) for each in wanted
    )
    return ConditionExplained(
        text=f"{what} is {' or '.join(wanted)}", holds=fits, seen="none" if value is None else repr(value)
    )


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN_MAX else f"{text[: _SHOWN_MAX - 1]}…"

r"""Access rules, and the policy that applies them. Rules can be objects, text, or a list of dictionaries, with the same meaning.

As text, each line is one rule, and the first matching rule decides::

    # effect  who                     operations     what                     in which virtual host
    deny      user:mallory            all            *
    allow     group:administrators    all            *
    allow     group:staff             write,browse   queue:orders.*           shop
    allow     *                       connect        virtual_host             shop
    allow     user:bob                read           "queue:to be sent"

Words are separated by blanks; a word with blanks or # is in double quotes, in which \" and \\ are escapes. The virtual host is a
pattern, too; a rule without it applies in all virtual hosts, and to objects outside of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyjms.spi.envelope import ConnectionId
from pyjms.spi.errors import AccessDeniedError, ProviderError
from pyjms_provider.security.contracts import AccessPolicy, Operation, Principal, Target, TargetKind


class PatternError(ValueError):
    """A pattern has a backslash that is followed by neither a star nor another backslash."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A compiled pattern for names. Patterns are equal if their texts are."""

    text: str
    _pieces: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Compile the text. Raises `PatternError`."""
        object.__setattr__(self, "_pieces", _split(self.text))

    @property
    def matches_all(self) -> bool:
        """Whether every name matches."""
        return not any(self._pieces) and len(self._pieces) > 1

    def matches(self, name: str) -> bool:
        """Return whether the whole `name` matches the pattern."""
        first, *middle = self._pieces
        if not middle:
            return name == first
        last = middle.pop()
        end = len(name) - len(last)
        # Without the comparison of lengths "ab*ba" would match "aba": beginning and end would share a character.
        if end < len(first) or not name.startswith(first) or not name.endswith(last):
            return False
        at = len(first)
        for piece in middle:
            # The leftmost match is always right: it leaves the most for the following pieces.
            found = name.find(piece, at, end)
            if found < 0:
                return False
            at = found + len(piece)
        return True

    def __str__(self) -> str:
        """Return the text of the pattern."""
        return self.text

    @staticmethod
    def escape(name: str) -> str:
        """Return the text of a pattern that matches only `name`."""
        return name.replace("\\", "\\\\").replace("*", "\\*")


def _split(text: str) -> tuple[str, ...]:
    pieces = [""]
    characters = iter(text)
    for character in characters:
        if character == "*":
            pieces.append("")
        elif character != "\\":
            pieces[-1] += character
        elif (escaped := next(characters, "")) in {"*", "\\"} and escaped:
            pieces[-1] += escaped
        else:
            raise PatternError(f"in the pattern {text!a} a backslash stands before neither * nor another backslash")
    return tuple(pieces)


_WORD: Final = re.compile(r'\s*(?:(#.*)|"((?:[^"\\]|\\.)*)"(?=\s|$)|([^\s"#][^\s"]*)(?=\s|$))')
_ESCAPED: Final = re.compile(r"\\(.)")
_PLAIN: Final = re.compile(r'[^\s"#\\][^\s"\\]*')
_KEYS: Final = ("effect", "who", "operations", "kind", "name", "virtual_host")
_LONGEST_TEXT: Final = 4 * 1024 * 1024
_ALL_OPERATIONS: Final = frozenset(Operation)
_ANYTHING: Final = Pattern("*")


class RuleError(ProviderError):
    """A rule is malformed; the text names its line, or its position in the list."""

    code = "PYJMS-RULE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule that allows or denies operations on targets."""

    allows: bool
    user: str | None = None
    """The name of the user; None: the rule is not about a single user."""
    group: str | None = None
    """The name of the group; None: any. With neither user nor group: all users, including anonymous ones."""
    operations: frozenset[Operation] = _ALL_OPERATIONS
    kind: TargetKind | None = None
    """The kind of target; None: any."""
    name: Pattern = _ANYTHING
    virtual_host: Pattern = _ANYTHING
    place: str = field(default="", compare=False)
    """The source of the rule, for messages: ``access.rules, line 7``."""

    def concerns(self, principal: Principal) -> bool:
        """Return whether the rule applies to this principal."""
        if self.user is not None:
            return principal.name == self.user
        return self.group is None or self.group in principal.groups

    def fits(self, operation: Operation, kind: TargetKind, name: str, virtual_host: str) -> bool:
        """Return whether the rule applies to this operation and target."""
        return (
            operation in self.operations
            and (self.kind is None or self.kind is kind)
            and self.name.matches(name)
            and self.virtual_host.matches(virtual_host)
        )

    def __str__(self) -> str:
        """Return the rule as a line of text."""
        words = [
            "allow" if self.allows else "deny",
            _render_who(self),
            _render_operations(self.operations),
            _render_target(self),
        ]
        if self.virtual_host != _ANYTHING:
            words.append(self.virtual_host.text)
        return " ".join(map(_quoted, words))


def parse_rules(text: str, source: str = "rules") -> tuple[Rule, ...]:
    """Parse the rules in `text`; `source` names it in errors. Raises `RuleError`, which points at the wrong word."""
    if len(text) > _LONGEST_TEXT:
        raise RuleError(f"{source}: has more than {_LONGEST_TEXT} characters; is it the right file?")
    rules = []
    for number, line in enumerate(text.split("\n"), 1):
        words = _words(line, f"{source}, line {number}")
        if words:
            rules.append(_from_words(words, line, f"{source}, line {number}"))
    return tuple(rules)


def rules_from_data(data: Sequence[Mapping[str, object]], source: str = "rules") -> tuple[Rule, ...]:
    """Parse a list of dictionaries, as `rules_to_data` returns it. Raises `RuleError`.

    The keys `effect` and `who` are required. Without `operations`, a list, the rule applies to all operations; without `kind`, `name`
    or `virtual_host` to any.
    """
    return tuple(_from_data(entry, f"{source}, rule {number}") for number, entry in enumerate(data, 1))


def rules_to_data(rules: Iterable[Rule]) -> list[dict[str, object]]:
    """Return each rule as a dictionary of strings, and a list of strings for the operations."""
    return [
        {
            "effect": "allow" if rule.allows else "deny",
            "who": _render_who(rule),
            "operations": _render_operations(rule.operations).split(","),
            "kind": "*" if rule.kind is None else rule.kind.value,
            "name": rule.name.text,
            "virtual_host": rule.virtual_host.text,
        }
        for rule in rules
    ]


def _words(line: str, place: str) -> list[tuple[str, int]]:
    """Return the words of a line with their columns, without quotes and comments."""
    words: list[tuple[str, int]] = []
    at = 0
    end = len(line.rstrip())
    while at < end:
        match = _WORD.match(line, at)
        if match is None:
            raise _pointing(f"{place}: a quote that does not fit: words with blanks stand in double quotes", line, at)
        comment, quoted, plain = match.groups()
        if comment is not None:
            break
        group = 2 if plain is None else 3
        words.append((_ESCAPED.sub(r"\1", quoted) if plain is None else plain, match.start(group)))
        at = match.end()
    return words


def _from_words(words: list[tuple[str, int]], line: str, place: str) -> Rule:
    if len(words) not in {4, 5}:
        raise _pointing(f"{place}: a rule is: allow|deny WHO OPERATIONS KIND:NAME [VIRTUAL_HOST]", line, words[-1][1])
    at = 0
    try:
        # `at` is the index of the word being parsed, at which an error points.
        allows = _parse_effect(words[0][0])
        at = 1
        user, group = _parse_who(words[1][0])
        at = 2
        operations = _parse_operations(words[2][0].split(","))
        at = 3
        kind, colon, name = words[3][0].partition(":")
        target, pattern = _parse_kind(kind), Pattern(name if colon else "*")
        at = 4
        host = Pattern(words[4][0] if len(words) == 5 else "*")
    except ValueError as error:
        raise _pointing(f"{place}: {error}", line, words[at][1]) from error
    return Rule(
        allows=allows,
        user=user,
        group=group,
        operations=operations,
        kind=target,
        name=pattern,
        virtual_host=host,
        place=place,
    )


def _pointing(problem: str, line: str, at: int) -> RuleError:
    # Each unprintable character is replaced by one blank: the caret stays in its column, and no control character reaches the terminal.
    flat = "".join(character if character.isprintable() else " " for character in line)
    start = max(0, at - 60)
    return RuleError(f"{problem}\n  {flat[start : at + 60]}\n  {' ' * (at - start)}^")


def _quoted(word: str) -> str:
    if _PLAIN.fullmatch(word):
        return word
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _render_who(rule: Rule) -> str:
    if rule.user is not None:
        return f"user:{rule.user}"
    return "*" if rule.group is None else f"group:{rule.group}"


def _render_operations(operations: frozenset[Operation]) -> str:
    if operations == _ALL_OPERATIONS:
        return "all"
    return ",".join(operation.value for operation in Operation if operation in operations)


def _render_target(rule: Rule) -> str:
    kind = "*" if rule.kind is None else rule.kind.value
    return kind if rule.name == _ANYTHING else f"{kind}:{rule.name}"


def _from_data(entry: Mapping[str, object], place: str) -> Rule:
    unknown = sorted(map(str, set(entry) - set(_KEYS)))
    if unknown:
        raise RuleError(f"{place}: there is no {unknown[0]!a}; known are {', '.join(_KEYS)}")
    try:
        user, group = _parse_who(_text(entry, "who", ""))
        return Rule(
            allows=_parse_effect(_text(entry, "effect", "")),
            user=user,
            group=group,
            operations=_parse_operations(_texts(entry, "operations")),
            kind=_parse_kind(_text(entry, "kind", "*")),
            name=Pattern(_text(entry, "name", "*")),
            virtual_host=Pattern(_text(entry, "virtual_host", "*")),
            place=place,
        )
    except ValueError as error:
        raise RuleError(f"{place}: {error}") from error


def _text(entry: Mapping[str, object], key: str, default: str) -> str:
    value = entry.get(key, default)
    if not isinstance(value, str) or "\n" in value:
        raise ValueError(f"{key} is to be a text of one line")
    return value


def _texts(entry: Mapping[str, object], key: str) -> list[str]:
    value = entry.get(key, ["all"])
    if not isinstance(value, list | tuple | set | frozenset) or not all(isinstance(item, str) for item in value):
        raise ValueError(f"{key} is to be a list of texts")
    return [str(item) for item in value]


def _parse_effect(word: str) -> bool:
    if word not in {"allow", "deny"}:
        raise ValueError(f"{word!a} is no effect: allow or deny is expected")
    return word == "allow"


def _parse_who(word: str) -> tuple[str | None, str | None]:
    if word == "*":
        return None, None
    kind, _, name = word.partition(":")
    if kind not in {"user", "group"} or not name:
        raise ValueError(f"{word!a} is nobody: user:NAME, group:NAME or * for everybody is expected")
    if name == "*":
        raise ValueError(f"{word!a} would be a user called *: write * for everybody")
    return (name, None) if kind == "user" else (None, name)


def _parse_operations(words: Iterable[str]) -> frozenset[Operation]:
    found: set[Operation] = set()
    for word in words:
        if word == "all":
            found.update(Operation)
            continue
        try:
            found.add(Operation(word))
        except ValueError:
            known = ", ".join(operation.value for operation in Operation)
            raise ValueError(f"{word!a} is no operation; there are {known}, and all") from None
    if not found:
        raise ValueError("a rule without operations has no effect; name one, or all")
    return frozenset(found)


def _parse_kind(word: str) -> TargetKind | None:
    if word == "*":
        return None
    try:
        return TargetKind(word)
    except ValueError:
        known = ", ".join(kind.value for kind in TargetKind)
        raise ValueError(f"{word!a} is no kind of target; there are {known}, and * for all") from None


EVERYTHING: Final = parse_rules("allow * all *", "built-in rules for everything")
"""All users may do everything: for an embedded broker, and for trials on loopback."""

USERS: Final = parse_rules(
    """
    allow group:administrators all *
    deny * all managed
    allow * connect,write,read,browse,create *
    """,
    "built-in rules for users",
)
"""All authenticated users may send and receive, and the group `administrators` may change the broker."""


_PRINCIPALS: Final = 4096  # the number of principal objects with cached decisions
_DIFFERENT_PRINCIPALS: Final = 512  # the number of different (unequal) principals among them
_DECISIONS: Final = 512  # the number of cached decisions for each of these
_LONGEST_NAME: Final = 256  # the longest name in a cached decision
_LONGEST_SHOWN: Final = 200
# JMS 1.1 §4.4.3: only the connection that created a temporary destination may consume from it. No rule can change that.
_OWNERS_OWN: Final = frozenset({Operation.READ, Operation.BROWSE, Operation.ADMINISTER})
# Any user may choose any client identifier, so a durable subscription belongs to the user who created it (decision 0163).
_TAKES_OVER: Final = frozenset({Operation.READ, Operation.BROWSE, Operation.WRITE, Operation.CREATE})
# Looking up a member of an enumeration is slower than a global name.
_TEMPORARY, _SUBSCRIPTION, _WRITE = TargetKind.TEMPORARY, TargetKind.SUBSCRIPTION, Operation.WRITE

_Key = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A decision and its reason."""

    is_allowed: bool
    rule: Rule | None
    """The rule that decided; None: no rule did."""
    reason: str
    """The reason, for operators."""


class _PrincipalRules:
    """The rules that apply to equal principals, and the cached decisions for them."""

    __slots__ = ("_by_kind", "_rules", "decisions")

    def __init__(self, principal: Principal, rules: Sequence[Rule]) -> None:
        self._rules = tuple(rule for rule in rules if rule.concerns(principal))
        self._by_kind: dict[tuple[Operation, TargetKind], tuple[Rule, ...]] = {}
        self.decisions: dict[_Key, bool] = {}

    def decide(self, key: _Key, operation: Operation, target: Target, *, otherwise: bool) -> bool:
        """Decide by the rules, and cache the decision; `otherwise`: the decision if no rule applies."""
        name, host = target.name, target.virtual_host
        rules = self._about(operation, target.kind)
        answer = next(
            (rule.allows for rule in rules if rule.name.matches(name) and rule.virtual_host.matches(host)), otherwise
        )
        if len(name) <= _LONGEST_NAME:
            if len(self.decisions) >= _DECISIONS:
                self.decisions.clear()  # a client that uses ever new names must not slow down the others
            self.decisions[key] = answer
        return answer

    def permitted(self, operation: Operation, kind: TargetKind, host: str, names: Sequence[str]) -> list[str]:
        """Return the names that the rules allow, without caching: these decisions would displace those for clients."""
        rules = [rule for rule in self._about(operation, kind) if rule.virtual_host.matches(host)]
        if not rules:
            return []
        # The first match decides, so if the first rule matches all names, they need not be matched.
        if rules[0].name.matches_all:
            return list(names) if rules[0].allows else []
        return [name for name in names if next((rule.allows for rule in rules if rule.name.matches(name)), False)]

    def _about(self, operation: Operation, kind: TargetKind) -> tuple[Rule, ...]:
        rules = self._by_kind.get((operation, kind))
        if rules is None:
            rules = tuple(r for r in self._rules if operation in r.operations and r.kind in {None, kind})
            self._by_kind[operation, kind] = rules
        return rules


class _RuleSet:
    """One version of the rules, with its cached decisions. Full dictionaries are replaced by empty ones."""

    __slots__ = ("_by_principal", "known", "rules")

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)
        self._by_principal: dict[Principal, _PrincipalRules] = {}
        self.known: dict[int, tuple[Principal, _PrincipalRules]] = {}
        """By the identity of a principal, as hashing it would cost more than everything else. The principal is referenced
        here, so no other object can get its identity."""

    def rules_of(self, principal: Principal) -> _PrincipalRules:
        """Return the rules of `principal`, which is not in `known`."""
        # No lock: two threads may create an object each for one principal, but both decide by the same rules.
        applicable = self._by_principal.get(principal)
        if applicable is None:
            if len(self._by_principal) >= _DIFFERENT_PRINCIPALS:
                # Both are replaced, as the entries of `known` would keep the rules of principals in memory.
                self._by_principal = {}
                self.known = {}
            applicable = self._by_principal[principal] = _PrincipalRules(principal, self.rules)
        if len(self.known) >= _PRINCIPALS:
            self.known = {}
        self.known[id(principal)] = principal, applicable
        return applicable


class Everything(AccessPolicy):
    """Allows everything: for clients in this process, which could do it by plain calls, and for members of a cluster."""

    def check(
        self, principal: Principal, operation: Operation, target: Target, connection: ConnectionId | str = ""
    ) -> None:
        """Allow it."""

    @property
    def epoch(self) -> object:
        """Its results never change."""
        return Everything


class RuleAccessPolicy(AccessPolicy):
    """An access policy that decides by rules, which can be replaced at any time. Safe to use from any thread."""

    def __init__(self, rules: Sequence[Rule] = ()) -> None:
        """`rules`: in the order of their evaluation; without any, everything is denied."""
        self._rule_set = _RuleSet(rules)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules in force."""
        return self._rule_set.rules

    @property
    def epoch(self) -> object:
        return self._rule_set

    def replace(self, rules: Sequence[Rule]) -> None:
        """Replace the rules, for all decisions from now on."""
        self._rule_set = _RuleSet(rules)

    def check(
        self, principal: Principal, operation: Operation, target: Target, connection: ConnectionId | str = ""
    ) -> None:
        kind = target.kind
        # A write to a temporary destination does not depend on its owner, so its
        # decision can be cached.
        is_reply = kind is _TEMPORARY and operation is _WRITE
        if not is_reply and (kind is _TEMPORARY or (kind is _SUBSCRIPTION and target.owner)):
            # The keys of cached decisions do not contain the owner, so these are decided each time.
            is_allowed = self._decide_owned(principal, operation, target, connection).is_allowed
        else:
            rule_set = self._rule_set  # `_rules_of` inline, to save a call for each message
            known = rule_set.known.get(id(principal))
            applicable = known[1] if known is not None and known[0] is principal else rule_set.rules_of(principal)
            key = (operation._value_, kind._value_, target.name, target.virtual_host)
            answer = applicable.decisions.get(key)
            is_allowed = applicable.decide(key, operation, target, otherwise=is_reply) if answer is None else answer
        if not is_allowed:
            raise AccessDeniedError(_refusal(principal, operation, target))

    def permitted(
        self, principal: Principal, operation: Operation, kind: TargetKind, virtual_host: str, names: Sequence[str]
    ) -> list[str]:
        if kind in {TargetKind.TEMPORARY, TargetKind.SUBSCRIPTION}:
            return super().permitted(principal, operation, kind, virtual_host, names)
        return self._rules_of(principal).permitted(operation, kind, virtual_host, names)

    def _rules_of(self, principal: Principal) -> _PrincipalRules:
        rule_set = self._rule_set
        known = rule_set.known.get(id(principal))
        return known[1] if known is not None and known[0] is principal else rule_set.rules_of(principal)

    def explain(
        self, principal: Principal, operation: Operation, target: Target, connection: ConnectionId | str = ""
    ) -> Decision:
        """Return the decision of `check`, with the rule that is the reason. For operators only, not for clients."""
        if target.kind is TargetKind.TEMPORARY or (target.kind is TargetKind.SUBSCRIPTION and target.owner):
            return self._decide_owned(principal, operation, target, connection)
        return self._by_rules(principal, operation, target)

    def _by_rules(self, principal: Principal, operation: Operation, target: Target) -> Decision:
        # The rules are evaluated again: a cached decision does not contain its rule.
        for number, rule in enumerate(self._rule_set.rules, 1):
            if rule.concerns(principal) and rule.fits(operation, target.kind, target.name, target.virtual_host):
                place = rule.place or f"rule {number}"
                return Decision(is_allowed=rule.allows, rule=rule, reason=f"{place}: {rule}")
        return Decision(is_allowed=False, rule=None, reason="no rule allows it, and what no rule allows is denied")

    def _decide_owned(
        self, principal: Principal, operation: Operation, target: Target, connection: ConnectionId | str
    ) -> Decision:
        fixed = owned_decision(principal, operation, target, connection)
        if fixed is not None:
            return fixed
        if target.kind is TargetKind.SUBSCRIPTION:
            return self._by_rules(principal, operation, target)
        decision = self._by_rules(principal, operation, target)
        if operation is Operation.WRITE and decision.rule is None:
            return _fixed(True, "anybody may answer to a temporary destination, and no rule denies it")
        return decision


def owned_decision(
    principal: Principal, operation: Operation, target: Target, connection: ConnectionId | str
) -> Decision | None:
    """Return the decision that the owner of the target makes, which no policy can change; None: the policy decides."""
    if target.kind is TargetKind.SUBSCRIPTION and target.owner:
        # `unsubscribe` is a client's call (§6.11.1): the user who created the
        # subscription needs no permission for it.
        if target.owner == principal.name and operation is Operation.ADMINISTER:
            return _fixed(True, "the user made this durable subscription")
        if target.owner != principal.name and operation in _TAKES_OVER:
            return _fixed(False, f"the durable subscription belongs to the user {target.owner!a}")
    if target.kind is TargetKind.TEMPORARY and operation in _OWNERS_OWN:
        # `connection` is empty if it is unknown, and must not match an empty owner.
        if target.owner and target.owner == connection:
            return _fixed(True, "the connection made this temporary destination")
        if operation is not Operation.ADMINISTER:
            return _fixed(False, "only the connection that made a temporary destination reads it")
    return None


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

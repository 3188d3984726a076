"""What may be done: rules against a naive model of them, what no rule can change, and how fast it is decided."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyjms.spi.envelope import Address, AddressKind, ConnectionId
from pyjms.spi.errors import AccessDeniedError
from pyjms_provider.protocols.hosts import Guard, ServedHost
from pyjms_provider.security import access
from pyjms_provider.security.access import (
    EVERYTHING,
    USERS,
    Pattern,
    PatternError,
    Rule,
    RuleAccessPolicy,
    RuleError,
    parse_rules,
    rules_from_data,
    rules_to_data,
)
from pyjms_provider.security.contracts import Operation, Principal, Target, TargetKind
from tests.provider.cost import kept

ALICE = Principal(name="alice", groups=frozenset({"staff"}), provider="users")
BOB = Principal(name="bob")
SIGNS = 'ab*.\\ #":'
names = st.text(st.sampled_from("ab.*\\"), max_size=8)
texts = st.text(st.sampled_from(SIGNS), max_size=8)
patterns = st.lists(st.sampled_from(["a", "b", ".", "*", "\\*", "\\\\"]), max_size=8).map("".join).map(Pattern)
who = st.sampled_from(["alice", "bob", "staff", "x y", "#"])
rules = st.builds(
    lambda somebody, **parts: Rule(**{somebody[0]: somebody[1]} if somebody else {}, **parts),
    somebody=st.none() | st.tuples(st.sampled_from(["user", "group"]), who),
    allows=st.booleans(),
    operations=st.frozensets(st.sampled_from(Operation), min_size=1),
    kind=st.none() | st.sampled_from(TargetKind),
    name=patterns,
    virtual_host=patterns,
)
targets = st.builds(
    Target,
    kind=st.sampled_from([kind for kind in TargetKind if kind is not TargetKind.TEMPORARY]),
    name=names,
    virtual_host=names,
)


def allowed(
    policy: RuleAccessPolicy, principal: Principal, operation: Operation, target: Target, connection: str = ""
) -> bool:
    try:
        policy.check(principal, operation, target, connection)
    except AccessDeniedError:
        assert not policy.explain(principal, operation, target, connection).is_allowed
        return False
    assert policy.explain(principal, operation, target, connection).is_allowed
    return True


def queue(name: str, virtual_host: str = "shop") -> Target:
    return Target(kind=TargetKind.QUEUE, name=name, virtual_host=virtual_host)


def naive_match(pattern: str, name: str) -> bool:
    """The same by a regular expression."""
    pieces = re.findall(r"\\.|.", pattern)
    return re.fullmatch("".join(".*" if p == "*" else re.escape(p[-1]) for p in pieces), name, re.DOTALL) is not None


def naive_decision(rules: Sequence[Rule], principal: Principal, operation: Operation, target: Target) -> bool:
    for rule in rules:
        if rule.user is not None and rule.user != principal.name:
            continue
        if rule.group is not None and rule.group not in principal.groups:
            continue
        if operation not in rule.operations or (rule.kind is not None and rule.kind != target.kind):
            continue
        if naive_match(rule.name.text, target.name) and naive_match(rule.virtual_host.text, target.virtual_host):
            return rule.allows
    return False


class TestPatterns:
    @settings(max_examples=500)
    @given(patterns, names)
    def test_a_pattern_matches_what_the_regular_expression_matches(self, pattern: Pattern, name: str) -> None:
        assert pattern.matches(name) == naive_match(pattern.text, name)

    @given(st.text(), st.text())
    def test_an_escaped_name_matches_itself_alone(self, name: str, other: str) -> None:
        assert Pattern(Pattern.escape(name)).matches(name)
        assert Pattern(Pattern.escape(name)).matches(other) == (name == other)

    def test_a_hostile_pattern_and_name_take_no_time(self) -> None:
        # As a regular expression, this would take longer than the universe has.
        assert not Pattern("*a" * 200 + "b").matches("a" * 100_000)

    @pytest.mark.parametrize("text", ["a\\", "\\a", "*\\b"])
    def test_a_lonely_backslash_is_refused(self, text: str) -> None:
        with pytest.raises(PatternError):
            Pattern(text)

    @pytest.mark.parametrize(
        ("text", "all_names"), [("*", True), ("**", True), ("", False), ("a*", False), ("\\*", False)]
    )
    def test_it_is_known_whether_all_names_match(self, text: str, all_names: bool) -> None:
        assert Pattern(text).matches_all == all_names


class TestRules:
    @settings(max_examples=300)
    @given(st.lists(rules, max_size=6), st.sampled_from([ALICE, BOB]), st.sampled_from(Operation), targets)
    def test_the_first_rule_that_fits_decides(
        self, rules: list[Rule], principal: Principal, operation: Operation, target: Target
    ) -> None:
        policy = RuleAccessPolicy(rules)
        expected = naive_decision(rules, principal, operation, target)
        assert [allowed(policy, principal, operation, target) for _ in range(2)] == [expected] * 2

    @settings(max_examples=200)
    @given(st.lists(rules, max_size=6), st.sampled_from([ALICE, BOB]), st.sampled_from(Operation), st.lists(targets))
    def test_many_names_are_judged_as_each_of_them(
        self, rules: list[Rule], principal: Principal, operation: Operation, targets: list[Target]
    ) -> None:
        policy = RuleAccessPolicy(rules)
        for kind, host in {(each.kind, each.virtual_host) for each in targets}:
            names = [each.name for each in targets]
            expected = [
                name
                for name in names
                if naive_decision(rules, principal, operation, Target(kind=kind, name=name, virtual_host=host))
            ]
            if kind is not TargetKind.TEMPORARY:  # anybody may write to those
                assert policy.permitted(principal, operation, kind, host, names) == expected

    @given(st.lists(rules, max_size=4))
    def test_rules_are_the_same_as_text_and_as_data(self, rules: list[Rule]) -> None:
        assert parse_rules("\n".join(map(str, rules))) == tuple(rules)
        assert rules_from_data(rules_to_data(rules)) == tuple(rules)

    @given(st.text() | st.text(st.sampled_from('allow deny*:"\\#\nqueue ')))
    def test_any_text_is_understood_or_refused_with_its_line(self, text: str) -> None:
        try:
            rules = parse_rules(text, "f")
        except RuleError as error:
            assert error.reason.startswith("f, line ")  # noqa: PT017 - not every text is refused
        else:
            assert parse_rules("\n".join(map(str, rules))) == rules

    def test_the_text_may_have_comments_blanks_and_quotes(self) -> None:
        text = """
        # everything about "orders'
          allow  user:alice  read,write  queue:orders.*  shop   # don't "mind
        deny * all "topic:a \\"b\\" # \\\\\\\\ c"
        """
        first, second = parse_rules(text, "access.rules")
        assert (first.user, first.operations) == ("alice", frozenset({Operation.READ, Operation.WRITE}))
        assert first.place == "access.rules, line 3"
        assert second.name.matches('a "b" # \\ c')

    @pytest.mark.parametrize(
        ("line", "complaint"),
        [
            ("allow *", "a rule is"),
            ("permit * all *", "'permit' is no effect"),
            ("allow alice all *", "'alice' is nobody"),
            ("allow user: all *", "'user:' is nobody"),
            ("allow user:* all *", r"write \* for everybody"),
            ("allow * eat *", "'eat' is no operation; there are connect, write"),
            ("allow * read, *", "'' is no operation"),
            ("allow * all house:x", "'house' is no kind"),
            ("allow * all queue:\\x", "backslash"),
            ("allow * all queue:x shop more", "a rule is"),
            ('allow * all "queue:x', "quote"),
            ('allow * all qu"eue:x', "quote"),
        ],
    )
    def test_a_wrong_line_is_shown_with_the_place(self, line: str, complaint: str) -> None:
        with pytest.raises(RuleError, match=rf"(?s)\Aa\.rules, line 2: .*{complaint}.*\n +\^\Z") as caught:
            parse_rules(f"# one\n{line}", "a.rules")
        assert line in caught.value.reason

    @pytest.mark.parametrize(
        ("data", "complaint"),
        [
            ({"who": "*"}, "'' is no effect"),
            ({"effect": "allow"}, "'' is nobody"),
            ({"effect": "allow", "who": "*", "operations": "read"}, "a list of texts"),
            ({"effect": "allow", "who": "*", "operations": []}, "no effect"),
            ({"effect": "allow", "who": "*", "host": "x"}, "no 'host'"),
            ({"effect": "allow", "who": "*", "name": 5}, "name is to be a text"),
            ({"effect": "allow", "who": "user:a\nallow", "name": "x"}, "who is to be a text of one line"),
        ],
    )
    def test_wrong_data_are_refused_with_their_place(self, data: dict[str, object], complaint: str) -> None:
        with pytest.raises(RuleError, match=f"rules, rule 2: .*{complaint}"):
            rules_from_data([{"effect": "deny", "who": "*"}, data])

    def test_a_huge_text_is_refused(self) -> None:
        with pytest.raises(RuleError, match="more than"):
            parse_rules("#" * 5_000_000)


class TestDecisions:
    def test_what_no_rule_allows_is_denied_and_the_text_says_what(self) -> None:
        with pytest.raises(
            AccessDeniedError, match="'alice' has no permission to write the queue 'orders' of the virtual host 'shop'"
        ):
            RuleAccessPolicy().check(ALICE, Operation.WRITE, queue("orders"))

    def test_operators_see_which_rule_decided_and_clients_do_not(self) -> None:
        policy = RuleAccessPolicy(
            parse_rules("allow user:bob all *\ndeny group:staff write queue:orders*\n", "a.rules")
        )
        decision = policy.explain(ALICE, Operation.WRITE, queue("orders"))
        assert decision.rule == policy.rules[1]
        assert decision.reason == "a.rules, line 2: deny group:staff write queue:orders*"
        assert policy.explain(ALICE, Operation.READ, queue("orders")).rule is None
        with pytest.raises(AccessDeniedError) as caught:
            policy.check(ALICE, Operation.WRITE, queue("orders"))
        assert "staff" not in caught.value.reason

    def test_new_rules_count_at_once(self) -> None:
        policy = RuleAccessPolicy(EVERYTHING)
        assert allowed(policy, ALICE, Operation.WRITE, queue("orders"))
        policy.replace(parse_rules("deny user:alice all *\nallow * all *"))
        assert not allowed(policy, ALICE, Operation.WRITE, queue("orders"))
        assert allowed(policy, BOB, Operation.WRITE, queue("orders"))

    def test_groups_are_those_of_the_principal_that_asks(self) -> None:
        policy = RuleAccessPolicy(parse_rules("allow group:staff all *"))
        assert allowed(policy, ALICE, Operation.READ, queue("q"))
        assert not allowed(policy, replace(ALICE, groups=frozenset()), Operation.READ, queue("q"))

    def test_a_name_in_an_error_can_neither_be_huge_nor_forge_lines(self) -> None:
        with pytest.raises(AccessDeniedError) as caught:
            RuleAccessPolicy().check(replace(ALICE, name="a\nb" * 9999), Operation.READ, queue("q\n" * 9999))
        assert "\n" not in caught.value.reason
        assert len(caught.value.reason) < 1500

    @pytest.mark.parametrize("principals", [1, 7, 200])
    def test_memory_is_bounded_whatever_is_asked(self, monkeypatch: pytest.MonkeyPatch, principals: int) -> None:
        monkeypatch.setattr(access, "_DECISIONS", 8)
        monkeypatch.setattr(access, "_DIFFERENT_PRINCIPALS", 4)
        monkeypatch.setattr(access, "_PRINCIPALS", 16)
        policy = RuleAccessPolicy(parse_rules("allow * all queue:a*"))
        for number in range(200):
            principal = Principal(name=f"p{number % principals}")
            for name in (f"a{number}", f"b{number}", "a" * 300):
                assert allowed(policy, principal, Operation.READ, queue(name)) == name.startswith("a")
        assert len(kept(policy, Principal)) <= 16 + 4, "by their identity, and different ones"
        names = kept(policy, str)
        assert sum(re.fullmatch(r"[ab]\d+", name) is not None for name in names) <= min(principals, 4) * 8
        assert not any(len(name) >= 300 for name in names)

    def test_a_decision_that_was_made_before_asks_no_rule(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[str] = []
        policy = RuleAccessPolicy(EVERYTHING)
        matches = Pattern.matches

        def count(self: Pattern, name: str) -> bool:
            asked.append(name)
            return matches(self, name)

        monkeypatch.setattr(Pattern, "matches", count)
        for _ in range(100):
            policy.check(ALICE, Operation.WRITE, queue("orders"))
        assert asked == ["orders", "shop"]

    def test_the_rules_for_users_leave_the_broker_to_administrators(self) -> None:
        policy = RuleAccessPolicy(USERS)
        boss = Principal(name="boss", groups=frozenset({"administrators"}))
        managed = Target(kind=TargetKind.MANAGED, name="broker/port/stomp")
        for operation in Operation:
            assert allowed(policy, boss, operation, managed)
            assert not allowed(policy, ALICE, operation, managed)
        assert allowed(policy, ALICE, Operation.WRITE, queue("q"))
        assert not allowed(policy, ALICE, Operation.ADMINISTER, queue("q"))
        assert allowed(policy, ALICE, Operation.CONNECT, Target(kind=TargetKind.VIRTUAL_HOST, name="shop"))


class TestTemporaryDestinations:
    TARGET = Target(kind=TargetKind.TEMPORARY, name="tmp-1", virtual_host="shop", owner="c1")

    @pytest.mark.parametrize("text", ["", "allow * all *"])
    def test_only_the_connection_that_made_it_reads_it_whatever_the_rules(self, text: str) -> None:
        policy = RuleAccessPolicy(parse_rules(text))
        for operation in (Operation.READ, Operation.BROWSE):
            assert allowed(policy, ALICE, operation, self.TARGET, "c1")
            assert not allowed(policy, ALICE, operation, self.TARGET, "c2")
            assert not allowed(policy, ALICE, operation, self.TARGET)
            assert not allowed(policy, ALICE, operation, replace(self.TARGET, owner=""))
            assert not allowed(policy, ALICE, operation, replace(self.TARGET, owner=""), "c1")

    def test_anybody_may_answer_to_it_unless_a_rule_denies(self) -> None:
        assert allowed(RuleAccessPolicy(), BOB, Operation.WRITE, self.TARGET, "c2")
        policy = RuleAccessPolicy(parse_rules("deny user:bob write temporary"))
        assert not allowed(policy, BOB, Operation.WRITE, self.TARGET, "c2")
        assert allowed(policy, ALICE, Operation.WRITE, self.TARGET, "c3")

    def test_making_one_is_a_question_for_the_rules_and_deleting_it_for_the_owner(self) -> None:
        policy = RuleAccessPolicy(parse_rules("allow user:alice create temporary\nallow group:ops administer *"))
        assert allowed(policy, ALICE, Operation.CREATE, self.TARGET, "c1")
        assert not allowed(policy, BOB, Operation.CREATE, self.TARGET, "c1")
        assert allowed(policy, ALICE, Operation.ADMINISTER, self.TARGET, "c1")
        assert not allowed(policy, ALICE, Operation.ADMINISTER, self.TARGET, "c2")
        assert allowed(policy, Principal(name="o", groups=frozenset({"ops"})), Operation.ADMINISTER, self.TARGET)

    def test_an_address_becomes_its_target(self) -> None:
        target = Target.of(Address(AddressKind.TOPIC, "prices"), "shop")
        assert (target.kind, target.name, target.virtual_host) == (TargetKind.TOPIC, "prices", "shop")
        assert Target.of(Address(AddressKind.QUEUE, "t", True), "shop").kind is TargetKind.TEMPORARY


class TestDurableSubscriptions:
    TARGET = Target(kind=TargetKind.SUBSCRIPTION, name="c:prices", virtual_host="shop", owner="alice")

    @pytest.mark.parametrize("operation", [Operation.READ, Operation.BROWSE, Operation.WRITE, Operation.CREATE])
    def test_nobody_takes_over_what_another_user_made(self, operation: Operation) -> None:
        policy = RuleAccessPolicy(EVERYTHING)
        assert allowed(policy, ALICE, operation, self.TARGET)
        assert not allowed(policy, BOB, operation, self.TARGET)

    def test_a_new_one_is_a_question_for_the_rules(self) -> None:
        new = replace(self.TARGET, owner="")
        policy = RuleAccessPolicy(parse_rules("allow user:alice create,read subscription:c:*"))
        assert allowed(policy, ALICE, Operation.CREATE, new)
        assert not allowed(policy, BOB, Operation.CREATE, new)
        assert not allowed(policy, ALICE, Operation.CREATE, replace(new, name="d:prices"))

    def test_a_rule_names_one_and_no_other_one_that_looks_like_it(self) -> None:
        """A colon may be in a client id and in the name of a subscription."""
        host = Mock(spec=ServedHost, access=RuleAccessPolicy(parse_rules("allow user:alice create subscription:a:*")))
        host.name = "shop"
        guard = Guard(ALICE, host, ConnectionId("1"))
        guard.subscribe("a", "b:c")
        with pytest.raises(AccessDeniedError):
            guard.subscribe("a:b", "c")
        host.access = RuleAccessPolicy(parse_rules("allow user:alice create subscription:a~1b:c"))
        guard.subscribe("a:b", "c")
        with pytest.raises(AccessDeniedError):
            guard.subscribe("a", "b:c")

    def test_its_user_deletes_it_and_who_may_administer(self) -> None:
        policy = RuleAccessPolicy(parse_rules("allow group:ops administer *"))
        assert allowed(policy, ALICE, Operation.ADMINISTER, self.TARGET)
        assert not allowed(policy, BOB, Operation.ADMINISTER, self.TARGET)
        assert allowed(policy, Principal(name="o", groups=frozenset({"ops"})), Operation.ADMINISTER, self.TARGET)

"""The catalogue of AMQP's rules: what it says, and that each rule has a test."""

from __future__ import annotations

from tests.provider.protocols.amqp.catalogue import KEEPERS, LEVELS, STATES, citations, load_rules

RULES = load_rules()


def test_each_rule_is_whole() -> None:
    for rule in RULES.values():
        assert rule.id.endswith(rule.id.rpartition("-")[2])
        assert rule.section in rule.id
        assert rule.level in LEVELS
        assert rule.kept_by in KEEPERS
        assert rule.status in STATES
        assert rule.title
        assert rule.rule.endswith(".")
        if rule.part.isdigit():
            assert rule.section.partition(".")[0] == rule.part


def test_each_part_of_the_standard_has_rules() -> None:
    assert {rule.part for rule in RULES.values()} >= set("12345")
    assert len(RULES) > 150


def test_each_rule_has_a_test() -> None:
    cited = {rule for rule, _ in citations()}
    assert sorted(RULES.keys() - cited) == [], "no test cites these rules"


def test_each_citation_is_a_rule() -> None:
    assert not [(rule, module) for rule, module in citations() if rule not in RULES], (
        "these rules are not in rules.toml"
    )

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyjms.routing.compiled import CompiledRules, explain
from pyjms.routing.facts import Facts
from pyjms.routing.reading import read_rules
from pyjms.routing.rules import Choice, RuleSet
from pyjms.spi import Envelope
from tests.pyjms.routing.messages import message, rules


def names(found: tuple[Choice, ...]) -> list[str]:
    return [choice.target.partition(":")[2] for choice in found]


def decide(text: str, envelope: Envelope) -> list[str]:
    return names(CompiledRules(rules(text)).decide(envelope))


def counted(test: Callable[[Facts], bool], counts: Counter[str], name: str) -> Callable[[Facts], bool]:
    """Count how often a condition is evaluated."""

    def evaluate(facts: Facts) -> bool:
        counts[name] += 1
        return test(facts)

    return evaluate


@pytest.mark.realises("MOM-47")
def test_by_the_identity_of_the_sender() -> None:
    text = """
        sender = ["JMSXUserID", "shop"]
        [[rule]]
        sender = ["berlin", "paris"]
        to = "queue:west"
        [[rule]]
        sender = "t*"
        to = "queue:east"
    """
    assert decide(text, message(JMSXUserID="berlin")) == ["west"]
    assert decide(text, message(shop="paris")) == ["west"]
    assert decide(text, message(JMSXUserID="tokyo", shop="paris")) == ["east"]
    assert decide(text, message()) == []


@pytest.mark.realises("MOM-48")
def test_by_the_type_of_the_message_and_of_its_body() -> None:
    text = """
        [[rule]]
        type = "order.*"
        to = "queue:orders"
        [[rule]]
        type = ["bill", "order.new"]
        to = "queue:books"
        [[rule]]
        body = ["map", "xml"]
        to = "queue:structured"
        [[rule]]
        body = "json"
        to = "queue:json"
    """
    assert decide(text, message(type="order.new")) == ["orders", "books"]
    assert decide(text, message(type="order")) == []
    assert decide(text, message({"a": 1}, type="bill")) == ["books", "structured"]
    assert decide(text, message("<a/>")) == ["structured"]
    assert decide(text, message(b' {"a": 1}')) == ["json"]
    assert decide(text, message("no more than text")) == []


@pytest.mark.realises("MOM-49")
def test_by_the_content_of_the_message() -> None:
    text = """
        [[rule]]
        selector = "country = 'DE' AND weight > 10"
        to = "queue:heavy"
        [[rule]]
        content = [{ json = "/customer/country", equals = ["DE", "AT"] }, { json = "/total", where = "value >= 1000" }]
        to = "queue:large"
        [[rule]]
        content = [{ json = "/lines/*/item", equals = "tea" }]
        to = "queue:tea"
        [[rule]]
        content = [{ xml = "customer/@country", equals = "DE" }, { xml = "total", where = "value > 5", as_number = true }]
        to = "queue:xml"
        [[rule]]
        content = [{ json = "/gift", exists = false }, { json = "", exists = true }]
        to = "queue:plain"
    """
    assert decide(text, message(country="DE", weight=11)) == ["heavy"]
    assert decide(text, message(country="DE", weight=9)) == []
    order = {"customer": {"country": "AT"}, "total": 1000, "lines": [{"item": "milk"}, {"item": "tea"}], "gift": None}
    assert decide(text, message(json.dumps(order))) == ["large", "tea"]
    assert decide(text, message('{"customer": {"country": "DE"}, "total": "1000"}')) == ["plain"]
    assert decide(text, message("<o><customer country='DE'/><total> 5.5 </total></o>")) == ["xml"]
    assert decide(text, message("<o><customer country='DE'/><total>5</total></o>")) == []


def test_rules_are_asked_in_order_until_one_stops_and_each_target_counts_once() -> None:
    text = """
        undeliverable = "queue:lost"
        [[rule]]
        name = "listens"
        to = "queue:tap"
        tap = true
        [[rule]]
        selector = "a = 1"
        to = ["queue:one", "queue:two"]
        stop = true
        [[rule]]
        selector = "b = 1"
        to = ["queue:two", "queue:three"]
        [[rule]]
        selector = "c = 1"
        to = "queue:three"
    """
    assert decide(text, message(a=1, b=1)) == ["tap", "one", "two"]
    assert decide(text, message(b=1, c=1)) == ["tap", "two", "three"]
    assert decide(text, message()) == ["tap", "lost"]
    ways = CompiledRules(rules(text)).decide(message(b=1, c=1))
    assert [choice.rule and choice.rule.name for choice in ways] == ["listens", "rule 3", "rule 3"]


def test_what_is_nested_too_deeply_is_no_xml() -> None:
    text = "[[rule]]\ncontent = [{ xml = './/a//b', exists = true }]\nto = 'queue:xml'"
    for levels, expected in ((100, ["xml"]), (199, ["xml"]), (200, []), (5_000, [])):
        body = "<a>" * levels + "<b/>" + "</a>" * levels
        assert decide(text, message(body)) == expected, levels


def test_a_bomb_of_entities_is_no_xml() -> None:
    text = "[[rule]]\nbody = 'xml'\nto = 'queue:xml'"
    bomb = '<!DOCTYPE a [<!ENTITY b "x"><!ENTITY c "&b;&b;&b;">]><a>&c;</a>'
    assert decide(text, message(bomb)) == []
    assert decide(text, message("<a>x</a>")) == ["xml"]


def test_bodies_that_are_too_large_or_too_deep_are_not_looked_into() -> None:
    text = "body_bytes_max = 10\n[[rule]]\nbody = 'json'\nto = 'queue:json'"
    assert decide(text, message('{"a": 1}')) == ["json"]
    assert decide(text, message('{"a":  123}')) == []
    assert decide(text.replace("10", "1000000"), message("[" * 200_000)) == []


def test_a_hundred_rules_that_ask_for_equal_things_are_one_look(monkeypatch: Any) -> None:
    """Counted, not timed: how many conditions are evaluated, and how often a body is read."""
    parts = [
        f"[[rule]]\ntype = 'type {n % 10}'\nselector = \"region = 'r{n}' AND size > 3\"\n"
        f"content = [{{ json = '/shop', equals = 's{n}' }}]\nto = 'queue:q{n}'\n"
        for n in range(100)
    ]
    ready = CompiledRules(rules("".join(parts)))
    counts: Counter[str] = Counter()
    ready._test_list = [counted(test, counts, "test") for test in ready._test_list]
    monkeypatch.setattr(
        Facts, "_read_json", lambda facts: (counts.update(["json"]), json.loads(facts.envelope.body))[1]
    )
    assert names(ready.decide(message('{"shop": "s42"}', type="type 2", region="r42", size=4))) == ["q42"]
    assert counts == {"test": 1, "json": 1}
    assert names(ready.decide(message('{"shop": "s42"}', type="type 3", region="r42", size=4))) == []
    assert counts == {"test": 1, "json": 1}


def test_what_several_rules_ask_is_evaluated_once_for_a_message() -> None:
    parts = [f"[[rule]]\nselector = \"size > 3 AND weight < {n}\"\nto = 'queue:q{n}'\n" for n in range(5)]
    ready = CompiledRules(rules("".join(parts)))
    assert len(ready._test_list) == 6
    counts: Counter[str] = Counter()
    ready._test_list = [counted(test, counts, str(number)) for number, test in enumerate(ready._test_list)]
    assert names(ready.decide(message(size=4, weight=3))) == ["q4"]
    assert counts["0"] == 1


# Compared with an evaluator that knows nothing of all this

_words = st.sampled_from(["a", "b", "ab", "", "*"])
_selectors = st.sampled_from(
    [
        "p = 'a'",
        "p = 'a' AND q = 'b'",
        "p IN ('a', 'b') AND p = 'b'",
        "p = 'a' OR q = 'a'",
        "'b' = q AND n > 1",
        "n = 1",
        "p <> 'a' AND n BETWEEN 0 AND 2",
        "NOT (p = 'a')",
        "p IS NULL",
        "JMSType = 'a' AND p LIKE 'a%'",
        "b",
        "",
    ]
)
_contents = st.fixed_dictionaries(
    {},
    optional={"as_number": st.booleans()},
).flatmap(
    lambda more: st.one_of(
        st.fixed_dictionaries(
            {
                "json": st.sampled_from(["/x", "/x/0", "/*", "/x/*", "/y", ""]),
                "equals": st.one_of(st.lists(st.sampled_from(["a", "1", 1, 1.0, True, 0]), min_size=1), st.just("a")),
            }
        ),
        st.fixed_dictionaries(
            {
                "json": st.sampled_from(["/x", "/*", "/x/*"]),
                "where": st.sampled_from(["value > 0", "value = 'a'", "value"]),
            }
        ),
        st.fixed_dictionaries({"json": st.sampled_from(["/x", "/y/0"]), "exists": st.booleans()}),
        st.fixed_dictionaries({"xml": st.sampled_from([".", "x", "x/@k", ".//y"]), "equals": _words}),
    ).map(lambda one: {**one, **more})
)
_targets = st.lists(st.sampled_from([f"queue:{n}" for n in range(4)]), min_size=1, max_size=2)
_rules = st.fixed_dictionaries(
    {"to": _targets},
    optional={
        "type": st.lists(st.sampled_from(["a", "b", "a*", "*"]), min_size=1),
        "sender": st.lists(st.sampled_from(["a", "b", "*b"]), min_size=1),
        "body": st.lists(st.sampled_from(["none", "text", "bytes", "json", "xml"]), min_size=1),
        "selector": _selectors,
        "content": st.lists(_contents, max_size=2),
        "tap": st.booleans(),
        "stop": st.booleans(),
    },
)
_values = st.sampled_from(["a", "b", "1", 1, 0, 1.0, True, None])
_documents = st.recursive(
    _values, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("xy0"), inner, max_size=2)
)
_bodies = st.one_of(
    st.none(),
    st.sampled_from(["<x/>", "<r>a<x k='a'>b</x><y>1</y></r>", "<r><x><y>a</y></x></r>", "text", "{broken"]),
    _documents.map(json.dumps),
    _documents.map(lambda each: json.dumps(each).encode()),
)
_properties = st.dictionaries(
    st.sampled_from(["p", "q", "n", "b", "JMSXUserID"]), st.sampled_from(["a", "b", "ab", 1, 2, True])
)
_messages = st.builds(
    lambda body, kind, properties: message(body, type=kind, **properties),
    _bodies,
    st.sampled_from([None, "a", "b", "ab"]),
    _properties,
)


def naive(ruleset: RuleSet, envelope: Envelope) -> list[str]:
    """Ask one rule after the other."""
    wanting = [each for each in explain(ruleset, envelope) if each.holds]
    found = list(dict.fromkeys(target for each in wanting for target in each.rule.targets))
    if all(each.rule.tap for each in wanting):
        found += [each for each in [ruleset.undeliverable] if each is not None and each not in found]
    return found


@settings(max_examples=60, deadline=None)
@given(
    st.lists(_rules, min_size=1, max_size=6),
    st.sampled_from([None, "queue:0", "queue:9"]),
    st.lists(_messages, max_size=4),
)
def test_compiled_rules_decide_as_rules_asked_one_by_one(
    tables: list[dict[str, Any]], undeliverable: str | None, messages: list[Envelope]
) -> None:
    data = {"rule": tables} | ({} if undeliverable is None else {"undeliverable": undeliverable})
    ruleset = read_rules(data)
    ready = CompiledRules(ruleset)
    for each in messages:
        assert [choice.target for choice in ready.decide(each)] == naive(ruleset, each)

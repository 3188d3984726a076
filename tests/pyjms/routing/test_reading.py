from __future__ import annotations

import json
import os
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from pyjms.routing import reading, transformers
from pyjms.routing.compiled import CompiledRules
from pyjms.routing.reading import RulesError, load_rules
from pyjms.routing.rules import BODIES, RuleSet
from pyjms.routing.transformers import TransformerError, find_transformer
from pyjms.spi import BodyKind
from pyjms.types import Long
from tests.pyjms.routing.messages import message, rules
from tests.tidy.source import ROOT


def problems(text: str) -> list[str]:
    with pytest.raises(RulesError) as found:
        rules(text)
    return [str(problem) for problem in found.value.problems]


def test_all_that_is_wrong_is_told_at_once_with_line_and_advice() -> None:
    text = """[targets.erp]
queue = "a"
topic = "b"

[[rule]]
name = "first"
typ = "order"
body = "json5"
selector = "a >"
to = "queue:x"

[[rule]]
name = "first"
content = [{ json = "customer", equals = "DE" }, { xml = "/a", exists = true }, { json = "/a", where = "b = 1" }]
transform = [{ use = "sett" }]
to = "erp2"
stop = "yes"
"""
    told = problems(text)
    wanted = [
        "targets.erp: it needs a queue or a topic, and not both",
        "line 7: rule 1 (first): 'typ' is unknown; did you mean 'type'?",
        "line 8: rule 1 (first), body: 'json5' is no kind of body",
        "line 9: rule 1 (first), selector: ",
        "line 13: rule 2 (first): its name is empty or another rule's",
        "line 14: rule 2 (first), content 1: 'customer' is no JSON Pointer: it begins with a slash",
        "line 14: rule 2 (first), content 2: '/a' begins with a slash",
        "line 14: rule 2 (first), content 3: where speaks of the identifier value alone",
        "line 15: rule 2 (first), transform 1: there is no transformer 'sett'; there are: copy, map-json, remove, set, type",
        "line 16: rule 2 (first), to: there is no target 'erp2'",
        "line 17: rule 2 (first), stop: 'yes' is neither true nor false",
    ]
    for each in wanted:
        assert any(line.startswith(each) for line in told), (each, told)
    assert len(told) == len(wanted)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "it has no rules"),
        ("[[rule]]", "it sends nothing anywhere"),
        ("rule = 1", "it has no rules"),
        ("[[rule]]\nto = ''", "write a text or a list of texts"),
        ("body_bytes_max = true\n[[rule]]\nto = 'queue:a'", "is no number of bytes"),
        ("undeliverable = 'x'\n[[rule]]\nto = 'queue:a'", "there is no target 'x'"),
        ("targets = 1\n[[rule]]\nto = 'queue:a'", "write each target as a table"),
        ("[[rule]]\nto = 'queue:a'\ncontent = 1", "write a list of tables"),
        ("[[rule]]\nto = 'queue:a'\ncontent = [{ json = '/a' }]", "give one path and one test"),
        ("[[rule]]\nto = 'queue:a'\ncontent = [{ json = '/a', equals = [[1]] }]", "equals takes texts"),
        ("[[rule]]\nto = 'queue:a'\ncontent = [{ xml = 'a[', exists = true }]", "is no path of ElementTree"),
        ("[[rule]]\nto = 'queue:a'\ncontent = [{ xml = './/a//b//c', exists = true }]", "has // more than 2 times"),
        ("[[rule]]\nto = 'queue:a'\ncontent = [{ json = '/a~2', exists = true }]", "write ~0 for ~"),
        (
            "[[rule]]\nto = 'queue:a'\ntransform = [{ use = 'set', properties = { JMSa = 1 } }]",
            "is no name of a property",
        ),
    ],
)
def test_each_mistake_has_words_of_its_own(text: str, told: str) -> None:
    assert any(told in each for each in problems(text)), problems(text)


def test_files_are_toml_or_json(tmp_path: Path) -> None:
    data = {"rule": [{"name": "one", "to": "queue:a", "type": "x"}], "undeliverable": "queue:lost"}
    (tmp_path / "rules.json").write_text(json.dumps(data), encoding="utf-8")
    (tmp_path / "rules.toml").write_text(
        'undeliverable = "queue:lost"\n[[rule]]\nname = "one"\nto = "queue:a"\ntype = "x"\n', encoding="utf-8"
    )
    from_json, from_toml = load_rules(tmp_path / "rules.json"), load_rules(tmp_path / "rules.toml")
    assert isinstance(from_json, RuleSet)
    assert from_toml.rules[0].line == 2
    assert (from_json.targets, from_json.rules[0].types) == (from_toml.targets, from_toml.rules[0].types)
    (tmp_path / "rules.json").write_text('{\n"rule": [}', encoding="utf-8")
    with pytest.raises(RulesError, match=r"line 2: rules\.json: it is no JSON"):
        load_rules(tmp_path / "rules.json")


@pytest.mark.parametrize(("name", "begin"), [("rules.json", ""), ("rules.toml", "rule = ")])
def test_what_is_nested_too_deeply_is_no_file_of_rules(tmp_path: Path, name: str, begin: str) -> None:
    (tmp_path / name).write_text(begin + "[" * 100_000, encoding="utf-8")
    with pytest.raises(RulesError, match="it is nested too deeply"):
        load_rules(tmp_path / name)


@pytest.mark.parametrize("kind", ["pipe", "folder", "endless"])
def test_what_is_no_file_of_rules_is_not_waited_for_nor_read_to_its_end(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "rules.toml"
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    else:
        file.symlink_to("/dev/zero")
    with pytest.raises(RulesError, match="it is no file, but a folder, a device or a pipe"):
        load_rules(file)


def test_a_file_that_is_too_long_for_rules_is_not_kept_in_memory(tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    with file.open("wb") as opened:
        opened.truncate(10**12)
    with pytest.raises(RulesError, match="it has more than 4000000 bytes"):
        load_rules(file)


# Transformers


def apply(settings: dict[str, Any], *given: Any, **properties: Any) -> Any:
    name = settings.pop("use")
    return find_transformer(name)(settings)(message(*given, **properties))


def test_what_is_built_in_does_what_it_says() -> None:
    assert apply({"use": "set", "properties": {"a": 1, "b": 2**40}}, a=0, c=3).properties == {
        "a": 1,
        "b": Long(2**40),
        "c": 3,
    }
    assert apply({"use": "remove", "properties": ["a", "x"]}, a=0, c=3).properties == {"c": 3}
    assert apply({"use": "copy", "header": "JMSType", "to": "kind"}, type="order").properties == {"kind": "order"}
    assert apply({"use": "copy", "header": "JMSType", "to": "kind"}).properties == {}
    assert isinstance(apply({"use": "copy", "header": "JMSTimestamp", "to": "t"}).properties["t"], Long)
    assert apply({"use": "type", "value": "new"}, type="old").jms_type == "new"
    body = '{"order": {"number": 7, "lines": [{"item": "tea"}]}}'
    fields = {"id": "/order/number", "first": "/order/lines/0/item", "gone": "/order/x"}
    assert json.loads(apply({"use": "map-json", "fields": fields}, body).body) == {"id": 7, "first": "tea"}
    made = apply({"use": "map-json", "fields": {"id": "/order/number"}}, body.encode())
    assert (made.body_kind, made.body) == (BodyKind.BYTES, b'{"id": 7}')


@pytest.mark.parametrize(
    "settings",
    [
        {"use": "set"},
        {"use": "set", "properties": {"a": [1]}},
        {"use": "remove", "properties": []},
        {"use": "copy", "header": "JMSColour", "to": "a"},
        {"use": "type", "value": 1},
        {"use": "map-json", "fields": {}},
        {"use": "type", "value": "a", "more": 1},
    ],
    ids=str,
)
def test_settings_that_cannot_be_used_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(TransformerError):
        apply(dict(settings))


def shouting(settings: Any) -> Any:
    return lambda envelope: replace(envelope, body=f"{envelope.body}{settings['with']}")


def test_others_add_transformers_by_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("shout", f"{__name__}:shouting", transformers.ENTRY_POINT_GROUP)
    monkeypatch.setattr(EntryPoint, "load", lambda _: shouting)
    monkeypatch.setattr(
        transformers, "entry_points", lambda group, name=None: [point] if name in {None, "shout"} else []
    )
    assert apply({"use": "shout", "with": "!"}, "hello").body == "hello!"
    with pytest.raises(TransformerError, match="copy, map-json, remove, set, shout, type"):
        find_transformer("whisper")


def test_a_transformer_of_others_that_fails_over_its_settings_is_a_mistake_among_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def demanding(settings: Any) -> Any:
        word = settings["with"]
        return lambda envelope: replace(envelope, body=word)

    point = EntryPoint("shout", f"{__name__}:demanding", transformers.ENTRY_POINT_GROUP)
    monkeypatch.setattr(EntryPoint, "load", lambda _: demanding)
    monkeypatch.setattr(transformers, "entry_points", lambda group, name=None: [point])
    told = problems("[[rule]]\nto = 'queue:a'\ntransform = [{ use = 'shout' }]\n[[rule]]\nto = 'que:b'")
    assert any("the transformer 'shout' cannot use its settings: KeyError: 'with'" in each for each in told), told
    assert any("there is no target 'que:b'" in each for each in told), told


def test_the_rules_of_the_guide_are_right_and_decide_as_it_says() -> None:
    page = (ROOT / "docs/how-to/routing.md").read_text(encoding="utf-8")
    ready = CompiledRules(rules(page.partition("```toml\n")[2].partition("```")[0]))
    large = message('{"customer": {"country": "AT"}, "total": 1000}', type="order")
    assert [choice.target for choice in ready.decide(large)] == ["queue:log", "erp", "queue:approvals"]
    small = message('{"customer": {"country": "FR"}, "total": 5}', type="order")
    assert [choice.target for choice in ready.decide(small)] == ["queue:log", "erp"]
    shop = message(JMSXUserID="shop-7", amount=3, currency="EUR")
    assert [choice.target for choice in ready.decide(shop)] == ["queue:log", "queue:shops"]
    assert [choice.target for choice in ready.decide(message())] == ["queue:log", "queue:unrouted"]


def test_the_reference_names_all_that_a_file_may_hold() -> None:
    page = (ROOT / "docs/reference/routing-rules.md").read_text(encoding="utf-8")
    names = [*reading.TOP, *reading.RULE, *reading.CONTENT, *reading.TARGET, *BODIES, *transformers.BUILT_IN]
    assert [name for name in names if f"`{name}`" not in page and f"`{name} = " not in page] == []

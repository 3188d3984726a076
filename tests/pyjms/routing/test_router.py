from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from pyjms.forwarding import Site, UndeliverableError
from pyjms.routing.reading import load_rules
from pyjms.routing.runner import Router, RouteRulesRunner
from pyjms.spi.clock import SystemClock
from pyjms.spi.routes import RouteError, RouteRequest, RunningRoute
from pyjms.testing import VirtualClock
from tests.pyjms.forwarding.sites import Client, statistics_when
from tests.pyjms.routing.messages import message, rules

ONE = '[[rule]]\nname = "one"\nto = "queue:first"\n'


def router(text: str, clock: VirtualClock, file: Path | None = None) -> Router:
    return Router(rules(text), lambda name, spec: Site(url=spec.url or "here"), clock, file)


def targets(of: Router, body: Any = None, **properties: Any) -> list[str]:
    return [each.target.address.name for each in of.plan(message(body, **properties))]


def write(file: Path, text: str, clock: VirtualClock) -> None:
    file.write_text(text, encoding="utf-8")
    stamp = file.stat().st_mtime_ns + clock.time_ms()  # as if it were written later
    os.utime(file, ns=(stamp, stamp))
    clock.advance(1_000)


@pytest.mark.realises("MOM-46", "MOM-51")
def test_rules_that_were_altered_are_obeyed_from_the_next_message_on(tmp_path: Path) -> None:
    file, clock = tmp_path / "rules.toml", VirtualClock()
    file.write_text(ONE, encoding="utf-8")
    made = Router(load_rules(file), lambda name, spec: Site(url="here"), clock, file)
    assert targets(made) == ["first"]
    write(file, f'{ONE}[[rule]]\nto = "queue:second"\n', clock)
    assert targets(made) == ["first", "second"]


def test_altered_rules_that_are_wrong_are_refused_and_told_and_those_before_stay(tmp_path: Path) -> None:
    file, clock = tmp_path / "rules.toml", VirtualClock()
    file.write_text(ONE, encoding="utf-8")
    made = Router(load_rules(file), lambda name, spec: Site(url="here"), clock, file)
    write(file, ONE.replace("queue:", "que:"), clock)
    assert targets(made) == ["first"]
    assert "there is no target 'que:first'" in str(made.refused)
    write(file, "[[rule", clock)
    assert targets(made) == ["first"]
    assert "it is no TOML" in str(made.refused)
    file.unlink()
    clock.advance(1_000)
    assert targets(made) == ["first"]
    write(file, ONE.replace("first", "last"), clock)
    assert targets(made) == ["last"]
    assert made.refused is None


def test_a_file_is_not_looked_at_for_every_message(tmp_path: Path) -> None:
    file, clock = tmp_path / "rules.toml", VirtualClock()
    file.write_text(ONE, encoding="utf-8")
    made = Router(load_rules(file), lambda name, spec: Site(url="here"), clock, file)
    file.write_text(ONE.replace("first", "another"), encoding="utf-8")
    assert targets(made) == ["first"]
    clock.advance(1_000)
    assert targets(made) == ["another"]


def test_a_rule_transforms_what_its_targets_get_and_nobody_else() -> None:
    text = """
        [[rule]]
        transform = [{ use = "type", value = "new" }, { use = "set", properties = { a = 2 } }]
        to = "queue:changed"
        [[rule]]
        to = "queue:plain"
    """
    changed, plain = router(text, VirtualClock()).plan(message("text", type="old", a=1))
    assert (changed.envelope.jms_type, changed.envelope.properties) == ("new", {"a": 2})
    assert (plain.envelope.jms_type, plain.envelope.properties) == ("old", {"a": 1})


@pytest.mark.parametrize("body", ["[" * 100_000, '{"a"', "\ud800"])
def test_no_body_brings_a_transformer_down(body: str) -> None:
    text = '[[rule]]\nname = "maps"\ntransform = [{ use = "map-json", fields = { a = "/b" } }]\nto = "queue:q"'
    with pytest.raises(UndeliverableError, match="maps: the transformer map-json failed"):
        router(text, VirtualClock()).plan(message(body))


def test_a_transformer_that_fails_makes_the_message_undeliverable() -> None:
    text = '[[rule]]\nname = "maps"\ntransform = [{ use = "map-json", fields = { a = "/b" } }]\nto = "queue:q"'
    with pytest.raises(UndeliverableError, match="maps: the transformer map-json failed"):
        router(text, VirtualClock()).plan(message("no JSON"))


def test_who_listens_in_gets_what_nobody_wants_and_it_is_undeliverable_still() -> None:
    made = router('[[rule]]\ntap = true\nto = "queue:tap"', VirtualClock())
    with pytest.raises(UndeliverableError, match="listen in") as found:
        made.plan(message())
    assert [each.target.address.name for each in found.value.outgoing] == ["tap"]


# With brokers


def started(rules: dict[str, Any]) -> RunningRoute:
    settings = {"url": "vm://here", "source": "events", "rules": rules}
    return RouteRulesRunner().start(RouteRequest(name="router", settings=settings, clock=SystemClock()))


@pytest.mark.realises("MOM-45", "MOM-50", "MOM-52")
def test_applications_that_know_nothing_of_each_other_become_one(here: Client, there: Client) -> None:
    """A shop that sends to one queue, books that take bills, and a stock that takes orders in its own words."""
    route = started(
        {
            "targets": {"stock": {"url": "vm://there", "queue": "stock"}},
            "rule": [
                {"name": "log", "to": ["queue:log"], "tap": True},
                {
                    "name": "stock",
                    "type": "order",
                    "transform": [{"use": "map-json", "fields": {"article": "/item"}}],
                    "to": ["stock"],
                },
                {"name": "books", "type": ["order", "bill"], "to": ["queue:books"]},
            ],
        }
    )
    try:
        session = here.session
        with session.create_producer(session.create_queue("events")) as shop:
            for kind, body in (("order", '{"item": "tea"}'), ("bill", "7 €"), ("chat", "hello")):
                event = session.create_text_message(body)
                event.jms_type = kind
                shop.send(event)
        statistics_when(route, lambda seen: seen.forwarded + seen.undeliverable == 3)  # type: ignore[arg-type]
    finally:
        route.stop()
    assert there.texts("stock") == ['{"article": "tea"}']
    assert here.texts("books") == ['{"item": "tea"}', "7 €"]
    assert here.texts("log") == ['{"item": "tea"}', "7 €", "hello"]
    assert here.texts("events.undeliverable") == ["hello"]


@pytest.mark.realises("MOM-47", "MOM-48", "MOM-49", "MOM-50")
def test_messages_go_where_their_sender_their_type_and_their_content_say(here: Client) -> None:
    route = started(
        {
            "sender": ["shop"],
            "rule": [
                {"sender": ["berlin", "paris"], "to": ["queue:west"]},
                {"type": "bill", "to": ["queue:books"]},
                {"selector": "weight > 10", "to": ["queue:heavy"]},
                {"content": [{"json": "/total", "where": "value >= 1000"}], "to": ["queue:large"]},
            ],
            "undeliverable": "queue:rest",
        }
    )
    try:
        session = here.session
        with session.create_producer(session.create_queue("events")) as producer:
            for shop, kind, weight, body in (
                ("berlin", "order", 1, "one"),
                ("tokyo", "bill", 1, "two"),
                ("tokyo", "order", 11, "three"),
                ("tokyo", "order", 1, '{"total": 1000}'),
                ("tokyo", "order", 10, '{"total": 999}'),
            ):
                event = session.create_text_message(body)
                event.jms_type = kind
                event.set_string_property("shop", shop)
                event.set_int_property("weight", weight)
                producer.send(event)
        statistics_when(route, lambda seen: seen.forwarded + seen.undeliverable == 5)  # type: ignore[arg-type]
    finally:
        route.stop()
    found = {name: here.texts(name) for name in ("west", "books", "heavy", "large", "rest")}
    assert found == {
        "west": ["one"],
        "books": ["two"],
        "heavy": ["three"],
        "large": ['{"total": 1000}'],
        "rest": ['{"total": 999}'],
    }


def test_within_one_broker_all_is_one_transaction_and_needs_no_ids(here: Client) -> None:
    route = started({"rule": [{"to": ["queue:a", "queue:b"]}]})
    try:
        session = here.session
        with session.create_producer(session.create_queue("events")) as producer:
            producer.disable_message_id = True
            producer.send(session.create_text_message("plain"))
        statistics_when(route, lambda seen: seen.forwarded == 1)  # type: ignore[arg-type]
    finally:
        route.stop()
    assert here.texts("a") == here.texts("b") == ["plain"]


def test_what_cannot_be_used_is_refused_before_anything_runs() -> None:
    def check(**settings: Any) -> str:
        request = RouteRequest(name="r", settings={"url": "vm://here", "source": "q", **settings}, clock=SystemClock())
        with pytest.raises(RouteError) as found:
            RouteRulesRunner().check(request)
        return found.value.reason

    assert "rules_file; one of the two" in check()
    assert "it has no rules" in check(rules={})
    assert "its source q at vm://here as a target" in check(rules={"rule": [{"to": "queue:q"}]})
    bad = {"rule": [{"to": "x"}], "targets": {"x": {"queue": "q", "url": "nowhere://x"}}}
    assert "targets.x.url: no provider is installed for nowhere://" in check(rules=bad)
    bad = {"rule": [{"to": "x"}], "targets": {"x": {"queue": "q", "url": "stomp://x?prefetch=1"}}}
    assert "targets.x.url: stomp://" in check(rules=bad)
    assert "No such file" in check(rules_file="/no/such/file.toml")

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from pyjms.forwarding.runner import ForwardRunner
from pyjms.spi.clock import SystemClock
from pyjms.spi.routes import RouteError, RouteRequest, RunningRoute
from pyjms_provider.model.errors import InvalidAttributesError
from pyjms_provider.model.managed import ManagedObject, State
from pyjms_provider.model.virtual_host import VirtualHost
from tests.provider.model.world import Folder
from tests.pyjms.forwarding.sites import Client

pytestmark = pytest.mark.realises("MOM-36", "MOM-51")
PATIENCE_MS = 20_000


def until(wanted: Callable[[], bool]) -> None:
    clock, pause = SystemClock(), Event()
    end_ms = clock.monotonic_ms() + PATIENCE_MS
    while not wanted():
        assert clock.monotonic_ms() < end_ms
        pause.wait(0.005)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    made = Folder(tmp_path)
    made.open()
    yield made
    made.close()


@pytest.fixture
def host(folder: Folder) -> VirtualHost:
    return folder.host()


def put(host: VirtualHost, queue: str, *texts: str) -> None:
    if queue not in {each.name for each in host.children("queue")}:
        host.create_child("queue", {"name": queue})
    for text in texts:
        host.child("queue", queue).invoke("publish", {"message": {"text": text}})


def forward(host: VirtualHost, **more: Any) -> ManagedObject:
    attributes = {
        "name": "to-there",
        "source": "orders",
        "targets": [{"url": "vm://there", "queue": "inbox"}],
        "require": "once only",
        **more,
    }
    return host.create_child("route", attributes, by="ann")


def values(route: ManagedObject, *names: str) -> list[Any]:
    found = route.statistic_values(list(names))
    return [found[name] for name in names]


def test_an_operator_makes_a_forwarder_and_sees_what_it_does(host: VirtualHost, there: Client) -> None:
    route = forward(host)
    assert (route.state, route.type) == (State.ACTIVE, "forward")
    put(host, "orders", "one", "two")
    until(lambda: values(route, "forwarded") == [2])
    assert there.texts("inbox") == ["one", "two"]
    assert values(route, "activity", "guarantee", "sent", "failed", "waiting", "last_error") == [
        "running",
        "once only",
        2,
        0,
        0,
        None,
    ]
    assert {each.protocol for each in host.embedded.clients().values()} == {"route to-there"}


def test_it_is_paused_resumed_stopped_and_started(host: VirtualHost, there: Client) -> None:
    route = forward(host)
    route.invoke("pause", {})
    until(lambda: values(route, "activity") == ["paused"])
    put(host, "orders", "one")
    assert there.texts("inbox") == []
    route.invoke("resume", {})
    until(lambda: values(route, "forwarded") == [1])
    route.invoke("stop", {})
    assert route.state is State.STOPPED
    put(host, "orders", "two")
    route.invoke("start", {})
    until(lambda: there.texts("inbox") == ["one", "two"])


def test_a_route_that_was_paused_is_paused_still_when_the_broker_comes_back(folder: Folder, there: Client) -> None:
    host = folder.host(stored=True)
    forward(host).invoke("pause", {}, by="ann")
    put(host, "orders", "one")
    folder.close()
    folder.open()
    host = folder.found_host()
    (found,) = host.children("route")
    assert found.attribute_values(["paused"]) == {"paused": True}
    assert found.facts()["updated_by"] == "ann"
    until(lambda: values(found, "activity") == ["paused"])
    assert there.texts("inbox") == []
    found.set_attributes({"linger_ms": 1}, by="ann")
    until(lambda: values(found, "activity") == ["paused"])
    assert there.texts("inbox") == []
    found.set_attributes({"paused": None}, by="ann")
    until(lambda: there.texts("inbox") == ["one"])


def test_what_was_counted_survives_a_pause(host: VirtualHost, there: Client) -> None:
    route = forward(host)
    put(host, "orders", "one")
    until(lambda: values(route, "forwarded") == [1])
    route.invoke("pause", {})
    until(lambda: values(route, "activity") == ["paused"])
    assert values(route, "forwarded") == [1]


def test_a_change_is_obeyed_at_once(host: VirtualHost, there: Client) -> None:
    route = forward(host)
    route.set_attributes({"targets": [{"url": "vm://there", "queue": "elsewhere"}]}, by="ann")
    put(host, "orders", "one")
    until(lambda: there.texts("elsewhere") == ["one"])
    assert there.texts("inbox") == []


@pytest.mark.parametrize("is_for_long", [False, True], ids=["once", "for long"])
def test_a_change_that_cannot_be_obeyed_leaves_the_route_as_it_was_or_says_why_it_does_not_run(
    host: VirtualHost, there: Client, is_for_long: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    route = forward(host)
    start = ForwardRunner.start

    def refuse(runner: ForwardRunner, request: RouteRequest) -> RunningRoute:
        if request.settings["batch"] == 7 or is_for_long:
            raise RouteError("no thread can be begun")
        return start(runner, request)

    with monkeypatch.context() as patch:
        patch.setattr(ForwardRunner, "start", refuse)
        with pytest.raises(RouteError, match="no thread"):
            route.set_attributes({"batch": 7}, by="ann")
    put(host, "orders", "one")
    if is_for_long:
        assert (route.state, route.facts()["error"]) == (State.ERRORED, "no thread can be begun")
        route.invoke("start", {})
    assert route.state is State.ACTIVE
    until(lambda: there.texts("inbox") == ["one"])


def test_what_cannot_be_used_is_refused_with_all_that_is_wrong(host: VirtualHost) -> None:
    with pytest.raises(InvalidAttributesError, match="no provider is installed for nowhere://"):
        forward(host, targets=[{"url": "nowhere://there"}])
    with pytest.raises(InvalidAttributesError, match="selector"):
        forward(host, selector="a >")
    assert list(host.children("route")) == []


def test_a_password_in_a_url_is_refused_as_it_would_be_seen(host: VirtualHost) -> None:
    with pytest.raises(InvalidAttributesError, match=r"targets.1.url.*holds a password") as told:
        forward(host, targets=[{"queue": "copies"}, {"url": "stomp://ann:hush-hush@there:61613", "queue": "inbox"}])
    assert "hush-hush" not in str(told.value)
    rules = {"targets": {"far": {"url": "stomp://ann:hush@there:1"}}, "rule": [{"to": ["far"]}]}
    with pytest.raises(InvalidAttributesError, match=r"rules.targets.far.url"):
        host.create_child("route", {"name": "far", "type": "route", "source": "orders", "rules": rules})


def test_a_url_that_is_found_wrong_when_it_is_used_makes_it_errored_with_the_reason(host: VirtualHost) -> None:
    route = forward(host, targets=[{"url": "vm://elsewhere?store=sqlite%3A%2F%2Fserver%2Fx.db", "queue": "inbox"}])
    put(host, "orders", "one")
    until(lambda: route.state is State.ERRORED)
    assert "SQLite has no server" in str(route.facts()["error"])
    assert [each.name for each in host.children("route")] == ["to-there"]
    route.set_attributes({"targets": [{"queue": "copies"}]}, by="ann")
    route.invoke("start", {})
    until(lambda: values(route, "forwarded") == [1])


def test_a_url_whose_provider_has_no_such_option_is_refused(host: VirtualHost) -> None:
    with pytest.raises(InvalidAttributesError, match="no_such_option"):
        forward(host, targets=[{"url": "stomp://127.0.0.1:1?no_such_option=1", "queue": "inbox"}])
    assert list(host.children("route")) == []


def test_a_site_that_is_away_is_shown_and_nothing_is_lost(host: VirtualHost) -> None:
    route = forward(host, targets=[{"url": "stomp://127.0.0.1:1?reconnect=no", "queue": "inbox"}], back_off_ms=5)
    put(host, "orders", "one")
    until(lambda: values(route, "failures")[0] > 1)
    assert values(route, "activity", "waiting", "backlog") == ["away", 1, 1]
    assert "127.0.0.1:1" in values(route, "last_error")[0]
    route.invoke("stop", {})
    assert host.child("queue", "orders").statistic_values(["waiting"]) == {"waiting": 1}


def test_rules_route_within_the_host_and_say_which_rule_wanted_what(host: VirtualHost) -> None:
    rules = {
        "rule": [
            {"name": "teas", "content": [{"json": "/item", "equals": "tea"}], "to": ["queue:teas"]},
            {"name": "others", "to": ["queue:others"]},
        ]
    }
    route = host.create_child("route", {"name": "by-item", "type": "route", "source": "orders", "rules": rules})
    put(host, "orders", '{"item": "tea"}', '{"item": "milk"}')
    until(lambda: values(route, "forwarded") == [2])
    assert values(route, "by_rule", "guarantee") == [{"teas": 1, "others": 2}, "once only"]
    with pytest.raises(InvalidAttributesError, match="there is no target 'nobody'"):
        route.set_attributes({"rules": {"rule": [{"to": ["nobody"]}]}})
    assert values(route, "activity") == ["running"]


def texts(host: VirtualHost, queue: str) -> list[str]:
    return [each["body"]["text"] for each in host.child("queue", queue).invoke("browse", {})["messages"]]


@pytest.mark.realises("MOM-46")
def test_an_application_is_added_by_altering_the_rules_and_those_that_are_there_go_on(host: VirtualHost) -> None:
    for queue in ("stock", "books"):
        put(host, queue)
    rules = [{"name": "stock", "to": ["queue:stock"]}]
    attributes = {"name": "by-rules", "type": "route", "source": "orders", "rules": {"rule": rules}}
    route = host.create_child("route", attributes)
    put(host, "orders", "one")
    until(lambda: texts(host, "stock") == ["one"])
    route.set_attributes({"rules": {"rule": [*rules, {"name": "books", "to": ["queue:books"]}]}})
    put(host, "orders", "two")
    until(lambda: texts(host, "books") == ["two"])
    assert texts(host, "stock") == ["one", "two"]


def test_it_comes_back_with_the_broker_and_its_password_is_secret(folder: Folder, there: Client) -> None:
    route = forward(folder.host(stored=True), user="ann", password="hush-hush")
    assert route.facts()["life_time"] == "permanent"
    folder.close()
    assert "hush-hush" not in "".join(each.read_text() for each in folder.path.rglob("*.json"))
    folder.open()
    host = folder.found_host()
    (found,) = host.children("route")
    assert found.state is State.ACTIVE
    put(host, "orders", "one")
    until(lambda: there.texts("inbox") == ["one"])


def test_what_waits_for_it_and_how_fast_it_is_are_shown(folder: Folder, there: Client) -> None:
    host = folder.host()
    route = forward(host)
    route.invoke("pause", {})
    until(lambda: values(route, "activity") == ["paused"])
    put(host, "orders", "one", "two")
    assert values(route, "backlog", "forward_rate") == [2, None]
    route.invoke("resume", {})
    until(lambda: values(route, "backlog", "forwarded") == [0, 2])
    until(lambda: (values(route, "forward_rate")[0] or 0) > 0)
    route.invoke("stop", {})
    assert values(route, "backlog") == [0]

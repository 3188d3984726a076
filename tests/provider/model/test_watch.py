"""Who looks over a virtual host's queues: the last hour, and alerts."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from threading import Semaphore
from typing import Any

import pytest

from pyjms import ConnectionFactory, TextMessage
from pyjms.testing import VirtualClock
from pyjms_provider.broker import stop_broker
from pyjms_provider.model.broker import manage, managed_host
from pyjms_provider.model.errors import InvalidAttributesError
from pyjms_provider.model.managed import ManagedObject
from pyjms_provider.model.metrics_sampler import STEP_MS
from pyjms_provider.model.virtual_host import VirtualHost
from tests.provider.helpers import HandClock
from tests.provider.model.world import Folder


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def host(folder: Folder, clock: HandClock) -> VirtualHost:
    folder.open(clock=clock)
    return folder.host()


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.INFO, "pyjms_provider.model.metrics_sampler"):
        yield caplog


def make(host: VirtualHost, name: str = "orders", **attributes: Any) -> ManagedObject:
    return host.create_child("queue", {"name": name, **attributes})


def publish(queue: ManagedObject, *texts: str) -> None:
    for text in texts:
        queue.invoke("publish", {"message": {"text": text}})


def look(host: VirtualHost, clock: HandClock, after_ms: int = STEP_MS) -> None:
    host.sampler.close()  # or the housekeeper, when it sees the time that is set here, looks as well
    clock.now_ms += after_ms
    host.sampler.sample(clock.time_ms())


def alerts(queue: ManagedObject) -> list[tuple[str, int, int]]:
    found = queue.statistic_values(["alerts", "alert_count"])
    assert found["alert_count"] == len(found["alerts"])
    return [(each["kind"], each["value"], each["limit"]) for each in found["alerts"]]


def codes(told: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage().partition(" ")[0] for record in told.records]


# Alerts


def test_a_queue_that_grows_too_deep_has_an_alert_until_it_shrinks(
    host: VirtualHost, clock: HandClock, told: pytest.LogCaptureFixture
) -> None:
    queue = make(host, alert_messages=2, alert_repeat_gap_ms=60_000)
    publish(queue, "a")
    look(host, clock)
    assert alerts(queue) == []
    publish(queue, "b", "c")
    look(host, clock)
    assert alerts(queue) == [("messages", 3, 2)]
    assert host.statistic_values(["alert_count"]) == {"alert_count": 1}
    look(host, clock)
    look(host, clock, 50_000)
    queue.invoke("purge", {})
    look(host, clock)
    assert alerts(queue) == []
    assert codes(told) == ["PYJMS-ALERT-1", "PYJMS-ALERT-2", "PYJMS-ALERT-3"]
    assert "queue main/shop/orders: it has 3 messages; the limit is 2" in told.text


def test_bytes_age_and_size_have_alerts_too(host: VirtualHost, clock: HandClock) -> None:
    heavy = make(host, "heavy", alert_bytes="100kB")
    old = make(host, "old", alert_age_ms=30_000)
    large = make(host, "large", alert_message_bytes="50kB")
    for queue in (heavy, old, large):
        publish(queue, "x" * 60_000, "y")
    look(host, clock)
    assert alerts(heavy) == []
    assert alerts(old) == []
    assert [kind for kind, *_ in alerts(large)] == ["message_bytes"]
    publish(heavy, "x" * 60_000)
    look(host, clock, 30_000)
    assert [kind for kind, *_ in alerts(heavy)] == ["bytes"]
    assert alerts(old) == [("age", 40_000, 30_000)]
    ids = [each["id"] for each in large.invoke("browse", {})["messages"]]
    large.invoke("delete_messages", {"message_ids": ids[:1]})
    old.invoke("purge", {})
    look(host, clock)
    assert alerts(large) == []
    assert alerts(old) == []


def test_a_queue_that_says_nothing_does_as_its_host_says(host: VirtualHost, clock: HandClock) -> None:
    host.set_attributes({"alert_messages": 1})
    said, silent, never = (
        make(host, "said", alert_messages=3),
        make(host, "silent"),
        make(host, "never", alert_messages=0),
    )
    for queue in (said, silent, never):
        publish(queue, "a", "b")
    look(host, clock)
    assert (alerts(said), alerts(silent), alerts(never)) == ([], [("messages", 2, 1)], [])
    assert said.attribute_values(["alert_messages"]) == {"alert_messages": 3}
    assert silent.attribute_values(["alert_messages"]) == {"alert_messages": 1}
    assert silent.attribute_values(["alert_messages"], actual=True) == {}
    host.set_attributes({"alert_messages": None})
    assert silent.attribute_values(["alert_messages"]) == {"alert_messages": 0}
    look(host, clock)
    assert alerts(silent) == []


def test_limits_may_be_variables(folder: Folder, clock: HandClock) -> None:
    folder.open(clock=clock, context={"pyjms.alert.messages": "1", "deep": "2"})
    host = folder.host()
    queue = make(host, "own", alert_messages="${deep}")
    assert host.attribute_values(["alert_messages"]) == {"alert_messages": 1}
    assert queue.attribute_values(["alert_messages"]) == {"alert_messages": 2}
    assert queue.attribute_values(["alert_messages"], actual=True) == {"alert_messages": "${deep}"}


@pytest.mark.parametrize("stored", [False, True])
def test_limits_outlive_a_restart(folder: Folder, clock: HandClock, stored: bool) -> None:
    folder.open(clock=clock)
    make(folder.host(stored=stored), alert_messages=1)
    folder.open(clock=clock)
    host = folder.found_host()
    queue = host.child("queue", "orders")
    publish(queue, "a")
    look(host, clock)
    assert alerts(queue) == [("messages", 1, 1)]
    queue.set_attributes({"alert_messages": None})
    look(host, clock)
    assert alerts(queue) == []


def test_messages_found_again_after_a_restart_have_their_age_and_size(folder: Folder, clock: HandClock) -> None:
    clock.now_ms = 10**9
    folder.open(clock=clock)
    queue = make(
        folder.host(stored=True), alert_age_ms=60_000, alert_bytes="30kB", alert_message_bytes="20kB", alert_messages=3
    )
    publish(queue, "x" * 25_000, *["y" * 5_000] * 2)
    clock.now_ms += 60_000
    folder.open(clock=clock)
    host = folder.found_host()
    look(host, clock)
    found = {kind: value for kind, value, _ in alerts(host.child("queue", "orders"))}
    assert found["messages"] == 3
    assert found["age"] == 60_000 + STEP_MS
    assert found["bytes"] == pytest.approx(35_000 + 3 * 600, rel=0.2)
    assert found["message_bytes"] == pytest.approx(25_600, rel=0.1)


def test_a_negative_limit_is_refused(host: VirtualHost) -> None:
    with pytest.raises(InvalidAttributesError, match="alert_age_ms"):
        make(host, alert_age_ms=-1)


def test_many_alerts_at_once_do_not_flood_the_log(
    host: VirtualHost, clock: HandClock, told: pytest.LogCaptureFixture
) -> None:
    host.set_attributes({"alert_messages": 1})
    for number in range(103):
        publish(make(host, f"q{number}"), "a")
    look(host, clock)
    assert codes(told) == ["PYJMS-ALERT-1"] * 100 + ["PYJMS-ALERT-4"]
    assert "3 more" in told.records[-1].getMessage()


def test_a_deleted_queue_leaves_no_alert(host: VirtualHost, clock: HandClock) -> None:
    queue = make(host, alert_messages=1)
    publish(queue, "a")
    look(host, clock)
    queue.delete()
    look(host, clock)
    assert host.statistic_values(["alert_count"]) == {"alert_count": 0}


def test_alerts_come_as_messages_to_who_subscribes() -> None:
    clock = VirtualClock()
    connection = ConnectionFactory("vm://alerting", clock=clock).create_connection()
    connection.start()
    session = connection.create_session(False, 1)
    system = manage("alerting")
    host = managed_host(system)
    consumer = session.create_consumer(session.create_topic("$alerts"))
    publish(make(host, alert_messages=1), "a")
    clock.advance(STEP_MS)
    message = consumer.receive(5_000)
    assert isinstance(message, TextMessage)
    assert message.jms_type == "pyjms.alert"
    assert message.get_string_property("pyjms_event") == "raised"
    assert json.loads(message.text or "") == {
        "queue": ["alerting", "alerting", "orders"],
        "kind": "messages",
        "event": "raised",
        "value": 1,
        "limit": 1,
        "unit": "messages",
        "since_ms": clock.time_ms(),
        "at_ms": clock.time_ms(),
    }
    system.close()
    connection.close()
    stop_broker("alerting")


# The last hour


def test_the_last_hour_of_a_queue_and_of_its_host(host: VirtualHost, clock: HandClock) -> None:
    queue = make(host)
    make(host, "other")
    look(host, clock)
    publish(queue, *map(str, range(20)))
    look(host, clock)
    queue.invoke("purge", {})
    look(host, clock)
    past = queue.invoke("history", {})
    assert past["step_ms"] == STEP_MS
    assert past["is_kept"]
    assert past["columns"]["depth"] == [0, 20, 0]
    assert past["columns"]["arrival_rate"] == [None, 2, 0]
    assert past["columns"]["delivery_rate"] == [None, 0, 0]
    assert past["columns"]["departure_rate"] == [None, 0, 2]
    assert past["columns"]["consumers"] == [0, 0, 0]
    assert past["columns"]["bytes"][1] == pytest.approx(20 * 600, rel=0.2)
    whole = host.invoke("history", {"since_ms": past["times_ms"][0]})
    assert whole["times_ms"] == past["times_ms"][1:]
    assert whole["columns"]["depth"] == [20, 0]
    assert whole["columns"]["arrival_rate"] == [2, 0]
    assert whole["columns"]["connections"] == [0, 0]


def test_the_busiest_queues_alone_have_a_past(host: VirtualHost, clock: HandClock) -> None:
    host.set_attributes({"history_queues": 2})
    queues = [make(host, name) for name in ("a", "b", "c")]
    look(host, clock)
    publish(queues[2], *"123")
    publish(queues[1], *"12")
    look(host, clock)
    assert [each.invoke("history", {})["is_kept"] for each in queues] == [False, True, True]
    publish(queues[0], "1")
    look(host, clock)
    assert not queues[0].invoke("history", {})["is_kept"], "others are busier still"
    publish(queues[0], *"1234")
    look(host, clock)
    assert [each.invoke("history", {})["is_kept"] for each in queues] == [True, False, True]


def test_a_clock_that_is_set_makes_no_wrong_rates(host: VirtualHost, clock: HandClock) -> None:
    queue = make(host)
    look(host, clock)
    for ahead_ms in (10**9, -5_000, 0):
        publish(queue, "a")
        clock.ahead_ms = ahead_ms
        look(host, clock)
        for past in (queue.invoke("history", {}), host.invoke("history", {})):
            assert past["columns"]["arrival_rate"][-1] == pytest.approx(0.1)
    assert host.invoke("history", {})["columns"]["arrival_rate"] == [None, *[pytest.approx(0.1)] * 2], (
        "what has a time that is still to come is forgotten"
    )
    publish(queue, "b")
    look(host, clock, 0)
    assert host.invoke("history", {})["columns"]["arrival_rate"][-1] is None, "nobody divides by no time"


def test_a_queue_made_anew_begins_at_nothing(host: VirtualHost, clock: HandClock) -> None:
    queue = make(host)
    publish(queue, *"12345")
    look(host, clock)
    queue.delete()
    publish(make(host), "1")
    look(host, clock)
    assert host.child("queue", "orders").invoke("history", {})["columns"]["arrival_rate"][-1] == pytest.approx(0.1)


def test_the_housekeeper_looks_each_ten_seconds_until_the_host_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = VirtualClock()
    connection = ConnectionFactory("vm://watched", clock=clock).create_connection()
    system = manage("watched")
    host = managed_host(system)
    sampler, looks = host.sampler, Semaphore(0)
    look_once = sampler.sample

    def noted(now_ms: int) -> None:
        look_once(now_ms)
        looks.release()

    monkeypatch.setattr(sampler, "sample", noted)
    for _ in range(3):
        clock.advance(STEP_MS)
        assert looks.acquire(timeout=20)
    assert host.invoke("history", {})["columns"]["connections"] == [1, 1, 1]
    system.close()
    assert sampler.run_due(clock.time_ms()) is None
    assert not looks.acquire(blocking=False), "it looks no more"
    connection.close()
    stop_broker("watched")

"""``pyjms browse``, ``purge``, ``move``, ``stats`` and ``bench``."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from typing import Any, TypeAlias

import pytest

from pyjms import Connection, ConnectionFactory, DeliveryMode
from pyjms.commands import moving
from pyjms.spi.capability import Capability
from pyjms.spi.registry import find_provider
from pyjms.spi.url import ProviderUrl
from pyjms_provider.queue_manager import QueueManager
from tests.pyjms.commands.conftest import Type
from tests.pyjms.demo.command_line import Run
from tests.pyjms.runtime.helpers import eventually
from tests.pyjms.runtime.wrapping import Wrapped
from tests.system.network.served import anonymous_broker, make_queue, port_of

Documents: TypeAlias = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def url(jms_broker_url: str, jms_connection: Connection) -> str:
    """A broker with the messages 1 to 5 in the queue `orders`, of the colours red and blue by turns."""
    session = jms_connection.create_session()
    producer = session.create_producer(session.create_queue("orders"))
    for number in range(1, 6):
        message = session.create_text_message(str(number))
        message.set_string_property("colour", "red" if number % 2 else "blue")
        producer.send(message, DeliveryMode.NON_PERSISTENT, 7, 3_600_000)
    return jms_broker_url


@pytest.fixture
def bodies(documents: Documents, url: str) -> Callable[[str], list[str]]:
    return lambda name: [each["body"] for each in documents("browse", url, name)]


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving, "_WAIT_MS", 20)


def test_browsing_shows_and_leaves(run_pyjms: Run, url: str, bodies: Callable[[str], list[str]]) -> None:
    code, out, err = run_pyjms("browse", url, "orders")
    assert (code, err) == (0, "5 messages\n")
    assert [line.split()[0] for line in out.splitlines()] == ["#", "1", "2", "3", "4", "5"]
    assert "colour=red" in out
    assert bodies("orders") == ["1", "2", "3", "4", "5"]


def test_browsing_shows_whole_ids_where_there_is_little_room(
    run_pyjms: Run, documents: Documents, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An id that was cut off was that of all messages of its sender."""
    monkeypatch.setenv("COLUMNS", "80")
    lines = run_pyjms("browse", url, "orders")[1].splitlines()
    assert lines[0].split() == ["#", "sent", "(UTC)", "id", "priority", "type", "properties", "body"]
    assert max(map(len, lines)) <= 80
    start, end = lines[0].index("id"), lines[0].index("priority")
    shown = "".join(line[start:end].strip() for line in lines[1:])
    assert shown == "".join(each["JMSMessageID"] for each in documents("browse", url, "orders"))


def test_a_wrong_selector_is_told_in_one_line_with_its_place(run_pyjms: Run, url: str) -> None:
    code, _, err = run_pyjms("browse", url, "orders", "--selector", "colour ==  'red'")
    assert (code, err) == (2, "pyjms browse: found '==': '=' compares for equality, at ^ in: colour ^== 'red'\n")


def test_browsing_can_be_limited_and_choose(run_pyjms: Run, url: str) -> None:
    code, out, err = run_pyjms("browse", url, "orders", "--limit", "1", "--selector", "colour = 'blue'", "--full")
    assert (code, "more than these 1" in err) == (0, True)
    assert "colour             blue" in out
    assert out.count("JMSMessageID") == 1


def test_browsing_an_empty_queue_shows_nothing(run_pyjms: Run, url: str) -> None:
    assert run_pyjms("browse", url, "nothing") == (0, "", "0 messages\n")


def test_purging_takes_what_is_chosen(run_pyjms: Run, url: str, bodies: Callable[[str], list[str]]) -> None:
    code, out, _ = run_pyjms("purge", url, "orders", "--selector", "colour = 'red'", "--yes", "--json")
    assert (code, json.loads(out)) == (0, {"queue": "orders", "removed": 3})
    assert bodies("orders") == ["2", "4"]
    assert run_pyjms("purge", url, "orders", "--yes")[1] == "removed 2 messages\n"
    assert bodies("orders") == []


def test_purging_asks_a_person(
    run_pyjms: Run, url: str, bodies: Callable[[str], list[str]], type_in: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    type_in(b"n\n")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    code, _, err = run_pyjms("purge", url, "orders")
    assert code == 1
    assert "Remove 5 messages from orders?" in err
    assert len(bodies("orders")) == 5


def test_purging_asks_also_where_the_broker_does_not_tell_how_many_there_are(
    run_pyjms: Run, url: str, bodies: Callable[[str], list[str]], type_in: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    type_in(b"n\n")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    with Wrapped(url, remove=Capability.BROWSING) as wrapped:
        code, _, err = run_pyjms("purge", wrapped.url, "orders")
    assert code == 1
    assert "Remove an unknown number of messages from orders?" in err
    assert len(bodies("orders")) == 5


def test_purging_asks_nobody_when_nobody_is_there(run_pyjms: Run, url: str, type_in: Type) -> None:
    type_in(b"y\n")
    code, _, err = run_pyjms("purge", url, "orders")
    assert (code, "say --yes" in err) == (2, True)


def test_moving_keeps_the_messages_as_they_are(run_pyjms: Run, url: str, documents: Documents) -> None:
    before = documents("browse", url, "orders")
    code, out, _ = run_pyjms("move", url, "orders", "archive", "--json")
    assert (code, json.loads(out)) == (0, {"from": "orders", "to": "archive", "moved": 5})
    after = documents("browse", url, "archive")
    for name in ("body", "JMSPriority", "JMSDeliveryMode"):
        assert [each[name] for each in after] == [each[name] for each in before]
    assert [each["properties"]["colour"] for each in after] == ["red", "blue", "red", "blue", "red"]
    assert all(abs(new["JMSExpiration"] - old["JMSExpiration"]) < 1000 for new, old in zip(after, before, strict=True))
    assert documents("browse", url, "orders") == []


def test_what_was_moved_away_may_be_moved_back_although_it_has_a_duplicate_id(
    run_pyjms: Run, url: str, bodies: Callable[[str], list[str]]
) -> None:
    run_pyjms("send", url, "invoices", "invoice 4711", "--duplicate-id", "4711", "--property", "n:int=1")
    for source, target in (("invoices", "parked"), ("parked", "invoices")):
        assert run_pyjms("move", url, source, target)[1] == f"moved 1 message to {target}\n"
    assert bodies("invoices") == ["invoice 4711"]
    assert run_pyjms("move", url, "invoices", "one", "--selector", "n = 1")[1] == "moved 1 message to one\n"


def test_moving_can_be_limited_and_choose(run_pyjms: Run, url: str, bodies: Callable[[str], list[str]]) -> None:
    run_pyjms("move", url, "orders", "archive", "--limit", "2", "--selector", "colour = 'red'")
    assert (bodies("archive"), bodies("orders")) == (["1", "3"], ["2", "4", "5"])


def test_moving_goes_to_another_broker(run_pyjms: Run, url: str, documents: Documents) -> None:
    other = f"{url}-other"
    try:
        assert run_pyjms("move", url, "orders", "orders", "--to-url", other)[:2] == (0, "moved 5 messages to orders\n")
        assert [each["body"] for each in documents("browse", other, "orders")] == ["1", "2", "3", "4", "5"]
    finally:
        find_provider("vm").stop_broker(ProviderUrl.parse(other))


@pytest.mark.parametrize("elsewhere", ["", "-other"])
def test_moving_fills_a_queue_with_less_room_than_a_transaction_wants(
    run_pyjms: Run, url: str, bodies: Callable[[str], list[str]], elsewhere: str
) -> None:
    other = url + elsewhere
    with closing(ConnectionFactory(other).create_connection()):
        QueueManager.of(other.removeprefix("vm://")).create("small", max_messages=3)
        code, _, err = run_pyjms("move", url, "orders", "small", *(("--to-url", other) if elsewhere else ()))
        assert (code, bodies("orders")) == (1, ["4", "5"])
        assert "3 messages were moved before, and 2 were not" in err
        assert "small is full" in err
        run_pyjms("purge", other, "small", "--yes")
        assert run_pyjms("move", url, "orders", "small", "--to-url", other)[0] == 0
        assert bodies("orders") == []
    if elsewhere:
        find_provider("vm").stop_broker(ProviderUrl.parse(other))


@pytest.mark.parametrize("scheme", ["stomp", "amqp"])
@pytest.mark.parametrize("to_url", [False, True])
def test_moving_over_a_network_fills_a_queue_too(run_pyjms: Run, url: str, scheme: str, *, to_url: bool) -> None:
    """Whether a message fits, a broker far away says at the commit only."""
    with anonymous_broker(name=scheme, type=scheme) as served:
        make_queue(served, name="small", max_messages=3)
        far = f"{scheme}://127.0.0.1:{port_of(served)}"
        if not to_url:
            assert run_pyjms("move", url, "orders", "orders", "--to-url", far)[0] == 0
        code, _, err = run_pyjms(
            "move", *((url, "orders", "small", "--to-url", far) if to_url else (far, "orders", "small"))
        )
        assert code == 1, err
        assert "3 messages were moved before, and 2 were not" in err
        assert "small is full" in err
        assert [line["body"] for line in _browsed(run_pyjms, far, "small")] == ["1", "2", "3"]
        left_at = url if to_url else far
        # A served broker keeps a message away for a moment that was given back twice.
        eventually(lambda: len(_browsed(run_pyjms, left_at, "orders")) == 2, "what is left is there again")
        assert [line["body"] for line in _browsed(run_pyjms, left_at, "orders")] == ["4", "5"]


def test_messages_are_sent_looked_at_moved_received_and_purged_over_amqp(run_pyjms: Run) -> None:
    with anonymous_broker(name="amqp", type="amqp") as served:
        url = f"amqp://127.0.0.1:{port_of(served)}"
        assert run_pyjms("send", url, "orders", "espresso", "--count", "5", "--property", "cups:int=2")[0] == 0
        assert [line["body"] for line in _browsed(run_pyjms, url, "orders")] == ["espresso"] * 5
        assert run_pyjms("move", url, "orders", "served", "--selector", "cups = 2", "--limit", "3")[0] == 0
        assert run_pyjms("receive", url, "served", "--count", "3") == (0, "espresso\n" * 3, "")
        code, out, _ = run_pyjms("stats", url, "orders", "--json")
        assert (code, json.loads(out)["queues"][0]["depth"]) == (0, 2)
        assert run_pyjms("purge", url, "orders", "--yes")[0] == 0
        assert _browsed(run_pyjms, url, "orders") == []


def _browsed(run_pyjms: Run, url: str, name: str) -> list[dict[str, Any]]:
    code, out, err = run_pyjms("browse", url, name, "--json")
    assert code == 0, err
    return [json.loads(line) for line in out.splitlines()]


def test_moving_in_a_circle_is_refused(run_pyjms: Run, url: str) -> None:
    code, _, err = run_pyjms("move", url, "orders", "queue:orders")
    assert (code, "both queues are the same" in err) == (2, True)


@pytest.mark.parametrize("command", [("purge", "--yes"), ("stats",), ("browse",), ("move", "elsewhere")])
def test_topics_are_refused_where_queues_are_wanted(run_pyjms: Run, url: str, command: tuple[str, ...]) -> None:
    name, *more = command
    code, _, err = run_pyjms(name, url, "topic:news", *more)
    assert (code, "topic:news is a topic" in err) == (2, True)


def test_stats_tell_of_broker_and_queues(run_pyjms: Run, url: str) -> None:
    code, out, _ = run_pyjms("stats", url, "orders", "queue:orders", "--json")
    assert code == 0
    data = json.loads(out)
    assert data["provider"] == "pyjms embedded broker"
    assert "browsing" in data["capabilities"]
    assert [(each["queue"], each["depth"]) for each in data["queues"]] == [("orders", 5), ("orders", 5)]
    assert data["queues"][0]["oldest_ms"] >= 0


def test_stats_of_a_queue_that_is_not_there_say_so_and_make_none(run_pyjms: Run, url: str) -> None:
    with anonymous_broker(name="both", type="amqp", protocols=["amqp", "stomp"]) as served:
        make_queue(served, name="empty")
        far = [(f"{protocol}://127.0.0.1:{port_of(served)}", "empty") for protocol in ("stomp", "amqp")]
        for broker, there in ((url, "orders"), *far):
            for _ in range(2):
                code, out, err = run_pyjms("stats", broker, there, "nothing")
                assert (code, err.count("\n")) == (1, 1), err
                assert "there is no queue nothing" in err
                assert [line.split()[0] for line in out.splitlines()[-2:]] == ["queue", there]
            code, out, _ = run_pyjms("stats", broker, "nothing", "--json")
            assert (code, json.loads(out)["queues"][0]["depth"]) == (1, None)


def test_stats_show_names_that_steer_no_terminal(run_pyjms: Run, url: str) -> None:
    run_pyjms("send", url, "evil\x1b[2J\x9b", "x")
    code, out, _ = run_pyjms("stats", url, "evil\x1b[2J\x9b")
    assert (code, "\x1b[2J" in out, "\x9b" in out) == (0, False, False)
    assert "evil\\x1b[2J\\x9b" in out
    _, out, _ = run_pyjms("stats", url, "evil\x7f\x80\x9b\xa0", "--json")
    assert "evil\\u007f\\u0080\\u009b\xa0" in out
    assert json.loads(out)["queues"][0]["queue"] == "evil\x7f\x80\x9b\xa0"


def test_stats_are_a_table_for_people(run_pyjms: Run, url: str) -> None:
    code, out, _ = run_pyjms("stats", url, "orders")
    assert (code, "pyjms embedded broker" in out) == (0, True)
    assert [word for line in out.splitlines() if line.startswith("orders") for word in line.split()][:3] == [
        "orders",
        "5",
        "0",
    ]


@pytest.mark.parametrize("batch", ["0", "7"])
def test_the_bench_measures_and_leaves_nothing(run_pyjms: Run, jms_broker_url: str, batch: str) -> None:
    asked = ("--count", "20", "--requests", "5", "--size", "10", "--batch", batch, "--queue", "bench")
    code, out, err = run_pyjms("bench", jms_broker_url, *asked, "--json")
    assert code == 0, err
    data = json.loads(out)
    assert [(each["what"], each["count"]) for each in data["results"]] == [
        ("send", 20),
        ("receive", 20),
        ("request and reply", 5),
    ]
    for each in data["results"]:
        assert each["per_second"] > 0
        latency = each["latency_ms"]
        assert latency["p50"] <= latency["p90"] <= latency["p99"] <= latency["max"]
    assert run_pyjms("browse", jms_broker_url, "bench")[2] == "0 messages\n"


def test_the_bench_is_a_table_for_people(run_pyjms: Run, jms_broker_url: str) -> None:
    code, out, _ = run_pyjms("bench", jms_broker_url, "--count", "5", "--requests", "2", "--non-persistent")
    assert code == 0
    assert "NON_PERSISTENT" in out
    assert [line.split()[0] for line in out.splitlines()[2:]] == ["send", "receive", "request"]

"""``pyjms dead-letters list`` and ``replay``."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from pyjms import Connection, ConnectionFactory, Session
from pyjms.commands import moving
from pyjms.spi.capability import Capability
from pyjms_provider.core.policy import Overflow, QueuePolicies, QueuePolicy
from pyjms_provider.queue_manager import QueueManager
from tests.pyjms.demo.command_line import Run
from tests.pyjms.runtime.wrapping import Wrapped
from tests.system.network.served import anonymous_broker, make_queue, port_of

Documents: TypeAlias = Callable[..., list[dict[str, Any]]]


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving, "_WAIT_MS", 20)


def give_up(connection: Connection, *names: str) -> None:
    """Send a message to each of these queues, with its place and colour, and give it back once too often."""
    connection.start()
    session = connection.create_session(True, Session.SESSION_TRANSACTED)
    producer = session.create_producer(None)
    for number, name in enumerate(names, 1):
        message = session.create_text_message(str(number))
        message.set_string_property("colour", "red" if number % 2 else "blue")
        message.set_string_property("JMS_pyjms_duplicateId", f"{name} {number}")
        producer.send(session.create_queue(name), message)
    session.commit()
    for name in sorted(set(names)):
        with session.create_consumer(session.create_queue(name)) as consumer:
            for _ in range(names.count(name)):
                consumer.receive()
        session.rollback()
    session.close()


@pytest.fixture
def manager(jms_broker_url: str, capsys: pytest.CaptureFixture[str]) -> QueueManager:
    """Of a broker that gives up at once, with four dead letters."""
    at_once = QueuePolicy(max_deliveries=1)
    manager = QueueManager.start(jms_broker_url, QueuePolicies(default=at_once, subscriptions=at_once))
    with ConnectionFactory(jms_broker_url).create_connection() as connection:
        give_up(connection, "orders", "payments", "orders", "orders")
    capsys.readouterr()  # what the broker warned of is none of a command's
    return manager


def bodies(manager: QueueManager, name: str) -> list[Any]:
    return [each.body for each in manager.browse(name)]


def test_letters_say_why_they_are_there(
    run_pyjms: Run, documents: Documents, manager: QueueManager, jms_broker_url: str
) -> None:
    code, out, err = run_pyjms("dead-letters", "list", jms_broker_url)
    assert (code, err) == (0, "4 messages\n")
    heading, first, *_ = out.splitlines()
    assert heading.split("  ")[0] == "given up (UTC)"
    for said in ("queue://orders", "it was delivered once, and given back"):
        assert said in first
    letter = documents("dead-letters", "list", jms_broker_url, "queue:DLQ", "--selector", "colour = 'blue'")[-1]
    told = letter["dead_letter"]
    assert (letter["body"], told["kind"], told["came_from"]) == ("2", "deliveries", "queue://payments")
    assert (told["deliveries"], told["subscription"]) == (1, None)
    assert told["consumer"] in out
    assert told["at_ms"] > 0
    assert (
        run_pyjms("dead-letters", "list", jms_broker_url, "--limit", "1")[2]
        == "there are more than these 1; see --limit\n"
    )


def test_a_list_fits_on_a_narrow_terminal(
    run_pyjms: Run, manager: QueueManager, jms_broker_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = run_pyjms("dead-letters", "list", jms_broker_url)[1].splitlines()
    assert max(map(len, lines)) <= 80
    assert " ".join(line[lines[0].index("why") :].strip() for line in lines[1:]).startswith(
        "it was delivered once, and given back"
    )


def test_letters_go_back_to_where_they_came_from(run_pyjms: Run, manager: QueueManager, jms_broker_url: str) -> None:
    code, out, err = run_pyjms("dead-letters", "replay", jms_broker_url)
    assert (code, err) == (0, "")
    assert [line.split() for line in out.splitlines()] == [
        ["sent", "back", "4", "messages", "to"],
        ["queue", "messages"],
        ["orders", "3"],
        ["payments", "1"],
    ]
    assert (bodies(manager, "orders"), bodies(manager, "payments"), bodies(manager, "DLQ")) == (
        ["1", "3", "4"],
        ["2"],
        [],
    )
    back = next(manager.browse("orders"))
    assert [name for name in back.properties if name.startswith("JMS_pyjms")] == []
    assert back.properties["colour"] == "red"
    assert run_pyjms("dead-letters", "replay", jms_broker_url)[:2] == (0, "sent back 0 messages\n")


def test_a_replay_can_choose_be_limited_and_only_tell(
    run_pyjms: Run, manager: QueueManager, jms_broker_url: str
) -> None:
    chosen = ("--selector", "colour = 'red' OR colour = 'blue'", "--limit", "2", "--json")
    expected = {"queue": "DLQ", "returned": 2, "to": {"queue:orders": 2}, "left": {}}
    for how, is_dry in ((("--dry-run",), True), ((), False)):
        assert len(bodies(manager, "DLQ")) == 4
        code, out, _ = run_pyjms("dead-letters", "replay", jms_broker_url, *chosen, *how)
        assert (code, json.loads(out)) == (0, expected | {"dry_run": is_dry})
    assert bodies(manager, "DLQ") == ["4", "2"]


def test_what_cannot_go_back_stays_and_is_told_by_name(
    run_pyjms: Run, manager: QueueManager, jms_broker_url: str
) -> None:
    with ConnectionFactory(jms_broker_url, client_id="ann").create_connection() as connection:
        session = connection.create_session(True, Session.SESSION_TRANSACTED)
        topic, aside = session.create_topic("news"), session.create_temporary_queue()
        subscribers = [session.create_durable_subscriber(topic, "daily"), session.create_consumer(topic)]
        producer = session.create_producer(None)
        for number, target in enumerate((topic, aside, session.create_queue("DLQ"))):
            producer.send(target, session.create_text_message(f"stays {number}"))
        session.commit()
        connection.start()
        for each in (*subscribers, session.create_consumer(aside)):
            assert each.receive(10_000) is not None
        session.rollback()
    code, out, err = run_pyjms("dead-letters", "replay", jms_broker_url, "--json")
    told = json.loads(out)
    assert (code, told["returned"], told["left"]) == (1, 4, {"unknown": 1, "subscription": 1, "gone": 2})
    assert bodies(manager, "DLQ") == ["stays 2", "stays 0", "stays 0", "stays 1"]
    for said in (
        "1 message stays, of unknown origin: no property JMS_pyjms_deadDestination names a destination (PYJMS-LETTER-WITHOUT-ORIGIN)",
        "1 message stays, of durable subscriptions, into which only the broker puts them back (PYJMS-LETTER-OF-SUBSCRIPTION)",
        "pyjms manage call http://… dead_letter NODE/HOST/DLQ replay",
        "2 messages stay, of temporary destinations, or of topics alone: who they were for has gone (PYJMS-LETTER-WITHOUT-TARGET)",
    ):
        assert said in err
    assert run_pyjms("dead-letters", "replay", jms_broker_url, "--selector", "colour = 'red'")[0] == 0


def test_a_full_queue_breaks_off_with_what_fits_sent_back(
    run_pyjms: Run, manager: QueueManager, jms_broker_url: str
) -> None:
    manager.alter("orders", max_messages=1, overflow=Overflow.REJECT)
    code, _, err = run_pyjms("dead-letters", "replay", jms_broker_url)
    assert (code, "orders is full" in err) == (1, True)
    assert "1 message was sent back before, and 3 were not" in err
    assert (bodies(manager, "orders"), bodies(manager, "payments"), bodies(manager, "DLQ")) == (
        ["1"],
        [],
        ["3", "4", "2"],
    )


@pytest.mark.parametrize("protocol", ["stomp", "amqp"])
def test_letters_of_a_broker_elsewhere_go_back_too(run_pyjms: Run, documents: Documents, protocol: str) -> None:
    with anonymous_broker(name=protocol, type=protocol) as served:
        for name in ("orders", "payments"):
            make_queue(served, name=name, max_deliveries=1)
        url = f"{protocol}://127.0.0.1:{port_of(served)}"
        with ConnectionFactory(url).create_connection() as connection:
            give_up(connection, "orders", "payments", "orders")
        assert [each["dead_letter"]["came_from"] for each in documents("dead-letters", "list", url)] == [
            "queue://orders",
            "queue://orders",
            "queue://payments",
        ]
        code, out, err = run_pyjms("dead-letters", "replay", url, "--json")
        assert (code, json.loads(out)["to"], err) == (0, {"queue:orders": 2, "queue:payments": 1}, "")
        assert [each["body"] for each in documents("browse", url, "orders")] == ["1", "3"]
        assert documents("dead-letters", "list", url) == []


def test_a_broker_that_shows_no_messages_sends_back_what_it_can_choose(
    run_pyjms: Run, manager: QueueManager, jms_broker_url: str
) -> None:
    with Wrapped(jms_broker_url, remove=Capability.BROWSING) as wrapped:
        for more in (("list",), ("replay", "--dry-run")):
            code, _, err = run_pyjms("dead-letters", *more[:1], wrapped.url, *more[1:])
            assert (code, "Capability.BROWSING" in err) == (2, True)
        assert run_pyjms("dead-letters", "replay", wrapped.url, "--json")[0] == 0
    assert bodies(manager, "DLQ") == []
    with Wrapped(jms_broker_url, remove=Capability.SELECTORS | Capability.BROWSING) as wrapped:
        code, _, err = run_pyjms("dead-letters", "replay", wrapped.url)
        assert (code, "Capability.SELECTORS" in err) == (2, True)


@pytest.mark.parametrize("command", ["list", "replay"])
def test_a_wrong_selector_is_told_as_it_was_typed(run_pyjms: Run, jms_broker_url: str, command: str) -> None:
    code, _, err = run_pyjms("dead-letters", command, jms_broker_url, "--selector", "colour == 'red'")
    assert code == 2
    assert err == f"pyjms dead-letters {command}: found '==': '=' compares for equality, at ^ in: colour ^== 'red'\n"


def test_at_a_real_activemq_what_says_where_it_came_from_goes_back_and_the_rest_stays(
    run_pyjms: Run, activemq: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "_WAIT_MS", 2_000)
    url, dead, orders = f"stomp://127.0.0.1:{activemq['stomp']}", "dead-letters.dead", "dead-letters.orders"
    origin = f"JMS_pyjms_deadDestination:queue\\c//{orders}\n"
    with socket.create_connection(
        ("127.0.0.1", activemq["stomp"]), timeout=30
    ) as other:  # the API lets nobody set that
        other.sendall(b"CONNECT\naccept-version:1.2\nhost:x\n\n\0")
        for body, said in (("a", origin), ("b", ""), ("c", origin)):
            other.sendall(f"SEND\ndestination:/queue/{dead}\npersistent:true\n{said}\n{body}\0".encode())
        other.sendall(b"DISCONNECT\nreceipt:end\n\n\0")
        told = b""
        while b"receipt-id:end" not in told:
            told += (more := other.recv(4096))
            assert more, told
    code, out, err = run_pyjms("dead-letters", "replay", url, dead, "--json")
    assert (code, json.loads(out)["to"], json.loads(out)["left"]) == (1, {f"queue:{orders}": 2}, {"unknown": 1})
    assert "PYJMS-LETTER-WITHOUT-ORIGIN" in err
    for name, expected in ((orders, "a\nc\n"), (dead, "b\n")):
        assert run_pyjms("receive", url, name, "--count", str(len(expected) // 2))[1] == expected

"""``pyjms story``: of a broker in this process by its http port, of recorded clients, and of brokers that tell none."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from pyjms import ConnectionFactory, Session
from pyjms_provider.broker import stop_broker
from pyjms_provider.serving.served_broker import ServedBroker
from tests.pyjms.demo.command_line import Run


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBroker]:
    """A broker whose virtual host `a/told` writes all stories, and `b/silent` none; everybody may do everything."""
    folder = tmp_path_factory.mktemp("stories")
    with ServedBroker.open(name="managed") as broker:
        top = broker.broker
        top.create_child("authentication_provider", {"name": "anonymous", "type": "anonymous"})
        top.create_child("access_control", {"name": "access", "rules": [{"effect": "allow", "who": "*"}]})
        for node, host, story in (("a", "told", "all"), ("b", "silent", "off")):
            made = top.create_child("virtual_host_node", {"name": node, "type": "memory"})
            chosen = {"name": host, "story": story, "story_directory": str(folder)}
            made.create_child("virtual_host", chosen).create_child("queue", {"name": "orders"})
        open_to_all = {"authentication_providers": ["anonymous"], "access_control": "access"}
        top.create_child("port", {"name": "http", "type": "http", "port": 0, **open_to_all})
        yield broker


@pytest.fixture
def url(served: ServedBroker) -> str:
    (address,) = served.addresses()
    return address


@pytest.fixture
def publish(served: ServedBroker) -> Callable[..., str]:
    """Puts a message into `orders` of a virtual host; gives its id."""

    def put(node: str = "a", host: str = "told", **message: Any) -> str:
        above = served.broker.child("virtual_host_node", node).child("virtual_host", host)
        orders = above.child("queue", "orders")
        orders.invoke("publish", {"message": {"text": "one", **message}})
        newest: str = orders.invoke("browse", {})["messages"][-1]["id"]
        return newest

    return put


def test_a_story_is_a_table_with_where_the_message_is_now(
    run_pyjms: Run, url: str, publish: Callable[..., str]
) -> None:
    message_id = publish()
    code, out, err = run_pyjms("story", message_id, "--url", url)
    assert code == 0, err
    lines = out.splitlines()
    assert lines[0] == f"{message_id} at a/told"
    assert lines[2].split()[2:5] == ["queue://orders", "NEW", "accepted;"]
    assert lines[-1].startswith("now queue://orders: NEW")
    assert "b/silent writes no stories" in err


def test_for_programs_it_is_json_and_messages_are_found_by_correlation_id(
    run_pyjms: Run, url: str, publish: Callable[..., str]
) -> None:
    message_ids = [publish(correlation_id="A-17"), publish(correlation_id="A-17")]
    code, out, _ = run_pyjms("story", "--correlation-id", "A-17", "--broker", url, "--virtual-host", "a/told", "--json")
    assert code == 0
    told = json.loads(out)
    assert [each["message_id"] for each in told["stories"]] == message_ids
    assert told["virtual_hosts"]["a/told"]["level"] == "all"


def test_where_a_message_is_now_is_told_without_a_story_too(
    run_pyjms: Run, url: str, publish: Callable[..., str]
) -> None:
    message_id = publish("b", "silent")
    code, out, _ = run_pyjms("story", message_id, "--url", url)
    assert (code, out.splitlines()) == (
        0,
        [f"{message_id} at b/silent", "now queue://orders: NEW, delivered 0 times"],
    )


def test_a_message_that_nobody_knows_ends_with_one(run_pyjms: Run, url: str) -> None:
    code, out, err = run_pyjms("story", "ID:nobody", "--url", url)
    assert (code, out) == (1, "")
    assert "nothing is known of a message with id ID:nobody" in err


class _Foreign(BaseHTTPRequestHandler):
    """Answers as some other broker's console might."""

    answer = b"<html>no such page</html>"

    def do_GET(self) -> None:
        self.send_response(404 if self.path.startswith("/api") else 200)
        self.end_headers()
        self.wfile.write(self.answer)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.mark.parametrize("answer", [b"<html>no such page</html>", b"[" * 100_000])
def test_a_foreign_broker_is_said_to_tell_no_stories(
    run_pyjms: Run, monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    monkeypatch.setattr(_Foreign, "answer", answer)
    with HTTPServer(("127.0.0.1", 0), _Foreign) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            code, _, err = run_pyjms("story", "ID:1", "--url", f"http://127.0.0.1:{server.server_port}")
        finally:
            server.shutdown()
            thread.join()
    assert code == 2
    assert "PYJMS-STORY-UNAVAILABLE" in err
    assert "--history DIR" in err


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("ID:1", "--url", "stomp://127.0.0.1:61613"), 2, "PYJMS-STORY-UNAVAILABLE"),
        (("ID:1", "--url", "http://127.0.0.1:1"), 1, "nothing answers"),
        (("ID:1", "--url", "http://ann:secret@127.0.0.1:1"), 2, "no place for a user's name"),
        ((), 2, "say which message"),
        (("ID:1", "--correlation-id", "A"), 2, "say which message"),
        (("--correlation-id", "A", "--history", "."), 2, "by the ID of a message alone"),
        (("ID:1", "--history", "nowhere"), 2, "nowhere"),
    ],
)
def test_what_cannot_be_done_is_told_in_one_line(
    run_pyjms: Run, arguments: tuple[str, ...], code: int, told: str
) -> None:
    found, _, err = run_pyjms("story", *arguments)
    assert (found, told in err) == (code, True), err


def test_recorded_clients_tell_the_story_of_a_foreign_brokers_message(run_pyjms: Run, tmp_path: Path) -> None:
    with ConnectionFactory(f"vm://recorded?record={tmp_path}").create_connection() as connection:
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        message = session.create_text_message("one")
        session.create_producer(session.create_queue("orders")).send(message)
    stop_broker("recorded")
    code, out, err = run_pyjms("story", str(message.jms_message_id), "--history", str(tmp_path))
    assert code == 0, err
    assert "sent to queue://orders" in " ".join(out.split())

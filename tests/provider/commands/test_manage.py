"""``pyjms manage``, against a broker in this process that serves its REST API."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from pyjms.flows.store import open_store
from pyjms_provider.clients.vm import VmConnection
from pyjms_provider.commands import rest_client
from pyjms_provider.commands.rest_client import NoAnswerError, OperationDescription, RestClient
from pyjms_provider.model.virtual_host import VirtualHost
from pyjms_provider.serving.served_broker import ServedBroker
from tests.provider.helpers import RecordedEvents
from tests.pyjms.demo.command_line import Run
from tests.pyjms.flows.supply import SUPPLY_FLOW, keep, parked

Documents: TypeAlias = Callable[..., Any]
HOST = "default/shop"


@pytest.fixture(scope="module")
def broker() -> Iterator[ServedBroker]:
    """A broker whose REST API lets everybody do everything."""
    with ServedBroker.open(name="managed") as broker:
        top = broker.broker
        top.create_child("authentication_provider", {"name": "anonymous", "type": "anonymous"})
        top.create_child("access_control", {"name": "access", "rules": [{"effect": "allow", "who": "*"}]})
        node = top.create_child("virtual_host_node", {"name": "default", "type": "memory"})
        node.create_child("virtual_host", {"name": "shop"}).create_child("queue", {"name": "asked"})
        open_to_all = {"authentication_providers": ["anonymous"], "access_control": "access"}
        top.create_child("port", {"name": "http", "type": "http", "port": 0, **open_to_all})
        yield broker


@pytest.fixture(scope="module")
def served(broker: ServedBroker) -> str:
    """The address of its REST API."""
    [address] = broker.addresses()
    return address


@pytest.fixture
def documents(run_pyjms: Run, served: str) -> Documents:
    """Runs ``pyjms manage COMMAND URL …`` with ``--json``, which must succeed, and gives what it prints."""

    def run(command: str, *arguments: str) -> Any:
        code, out, err = run_pyjms("manage", command, served, *arguments, "--json")
        assert code == 0, err
        return json.loads(out)

    return run


@pytest.mark.parametrize(("category", "address"), [("broker", ()), ("queue", (f"{HOST}/asked",))])
def test_a_list_of_what_one_address_names_has_that_object(
    run_pyjms: Run, served: str, documents: Documents, category: str, address: tuple[str, ...]
) -> None:
    page = documents("list", category, *address, "--fields", "category")
    assert page == {"items": [{"category": category}], "total": 1, "offset": 0}
    code, out, err = run_pyjms("manage", "list", served, category, *address, "--limit", "1")
    assert (code, err) == (0, "1 in all\n")
    assert ("managed" if category == "broker" else "asked") in out


def test_a_list_below_what_has_nothing_below_it_says_how_addresses_are_written(run_pyjms: Run, served: str) -> None:
    code, out, err = run_pyjms("manage", "list", served, "queue", f"{HOST}/asked/more")
    assert (code, out) == (2, "")
    assert f"the address of a queue is VIRTUAL_HOST_NODE/VIRTUAL_HOST/QUEUE, not '{HOST}/asked/more'" in err


def test_objects_are_created_changed_listed_and_deleted(run_pyjms: Run, served: str, documents: Documents) -> None:
    for name, most in (("a", 10), ("b", 20), ("c", 30)):
        created = documents("create", "queue", f"{HOST}/cycle.{name}", f"max_messages={most}", "description=x=y")
        assert (created["max_messages"], created["description"]) == (most, "x=y")
    changed = documents(
        "set", "queue", f"{HOST}/cycle.b", "paused=true", "max_messages:=25", "--default", "description"
    )
    assert (changed["paused"], changed["max_messages"], changed["description"]) == (True, 25, None)
    assert documents("show", "queue", f"{HOST}/cycle.b", "--fields", "name,paused") == {
        "name": "cycle.b",
        "paused": True,
    }
    chosen = ("--filter", "name LIKE 'cycle.%' AND max_messages > 10", "--sort", "-max_messages", "--fields", "name")
    assert documents("list", "queue", HOST, *chosen) == {
        "items": [{"name": "cycle.c"}, {"name": "cycle.b"}],
        "total": 2,
        "offset": 0,
    }
    assert run_pyjms("manage", "delete", served, "queue", f"{HOST}/cycle.b", "--yes")[0] == 0
    assert documents("list", "queue", *chosen)["total"] == 1


def test_operations_take_arguments_and_give_results(run_pyjms: Run, served: str, documents: Documents) -> None:
    address = f"{HOST}/operated"
    documents("create", "queue", address)
    for _ in range(3):
        documents("call", "queue", address, "publish", 'message:={"text": "hello"}')
    browsed = documents("call", "queue", address, "browse", "limit=2")
    assert [each["body"]["text"] for each in browsed["result"]["messages"]] == ["hello", "hello"]
    moved = documents("call", "queue", address, "move_messages", "target=elsewhere", "most=1")
    assert moved["result"] == {"messages": 1}
    code, out, _ = run_pyjms("manage", "call", served, "queue", address, "purge")
    assert (code, "2" in out) == (0, True)
    assert documents("show", "queue", address, "--fields", "depth") == {"depth": 0}


def test_names_may_hold_any_character(documents: Documents) -> None:
    created = documents("create", "queue", f"{HOST}/odd%2Fname ü%25")
    assert created["name"] == "odd/name ü%"
    assert documents("show", "queue", f"{HOST}/odd%2Fname%20ü%25")["id"] == created["id"]


def test_lists_are_fetched_page_by_page(documents: Documents, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(7):
        documents("create", "queue", f"{HOST}/page.{number}")
    monkeypatch.setattr(rest_client, "_PAGE", 3)
    chosen = ("--filter", "name LIKE 'page.%'", "--sort", "name", "--fields", "name")

    def names(*options: str) -> str:
        found = documents("list", "queue", *chosen, *options)
        assert found["total"] == 7
        return "".join(each["name"][-1] for each in found["items"])

    assert names("--limit", "0") == "0123456"
    assert names("--limit", "5") == "01234"
    assert names("--limit", "5", "--offset", "4") == "456"


def test_people_get_tables(run_pyjms: Run, served: str) -> None:
    code, out, err = run_pyjms("manage", "list", served, "virtual_host")
    assert (code, err) == (0, "1 in all\n")
    assert out.splitlines()[0].split()[0] == "address"
    assert out.splitlines()[1].split()[0] == HOST
    assert "uptime_ms" in run_pyjms("manage", "show", served, "broker")[1]
    code, out, _ = run_pyjms("manage", "describe", served, "queue")
    assert (code, "Delete all messages" in out, "max_messages" in out) == (0, True, True)
    assert "virtual_host_node/virtual_host/queue" in run_pyjms("manage", "describe", served)[1]


def test_addresses_are_whole_where_there_is_little_room(
    run_pyjms: Run, served: str, documents: Documents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was cut off could be given to no other command; nor could headings be read."""
    address = f"{HOST}/{'orders.failed.' * 3}"
    documents("create", "queue", address)
    monkeypatch.setenv("COLUMNS", "80")
    head, row = run_pyjms("manage", "list", served, "queue", "--filter", "name LIKE 'orders.failed.%'")[1].splitlines()
    assert (row.split()[0], "state" in head.split()) == (address, True)
    assert "…" not in head + row
    asked = run_pyjms(
        "manage",
        "list",
        served,
        "queue",
        "--fields",
        "name,max_redelivery_delay_ms,alert_repeat_gap_ms,max_bytes,state",
    )[1]
    assert "…" not in asked


def test_alerts_are_in_the_table_as_soon_as_there_are_any(
    run_pyjms: Run, served: str, broker: ServedBroker, documents: Documents
) -> None:
    queue = f"{HOST}/alerting"
    documents("create", "queue", queue, "alert_messages=1")
    listed = ("manage", "list", served, "queue", HOST, "--filter", "name = 'alerting'")
    assert "alert_count" not in run_pyjms(*listed)[1]
    documents("call", "queue", queue, "publish", 'message:={"text": "one"}')
    host = broker.broker.child("virtual_host_node", "default").child("virtual_host", "shop")
    assert isinstance(host, VirtualHost)
    host.sampler.sample(host.clock.time_ms())
    assert "alert_count" in run_pyjms(*listed)[1]
    [alert] = documents("show", "queue", queue, "--fields", "alerts")["alerts"]
    assert (alert["kind"], alert["value"], alert["limit"]) == ("messages", 1, 1)


def test_the_description_is_that_of_the_api(documents: Documents) -> None:
    described = {each["category"]: each for each in documents("describe")}
    assert described["queue"]["address"] == ["virtual_host_node", "virtual_host", "queue"]
    assert described["queue"]["operations"]["purge"]["is_long"] is True
    assert described["broker"]["address"] == []
    assert described["consumer"]["is_changeable"] is False
    assert described["port"]["attributes"]["port"]["description"]
    unsaid = [(name, field) for name, each in described.items() for field, text in each["fields"].items() if not text]
    assert {field for _, field in unsaid} <= {"name", "type"}, unsaid


def test_a_secret_comes_from_a_file(documents: Documents, tmp_path: Path) -> None:
    (tmp_path / "note").write_text("from a file\n")
    created = documents("create", "queue", f"{HOST}/filed", f"description=@{tmp_path / 'note'}")
    assert created["description"] == "from a file"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("list", "nope"), "there is no category 'nope'"),
        (("list", "queue", "--filter", "a b"), "expected an operator"),
        (("list", "queue", "--sort", "zzz"), "a queue has no field 'zzz'; it has: alert_age_ms, "),
        (("create", "queue", f"{HOST}/new", "max_bytes=10XB"), "should be a number of bytes, as 200MB or 1GiB"),
        (("show", "queue", "x"), "is VIRTUAL_HOST_NODE/VIRTUAL_HOST/QUEUE, not 'x'"),
        (("show", "queue", f"{HOST}/none"), "none"),
        (("create", "queue", f"{HOST}/new", "max_messages=many"), "max_messages"),
        (("create", "queue", f"{HOST}/new", "colour=red"), "colour"),
        (("create", "queue", f"{HOST}/new", "colour"), "write NAME=VALUE"),
        (("create", "queue", f"{HOST}/new", "max_messages:=many"), "is no JSON"),
        (("create", "queue", f"{HOST}/new", "description=@/no/such/file"), "/no/such/file: No such file"),
        (("create", "queue", f"{HOST}/new", "description=?"), "nobody is there to be asked"),
        (("set", "virtual_host", HOST), "say what to change"),
        (("call", "queue", f"{HOST}/any", "explode"), "has no operation 'explode'; it has: "),
        (("delete", "port", "none", "--yes"), "none"),
        (("delete", "port", "http"), "nobody is there to be asked; say --yes"),
        (("call", "queue", f"{HOST}/asked", "move_messages", "target=x", "selector=a ="), "a ="),
    ],
)
def test_what_cannot_be_done_is_told_in_one_line(
    run_pyjms: Run, served: str, arguments: tuple[str, ...], told: str
) -> None:
    command, *rest = arguments
    code, out, err = run_pyjms("manage", command, served, *rest)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert told in err


@pytest.mark.parametrize(
    ("url", "wanted", "told"),
    [
        ("ftp://127.0.0.1", 2, "no address of a broker's REST API"),
        ("stomp://127.0.0.1:61613", 2, "no address of a broker's REST API"),
        ("http://127.0.0.1:x", 2, "is no URL"),
        ("http://me:secret@127.0.0.1", 2, "say --user NAME"),
        ("http://127.0.0.1:1", 1, "nothing answers at http://127.0.0.1:1: Connection refused; see"),
        ("https://127.0.0.1:1", 1, "nothing answers at https://127.0.0.1:1"),
    ],
)
def test_an_address_without_a_broker_is_told(run_pyjms: Run, url: str, wanted: int, told: str) -> None:
    code, out, err = run_pyjms("manage", "list", url, "queue")
    assert (code, out, err.count("\n")) == (wanted, "", 1)
    assert told in err
    assert "secret" not in err


# What a broker may answer, from one that does as it is told

_Answer: TypeAlias = tuple[int, Mapping[str, str], bytes]


class _Answering(HTTPServer):
    """Answers each request with the next of `answers`, and notes what was asked."""

    def __init__(self, answers: list[_Answer]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers = answers
        self.asked: list[tuple[str, str, str | None]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: _Answering

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", "0")))
        self.server.asked.append((self.command, self.path, self.headers.get("authorization")))
        status, headers, body = self.server.answers.pop(0)
        self.send_response(status)
        for name, value in {**headers, "content-length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_DELETE = _answer

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def answer() -> Iterator[Callable[..., _Answering]]:
    started: list[tuple[_Answering, threading.Thread]] = []

    def start(*answers: _Answer) -> _Answering:
        server = _Answering(list(answers))
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        started.append((server, thread))
        return server

    yield start
    for server, thread in started:
        server.shutdown()
        thread.join()
        server.server_close()


def _json(value: Any) -> _Answer:
    return 200, {}, json.dumps(value).encode()


_PURGE = OperationDescription(name="purge", summary="", is_long=True, arguments={}, required=frozenset())


def test_a_redirection_is_not_followed_with_the_password(answer: Callable[..., _Answering]) -> None:
    thief = answer()
    server = answer((302, {"location": thief.url}, b""))
    with (
        RestClient(server.url, user=("boss", "secret")) as client,
        pytest.raises(rest_client.RefusedError, match="answers 302"),
    ):
        client.get("broker", ())
    assert thief.asked == []


def test_what_is_no_broker_is_told(answer: Callable[..., _Answering]) -> None:
    server = answer((200, {}, b"<html>"))
    with RestClient(server.url) as client, pytest.raises(NoAnswerError, match="not as a pyjms broker does"):
        client.get("broker", ())


def test_a_long_operation_tells_how_far_it_is(answer: Callable[..., _Answering]) -> None:
    job = {"id": "j/1", "done": 1, "total": 3, "state": "running"}
    done = {**job, "done": 3, "state": "done", "result": {"messages": 3}}
    server = answer(_json(job), _json({**job, "done": 2}), _json(done))
    heard: list[tuple[int, int | None]] = []
    with RestClient(server.url, token="t") as client:
        result = client.call("queue", ("q",), _PURGE, {}, lambda *how_far: heard.append(how_far))
    assert result == {"messages": 3}
    assert heard == [(1, 3), (2, 3)]
    assert server.asked[-1] == ("GET", "/api/latest/job/j%2F1", "Bearer t")


def test_an_interrupted_operation_is_ended_at_the_broker(answer: Callable[..., _Answering]) -> None:
    job = {"id": "j", "done": 1, "total": 3, "state": "running"}
    server = answer(_json(job), _json({**job, "state": "ended"}))

    def interrupt(done: int, total: int | None) -> None:
        raise KeyboardInterrupt

    with RestClient(server.url) as client, pytest.raises(KeyboardInterrupt):
        client.call("queue", ("q",), _PURGE, {}, interrupt)
    assert server.asked[-1][:2] == ("DELETE", "/api/latest/job/j")


def test_an_operation_that_failed_says_why(answer: Callable[..., _Answering]) -> None:
    failed = {"id": "j", "done": 1, "total": 3, "state": "failed", "error": {"reason": "the disk is full"}}
    with (
        RestClient(answer(_json(failed)).url) as client,
        pytest.raises(rest_client.RefusedError, match="the disk is full") as caught,
    ):
        client.call("queue", ("q",), _PURGE, {}, lambda *_: None)
    assert caught.value.is_failure


@pytest.mark.parametrize("command", ["list", "show", "create", "set", "delete", "call", "describe"])
def test_each_command_teaches_by_examples(run_pyjms: Run, command: str) -> None:
    code, out, _ = run_pyjms("manage", command, "--help")
    assert code == 0
    assert f"pyjms manage {command} http" in out.partition("Examples:")[2]


def test_the_examples_of_operations_name_what_there_is() -> None:
    from pyjms_provider.commands.manage import _EXAMPLES
    from pyjms_provider.model import tree
    from pyjms_provider.model.operations import operations_of

    for example in _EXAMPLES["call"]:
        _, _, category, _, operation, *_ = example.split()
        kinds = [tree.class_of(category, name)[1] for name in tree.types_of(category)]
        assert any(operation in operations_of(kind) for kind in kinds), example


def test_workflows_are_listed_looked_at_and_decided_about(
    run_pyjms: Run, served: str, documents: Documents, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'flows.db'}"
    with closing(open_store(url)) as store:
        store.deploy(SUPPLY_FLOW)
        keep(store, "i", *parked("i"))
    documents("create", "workflow_store", f"{HOST}/flows", f"store_url={url}")
    instances = ("workflow_instance", f"{HOST}/flows")
    code, out, _ = run_pyjms("manage", "list", served, *instances, "--filter", "status = 'parked'")
    assert code == 0
    assert out.splitlines()[0].split()[:5] == ["address", "workflow", "status", "step", "visible_state"]
    assert "1970-01-01 00:00:11Z" in out
    assert "not answered after 1 attempts" in out
    code, out, _ = run_pyjms("manage", "call", served, "workflow_instance", f"{HOST}/flows/i", "history")
    assert code == 0
    assert out.splitlines()[0].split() == ["at_ms", "what", "step", "reason"]
    assert len(out.splitlines()) == 5
    code, out, _ = run_pyjms("manage", "call", served, "workflow_instance", f"{HOST}/flows/i", "picture")
    assert (code, out.startswith("<svg "), out.endswith("</svg>\n")) == (0, True, True)
    assert "[/" not in out
    documents("call", "workflow_instance", f"{HOST}/flows/i", "retry", "reason=the scales are back")
    assert documents("show", "workflow_instance", f"{HOST}/flows/i", "--fields", "status") == {"status": "running"}
    code, _, err = run_pyjms("manage", "call", served, "workflow_instance", f"{HOST}/flows/i", "retry")
    assert (code, "only one that is parked" in err) == (2, True)
    assert documents("list", "workflow", f"{HOST}/flows")["items"][0]["running"] == 1
    assert run_pyjms("manage", "delete", served, "workflow_store", f"{HOST}/flows", "--yes")[0] == 0


def test_since_when_a_client_is_connected_is_told_as_a_time(
    broker: ServedBroker, run_pyjms: Run, served: str, documents: Documents
) -> None:
    """It was a number of 13 digits, the only time of all lists that was."""
    host = broker.broker.child("virtual_host_node", "default").child("virtual_host", "shop")
    assert isinstance(host, VirtualHost)
    with closing(VmConnection(host.embedded, RecordedEvents())):
        asked = ("manage", "list", served, "connection", "--fields", "since_ms")
        [shown] = run_pyjms(*asked)[1].splitlines()[1:]
        [connection] = documents(*asked[1:2], *asked[3:])["items"]
    assert shown.strip() == f"{datetime.fromtimestamp(connection['since_ms'] // 1000, UTC):%Y-%m-%d %H:%M:%S}Z"


def test_names_that_clients_chose_steer_no_terminal(broker: ServedBroker, run_pyjms: Run, served: str) -> None:
    host = broker.broker.child("virtual_host_node", "default").child("virtual_host", "shop")
    assert isinstance(host, VirtualHost)
    host.embedded.virtual_host.queue("evil\x1b[2J\x9b[red]")
    code, out, _ = run_pyjms("manage", "list", served, "queue")
    assert code == 0
    assert "evil\\x1b[2J\\x9b[red]" in out.replace("\n", "")
    assert "\x1b[2J" not in out
    assert "\x9b" not in out
    code, out, _ = run_pyjms("manage", "list", served, "queue", "--json")
    assert (code, "\x9b" in out, "evil\\u001b[2J\\u009b" in out) == (0, False, True)
    assert "evil\x1b[2J\x9b[red]" in [each["name"] for each in json.loads(out)["items"]]

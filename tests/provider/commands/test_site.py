"""A site as its operator has it: variables in its configuration, which file keeps what, and the tree that management shows."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.ports import free_port
from tests.provider.commands.served import BrokerProcess
from tests.provider.transport.certificates import Authority
from tests.pyjms.demo.command_line import Run

Start: TypeAlias = Callable[..., BrokerProcess]


@pytest.fixture
def file(run_pyjms: Run, tmp_path: Path, password: str) -> Path:
    """Return the configuration of a new site, whose operator is called boss and whose ports choose a free number."""
    options = ("--user", "boss", "--stomp-port", "0", "--http-port", "0")
    assert run_pyjms("broker", "init", str(tmp_path / "site"), *options)[0] == 0
    return tmp_path / "site" / "broker.toml"


class Operator:
    """Manages a broker by commands."""

    def __init__(self, run_pyjms: Run, broker: BrokerProcess) -> None:
        self._run = run_pyjms
        [self._url] = broker.announced("http")

    def list(self, category: str) -> list[dict[str, Any]]:
        code, out, err = self._run("manage", "list", self._url, category, "--user", "boss", "--json")
        assert code == 0, err
        found: list[dict[str, Any]] = json.loads(out)["items"]
        return found

    def create(self, category: str, address: str, *attributes: str) -> tuple[int, str, str]:
        return self._run("manage", "create", self._url, category, address, *attributes, "--user", "boss")


@pytest.mark.realises("BJ-CTX-2", "BJ-CTX-3", "BJ-CTX-4")
def test_one_configuration_serves_at_each_place_by_the_variables_of_its_environment(
    run_pyjms: Run, start_broker: Start, file: Path
) -> None:
    text = file.read_text().replace('name = "stomp"\ntype = "stomp"\nhost = "127.0.0.1"\nport = 0', "@PORT@")
    assert "@PORT@" in text
    port = 'name = "stomp"\ntype = "stomp"\nhost = "${here}"\nport = "${shop.stomp-port}"'
    text = text.replace("@PORT@", port).replace("[broker.context]", '[broker.context]\nhere = "127.0.${last}"')
    file.write_text(text)
    for address in ("0.1", "0.2"):
        number = free_port()
        broker = start_broker(str(file), variables={"SHOP_STOMP_PORT": str(number), "LAST": address})
        [url] = broker.announced("stomp")
        assert url == f"stomp://127.0.{address}:{number}"
        assert run_pyjms("send", url, "orders", address, "--user", "boss")[0] == 0
        assert broker.end() == 0
    refused = start_broker(str(file), variables={"LAST": "0.1"})
    refused.announced("http")
    refused.await_log("there is no variable 'shop.stomp-port'")


@pytest.mark.realises("BJ-CFG-1", "BJ-CFG-2", "BJ-CFG-3", "BJ-MOD-3")
def test_the_broker_and_each_node_keep_the_configuration_of_what_is_below_them(
    run_pyjms: Run, start_broker: Start, file: Path
) -> None:
    broker = start_broker(str(file))
    operator = Operator(run_pyjms, broker)
    for category, address, *attributes in (
        ("queue", "default/default/orders", "max_messages=7", "description=of the shop"),
        ("virtual_host_node", "second", "type=json", "path=${data}/second.json"),
        ("virtual_host", "second/play"),
        ("queue", "second/play/toys", "max_messages=8"),
    ):
        code, _, err = operator.create(category, address, *attributes)
        assert code == 0, err
    broker.end(signal.SIGKILL)  # each change has been written when it was answered
    kept = {name: kept_names(file.parent / "data" / f"{name}.json") for name in ("default", "second")}
    assert kept == {"default": {"default", "orders"}, "second": {"play", "toys"}}
    text = file.read_text()
    assert 'name = "second"' in text
    assert not [name for name in ("orders", "play", "toys") if f'"{name}"' in text]
    operator = Operator(run_pyjms, start_broker(str(file)))
    found = [(each["name"], each["max_messages"], each["description"]) for each in operator.list("queue")]
    assert found == [("orders", 7, "of the shop"), ("toys", 8, None)]


def kept_names(file: Path) -> set[str]:
    """Return the names of all objects in the file of a node."""
    found: set[str] = set()

    def visit(value: Any) -> None:
        if isinstance(value, dict):
            if isinstance(name := value.get("name"), str):
                found.add(name)
            for each in value.values():
                visit(each)
        elif isinstance(value, list):
            for each in value:
                visit(each)

    visit(json.loads(file.read_text()))
    return found


@pytest.mark.realises("BJ-MOD-1", "BJ-MOD-2", "BJ-MOD-4", "BJ-GEN-5")
def test_what_runs_is_a_tree_of_objects_of_one_kind(run_pyjms: Run, start_broker: Start, file: Path) -> None:
    operator = Operator(run_pyjms, start_broker(str(file)))
    assert operator.create("queue", "default/default/orders", "description=${shop}", 'context={"shop": "tea"}')[0] == 0
    below = ("port", "authentication_provider", "virtual_host_node", "virtual_host", "queue")
    found = {category: operator.list(category) for category in ("broker", *below)}
    assert {category: [each["names"] for each in items] for category, items in found.items()} == {
        "broker": [[]],
        "port": [["http"], ["stomp"]],
        "authentication_provider": [["users"]],
        "virtual_host_node": [["default"]],
        "virtual_host": [["default", "default"]],
        "queue": [["default", "default", "orders"]],
    }
    for items in found.values():
        for each in items:
            assert {"id", "name", "description", "state", "life_time", "context", "created_by"} <= each.keys()
            assert each["state"] == "active"
    assert (found["queue"][0]["description"], found["queue"][0]["context"]) == ("tea", {"shop": "tea"})
    for category, elsewhere in (("queue", "default/orders"), ("port", "default/default/p"), ("virtual_host", "play")):
        code, _, err = operator.create(category, elsewhere)
        assert (code, f"the address of a {category} is" in err) == (2, True)


@pytest.mark.realises("BJ-TLS-1", "BJ-TLS-2", "BJ-TLS-3", "BJ-NET-4")
def test_one_port_serves_clients_with_and_without_tls(
    run_pyjms: Run, start_broker: Start, file: Path, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    identity = authority.sign("server")
    text = file.read_text().replace('type = "stomp"', 'type = "stomp"\ntransports = ["tcp", "tls"]\nkey_store = "own"')
    keys = f'certificate_file = "{identity.certificate}"\nkey_file = "{identity.key}"\n'
    file.write_text(f'{text}\n[[key_store]]\nname = "own"\n{keys}')
    plain, secure = start_broker(str(file)).announced("stomp", "stomps")
    assert plain.rpartition(":")[2] == secure.rpartition(":")[2]
    trusting = f"{secure}?ca_file={authority.file}"
    assert run_pyjms("send", plain, "orders", "in the clear", "--user", "boss")[0] == 0
    assert run_pyjms("send", trusting, "orders", "in secret", "--user", "boss")[0] == 0
    code, out, err = run_pyjms("receive", trusting, "orders", "--count", "2", "--timeout", "20s", "--user", "boss")
    assert (code, out) == (0, "in the clear\nin secret\n"), err
    assert run_pyjms("send", f"{secure}?failover.max_attempts=1", "orders", "x", "--user", "boss")[0] != 0, "no trust"


@pytest.mark.realises("BJ-CTX-1")
def test_names_and_values_of_variables_are_texts(run_pyjms: Run, start_broker: Start, file: Path) -> None:
    operator = Operator(run_pyjms, start_broker(str(file)))
    code, _, err = operator.create("queue", "default/default/orders", 'context={"most": 5}')
    assert (code, "context.most: should be a text" in err) == (2, True), err
    values = ('context={"most": "5"}', "max_messages=${most}")
    assert operator.create("queue", "default/default/orders", *values)[0] == 0
    assert [each["max_messages"] for each in operator.list("queue")] == [5]


@pytest.mark.realises("BJ-MOD-6")
def test_ports_of_different_types_have_different_attributes(run_pyjms: Run, start_broker: Start, file: Path) -> None:
    operator = Operator(run_pyjms, start_broker(str(file)))
    web, stomp = operator.list("port")
    assert (web["type"], stomp["type"]) == ("http", "stomp")
    assert "allowed_hosts" in web.keys() - stomp.keys()
    assert "heart_beat_ms" in stomp.keys() - web.keys()
    assert web.keys() & stomp.keys() >= {"host", "port", "transports", "addresses", "connection_count"}
    code, _, err = operator.create("port", "third", "type=http", "port=0", "heart_beat_ms=5000")
    assert (code, "there is no such attribute" in err) == (2, True), err

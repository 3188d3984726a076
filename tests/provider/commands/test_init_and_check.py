"""``pyjms broker init``, ``check``, ``user`` and ``tree``."""

from __future__ import annotations

import json
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from pyjms_provider.model import tree
from pyjms_provider.security.user_file import UserFile
from tests.provider.commands.served import BrokerProcess
from tests.pyjms.demo.command_line import Run

Start: TypeAlias = Callable[..., BrokerProcess]


@pytest.fixture
def folder(run_pyjms: Run, password: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a broker on free ports, in which the test is."""
    code, _, err = run_pyjms("broker", "init", str(tmp_path), "--user", "boss", "--stomp-port", "0", "--http-port", "0")
    assert code == 0, err
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_new_broker_runs_and_remembers(run_pyjms: Run, folder: Path, start_broker: Start) -> None:
    first = start_broker()
    url, rest = first.announced("stomp", "http")
    assert run_pyjms("send", url, "orders", "x", "--user", "boss")[0] == 0
    assert (
        run_pyjms("manage", "create", rest, "queue", "default/default/bills", "paused=true", "--user", "boss")[0] == 0
    )
    port = ("port", "more", "type=stomp", "port=0", "authentication_providers=users", "access_control=access")
    assert run_pyjms("manage", "create", rest, *port, "--user", "boss")[0] == 0
    assert first.end() == 0
    written = (folder / "broker.toml").read_text()
    assert "# Where clients connect:" in written, "comments stay when the broker writes"
    assert 'name = "more"' in written
    assert run_pyjms("broker", "check")[0] == 0
    url, rest = start_broker().announced("stomp", "http")
    code, out, _ = run_pyjms(
        "manage", "list", rest, "queue", "--fields", "name,paused,depth", "--user", "boss", "--json"
    )
    assert (code, json.loads(out)["items"]) == (
        0,
        [{"name": "bills", "paused": True, "depth": 0}, {"name": "orders", "paused": False, "depth": 1}],
    )


def test_what_is_secret_is_the_owners_alone(folder: Path, password: str) -> None:
    for path in (folder / "data", folder / "data" / "users"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0
    assert password not in "".join(path.read_text() for path in folder.rglob("*") if path.is_file())
    [user] = UserFile(folder / "data" / "users").users()
    assert (user.name, sorted(user.groups)) == ("boss", ["administrators"])


def test_nothing_is_overwritten(run_pyjms: Run, folder: Path) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    code, _, err = run_pyjms("broker", "init", "--user", "boss")
    assert (code, "broker.toml is there already" in err) == (2, True)
    (folder / "broker.toml").unlink()
    code, _, err = run_pyjms("broker", "init", "--user", "boss")
    assert (code, "users is there already" in err) == (2, True)
    del before[folder / "broker.toml"]
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("options", "secret", "told"),
    [
        ((), "long enough", "who is the first operator?"),
        (("--user", "boss"), "", "set PYJMS_PASSWORD"),
        (("--user", "boss"), "short", "a password has 8"),
        (("--user", "two words"), "long enough", "is no user name"),
        (("--user", "boss", "--name", 'a"b'), "long enough", "cannot be the broker's name"),
        (("--user", "boss", "--password-file", "none"), "long enough", "none: No such file"),
    ],
)
def test_an_init_that_cannot_be_leaves_nothing(
    run_pyjms: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    secret: str,
    told: str,
) -> None:
    monkeypatch.setenv("PYJMS_PASSWORD", secret)
    monkeypatch.chdir(tmp_path)
    code, _, err = run_pyjms("broker", "init", *options)
    assert (code, told in err) == (2, True), err
    assert [each for each in tmp_path.rglob("*") if each.is_file() and each.suffix != ".lock"] == []


def test_the_configuration_is_found_right(run_pyjms: Run, folder: Path) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert run_pyjms("broker", "check") == (0, "", "broker.toml: 6 objects, nothing is wrong\n")
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_all_that_is_wrong_is_told_with_its_line(run_pyjms: Run, folder: Path) -> None:
    file = folder / "broker.toml"
    lines = file.read_text().splitlines()
    first = lines.index('name = "stomp"')
    lines[first + 3] = 'prot = "70000"'
    lines[first + 5] = 'access_control = "acess"'
    lines[lines.index('path = "${data}/users"')] = 'path = "${date}/users"'
    lines[lines.index('path = "${data}/default.json"')] = "path = 7"
    lines += ["[[port]]", 'name = "http"', 'type = "http"', "[[port]]", 'name = "odd"', 'type = "ftp"']
    lines += ["[[port]]", 'name = "tls"', 'type = "stomp"', 'transports = ["tls"]']
    file.write_text("\n".join(lines))
    code, out, err = run_pyjms("broker", "check")
    assert (code, err) == (1, "7 problems in broker.toml\n")

    def line(text: str) -> int:
        return lines.index(text) + 1

    last = len(lines)
    for place, told in (
        (line('path = "${date}/users"'), "authentication_provider users path: there is no variable 'date'"),
        (line("path = 7"), "virtual_host_node default path: should be a text"),
        (line('prot = "70000"'), "port stomp prot: there is no such attribute; did you mean port?"),
        (line('access_control = "acess"'), "port stomp access_control: there is no access_control 'acess'"),
        (last - 9, "port http: there is a port 'http' already"),
        (last - 6, "port odd: there is no port of the type 'ftp'"),
        (last - 3, "port tls key_store: is needed for TLS"),
    ):
        assert f"broker.toml:{place}: {told}" in out


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_two_ports_of_one_number_are_told(run_pyjms: Run, folder: Path, host: str) -> None:
    file = folder / "broker.toml"
    assert run_pyjms("broker", "check")[0] == 0  # numbers that the system chooses are no two of one
    text = file.read_text().replace("\nport = 0\n", "\nport = 61613\n")
    stomp, http = text[: text.rindex("[[port]]")], text[text.rindex("[[port]]") :]
    file.write_text(stomp + http.replace("127.0.0.1", host))
    code, out, _ = run_pyjms("broker", "check")
    line = text[: text.rindex("port = 61613")].count("\n") + 1
    assert (code, out.count("\n")) == (1, 1)
    assert f"broker.toml:{line}: port http port: 61613 is the number of port stomp, too; choose another one" in out


def test_an_id_that_was_copied_is_told(run_pyjms: Run, folder: Path) -> None:
    file = folder / "broker.toml"
    kept = 'kept = {id = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"}\n'
    file.write_text(file.read_text().replace("[[port]]\n", f"[[port]]\n{kept}"))
    code, out, err = run_pyjms("broker", "check")
    assert (code, err) == (1, "1 problem in broker.toml\n")
    assert "port http: the port 'http' at broker.toml, line " in out
    assert "has the id of the port 'stomp'" in out


def test_what_the_virtual_hosts_file_says_is_judged_too(run_pyjms: Run, folder: Path) -> None:
    file = folder / "data" / "default.json"
    file.write_text(file.read_text().replace("messages.db", 'messages.db", "synchronous": "sometimes'))
    code, out, _ = run_pyjms("broker", "check", "--json")
    assert code == 1
    [found] = json.loads(out)
    assert (found["object"], found["attribute"]) == ("virtual_host default/default", "synchronous")
    assert found["place"] == "default.json, object 1"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("version = 1\n[broker\n", "is no TOML"),
        ("version = 99\n", "knows version 1"),
        ("name = 3\n", "it has no version"),
        ("version = 1\n[broker]\nname='b'\n[[pork]]\n", "b.toml, line 4: there is no category 'pork'"),
        ("version = 1\nbroker = 'b'\n", "broker is a table; write [broker]"),
    ],
)
def test_a_file_that_cannot_be_read_is_told(run_pyjms: Run, tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "b.toml").write_text(text)
    code, out, err = run_pyjms("broker", "check", str(tmp_path / "b.toml"))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert told in err


def test_a_file_that_is_not_there_is_not_made(run_pyjms: Run, tmp_path: Path) -> None:
    code, _, err = run_pyjms("broker", "check", str(tmp_path / "b.toml"))
    assert (code, "there is no" in err) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_users_come_change_and_go(run_pyjms: Run, password: str, tmp_path: Path) -> None:
    file = str(tmp_path / "users")
    assert run_pyjms("broker", "user", "add", file, "alice", "--group", "staff", "--group", "night")[0] == 0
    assert run_pyjms("broker", "user", "add", file, "bob")[0] == 0
    verifier = UserFile(file).users()[1].verifier
    assert run_pyjms("broker", "user", "passwd", file, "bob")[0] == 0
    assert UserFile(file).users()[1].verifier != verifier
    code, out, _ = run_pyjms("broker", "user", "list", file, "--json")
    assert (code, json.loads(out)) == (
        0,
        [{"name": "alice", "groups": ["night", "staff"]}, {"name": "bob", "groups": []}],
    )
    assert run_pyjms("broker", "user", "remove", file, "alice")[0] == 0
    assert [line.split() for line in run_pyjms("broker", "user", "list", file)[1].splitlines()] == [
        ["user", "groups"],
        ["bob"],
    ]


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (("remove", "nobody"), "there is no user 'nobody'"),
        (("passwd", "nobody"), "there is no user 'nobody'"),
        (("add", "bob"), "there is a user 'bob' already"),
    ],
)
def test_users_that_cannot_be_are_told(
    run_pyjms: Run, password: str, tmp_path: Path, command: tuple[str, str], told: str
) -> None:
    file = str(tmp_path / "users")
    run_pyjms("broker", "user", "add", file, "bob")
    code, _, err = run_pyjms("broker", "user", command[0], file, command[1])
    assert (code, told in err) == (2, True)


def test_the_tree_shows_every_category(run_pyjms: Run) -> None:
    code, out, _ = run_pyjms("broker", "tree", "--json")
    assert code == 0
    described = json.loads(out)
    assert set(described) == set(tree.TREE) - {tree.ROOT}
    port = described["port"]["types"]["stomp"]["attributes"]["port"]
    assert (port["type"], port["default"]) == ("integer", 61613)
    assert "└─ port (stomp, amqp, http)" in run_pyjms("broker", "tree")[1]


def test_the_tree_tells_all_of_one_category(run_pyjms: Run) -> None:
    _, out, _ = run_pyjms("broker", "tree", "port")
    for told in ("attributes of stomp", "attributes of http", "61613", "8161", "addresses", "stop"):
        assert told in out
    code, _, err = run_pyjms("broker", "tree", "pork")
    assert (code, "there is no category 'pork'" in err) == (2, True)


@pytest.mark.parametrize(
    ("category", "attribute", "told"),
    [
        ("port", "transports", "What it is reached over. (tcp, tls, websocket, secure_websocket)"),
        (
            "route",
            "targets",
            "Each has [url] (string), [queue] (string), [topic] (string), [duplicate_property] (string).",
        ),
        ("access_control", "rules", "Each has effect (string), who (string), [operations] (list of string), "),
        ("virtual_host", "queue_patterns", "Each has pattern (string), policy (object)."),
    ],
)
def test_the_tree_tells_what_a_list_may_hold(
    run_pyjms: Run, monkeypatch: pytest.MonkeyPatch, category: str, attribute: str, told: str
) -> None:
    """It told the names of classes of ours, `list of RouteTarget`, and no page says more."""
    monkeypatch.setenv("COLUMNS", "600")
    code, out, _ = run_pyjms("broker", "tree", category)
    row = next(line for line in out.splitlines() if line.startswith(f"{attribute} "))
    assert (code, told in row) == (0, True), row
    described = json.loads(run_pyjms("broker", "tree", category, "--json")[1])
    kinds = [kind["attributes"] for kind in described[category]["types"].values()]
    [is_of_objects] = {kind[attribute]["fields"] is not None for kind in kinds if attribute in kind}
    assert is_of_objects is ("Each has" in told)
    assert ("list of object" if is_of_objects else "list of string") in row


@pytest.mark.parametrize(
    ("arguments", "module"),
    [
        (("user", "list", "users"), "pyjms_provider.security.user_file"),
        (("check", "broker.toml"), "pyjms_provider.model.checking"),
        (("tree",), "pyjms_provider.model.attributes"),
        (("run", "--listen", "stomp://127.0.0.1:0", "--anonymous"), "pyjms_provider.serving.served_broker"),
    ],
)
def test_a_missing_extra_is_told_in_one_line(
    run_pyjms: Run, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    code, out, err = run_pyjms("broker", *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "pip install 'pyjms-messaging[broker]'" in err

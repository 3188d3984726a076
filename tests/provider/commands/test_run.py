"""``pyjms broker run``: as a process that clients use, that is ended, and that starts again."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from pyjms import ConnectionFactory, JMSSecurityException, Session, TextMessage
from pyjms_provider.serving.served_broker import ServedBroker
from pyjms_tck.background import Background
from tests.ports import free_port
from tests.provider.commands.served import BrokerProcess
from tests.pyjms.demo.command_line import Run

Start: TypeAlias = Callable[..., BrokerProcess]


def _initial(run_pyjms: Run, folder: Path) -> Path:
    """Write a configuration whose operator is called boss, with ports that choose a free number, and return its file."""
    options = ("--user", "boss", "--stomp-port", "0", "--http-port", "0")
    assert run_pyjms("broker", "init", str(folder / "site"), *options)[0] == 0
    return folder / "site" / "broker.toml"


@pytest.mark.realises("BJ-GEN-5", "BOIL-PROD-2", "BJ-ST-1", "BJ-ST-4")
def test_what_was_acknowledged_survives_the_end_of_the_broker(run_pyjms: Run, start_broker: Start) -> None:
    options = ("--listen", "stomp://127.0.0.1:0", "--anonymous", "--store", "sqlite:///shop.db")
    first = start_broker(*options)
    [url] = first.announced("stomp")
    for body in ("one", "two", "three"):
        assert run_pyjms("send", url, "orders", body)[0] == 0
    assert run_pyjms("receive", url, "orders") == (0, "one\n", "")
    assert first.end() == 0
    second = start_broker(*options)
    [url] = second.announced("stomp")
    assert run_pyjms("receive", url, "orders", "--count", "0", "--timeout", "500ms") == (0, "two\nthree\n", "")
    assert second.end(signal.SIGINT) == 0


@pytest.mark.realises("BOIL-CONN-17", "BOIL-CONN-18")
def test_who_waits_for_a_message_gets_it_after_an_orderly_restart(start_broker: Start) -> None:
    options = ("--anonymous", "--store", "sqlite:///shop.db")
    first = start_broker("--listen", "stomp://127.0.0.1:0", *options)
    [url] = first.announced("stomp")
    told: list[str | None] = []
    with ConnectionFactory(f"{url}?reconnect_delay_max_ms=100").create_connection() as connection:
        connection.exception_listener = lambda error: told.append(error.error_code)
        connection.start()
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        queue = session.create_queue("orders")
        consumer = session.create_consumer(queue)
        waiting = Background(lambda: consumer.receive(60_000), 60)
        assert first.end() == 0
        start_broker("--listen", url, *options).announced("stomp")
        with ConnectionFactory(url).create_connection() as other:
            sending = other.create_session(False, Session.AUTO_ACKNOWLEDGE)
            sending.create_producer(queue).send(sending.create_text_message("after"))
            message = waiting.result()
            assert isinstance(message, TextMessage)
            assert message.text == "after"
        assert told == ["PYJMS-INTERRUPTED"]
        assert connection.state == "connected"


def test_a_broker_whose_terminal_is_closed_ends_in_order(start_broker: Start, tmp_path: Path) -> None:
    """It was killed, and its clients and its store were not told."""
    store = tmp_path / "x.db"
    broker = start_broker("--listen", "stomp://127.0.0.1:0", "--anonymous", "--store", f"sqlite:///{store}")
    broker.announced("stomp")
    assert broker.end(signal.SIGHUP) == 0
    assert not store.with_name("x.db-wal").exists(), "the store was closed"


def test_every_command_works_over_the_network(run_pyjms: Run, start_broker: Start) -> None:
    [url] = start_broker("--listen", "stomp://127.0.0.1:0", "--anonymous").announced("stomp")
    assert run_pyjms("send", url, "orders", "x", "--count", "5", "--batch", "2")[0] == 0
    assert run_pyjms("browse", url, "orders")[2] == "5 messages\n"
    assert run_pyjms("move", url, "orders", "done", "--limit", "2")[1] == "moved 2 messages to done\n"
    assert run_pyjms("purge", url, "orders", "--yes")[1] == "removed 3 messages\n"
    assert "pyjms broker" in run_pyjms("stats", url, "done")[1]
    code, out, err = run_pyjms("bench", url, "--count", "5", "--requests", "2")
    assert (code, "request and reply" in out) == (0, True), err


@pytest.mark.realises("BOIL-CONN-1", "BOIL-EXC-3")
def test_users_need_their_password(
    run_pyjms: Run, start_broker: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYJMS_PASSWORD", "correct horse")
    assert run_pyjms("broker", "user", "add", str(tmp_path / "users"), "alice")[0] == 0
    [url] = start_broker("--listen", "stomp://127.0.0.1:0", "--users", "users").announced("stomp")
    assert run_pyjms("send", url, "orders", "x", "--user", "alice")[0] == 0
    monkeypatch.setenv("PYJMS_PASSWORD", "wrong horse")
    code, _, err = run_pyjms("send", url, "orders", "x", "--user", "alice")
    assert (code, err.count("\n")) == (2, 1)
    with pytest.raises(JMSSecurityException):
        ConnectionFactory(url).create_connection("alice", "wrong horse")
    assert run_pyjms("send", url, "orders", "x")[0] == 2
    (tmp_path / "secret").write_text("correct horse\n")
    assert run_pyjms("send", url, "orders", "x", "--user", "alice", "--password-file", str(tmp_path / "secret"))[0] == 0


def test_a_port_of_a_kind_that_is_not_installed_keeps_no_other_from_serving(
    run_pyjms: Run, start_broker: Start, password: str, tmp_path: Path
) -> None:
    file = _initial(run_pyjms, tmp_path)
    file.write_text(file.read_text().replace('type = "stomp"', 'type = "mqtt"'))
    broker = start_broker(str(file))
    [url] = broker.announced("http")
    assert broker.log.count("port stomp") == 1, "the log tells it, and nothing else again"
    code, out, err = run_pyjms("manage", "list", url, "port", "--user", "boss", "--fields", "name,state,addresses")
    assert (code, err) == (0, "2 in all\n")
    assert [line.split()[:2] for line in out.splitlines()[1:]] == [["http", "active"], ["stomp", "errored"]]


def test_two_objects_of_one_name_are_refused_before_a_port_opens(
    run_pyjms: Run, start_broker: Start, password: str, tmp_path: Path
) -> None:
    file = _initial(run_pyjms, tmp_path)
    file.write_text(file.read_text().replace('name = "http"', 'name = "stomp"'))
    broker = start_broker(str(file))
    assert broker.await_end() == 2
    told = broker.log.splitlines()[-1]
    assert "listening" not in broker.log
    assert "there is a port 'stomp' already" in told
    assert "give one of them another name" in told


def test_what_has_lost_its_file_is_told_when_the_broker_starts(
    run_pyjms: Run, start_broker: Start, password: str, tmp_path: Path
) -> None:
    file = _initial(run_pyjms, tmp_path)
    whole = start_broker(str(file))
    whole.announced("stomp")
    assert whole.end() == 0
    assert "has no" not in whole.log
    (file.parent / "data" / "default.json").unlink()
    users = file.parent / "data" / "users"
    users.write_text("")
    broker = start_broker(str(file))
    broker.announced("stomp")
    assert (
        "virtual_host_node default has no virtual host, so clients find none there: put back what it was" in broker.log
    )
    assert f"users has no users, so nobody comes in by it: pyjms broker user add {users} NAME" in broker.log


def test_what_an_operator_has_stopped_is_told_when_the_broker_starts(
    run_pyjms: Run, start_broker: Start, password: str, tmp_path: Path
) -> None:
    file = _initial(run_pyjms, tmp_path)
    text = file.read_text()
    http = text.index('type = "http"')
    stopped = 'kept = {stopped = true, updated_by = "ann"}\n'
    file.write_text(text[:http] + stopped + text[http:])
    broker = start_broker(str(file))
    broker.announced("stomp")
    assert "port http is stopped by ann, and stays so until its operation start" in broker.log
    assert broker.end() == 0
    stomp = text.index('type = "stomp"')
    file.write_text(text[:stomp] + stopped + text[stomp:http] + stopped + text[http:])
    ended = start_broker(str(file))
    assert ended.await_end() == 2
    assert "no port listens" in ended.log
    assert "`stopped = true` in its table `kept`" in " ".join(ended.log.split())


def test_programs_read_the_log_as_json(start_broker: Start) -> None:
    broker = start_broker("--listen", "stomp://127.0.0.1:0", "--anonymous", "--log-format", "json")
    broker.announced("stomp")
    assert broker.end() == 0
    codes = [json.loads(line)["code"] for line in broker.log.splitlines()]
    assert {"PYJMS-NET-1", "PYJMS-NET-2", "PYJMS-NET-3"} <= set(codes)


def test_who_changed_what_is_in_the_file_of_audits(start_broker: Start, run_pyjms: Run, tmp_path: Path) -> None:
    broker = start_broker("--listen", "http://127.0.0.1:0", "--anonymous", "--name", "shop", "--audit", "audit.log")
    [url] = broker.announced("http")
    code, _, err = run_pyjms("manage", "create", url, "queue", "shop/shop/orders", "description=new")
    assert code == 0, err
    assert broker.end() == 0
    file = tmp_path / "audit.log"
    records = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(each["action"], each["target"], each["result"]) for each in records] == [
        ("create", "queue/shop/shop/orders", "done")
    ]
    assert file.stat().st_mode & 0o777 == 0o600
    refused = start_broker("--listen", "http://127.0.0.1:0", "--anonymous", "--audit", "nowhere/audit.log")
    assert refused.await_end() == 2
    assert "nowhere/audit.log" in refused.log


def test_a_port_that_is_taken_is_told_in_one_line(start_broker: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        broker = start_broker("--listen", f"stomp://127.0.0.1:{port}", "--anonymous")
        assert broker.await_end() == 2
    told = [line for line in broker.log.splitlines() if " INFO " not in line]
    assert len(told) == 1
    assert str(port) in told[0]


def test_nobody_is_there_to_connect_to(run_pyjms: Run) -> None:
    code, _, err = run_pyjms("send", f"stomp://127.0.0.1:{free_port()}?failover.max_attempts=1", "orders", "x")
    assert code in {1, 2}
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), "there is no broker.toml; write one with `pyjms broker init`"),
        (("other.toml",), "there is no other.toml"),
        (("--listen", "stomp://127.0.0.1:0"), "say who may connect"),
        (("--listen", "stomp://127.0.0.1:0", "--anonymous", "--users", "u"), "contradict each other"),
        (("--anonymous",), "goes with --listen"),
        (("--allow-anonymous-remote-clients",), "--allow-anonymous-remote-clients goes with --listen"),
        (("--listen", "stomp://0.0.0.0:0", "--anonymous"), "say --allow-anonymous-remote-clients"),
        (("--listen", "stomp://[::]:0", "--anonymous"), "stomp://[::]:0 is reached from other machines"),
        (("--listen", "http://0.0.0.0:0", "--anonymous"), "name users with --users FILE"),
        (("--listen", "stomp://no-such-host.invalid:0", "--anonymous"), "say --allow-anonymous-remote-clients"),
        (
            ("--listen", "stomp://127.0.0.1:0", "--listen", "stomp+ws://0.0.0.0:0", "--anonymous"),
            "stomp+ws://0.0.0.0:0 is reached from other machines",
        ),
        (
            ("--listen", "stomp://0.0.0.0:0", "--users", "u", "--allow-anonymous-remote-clients"),
            "there is no such user file",
        ),
        (("--listen", "stomp://127.0.0.1:0", "--anonymous", "--stand-by"), "name one: --store URL"),
        (("--store", "sqlite://"), "goes with --listen"),
        (("--listen", "ftp://127.0.0.1", "--anonymous"), "does not listen at ftp://"),
        (("--listen", "nonsense", "--anonymous"), "no provider URL"),
        (("--listen", "stomp://", "--anonymous"), "names no address to listen at"),
        (("--listen", "stomp://127.0.0.1:99999", "--anonymous"), "out of range"),
        (("--listen", "stomp://me:secret@127.0.0.1:0", "--anonymous"), "not in the URL"),
        (("--listen", "stomp://127.0.0.1:0?colour=red", "--anonymous"), "has no option 'colour'"),
        (("--listen", "stomp://127.0.0.1:0?allowed_hosts=a.example", "--anonymous"), "has no option 'allowed_hosts'"),
        (("--listen", "http://127.0.0.1:0?allowed_hosts=http://a", "--anonymous"), "without scheme, port and path"),
        (("--listen", "stomp://127.0.0.1:0?key=k", "--anonymous"), "key= is for TLS"),
        (("--listen", "stomps://127.0.0.1:0", "--anonymous"), "needs the broker's certificate"),
        (("--listen", "stomps://127.0.0.1:0?certificate=none.pem", "--anonymous"), "none.pem cannot be read"),
        (("--listen", "stomp://127.0.0.1:0", "--users", "none"), "none: there is no such user file"),
        (("--listen", "stomp://127.0.0.1:0", "--anonymous", "--access", "none"), "none: No such file"),
        (
            ("--listen", "stomp://127.0.0.1:0", "--anonymous", "--store", "nonsense"),
            "write for instance sqlite:///shop.db",
        ),
    ],
)
def test_what_cannot_be_used_is_told(
    run_pyjms: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run_pyjms("broker", "run", *options)
    assert (code, out) == (2, "")
    assert told in err
    assert len([line for line in err.splitlines() if " INFO " not in line]) == 1
    assert "secret" not in err


def test_an_unknown_store_is_refused_before_anything_is_started(
    run_pyjms: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ServedBroker, "open", None)
    options = ("--listen", "stomp://127.0.0.1:0", "--anonymous", "--store", "nonsense://x")
    code, out, err = run_pyjms("broker", "run", *options)
    assert (code, out) == (2, "")
    assert "no store is installed for nonsense://" in err


@pytest.mark.parametrize("host", ["localhost", "127.0.0.2"])
def test_a_broker_that_this_machine_alone_reaches_lets_in_everybody_and_says_so(start_broker: Start, host: str) -> None:
    broker = start_broker("--listen", f"stomp://{host}:0", "--anonymous")
    broker.announced("stomp")
    assert "PYJMS-SECURITY-8 port listen-1 lets in everybody on this machine, and checks no login" in broker.log


def test_everybody_elsewhere_is_let_in_where_the_second_option_says_so(run_pyjms: Run, start_broker: Start) -> None:
    options = ("--anonymous", "--allow-anonymous-remote-clients")
    broker = start_broker("--listen", "stomp://0.0.0.0:0", *options)
    [url] = broker.announced("stomp")
    broker.await_log("WARNING")
    assert "lets in everybody who reaches it, from other machines too, and checks no login" in broker.log
    assert run_pyjms("send", url.replace("0.0.0.0", "127.0.0.1"), "orders", "x")[0] == 0


def test_a_broker_with_users_may_be_reached_from_elsewhere(
    run_pyjms: Run, start_broker: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYJMS_PASSWORD", "a good secret")
    assert run_pyjms("broker", "user", "add", str(tmp_path / "users"), "alice")[0] == 0
    broker = start_broker("--listen", "stomp://0.0.0.0:0", "--users", str(tmp_path / "users"))
    broker.announced("stomp")
    assert "PYJMS-SECURITY-8" not in broker.log


def test_a_websocket_url_works_as_it_is_announced_and_without_its_path(run_pyjms: Run, start_broker: Start) -> None:
    broker = start_broker("--listen", "stomp+ws://127.0.0.1:0", "--anonymous")
    [url] = broker.announced("stomp+ws")
    bare = url.removesuffix("/stomp")
    assert bare.count("/") == 2
    for place in (url, bare, f"{bare}/"):
        assert run_pyjms("send", place, "orders", "espresso")[0] == 0
        assert run_pyjms("receive", place, "orders", "--timeout", "20s") == (0, "espresso\n", "")

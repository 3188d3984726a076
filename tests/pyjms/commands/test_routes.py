from __future__ import annotations

import json
import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.pyjms.demo.command_line import Run
from tests.pyjms.forwarding.sites import Client, until

RULES = """
[route]
url = "vm://here"
source = "orders"

[targets.far]
url = "vm://there"
queue = "inbox"

[[rule]]
name = "german"
content = [{ json = "/customer/country", equals = "DE" }]
transform = [{ use = "set", properties = { region = "EU" } }]
to = "far"

[[rule]]
name = "large"
selector = "size > 10"
to = ["queue:large", "far"]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rules.toml"
    path.write_text(RULES, encoding="utf-8")
    return path


def test_forward_moves_what_is_there_and_ends_when_nothing_comes(run_pyjms: Run, here: Client, there: Client) -> None:
    for number in range(3):
        here.put("orders", str(number))
    code, out, err = run_pyjms(
        "forward",
        "vm://here",
        "orders",
        "--to",
        "vm://there#inbox",
        "--to",
        "vm://there",
        "--once-only",
        "--idle",
        "400ms",
    )
    assert code == 0, err
    assert "3 messages forwarded, 6 sent, once only" in out
    assert there.texts("inbox") == there.texts("orders") == ["0", "1", "2"]


def test_forward_ends_in_order_at_a_signal(
    documents: Callable[..., list[dict[str, Any]]], here: Client, there: Client
) -> None:
    here.put("orders", "one")

    def interrupt() -> None:
        until(lambda: there.texts("inbox") == ["one"] and not here.texts("orders"))
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)

    helper = threading.Thread(target=interrupt)
    helper.start()
    lines = documents("forward", "vm://here", "orders", "--to", "vm://there#inbox", "--every", "100ms")
    helper.join()
    assert lines[-1]["route"] == "orders"
    assert (lines[-1]["state"], lines[-1]["forwarded"]) == ("stopped", 1)


def test_forward_does_not_say_that_it_is_done_when_it_has_not_reached_the_source(run_pyjms: Run) -> None:
    away = "stomp://127.0.0.1:1?reconnect=no"
    code, out, err = run_pyjms("forward", away, "orders", "--to", "vm://there", "--idle", "300ms")
    assert code == 1
    assert "0 messages forwarded, 0 sent, unknown" in out
    assert "a site was away when the time was up: stomp://127.0.0.1:1" in err


def test_forward_does_not_say_that_it_is_done_when_the_source_accepts_and_is_silent(run_pyjms: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"stomp://127.0.0.1:{silent.getsockname()[1]}"
        code, out, err = run_pyjms("forward", url, "orders", "--to", "vm://there", "--idle", "300ms")
    assert code == 1
    assert "0 messages forwarded, 0 sent, unknown" in out
    assert "there may be more, as the source had not answered when the time was up" in err


def test_forward_ends_also_when_a_message_waits_for_a_site_that_is_away(run_pyjms: Run, here: Client) -> None:
    here.put("orders", "one")
    away = "stomp://127.0.0.1:1?reconnect=no"
    code, out, err = run_pyjms("forward", "vm://here", "orders", "--to", away, "--idle", "300ms")
    assert code == 1
    assert "0 messages forwarded" in out
    assert "a site was away when the time was up: stomp://127.0.0.1:1" in err
    assert here.texts("orders") == ["one"]


def test_a_route_ends_also_when_a_message_waits_for_a_site_that_is_away(
    run_pyjms: Run, here: Client, file: Path
) -> None:
    file.write_text(RULES.replace("vm://there", "stomp://127.0.0.1:1?reconnect=no"), encoding="utf-8")
    here.put("orders", "{}", size=11)
    code, _, err = run_pyjms("route", "run", str(file), "--idle", "300ms")
    assert (code, "a site was away when the time was up: stomp://127.0.0.1:1" in err) == (1, True), err
    assert here.texts("orders") == ["{}"]


def test_forward_says_what_it_cannot_use(run_pyjms: Run, here: Client) -> None:
    code, _, err = run_pyjms("forward", "vm://here", "orders", "--to", "nowhere://x", "--selector", "a >")
    assert code == 2
    assert "no provider is installed for nowhere://" in err
    assert "selector" in err
    code, _, err = run_pyjms("forward", "vm://here", "orders", "--to", "vm://here#orders")
    assert (code, "source itself" in err) == (2, True)


def test_check_tells_all_that_is_wrong_with_its_line(run_pyjms: Run, file: Path) -> None:
    code, _, err = run_pyjms("route", "check", str(file))
    assert code == 0, err
    assert "2 rules, 2 targets, nothing is wrong" in err
    file.write_text(RULES.replace("size > 10", "size >").replace('to = "far"', 'too = "far"'), encoding="utf-8")
    code, out, err = run_pyjms("route", "check", str(file), "--json")
    assert code == 1
    told = {each["place"]: each for each in json.loads(out)}
    assert told["rule 1 (german)"]["line"] in {10, 14}
    assert told["rule 2 (large), selector"]["line"] == 18
    assert "3 problems" in err


def test_check_looks_at_the_route_too(run_pyjms: Run, file: Path) -> None:
    file.write_text(RULES.replace("vm://here", "nowhere://x"), encoding="utf-8")
    code, _, err = run_pyjms("route", "check", str(file))
    assert (code, "no provider is installed for nowhere://" in err) == (2, True)


@pytest.mark.realises("MOM-45", "MOM-50")
def test_run_routes_by_the_rules(
    documents: Callable[..., list[dict[str, Any]]], here: Client, there: Client, file: Path
) -> None:
    here.put("orders", '{"customer": {"country": "DE"}}')
    here.put("orders", "{}", size=11)
    here.put("orders", "nobody's")
    last = documents("route", "run", str(file), "--idle", "400ms")[-1]
    assert (last["forwarded"], last["undeliverable"], last["by_rule"]) == (2, 1, {"german": 1, "large": 1})
    assert [message.get_string_property("region") for message in there.look("inbox")] == ["EU", None]
    assert here.texts("large") == ["{}"]
    (lost,) = here.look("orders.undeliverable")
    assert lost.get_string_property("pyjms_undeliverable_reason") == "no rule wants it"


def test_explain_says_which_condition_decided(run_pyjms: Run, file: Path) -> None:
    body = '{"customer": {"country": "FR"}}'
    code, out, _ = run_pyjms("route", "explain", str(file), body, "--property", "size:int=11", "--json")
    told = json.loads(out)
    assert (code, told["targets"]) == (0, ["queue:large", "far"])
    assert [(each["rule"], each["wants"]) for each in told["rules"]] == [("german", False), ("large", True)]
    assert told["rules"][0]["conditions"] == [
        {"text": "json /customer/country is 'DE'", "holds": False, "seen": "'FR'"}
    ]
    assert told["rules"][1]["decided"] == ["selector size > 10"]
    code, out, _ = run_pyjms("route", "explain", str(file), "--jms-type", "order")
    assert code == 1
    assert "nobody wants it" in out
    assert "it has nothing there" in out


def test_help_teaches_by_example(run_pyjms: Run) -> None:
    for command in (("forward",), ("route", "check"), ("route", "run"), ("route", "explain")):
        _, out, _ = run_pyjms(*command, "--help")
        assert "Examples:" in out
        assert f"pyjms {' '.join(command)} " in out


def test_a_file_that_is_no_rules_is_named_once(run_pyjms: Run, tmp_path: Path) -> None:
    bad = {name: tmp_path / name for name in ("bad.toml", "bad.json")}
    bad["bad.toml"].write_text("x = [")
    bad["bad.json"].write_text('{"a":\n')
    code, out, err = run_pyjms("route", "check", str(bad["bad.toml"]))
    assert (code, err) == (1, f"1 problem in {bad['bad.toml']}\n")
    assert out.startswith(f"{bad['bad.toml']}: it is no TOML: ")
    assert run_pyjms("route", "check", str(bad["bad.json"]))[1].startswith(
        f"{bad['bad.json']}: line 2: it is no JSON: "
    )
    for command in ("run", "explain"):
        _, _, err = run_pyjms("route", command, str(bad["bad.toml"]))
        assert err.startswith(f"pyjms route {command}: {bad['bad.toml']}: it is no TOML: ")

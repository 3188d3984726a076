"""``pyjms broker run --stand-by``: a broker that waits for the end of another one, as processes."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.provider.commands.served import BrokerProcess
from tests.pyjms.demo.command_line import Run

Start: TypeAlias = Callable[..., BrokerProcess]
STORED = ("--listen", "stomp://127.0.0.1:0", "--anonymous", "--store", "sqlite:///shop.db")


@pytest.fixture
def place(tmp_path: Path) -> Callable[[str], Path]:
    """Makes folders for the logs of brokers that share the rest."""

    def make(name: str) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        return folder

    return make


@pytest.fixture
def second(start_broker: Start, place: Callable[[str], Path]) -> Start:
    """Starts a broker that writes its log elsewhere."""
    return lambda *arguments: start_broker(*arguments, log_folder=place("second"))


@pytest.fixture
def third(start_broker: Start, place: Callable[[str], Path]) -> Start:
    """Starts one more."""
    return lambda *arguments: start_broker(*arguments, log_folder=place("third"))


def test_who_stands_by_takes_over_the_store(run_pyjms: Run, start_broker: Start, second: Start, tmp_path: Path) -> None:
    first = start_broker(*STORED)
    [url] = first.announced("stomp")
    assert run_pyjms("send", url, "orders", "one")[0] == 0
    waiting = second(*STORED, "--stand-by")
    waiting.await_log(f"PYJMS-STORE-5 waiting to take over: {tmp_path / 'shop.db'} is held by broker 'broker', process")
    assert first.end() == 0
    [url] = waiting.announced("stomp")
    assert run_pyjms("receive", url, "orders") == (0, "one\n", "")
    assert waiting.end() == 0


def test_who_does_not_stand_by_reads_how_to(start_broker: Start, second: Start) -> None:
    start_broker(*STORED).announced("stomp")
    refused = second(*STORED)
    assert refused.await_end() == 2
    told = [line for line in refused.log.splitlines() if " INFO " not in line]
    assert len(told) == 1
    assert "is held by broker 'broker', process" in told[0]
    assert "--stand-by of `pyjms broker run`" in told[0]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
@pytest.mark.parametrize("kind", ["store", "file"])
def test_a_signal_ends_the_wait(
    run_pyjms: Run,
    start_broker: Start,
    second: Start,
    password: str,
    tmp_path: Path,
    kind: str,
    number: signal.Signals,
    code: int,
) -> None:
    arguments: tuple[str, ...] = STORED
    if kind == "file":
        options = ("--user", "boss", "--stomp-port", "0", "--http-port", "0")
        assert run_pyjms("broker", "init", str(tmp_path / "site"), *options)[0] == 0
        arguments = (str(tmp_path / "site" / "broker.toml"),)
    start_broker(*arguments).announced("stomp")
    waiting = second(*arguments, "--stand-by")
    waiting.await_log("PYJMS-STORE-5 waiting to take over: ")
    assert waiting.end(number) == code
    assert "Traceback" not in waiting.log


def test_who_stands_by_takes_over_a_configuration(
    run_pyjms: Run, start_broker: Start, second: Start, third: Start, password: str, tmp_path: Path
) -> None:
    options = ("--user", "boss", "--stomp-port", "0", "--http-port", "0")
    assert run_pyjms("broker", "init", str(tmp_path / "site"), *options)[0] == 0
    file = str(tmp_path / "site" / "broker.toml")
    first = start_broker(file)
    [url] = first.announced("stomp")
    assert run_pyjms("send", url, "orders", "one", "--user", "boss")[0] == 0
    refused = second(file)
    assert refused.await_end() == 2
    assert "stop that first, or name another file, or wait for its end with --stand-by" in refused.log
    waiting = third(file, "--stand-by")
    waiting.await_log(f"PYJMS-STORE-5 waiting to take over: {file} is held by broker 'broker', process")
    first.process.kill()
    [url] = waiting.announced("stomp")
    assert run_pyjms("receive", url, "orders", "--user", "boss") == (0, "one\n", "")

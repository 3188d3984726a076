"""Commands that are interrupted, or whose broker goes away: processes of their own, as signals go to those."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import TypeAlias

import pytest

from tests.provider.commands.served import PATIENCE_S, PYJMS, BrokerProcess, environment
from tests.pyjms.demo.command_line import Run

Start: TypeAlias = Callable[..., BrokerProcess]
Command: TypeAlias = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def command() -> Iterator[Command]:
    """Starts ``pyjms ARGUMENTS``, and ends what the test left running."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        started.append(
            subprocess.Popen(
                [*PYJMS, *arguments],
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        return started[-1]

    yield start
    for each in started:
        each.kill()
        each.communicate()


def test_ctrl_c_gives_back_what_was_not_committed(run_pyjms: Run, start_broker: Start, command: Command) -> None:
    [url] = start_broker("--listen", "stomp://127.0.0.1:0", "--anonymous").announced("stomp")
    run_pyjms("send", url, "orders", "x", "--count", "2")
    waiting = command("receive", url, "orders", "--count", "3", "--timeout", "0", "--transacted", "--json")
    assert waiting.stdout is not None
    assert [json.loads(waiting.stdout.readline())["body"] for _ in range(2)] == ["x", "x"]
    waiting.send_signal(signal.SIGINT)
    out, err = waiting.communicate(timeout=PATIENCE_S)
    assert (waiting.returncode, out) == (130, "")
    assert err == "pyjms receive: stopped; what was not acknowledged or committed stays with the broker\n"
    assert run_pyjms("browse", url, "orders")[2] == "2 messages\n"


def test_a_broker_that_goes_away_is_told(run_pyjms: Run, start_broker: Start, command: Command) -> None:
    broker = start_broker("--listen", "stomp://127.0.0.1:0", "--anonymous")
    [url] = broker.announced("stomp")
    run_pyjms("send", url, "orders", "x")
    waiting = command("receive", url, "orders", "--count", "2", "--timeout", "3s")
    assert waiting.stdout is not None
    assert waiting.stdout.readline() == "x\n"
    broker.process.kill()
    _, err = waiting.communicate(timeout=PATIENCE_S)
    assert waiting.returncode == 1
    assert "was lost" in err


def test_a_reader_that_has_seen_enough_is_no_error(run_pyjms: Run, start_broker: Start, command: Command) -> None:
    [url] = start_broker("--listen", "stomp://127.0.0.1:0", "--anonymous").announced("stomp")
    run_pyjms("send", url, "orders", "x" * 10_000, "--count", "50")
    reading = command("receive", url, "orders", "--count", "50")
    assert reading.stdout is not None
    reading.stdout.readline()
    reading.stdout.close()
    assert reading.stderr is not None
    assert reading.stderr.read() == ""
    assert reading.wait(PATIENCE_S) == 1
    left = int(run_pyjms("browse", url, "orders", "--limit", "0", "--json")[1].count("\n"))
    assert 0 < left < 50, "what was not written is not acknowledged"


def test_a_command_loads_only_what_it_needs() -> None:
    program = (
        "import sys; sys.argv = ['pyjms', 'demo', '--help']\n"
        "from pyjms.cli import main\n"
        "try:\n    main()\n"
        "except SystemExit:\n    sys.stderr.write(' '.join(sys.modules))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    loaded = set(done.stderr.split())
    assert "pyjms.demo.command" in loaded
    assert not {
        each
        for each in loaded - {"pyjms.commands.signals"}  # which all need
        if each.startswith(("pyjms.commands.", "pyjms.history.command", "pyjms_provider"))
    }

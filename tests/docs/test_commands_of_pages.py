"""The commands of README.md and of the guide to the command line, as they are written; only ports are other, free ones."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.consoles import Typed, console_blocks
from tests.ports import free_port
from tests.provider.commands.served import PATIENCE_S, PYJMS, BrokerProcess, environment
from tests.pyjms.demo.command_line import runner
from tests.tidy.source import ROOT

README_COMMAND = ".venv/bin/pyjms"


@pytest.fixture
def ports() -> dict[str, str]:
    """Free ports in place of those that the pages name."""
    return {known: str(free_port()) for known in ("61613", "8161")}


@pytest.fixture
def brokers() -> Iterator[list[BrokerProcess]]:
    started: list[BrokerProcess] = []
    yield started
    for each in started:
        each.end()


def with_ports(text: str, ports: dict[str, str]) -> str:
    for known, other in ports.items():
        text = text.replace(known, other)
    return text


def words(typed: Typed, program: str) -> list[str]:
    """Return the arguments of a command of ours."""
    first, *rest = shlex.split(typed.command)
    assert first == program, typed.command
    return rest


def test_the_readme_shows_broker_consumer_and_producer_in_three_terminals(
    tmp_path: Path, ports: dict[str, str], brokers: list[BrokerProcess]
) -> None:
    section = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Between programs")[2].partition("\n## ")[0]
    _, [broker], [consumer], producer = console_blocks(with_ports(section, ports))
    _, _, *options = words(broker, README_COMMAND)
    brokers.append(BrokerProcess(tmp_path, *options))
    [url] = brokers[0].announced("stomp")
    assert broker.prints == (f"listening {url}",)
    waiting = subprocess.Popen(
        [*PYJMS, *words(consumer, README_COMMAND)], stdout=subprocess.PIPE, env=environment(), text=True
    )
    try:
        for each in producer:
            subprocess.run([*PYJMS, *words(each, README_COMMAND)], env=environment(), check=True, timeout=PATIENCE_S)
        out, _ = waiting.communicate(timeout=PATIENCE_S)
    finally:
        waiting.kill()
        waiting.wait()
    assert (waiting.returncode, tuple(out.splitlines())) == (0, consumer.prints)
    assert brokers[0].end() == 0


def test_the_guide_to_the_command_line_works_as_written(
    tmp_path: Path,
    ports: dict[str, str],
    brokers: list[BrokerProcess],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = with_ports((ROOT / "docs" / "how-to" / "command-line.md").read_text(encoding="utf-8"), ports)
    run = runner(monkeypatch, capsys)
    monkeypatch.chdir(tmp_path)
    for typed in (each for block in console_blocks(page) for each in block):
        if typed.command.startswith("export "):
            for variable in shlex.split(typed.command)[1:]:
                name, _, value = variable.partition("=")
                monkeypatch.setenv(name, value)
            continue
        arguments = words(typed, "pyjms")
        if arguments[:2] == ["broker", "run"]:
            brokers.append(BrokerProcess(tmp_path, *arguments[2:], variables={"PYJMS_USER": "", "PYJMS_PASSWORD": ""}))
            assert {f"listening {url}" for url in brokers[0].announced("http", "stomp")} == set(typed.prints)
            continue
        if arguments == ["broker", "init"]:  # its ports are those that the page names
            arguments += ["--stomp-port", ports["61613"], "--http-port", ports["8161"]]
        code, out, err = run(*arguments)
        assert code == 0, f"{typed.command}\n{err}"
        if typed.prints:
            assert [line.rstrip() for line in out.splitlines()] == list(typed.prints), typed.command

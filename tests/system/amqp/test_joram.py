"""Joram's conformance tests of JMS 1.1 over AMQP, by Qpid JMS, a JMS client of others: all pass."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.needs.declaring import needing
from tests.peers.building import SOURCES, java_program
from tests.provider.commands.served import BrokerProcess

TESTS = 196
# A message that a test has rolled back twice is there at once, not 100 ms later: a test empties its queue, and the next one uses it.
CONFIGURATION = """\
version = 1

[broker]
name = "broker"

[[authentication_provider]]
name = "anybody"
type = "anonymous"

[[access_control]]
name = "all"
rules = [{ effect = "allow", who = "*" }]

[[port]]
name = "amqp"
type = "amqp"
host = "127.0.0.1"
port = 0
authentication_providers = ["anybody"]
access_control = "all"

[[virtual_host_node]]
name = "broker"
type = "memory"

[virtual_host_node.host]
redelivery_back_off_ms = 0
"""


@pytest.mark.requires("qpid-jms")
@pytest.mark.parametrize("store", ["memory", "sqlite", needing("postgresql")])
@pytest.mark.timeout(400)
def test_all_of_jorams_tests_pass(store: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    def store_url(folder: Path) -> str | None:
        if store == "postgresql":
            url: str = request.getfixturevalue("postgresql").make_store()
            return url
        return f"sqlite:///{folder}/store.db" if store == "sqlite" else None

    first, second = tmp_path / "first", tmp_path / "second"
    failed = failures(first, store_url(first))
    if failed:  # some have a second for their messages, which a busy machine may not give them
        again = failures(second, store_url(second))
        failed = {name: why for name, why in failed.items() if name in again}
    assert failed == {}


def failures(folder: Path, store_url: str | None) -> dict[str, str]:
    """Run all tests with a new broker; return those that fail, with what they say."""
    folder.mkdir()
    store = "" if store_url is None else f"store_url = {json.dumps(store_url)}\n"
    (folder / "broker.toml").write_text(CONFIGURATION + store, encoding="utf-8")
    process = BrokerProcess(folder, "broker.toml")
    try:
        (url,) = process.announced("amqp")
        return failures_at(url, folder / "results.tsv")
    finally:
        process.end()


def failures_at(url: str, results: Path) -> dict[str, str]:
    """Run all tests; return those that fail, with what they say."""
    here, shared = SOURCES / "joram_amqp", SOURCES / "joram_stomp"
    sources = (shared / "JoramRun.java", here / "JoramAmqpAdmin.java", here / "provider.properties")
    class_path = java_program("joram_amqp", *sources)
    options = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")
    done = subprocess.run(
        ["java", *options, f"-Dbroker.url={url}", "-cp", class_path, "JoramRun", str(results)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5_000:]
    found = [line.split("\t") for line in results.read_text(encoding="utf-8").splitlines()]
    assert len(found) == TESTS
    return {name: f"{outcome}: {why}" for name, outcome, why in found if outcome != "passed"}

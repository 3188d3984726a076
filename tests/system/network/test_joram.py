"""Joram's conformance tests of JMS 1.1, over STOMP: by stompjms, a JMS client of others that does not know our broker."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.peers.building import SOURCES, java_program
from tests.provider.commands.served import BrokerProcess

PROGRAM = ("JoramRun.java", "JoramAdmin.java", "provider.properties")
TESTS = 196
PASSING = 178
"""At least; 181 pass with ActiveMQ, which stompjms knows."""

_NO_BROWSERS = "stompjms browses at no server that it does not know"
_NO_DURABLES = "stompjms has no durable subscriptions at a server that it does not know"
_NO_ERROR = "stompjms does not wait for the broker's answer to SUBSCRIBE, so that a selector is refused too late"
_OTHER_ERROR = (
    "stompjms raises JMSException for a selector that the broker refuses, instead of InvalidSelectorException"
)
_TEMPORARY = "stompjms sends to a temporary destination by another connection than the one that made it, under the name that it had there"
KNOWN_FAILURES = {
    "JMSXPropertyTest.testSupportsJMSXGroupID": "stompjms does not name JMSXGroupID among the properties that it supports",
    "MessageHeaderTest.testJMSMessageID_2": r"stompjms reads \c in message-id, which is a colon in STOMP 1.1, as it stands",
    "MessageHeaderTest.testJMSReplyTo_2": "others see a temporary queue, in reply-to, under the name by which they reach it",
    "QueueBrowserTest.testBrowserWithMessageSelector": _NO_BROWSERS,
    "QueueBrowserTest.testSenderBrowser": _NO_BROWSERS,
    "QueueSessionTest.testCreateBrowser_2": _NO_ERROR,
    "QueueSessionTest.testCreateReceiver_2": _OTHER_ERROR,
    "SelectorSyntaxTest.testIdentifierNULL": _OTHER_ERROR,
    "SelectorTest.testIdentifierConversion": "a property of STOMP has no type, so that '2' is compared with numbers as 2",
    "TemporaryQueueTest.testTemporaryQueue": _TEMPORARY,
    "TemporaryTopicTest.testTemporaryTopic": _TEMPORARY,
    "TopicSessionTest.testCreateDurableSubscriber_2": _NO_DURABLES,
    "TopicSessionTest.testCreateSubscriber_2": _NO_ERROR,
    "TopicSessionTest.testDurableSubscriber": _NO_DURABLES,
    "TopicSessionTest.testRollbackReceivedMessage": "stompjms connects anew for a transacted session, with the client id of its other connection",
    "TopicSessionTest.testUnsubscribe": _NO_DURABLES,
}
"""What fails for a reason that is known, and which."""


@pytest.fixture
def broker_port(tmp_path: Path) -> Iterator[int]:
    """Return the port of a broker that lets in everybody."""
    process = BrokerProcess(tmp_path, "--listen", "stomp://127.0.0.1:0", "--anonymous")
    try:
        (url,) = process.announced("stomp")
        yield int(url.rpartition(":")[2])
    finally:
        process.end()


def run(*command: str) -> None:
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, f"{command[0]} failed:\n{done.stdout[-5_000:]}"


@pytest.mark.requires("joram-stomp")
@pytest.mark.timeout(500)
def test_jorams_tests_pass_but_for_those_that_fail_for_a_known_reason(broker_port: int, tmp_path: Path) -> None:
    failed = failures(broker_port, tmp_path / "first.tsv")
    if (
        failed.keys() - KNOWN_FAILURES.keys()
    ):  # some have a second for their messages, which a busy machine may not give them
        again = failures(broker_port, tmp_path / "second.tsv")
        failed = {name: why for name, why in failed.items() if name in again}
    assert {name: why for name, why in failed.items() if name not in KNOWN_FAILURES} == {}
    assert TESTS - len(failed) >= PASSING


def failures(broker_port: int, results: Path) -> dict[str, str]:
    """Run all tests; return those that fail, with what they say."""
    class_path = java_program("joram_stomp", *(SOURCES / "joram_stomp" / each for each in PROGRAM))
    options = ("-Xmx256m", "-XX:TieredStopAtLevel=1", f"-Dbroker.url=tcp://127.0.0.1:{broker_port}")
    run("java", *options, "-cp", class_path, "JoramRun", str(results))
    found = [line.split("\t") for line in results.read_text(encoding="utf-8").splitlines()]
    assert len(found) == TESTS
    return {name: why for name, outcome, why in found if outcome != "passed"}


def test_each_known_failure_has_a_reason_and_leaves_enough_that_pass() -> None:
    assert all(KNOWN_FAILURES.values())
    assert TESTS - len(KNOWN_FAILURES) >= PASSING

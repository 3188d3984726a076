"""Qpid JMS, the JMS client of Java, in two versions: what programs expect of JMS 2.0, and what pyjms and Java write for each other."""

from __future__ import annotations

import subprocess

import pytest

from tests.peers.building import SOURCES, java_program

PATIENCE_S = 170.0
PROGRAM = SOURCES / "qpid_jms" / "Checks.java"
VERSIONS = {"1.15, javax": "joram_amqp", "2.10, jakarta": "qpid_jms"}
"""The folders with the libraries of each."""


def checks(version: str, url: str, *names: str) -> dict[str, str]:
    """Run the checks of Qpid JMS against a broker; return what became of each."""
    replacing = ("jakarta.jms", "javax.jms") if "javax" in version else ("", "")
    class_path = java_program(VERSIONS[version], PROGRAM, replacing=replacing)
    options = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")
    done = subprocess.run(
        ["java", *options, "-cp", class_path, "Checks", url, *names],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return {name: outcome for name, _, outcome in (line.partition("\t") for line in done.stdout.splitlines())}


@pytest.mark.requires("qpid-jms")
@pytest.mark.parametrize("version", VERSIONS)
def test_programs_of_java_find_what_they_expect(version: str, amqp_url: str) -> None:
    found = checks(version, amqp_url)
    assert len(found) >= 39
    assert {name: outcome for name, outcome in found.items() if outcome.strip() != "passed"} == {}

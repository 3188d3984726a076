"""Clusters for the tests of applications: what a test does to their members, and the example of the page on testing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from pyjms import ConnectionFactory, JMSContext
from pyjms.testing import Cluster, MissingBrokerError, MissingPostgresqlError, PostgresqlServer
from tests.provider.cluster.world import wait_until
from tests.tidy.source import ROOT

LONG_MS = 60_000
pytestmark = pytest.mark.xdist_group("clusters of applications")  # they share a server, which takes a while to start


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresqlServer]:
    with PostgresqlServer() as started:
        yield started


def send(context: JMSContext, text: str) -> None:
    context.create_producer().send(context.create_queue("orders"), text)


def receive(context: JMSContext) -> str:
    with context.create_consumer(context.create_queue("orders")) as consumer:
        return str(consumer.receive_body(str, LONG_MS))


@pytest.mark.requires("postgresql")
def test_members_are_killed_paused_stopped_and_started_again(
    server: PostgresqlServer, caplog: pytest.LogCaptureFixture
) -> None:
    with Cluster(server.url) as cluster, ConnectionFactory(cluster.url).create_context() as context:
        left, right = cluster.members
        assert [cluster["left"], cluster["right"]] == [left, right] == list(cluster)

        cluster.move_leader("orders", left)
        assert cluster.leader_of("queue://orders") is left
        send(context, "sent to the killed one")
        port = left.port
        left.kill()
        assert not left.is_running
        assert receive(context) == "sent to the killed one"
        assert cluster.leader_of("orders") is right
        assert "PYJMS-CLUSTER-7" in caplog.text, "the other one found it dead"
        with pytest.raises(RuntimeError, match="left does not run"):
            left.kill()

        left.start()
        assert left.port == port
        with pytest.raises(RuntimeError, match="left runs already"):
            left.start()
        wait_until(lambda: cluster.leader_of("orders") is left, "it is pinned")

        with ConnectionFactory(right.url).create_context() as other:
            send(other, "sent to the paused one")
            left.pause()
            assert left.is_paused
            assert receive(other) == "sent to the paused one"
            assert cluster.leader_of("orders") is right
            left.go_on()
            wait_until(lambda: cluster.leader_of("orders") is left, "it is pinned")
            send(other, "sent to the stopped one")
            caplog.clear()
            left.stop()
            assert receive(other) == "sent to the stopped one"
            assert "PYJMS-CLUSTER-7" not in caplog.text, "it has taken leave"

        with ConnectionFactory("vm://test").create_context() as here:
            send(here, "sent in the process")
            assert receive(here) == "sent in the process"
        assert cluster.leader_of("topic://news") is right
    cluster.close()
    assert not any(each.is_running for each in cluster)
    address = server.url.replace("+psycopg", "")
    with psycopg.connect(address) as connection:
        found = connection.execute("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'pyjms_test%'").fetchall()
    assert found == [], "it left schemas behind"


@pytest.mark.requires("postgresql")
def test_the_example_of_the_page_on_testing_passes(server: PostgresqlServer, pytester: pytest.Pytester) -> None:
    page = (ROOT / "docs" / "how-to" / "testing.md").read_text("utf-8")
    (example,) = re.findall(r"tests/pyjms/testing/test_cluster.py runs it -->\n```python\n(.*?)```", page, re.DOTALL)
    pytester.makepyfile(example)
    # In a process of its own: SQLAlchemy, which may be imported there first, cannot be imported twice.
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "--jms-postgresql", server.url)
    result.assert_outcomes(passed=1)


@pytest.mark.requires("postgresql")
def test_a_server_leaves_nothing_behind() -> None:
    with PostgresqlServer() as server:
        directory = server._directory
        assert directory.exists()
    server.close()
    assert not directory.exists()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(server.url.replace("+psycopg", ""))


def test_without_postgresql_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("pyjms.testing.postgresql._BINARIES", str(tmp_path))
    with pytest.raises(MissingPostgresqlError, match="apt install postgresql"):
        Cluster()
    with pytest.raises(MissingPostgresqlError, match="not installed"):
        PostgresqlServer()


def test_without_the_broker_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyjms.testing.cluster.entry_points", lambda **_: ())
    with pytest.raises(MissingBrokerError, match=re.escape("pip install 'pyjms-messaging[broker,stomp,postgresql]'")):
        Cluster("postgresql+psycopg://nobody@127.0.0.1/nothing")


def test_a_cluster_has_a_member_and_few_of_them() -> None:
    for members in (0, 9):
        with pytest.raises(ValueError, match="1 to 8 members"):
            Cluster("postgresql+psycopg://nobody@127.0.0.1/nothing", members=members)

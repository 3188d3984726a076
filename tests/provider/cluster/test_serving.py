"""The ports of a member: native and plain STOMP, AMQP, and the command that shows the cluster."""

from __future__ import annotations

import io
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyjms import ConnectionFactory, JMSRuntimeException
from pyjms_provider.security.user_file import UserFile
from tests.provider.cluster.pretended import Served, served_cluster
from tests.pyjms.demo.command_line import runner

MESSAGES = 3
PATIENCE_MS = 20_000
RULES = (
    {"effect": "allow", "who": "group:makers"},
    {"effect": "allow", "who": "*", "operations": ["connect"]},
    {"effect": "allow", "who": "*", "operations": ["write", "read", "browse"], "virtual_host": "shop"},
)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    with served_cluster(monkeypatch) as found:
        yield found


@pytest.mark.parametrize("scheme", ["stomp", "amqp"])
def test_a_client_uses_the_queues_of_all_shards(served: Served, scheme: str) -> None:
    with ConnectionFactory(served.url(scheme)).create_context() as context:
        for shard in (0, 1):
            queue = context.create_queue(served.queue_in(shard))
            for number in range(MESSAGES):
                context.create_producer().send(queue, f"{shard} {number}")
            assert served.member.all[shard].virtual_host.queue_names() == [served.queue_in(shard)]
            consumer = context.create_consumer(queue)
            found = [consumer.receive_body(str, PATIENCE_MS) for _ in range(MESSAGES)]
            assert found == [f"{shard} {number}" for number in range(MESSAGES)]


@pytest.mark.parametrize("scheme", ["stomp", "amqp"])
def test_a_durable_subscription_is_where_its_topic_is(served: Served, scheme: str) -> None:
    factory = ConnectionFactory(served.url(scheme))
    with factory.create_context() as context:
        context.client_id = "reader"
        context.create_durable_consumer(context.create_topic("news"), "all").close()
    with factory.create_context() as context:
        context.create_producer().send(context.create_topic("news"), "first")
    with factory.create_context() as context:
        context.client_id = "reader"
        consumer = context.create_durable_consumer(context.create_topic("news"), "all")
        assert consumer.receive_body(str, PATIENCE_MS) == "first"
        consumer.close()
        context.unsubscribe("all")
    kept = [broker.virtual_host.subscriptions.durable() for broker in served.member.all.values()]
    assert not any(kept)


def test_a_plain_client_subscribes_to_queues_of_two_shards_at_once(served: Served) -> None:
    queues = [served.queue_in(shard) for shard in (0, 1)]
    port = int(served.url("stomp").rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_MS / 1000) as peer:
        stream = peer.makefile("rb")

        def read() -> bytes:
            frame = bytearray()
            while (byte := stream.read(1)) != b"\0":
                assert byte, bytes(frame)
                frame += byte
            return bytes(frame).lstrip(b"\n")

        peer.sendall(b"CONNECT\naccept-version:1.2\nhost:shop\n\n\0")
        assert read().startswith(b"CONNECTED")
        destination = ",".join(f"/queue/{each}" for each in queues)
        peer.sendall(f"SUBSCRIBE\nid:1\nack:auto\ndestination:{destination}\nreceipt:s\n\n\0".encode())
        assert read().startswith(b"RECEIPT")
        for number, queue in enumerate(queues * 2):
            peer.sendall(f"SEND\ndestination:/queue/{queue}\n\n{number}\0".encode())
        bodies = {read().rpartition(b"\n\n")[2] for _ in range(4)}
    assert bodies == {b"0", b"1", b"2", b"3"}


def test_the_right_to_create_is_asked_only_where_a_queue_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    users = UserFile(tmp_path / "users")
    users.add("maker", "secret of maker", ["makers"])
    users.add("user", "secret of user", [])
    with served_cluster(monkeypatch, RULES, tmp_path / "users") as served:
        factory = ConnectionFactory(served.url("stomp"))
        queues = [served.queue_in(shard) for shard in (0, 1)]
        # Another member leads it from now on, as far as this one knows.
        served.member.led = frozenset({0})
        for name in queues:
            with pytest.raises(JMSRuntimeException, match="create"):
                send(factory, "user", name)
            send(factory, "maker", name)
            send(factory, "user", name)


def send(factory: ConnectionFactory, user: str, queue: str) -> None:
    with factory.create_context(user, f"secret of {user}") as context:
        context.create_producer().send(context.create_queue(queue), "from a user")


def test_a_command_shows_the_cluster(
    served: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    run = runner(monkeypatch, capsys)
    code, told, _ = run("broker", "cluster", served.url("http"))
    assert code == 0
    for text in ("cluster shop of the virtual host shop", "left", "alive", "right", "dead", "3 transactions"):
        assert text in told
    code, told, _ = run("broker", "cluster", served.url("http"), "--host", "main/shop", "--json")
    assert code == 0
    assert [each["name"] for each in json.loads(told)["members"]] == ["left", "right"]


def test_a_command_tells_where_there_is_no_cluster(
    served: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    served.host.delete()
    code, _, told = runner(monkeypatch, capsys)("broker", "cluster", served.url("http"))
    assert code == 2
    assert "no virtual host of this broker is served by a cluster" in told

"""The ports of a member: native and plain STOMP, AMQP, and the command that shows the cluster."""

from __future__ import annotations

import io
import json
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from pyjms import (
    ConnectionFactory,
    JMSContext,
    JMSException,
    JMSRuntimeException,
)
from pyjms.spi.delivery import ELSEWHERE, Delivery
from pyjms.spi.errors import ClosedError, ConnectionLostError, InDoubtError, ProviderError, TooLateError
from pyjms_provider.clients.cluster.consumer import ClusterConsumer
from pyjms_provider.clients.cluster.session import ClusterSession
from pyjms_provider.core.policy import MAXIMUM_DELIVERIES
from pyjms_provider.security.user_file import UserFile
from pyjms_provider.stores.errors import UnavailableStoreError
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


@pytest.mark.parametrize(
    "error",
    [
        TooLateError("another member has become the leader"),
        UnavailableStoreError("the database does not answer; nothing was written"),
        InDoubtError("the database has not answered"),
        ClosedError("the session at the shard is closed"),
        ConnectionLostError("the member has stopped"),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("scheme", ["stomp", "amqp"])
def test_a_consumer_goes_on_when_its_leader_has_not_acknowledged(
    served: Served, scheme: str, error: ProviderError, monkeypatch: pytest.MonkeyPatch
) -> None:
    acknowledge, failures = ClusterSession.acknowledge, [error]

    def fail_once(self: ClusterSession, deliveries: Sequence[Delivery]) -> None:
        if failures:
            self.recover(deliveries)
            raise failures.pop()
        acknowledge(self, deliveries)

    monkeypatch.setattr(ClusterSession, "acknowledge", fail_once)
    with ConnectionFactory(served.url(scheme)).create_context(JMSContext.CLIENT_ACKNOWLEDGE) as context:
        queue = context.create_queue(served.queue_in(0))
        context.create_producer().send(queue, "again")
        consumer = context.create_consumer(queue)
        flags = []
        for _ in range(2):
            message = consumer.receive(PATIENCE_MS)
            assert message is not None
            flags.append(message.jms_redelivered)
            with suppress(JMSException):
                message.acknowledge()
        assert not failures
        assert flags == [False, True]


@pytest.mark.parametrize("error", [UnavailableStoreError("no answer"), ClosedError("the session is closed")])
@pytest.mark.parametrize("scheme", ["stomp", "amqp"])
def test_a_consumer_goes_on_when_its_leader_could_not_reach_the_store(
    served: Served, scheme: str, error: ProviderError, monkeypatch: pytest.MonkeyPatch
) -> None:
    poll_or_wait, failures = ClusterConsumer.poll_or_wait, [error]

    def fail_once(self: ClusterConsumer) -> Delivery | None:
        if failures:
            raise failures.pop()
        return poll_or_wait(self)

    with ConnectionFactory(served.url(scheme)).create_context() as context:
        queue = context.create_queue(served.queue_in(0))
        monkeypatch.setattr(ClusterConsumer, "poll_or_wait", fail_once)
        monkeypatch.setattr(ClusterConsumer, "poll_at_once", lambda self: ELSEWHERE)
        consumer = context.create_consumer(queue)
        context.create_producer().send(queue, "comes")
        assert consumer.receive_body(str, PATIENCE_MS) == "comes"
        assert not failures


def test_a_client_finds_the_dead_letters_of_all_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        served_cluster(monkeypatch, redelivery_back_off_ms=0) as served,
        ConnectionFactory(served.url("stomp")).create_context(JMSContext.CLIENT_ACKNOWLEDGE) as context,
    ):
        for shard in (0, 1):
            queue = context.create_queue(served.queue_in(shard))
            context.create_producer().send(queue, f"of shard {shard}")
            consumer = context.create_consumer(queue)
            for _ in range(MAXIMUM_DELIVERIES):
                assert consumer.receive(PATIENCE_MS) is not None
                context.recover()
            consumer.close()
        dead = context.create_queue("DLQ")
        consumer = context.create_consumer(dead)
        found = {consumer.receive_body(str, PATIENCE_MS) for _ in range(2)}
        assert found == {"of shard 0", "of shard 1"}
        context.recover()
        consumer.close()
        assert len(list(context.create_browser(dead).enumeration)) == 2
        assert [each.virtual_host.queue_names().count("DLQ") for each in served.member.all.values()] == [1, 1]


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


@pytest.mark.parametrize("scheme", ["stomp", "amqp"])
def test_the_rights_of_a_user_are_the_same_at_a_shard_behind_a_link(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, scheme: str
) -> None:
    users = UserFile(tmp_path / "users")
    users.add("maker", "secret of maker", ["makers"])
    users.add("guest", "secret of guest", [])
    rules = (
        {"effect": "allow", "who": "group:makers"},
        {"effect": "allow", "who": "*", "operations": ["connect", "create"]},
        {"effect": "allow", "who": "*", "operations": ["write"], "kind": "queue", "name": "queue-*"},
    )
    with served_cluster(monkeypatch, rules, tmp_path / "users") as served:
        served.member.open_link_port()
        served.member.led = frozenset({0})
        factory = ConnectionFactory(served.url(scheme))
        here, there = served.queue_in(0), served.queue_in(1)
        for name in (here, there):
            send(factory, "guest", name)
        assert [each.user for each in served.member.all[1].clients().values()] == ["left"], "it is a link"
        refused = {name: refusals(factory, name) for name in (here, there)}
        assert set(refused[here]) == {"consume", "browse", "send elsewhere", "subscribe"}
        assert {what: (kind, text.replace(there, here)) for what, (kind, text) in refused[there].items()} == refused[
            here
        ]
        with factory.create_context("maker", "secret of maker") as context:
            for name in (here, there):
                received = context.create_consumer(context.create_queue(name)).receive_body(str, PATIENCE_MS)
                assert received == "from a user"


def refusals(factory: ConnectionFactory, name: str) -> dict[str, tuple[str, str]]:
    """Have a guest try what it may not, at a queue and at what is in the same shard; return the errors."""
    acts: dict[str, Callable[[JMSContext], object]] = {
        "consume": lambda context: context.create_consumer(context.create_queue(name)).receive(PATIENCE_MS),
        "browse": lambda context: list(context.create_browser(context.create_queue(name))),
        "send elsewhere": lambda context: context.create_producer().send(context.create_queue(f"other-{name}"), "1"),
        "subscribe": lambda context: context.create_consumer(context.create_topic(name)).receive(PATIENCE_MS),
    }
    found = {}
    for what, act in acts.items():
        with (
            factory.create_context("guest", "secret of guest") as context,
            pytest.raises((JMSException, JMSRuntimeException), match="permission") as caught,
        ):
            act(context)
        found[what] = (type(caught.value).__name__, str(caught.value))
    return found


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
    for text in (
        "cluster shop of the virtual host shop, format 1",
        "right knows format 2",
        "left",
        "alive",
        "right",
        "dead",
        "3 transactions",
    ):
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


@pytest.mark.parametrize("scheme", ["stomp", "amqp"])
def test_a_message_without_an_id_has_none_behind_a_link_either(served: Served, scheme: str) -> None:
    served.member.open_link_port()
    served.member.led = frozenset()
    with ConnectionFactory(served.url(scheme)).create_context() as context:
        queue = context.create_queue(served.queue_in(0))
        producer = context.create_producer()
        producer.disable_message_id = True
        sent = context.create_text_message("without")
        producer.send(queue, sent)
        received = context.create_consumer(queue).receive(PATIENCE_MS)
        assert received is not None
        assert received.jms_message_id == sent.jms_message_id

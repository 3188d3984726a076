"""Queues, exchanges, acknowledgements and prefetch, as kombu's programs use them, at a broker in this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kombu import Connection, Consumer, Exchange, Queue
from kombu.message import Message
from kombu.pidbox import Mailbox

from pyjms.spi.errors import TooLateError

LONG_S = 10
SHORT_S = 0.05
ORDERS = Queue("orders", Exchange(""), routing_key="orders")


class Reader:
    """Consumes from queues by a channel of its own."""

    def __init__(self, connection: Connection, *queues: Queue, prefetch: int = 0, no_ack: bool = False) -> None:
        self.connection = connection
        self.got: list[Message] = []
        self.channel = connection.channel()
        self.channel.basic_qos(0, prefetch, False)
        self.consumer = Consumer(self.channel, list(queues), on_message=self.got.append, no_ack=no_ack)
        self.consumer.consume()

    def next(self) -> Any:
        """Return the next message's content."""
        self.connection.drain_events(timeout=LONG_S)
        return self.got[-1].decode()

    def expect_none(self) -> None:
        """See that nothing comes."""
        with pytest.raises(TimeoutError):
            self.connection.drain_events(timeout=SHORT_S)


def publish(connection: Connection, *bodies: Any, **options: Any) -> None:
    producer = connection.Producer()
    for body in bodies:
        producer.publish(body, **{"routing_key": "orders", **options})


# Acknowledgements


def test_each_message_is_acknowledged_by_itself(connect: Callable[[], Connection]) -> None:
    connection = connect()
    publish(connection, 1, 2, 3)
    reader = Reader(connection, ORDERS)
    assert [reader.next() for _ in range(3)] == [1, 2, 3]
    reader.got[1].ack()
    reader.channel.close()
    again = Reader(connection, ORDERS)
    assert [again.next(), again.next()] == [1, 3]
    assert [each.delivery_info["redelivered"] for each in again.got] == [True, True]
    assert [each.delivery_info["delivery_count"] for each in again.got] == [2, 2]
    again.expect_none()


def test_acknowledging_multiple_covers_what_came_before(connection: Connection) -> None:
    publish(connection, 1, 2, 3)
    reader = Reader(connection, ORDERS)
    assert [reader.next() for _ in range(3)] == [1, 2, 3]
    reader.got[1].ack(multiple=True)
    reader.channel.close()
    again = Reader(connection, ORDERS)
    assert again.next() == 3
    again.expect_none()


def test_what_is_requeued_comes_again_in_its_place(connection: Connection) -> None:
    publish(connection, 1, 2)
    reader = Reader(connection, ORDERS, prefetch=1)
    assert reader.next() == 1
    assert not reader.got[0].delivery_info["redelivered"]
    reader.got[0].requeue()
    assert reader.next() == 1
    assert reader.got[1].delivery_info["redelivered"]


def test_what_is_rejected_is_a_dead_letter(connection: Connection) -> None:
    publish(connection, 1)
    reader = Reader(connection, ORDERS)
    assert reader.next() == 1
    reader.got[0].reject()
    reader.expect_none()
    assert connection.default_channel.basic_get("DLQ").decode() == 1


def test_recover_gives_all_back_in_order(connection: Connection) -> None:
    publish(connection, 1, 2, 3)
    reader = Reader(connection, ORDERS)
    assert [reader.next() for _ in range(2)] == [1, 2]
    reader.consumer.recover(requeue=True)
    assert [reader.next() for _ in range(3)] == [1, 2, 3]


def test_what_needs_no_acknowledgement_is_settled_as_it_comes(connection: Connection) -> None:
    publish(connection, 1)
    reader = Reader(connection, ORDERS, no_ack=True)
    assert reader.next() == 1
    reader.channel.close()
    Reader(connection, ORDERS).expect_none()


def test_an_acknowledgement_after_the_channel_s_end_is_too_late(connection: Connection) -> None:
    publish(connection, 1)
    reader = Reader(connection, ORDERS)
    assert reader.next() == 1
    reader.channel.close()
    with pytest.raises(TooLateError, match="comes again") as raised:
        reader.got[0].ack()
    assert isinstance(raised.value, connection.connection_errors)  # Celery logs those, and goes on
    assert Reader(connection, ORDERS).next() == 1


def test_a_connection_that_ends_gives_back(connect: Callable[[], Connection]) -> None:
    first, second = connect(), connect()
    publish(first, 1)
    assert Reader(first, ORDERS).next() == 1
    first.release()
    assert Reader(second, ORDERS).next() == 1


# Prefetch


def test_no_more_come_than_the_prefetch_count_allows(connect: Callable[[], Connection]) -> None:
    connection, other = connect(), connect()
    publish(connection, 1, 2, 3)
    reader = Reader(connection, ORDERS, prefetch=2)
    assert [reader.next(), reader.next()] == [1, 2]
    reader.expect_none()
    assert Reader(other, ORDERS).next() == 3  # so it was not kept here either
    publish(connection, 4)
    reader.got[0].ack()
    assert reader.next() == 4


def test_the_prefetch_count_changes_for_consumers_that_are_there(connection: Connection) -> None:
    publish(connection, 1, 2)
    reader = Reader(connection, ORDERS, prefetch=1)
    assert reader.next() == 1
    reader.expect_none()
    reader.consumer.qos(prefetch_count=2, apply_global=True)
    assert reader.next() == 2


def test_who_is_busy_keeps_nobody_else_from_messages(connect: Callable[[], Connection]) -> None:
    busy, idle = connect(), connect()
    reader, other = Reader(busy, ORDERS), Reader(idle, ORDERS)
    reader.expect_none()  # it has waited, and does something else now
    publish(idle, 1)
    assert other.next() == 1


# Order and turns


def test_messages_come_in_order_and_by_priority(connection: Connection) -> None:
    publish(connection, 1, 2)
    publish(connection, "urgent", priority=9)
    reader = Reader(connection, ORDERS)
    assert [reader.next() for _ in range(3)] == ["urgent", 1, 2]


def test_queues_and_channels_take_turns(connection: Connection) -> None:
    for name in "abc":
        publish(connection, name, name, name, routing_key=name)
    first = Reader(connection, Queue("a"), Queue("b"))
    second = Reader(connection, Queue("c"))
    got: list[str] = []
    for reader in (first, second):
        reader.consumer.on_message = lambda message: got.append(message.decode())
    for _ in range(6):
        connection.drain_events(timeout=LONG_S)
    assert sorted(got[:4]) != ["a", "a", "a", "b"]
    assert {"a", "b", "c"} == set(got[:4])


def test_a_consumer_of_higher_priority_is_served_first(connect: Callable[[], Connection]) -> None:
    low, high = connect(), connect()
    reader = Reader(low, ORDERS)
    first = Reader(high, Queue("orders", consumer_arguments={"x-priority": 5}))
    assert first.channel is not reader.channel
    publish(low, 1)
    assert first.next() == 1


# Queues


def test_get_and_counts_and_purge(connection: Connection) -> None:
    channel = connection.default_channel
    assert channel.basic_get("orders") is None
    publish(connection, *range(250))
    assert channel.queue_declare("orders", passive=True).message_count == 250
    held = channel.basic_get("orders")
    assert held.decode() == 0
    assert channel.queue_purge("orders") == 249
    assert channel.basic_get("orders") is None
    held.requeue()
    assert channel.basic_get("orders", no_ack=True).decode() == 0


def test_simple_queues(connection: Connection) -> None:
    queue = connection.SimpleQueue("simple")
    queue.put({"a": 1})
    assert queue.qsize() == 1
    message = queue.get(timeout=LONG_S)
    message.ack()
    assert message.payload == {"a": 1}
    with pytest.raises(queue.Empty):
        queue.get(block=False)


def test_a_name_is_found_for_a_queue_without_one(connection: Connection) -> None:
    assert connection.default_channel.queue_declare().queue.startswith("amq.gen-")


def test_a_queue_that_is_deleted_is_emptied(connection: Connection) -> None:
    channel = connection.default_channel
    publish(connection, 1)
    channel.queue_delete("orders", if_empty=True)
    channel.queue_delete("orders", if_unused=True)
    assert channel.queue_declare("orders", passive=True).message_count == 1
    channel.queue_delete("orders")
    assert channel.basic_get("orders") is None


def test_a_drain_without_time_finds_what_is_there(connection: Connection) -> None:
    publish(connection, 1)
    reader = Reader(connection, ORDERS)
    connection.drain_events(timeout=0)
    assert reader.got[0].decode() == 1
    with pytest.raises(TimeoutError):
        connection.drain_events(timeout=0)


# Exchanges


@pytest.mark.parametrize(
    ("kind", "binding", "keys", "expected"),
    [
        ("direct", "a'b", ["a'b", "c"], ["a'b"]),
        ("topic", "a.*", ["a.b", "a", "a.b.c", "b.a"], ["a.b"]),
        ("topic", "a.#", ["a.b", "b", "a.b.c"], ["a.b", "a.b.c"]),
        ("fanout", "", ["a", "b.c"], ["a", "b.c"]),
    ],
)
@pytest.mark.parametrize("lasts", [True, False], ids=["by its queue", "by a topic"])
def test_exchanges_route(
    connect: Callable[[], Connection], kind: str, binding: str, keys: list[str], expected: list[str], lasts: bool
) -> None:
    exchange = Exchange("news", kind)
    connection, publisher = connect(), connect()
    reader = Reader(connection, Queue("mine", exchange, routing_key=binding, auto_delete=not lasts))
    for key in keys:
        publish(publisher, key, exchange=exchange, routing_key=key, declare=[exchange])
    assert [reader.next() for _ in expected] == expected
    assert [each.delivery_info["routing_key"] for each in reader.got] == expected
    assert {each.delivery_info["exchange"] for each in reader.got} == {"news"}
    reader.expect_none()


def test_a_queue_that_lasts_keeps_what_is_published_while_nobody_consumes(connect: Callable[[], Connection]) -> None:
    queue = Queue("mine", Exchange("news", "fanout"))
    publish(connect(), 1, exchange=queue.exchange, routing_key="", declare=[queue])
    assert Reader(connect(), queue).next() == 1


def test_a_queue_that_ends_with_its_connection_gets_what_comes_from_its_binding_on(connection: Connection) -> None:
    queue = Queue("mine", Exchange("news", "fanout"), exclusive=True)
    bound = queue(connection.default_channel)
    bound.declare()
    publish(connection, 1, 2, exchange=queue.exchange, routing_key="")
    assert bound.get(no_ack=True).decode() == 1
    assert Reader(connection, queue).next() == 2
    bound.unbind_from(queue.exchange)
    publish(connection, 3, exchange=queue.exchange, routing_key="")
    bound.delete()
    assert connection.default_channel.queue_declare("mine", passive=True).message_count == 0


def test_an_exchange_that_nobody_has_declared_here_reaches_others(connect: Callable[[], Connection]) -> None:
    reader = Reader(connect(), Queue("mine", Exchange("elsewhere", "fanout"), exclusive=True))
    publish(connect(), 1, exchange="elsewhere", routing_key="")
    assert reader.next() == 1


def test_remote_control(connect: Callable[[], Connection]) -> None:
    server, client = connect(), connect()
    mailbox = Mailbox("shop", type="fanout")
    node = mailbox(server).Node("one", handlers={"ping": lambda state, **_: "pong"}, state={})
    node.channel = server.channel()
    consumer = node.Consumer(callbacks=[node.handle_message], no_ack=True)
    consumer.consume()
    answers: list[Any] = []
    asking = mailbox(client)
    for _ in range(2):
        asking._publish("ping", {}, reply_ticket="t", channel=client.default_channel)
        server.drain_events(timeout=LONG_S)
        answers += asking._collect("t", limit=1, timeout=LONG_S, channel=client.default_channel)
    assert answers == [{"one": "pong"}] * 2

"""The clients that the network benchmarks compare: pyjms, stomp.py, py-amqp and pika, each tuned.

Every message has the same text and the same ten properties; a client whose headers are text has them as text, and pika, which
knows no floating-point headers, those two.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from itertools import count as count_from
from queue import SimpleQueue
from time import perf_counter
from typing import Any, Final

import amqp
import pika
import stomp
from measure import PROPERTIES, TEXT, make_message
from network import BATCH, Client

import pyjms_provider.clients.stomp.provider  # noqa: F401 - as the others: else each client's process loads it, and is charged
from pyjms import ConnectionFactory, DeliveryMode, Session

__all__ = ["AmqpClient", "JmsClient", "PikaClient", "StompClient", "declare_queue"]

_TIMEOUT_S: Final = 120
_PREFETCH: Final = 1000
_REPLY_TO: Final = "amq.rabbitmq.reply-to"
_PIKA_PROPERTIES: Final = {
    name: str(value) if isinstance(value, float) else value for name, value in PROPERTIES.items()
}
_TEXT_PROPERTIES: Final = {name: str(value) for name, value in PROPERTIES.items()}


class JmsClient(Client):
    """pyjms over STOMP, in the dialect that pyjms's own broker and client have between them."""

    def __init__(self, port: int, options: str = "") -> None:
        url = f"stomp://127.0.0.1:{port}?prefetch_messages={_PREFETCH}{options}"
        self._connection = ConnectionFactory(url).create_connection()
        self._connection.start()
        self._producers: dict[tuple[str, int, bool], Any] = {}
        self._sessions: dict[bool, Session] = {}

    def _session(self, transacted: bool = False, mode: int = Session.AUTO_ACKNOWLEDGE) -> Session:
        if transacted not in self._sessions:
            self._sessions[transacted] = self._connection.create_session(transacted, mode)
        return self._sessions[transacted]

    def _send(self, queue: str, delivery_mode: int, transacted: bool = False) -> None:
        session, key = self._session(transacted), (queue, delivery_mode, transacted)
        producer = self._producers.get(key)
        if producer is None:
            producer = self._producers[key] = session.create_producer(session.create_queue(queue))
            producer.delivery_mode = delivery_mode
        producer.send(make_message(session))

    def send(self, queue: str) -> None:
        self._send(queue, DeliveryMode.NON_PERSISTENT)

    def flush(self) -> None:
        self._session().create_temporary_queue().delete()

    def send_confirmed(self, queue: str) -> None:
        self._send(queue, DeliveryMode.PERSISTENT)

    def send_batch(self, queue: str) -> None:
        for _ in range(BATCH):
            self._send(queue, DeliveryMode.PERSISTENT, transacted=True)
        self._session(transacted=True).commit()

    def consume(self, queue: str, count: int, ready: Callable[[], None]) -> None:
        session = self._session(mode=Session.DUPS_OK_ACKNOWLEDGE)
        consumer = session.create_consumer(session.create_queue(queue))
        ready()
        for _ in range(count):
            _expect(consumer.receive(_TIMEOUT_S * 1000))
        session.close()

    def receive_acknowledged(self, queue: str, count: int) -> None:
        session = self._session()
        consumer = session.create_consumer(session.create_queue(queue))
        for _ in range(count):
            _expect(consumer.receive(_TIMEOUT_S * 1000))
        session.close()

    def receive_batches(self, queue: str, count: int) -> None:
        session = self._session(transacted=True)
        consumer = session.create_consumer(session.create_queue(queue))
        for _ in range(count // BATCH):
            for _ in range(BATCH):
                _expect(consumer.receive(_TIMEOUT_S * 1000))
            session.commit()

    def request(self, queue: str, count: int) -> list[float]:
        session = self._session()
        producer = session.create_producer(session.create_queue(queue))
        producer.delivery_mode = DeliveryMode.NON_PERSISTENT
        answers = session.create_temporary_queue()
        consumer = session.create_consumer(answers)
        took = []
        for number in range(count):
            begin = perf_counter()
            message = make_message(session)
            message.jms_reply_to = answers
            message.jms_correlation_id = str(number)
            producer.send(message)
            _expect(consumer.receive(_TIMEOUT_S * 1000))
            took.append(perf_counter() - begin)
        return took

    def reply(self, queue: str, count: int, ready: Callable[[], None]) -> None:
        session = self._session()
        consumer = session.create_consumer(session.create_queue(queue))
        producer = session.create_producer(None)
        producer.delivery_mode = DeliveryMode.NON_PERSISTENT
        ready()
        for _ in range(count):
            request = _expect(consumer.receive(_TIMEOUT_S * 1000))
            message = make_message(session)
            message.jms_correlation_id = request.jms_correlation_id
            producer.send(request.jms_reply_to, message)
        session.close()


def _expect(message: Any) -> Any:
    if message is None:
        raise TimeoutError(f"no message came within {_TIMEOUT_S} s")
    return message


class _Listener(stomp.ConnectionListener):  # type: ignore[misc]
    def __init__(self) -> None:
        self.messages: SimpleQueue[Any] = SimpleQueue()
        self.receipts: SimpleQueue[str] = SimpleQueue()

    def on_message(self, frame: Any) -> None:
        self.messages.put(frame)

    def on_receipt(self, frame: Any) -> None:
        self.receipts.put(frame.headers["receipt-id"])


class StompClient(Client):
    """stomp.py, with TCP_NODELAY, which it does not set itself, and one cumulative acknowledgement a transaction."""

    def __init__(self, port: int, kind: str) -> None:
        self._kind = kind
        user = "guest" if kind == "rabbitmq" else "admin"
        self._stomp = stomp.StompConnection12([("127.0.0.1", port)], vhost="/" if kind == "rabbitmq" else None)
        self._listener = _Listener()
        self._stomp.set_listener("", self._listener)
        self._stomp.connect(user, user, wait=True)
        self._stomp.transport.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._numbers = count_from(1)

    def _receipt(self) -> str:
        return f"r{next(self._numbers)}"

    def _send(self, destination: str, **headers: str) -> None:
        self._stomp.send(_path(destination), TEXT, headers=_TEXT_PROPERTIES | headers)

    def _next(self) -> Any:
        return self._listener.messages.get(timeout=_TIMEOUT_S)

    def _answered(self) -> None:
        self._listener.receipts.get(timeout=_TIMEOUT_S)

    def send(self, queue: str) -> None:
        self._send(queue)

    def flush(self) -> None:
        self._stomp.begin(transaction=f"f{next(self._numbers)}", receipt=self._receipt())
        self._answered()

    def send_confirmed(self, queue: str) -> None:
        self._send(queue, persistent="true", receipt=self._receipt())
        self._answered()

    def send_batch(self, queue: str) -> None:
        transaction = self._stomp.begin()
        for _ in range(BATCH):
            self._send(queue, persistent="true", transaction=transaction)
        self._stomp.commit(transaction, receipt=self._receipt())
        self._answered()

    def _subscribe(self, queue: str, ack: str) -> None:
        headers = {"activemq.prefetchSize": str(_PREFETCH)}
        if self._kind == "rabbitmq":
            headers = {"durable": "true", "auto-delete": "false"}
            if ack != "auto":
                headers["prefetch-count"] = str(_PREFETCH)
        self._stomp.subscribe(_path(queue), "1", ack=ack, headers=headers, receipt=self._receipt())
        self._answered()

    def consume(self, queue: str, count: int, ready: Callable[[], None]) -> None:
        self._subscribe(queue, "auto")
        ready()
        for _ in range(count):
            self._next()

    def receive_acknowledged(self, queue: str, count: int) -> None:
        self._subscribe(queue, "client-individual")
        for _ in range(count):
            self._stomp.ack(self._next().headers["ack"])
        self.flush()

    def receive_batches(self, queue: str, count: int) -> None:
        self._subscribe(queue, "client")
        for _ in range(count // BATCH):
            transaction = self._stomp.begin()
            last = [self._next() for _ in range(BATCH)][-1]
            self._stomp.ack(last.headers["ack"], transaction=transaction)
            self._stomp.commit(transaction, receipt=self._receipt())
            self._answered()

    def request(self, queue: str, count: int) -> list[float]:
        answers = "/temp-queue/r"
        if self._kind == "activemq":
            self._subscribe(answers, "auto")
        took = []
        for number in range(count):
            begin = perf_counter()
            self._send(queue, **{"reply-to": answers, "correlation-id": str(number)})
            self._next()
            took.append(perf_counter() - begin)
        return took

    def reply(self, queue: str, count: int, ready: Callable[[], None]) -> None:
        self._subscribe(queue, "auto")
        ready()
        for _ in range(count):
            headers = self._next().headers
            self._send(headers["reply-to"], **{"correlation-id": headers["correlation-id"]})
        self.flush()


def _path(name: str) -> str:
    return name if name.startswith("/") else f"/queue/{name}"


def declare_queue(port: int, name: str) -> str:
    """Make a durable queue at RabbitMQ, and return its name."""
    with amqp.Connection(f"127.0.0.1:{port}") as connection:
        connection.channel().queue_declare(name, durable=True, auto_delete=False)
    return name


class AmqpClient(Client):
    """py-amqp, which Celery speaks to RabbitMQ with."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._channel: Any = None

    def _open(self, *, confirm: bool = False, transacted: bool = False) -> Any:
        if self._channel is None:
            self._connection = amqp.Connection(f"127.0.0.1:{self._port}", heartbeat=0, confirm_publish=confirm)
            self._connection.connect()
            self._channel = self._connection.channel()
            if transacted:
                self._channel.tx_select()
        return self._channel

    def _publish(self, channel: Any, queue: str, delivery_mode: int, **header: str) -> None:
        message = amqp.Message(TEXT, application_headers=dict(PROPERTIES), delivery_mode=delivery_mode, **header)
        channel.basic_publish(message, exchange="", routing_key=queue)

    def _drain(self, got: list[Any], count: int) -> None:
        while len(got) < count:
            self._connection.drain_events(timeout=_TIMEOUT_S)

    def send(self, queue: str) -> None:
        self._publish(self._open(), queue, 1)

    def flush(self) -> None:
        self._open().queue_declare("", exclusive=True)

    def send_confirmed(self, queue: str) -> None:
        self._publish(self._open(confirm=True), queue, 2)

    def send_batch(self, queue: str) -> None:
        channel = self._open(transacted=True)
        for _ in range(BATCH):
            self._publish(channel, queue, 2)
        channel.tx_commit()

    def consume(self, queue: str, count: int, ready: Callable[[], None]) -> None:
        got: list[Any] = []
        self._open().basic_consume(queue, no_ack=True, callback=lambda message: got.append(message.delivery_tag))
        ready()
        self._drain(got, count)

    def receive_acknowledged(self, queue: str, count: int) -> None:
        channel, got = self._open(), list[Any]()

        def take(message: Any) -> None:
            got.append(message.delivery_tag)
            channel.basic_ack(message.delivery_tag)

        channel.basic_qos(0, BATCH, False)
        channel.basic_consume(queue, callback=take)
        self._drain(got, count)
        self.flush()

    def receive_batches(self, queue: str, count: int) -> None:
        channel, got = self._open(transacted=True), list[Any]()
        channel.basic_qos(0, 2 * BATCH, False)
        channel.basic_consume(queue, callback=got.append)
        for _ in range(count // BATCH):
            self._drain(got, BATCH)
            channel.basic_ack(got[BATCH - 1].delivery_tag, multiple=True)
            del got[:BATCH]
            channel.tx_commit()

    def request(self, queue: str, count: int) -> list[float]:
        channel, got = self._open(), list[Any]()
        channel.basic_consume(_REPLY_TO, no_ack=True, callback=got.append)
        took = []
        for number in range(count):
            begin = perf_counter()
            self._publish(channel, queue, 1, reply_to=_REPLY_TO, correlation_id=str(number))
            self._drain(got, 1)
            took.append(perf_counter() - begin)
            got.clear()
        return took

    def reply(self, queue: str, count: int, ready: Callable[[], None]) -> None:
        channel, got = self._open(), list[Any]()

        def answer(message: Any) -> None:
            got.append(message.delivery_tag)
            correlation_id = message.properties["correlation_id"]
            self._publish(channel, message.properties["reply_to"], 1, correlation_id=correlation_id)

        channel.basic_consume(queue, no_ack=True, callback=answer)
        ready()
        self._drain(got, count)
        self._connection.close()


class PikaClient(Client):
    """pika's blocking connection."""

    def __init__(self, port: int) -> None:
        self._connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, heartbeat=0))
        self._channel = self._connection.channel()
        self._mode: Callable[[], object] | None = None

    def _choose(self, mode: Callable[[], object]) -> None:
        if self._mode is None:
            self._mode = mode
            mode()

    def _publish(self, queue: str, delivery_mode: int, **header: str) -> None:
        properties = pika.BasicProperties(
            delivery_mode=delivery_mode, headers=dict(_PIKA_PROPERTIES), content_type="text/plain", **header
        )
        self._channel.basic_publish("", queue, TEXT.encode(), properties)

    def send(self, queue: str) -> None:
        self._publish(queue, 1)

    def flush(self) -> None:
        self._channel.queue_declare("", exclusive=True)

    def send_confirmed(self, queue: str) -> None:
        self._choose(self._channel.confirm_delivery)
        self._publish(queue, 2)

    def send_batch(self, queue: str) -> None:
        self._choose(self._channel.tx_select)
        for _ in range(BATCH):
            self._publish(queue, 2)
        self._channel.tx_commit()

    def _consume(self, queue: str, count: int, ready: Callable[[], None], act: Callable[[Any, Any], object]) -> None:
        numbers = count_from(1)

        def take(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            act(method, properties)
            if next(numbers) == count:
                channel.stop_consuming()

        self._channel.basic_consume(queue, take, auto_ack=True)
        ready()
        self._channel.start_consuming()

    def consume(self, queue: str, count: int, ready: Callable[[], None]) -> None:
        self._consume(queue, count, ready, lambda method, properties: None)

    def receive_acknowledged(self, queue: str, count: int) -> None:
        self._channel.basic_qos(prefetch_count=BATCH)
        for number, (method, _, _) in enumerate(self._channel.consume(queue), 1):
            self._channel.basic_ack(method.delivery_tag)
            if number == count:
                break
        self.flush()

    def receive_batches(self, queue: str, count: int) -> None:
        self._choose(self._channel.tx_select)
        self._channel.basic_qos(prefetch_count=2 * BATCH)
        for number, (method, _, _) in enumerate(self._channel.consume(queue), 1):
            if number % BATCH == 0:
                self._channel.basic_ack(method.delivery_tag, multiple=True)
                self._channel.tx_commit()
                if number == count:
                    break

    def request(self, queue: str, count: int) -> list[float]:
        got: list[Any] = []
        self._channel.basic_consume(_REPLY_TO, lambda *arrived: got.append(arrived), auto_ack=True)
        took = []
        for number in range(count):
            begin = perf_counter()
            self._publish(queue, 1, reply_to=_REPLY_TO, correlation_id=str(number))
            while not got:
                self._connection.process_data_events(time_limit=None)
            took.append(perf_counter() - begin)
            got.clear()
        return took

    def reply(self, queue: str, count: int, ready: Callable[[], None]) -> None:
        def answer(method: Any, properties: Any) -> None:
            self._publish(properties.reply_to, 1, correlation_id=properties.correlation_id)

        self._consume(queue, count, ready, answer)
        self._connection.close()

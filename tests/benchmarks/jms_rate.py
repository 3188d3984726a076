"""``jms_rate.py URL``: does the workloads of `tests/peers/proton/rate.py` with pyjms, as its standard input names them: WORKLOAD QUEUE COUNT."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parent))
from measure import make_message

from pyjms import ConnectionFactory, DeliveryMode, Session

BATCH: Final = 100
_TIMEOUT_MS: Final = 60_000


class Rate:
    """The workloads."""

    def __init__(self, url: str) -> None:
        self._factory = ConnectionFactory(url)

    def measure(self, workload: str, queue: str, count: int) -> float:
        """Return the seconds that a workload took."""
        act: Callable[[Any, str, int], float] = {
            "send-temporary": self._send_temporary,
            "send-transient": self._send_transient,
            "send-durable": self._send_durable,
            "receive": self._receive,
            "send-batches": self._send_batches,
            "receive-batches": self._receive_batches,
            "request": self._request,
        }[workload]
        with self._factory.create_connection() as connection:
            connection.start()
            return act(connection, queue, count)

    def _send_transient(self, connection: Any, queue: str, count: int) -> float:
        return self._send(connection, queue, count, DeliveryMode.NON_PERSISTENT)

    def _send_durable(self, connection: Any, queue: str, count: int) -> float:
        return self._send(connection, queue, count, DeliveryMode.PERSISTENT)

    def _send_temporary(self, connection: Any, _: str, count: int) -> float:
        return self._send(connection, None, count, DeliveryMode.NON_PERSISTENT)

    def _send(self, connection: Any, queue: str | None, count: int, delivery_mode: int) -> float:
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        destination = session.create_temporary_queue() if queue is None else session.create_queue(queue)
        producer = _producer(session, destination, delivery_mode)
        begin = perf_counter()
        for _ in range(count):
            producer.send(make_message(session))
        return perf_counter() - begin

    def _receive(self, connection: Any, queue: str, count: int) -> float:
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        begin = perf_counter()
        consumer = session.create_consumer(session.create_queue(queue))
        for _ in range(count):
            _received(consumer)
        return perf_counter() - begin

    def _send_batches(self, connection: Any, queue: str, count: int) -> float:
        session = connection.create_session(True, Session.SESSION_TRANSACTED)
        producer = _producer(session, session.create_queue(queue), DeliveryMode.PERSISTENT)
        begin = perf_counter()
        for _ in range(count // BATCH):
            for _ in range(BATCH):
                producer.send(make_message(session))
            session.commit()
        return perf_counter() - begin

    def _receive_batches(self, connection: Any, queue: str, count: int) -> float:
        session = connection.create_session(True, Session.SESSION_TRANSACTED)
        begin = perf_counter()
        consumer = session.create_consumer(session.create_queue(queue))
        for _ in range(count // BATCH):
            for _ in range(BATCH):
                _received(consumer)
            session.commit()
        return perf_counter() - begin

    def _request(self, connection: Any, queue: str, count: int) -> float:
        with self._factory.create_connection() as other:
            other.start()
            asking = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
            answering = other.create_session(False, Session.AUTO_ACKNOWLEDGE)
            requests = answering.create_consumer(answering.create_queue(queue))
            reply_to = asking.create_temporary_queue()
            replies = asking.create_consumer(reply_to)
            asks = _producer(asking, asking.create_queue(queue), DeliveryMode.NON_PERSISTENT)
            answers = _producer(answering, None, DeliveryMode.NON_PERSISTENT)
            begin = perf_counter()
            for _ in range(count):
                message = make_message(asking)
                message.jms_reply_to = reply_to
                asks.send(message)
                asked = _received(requests)
                answers.send(asked.jms_reply_to, make_message(answering))
                _received(replies)
            return perf_counter() - begin


def _producer(session: Any, destination: Any, delivery_mode: int) -> Any:
    producer = session.create_producer(destination)
    producer.delivery_mode = delivery_mode
    return producer


def _received(consumer: Any) -> Any:
    message = consumer.receive(_TIMEOUT_MS)
    if message is None:
        raise TimeoutError(f"no message came within {_TIMEOUT_MS} ms")
    return message


if __name__ == "__main__":
    rate = Rate(sys.argv[1])
    for line in sys.stdin:
        wanted, name, number = line.split()
        sys.stdout.write(f"{rate.measure(wanted, name, int(number))}\n")
        sys.stdout.flush()

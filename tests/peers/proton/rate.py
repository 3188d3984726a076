"""``rate.py URL``: does the workloads of `qpid_jms/Rate.java` with Qpid Proton, as its standard input names them: WORKLOAD QUEUE COUNT."""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

from proton import Data, Message, int32
from proton.handlers import MessagingHandler, TransactionHandler
from proton.reactor import Container, LinkOption
from proton.utils import BlockingConnection

TEXT = ("The quick brown fox jumps over the lazy dog. " * 23)[:1024]
PROPERTIES: dict[str, object] = {
    "i1": int32(1),
    "i2": int32(-20000),
    "i3": int32(2**31 - 1),
    "s1": "alpha",
    "s2": "some longer property value",
    "s3": "EUR",
    "b1": True,
    "b2": False,
    "d1": 3.14159,
    "d2": -1e-9,
}
BATCH = 100
PREFETCH = 1000


class QueueCapability(LinkOption):  # type: ignore[misc]  # proton has no types
    """The terminus at the broker is a queue."""

    def apply(self, link: Any) -> None:
        data: Any = (link.target if link.is_sender else link.source).capabilities
        data.put_array(False, Data.SYMBOL)
        data.enter()
        data.put_symbol("queue")
        data.exit()


def message(*, is_durable: bool, **fields: object) -> Message:
    """Return the message of all workloads."""
    return Message(body=TEXT, properties=PROPERTIES, durable=is_durable, **fields)


class Rate:
    """The workloads."""

    def __init__(self, url: str) -> None:
        self._url = url

    def measure(self, workload: str, queue: str, count: int) -> float:
        """Return the seconds that a workload took."""
        if workload.endswith("-batches"):
            kind = BatchSends if workload.startswith("send") else BatchReceipts
            batches = kind(self._url, queue, count)
            Container(batches).run()
            return batches.took
        connection = BlockingConnection(self._url, timeout=60, allowed_mechs="ANONYMOUS")
        try:
            act: Callable[[Any, str, int], float] = {
                "send-temporary": self._send_temporary,
                "send-transient": self._send_transient,
                "send-durable": self._send_durable,
                "receive": self._receive,
                "request": self._request,
            }[workload]
            return act(connection, queue, count)
        finally:
            connection.close()

    def _send_transient(self, connection: Any, queue: str, count: int) -> float:
        return self._send(connection, queue, count, is_durable=False)

    def _send_temporary(self, connection: Any, _: str, count: int) -> float:
        temporary = connection.create_receiver(None, dynamic=True, credit=0)
        sender = connection.create_sender(temporary.link.remote_source.address)
        return self._send_by(sender, count, is_durable=False)

    def _send_durable(self, connection: Any, queue: str, count: int) -> float:
        return self._send(connection, queue, count, is_durable=True)

    def _send(self, connection: Any, queue: str, count: int, *, is_durable: bool) -> float:
        return self._send_by(connection.create_sender(queue, options=QueueCapability()), count, is_durable=is_durable)

    def _send_by(self, sender: Any, count: int, *, is_durable: bool) -> float:
        begin = perf_counter()
        for _ in range(count):
            sender.send(message(is_durable=is_durable))
        return perf_counter() - begin

    def _receive(self, connection: Any, queue: str, count: int) -> float:
        begin = perf_counter()
        receiver = connection.create_receiver(queue, credit=PREFETCH, options=QueueCapability())
        for _ in range(count):
            receiver.receive(timeout=60)
            receiver.accept()
        return perf_counter() - begin

    def _request(self, connection: Any, queue: str, count: int) -> float:
        other = BlockingConnection(self._url, timeout=60, allowed_mechs="ANONYMOUS")
        try:
            requests = other.create_receiver(queue, credit=PREFETCH, options=QueueCapability())
            answers = connection.create_receiver(None, dynamic=True, credit=PREFETCH)
            address = answers.link.remote_source.address
            asking, answering = connection.create_sender(queue, options=QueueCapability()), other.create_sender(None)
            begin = perf_counter()
            for _ in range(count):
                asking.send(message(is_durable=False, reply_to=address))
                asked = requests.receive(timeout=60)
                requests.accept()
                answering.send(message(is_durable=False, address=asked.reply_to))
                answers.receive(timeout=60)
                answers.accept()
            return perf_counter() - begin
        finally:
            other.close()


class _Batches(MessagingHandler, TransactionHandler):  # type: ignore[misc]
    """Transactions of `BATCH` messages, one after the other."""

    def __init__(self, url: str, queue: str, count: int) -> None:
        super().__init__(prefetch=0, auto_accept=False)
        self.took = 0.0
        self.queue = queue
        self.link: Any = None
        self.transaction: Any = None
        self.connection: Any = None
        self._url, self._left, self._begin = url, count, 0.0

    def on_start(self, event: Any) -> None:
        self.connection = event.container.connect(self._url, reconnect=False, allowed_mechs="ANONYMOUS")
        self.link = self.attach(event.container)
        self._begin = perf_counter()
        event.container.declare_transaction(self.connection, handler=self)

    def attach(self, container: Any) -> Any:
        """Open the link."""
        raise NotImplementedError

    def on_transaction_declared(self, event: Any) -> None:
        self.transaction = event.transaction
        self.go_on()

    def go_on(self) -> None:
        """Do what goes into the transaction, when there is one."""

    def on_transaction_committed(self, event: Any) -> None:
        self._left -= BATCH
        if self._left > 0:
            event.container.declare_transaction(self.connection, handler=self)
        else:
            self.took = perf_counter() - self._begin
            self.connection.close()


class BatchSends(_Batches):
    """Sends in transactions."""

    _sent = 0

    def attach(self, container: Any) -> Any:
        return container.create_sender(self.connection, self.queue, options=[QueueCapability()])

    def on_sendable(self, event: Any) -> None:
        self.go_on()

    def go_on(self) -> None:
        while self.transaction is not None and self.link.credit and self._sent < BATCH:
            self.transaction.send(self.link, message(is_durable=True))
            self._sent += 1
        if self._sent == BATCH:
            transaction, self.transaction, self._sent = self.transaction, None, 0
            transaction.commit()


class BatchReceipts(_Batches):
    """Receipts in transactions."""

    _received = 0

    def attach(self, container: Any) -> Any:
        return container.create_receiver(self.connection, self.queue, options=[QueueCapability()])

    def go_on(self) -> None:
        self.link.flow(BATCH)

    def on_message(self, event: Any) -> None:
        self.transaction.accept(event.delivery)
        self._received += 1
        if self._received == BATCH:
            self._received = 0
            self.transaction.commit()


if __name__ == "__main__":
    rate = Rate(sys.argv[1])
    for line in sys.stdin:
        wanted, name, number = line.split()
        sys.stdout.write(f"{rate.measure(wanted, name, int(number))}\n")
        sys.stdout.flush()

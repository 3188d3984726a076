"""``pyjms bench``."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Annotated, Any, Final

import typer

from pyjms import Connection, DeliveryMode, JMSException, Message, MessageProducer, Queue, Session
from pyjms.commands.connecting import (
    AsJson,
    BrokerUrl,
    Login,
    PasswordFile,
    UserName,
    errors_told,
    progress,
    queue,
    tables,
)
from pyjms.spi.terminal import escaped, listing, put_json
from pyjms.spi.words import rounded

EXAMPLES: Final = (
    "pyjms bench stomp://127.0.0.1:61613",
    "pyjms bench stomp://127.0.0.1:61613 --count 10000 --size 4096 --batch 100 --json",
)

_PATIENCE_MS: Final = 30_000
_PERCENTILES: Final = (50, 90, 99)


def bench(
    url: BrokerUrl,
    count: Annotated[int, typer.Option(help="How many messages to send, and to receive.", min=1)] = 1_000,
    requests: Annotated[int, typer.Option(help="How many requests to have answered.", min=1)] = 200,
    size: Annotated[int, typer.Option(help="Bytes of each body.", min=0, max=1 << 26)] = 1024,
    batch: Annotated[int, typer.Option(help="Messages of a transaction; 0: none.", min=0)] = 0,
    non_persistent: Annotated[bool, typer.Option("--non-persistent", help="Send NON_PERSISTENT messages.")] = False,
    name: Annotated[
        str | None,
        typer.Option(
            "--queue",
            help="An empty queue to use; without it a temporary one, gone afterwards.",
            metavar="NAME",
            show_default=False,
        ),
    ] = None,
    user: UserName = None,
    password_file: PasswordFile = None,
    as_json: AsJson = False,
) -> None:
    """Measure a broker from here: sending, receiving, and requests with their answers, one after the other.

    Latencies are those of one call of send, of one receive, and of one request until its answer is there. Exit code: 0
    done, 1 it broke off, 2 it cannot be done as asked, 130 Ctrl-C.
    """
    with errors_told("bench"), Login(user, password_file).connect(url) as connection:
        provider = f"{connection.meta_data.jms_provider_name} {connection.meta_data.provider_version}"
        mode = DeliveryMode.NON_PERSISTENT if non_persistent else DeliveryMode.PERSISTENT
        connection.start()
        run = _Run(connection, name, mode, size, batch)
        results = [run.send(count), run.receive(count), run.request(requests)]
    data = {
        "provider": provider,
        "delivery_mode": mode.name,
        "size_bytes": size,
        "batch": batch,
        "results": results,
    }
    if as_json:
        put_json(data)
    else:
        _show(data)


class _Run:
    """Measurements on one connection."""

    def __init__(self, connection: Connection, name: str | None, mode: DeliveryMode, size: int, batch: int) -> None:
        self._connection = connection
        self._mode = mode
        self._batch = batch
        self._session = connection.create_session(bool(batch), Session.AUTO_ACKNOWLEDGE)
        # A temporary queue is deleted with the connection, even when the command is killed.
        self._queue: Queue = self._session.create_temporary_queue() if name is None else queue(self._session, name)
        self._body = b"x" * size

    def send(self, number: int) -> dict[str, Any]:
        """Measure sending."""
        producer = self._producer(self._session, self._queue)
        return self._measure("send", number, lambda: producer.send(self._message(self._session)), self._batch)

    def receive(self, number: int) -> dict[str, Any]:
        """Measure receiving the messages sent."""
        with self._session.create_consumer(self._queue) as consumer:
            return self._measure("receive", number, lambda: _there(consumer.receive(_PATIENCE_MS)), self._batch)

    def request(self, number: int) -> dict[str, Any]:
        """Measure requests, which a listener answers on its own thread."""
        answering = self._connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        replies = self._producer(answering, None)
        asking = self._connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        inbox = asking.create_temporary_queue()
        # In sessions of their own: the first one may be transacted, and its requests would be invisible until a commit.
        requests = self._producer(asking, self._queue)

        def answer(message: Message) -> None:
            asker = message.jms_reply_to
            if asker is not None:  # a message of another program, in a queue that was not empty
                replies.send(asker, answering.create_text_message("done"))

        with asking.create_consumer(inbox) as answers, answering.create_consumer(self._queue) as listening:
            listening.message_listener = answer

            def ask() -> None:
                message = self._message(asking)
                message.jms_reply_to = inbox
                requests.send(message)
                _there(answers.receive(_PATIENCE_MS))

            return self._measure("request and reply", number, ask, 0)

    def _message(self, session: Session) -> Message:
        message = session.create_bytes_message()
        message.write_bytes(self._body)
        return message

    def _producer(self, session: Session, target: Queue | None) -> MessageProducer:
        producer = session.create_producer(target)
        producer.delivery_mode = self._mode
        return producer

    def _measure(self, what: str, number: int, act: Callable[[], object], batch: int) -> dict[str, Any]:
        times: list[float] = []
        with progress(what, number) as bars:
            # The bar is updated a hundred times, and not for each message: drawing costs more than a send.
            shown = max(1, number // 100)
            began = before = perf_counter()
            for done in range(1, number + 1):
                act()
                if batch and (done % batch == 0 or done == number):
                    self._session.commit()
                now = perf_counter()
                times.append(now - before)
                before = now
                if done % shown == 0:
                    bars.update(bars.task_ids[0], completed=done)
                    # The time for drawing the bar is not part of the next message's latency.
                    before = perf_counter()
            seconds = before - began
        return {
            "what": what,
            "count": number,
            "seconds": round(seconds, 6),
            "per_second": round(number / seconds, 1) if seconds else None,
            "latency_ms": _latencies(times),
        }


def _there(message: Message | None) -> None:
    if message is None:
        raise JMSException(
            f"no message came within {_PATIENCE_MS // 1000} s; see whether somebody else reads the queue"
        )


def _latencies(times: list[float]) -> dict[str, float]:
    ordered = sorted(times)
    # The nearest measured value, without interpolation.
    found = {f"p{part}": ordered[min(len(ordered) - 1, len(ordered) * part // 100)] for part in _PERCENTILES}
    return {name: round(value * 1000, 4) for name, value in {**found, "max": ordered[-1]}.items()}


def _show(data: dict[str, Any]) -> None:
    batch = f", transactions of {data['batch']}" if data["batch"] else ""
    tables().print(f"{escaped(data['provider'])}: {data['size_bytes']:,} bytes, {data['delivery_mode']}{batch}")
    table = listing("", "number", "per second", "p50 ms", "p90 ms", "p99 ms", "max ms")
    for each in data["results"]:
        latencies = [rounded(value) for value in each["latency_ms"].values()]
        table.add_row(each["what"], f"{each['count']:,}", rounded(each["per_second"] or 0), *latencies)
    tables().print(table)

"""A process that works with a durable broker until it is killed, and records what it was told.

``python -m tests.provider.kill.worker work URL DIRECTORY SEED [POINT:N]`` works until the end comes; with a point, it
kills itself at the Nth passing of ``before`` or ``after`` a write of the journal. ``drain URL DIRECTORY`` takes all that
is left.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

from pyjms import ConnectionFactory, DeliveryMode, JMSException, Message, MessageConsumer, Session
from pyjms.history import record
from pyjms_provider.stores.sql import SqlJournal

QUEUES = ("orders", "bills")
SUBSCRIBER = "kill-test"
SUBSCRIPTION = "all"
_SECONDS_TO_DRAIN_MS = 1500


class Suicide:
    """Kills this process at the Nth write of the journal: nothing that Python does at its end is done."""

    def __init__(self, point: str, passing: int) -> None:
        self._point = point
        self._passing = passing
        self._numbers = count(1)

    def install(self) -> None:
        """Stand before and after each write."""
        for name in ("write", "add"):
            setattr(SqlJournal, name, self._watched(getattr(SqlJournal, name)))

    def _watched(self, write: Callable[..., None]) -> Callable[..., None]:
        def watched(*arguments: Any, **options: Any) -> None:
            last = next(self._numbers) == self._passing
            if last and self._point == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            write(*arguments, **options)
            if last and self._point == "after":
                os.kill(os.getpid(), signal.SIGKILL)

        return watched


def produce(factory: ConnectionFactory, seed: int) -> None:
    """Send, one by one and in transactions, to queues and to the topic."""
    random = Random(seed)
    with factory.create_connection() as connection:
        while True:
            transacted = random.random() < 0.5
            session = connection.create_session(transacted, Session.AUTO_ACKNOWLEDGE)
            for _ in range(random.randint(1, 5)):
                _send(session, random)
            if transacted:
                session.rollback() if random.random() < 0.2 else session.commit()
            session.close()


def _send(session: Session, random: Random) -> None:
    name = random.choice([*QUEUES, "news"])
    destination = session.create_topic("news") if name == "news" else session.create_queue(name)
    producer = session.create_producer(destination)
    producer.priority = random.choice([4, 4, 8])
    producer.delivery_mode = DeliveryMode.PERSISTENT if random.random() < 0.9 else DeliveryMode.NON_PERSISTENT
    message = session.create_text_message("x" * random.choice([10, 1000, 20_000]))
    message.set_string_property("region", random.choice(["EU", "US"]))
    producer.send(message)
    producer.close()


def consume(factory: ConnectionFactory, seed: int, name: str, mode: int) -> None:
    """Take messages of one queue and settle them, or not; in a transaction, pass some of them on."""
    random = Random(seed)
    with factory.create_connection() as connection:
        connection.start()
        while True:
            transacted = mode == Session.SESSION_TRANSACTED
            session = connection.create_session(transacted, Session.AUTO_ACKNOWLEDGE if transacted else mode)
            selector = random.choice([None, None, "region = 'EU'"])
            consumer = session.create_consumer(session.create_queue(name), selector)
            _work(session, consumer, random)
            session.close()


def subscribe(factory: ConnectionFactory, seed: int) -> None:
    """Read the topic through the durable subscription, and come and go."""
    random = Random(seed)
    with factory.create_connection() as connection:
        connection.client_id = SUBSCRIBER
        connection.start()
        while True:
            session = connection.create_session(False, Session.CLIENT_ACKNOWLEDGE)
            consumer = session.create_durable_subscriber(session.create_topic("news"), SUBSCRIPTION)
            _work(session, consumer, random)
            session.close()


def _work(session: Session, consumer: MessageConsumer, random: Random) -> None:
    for _ in range(random.randint(1, 8)):
        message = consumer.receive(20)
        if message is None:
            continue
        _settle(session, message, random)


def _settle(session: Session, message: Message, random: Random) -> None:
    choice = random.random()
    if session.transacted:
        if choice < 0.3:
            _send(session, random)
        if choice < 0.8:
            session.commit()
        else:
            session.rollback()
    elif session.acknowledge_mode == Session.CLIENT_ACKNOWLEDGE:
        if choice < 0.6:
            message.acknowledge()
        elif choice < 0.8:
            session.recover()


def tell(word: str) -> None:
    """Say how far this process is to the one that will kill it."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def work(url: str, directory: Path, seed: int) -> None:
    """Have all of them work at once; never returns of itself."""
    recording = record(directory, run="kill", synchronous=True)
    factory = ConnectionFactory(url, record=recording)
    _make_subscription(factory)
    jobs = [
        lambda: produce(factory, seed),
        lambda: produce(factory, seed + 1),
        lambda: consume(factory, seed + 2, "orders", Session.AUTO_ACKNOWLEDGE),
        lambda: consume(factory, seed + 3, "orders", Session.SESSION_TRANSACTED),
        lambda: consume(factory, seed + 4, "bills", Session.CLIENT_ACKNOWLEDGE),
        lambda: subscribe(factory, seed + 5),
    ]
    threads = [Thread(target=_until_the_end, args=(job,), daemon=True) for job in jobs]
    tell("working")
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _until_the_end(job: object) -> None:
    try:
        job()  # type: ignore[operator]
    except JMSException as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        sys.stderr.flush()
        os._exit(3)


def _make_subscription(factory: ConnectionFactory) -> None:
    with factory.create_connection() as connection:
        connection.client_id = SUBSCRIBER
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        session.create_durable_subscriber(session.create_topic("news"), SUBSCRIPTION).close()


def drain(url: str, directory: Path) -> None:
    """Take everything that is left, until nothing more comes."""
    with record(directory, run="kill", synchronous=True) as recording:
        factory = ConnectionFactory(url, record=recording)
        with factory.create_connection() as connection:
            connection.client_id = SUBSCRIBER
            connection.start()
            session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
            consumers = [session.create_consumer(session.create_queue(name)) for name in (*QUEUES, "DLQ")]
            consumers.append(session.create_durable_subscriber(session.create_topic("news"), SUBSCRIPTION))
            for consumer in consumers:
                while consumer.receive(_SECONDS_TO_DRAIN_MS) is not None:
                    pass
    tell("drained")


def main(arguments: list[str]) -> None:
    """Do what the command line says."""
    what, url, directory, *rest = arguments
    if what == "drain":
        drain(url, Path(directory))
        return
    if len(rest) > 1:
        point, _, passing = rest[1].partition(":")
        Suicide(point, int(passing)).install()
    work(url, Path(directory), int(rest[0]))


if __name__ == "__main__":
    main(sys.argv[1:])

"""A process that works with a durable broker until it is killed, and records what it was told.

``python -m tests.provider.kill.worker work URL DIRECTORY SEED [SIDE:KIND:N]`` works until the end comes; with a point (`points.py`), it
kills itself when it passes that for the Nth time. ``drain URL DIRECTORY`` settles what is in doubt, and takes all that is left. The log of its
coordinator is beside DIRECTORY.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from random import Random
from threading import Thread

from pyjms import (
    Connection,
    ConnectionFactory,
    JMSException,
    Message,
    MessageConsumer,
    Session,
    XAConnectionFactory,
    XAException,
)
from pyjms.history import record
from tests.provider.kill.branches import BranchWorker, Coordinator
from tests.provider.kill.coordinator_log import CoordinatorLog
from tests.provider.kill.deeds import (
    BRANCH_SUBSCRIBER,
    BRANCH_SUBSCRIPTION,
    LOG,
    PARCELS,
    QUEUES,
    SUBSCRIBER,
    SUBSCRIPTION,
    TOPIC,
    send_one,
)
from tests.provider.kill.points import Suicide

_SECONDS_TO_DRAIN_MS = 1500


def produce(factory: ConnectionFactory, seed: int) -> None:
    """Send, one by one and in transactions, to queues and to the topic."""
    random = Random(seed)
    with factory.create_connection() as connection:
        while True:
            transacted = random.random() < 0.5
            session = connection.create_session(transacted, Session.AUTO_ACKNOWLEDGE)
            for _ in range(random.randint(1, 5)):
                send_one(session, random)
            if transacted:
                session.rollback() if random.random() < 0.2 else session.commit()
            session.close()


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
            consumer = session.create_durable_subscriber(session.create_topic(TOPIC), SUBSCRIPTION)
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
            send_one(session, random)
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
    factory, xa_factory = ConnectionFactory(url, record=recording), XAConnectionFactory(url, record=recording)
    coordinator = Coordinator(CoordinatorLog(directory.with_name(LOG)), recording)
    _make_subscription(factory, SUBSCRIBER, SUBSCRIPTION)
    _make_subscription(factory, BRANCH_SUBSCRIBER, BRANCH_SUBSCRIPTION)
    _recover(xa_factory, coordinator)
    jobs: list[Callable[[], None]] = [
        lambda: produce(factory, seed),
        lambda: produce(factory, seed + 1),
        lambda: consume(factory, seed + 2, "orders", Session.AUTO_ACKNOWLEDGE),
        lambda: consume(factory, seed + 3, "orders", Session.SESSION_TRANSACTED),
        lambda: consume(factory, seed + 4, "bills", Session.CLIENT_ACKNOWLEDGE),
        lambda: subscribe(factory, seed + 5),
        lambda: BranchWorker(coordinator, seed + 6, subscribes=True).work(xa_factory),
        lambda: BranchWorker(coordinator, seed + 7, subscribes=False).work(xa_factory),
    ]
    threads = [Thread(target=_until_the_end, args=(job,), daemon=True) for job in jobs]
    tell("working")
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _until_the_end(job: Callable[[], None]) -> None:
    try:
        job()
    except (JMSException, XAException) as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        sys.stderr.flush()
        os._exit(3)


def _make_subscription(factory: ConnectionFactory, subscriber: str, subscription: str) -> None:
    with factory.create_connection() as connection:
        connection.client_id = subscriber
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        session.create_durable_subscriber(session.create_topic(TOPIC), subscription).close()


def _recover(factory: XAConnectionFactory, coordinator: Coordinator, *, settles: bool = False) -> None:
    """Look for what earlier lives have left. `settles`: and settle all of it, else some is left for later."""
    random = Random(1)
    with factory.create_xa_connection() as connection:
        resource = connection.create_xa_session().xa_resource
        coordinator.recover(resource)
        while settles and coordinator.settle_one(resource, random):
            pass


def drain(url: str, directory: Path) -> None:
    """Settle what is in doubt, and take everything that is left, until nothing more comes."""
    with record(directory, run="kill", synchronous=True) as recording:
        factory, xa_factory = ConnectionFactory(url, record=recording), XAConnectionFactory(url, record=recording)
        _recover(xa_factory, Coordinator(CoordinatorLog(directory.with_name(LOG)), recording), settles=True)
        subscriptions = [(SUBSCRIBER, SUBSCRIPTION), (BRANCH_SUBSCRIBER, BRANCH_SUBSCRIPTION)]
        jobs = [partial(_drain_subscription, factory, *each) for each in subscriptions]
        jobs += [partial(_drain_queue, factory, name) for name in (*QUEUES, PARCELS, "DLQ")]
        with ThreadPoolExecutor(len(jobs)) as pool:
            for done in [pool.submit(job) for job in jobs]:
                done.result()
    tell("drained")


def _drain_subscription(factory: ConnectionFactory, client_id: str, subscription: str) -> None:
    with factory.create_connection() as connection:
        connection.client_id = client_id
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        _take_all(connection, session.create_durable_subscriber(session.create_topic(TOPIC), subscription))


def _drain_queue(factory: ConnectionFactory, name: str) -> None:
    with factory.create_connection() as connection:
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        _take_all(connection, session.create_consumer(session.create_queue(name)))


def _take_all(connection: Connection, consumer: MessageConsumer) -> None:
    connection.start()
    while consumer.receive(_SECONDS_TO_DRAIN_MS) is not None:
        pass


def main(arguments: list[str]) -> None:
    """Do what the command line says."""
    what, url, directory, *rest = arguments
    if what == "drain":
        drain(url, Path(directory))
        return
    if len(rest) > 1:
        side, kind, passing = rest[1].split(":")
        Suicide(side, kind, int(passing)).install()
    work(url, Path(directory), int(rest[0]))


if __name__ == "__main__":
    main(sys.argv[1:])

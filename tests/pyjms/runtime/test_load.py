"""Many threads, each with a session of its own, that come and go: nothing is lost and nothing comes twice."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import pairwise
from threading import Event, Lock

import pytest

from pyjms import JMSException, Message, Session
from pyjms.runtime.factory import ConnectionFactory
from pyjms.testing import Fault, Faults
from pyjms_provider.queue_manager import QueueManager
from tests.pyjms.runtime.conftest import Connect
from tests.pyjms.runtime.helpers import Call, drain, send_texts, text_of

SENDERS = 3
RECEIVERS = 3
EACH = 120


class Ledger:
    """What was sent and what was received, by any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.sent: list[str] = []
        self.received: list[str] = []
        self.enough = Event()

    def send(self, text: str) -> None:
        with self._lock:
            self.sent.append(text)

    def receive(self, texts: Iterable[str | None]) -> None:
        with self._lock:
            self.received.extend(map(str, texts))
            if len(self.received) >= SENDERS * EACH:
                self.enough.set()

    def check(self) -> None:
        """Fail unless each message was received once, those of one sender and receiver in order."""
        counted = Counter(self.received)
        assert set(counted) == set(self.sent), "some were lost, or invented"
        assert max(counted.values()) == 1, "some came twice"


def send_all(factory: ConnectionFactory, ledger: Ledger, number: int, chance: random.Random) -> None:
    """Send in transactions of random size, over sessions that end at random."""
    left = [f"{number}-{turn}" for turn in range(EACH)]
    while left:
        with factory.create_connection() as connection:
            session = connection.create_session(True, Session.SESSION_TRANSACTED)
            producer = session.create_producer(session.create_queue("orders"))
            for _ in range(chance.randrange(1, 6)):
                batch = left[: chance.randrange(1, 10)]
                for text in batch:
                    producer.send(session.create_text_message(text))
                if chance.random() < 0.2:
                    session.rollback()
                elif chance.random() < 0.1:
                    break  # closing rolls back
                else:
                    session.commit()
                    for text in batch:
                        ledger.send(text)
                    del left[: len(batch)]


def receive_all(factory: ConnectionFactory, ledger: Ledger, chance: random.Random, mode: int) -> None:
    """Receive in each mode, over sessions that end at random, until all has come."""
    while not ledger.enough.is_set():
        with factory.create_connection() as connection:
            connection.start()
            session = connection.create_session(mode == Session.SESSION_TRANSACTED, mode)
            consumer = session.create_consumer(session.create_queue("orders"))
            for _ in range(chance.randrange(1, 8)):
                got: list[Message] = []
                for _ in range(chance.randrange(1, 10)):
                    message = consumer.receive(5)
                    if message is None:
                        break
                    got.append(message)
                    if mode == Session.AUTO_ACKNOWLEDGE:
                        ledger.receive([text_of(message)])
                if mode != Session.AUTO_ACKNOWLEDGE and got and chance.random() < 0.2:
                    break  # closing gives back what was not acknowledged
                if mode == Session.CLIENT_ACKNOWLEDGE and got:
                    got[-1].acknowledge()
                    ledger.receive(map(text_of, got))
                elif mode == Session.SESSION_TRANSACTED:
                    session.commit()
                    ledger.receive(map(text_of, got))


@pytest.mark.realises("BOIL-CONC-1", "BOIL-ACK-7", "BOIL-ACK-8", "BOIL-PTP-3", "BJ-Q-4")
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("mode", [Session.SESSION_TRANSACTED, Session.AUTO_ACKNOWLEDGE, Session.CLIENT_ACKNOWLEDGE])
def test_nothing_is_lost_and_nothing_comes_twice(jms_broker_url: str, mode: int, seed: int) -> None:
    factory, ledger = ConnectionFactory(jms_broker_url), Ledger()
    calls = [Call(send_all, factory, ledger, each, random.Random(f"{seed} s{each}")) for each in range(SENDERS)]
    calls += [Call(receive_all, factory, ledger, random.Random(f"{seed} r{each}"), mode) for each in range(RECEIVERS)]
    for call in calls[:SENDERS]:
        call.result()
    assert ledger.enough.wait(10), f"{len(ledger.received)} of {len(ledger.sent)} came"
    for call in calls:
        call.result()
    ledger.check()
    with factory.create_connection() as connection:
        connection.start()
        session = connection.create_session()
        assert drain(session.create_consumer(session.create_queue("orders"))) == []


@pytest.mark.realises("BOIL-ACK-2", "BOIL-ACK-8", "BOIL-SESS-6")
@pytest.mark.parametrize("seed", range(2))
def test_listeners_that_are_closed_at_random(connect: Connect, jms_broker_url: str, seed: int) -> None:
    chance, ledger, number = random.Random(seed), Ledger(), SENDERS * EACH
    factory, sending = ConnectionFactory(jms_broker_url), connect().create_session()
    queue = sending.create_queue("orders")
    for each in range(number):
        ledger.send(str(each))
    sender = Call(send_texts, sending, queue, *ledger.sent)
    while not ledger.enough.is_set():
        connection = factory.create_connection()
        half = Event()
        wanted = chance.randrange(1, 30)

        def listen(message: Message, wanted: int = wanted, half: Event = half) -> None:
            ledger.receive([text_of(message)])
            if len(ledger.received) % wanted == 0:
                half.set()

        sessions = [connection.create_session() for _ in range(2)]
        consumers = [session.create_consumer(queue) for session in sessions]
        for consumer in consumers:
            consumer.message_listener = listen
        connection.start()
        half.wait(0.05)
        closes: Callable[[], None] = chance.choice(
            [connection.close, sessions[0].close, consumers[1].close, connection.stop]
        )
        Call(closes).result()
        Call(connection.close).result()
    sender.result()
    ledger.check()


@pytest.mark.realises("BOIL-TX-2", "BOIL-ACK-8")
def test_workers_over_a_broker_that_fails_now_and_then(jms_faults: Faults, jms_broker_url: str) -> None:
    """Consume and produce in one unit while sends, commits and connections fail: the output is complete, once each."""
    chance, faulty, number = random.Random(7), ConnectionFactory(jms_faults.url), 150
    with ConnectionFactory(jms_broker_url).create_connection() as till:
        # A message may meet more failures than a dead letter has.
        QueueManager.of(jms_broker_url.removeprefix("vm://")).create("orders", max_deliveries=0)
        till.start()
        session = till.create_session()
        orders, bills = session.create_queue("orders"), session.create_queue("bills")
        texts = [str(each) for each in range(number)]
        send_texts(session, orders, *texts)
        stop = Event()

        def work() -> None:
            while not stop.is_set():
                try:
                    with faulty.create_connection() as connection:
                        connection.start()
                        worker = connection.create_session(True, Session.SESSION_TRANSACTED)
                        consumer = worker.create_consumer(orders)
                        while not stop.is_set():
                            message = consumer.receive(5)
                            if message is not None:
                                send_texts(worker, bills, str(text_of(message)))
                                worker.commit()
                except JMSException:
                    continue

        workers = [Call(work) for _ in range(3)]
        kinds = [
            Fault.SEND_REFUSED,
            Fault.COMMIT_ROLLED_BACK,
            Fault.CONNECTION_DROPS_ON_SEND,
            Fault.CONNECTION_DROPS_ON_COMMIT,
            Fault.ACKNOWLEDGE_REFUSED,
        ]
        done: list[str | None] = []
        consumer = session.create_consumer(bills)
        while len(done) < number:
            if chance.random() < 0.3:
                jms_faults.inject(chance.choice(kinds))
            message = consumer.receive(10_000)
            assert message is not None, f"only {len(done)} of {number} were worked off"
            done.append(text_of(message))
        stop.set()
        for worker in workers:
            worker.result()
        done += drain(consumer)
        assert Counter(done) == Counter(texts)
        assert drain(session.create_consumer(orders)) == []


@pytest.mark.realises("BOIL-ORD-1")
def test_each_senders_order_survives_the_crowd(connect: Connect) -> None:
    receiving = connect().create_session()
    queue = receiving.create_queue("orders")
    consumer = receiving.create_consumer(queue)

    def send(number: int) -> None:
        send_texts(connect().create_session(), queue, *(f"{number}-{turn}" for turn in range(100)))

    calls = [Call(send, number) for number in range(6)]
    got = [str(text_of(consumer.receive(10_000))).split("-") for _ in range(600)]
    for call in calls:
        call.result()
    for sender in map(str, range(6)):
        turns = [int(turn) for who, turn in got if who == sender]
        assert len(turns) == 100
        assert all(before < after for before, after in pairwise(turns))

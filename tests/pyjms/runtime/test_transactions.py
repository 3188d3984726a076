"""Local transactions: commit, rollback, what a failed commit leaves, and what closing does (JMS 1.1 §4.4.7)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyjms import IllegalStateException, JMSException, Session, TransactionRolledBackException
from pyjms.runtime.connection import JmsConnection
from pyjms.runtime.factory import ConnectionFactory
from pyjms.testing import Fault, Faults
from tests.pyjms.runtime.conftest import Connect
from tests.pyjms.runtime.helpers import (
    delivery_count,
    drain,
    send_texts,
    take,
    take_texts,
    text_of,
)


class Shop:
    """A transacted session that takes orders and writes bills, and a client that looks on."""

    def __init__(self, connect: Connect, *orders: str) -> None:
        self.connection = connect()
        self.session = self.connection.create_session(True, Session.SESSION_TRANSACTED)
        self.orders = self.session.create_queue("orders")
        self.bills = self.session.create_queue("bills")
        self._connect = connect
        send_texts(connect().create_session(), self.orders, *orders)
        self.consumer = self.session.create_consumer(self.orders)

    def work(self, number: int = 1) -> None:
        """Take orders and write a bill for each, without committing."""
        for text in take_texts(self.consumer, number):
            send_texts(self.session, self.bills, f"bill for {text}")

    def seen(self, name: str) -> list[str | None]:
        """Return what another client finds on a queue, and leave it there."""
        with self._connect() as connection:
            session = connection.create_session()
            browser = session.create_browser(session.create_queue(name))
            return [text_of(message) for message in browser]


class TestCommit:
    @pytest.mark.realises("BOIL-TX-1", "BOIL-SESS-2", "BOIL-ACK-9")
    def test_input_and_output_take_effect_together(self, connect: Connect) -> None:
        shop = Shop(connect, "espresso", "latte")
        shop.work(2)
        assert shop.seen("bills") == []
        shop.session.commit()
        assert shop.seen("bills") == ["bill for espresso", "bill for latte"]
        shop.connection.close()
        assert shop.seen("orders") == []

    @pytest.mark.realises("BOIL-TX-3")
    def test_the_next_transaction_begins_at_once(self, connect: Connect) -> None:
        shop = Shop(connect, "espresso", "latte")
        shop.work()
        shop.session.commit()
        shop.work()
        assert shop.seen("bills") == ["bill for espresso"]
        shop.session.rollback()
        shop.connection.close()
        assert shop.seen("bills") == ["bill for espresso"]
        assert shop.seen("orders") == ["latte"]

    def test_an_empty_transaction_commits_and_rolls_back(self, connect: Connect) -> None:
        session = connect().create_session(True, Session.SESSION_TRANSACTED)
        session.commit()
        session.rollback()
        session.commit()
        queue = session.create_queue("orders")
        send_texts(session, queue, "espresso")
        session.commit()
        assert take_texts(session.create_consumer(queue), 1) == ["espresso"]

    @pytest.mark.realises("BOIL-SESS-2")
    def test_all_producers_and_consumers_of_the_session_take_part(self, connect: Connect) -> None:
        session = connect().create_session(True, Session.SESSION_TRANSACTED)
        names = ("first", "second", "third")
        producers = [session.create_producer(session.create_queue(name)) for name in names]
        for producer in producers:
            producer.send(session.create_text_message("out"))
        producers[0].close()
        other = connect().create_session()
        consumers = [other.create_consumer(other.create_queue(name)) for name in names]
        assert [drain(consumer) for consumer in consumers] == [[], [], []]
        session.commit()
        assert [drain(consumer) for consumer in consumers] == [["out"]] * 3

    @pytest.mark.realises("BOIL-TX-1")
    def test_a_topic_gets_nothing_before_the_commit(self, connect: Connect) -> None:
        session, other = connect().create_session(True, Session.SESSION_TRANSACTED), connect().create_session()
        topic = session.create_topic("prices")
        subscriber = other.create_consumer(topic)
        send_texts(session, topic, "1.80")
        assert subscriber.receive_no_wait() is None
        session.commit()
        assert take_texts(subscriber, 1) == ["1.80"]

    @pytest.mark.realises("BOIL-TX-1")
    def test_a_session_does_not_see_its_own_uncommitted_messages(self, connect: Connect) -> None:
        session = connect().create_session(True, Session.SESSION_TRANSACTED)
        queue = session.create_queue("orders")
        consumer = session.create_consumer(queue)
        send_texts(session, queue, "espresso")
        assert consumer.receive_no_wait() is None
        session.commit()
        assert take_texts(consumer, 1) == ["espresso"]

    def test_message_acknowledge_changes_nothing(self, connect: Connect) -> None:
        shop = Shop(connect, "espresso")
        take(shop.consumer).acknowledge()
        shop.session.rollback()
        assert take_texts(shop.consumer, 1) == ["espresso"]

    @pytest.mark.realises("BOIL-EXC-2", "BOIL-ACK-9")
    @pytest.mark.parametrize("method", ["commit", "rollback"])
    @pytest.mark.parametrize("mode", [1, 2, 3])
    def test_without_transactions_there_is_none(self, connection: JmsConnection, method: str, mode: int) -> None:
        with pytest.raises(IllegalStateException, match="transacted"):
            getattr(connection.create_session(False, mode), method)()


class TestRollback:
    @pytest.mark.realises("BOIL-TX-2", "BOIL-HDR-7", "BOIL-ACK-6")
    def test_output_is_destroyed_and_input_recovered(self, connect: Connect) -> None:
        shop = Shop(connect, "espresso", "latte", "mocha")
        shop.work(2)
        shop.session.rollback()
        assert shop.seen("bills") == []
        again = [take(shop.consumer) for _ in range(3)]
        assert [text_of(message) for message in again] == ["espresso", "latte", "mocha"]
        assert [message.jms_redelivered for message in again] == [True, True, False]
        assert [delivery_count(message) for message in again] == [2, 2, 1]
        shop.session.commit()
        shop.connection.close()
        assert shop.seen("bills") == []
        assert shop.seen("orders") == []

    @pytest.mark.realises("BOIL-TX-2")
    def test_another_client_may_get_what_was_recovered(self, connect: Connect) -> None:
        shop = Shop(connect, "espresso")
        take(shop.consumer)
        shop.consumer.close()
        shop.session.rollback()
        other = connect().create_session()
        again = take(other.create_consumer(shop.orders))
        assert (text_of(again), again.jms_redelivered) == ("espresso", True)

    @pytest.mark.realises("BOIL-TX-2")
    def test_each_rollback_counts(self, connect: Connect) -> None:
        shop = Shop(connect, "espresso")
        for number in range(1, 6):
            message = take(shop.consumer)
            assert (delivery_count(message), message.jms_redelivered) == (number, number > 1)
            shop.session.rollback()

    @pytest.mark.realises("BOIL-TX-2", "BOIL-CONN-13", "BOIL-SESS-6")
    @pytest.mark.parametrize("closes", ["session", "connection"])
    def test_closing_rolls_back(self, connect: Connect, closes: str) -> None:
        shop = Shop(connect, "espresso")
        shop.work()
        (shop.session if closes == "session" else shop.connection).close()
        assert shop.seen("bills") == []
        other = connect().create_session()
        again = take(other.create_consumer(shop.orders))
        assert (text_of(again), again.jms_redelivered) == ("espresso", True)

    @pytest.mark.realises("BOIL-TX-2", "BOIL-CONN-13")
    def test_a_dropped_connection_rolls_back(self, jms_faults: Faults, jms_broker_url: str, connect: Connect) -> None:
        shop = Shop(connect, "espresso")
        shop.work()
        jms_faults.drop_connections()
        with ConnectionFactory(jms_broker_url).create_connection() as other:
            other.start()
            session = other.create_session()
            assert drain(session.create_consumer(shop.bills)) == []
            again = take(session.create_consumer(shop.orders))
        assert (text_of(again), again.jms_redelivered) == ("espresso", True)

    def test_closing_a_consumer_does_not(self, connect: Connect) -> None:
        shop = Shop(connect, "espresso")
        take(shop.consumer)
        shop.consumer.close()
        assert shop.seen("orders") == []
        shop.session.commit()
        shop.connection.close()
        assert shop.seen("orders") == []

    def test_closing_a_producer_does_not(self, connect: Connect) -> None:
        shop = Shop(connect)
        send_texts(shop.session, shop.bills, "bill")  # its producer is closed after the send
        shop.session.commit()
        assert shop.seen("bills") == ["bill"]


class TestFailedCommit:
    """What was received and sent is never half done; where the outcome is not known, nothing is claimed."""

    @pytest.mark.realises("BOIL-EXC-13", "BOIL-TX-2", "BOIL-TX-3")
    @pytest.mark.parametrize("fault", [Fault.COMMIT_ROLLED_BACK, Fault.ACKNOWLEDGE_REFUSED])
    def test_a_commit_that_cannot_be_is_rolled_back(self, jms_faults: Faults, connect: Connect, fault: Fault) -> None:
        shop = Shop(connect, "espresso")
        shop.work()
        jms_faults.inject(fault)
        with pytest.raises(TransactionRolledBackException) as caught:
            shop.session.commit()
        assert caught.value.linked_exception is not None
        assert shop.seen("bills") == []
        again = take(shop.consumer)
        assert (text_of(again), again.jms_redelivered) == ("espresso", True)
        send_texts(shop.session, shop.bills, "bill at last")
        shop.session.commit()
        shop.connection.close()
        assert shop.seen("bills") == ["bill at last"]
        assert shop.seen("orders") == []

    @pytest.mark.realises("BOIL-ACK-8")
    def test_in_doubt_but_committed(self, jms_faults: Faults, connect: Connect) -> None:
        shop = Shop(connect, "espresso", "latte")
        shop.work()
        jms_faults.inject(Fault.COMMIT_IN_DOUBT)
        with pytest.raises(JMSException) as caught:
            shop.session.commit()
        assert not isinstance(caught.value, TransactionRolledBackException)
        assert caught.value.error_code == "PYJMS-IN-DOUBT"
        shop.work()
        shop.session.commit()
        shop.connection.close()
        assert shop.seen("bills") == ["bill for espresso", "bill for latte"]
        assert shop.seen("orders") == []

    @pytest.mark.realises("BOIL-TX-3")
    def test_in_doubt_but_rolled_back(self, jms_faults: Faults, connect: Connect) -> None:
        shop = Shop(connect, "espresso", "latte")
        shop.work()
        jms_faults.inject(Fault.COMMIT_IN_DOUBT_ROLLED_BACK)
        with pytest.raises(JMSException) as caught:
            shop.session.commit()
        assert caught.value.error_code == "PYJMS-IN-DOUBT"
        assert shop.seen("bills") == []
        shop.work()
        shop.session.commit()
        shop.connection.close()
        bills, orders = shop.seen("bills"), shop.seen("orders")
        assert len(bills) + len(orders) == 2
        assert {str(each).removeprefix("bill for ") for each in bills + orders} == {"espresso", "latte"}

    @pytest.mark.realises("BOIL-TX-2")
    def test_a_connection_that_drops_at_the_commit(
        self, jms_faults: Faults, jms_broker_url: str, connect: Connect
    ) -> None:
        shop = Shop(connect, "espresso")
        shop.work()
        jms_faults.inject(Fault.CONNECTION_DROPS_ON_COMMIT)
        with pytest.raises(JMSException) as caught:
            shop.session.commit()
        assert not isinstance(caught.value, TransactionRolledBackException)
        for use in (shop.session.commit, shop.session.rollback, shop.consumer.receive_no_wait):
            with pytest.raises(JMSException):
                use()
        shop.session.close()
        shop.connection.close()
        with ConnectionFactory(jms_broker_url).create_connection() as other:
            other.start()
            session = other.create_session()
            assert drain(session.create_consumer(shop.bills)) == []
            assert take_texts(session.create_consumer(shop.orders), 1) == ["espresso"]

    @pytest.mark.realises("BOIL-SESS-2")
    def test_a_send_that_is_refused_leaves_the_transaction_as_it_was(
        self, jms_faults: Faults, connect: Connect
    ) -> None:
        shop = Shop(connect, "espresso")
        shop.work()
        jms_faults.inject(Fault.SEND_REFUSED)
        with pytest.raises(JMSException):
            send_texts(shop.session, shop.bills, "refused")
        send_texts(shop.session, shop.bills, "tip")
        shop.session.commit()
        shop.connection.close()
        assert shop.seen("bills") == ["bill for espresso", "tip"]
        assert shop.seen("orders") == []


@pytest.mark.realises("BOIL-TX-1", "BOIL-ORD-5")
def test_the_order_within_a_transaction(connect: Connect) -> None:
    session, other = connect().create_session(True, Session.SESSION_TRANSACTED), connect().create_session()
    first, second = session.create_queue("first"), session.create_queue("second")
    one, two = session.create_producer(first), session.create_producer(second)
    for number in range(50):
        one.send(session.create_text_message(f"first {number}"))
        two.send(session.create_text_message(f"second {number}"))
    session.commit()
    for number in range(50, 100):
        two.send(session.create_text_message(f"second {number}"))
        one.send(session.create_text_message(f"first {number}"))
    session.commit()
    assert drain(other.create_consumer(first)) == [f"first {number}" for number in range(100)]
    assert drain(other.create_consumer(second)) == [f"second {number}" for number in range(100)]


@pytest.mark.realises("BOIL-TX-1", "BOIL-CONC-1")
def test_two_transactions_do_not_block_each_other(connect: Connect) -> None:
    """Each takes from both queues, in opposite orders: nobody waits for the other's uncommitted messages."""
    left, right = (connect().create_session(True, Session.SESSION_TRANSACTED) for _ in range(2))
    first, second = left.create_queue("first"), left.create_queue("second")
    sending = connect().create_session()
    send_texts(sending, first, "1a", "1b")
    send_texts(sending, second, "2a", "2b")
    left_first, right_second = left.create_consumer(first), right.create_consumer(second)
    assert take_texts(left_first, 1) == ["1a"]
    assert take_texts(right_second, 1) == ["2a"]
    assert take_texts(left.create_consumer(second), 1) == ["2b"]
    assert take_texts(right.create_consumer(first), 1) == ["1b"]
    left.rollback()
    right.commit()
    left.close()
    assert drain(sending.create_consumer(first)) == ["1a"]
    assert drain(sending.create_consumer(second)) == ["2b"]


@pytest.mark.realises("BOIL-TX-2", "BOIL-ACK-8")
@pytest.mark.parametrize("ends", ["rollback", "close", "crash"])
def test_nothing_is_lost_and_nothing_comes_twice(
    jms_faults: Faults, jms_broker_url: str, connect: Connect, ends: str
) -> None:
    """A worker that fails at every third order; the bills add up in the end."""
    orders = [f"order {number}" for number in range(30)]
    with ConnectionFactory(jms_broker_url).create_connection() as till:
        till.start()
        session = till.create_session()
        send_texts(session, session.create_queue("orders"), *orders)
        worked, attempts = 0, 0
        while worked < len(orders):
            connection = connect()
            worker = connection.create_session(True, Session.SESSION_TRANSACTED)
            consumer = worker.create_consumer(worker.create_queue("orders"))
            fails: dict[str, Callable[[], object]] = {
                "rollback": worker.rollback,
                "close": worker.close,
                "crash": jms_faults.drop_connections,
            }
            while worked < len(orders):
                attempts += 1
                assert attempts < 200
                text = text_of(take(consumer))
                send_texts(worker, worker.create_queue("bills"), f"bill for {text}")
                if attempts % 3 == 0:
                    fails[ends]()
                    if ends != "rollback":
                        break
                else:
                    worker.commit()
                    worked += 1
        bills = drain(session.create_consumer(session.create_queue("bills")))
    assert sorted(map(str, bills)) == sorted(f"bill for {order}" for order in orders)

"""The lecture's queues, through the JMS API: calls as two messages, work lists, transactional dequeuing, skip locked, and
the two-queue deadlock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from threading import Barrier, Thread
from typing import Any

import pytest

from pyjms import ConnectionFactory, MapMessage, Message, Session, TextMessage
from pyjms.api.connection import Connection
from pyjms_provider.broker import stop_broker

PATIENCE_MS = 10_000
_numbers = count(1)

Connect = Callable[[], Connection]


@pytest.fixture
def connect() -> Iterator[Connect]:
    name = f"lecture-{next(_numbers)}"
    opened: list[Connection] = []

    def made() -> Connection:
        connection = ConnectionFactory(f"vm://{name}").create_connection()
        connection.start()
        opened.append(connection)
        return connection

    yield made
    for connection in opened:
        connection.close()
    stop_broker(name)


class Server:
    """Dequeues in transactions."""

    def __init__(self, connect: Connect) -> None:
        self.session = connect().create_session(True, Session.SESSION_TRANSACTED)
        self._consumers: dict[str, Any] = {}

    def dequeue(self, queue: str, timeout: int = PATIENCE_MS) -> str:
        if queue not in self._consumers:
            self._consumers[queue] = self.session.create_consumer(self.session.create_queue(queue))
        return text_of(self._consumers[queue].receive(timeout))

    def enqueue(self, queue: str, text: str) -> None:
        self.session.create_producer(self.session.create_queue(queue)).send(self.session.create_text_message(text))


def text_of(message: Message | None) -> str:
    assert isinstance(message, TextMessage), "there was no message in time"
    return str(message.text)


def fill(connect: Connect, queue: str, *texts: str, priorities: dict[str, int] | None = None) -> None:
    session = connect().create_session()
    producer = session.create_producer(session.create_queue(queue))
    for text in texts:
        producer.send(session.create_text_message(text), priority=(priorities or {}).get(text, 4))


def left(connect: Connect, queue: str) -> list[str]:
    session = connect().create_session()
    browser = session.create_browser(session.create_queue(queue))
    return [text_of(message) for message in browser.enumeration]


@pytest.mark.realises("MOM-1")
def test_a_call_is_two_messages_tied_by_a_reference_number(connect: Connect) -> None:
    client = connect().create_session()
    requests, quotes = client.create_queue("quoteRequest"), client.create_queue("quote")
    producer = client.create_producer(requests)
    for number, item in ((325, "ball-point pen"), (326, "pencil")):
        request = client.create_map_message()
        request.set_int("QuoteReferenceNumber", number)
        request.set_string("Item", item)
        request.jms_correlation_id = str(number)
        request.jms_reply_to = quotes
        producer.send(request)  # and nobody waits: the client may go on, or end

    tool = connect().create_session()
    consumer = tool.create_consumer(tool.create_queue("quoteRequest"))
    received = [consumer.receive(PATIENCE_MS) for _ in range(2)]
    for each in reversed(received):  # the second one is answered first
        assert isinstance(each, MapMessage)
        reply = tool.create_text_message(f"price of a {each.get_string('Item')}")
        reply.jms_correlation_id = str(each.get_int("QuoteReferenceNumber"))
        assert each.jms_reply_to is not None
        tool.create_producer(each.jms_reply_to).send(reply)

    mine = client.create_consumer(quotes, "JMSCorrelationID = '325'")
    assert text_of(mine.receive(PATIENCE_MS)) == "price of a ball-point pen"
    assert mine.receive_no_wait() is None
    assert left(connect, "quote") == ["price of a pencil"]


@pytest.mark.realises("MOM-2")
def test_messages_find_the_input_queue_of_a_program_that_is_not_there(connect: Connect) -> None:
    for queue, text in (("quotes", "1"), ("orders", "2"), ("quotes", "3")):
        fill(connect, queue, text)
    program, other = Server(connect), Server(connect)
    assert [program.dequeue("quotes"), program.dequeue("quotes"), other.dequeue("orders")] == ["1", "3", "2"]
    assert left(connect, "quotes") == left(connect, "orders") == []


@pytest.mark.realises("MOM-3")
def test_a_queue_is_the_work_list_of_several_servers(connect: Connect) -> None:
    work = [str(number) for number in range(60)]
    done: list[str] = []

    def serve() -> None:
        server = Server(connect)
        while (text := server.dequeue("work")) != "end":
            done.append(text)
            server.session.commit()
        server.session.commit()

    servers = [Thread(target=serve) for _ in range(3)]
    for each in servers:
        each.start()
    fill(connect, "work", *work, "end", "end", "end")
    for each in servers:
        each.join(20)
    assert not any(each.is_alive() for each in servers)
    assert sorted(done, key=int) == work, "all of it was done, and nothing twice"


@pytest.mark.realises("MOM-4")
def test_a_queue_is_the_output_of_several_clients(connect: Connect) -> None:
    clients = [Thread(target=fill, args=(connect, "q", *(f"{name}{number}" for number in range(20)))) for name in "abc"]
    for each in clients:
        each.start()
    server = Server(connect)
    got = [server.dequeue("q") for _ in range(60)]
    for each in clients:
        each.join(20)
    for name in "abc":
        assert [text for text in got if text[0] == name] == [f"{name}{number}" for number in range(20)]


@pytest.mark.realises("MOM-5")
def test_load_is_balanced_on_both_sides(connect: Connect) -> None:
    """No server is idle while there is work, whichever client sent it, and a slow one holds nobody up."""
    slow, first, second = Server(connect), Server(connect), Server(connect)
    fill(connect, "q", "long")
    assert slow.dequeue("q") == "long"
    waiting = [Thread(target=lambda server=server: got.append(server.dequeue("q"))) for server in (first, second)]
    got: list[str] = []
    for each in waiting:
        each.start()
    fill(connect, "q", "a")  # of one client
    fill(connect, "q", "b")  # of another
    for each in waiting:
        each.join(20)
    assert sorted(got) == ["a", "b"], "each of the two has one, as neither has committed"
    fill(connect, "q", *"cdef")
    assert [first.dequeue("q"), second.dequeue("q"), first.dequeue("q"), second.dequeue("q")] == list("cdef")


@pytest.mark.realises("MOM-12")
def test_a_second_server_does_not_wait_for_the_firsts_uncommitted_dequeue(connect: Connect) -> None:
    fill(connect, "q", "1", "2")
    first, second = Server(connect), Server(connect)
    assert first.dequeue("q") == "1"
    assert second.dequeue("q", timeout=PATIENCE_MS) == "2"
    second.session.commit()
    first.session.commit()
    assert left(connect, "q") == []


@pytest.mark.realises("MOM-13")
def test_two_transactions_that_dequeue_in_opposite_orders_do_not_deadlock(connect: Connect) -> None:
    """DEQUEUE(Q1), DEQUEUE(Q2) and DEQUEUE(Q2), DEQUEUE(Q1), each with its first step done before the other's second.

    The schedule is not serialisable: in no serial order of the two transactions would each get what it got.
    """
    for queue in ("q1", "q2"):
        fill(connect, queue, f"{queue}-1", f"{queue}-2")
    both_have_begun = Barrier(2)
    got: dict[str, list[str]] = {}

    def run(name: str, first: str, second: str) -> None:
        server = Server(connect)
        taken = [server.dequeue(first)]
        both_have_begun.wait(10)
        taken.append(server.dequeue(second))
        server.session.commit()
        got[name] = taken

    threads = [Thread(target=run, args=each) for each in (("A", "q1", "q2"), ("B", "q2", "q1"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert got == {"A": ["q1-1", "q2-2"], "B": ["q2-1", "q1-2"]}
    assert left(connect, "q1") == left(connect, "q2") == []


@pytest.mark.realises("MOM-11", "MOM-7", "MOM-6")
def test_an_abort_loses_nothing_and_the_service_is_not_first_in_first_out(connect: Connect) -> None:
    fill(connect, "q", "1", "2", "3")
    a, b = Server(connect), Server(connect)
    assert (a.dequeue("q"), b.dequeue("q")) == ("1", "2")
    b.session.commit()
    a.session.rollback()
    assert [b.dequeue("q"), b.dequeue("q")] == ["1", "3"], "1 is served after 2, and in its old place before 3"
    b.session.commit()


@pytest.mark.realises("MOM-7")
def test_that_the_order_was_disturbed_is_visible(connect: Connect) -> None:
    fill(connect, "q", "1")
    session = connect().create_session(True, Session.SESSION_TRANSACTED)
    consumer = session.create_consumer(session.create_queue("q"))
    for expected in (1, 2, 3):
        message = consumer.receive(PATIENCE_MS)
        assert message is not None
        assert message.get_int_property("JMSXDeliveryCount") == expected
        assert message.jms_redelivered is (expected > 1)
        session.rollback()


@pytest.mark.realises("MOM-6")
def test_a_server_that_dies_does_not_drop_the_request(connect: Connect) -> None:
    fill(connect, "q", "request")
    dying, other = connect(), Server(connect)
    session = dying.create_session(True, Session.SESSION_TRANSACTED)
    assert text_of(session.create_consumer(session.create_queue("q")).receive(PATIENCE_MS)) == "request"
    dying.close()
    assert other.dequeue("q") == "request"
    other.session.commit()
    assert left(connect, "q") == []


@pytest.mark.realises("MOM-8", "MOM-9")
@pytest.mark.parametrize("commits", [True, False])
def test_a_server_dequeues_works_and_enqueues_as_one_step(connect: Connect, commits: bool) -> None:
    fill(connect, "requests", "3")
    server = Server(connect)
    number = int(server.dequeue("requests"))
    server.enqueue("replies", str(number * number))
    assert (left(connect, "requests"), left(connect, "replies")) == ([], []), "nothing is decided yet"
    if commits:
        server.session.commit()
    else:
        server.session.rollback()
    expected = ([], ["9"]) if commits else (["3"], [])
    assert (left(connect, "requests"), left(connect, "replies")) == expected


@pytest.mark.realises("MOM-14", "MOM-32")
def test_the_highest_priority_is_dequeued_first(connect: Connect) -> None:
    fill(connect, "q", "low", "high", "middle", priorities={"low": 0, "high": 9, "middle": 5})
    server, other = Server(connect), Server(connect)
    assert [server.dequeue("q"), other.dequeue("q"), server.dequeue("q")] == ["high", "middle", "low"]
    other.session.rollback()
    assert server.dequeue("q") == "middle"
    server.session.commit()


@pytest.mark.realises("MOM-30", "MOM-31", "MOM-34")
def test_queues_are_used_without_transactions_waiting_or_not(connect: Connect) -> None:
    session = connect().create_session(False, Session.AUTO_ACKNOWLEDGE)
    queue = session.create_queue("q")
    consumer = session.create_consumer(queue)
    assert consumer.receive_no_wait() is None
    sender = Thread(target=fill, args=(connect, "q", "1"))
    sender.start()
    assert text_of(consumer.receive(PATIENCE_MS)) == "1"
    sender.join()
    assert consumer.receive_no_wait() is None
    assert left(connect, "q") == []

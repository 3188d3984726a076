"""Sessions, threads and listeners: one thread at a time, several sessions side by side (4.4.6, 4.4.9, 4.4.14)."""

from __future__ import annotations

from threading import Lock

from pyjms import Connection, JMSException, Message, Queue, Session, Topic
from pyjms_tck.environment import Waits
from pyjms_tck.fixtures import Connect, MakeDestination, MakeSession, Record, RunBackground
from pyjms_tck.requirements import requirement
from pyjms_tck.suite.exchange import Collector, Holding, send_texts


@requirement("4.4.6-a")
def test_4_4_6_a_another_thread_closes_a_session_that_is_in_use(
    session: Session, make_session: MakeSession, queue: Queue, background: RunBackground, waits: Waits
) -> None:
    consumer = session.create_consumer(queue)
    receiving = background(consumer.receive)
    waits.pause()
    background(session.close).result()
    assert receiving.result() is None, "the receive of the other thread returns null"
    send_texts(make_session(), queue, "text")
    collector = Collector()
    make_session().create_consumer(queue).message_listener = collector
    assert collector.wait_for(1, waits) == ["text"], "the closed session took no message with it"


@requirement("4.4.6-b")
def test_4_4_6_b_listeners_set_up_on_a_stopped_connection_are_all_called(
    connect: Connect, session: Session, make_queue: MakeDestination, waits: Waits
) -> None:
    connection = connect()
    listening = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
    queues = [make_queue() for _ in range(3)]
    listeners = [Collector() for _ in queues]
    for number, (queue, listener) in enumerate(zip(queues, listeners, strict=True)):
        send_texts(session, queue, f"text {number}")
        listening.create_consumer(queue).message_listener = listener
    connection.start()
    assert [listener.wait_for(1, waits) for listener in listeners] == [["text 0"], ["text 1"], ["text 2"]]


@requirement("4.4.6-c")
def test_4_4_6_c_record_whether_a_session_with_a_listener_receives(
    session: Session, make_queue: MakeDestination, record: Record
) -> None:
    receiver = session.create_consumer(make_queue())
    session.create_consumer(make_queue()).message_listener = Collector()
    try:
        receiver.receive_no_wait()
    except JMSException as error:
        record(f"receive on a session that has a message listener throws {type(error).__name__}")
    else:
        record("receive on a session that has a message listener is not refused")


@requirement("4.4.9-a")
def test_4_4_9_a_a_slow_subscriber_does_not_hold_up_another(
    session: Session, make_session: MakeSession, topic: Topic, waits: Waits
) -> None:
    texts = [f"text {number}" for number in range(5)]
    with Holding(waits) as slow:
        quick = Collector()
        make_session().create_consumer(topic).message_listener = slow
        make_session().create_consumer(topic).message_listener = quick
        send_texts(session, topic, *texts)
        slow.wait_until_entered()
        assert quick.wait_for(len(texts), waits) == texts, "one gets everything while the other is busy"
        assert slow.texts == ["text 0"]
        slow.release()
        waits.until(lambda: len(slow.texts) >= len(texts), "the slow subscriber had everything, too")
        assert slow.texts == texts


@requirement("4.4.9-b")
def test_4_4_9_b_record_how_two_receivers_share_a_queue(
    session: Session, connect: Connect, queue: Queue, record: Record, waits: Waits
) -> None:
    connection: Connection = connect(started=True)
    listeners = [Collector(), Collector()]
    for listener in listeners:
        connection.create_session(False, Session.AUTO_ACKNOWLEDGE).create_consumer(queue).message_listener = listener
    send_texts(session, queue, *(f"text {number}" for number in range(20)))
    waits.until(lambda: sum(len(listener.texts) for listener in listeners) >= 20, "20 messages had been received")
    is_shared = all(listener.texts for listener in listeners)
    record(f"of two listeners on one queue, {'each got some' if is_shared else 'one got all'} of 20 messages")


class Overlapping(Collector):
    """A listener that knows how many calls ran at the same time, in all listeners that share its counter."""

    lock = Lock()

    def __init__(self, waits: Waits, running: list[int]) -> None:
        super().__init__(self._stay)
        self._waits = waits
        self._running = running
        self.most_at_once = 0

    def _stay(self, message: Message) -> None:
        with self.lock:
            self._running[0] += 1
            self.most_at_once = max(self.most_at_once, self._running[0])
        self._waits.pause()  # another call has its chance to begin
        with self.lock:
            self._running[0] -= 1


@requirement("4.4.14-a")
def test_4_4_14_a_the_listeners_of_a_session_run_one_after_the_other(
    connect: Connect, session: Session, make_queue: MakeDestination, waits: Waits
) -> None:
    connection = connect()
    listening = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
    queues = [make_queue(), make_queue()]
    running = [0]
    listeners = [Overlapping(waits, running) for _ in queues]
    for queue, listener in zip(queues, listeners, strict=True):
        send_texts(session, queue, "one", "two")
        listening.create_consumer(queue).message_listener = listener
    connection.start()
    for listener in listeners:
        assert listener.wait_for(2, waits) == ["one", "two"]
    most = max(listener.most_at_once for listener in listeners)
    assert most == 1, "how many listeners of the session ran at the same time"

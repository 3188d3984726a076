"""Receivers that a program registers at an embedded broker (JBoss Messaging Core, Revision 1, §5 to §8)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Thread, current_thread

import pytest

from pyjms import ConnectionFactory, DeliveryMode, Session, TextMessage
from pyjms.spi.envelope import Envelope
from pyjms.spi.errors import ClosedError, DestinationError, DestinationInUseError, ResourceError
from pyjms.spi.receivers import (
    MessageReceiver,
    NotAcceptedError,
    PushedMessage,
    PushTo,
    ReceiverError,
    UnknownDeliveryError,
)
from pyjms_provider.broker import running_broker, stop_broker
from pyjms_provider.core.journal.journal import Changes
from pyjms_provider.queue_manager import QueueManager
from pyjms_provider.receivers import Attachment, ChannelFacts, Receivers

WAIT_S = 20.0


class Recorder(MessageReceiver):
    """Puts what it gets into a queue of the test, and answers as it is told."""

    def __init__(
        self, answer: bool | Callable[[PushedMessage], bool] = True, accepts: Callable[[Envelope], bool] | bool = True
    ) -> None:
        self.got: SimpleQueue[PushedMessage] = SimpleQueue()
        self.answer = answer
        self.accepts = accepts
        self.closed = Event()

    def accept(self, message: Envelope) -> bool:
        return self.accepts if isinstance(self.accepts, bool) else self.accepts(message)

    def handle(self, message: PushedMessage) -> bool:
        answer = self.answer if isinstance(self.answer, bool) else self.answer(message)
        self.got.put(message)
        return answer

    def close(self) -> None:
        self.closed.set()

    def next(self) -> PushedMessage:
        return self.got.get(timeout=WAIT_S)

    def texts(self, count: int) -> list[object]:
        return [self.next().envelope.body for _ in range(count)]


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    name = "receivers"
    yield f"vm://{name}" + (f"?store=sqlite:///{tmp_path / 'store.db'}" if request.param == "sqlite" else "")
    stop_broker(name)


@contextmanager
def client(url: str, *, transacted: bool = False) -> Iterator[Session]:
    with ConnectionFactory(url).create_connection() as connection:
        connection.start()
        yield connection.create_session(transacted, Session.AUTO_ACKNOWLEDGE)


def send(session: Session, *texts: str, queue: str = "orders", persistent: bool = True, **properties: str) -> None:
    producer = session.create_producer(session.create_queue(queue))
    producer.delivery_mode = DeliveryMode.PERSISTENT if persistent else DeliveryMode.NON_PERSISTENT
    for text in texts:
        message = session.create_text_message(text)
        for name, value in properties.items():
            message.set_string_property(name, value)
        producer.send(message)


def counts(name: str = "orders") -> tuple[int, int]:
    """Return how many messages wait, and how many are held."""
    report = QueueManager.of("receivers").report(name)
    return report.waiting, report.held


def settle_down(attachment: Attachment) -> None:
    """Return when the thread that pushes has done all that was asked of it so far."""
    attachment.deliver(WAIT_S)


@pytest.mark.realises("JBM-2.a", "JBM-5.2.3.b", "JBM-6.1.a")
def test_a_receiver_gets_what_waits_and_what_comes_in_order_and_the_queue_is_empty_afterwards(url: str) -> None:
    with client(url) as session, Receivers.of("receivers") as receivers:
        send(session, "a", "b")
        recorder = Recorder()
        attachment = receivers.attach("queue://orders", recorder, name="bridge")
        send(session, "c", persistent=False)
        assert recorder.texts(3) == ["a", "b", "c"]
        settle_down(attachment)
        assert counts() == (0, 0)
        assert attachment.statistics.acknowledged == 3


@pytest.mark.realises("JBM-5.3.2", "JBM-5.3.3.b", "JBM-6.2")
def test_a_message_that_is_acknowledged_later_stays_delivered_until_then(url: str) -> None:
    with client(url) as session, Receivers.of("receivers") as receivers:
        recorder = Recorder(False)
        attachment = receivers.attach("queue://orders", recorder, name="bridge")
        send(session, "a", "b")
        first, second = recorder.next(), recorder.next()
        settle_down(attachment)
        assert (counts(), attachment.unacknowledged) == ((0, 2), 2)
        second.acknowledge()
        assert (counts(), attachment.unacknowledged) == ((0, 1), 1)
        with pytest.raises(UnknownDeliveryError):
            second.acknowledge()
        first.acknowledge()
        assert (counts(), attachment.unacknowledged) == ((0, 0), 0)


@pytest.mark.realises("JBM-5.3.4.b")
def test_an_acknowledgement_may_come_before_the_receiver_has_returned(url: str) -> None:
    def acknowledge_elsewhere(message: PushedMessage) -> bool:
        thread = Thread(target=message.acknowledge)
        thread.start()
        thread.join(WAIT_S)
        return False

    with client(url) as session, Receivers.of("receivers") as receivers:
        recorder = Recorder(acknowledge_elsewhere)
        attachment = receivers.attach("queue://orders", recorder, name="bridge")
        send(session, "a")
        recorder.next()
        settle_down(attachment)
        assert (counts(), attachment.unacknowledged) == ((0, 0), 0)


@pytest.mark.parametrize("then", [True, False, "fails"])
def test_an_early_acknowledgement_that_cannot_be_written_leaves_the_message_owed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: bool | str
) -> None:
    with client(f"vm://receivers?store=sqlite:///{tmp_path / 'store.db'}") as session:
        receivers = Receivers.of("receivers")
        broker = running_broker("receivers")
        assert broker is not None
        assert broker.virtual_host.storage is not None
        journal = broker.virtual_host.storage.journal
        write, refusals = journal.write, [ResourceError("the disk is full")]

        def refuse_once(changes: Changes, *, force: bool) -> None:
            if changes.removals and refusals:
                raise refusals.pop()
            write(changes, force=force)

        def handle(message: PushedMessage) -> bool:
            with pytest.raises(ResourceError):
                message.acknowledge()
            if then == "fails":
                raise RuntimeError("it fails")
            return then is True

        recorder = Recorder(handle)
        attachment = receivers.attach("queue://orders", recorder, name="bridge")
        monkeypatch.setattr(journal, "write", refuse_once)
        send(session, "a")
        settle_down(attachment)
        settle_down(attachment)
        assert not refusals
        assert (counts(), attachment.unacknowledged) == (((0, 0), 0) if then is True else ((0, 1), 1))
    stop_broker("receivers")


def test_a_receiver_that_fails_after_it_has_acknowledged_has_had_the_message(url: str) -> None:
    def fail(message: PushedMessage) -> bool:
        message.acknowledge()
        raise RuntimeError("too late")

    with client(url) as session, Receivers.of("receivers") as receivers:
        failing, other = Recorder(fail), Recorder()
        attachment = receivers.attach("queue://orders", failing, name="failing")
        receivers.attach("queue://orders", other, name="other")
        send(session, "a")
        settle_down(attachment)
        settle_down(attachment)
        assert counts() == (0, 0)
        assert other.got.empty()


@pytest.mark.realises("JBM-7.5.a")
def test_a_receiver_asks_for_redelivery_of_what_it_owes(url: str) -> None:
    with client(url) as session, Receivers.of("receivers") as receivers:
        recorder = Recorder(False)
        attachment = receivers.attach("queue://orders", recorder, name="bridge")
        send(session, "a", "b")
        assert not recorder.next().is_redelivered
        recorder.next().acknowledge()
        recorder.answer = True
        attachment.redeliver(WAIT_S)
        again = recorder.next()
        assert (again.envelope.body, again.is_redelivered) == ("a", True)
        assert (counts(), attachment.unacknowledged) == ((0, 0), 0)
        assert recorder.got.empty(), "what was acknowledged does not come again"


@pytest.mark.realises("JBM-5.3.1.a", "JBM-5.3.2")
def test_all_receivers_that_accept_get_a_message_and_it_stays_until_each_has_acknowledged_it(url: str) -> None:
    with client(url) as session, Receivers.of("receivers") as receivers:
        eager, late, other = Recorder(), Recorder(False), Recorder(accepts=False)
        first = receivers.attach("queue://orders", eager, name="eager", push_to=PushTo.ALL)
        second = receivers.attach("queue://orders", late, name="late")
        receivers.attach("queue://orders", other, name="other")
        send(session, "a")
        assert eager.texts(1) == ["a"]
        message = late.next()
        settle_down(first)
        assert (first.unacknowledged, second.unacknowledged, counts()) == (0, 1, (0, 1))
        message.acknowledge()
        assert counts() == (0, 0)
        assert other.got.empty()


@pytest.mark.realises("JBM-5.2.b", "JBM-5.2.2.c", "JBM-7.4.a", "JBM-8.1.2.a")
@pytest.mark.parametrize("how", ["declines", "changes its mind", "is broken"])
def test_what_no_receiver_takes_is_kept_and_delivered_when_it_is_asked_for(url: str, how: str) -> None:
    def fail(message: PushedMessage) -> bool:
        raise NotAcceptedError if how == "changes its mind" else RuntimeError("broken")

    with client(url) as session, Receivers.of("receivers") as receivers:
        recorder = Recorder(True if how == "declines" else fail, accepts=how != "declines")
        attachment = receivers.attach("queue://orders", recorder, name="bridge")
        send(session, "a", "b")
        assert not attachment.deliver(WAIT_S)
        assert counts() == (2, 0)
        recorder.answer, recorder.accepts = True, True
        assert attachment.deliver(WAIT_S)
        assert recorder.texts(2) == ["a", "b"]
        assert counts() == (0, 0)


def test_a_consumer_gets_what_no_receiver_takes(url: str) -> None:
    with client(url) as session, Receivers.of("receivers") as receivers:
        recorder = Recorder()
        receivers.attach("queue://orders", recorder, name="bridge", selector="kind = 'big'")
        consumer = session.create_consumer(session.create_queue("orders"))
        send(session, "small", kind="small")
        send(session, "big", kind="big")
        message = consumer.receive(int(WAIT_S * 1000))
        assert message is not None
        assert isinstance(message, TextMessage)
        assert message.text == "small"
        assert recorder.texts(1) == ["big"]


def test_a_topic_pushes_to_a_durable_subscription_that_gathers_while_nobody_is_attached(url: str) -> None:
    with client(url) as session, Receivers.of("receivers", client_id="bridge") as receivers:
        producer = session.create_producer(session.create_topic("news"))
        receivers.attach("topic://news", Recorder(), name="r", subscription="archive").close()
        producer.send(session.create_text_message("a"))
        recorder, passing = Recorder(), Recorder()
        receivers.attach("topic://news", recorder, name="r", subscription="archive")
        receivers.attach("topic://news", passing, name="r")
        producer.send(session.create_text_message("b"))
        assert recorder.texts(2) == ["a", "b"]
        assert passing.texts(1) == ["b"]


@pytest.mark.realises("JBM-2.b", "JBM-2.c")
def test_a_synchronous_channel_returns_the_answer_and_stores_nothing(url: str) -> None:
    with client(url) as session, Receivers.of("receivers") as receivers:
        send(session, "a")
        envelope = next(QueueManager.of("receivers").browse("orders"))
        channel = receivers.channel("own")
        assert channel.send(envelope), "nobody wants it: acknowledged and discarded"
        yes, no = Recorder(), Recorder(False)
        channel.add(yes, name="yes")
        assert channel.send(envelope)
        remove = channel.add(no, name="no")
        assert not channel.send(envelope), "the sender decides what becomes of a message that was not acknowledged"
        with pytest.raises(UnknownDeliveryError):
            no.next().acknowledge()
        remove()
        assert channel.send(envelope)
        assert yes.texts(3) == ["a", "a", "a"]
        broken = Recorder(lambda message: bool(1 // 0))
        channel.add(broken, name="broken")
        with pytest.raises(ZeroDivisionError):
            channel.send(envelope)
        channel.close()
        with pytest.raises(DestinationError):
            channel.send(envelope)


@pytest.mark.realises("JBM-7.1", "JBM-7.2", "JBM-5.2.4.c")
def test_channels_let_their_senders_know_what_to_expect(url: str) -> None:
    with client(url), Receivers.of("receivers") as receivers:
        is_stored = "sqlite" in url
        assert receivers.facts("queue://orders") == ChannelFacts(
            is_synchronous=False, is_reliable=is_stored, is_transactional=True, is_storing_undeliverable=True
        )
        assert not receivers.facts("topic://news").is_storing_undeliverable
        assert receivers.channel("own").facts.is_synchronous


@pytest.mark.realises("JBM-6.2.1.a", "JBM-6.2.1.b")
def test_acknowledgements_and_sends_of_a_transaction_count_together(url: str) -> None:
    with client(url) as session, Receivers.of("receivers") as receivers:
        recorder = Recorder(False)
        attachment = receivers.attach("queue://orders", recorder, name="bridge")
        send(session, "a")
        message = recorder.next()
        settle_down(attachment)
        with pytest.raises(RuntimeError, match="changed"), receivers.transaction() as unit:
            message.acknowledge(unit)
            raise RuntimeError("changed my mind")
        assert attachment.unacknowledged == 1
        with receivers.transaction() as unit:
            message.acknowledge(unit)
            unit.send(message.envelope)
            assert attachment.unacknowledged == 1, "nothing counts before the commit"
        again = recorder.next()
        settle_down(attachment)
        assert (again.envelope.body, attachment.unacknowledged) == ("a", 1), "the one that was sent in the transaction"


@pytest.mark.parametrize("how", ["acknowledged", "owed", "declined"])
def test_after_a_restart_messages_come_again_unless_they_were_acknowledged(tmp_path: Path, how: str) -> None:
    url = f"vm://receivers?store=sqlite:///{tmp_path / 'store.db'}"
    with client(url) as session:
        receivers = Receivers.of("receivers")
        recorder = Recorder(how == "acknowledged", accepts=how != "declined")
        attachment = receivers.attach("queue://orders", recorder, name="bridge")
        send(session, "a")
        attachment.deliver(WAIT_S)
    stop_broker("receivers")
    assert recorder.closed.wait(WAIT_S)
    with client(url) as session, Receivers.of("receivers") as receivers:
        again = Recorder()
        settle_down(receivers.attach("queue://orders", again, name="bridge"))
        assert counts() == (0, 0)
        assert again.got.qsize() == (0 if how == "acknowledged" else 1)
        if how != "acknowledged":
            assert again.next().is_redelivered == (how == "owed")
    stop_broker("receivers")


@pytest.mark.parametrize("keep", [False, True])
def test_what_a_closed_receiver_owes_goes_back_or_stays_for_its_successor(url: str, keep: bool) -> None:
    with client(url) as session, Receivers.of("receivers") as receivers:
        recorder = Recorder(False)
        attachment = receivers.attach("queue://orders", recorder, name="bridge")
        send(session, "a")
        message = recorder.next()
        settle_down(attachment)
        attachment.close(keep=keep)
        attachment.close()
        assert recorder.closed.is_set()
        assert counts() == ((0, 1) if keep else (1, 0))
        successor = Recorder()
        second = receivers.attach("queue://orders", successor, name="bridge")
        if keep:
            second.redeliver(WAIT_S)
        again = successor.next()
        assert again.is_redelivered
        settle_down(second)
        assert counts() == (0, 0)
        with pytest.raises(UnknownDeliveryError):
            message.acknowledge()
        with pytest.raises(ClosedError):
            attachment.deliver()


def test_a_message_that_was_released_too_often_becomes_a_dead_letter(url: str) -> None:
    with client(url) as session, Receivers.of("receivers") as receivers:
        manager = QueueManager.of("receivers")
        manager.create("orders", max_deliveries=2)
        recorder = Recorder(False)
        attachment = receivers.attach("queue://orders", recorder, name="bridge")
        send(session, "a")
        for _ in range(2):
            recorder.next()
            settle_down(attachment)
            assert attachment.release() == 1
        settle_down(attachment)
        assert counts() == (0, 0)
        assert [each.body for each in manager.browse("DLQ")] == ["a"]


def test_a_paused_queue_pushes_nothing_until_it_is_resumed(url: str) -> None:
    with client(url) as session, Receivers.of("receivers") as receivers:
        manager = QueueManager.of("receivers")
        manager.create("orders")
        recorder = Recorder()
        attachment = receivers.attach("queue://orders", recorder, name="bridge")
        manager.pause("orders")
        send(session, "a")
        settle_down(attachment)
        assert counts() == (1, 0)
        manager.resume("orders")
        assert recorder.texts(1) == ["a"]


def test_what_cannot_be_is_refused_with_its_reason(url: str) -> None:
    with client(url), Receivers.of("receivers") as receivers:
        manager = QueueManager.of("receivers")
        attachment = receivers.attach("queue://orders", Recorder(), name="bridge")
        with pytest.raises(ReceiverError, match="another name"):
            receivers.attach("queue://orders", Recorder(), name="bridge")
        with pytest.raises(ReceiverError, match="first receiver"):
            receivers.attach("queue://orders", Recorder(), name="other", push_to=PushTo.ALL)
        with pytest.raises(DestinationInUseError):
            manager.destroy("orders")
        manager.create("grouped", groups=True)
        with pytest.raises(ReceiverError, match="groups"):
            receivers.attach("queue://grouped", Recorder(), name="bridge")
        manager.create("ordered", type="total_order")
        with pytest.raises(ReceiverError, match="has a total order"):
            receivers.attach("queue://ordered", Recorder(), name="bridge")
        for wrong in ("orders", "queue://", "stomp://orders"):
            with pytest.raises(DestinationError):
                receivers.attach(wrong, Recorder(), name="bridge")
        with pytest.raises(ReceiverError, match="only a topic"):
            receivers.attach("queue://orders", Recorder(), name="b", subscription="s")
        attachment.close()
        manager.destroy("orders")
    with pytest.raises(ClosedError):
        receivers.attach("queue://orders", Recorder(), name="bridge")
    stop_broker("receivers")
    with pytest.raises(ResourceError):
        Receivers.of("receivers")


def test_a_receiver_may_wait_for_a_thread_that_sends_to_its_queue(url: str) -> None:
    with client(url) as session, Receivers.of("receivers") as receivers:

        def send_another(message: PushedMessage) -> bool:
            if message.envelope.body == "a":
                thread = Thread(target=send, args=(session, "b"))
                thread.start()
                thread.join(WAIT_S)
                assert not thread.is_alive(), "no lock is held while a receiver is called"
            return True

        recorder = Recorder(send_another)
        receivers.attach("queue://orders", recorder, name="bridge")
        send(session, "a")
        assert recorder.texts(2) == ["a", "b"]


def test_many_threads_send_while_receivers_come_and_go_and_nothing_is_lost(url: str) -> None:
    senders, each = 4, 100
    with client(url), Receivers.of("receivers") as receivers:
        seen: SimpleQueue[object] = SimpleQueue()

        def take(message: PushedMessage) -> bool:
            seen.put(message.envelope.body)
            return True

        def produce(number: int) -> None:
            with client(url.partition("?")[0]) as session:
                send(session, *(f"{number}-{index}" for index in range(each)))

        threads = [Thread(target=produce, args=(number,)) for number in range(senders)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            with receivers.attach("queue://orders", Recorder(take), name="bridge"):
                threads[0].join(0.01)
        with receivers.attach("queue://orders", Recorder(take), name="bridge") as last:
            settle_down(last)
            got = [seen.get_nowait() for _ in range(seen.qsize())]
            assert sorted(map(str, got)) == sorted(f"{n}-{i}" for n in range(senders) for i in range(each))
            assert counts() == (0, 0)


def test_a_broker_stops_while_a_receiver_is_stuck(url: str) -> None:
    begun, go_on = Event(), Event()

    def wait(message: PushedMessage) -> bool:
        begun.set()
        return go_on.wait(WAIT_S)

    with client(url) as session:
        recorder = Recorder(wait)
        receivers = Receivers.of("receivers")
        receivers.attach("queue://orders", recorder, name="bridge")
        send(session, "a")
        assert begun.wait(WAIT_S)
        stopping = Thread(target=stop_broker, args=("receivers",))
        stopping.start()
        stopping.join(WAIT_S)
        assert not stopping.is_alive(), "the broker does not wait for a receiver"
        assert not recorder.closed.is_set(), "it is being called"
        go_on.set()
        assert recorder.closed.wait(WAIT_S)


def test_a_receiver_may_close_its_own_attachment(url: str) -> None:
    with client(url) as session, Receivers.of("receivers") as receivers:
        attachments: SimpleQueue[Attachment] = SimpleQueue()

        def close(message: PushedMessage) -> bool:
            attachments.get(timeout=WAIT_S).close()
            return True

        recorder = Recorder(close)
        attachments.put(receivers.attach("queue://orders", recorder, name="bridge"))
        send(session, "a", "b")
        assert recorder.texts(1) == ["a"]
        assert recorder.closed.is_set()
        consumer = session.create_consumer(session.create_queue("orders"))
        message = consumer.receive(int(WAIT_S * 1000))
        assert isinstance(message, TextMessage)
        assert message.text == "b", "what it was not offered any more is a consumer's"


def test_receivers_that_come_and_go_on_many_threads_are_called_by_the_queues_own_thread_alone(url: str) -> None:
    each, messages = 60, 300
    with client(url) as session, Receivers.of("receivers") as receivers:
        seen: SimpleQueue[tuple[object, str]] = SimpleQueue()

        def take(message: PushedMessage) -> bool:
            seen.put((message.envelope.body, current_thread().name))
            return True

        def come_and_go(name: str) -> None:
            for _ in range(each):
                receivers.attach("queue://orders", Recorder(take), name=name).close()

        threads = [Thread(target=come_and_go, args=(name,)) for name in "abc"]
        for thread in threads:
            thread.start()
        send(session, *map(str, range(messages)), persistent=False)
        for thread in threads:
            thread.join(WAIT_S)
            assert not thread.is_alive()
        with receivers.attach("queue://orders", Recorder(take), name="last") as last:
            settle_down(last)
            settle_down(last)
        found = [seen.get_nowait() for _ in range(seen.qsize())]
        assert sorted(int(str(body)) for body, _ in found) == list(range(messages))
        assert {name for _, name in found} == {"pyjms receivers queue://orders"}

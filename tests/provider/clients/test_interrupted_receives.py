"""The main thread is interrupted at each place of a receive, or of what settles its message: the next call does what that one did not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

import pytest

import pyjms
import pyjms_provider
from pyjms import (
    ConnectionFactory,
    DeliveryMode,
    Message,
    MessageConsumer,
    ResourceAllocationException,
    Session,
)
from pyjms.api.connection import Connection
from pyjms.api.xa import XAResource
from pyjms.runtime.tracing import MessageTracer, trace_with
from pyjms.runtime.xa import RecoveredXid, XAConnectionFactory
from pyjms.spi.envelope import Address
from pyjms.spi.xid import Xid
from pyjms_provider.broker import running_broker, stop_broker
from pyjms_provider.clients.vm_consumer import VmConsumer
from tests.provider.interruptions import Interruption, each_interruption

NAME = "interrupted-receives"
_OURS = Path(pyjms.__file__).parent, Path(pyjms_provider.__file__).parent
FILES = tuple(
    str(path)
    for directory, pattern in (
        (_OURS[0], "runtime/*.py"),
        (_OURS[0], "messages/*.py"),
        (_OURS[0], "spi/*.py"),
        (_OURS[1], "clients/vm*.py"),
        (_OURS[1], "core/*.py"),
        (_OURS[1], "stores/**/*.py"),
    )
    for path in directory.glob(pattern)
)
"""All that is called: what returns from a function that is not watched looks like a call that is not Python's own."""
MODES = {
    "auto": Session.AUTO_ACKNOWLEDGE,
    "client": Session.CLIENT_ACKNOWLEDGE,
    "dups ok": Session.DUPS_OK_ACKNOWLEDGE,
    "transacted": Session.SESSION_TRANSACTED,
}
RECEIVES: dict[str, Callable[[MessageConsumer], Message | None]] = {
    "receive": lambda consumer: consumer.receive(1000),
    "receive_no_wait": lambda consumer: consumer.receive_no_wait(),
}


@pytest.fixture(params=["memory", "sqlite"])
def connection(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Connection]:
    """What an interrupted write leaves in doubt is settled when the broker stops, not before, however long a test takes: it may come again then."""
    store = "" if request.param == "memory" else f"?store=sqlite:///{tmp_path}/s.db"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pyjms_provider.core.journal.in_doubt_writes.RETRY_MS", 3_600_000)
        with ConnectionFactory(f"vm://{NAME}{store}").create_connection() as made:
            made.start()
            yield made
        stop_broker(NAME)


class Reader:
    """A session that receives, a producer on another one, and what is left when the first is closed."""

    def __init__(self, connection: Connection, mode: int, sent: int = 0) -> None:
        self._connection = connection
        self.session = connection.create_session(mode == Session.SESSION_TRANSACTED, mode)
        self.mode = mode
        self.consumer = self.session.create_consumer(self.session.create_queue("q"))
        sending = connection.create_session()
        self._producer = sending.create_producer(sending.create_queue("q"))
        self._create = sending.create_text_message
        self._sent = sent

    def send(self, delivery_mode: int = DeliveryMode.PERSISTENT) -> str:
        self._sent += 1
        self._producer.delivery_mode = delivery_mode
        self._producer.send(self._create(text := f"m{self._sent}"))
        return text

    def settle(self, message: Message) -> None:
        if self.mode == Session.SESSION_TRANSACTED:
            self.session.commit()
        else:
            message.acknowledge()

    def what_is_left(self) -> list[str]:
        """Return what comes to another session when this one is closed."""
        self.session.close()
        other = self._connection.create_session()
        consumer = other.create_consumer(other.create_queue("q"))
        return [message.text for message in iter(consumer.receive_no_wait, None)]  # type: ignore[attr-defined]


def interrupt(reader: Reader, call: str, monkeypatch: pytest.MonkeyPatch, *, is_done: bool = True) -> None:
    """Have the next call of that name be interrupted when the provider has done it, or before."""
    provider_session = reader.session.provider_session  # type: ignore[attr-defined]  # of the runtime's
    done = getattr(provider_session, call)

    def do_and_be_interrupted(*arguments: object) -> None:
        monkeypatch.undo()
        if is_done:
            done(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(provider_session, call, do_and_be_interrupted)


@pytest.mark.parametrize("receive", RECEIVES.values(), ids=RECEIVES)
@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_the_next_receive_returns_what_an_interrupted_one_took(
    connection: Connection, mode: int, receive: Callable[[MessageConsumer], Message | None]
) -> None:
    """It had been settled by then, or was with the next commit, or stayed with the session until that was closed. It does not come again."""
    reader = Reader(connection, mode)

    def attempt(interruption: Interruption) -> None:
        text, message = reader.send(), None
        with suppress(KeyboardInterrupt), interruption():
            message = receive(reader.consumer)
        if interruption.where is not None:
            assert message is None, interruption.where
        message = message or reader.consumer.receive(2000)
        assert message is not None, interruption.where
        assert message.text == text, interruption.where  # type: ignore[attr-defined]
        reader.settle(message)

    assert each_interruption(attempt, *FILES) > 10
    settle_doubts()
    assert reader.what_is_left() == []


def settle_doubts() -> None:
    """Have the store be asked now."""
    broker = running_broker(NAME)
    assert broker is not None
    if broker.virtual_host.keeper is not None:
        assert broker.virtual_host.keeper.doubts.settle()


def elsewhere(work: Callable[[], object]) -> None:
    """Do `work` on another thread, to which the session has passed (§4.4.6: one at a time)."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result(10)


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_another_thread_gets_what_an_interrupted_receive_took(connection: Connection, mode: int) -> None:
    """It goes on with the session, and nobody is under way with that message any more."""
    reader = Reader(connection, mode)

    def attempt(interruption: Interruption) -> None:
        text, message = reader.send(), None
        with suppress(KeyboardInterrupt), interruption():
            message = reader.consumer.receive_no_wait()

        def go_on() -> None:
            found = message or reader.consumer.receive(2000)
            assert found is not None, interruption.where
            assert found.text == text, interruption.where  # type: ignore[attr-defined]
            reader.settle(found)

        elsewhere(go_on)

    assert each_interruption(attempt, *FILES) > 10


@pytest.mark.parametrize("end", ["recover", "rollback", "close"])
def test_what_an_interrupted_receive_took_comes_again_if_another_thread_says_so(
    connection: Connection, end: str
) -> None:
    reader = Reader(connection, Session.CLIENT_ACKNOWLEDGE if end == "recover" else Session.SESSION_TRANSACTED)

    def attempt(interruption: Interruption) -> None:
        text = reader.send()
        with suppress(KeyboardInterrupt), interruption():
            reader.consumer.receive_no_wait()
        if end == "close":
            elsewhere(reader.consumer.close)
            reader.consumer = reader.session.create_consumer(reader.session.create_queue("q"))
            reader.session.rollback()
        else:
            elsewhere(getattr(reader.session, end))
        found = reader.consumer.receive_no_wait()
        assert found is not None, interruption.where
        assert found.text == text, interruption.where  # type: ignore[attr-defined]
        reader.settle(found)

    assert each_interruption(attempt, *FILES) > 10
    assert reader.what_is_left() == []


class Tracer(MessageTracer):
    """Steps of Python's own, in which a thread can be interrupted, around each receive."""

    def sending(self, address: Address, message: Message) -> AbstractContextManager[Mapping[str, str]]:
        """Add nothing."""
        return nullcontext({})

    def receiving(self, address: Address) -> AbstractContextManager[Callable[[Message | None], None]]:
        """Hear of what came."""
        return _Receiving()

    def processing(self, address: Address, message: Message) -> AbstractContextManager[object]:
        """Hear nothing."""
        return nullcontext()


class _Receiving(AbstractContextManager[Callable[[Message | None], None]]):
    def __enter__(self) -> Callable[[Message | None], None]:
        return self._hear

    def __exit__(self, *_: object) -> None:
        """Hear of the end."""

    def _hear(self, message: Message | None) -> None:
        """Hear of what came."""


@pytest.fixture
def traced() -> Iterator[None]:
    trace_with(Tracer())
    yield
    trace_with(None)


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("receive", RECEIVES.values(), ids=RECEIVES)
@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_the_next_receive_returns_what_came_when_the_tracer_was_interrupted(
    connection: Connection, mode: int, receive: Callable[[MessageConsumer], Message | None]
) -> None:
    reader = Reader(connection, mode)

    def attempt(interruption: Interruption) -> None:
        text, message = reader.send(), None
        with suppress(KeyboardInterrupt), interruption():
            message = receive(reader.consumer)
        message = message or reader.consumer.receive(2000)
        assert message is not None, interruption.where
        assert message.text == text, interruption.where  # type: ignore[attr-defined]
        reader.settle(message)

    assert each_interruption(attempt, "runtime/traced.py", "runtime/consumer.py", __file__) > 10
    assert reader.what_is_left() == []


@pytest.mark.usefixtures("traced")
def test_a_commit_does_not_settle_what_came_when_the_tracer_was_interrupted(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = Reader(connection, Session.SESSION_TRANSACTED)
    sent = reader.send()

    def be_interrupted(_: object, message: Message | None) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(_Receiving, "_hear", be_interrupted)
    with pytest.raises(KeyboardInterrupt):
        reader.consumer.receive_no_wait()
    reader.session.commit()
    message = reader.consumer.receive_no_wait()
    assert message is not None
    assert message.text == sent  # type: ignore[attr-defined]
    reader.session.rollback()
    assert reader.what_is_left() == [sent]


def test_what_an_interrupted_receive_took_waits_until_the_client_may_have_more(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was given back to its queue, in the middle of the transaction, and marked as if it had been received."""
    with ConnectionFactory(f"vm://{NAME}", max_unacknowledged=1).create_connection() as limited:
        limited.start()
        reader = Reader(limited, Session.SESSION_TRANSACTED)
        other = reader.session.create_consumer(reader.session.create_queue("other"))
        sending = connection.create_session()
        sending.create_producer(sending.create_queue("other")).send(sending.create_message())
        sent = reader.send()
        monkeypatch.setattr("pyjms.runtime.session.thaw", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            reader.consumer.receive_no_wait()
        monkeypatch.undo()
        assert other.receive_no_wait() is not None
        with pytest.raises(ResourceAllocationException, match="max_unacknowledged"):
            reader.consumer.receive_no_wait()
        reader.session.commit()
        message = reader.consumer.receive_no_wait()
        assert message is not None
        assert (message.text, message.jms_redelivered) == (sent, False)  # type: ignore[attr-defined]


def test_what_an_interrupted_receive_took_for_a_consumer_that_was_closed_comes_again_when_the_branch_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It came when the session was closed: in a branch nobody commits the session, or rolls it back."""
    factory = XAConnectionFactory(f"vm://{NAME}?store=sqlite:///{tmp_path}/s.db")
    with factory.create_xa_connection() as connection:
        connection.start()
        sending = connection.create_session()
        queue = sending.create_queue("q")
        sending.create_producer(queue).send(sending.create_text_message("a"))
        session = connection.create_xa_session()
        resource, xid = session.xa_resource, RecoveredXid(Xid(1, b"g", b"b"))
        resource.start(xid, XAResource.TMNOFLAGS)
        consumer = session.create_consumer(queue)
        monkeypatch.setattr("pyjms.runtime.session.thaw", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            consumer.receive_no_wait()
        monkeypatch.undo()
        consumer.close()
        resource.end(xid, XAResource.TMSUCCESS)
        resource.commit(xid, one_phase=True)
        assert sending.create_consumer(queue).receive_no_wait() is not None
    stop_broker(NAME)


def _interrupted(*_: object) -> Message:
    raise KeyboardInterrupt


def test_a_commit_does_not_settle_what_an_interrupted_receive_took(connection: Connection) -> None:
    reader = Reader(connection, Session.SESSION_TRANSACTED)

    def attempt(interruption: Interruption) -> None:
        text, message = reader.send(), None
        with suppress(KeyboardInterrupt), interruption():
            message = reader.consumer.receive_no_wait()
        reader.session.commit()
        if message is None:
            message = reader.consumer.receive_no_wait()
            assert message is not None, interruption.where
            assert message.text == text, interruption.where  # type: ignore[attr-defined]
            reader.session.commit()

    assert each_interruption(attempt, *FILES) > 10
    assert reader.what_is_left() == []


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_a_listener_begins_with_what_an_interrupted_receive_took(connection: Connection, mode: int) -> None:
    """Where it had been settled, nobody got it. Where that was undone, it comes once more, and is marked."""
    sent = 0

    def attempt(interruption: Interruption) -> None:
        nonlocal sent
        reader, heard, message = Reader(connection, mode, sent), SimpleQueue[tuple[str, bool]](), None
        texts = [reader.send(), reader.send()]
        sent += 2

        def hear(message: Message) -> None:
            reader.settle(message)
            heard.put((message.text, message.jms_redelivered))  # type: ignore[attr-defined]

        with suppress(KeyboardInterrupt), interruption():
            message = reader.consumer.receive_no_wait()
        reader.consumer.message_listener = hear
        found: list[str] = []
        while texts[1] not in found:
            text, is_again = heard.get(timeout=20)
            if text not in found and text in texts:
                found.append(text)
            else:
                assert is_again, interruption.where
        assert found == (texts if message is None else texts[1:]), interruption.where
        reader.session.close()

    assert each_interruption(attempt, *FILES) > 10


def test_what_a_listener_was_to_begin_with_is_for_the_next_receive_if_there_is_none_any_more(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = Reader(connection, Session.AUTO_ACKNOWLEDGE)
    sent = reader.send()
    interrupt(reader, "acknowledge", monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        reader.consumer.receive_no_wait()
    connection.stop()
    heard: list[Message] = []
    reader.consumer.message_listener = heard.append
    reader.consumer.message_listener = None
    connection.start()
    message = reader.consumer.receive_no_wait()
    assert message is not None
    assert message.text == sent  # type: ignore[attr-defined]
    assert heard == []


@pytest.mark.parametrize("closes", ["consumer", "session", "connection"])
@pytest.mark.parametrize("is_done", [False, True])
def test_what_was_settled_and_never_returned_is_told_by_the_log(
    connection: Connection,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    closes: str,
    *,
    is_done: bool,
) -> None:
    """Who closes in place of another receive does not get it, and would never hear of that. What was not settled comes again."""
    with ConnectionFactory(f"vm://{NAME}").create_connection() as other:
        other.start()
        reader = Reader(other, Session.AUTO_ACKNOWLEDGE)
        sent = reader.send()
        interrupt(reader, "acknowledge", monkeypatch, is_done=is_done)
        with pytest.raises(KeyboardInterrupt):
            reader.consumer.receive(1000)
        {"consumer": reader.consumer, "session": reader.session, "connection": other}[closes].close()
    assert caplog.text.count("PYJMS-UNRETURNED message ID:") == 1
    assert Reader(connection, Session.AUTO_ACKNOWLEDGE).what_is_left() == ([] if is_done else [sent])


def test_what_was_settled_is_told_though_the_next_receive_was_interrupted_before_it_settled(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """That one had settled nothing, and the message was gone without a word."""
    reader = Reader(connection, Session.AUTO_ACKNOWLEDGE)
    reader.send()
    interrupt(reader, "acknowledge", monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        reader.consumer.receive_no_wait()
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("pyjms.runtime.session.thaw", _interrupted)
        reader.consumer.receive_no_wait()
    assert reader.what_is_left() == []
    assert caplog.text.count("PYJMS-UNRETURNED message ID:") == 1


def test_what_another_receive_returned_is_not_told_as_lost(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    reader = Reader(connection, Session.AUTO_ACKNOWLEDGE)
    reader.send()
    interrupt(reader, "acknowledge", monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        reader.consumer.receive_no_wait()
    assert reader.consumer.receive_no_wait() is not None
    assert reader.what_is_left() == []
    assert "PYJMS-UNRETURNED" not in caplog.text


def test_what_a_thread_is_about_to_return_is_not_told_as_lost_by_one_that_closes(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    reader = Reader(connection, Session.AUTO_ACKNOWLEDGE)
    reader.send()
    interrupt(reader, "acknowledge", monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        reader.consumer.receive_no_wait()
    provider_session = reader.session.provider_session  # type: ignore[attr-defined]  # of the runtime's
    settle = provider_session.acknowledge

    def close_and_settle(deliveries: object) -> None:
        elsewhere(reader.consumer.close)
        settle(deliveries)

    monkeypatch.setattr(provider_session, "acknowledge", close_and_settle)
    assert reader.consumer.receive_no_wait() is not None
    assert "PYJMS-UNRETURNED" not in caplog.text


@pytest.mark.parametrize("end", ["recover", "rollback", "close the consumer", "close the consumer and commit"])
def test_what_an_interrupted_receive_took_comes_again(connection: Connection, end: str) -> None:
    """In its place among what was received before it, or to other consumers."""
    reader = Reader(connection, Session.CLIENT_ACKNOWLEDGE if end == "recover" else Session.SESSION_TRANSACTED)

    def attempt(interruption: Interruption) -> None:
        texts = [reader.send(), reader.send()]
        first, second = reader.consumer.receive_no_wait(), None
        with suppress(KeyboardInterrupt), interruption():
            second = reader.consumer.receive_no_wait()
        if "close" in end:
            reader.consumer.close()
            reader.consumer = reader.session.create_consumer(reader.session.create_queue("q"))
        getattr(reader.session, "commit" if "commit" in end else "recover" if end == "recover" else "rollback")()
        expected = [] if "commit" in end and second is not None else texts[1:] if "commit" in end else texts
        found = [reader.consumer.receive_no_wait() for _ in expected]
        assert first is not None
        assert [each and each.text for each in found] == expected, interruption.where  # type: ignore[attr-defined]
        if found:
            reader.settle(found[-1])  # type: ignore[arg-type]

    assert each_interruption(attempt, *FILES) > 10
    assert reader.what_is_left() == []


def test_nobody_is_woken_for_a_receive_that_was_interrupted(connection: Connection) -> None:
    """A queue wakes one of those who wait; were that one no more there, the others would wait for ever."""
    session = connection.create_session()
    consumer = session.create_consumer(session.create_queue("nothing"))
    provider = consumer.provider  # type: ignore[attr-defined]
    assert isinstance(provider, VmConsumer)

    def attempt(interruption: Interruption) -> None:
        with suppress(KeyboardInterrupt), interruption():
            consumer.receive(1)
        assert not provider._consumer.wants_wake_ups, interruption.where

    assert each_interruption(attempt, *FILES) > 10


@pytest.mark.parametrize("receive", RECEIVES.values(), ids=RECEIVES)
def test_a_message_that_a_thread_is_about_to_return_is_not_given_back_by_one_that_closes(
    connection: Connection, receive: Callable[[MessageConsumer], Message | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it comes to somebody else, too, though its receive has returned."""
    reader = Reader(connection, Session.AUTO_ACKNOWLEDGE)
    sent = reader.send()
    provider_session = reader.session.provider_session  # type: ignore[attr-defined]  # of the runtime's
    settle = provider_session.acknowledge

    def close_and_settle(deliveries: object) -> None:
        closing = Thread(target=reader.consumer.close, daemon=True)
        closing.start()
        closing.join(10)
        settle(deliveries)

    monkeypatch.setattr(provider_session, "acknowledge", close_and_settle)
    message = receive(reader.consumer)
    assert message is not None
    assert message.text == sent  # type: ignore[attr-defined]
    monkeypatch.undo()
    other = connection.create_session()
    assert other.create_consumer(other.create_queue("q")).receive_no_wait() is None


def test_a_message_that_a_thread_is_about_to_return_is_not_returned_by_another_one(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session is for one thread (§4.4.6), and who uses it by two has each message once for all that."""
    reader = Reader(connection, Session.AUTO_ACKNOWLEDGE)
    reader.send()
    provider_session = reader.session.provider_session  # type: ignore[attr-defined]  # of the runtime's
    settle = provider_session.acknowledge
    found: list[Message | None] = []

    def receive_and_settle(deliveries: object) -> None:
        monkeypatch.undo()
        other = Thread(target=lambda: found.append(reader.consumer.receive_no_wait()), daemon=True)
        other.start()
        other.join(10)
        settle(deliveries)

    monkeypatch.setattr(provider_session, "acknowledge", receive_and_settle)
    assert reader.consumer.receive_no_wait() is not None
    assert found == [None]


@pytest.mark.parametrize("meanwhile", ["receive_no_wait", "close"])
def test_what_is_interrupted_comes_again_though_another_thread_has_used_the_consumer_meanwhile(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, meanwhile: str
) -> None:
    reader = Reader(connection, Session.AUTO_ACKNOWLEDGE)
    texts = [reader.send(), reader.send()]
    provider_session = reader.session.provider_session  # type: ignore[attr-defined]  # of the runtime's
    found: list[Message | None] = []

    def be_interrupted(deliveries: object) -> None:
        monkeypatch.undo()
        elsewhere(lambda: found.append(getattr(reader.consumer, meanwhile)()))
        raise KeyboardInterrupt

    monkeypatch.setattr(provider_session, "acknowledge", be_interrupted)
    with pytest.raises(KeyboardInterrupt):
        reader.consumer.receive_no_wait()
    if meanwhile == "close":
        reader.consumer = reader.session.create_consumer(reader.session.create_queue("q"))
    while (message := reader.consumer.receive_no_wait()) is not None:
        found.append(message)
    assert sorted(message.text for message in found if message is not None) == texts  # type: ignore[attr-defined]

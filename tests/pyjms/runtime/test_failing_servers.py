"""Application servers that fail: what a connection consumer took is neither lost nor delivered twice (JMS 1.1 §8.2)."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event

import pytest

from pyjms import JMSException, ServerSession, ServerSessionPool, Session
from pyjms.runtime.factory import ConnectionFactory
from pyjms.spi.errors import ResourceError
from pyjms.testing import Faults
from tests.pyjms.runtime.conftest import Connect
from tests.pyjms.runtime.helpers import (
    Call,
    Interrupted,
    Recorder,
    await_event,
    drain,
    eventually,
    holding,
    send_texts,
    take,
    text_of,
    within_patience,
)
from tests.pyjms.runtime.server_pool import Pool, feeding
from tests.pyjms.runtime.test_exception_listener import Problems
from tests.pyjms.runtime.wrapping import Wrapped, raising


@pytest.fixture
def sending(connect: Connect) -> Session:
    """A session of somebody else."""
    return connect().create_session()


def left_over(session: Session) -> list[str | None]:
    """Return what is on the queue."""
    return drain(session.create_consumer(session.create_queue("orders")))


class Failing(ServerSessionPool):
    """A pool that fails a number of times, then is another pool."""

    def __init__(self, inner: Pool, error: BaseException, times: int = 1) -> None:
        self.inner = inner
        self._error = error
        self._left = times

    def get_server_session(self) -> ServerSession:
        if self._left:
            self._left -= 1
            raise self._error
        return self.inner.get_server_session()


class TestServersThatFail:
    @pytest.mark.parametrize(
        "error", [JMSException("empty"), RuntimeError("broken")], ids=lambda each: type(each).__name__
    )
    def test_a_pool_that_fails_is_reported_and_nothing_is_lost(
        self, connect: Connect, sending: Session, error: BaseException
    ) -> None:
        connection, recorder, problems = connect(), Recorder(), Problems()
        connection.exception_listener = problems
        queue = sending.create_queue("orders")
        pool = Failing(Pool(connection, feeding(recorder)), error)
        connection.create_connection_consumer(queue, None, pool, 2)
        send_texts(sending, queue, "one", "two")
        (told,) = problems.wait_for(1)
        assert str(error) in str(told)
        assert recorder.texts == []
        connection.stop()
        connection.start()
        assert recorder.wait_for(2) == ["one", "two"]
        pool.inner.join()
        connection.close()
        assert left_over(sending) == []

    def test_after_a_failure_others_get_the_messages(self, connect: Connect, sending: Session) -> None:
        connection, problems = connect(), Problems()
        connection.exception_listener = problems
        queue = sending.create_queue("orders")
        connection.create_connection_consumer(
            queue, None, Failing(Pool(connection, feeding(Recorder())), JMSException("empty")), 1
        )
        send_texts(sending, queue, "one")
        problems.wait_for(1)
        consumer = sending.create_consumer(queue)
        assert text_of(take(consumer)) == "one"

    @pytest.mark.realises("BOIL-ACK-8")
    def test_a_server_session_that_does_not_start_gets_nothing_twice(self, connect: Connect, sending: Session) -> None:
        connection, recorder, problems = connect(), Recorder(), Problems()
        connection.exception_listener = problems
        queue = sending.create_queue("orders")
        pool = Pool(connection, feeding(recorder))
        session = pool.free.queue[0]
        left = [1]

        def fail_once() -> None:
            if left[0]:
                left[0] -= 1
                pool.free.put(session)
                raise RuntimeError("no thread")

        pool.each(fail_once)
        connection.create_connection_consumer(queue, None, pool, 2)
        send_texts(sending, queue, "one", "two")
        problems.wait_for(1)
        connection.stop()
        connection.start()
        assert recorder.wait_for(2) == ["one", "two"]
        pool.join()
        connection.close()
        assert recorder.texts == ["one", "two"]
        assert left_over(sending) == []

    @pytest.mark.realises("BOIL-ACK-8")
    def test_a_server_session_that_runs_though_its_start_raised(
        self, connect: Connect, sending: Session, latch: Callable[[], Event]
    ) -> None:
        """The messages are taken back from a run that waits for the connection's start."""
        connection, recorder, release, asked = connect(), Recorder(), latch(), Event()
        problems = Problems()
        connection.exception_listener = problems
        queue = sending.create_queue("orders")
        pool = Pool(connection, feeding(recorder))
        pool.hook = holding(asked, release)
        server_session = pool.free.queue[0]
        failing = [True]

        def start_and_raise() -> None:
            if failing:
                failing.clear()
                server_session.run_on_a_thread()
                raise RuntimeError("too late")

        pool.each(start_and_raise)
        connection.create_connection_consumer(queue, None, pool, 2)
        send_texts(sending, queue, "one", "two")
        await_event(asked)
        stopping = Call(connection.stop)
        stopping.is_blocked()
        release.set()
        stopping.result()
        problems.wait_for(1)
        connection.start()
        assert recorder.wait_for(2) == ["one", "two"]
        pool.join()
        connection.close()
        assert recorder.texts == ["one", "two"]
        assert left_over(sending) == []

    def test_what_a_transacted_session_gives_back_is_rolled_back_first(
        self, wrapped: Wrapped, sending: Session
    ) -> None:
        """The SPI asks for it: recover in a transacted session comes after rollback only."""
        with ConnectionFactory(wrapped.url).create_connection() as connection:
            problems, recorder = Problems(), Recorder()
            connection.exception_listener = problems
            queue = sending.create_queue("orders")
            pool = Pool(connection, feeding(recorder), transacted=True, mode=0)
            server_session = pool.free.queue[0]
            failing = [True]

            def fail_once() -> None:
                if failing:
                    failing.clear()
                    pool.free.put(server_session)
                    raise RuntimeError("no thread")

            pool.each(fail_once)
            connection.create_connection_consumer(queue, None, pool, 2)
            connection.start()
            send_texts(sending, queue, "one")
            problems.wait_for(1)
            calls = [call for call in wrapped.calls if call in ("adopt", "rollback", "recover")]
            assert calls == ["adopt", "rollback", "recover"]
            connection.stop()
            connection.start()
            assert recorder.wait_for(1) == ["one"]

    def test_a_session_without_a_listener_loses_nothing(self, connect: Connect, sending: Session) -> None:
        connection = connect()
        queue = sending.create_queue("orders")
        pool = Pool(connection, None)
        consumer = connection.create_connection_consumer(queue, None, pool, 1)
        send_texts(sending, queue, "espresso")
        eventually(lambda: pool.threads or pool.taken > 1, "the session has run")
        within_patience(consumer.close)
        pool.join()
        within_patience(connection.close)
        assert left_over(sending) == ["espresso"]

    def test_a_session_that_was_closed_loses_nothing(self, connect: Connect, sending: Session) -> None:
        connection, problems = connect(), Problems()
        connection.exception_listener = problems
        queue = sending.create_queue("orders")
        pool = Pool(connection, feeding(Recorder()))
        pool.sessions[0].close()
        connection.create_connection_consumer(queue, None, pool, 1)
        send_texts(sending, queue, "espresso")
        problems.wait_for(1)
        within_patience(connection.close)
        assert left_over(sending) == ["espresso"]

    def test_a_session_of_another_connection_loses_nothing(self, connect: Connect, sending: Session) -> None:
        connection, other, problems = connect(), connect(), Problems()
        connection.exception_listener = problems
        queue = sending.create_queue("orders")
        connection.create_connection_consumer(queue, None, Pool(other, feeding(Recorder())), 1)
        send_texts(sending, queue, "espresso")
        problems.wait_for(1)
        within_patience(connection.close)
        within_patience(other.close)
        assert left_over(sending) == ["espresso"]

    def test_what_is_no_session_loses_nothing(self, connect: Connect, sending: Session) -> None:
        class Foreign(ServerSessionPool):
            def get_server_session(self) -> ServerSession:
                return None  # type: ignore[return-value]

        connection, problems = connect(), Problems()
        connection.exception_listener = problems
        queue = sending.create_queue("orders")
        connection.create_connection_consumer(queue, None, Foreign(), 1)
        send_texts(sending, queue, "espresso")
        problems.wait_for(1)
        assert left_over(sending) == ["espresso"]

    def test_a_lost_connection_ends_it(self, jms_faults: Faults, jms_broker_url: str, connect: Connect) -> None:
        connection, recorder, problems = connect(), Recorder(), Problems()
        connection.exception_listener = problems
        queue = connection.create_session().create_queue("orders")
        pool = Pool(connection, feeding(recorder))
        connection.create_connection_consumer(queue, None, pool, 1)
        jms_faults.drop_connections()
        assert [each.error_code for each in problems.wait_for(1)] == ["PYJMS-LOST"]
        with ConnectionFactory(jms_broker_url).create_connection() as other:
            other.start()
            session = other.create_session()
            send_texts(session, queue, "espresso")
            assert left_over(session) == ["espresso"]
        within_patience(connection.close)
        assert recorder.texts == []


class TestProvidersThatFail:
    """What fails is not the application server's: its consumer goes on."""

    @pytest.mark.realises("BOIL-ACK-8")
    @pytest.mark.parametrize("owes", [False, True], ids=["given back", "pending_release"])
    def test_messages_that_cannot_be_loaded_come_again(self, wrapped: Wrapped, sending: Session, owes: bool) -> None:
        with ConnectionFactory(wrapped.url).create_connection() as connection:
            problems, recorder = Problems(), Recorder()
            connection.exception_listener = problems
            queue = sending.create_queue("orders")
            pool = Pool(connection, feeding(recorder))
            wrapped.before["adopt"] = raising(ResourceError("the connection was lost"), times=3)
            if owes:
                wrapped.before["recover"] = raising(ResourceError("the broker does not answer"))
            connection.create_connection_consumer(queue, None, pool, 2)
            connection.start()
            send_texts(sending, queue, "one", "two", "three")
            assert sorted(map(str, recorder.wait_for(3))) == ["one", "three", "two"]
            pool.join()
            assert [str(each) for each in problems.told if "stopped" in str(each)] == []

    def test_a_close_that_was_interrupted_can_be_repeated(self, wrapped: Wrapped) -> None:
        """Else nobody else could subscribe under its name while the connection is open."""
        with ConnectionFactory(wrapped.url, client_id="shop").create_connection() as connection:
            session = connection.create_session()
            topic, pool = session.create_topic("prices"), Pool(connection, feeding(Recorder()))
            consumer = connection.create_durable_connection_consumer(topic, "all", None, pool, 1)
            wrapped.before["session.close"] = raising(Interrupted())
            with pytest.raises(Interrupted):
                consumer.close()
            consumer.close()
            session.create_durable_subscriber(topic, "all").close()

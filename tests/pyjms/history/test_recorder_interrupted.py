"""The main thread is interrupted at each place of a poll through the recorder: the next poll has the message, and it is noted once."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from pyjms import ConnectionFactory, Session
from pyjms.history import record
from pyjms_provider.broker import stop_broker
from tests.provider.clients.test_interrupted_receives import FILES
from tests.provider.interruptions import Interruption, each_interruption

NAME = "recorder-interrupted"


@pytest.mark.parametrize("timeout", [-1, 1000], ids=["poll", "poll_or_wait"])
def test_the_next_receive_returns_what_an_interrupted_poll_took(tmp_path: Path, timeout: int) -> None:
    with (
        record(tmp_path, run="r") as recording,
        ConnectionFactory(f"vm://{NAME}", record=recording).create_connection() as connection,
    ):
        connection.start()
        session = connection.create_session(False, Session.CLIENT_ACKNOWLEDGE)
        queue = session.create_queue("q")
        producer, consumer = session.create_producer(queue), session.create_consumer(queue)
        sent = 0

        def attempt(interruption: Interruption) -> None:
            nonlocal sent
            sent += 1
            producer.send(session.create_text_message(f"m{sent}"))
            message = None
            with suppress(KeyboardInterrupt), interruption():
                message = consumer.receive(timeout)
            message = message or consumer.receive_no_wait()
            assert message is not None, interruption.where
            assert message.text == f"m{sent}", interruption.where  # type: ignore[attr-defined]
            message.acknowledge()

        assert each_interruption(attempt, "history/recorder.py", *FILES) > 3
        assert recording.check().findings == ()
    stop_broker(NAME)


@pytest.mark.parametrize("end", ["close", "close and commit", "rollback", "recover"])
def test_what_an_interrupted_poll_took_comes_again(tmp_path: Path, end: str) -> None:
    """In its place behind what was received before it, or to others: it stayed with the session of a consumer that was closed."""
    mode = Session.SESSION_TRANSACTED if end in ("close and commit", "rollback") else Session.CLIENT_ACKNOWLEDGE
    with (
        record(tmp_path, run="r") as recording,
        ConnectionFactory(f"vm://{NAME}", record=recording).create_connection() as connection,
    ):
        connection.start()
        other = connection.create_session()
        queue = other.create_queue("q")
        producer, others = other.create_producer(queue), other.create_consumer(queue)

        def attempt(interruption: Interruption) -> None:
            session = connection.create_session(mode == Session.SESSION_TRANSACTED, mode)
            consumer = session.create_consumer(queue)
            for text in ("first", "second"):
                producer.send(other.create_text_message(text))
            found, message = [consumer.receive_no_wait()], None
            with suppress(KeyboardInterrupt), interruption():
                message = consumer.receive_no_wait()
            if "close" in end:
                consumer.close()
                if end == "close and commit":
                    session.commit()
                elif found[0] is not None:
                    found[0].acknowledge()
                found.append(message or others.receive_no_wait())
            else:
                getattr(session, end)()
                found = [consumer.receive_no_wait(), consumer.receive_no_wait()]
            assert [each and each.text for each in found] == ["first", "second"], interruption.where  # type: ignore[attr-defined]
            session.close()
            while others.receive_no_wait() is not None:
                pass

        assert each_interruption(attempt, "history/recorder.py", *FILES) > 3
        assert recording.check().findings == ()
    stop_broker(NAME)

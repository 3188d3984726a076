"""The broker's process is killed among asynchronous sends: outcomes come in order, and no message that was told as sent is lost."""

from __future__ import annotations

from pathlib import Path
from threading import Condition
from typing import Final

import pytest

from pyjms import CompletionListener, ConnectionFactory, Message, TextMessage
from tests.provider.commands.served import BrokerProcess

PATIENCE_S: Final = 60.0
BEFORE: Final = 500
"""So many messages have been sent when the broker dies."""
IN_ALL: Final = 2000


class Outcomes(CompletionListener):
    """Keeps what it hears, by the numbers in the messages."""

    def __init__(self) -> None:
        self._changed = Condition()
        self.heard: list[int] = []
        self.sent: set[int] = set()

    def on_completion(self, message: Message) -> None:
        self._hear(message, is_sent=True)

    def on_exception(self, message: Message, exception: Exception) -> None:
        self._hear(message, is_sent=False)

    def _hear(self, message: Message, *, is_sent: bool) -> None:
        assert isinstance(message, TextMessage)
        number = int(message.text or "")
        with self._changed:
            self.heard.append(number)
            if is_sent:
                self.sent.add(number)
            self._changed.notify_all()

    def wait(self, number: int) -> None:
        """Return when there are so many outcomes."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.heard) >= number, PATIENCE_S), len(self.heard)


@pytest.mark.parametrize("scheme", ["stomp", "amqp"])
def test_what_was_told_as_sent_is_there(scheme: str, tmp_path: Path) -> None:
    store, outcomes = ("--anonymous", "--store", f"sqlite:///{tmp_path}/broker.db"), Outcomes()
    broker = BrokerProcess(tmp_path, "--listen", f"{scheme}://127.0.0.1:0", *store)
    try:
        (url,) = broker.announced(scheme)
        with ConnectionFactory(url).create_connection() as connection:
            connection.start()
            session = connection.create_session()
            queue = session.create_queue("orders")
            producer = session.create_producer(queue)
            for number in range(IN_ALL):
                producer.send(session.create_text_message(str(number)), outcomes)
                if number == BEFORE:
                    # Half of them are on their way, as far as they are not answered.
                    outcomes.wait(BEFORE // 2)
                    broker.process.kill()
                    broker.end()
                    broker = BrokerProcess(tmp_path, "--listen", url, *store)
                    broker.announced(scheme)
            producer.close()
            assert outcomes.heard == list(range(IN_ALL))
            consumer = session.create_consumer(queue)
            # The last one was sent to the new broker, in order behind all others.
            received = [-1]
            while received[-1] != IN_ALL - 1:
                message = consumer.receive(int(PATIENCE_S * 1000))
                assert isinstance(message, TextMessage)
                received.append(int(message.text or ""))
        assert outcomes.sent <= set(received)
        assert received == sorted(set(received))
    finally:
        broker.end()

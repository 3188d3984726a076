"""Clients of every kind at work on a broker that they may lose at any moment."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from threading import Condition

from pyjms import (
    Connection,
    ConnectionFactory,
    DeliveryMode,
    Destination,
    ExceptionListener,
    JMSException,
    Message,
    MessageConsumer,
    Session,
    TransactionRolledBackException,
)
from pyjms.history import Recording

QUEUES = ("one", "two", "three", "four")
_LARGE = "x" * 12_000  # three of them are more than one frame
_TAKEN = 8
PATIENCE_MS = 30_000
_NOTHING_MS = 1_000
"""Who has got nothing for so long has got all, also from a broker that does not run just then, as the machine is busy."""
_QUICKLY = "reconnect_delay_ms=1&reconnect_delay_max_ms=40&timeout_ms=30000"
_WITHOUT_HEART_BEATS = {"stomp": "heart_beat_ms=0", "amqp": "idle_timeout_ms=0"}


class Heard(ExceptionListener):
    """Counts losses that the client was told of."""

    def __init__(self) -> None:
        self.errors: list[JMSException] = []

    def on_exception(self, exception: JMSException) -> None:
        self.errors.append(exception)


class Inbox:
    """What a listener got."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._count = 0

    @property
    def count(self) -> int:
        return self._count

    def __call__(self, message: Message) -> None:
        with self._changed:
            self._count += 1
            self._changed.notify_all()

    def wait_beyond(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self._count > count, PATIENCE_MS / 1000), (
                "the listener's subscription is silently gone"
            )


class Crowd:
    """A producer; one who passes messages on in transactions; one whose transactions take several frames; one who
    acknowledges; a listener; a durable subscriber.
    """

    def __init__(self, port: int, recording: Recording, protocol: str = "stomp") -> None:
        url = f"{protocol}://127.0.0.1:{port}?{_QUICKLY}&{_WITHOUT_HEART_BEATS[protocol]}"
        factory = ConnectionFactory(url, record=recording)
        self.heard = Heard()
        self._connections = [self._connect(factory, None if number else "crowd") for number in range(3)]
        reading, passing, sending = self._connections
        self._sender = sending.create_session(False, Session.AUTO_ACKNOWLEDGE)
        self._passing = passing.create_session(True, Session.SESSION_TRANSACTED)
        self._acknowledging = reading.create_session(False, Session.CLIENT_ACKNOWLEDGE)
        listening = sending.create_session(False, Session.AUTO_ACKNOWLEDGE)
        durable = reading.create_session(False, Session.AUTO_ACKNOWLEDGE)
        self.one, self.two, self.three, self.four = (self._sender.create_queue(name) for name in QUEUES)
        self.news = self._sender.create_topic("news")
        self._producer = self._sender.create_producer(None)
        self._passer_on = self._passing.create_producer(self.two)
        self._exchanging = passing.create_session(True, Session.SESSION_TRANSACTED)
        self._exchanger = self._exchanging.create_producer(self.four)
        self._from_four = self._exchanging.create_consumer(self.four)
        self._from_one = self._passing.create_consumer(self.one)
        self._from_two = self._acknowledging.create_consumer(self.two)
        self.inbox = Inbox()
        self._listener = listening.create_consumer(self.three)
        self._listener.message_listener = self.inbox
        self._durable = durable.create_durable_subscriber(self.news, "all")
        self._numbers = 0

    def _connect(self, factory: ConnectionFactory, client_id: str | None) -> Connection:
        connection = factory.create_connection()
        if client_id is not None:
            connection.client_id = client_id
        connection.exception_listener = self.heard
        connection.start()
        return connection

    def work(self) -> None:
        """Do a little of everything; what fails because the connection is lost fails."""
        for act in (self._send_all, self._pass_on, self._acknowledge, self._read_news, self._roll_back, self._exchange):
            with suppress(JMSException):
                act()

    def check_that_all_receive(self) -> None:
        """Send to each consumer until it has received something."""
        had = self.inbox.count
        self._until_sent(self.three)
        self.inbox.wait_beyond(had)
        self._probe(self.one, self._from_one, self._commit)
        self._probe(self.two, self._from_two, None)
        self._probe(self.four, self._from_four, self._exchanging.commit)
        self._probe(self.news, self._durable, None)

    def _probe(self, destination: Destination, consumer: MessageConsumer, settle: Callable[[], None] | None) -> None:
        self._until_sent(destination)
        while True:
            try:
                message = consumer.receive(PATIENCE_MS)
            except JMSException:
                continue  # told, so not silent
            assert message is not None, f"the consumer of {destination} is silently gone"
            with suppress(JMSException):
                if settle is None:
                    message.acknowledge()
                else:
                    settle()
            return

    def _until_sent(self, destination: Destination) -> None:
        while True:
            try:
                self._send(destination)
            except JMSException:
                continue
            return

    def _send(self, destination: Destination) -> None:
        self._numbers += 1
        message = self._sender.create_text_message(f"{self._numbers}")
        self._producer.send(destination, message, DeliveryMode.PERSISTENT, 4, 0)

    def _send_all(self) -> None:
        for destination in (self.one, self.two, self.three, self.news):
            self._send(destination)

    def _pass_on(self) -> None:
        message = self._from_one.receive_no_wait()
        if message is not None:
            self._passer_on.send(message)
            self._passer_on.send(self._passing.create_text_message("and another"))
            self._commit()

    def _roll_back(self) -> None:
        if self._from_one.receive_no_wait() is not None:
            self._passing.rollback()

    def _exchange(self) -> None:
        """Take what the last rounds have left, also what may be lost, and send as much in several frames."""
        for _ in range(2):
            hasty = self._sender.create_text_message("may be lost")
            self._producer.send(self.four, hasty, DeliveryMode.NON_PERSISTENT, 4, 0)
        for _ in range(_TAKEN):
            if self._from_four.receive_no_wait() is None:
                break
        for _ in range(3):
            self._exchanger.send(self._exchanging.create_text_message(_LARGE))
        with suppress(TransactionRolledBackException):
            self._exchanging.commit()

    def _commit(self) -> None:
        with suppress(TransactionRolledBackException):
            self._passing.commit()

    def _acknowledge(self) -> None:
        message = None
        for _ in range(3):
            message = self._from_two.receive_no_wait() or message
        if message is not None:
            message.acknowledge()

    def _read_news(self) -> None:
        self._durable.receive_no_wait()

    def drain(self) -> None:
        """Take all that is left. The connections heal no more."""
        had = -1
        while had != (had := self.inbox.count):
            while self._from_one.receive(_NOTHING_MS) is not None:
                self._passing.commit()
            while self._from_four.receive(_NOTHING_MS) is not None:
                self._exchanging.commit()
            while (message := self._from_two.receive(_NOTHING_MS)) is not None:
                message.acknowledge()
            while self._durable.receive(_NOTHING_MS) is not None:
                pass

    def close(self) -> None:
        for connection in self._connections:
            connection.close()

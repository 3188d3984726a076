"""Whoever receives at the end: subscribers of the topic, and the auditor who empties the queues afterwards.

An entry counts as arrived when its acknowledgement has returned, so a message that comes again because nobody
acknowledged it is counted once.
"""

from __future__ import annotations

from contextlib import closing

from pyjms import Connection, ConnectionFactory, Message, MessageConsumer, Session
from pyjms.demo.accounting import Entry
from pyjms.demo.tally import Happening, Tally
from pyjms.demo.workers import Signals

__all__ = ["Account", "Ledger", "Subscriber"]

BATCH = 50


class Account:
    """What one collector has, in order of arrival. For one thread, until it is read at the end."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self.entries: list[Entry] = []

    def collect(self, consumer: MessageConsumer, signals: Signals, enough: int | None = None) -> None:
        """Receive until nothing more comes, acknowledging in batches; or until there is enough, which is left there.

        The session of `consumer` must be in mode CLIENT_ACKNOWLEDGE: one acknowledgement covers the whole batch.
        """
        batch: list[Message] = []
        while not signals.stop.is_set():
            message = consumer.receive(signals.idle_ms)
            if message:
                batch.append(message)
                if enough is not None and len(self.entries) + len(batch) >= enough:
                    return
            if batch and (message is None or len(batch) == BATCH):
                self._acknowledge(batch)
                batch = []
            if message is None and signals.is_over():
                return

    def _acknowledge(self, batch: list[Message]) -> None:
        batch[-1].acknowledge()
        self.entries += map(_entry, batch)
        self.tally.add(Happening.DONE, len(batch))
        self.tally.add(Happening.REDELIVERED, sum(message.jms_redelivered for message in batch))


class Subscriber:
    """An ordinary subscriber: it gets what is published while it is there. Opened by one thread, run by another."""

    def __init__(self, factory: ConnectionFactory, topic: str, selector: str | None, tally: Tally) -> None:
        self.account = Account(tally)
        self.connection = factory.create_connection()
        session = self.connection.create_session(False, Session.CLIENT_ACKNOWLEDGE)
        self._consumer = session.create_consumer(session.create_topic(topic), selector)
        self.connection.start()

    def run(self, signals: Signals) -> None:
        """Receive until nothing more comes."""
        with closing(self.connection):
            self.account.collect(self._consumer, signals)


class Ledger:
    """A durable subscriber that goes away halfway and comes back when everybody else is done.

    It leaves in the middle of a batch. What it has received and not acknowledged comes again, marked as redelivered,
    and everything published while it is away is kept for it.
    """

    NAME = "ledger"

    def __init__(self, factory: ConnectionFactory, topic: str, client_id: str, tally: Tally) -> None:
        self.account = Account(tally)
        self._factory = factory
        self._topic = topic
        self._client_id = client_id
        self.connection, _, self._consumer = self._visit()

    def run(self, signals: Signals) -> None:
        """Receive half, go away, come back, receive the rest, and end the subscription."""
        half = self.account.tally.total // 2
        with closing(self.connection):
            self.account.collect(self._consumer, signals, enough=half - half % BATCH + min(half, BATCH // 2))
        while not signals.is_over():
            signals.drain.wait(signals.idle_ms / 1000)
        connection, session, consumer = self._visit()
        with closing(connection):
            self.account.collect(consumer, signals)
            consumer.close()
            session.unsubscribe(self.NAME)

    def _visit(self) -> tuple[Connection, Session, MessageConsumer]:
        connection = self._factory.create_connection()
        connection.client_id = self._client_id
        session = connection.create_session(False, Session.CLIENT_ACKNOWLEDGE)
        consumer = session.create_durable_subscriber(session.create_topic(self._topic), self.NAME)
        connection.start()
        return connection, session, consumer


def _entry(message: Message) -> Entry:
    amount = message.get_object_property("amount")
    if isinstance(amount, bool) or not isinstance(amount, int | float):
        raise TypeError(f"the amount came as {amount!r}, which is no number")
    label = message.get_string_property("label")
    return Entry(message.get_int_property("record_id"), amount, label or "")

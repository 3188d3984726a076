"""Whoever receives at the end: subscribers of the topic, and the auditor who empties the queues afterwards.

What is received is written down in the same unit of work, so an entry is in the books exactly when its message is not
coming again.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

from pyjms import Connection, ConnectionFactory, Message, MessageConsumer, Session
from pyjms.demo.books import Pages
from pyjms.demo.names import Names
from pyjms.demo.tally import Happening, Tally
from pyjms.demo.workers import Signals, Source

__all__ = ["BATCH", "Account", "Ledger", "Subscriber"]

BATCH = 50


@dataclass(slots=True)
class Account:
    """How much one collector has. For one thread."""

    name: str
    names: Names
    tally: Tally
    count: int = 0

    def collect(self, session: Session, source: Source, signals: Signals, enough: int | None = None) -> None:
        """Receive until nothing more comes, committing in batches; or until there is enough, which is left there."""
        pages = Pages(session, self.names, self.name)
        batch: list[Message] = []
        while not signals.stop.is_set():
            nothing_more_comes = signals.is_over()
            message = source.receive(signals.idle_ms)
            if message is not None:
                batch.append(message)
                if enough is not None and self.count + len(batch) >= enough:
                    return
            if batch and (message is None or len(batch) == BATCH):
                pages.put(batch)
                session.commit()
                self._count(batch)
                batch = []
            if message is None and nothing_more_comes:
                return

    def _count(self, batch: list[Message]) -> None:
        self.count += len(batch)
        self.tally.add(Happening.DONE, len(batch))
        self.tally.add(Happening.REDELIVERED, sum(message.jms_redelivered for message in batch))


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """A connection to the topic, and what comes over it."""

    connection: Connection
    session: Session
    source: Source


class Subscriber:
    """A subscriber to the topic. Opened by one thread, run by another.

    An ordinary one gets what is published while it is there. One that is to outlive its process must be durable.
    """

    def __init__(
        self, factory: ConnectionFactory, account: Account, selector: str | None = None, *, is_durable: bool
    ) -> None:
        self.account = account
        self._factory = factory
        self._selector = selector
        self._is_durable = is_durable
        self._first: Visit | None = self._visit()

    def run(self, signals: Signals) -> None:
        """Receive until nothing more comes, and end the subscription."""
        self.stay(signals, enough=None)

    def stay(self, signals: Signals, enough: int | None) -> None:
        """Receive until there is enough, or until nothing more comes: then the subscription ends."""
        visit, self._first = self._first or self._visit(), None
        with closing(visit.connection):
            self.account.collect(visit.session, visit.source, signals, enough)
            if self._is_durable and enough is None and not signals.stop.is_set():
                visit.source.close()
                visit.session.unsubscribe(self.account.name)

    def close(self) -> None:
        """Let go of the connection, if it was not used."""
        visit, self._first = self._first, None
        if visit is not None:
            visit.connection.close()

    def _visit(self) -> Visit:
        names, name = self.account.names, self.account.name
        connection = self._factory.create_connection()
        if self._is_durable:
            connection.client_id = names.client_id(name)
        session = connection.create_session(True, Session.SESSION_TRANSACTED)
        topic = session.create_topic(names.dispatched)
        consumer: MessageConsumer = (
            session.create_durable_subscriber(topic, name, self._selector, False)
            if self._is_durable
            else session.create_consumer(topic, self._selector)
        )
        source = Source(session, consumer, names.dead_letters_for(name))
        connection.start()
        return Visit(connection=connection, session=session, source=source)


class Ledger(Subscriber):
    """A durable subscriber that goes away halfway and comes back when everybody else is done.

    It leaves in the middle of a batch. What it has received and not committed comes again, marked as redelivered, and
    everything published while it is away is kept for it.
    """

    def __init__(self, factory: ConnectionFactory, account: Account) -> None:
        super().__init__(factory, account, is_durable=True)

    def run(self, signals: Signals) -> None:
        """Receive half, go away, come back, receive the rest, and end the subscription."""
        half = self.account.tally.total // 2
        enough = half - half % BATCH + min(half, BATCH // 2)
        if self.account.count < enough:
            self.stay(signals, enough)
        else:
            self.close()  # it was away when the process ended
        while not signals.is_over():
            signals.drain.wait(signals.idle_ms / 1000)
        self.stay(signals, enough=None)

"""Works with a broker while signals interrupt its main thread at random moments, and prints as JSON what is wrong at the end.

``python program.py WORK URL SEED ITEMS [--others N] [--database URL]``, where WORK is one of `WORKS`.

A call that a signal interrupts has been done, unless the signal came before it began: then it is made again. What a program that
knows this does adds up at the end: nothing is lost, nothing is there twice.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random
from typing import Any, TypeVar

from pyjms import Connection, ConnectionFactory, JMSException, MessageConsumer, Session, TextMessage, XAResource, Xid
from pyjms.joining import joined
from pyjms.runtime.xa import XAConnectionFactory

_R = TypeVar("_R")

PATIENCE_MS = 30_000
LONGEST_PAUSE_S = 0.0006
"""A signal comes after up to so many seconds of a call."""


class Interrupt(BaseException):
    """What the handler of the signal raises, as that of Ctrl-C raises KeyboardInterrupt."""


class Lost:
    """In place of the result of a call that was done, and interrupted at its end."""


LOST = Lost()


class Signals:
    """Makes calls, and interrupts them.

    Args:
        seed: of the moments.
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.interrupted = 0
        self.early = 0
        self._is_armed = False
        signal.signal(signal.SIGALRM, self._on_signal)

    def call(self, function: Callable[[], _R], longest_pause_s: float = LONGEST_PAUSE_S) -> _R | Lost:
        """Make a call of pyjms until it was done; return `LOST` if it was interrupted then.

        Without arguments: Python looks for signals after a call with ``*arguments``, before the program has its result.
        """
        while True:
            try:
                self._is_armed = True
                signal.setitimer(signal.ITIMER_REAL, self.random.random() * longest_pause_s + 1e-6)
                result = function()
                self._is_armed = False  # no call before this, after which Python looks for signals
                return result  # noqa: TRY300 - an `else` would come after the handler's chance to raise
            except Interrupt as error:
                self._is_armed = False
                if _was_deferred(error):
                    self.interrupted += 1
                    return LOST
                self.early += 1
            finally:
                self._is_armed = False

    def have(self, function: Callable[[], _R]) -> _R:
        """Call a function that returns something until the program has got it: one that takes long is given more and more time."""
        longest_pause_s = LONGEST_PAUSE_S
        while isinstance(result := self.call(function, longest_pause_s), Lost):
            longest_pause_s *= 2
        return result

    def attempt(self, function: Callable[[], object]) -> bool:
        """Call a function of the program's, with calls of pyjms in it; return whether it came to its end."""
        try:
            self._is_armed = True
            signal.setitimer(signal.ITIMER_REAL, self.random.random() * 4 * LONGEST_PAUSE_S + 1e-6)
            function()
            self._is_armed = False
        except Interrupt:
            self._is_armed = False
            self.interrupted += 1
            return False
        return True

    def end(self) -> None:
        """Send no more signals."""
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _on_signal(self, *_: object) -> None:
        if self._is_armed:
            self._is_armed = False
            raise Interrupt


def _was_deferred(error: BaseException) -> bool:
    """Return whether the handler ran at the end of a call, which had been done by then."""
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_name == "run_handlers":
            return True
        trace = trace.tb_next
    return False


class Place:
    """A connection that is started, and what the works do with it."""

    def __init__(self, url: str, signals: Signals, items: int) -> None:
        self.url = url
        self.factory = ConnectionFactory(url)
        self.signals = signals
        self.items = items
        self.connection: Connection = signals.have(self.factory.create_connection)
        signals.call(self.connection.start)
        self.wrong: list[str] = []

    def session(self, mode: int) -> Session:
        """Return a session of this mode."""
        return self.signals.have(lambda: self.connection.create_session(mode == Session.SESSION_TRANSACTED, mode))

    def fill(self, name: str) -> list[str]:
        """Send all items to a queue; return their texts."""
        session = self.session(Session.AUTO_ACKNOWLEDGE)
        producer = self.signals.have(lambda: session.create_producer(session.create_queue(name)))
        texts = [f"{name}-{number:05}" for number in range(self.items)]
        for text in texts:
            message = session.create_text_message(text)
            self.signals.call(lambda: producer.send(message))
        self.signals.call(session.close)
        return texts

    def received(self, consumer: MessageConsumer) -> str:
        """Receive until a message was returned; return its text."""
        message = self.signals.have(lambda: consumer.receive(PATIENCE_MS))
        if not isinstance(message, TextMessage):
            raise TypeError(f"no message within {PATIENCE_MS} ms")
        return message.text or ""

    def rest(self, name: str) -> list[str]:
        """Take all out of a queue by another connection, without signals; return the texts in their order."""
        self.signals.end()
        with self.factory.create_connection() as connection:
            connection.start()
            session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
            consumer = session.create_consumer(session.create_queue(name))
            return [
                each.text or "" for each in iter(lambda: consumer.receive(300), None) if isinstance(each, TextMessage)
            ]

    def expect(self, what: str, found: object, wanted: object) -> None:
        """Note what is not as it should be."""
        if isinstance(found, list) and isinstance(wanted, list) and found != wanted:
            lost, twice = sorted(set(wanted) - set(found)), sorted(each for each in set(found) if found.count(each) > 1)
            first = next((pair for pair in zip(found, wanted, strict=False) if pair[0] != pair[1]), None)
            self.wrong.append(f"{what}: lost {lost[:9]}, twice {twice[:9]}, first out of order {first}")
        elif found != wanted:
            self.wrong.append(f"{what}: {found!r} in place of {wanted!r}")


def auto(place: Place) -> None:
    """Send, and receive with AUTO_ACKNOWLEDGE: each message once, in order."""
    texts = place.fill("auto")
    session = place.session(Session.AUTO_ACKNOWLEDGE)
    consumer = place.signals.have(lambda: session.create_consumer(session.create_queue("auto")))
    place.expect("received", [place.received(consumer) for _ in texts], texts)
    place.signals.call(place.connection.close)
    place.expect("left", place.rest("auto"), [])


def client(place: Place) -> None:
    """Acknowledge three at a time, or recover and receive them again."""
    texts = place.fill("client")
    session = place.session(Session.CLIENT_ACKNOWLEDGE)
    consumer = place.signals.have(lambda: session.create_consumer(session.create_queue("client")))
    settled: list[str] = []
    while len(settled) < len(texts):
        count = min(3, len(texts) - len(settled))
        messages = [place.signals.have(lambda: consumer.receive(PATIENCE_MS)) for _ in range(count)]
        if place.signals.random.random() < 0.3:
            place.signals.call(session.recover)
            continue
        last = messages[-1]
        assert last is not None
        place.signals.call(last.acknowledge)
        settled += [each.text or "" for each in messages if isinstance(each, TextMessage)]
    place.expect("settled", settled, texts)
    place.signals.call(place.connection.close)
    place.expect("left", place.rest("client"), [])


def transacted(place: Place) -> None:
    """Move messages from one queue to another, two in a transaction, and roll some back."""
    texts = place.fill("from")
    session = place.session(Session.SESSION_TRANSACTED)
    consumer = place.signals.have(lambda: session.create_consumer(session.create_queue("from")))
    producer = place.signals.have(lambda: session.create_producer(session.create_queue("to")))
    moved = 0
    while moved < len(texts):
        count = min(2, len(texts) - moved)
        for _ in range(count):
            message = session.create_text_message(place.received(consumer))
            place.signals.call(lambda: producer.send(message))
        if place.signals.random.random() < 0.2:
            place.signals.call(session.rollback)
            continue
        place.signals.call(session.commit)
        moved += count
    place.signals.call(place.connection.close)
    place.expect("left", place.rest("from"), [])
    place.expect("moved", place.rest("to"), texts)


def browse(place: Place) -> None:
    """Look at a queue again and again: it stays as it is, and a look that is not interrupted sees all of it."""
    texts = place.fill("looked-at")
    session = place.session(Session.AUTO_ACKNOWLEDGE)
    for _ in range(5):
        browser = place.signals.have(lambda: session.create_browser(session.create_queue("looked-at")))
        found: Iterator[Any] = browser.enumeration
        while place.signals.call(lambda: next(found, None)) is not None:
            pass
        place.signals.call(browser.close)
    place.signals.call(place.connection.close)
    place.expect("left", place.rest("looked-at"), texts)


def life(place: Place) -> None:
    """Make and close sessions, consumers, producers, temporary queues: what a closed consumer had comes to the next one."""
    texts = place.fill("life")
    for _ in range(place.items // 4):
        session = place.session(Session.CLIENT_ACKNOWLEDGE)
        consumer = place.signals.have(lambda: session.create_consumer(session.create_queue("life")))
        place.expect("first", place.received(consumer), texts[0])
        temporary = place.signals.have(session.create_temporary_queue)
        producer = place.signals.have(lambda: session.create_producer(temporary))
        place.signals.call(lambda: producer.send(session.create_text_message("to a temporary queue")))
        place.signals.call(producer.close)
        if place.signals.random.random() < 0.5:
            place.signals.call(consumer.close)
        place.signals.call(temporary.delete)
        place.signals.call(session.close)
    place.signals.call(place.connection.close)
    place.expect("left", place.rest("life"), texts)


class Branch(Xid):
    """A branch of a distributed transaction."""

    def __init__(self, number: int) -> None:
        self._number = number

    @property
    def format_id(self) -> int:
        """Ours."""
        return 7

    @property
    def global_transaction_id(self) -> bytes:
        """The number of the transaction."""
        return self._number.to_bytes(4, "big")

    @property
    def branch_qualifier(self) -> bytes:
        """The only branch."""
        return b"one"


def xa(place: Place) -> None:
    """Move messages in branches of two phases."""
    texts = place.fill("xa-from")
    factory = XAConnectionFactory(place.url)
    connection = place.signals.have(factory.create_xa_connection)
    place.signals.call(connection.start)
    session = place.signals.have(connection.create_xa_session)
    resource: XAResource = session.xa_resource
    consumer = place.signals.have(lambda: session.create_consumer(session.create_queue("xa-from")))
    producer = place.signals.have(lambda: session.create_producer(session.create_queue("xa-to")))
    moved = 0
    for number in range(10 * len(texts)):
        if moved == len(texts):
            break
        branch = Branch(number)
        place.signals.call(lambda: resource.start(branch, XAResource.TMNOFLAGS))
        message = session.create_text_message(place.received(consumer))
        place.signals.call(lambda: producer.send(message))
        place.signals.call(lambda: resource.end(branch, XAResource.TMSUCCESS))
        place.signals.call(lambda: resource.prepare(branch))
        if place.signals.random.random() < 0.2:
            place.signals.call(lambda: resource.rollback(branch))
            continue
        place.signals.call(lambda: resource.commit(branch, False))
        moved += 1
    place.expect("in doubt", len(resource.recover(XAResource.TMSTARTRSCAN | XAResource.TMENDRSCAN)), 0)
    place.signals.call(connection.close)
    place.expect("left", place.rest("xa-from"), [])
    place.expect(
        "moved", sorted(place.rest("xa-to")), texts
    )  # what is rolled back comes behind what a client had been sent


def join(place: Place, database: str) -> None:
    """Move messages, and count them in a table of the program's, in one commit."""
    import sqlalchemy

    engine = sqlalchemy.create_engine(database)
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("CREATE TABLE moved (number INTEGER)"))
        connection.execute(sqlalchemy.text("INSERT INTO moved VALUES (0)"))
    texts = place.fill("joined-from")

    def move(session: Session, consumer: MessageConsumer) -> None:
        with engine.connect() as connection, joined(session, connection):
            message = consumer.receive(300)
            if isinstance(message, TextMessage):
                connection.execute(sqlalchemy.text("UPDATE moved SET number = number + 1"))
                producer = session.create_producer(session.create_queue("joined-to"))
                producer.send(session.create_text_message(message.text))

    session = place.session(Session.SESSION_TRANSACTED)
    consumer = place.signals.have(lambda: session.create_consumer(session.create_queue("joined-from")))
    for _ in range(6 * place.items):
        with suppress(JMSException, sqlalchemy.exc.SQLAlchemyError):  # the program's half was interrupted in its driver
            place.signals.attempt(lambda: move(session, consumer))
    place.signals.end()
    place.connection.close()
    left, moved = place.rest("joined-from"), place.rest("joined-to")
    with engine.connect() as connection:
        counted = connection.execute(sqlalchemy.text("SELECT number FROM moved")).scalar_one()
    place.expect("counted", counted, len(moved))
    place.expect("left and moved", sorted(left + moved), texts)
    if not moved:
        place.wrong.append("nothing was moved")
    engine.dispose()


WORKS: dict[str, Callable[..., None]] = {
    "auto": auto,
    "client": client,
    "transacted": transacted,
    "browse": browse,
    "life": life,
    "xa": xa,
    "join": join,
}


def work_beside(url: str, number: int, is_over: threading.Event, wrong: list[str]) -> None:
    """Send and receive in a thread of its own, on queues of its own, until the work of the main thread is over."""
    with ConnectionFactory(url).create_connection() as connection:
        connection.start()
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        queue = session.create_queue(f"beside-{number}")
        producer, consumer = session.create_producer(queue), session.create_consumer(queue)
        count = 0
        while not is_over.is_set() or not count:
            count += 1
            producer.send(session.create_text_message(str(count)))
            message = consumer.receive(PATIENCE_MS)
            if not isinstance(message, TextMessage) or message.text != str(count):
                wrong.append(f"thread {number} received {message} in place of {count}")
                return


def main() -> None:
    """Run the work, and print what became of it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("work", choices=WORKS)
    parser.add_argument("url")
    parser.add_argument("seed", type=int)
    parser.add_argument("items", type=int)
    parser.add_argument("--others", type=int, default=0)
    parser.add_argument("--database", default="")
    options = parser.parse_args()
    signals, is_over = Signals(options.seed), threading.Event()
    wrong: list[str] = []
    beside = [
        threading.Thread(target=work_beside, args=(options.url, number, is_over, wrong), daemon=True)
        for number in range(options.others)
    ]
    place = Place(options.url, signals, options.items)
    for thread in beside:
        thread.start()
    WORKS[options.work](place, *([options.database] if options.work == "join" else []))
    signals.end()
    is_over.set()
    for thread in beside:
        thread.join(30)
        if thread.is_alive():
            wrong.append("a thread beside hangs")
    sys.stdout.write(
        json.dumps({"wrong": place.wrong + wrong, "interrupted": signals.interrupted, "early": signals.early}) + "\n"
    )


if __name__ == "__main__":
    main()

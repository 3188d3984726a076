"""Threads that send, receive, listen and browse at one queue, each with a connection of its own, while others close what they use."""

from __future__ import annotations

import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable
from queue import SimpleQueue
from random import Random
from threading import Event, Thread

from pyjms import (
    Connection,
    ConnectionFactory,
    JMSException,
    Message,
    MessageConsumer,
    Queue,
    Session,
    TextMessage,
)
from tests.provider.closing.books import Books, Fault

THREADS = 4
PATIENCE_S = 30
ENOUGH = 20
"""So many messages say something about the round."""
TRANSACTED = Session.SESSION_TRANSACTED
_MODES = (TRANSACTED, Session.AUTO_ACKNOWLEDGE, Session.CLIENT_ACKNOWLEDGE, Session.DUPS_OK_ACKNOWLEDGE)
_LAST = "the last one"


class ListenerFailed(Exception):
    """What a listener raises that wants its message again."""


def text_of(message: Message) -> str:
    assert isinstance(message, TextMessage)
    assert message.text is not None
    return message.text


class Crowd:
    """One round on one queue. `tells_all`: no acknowledgement is in doubt that the client is not told of."""

    def __init__(self, url: str, seed: int, *, tells_all: bool) -> None:
        self.books = Books()
        self.refusals: Counter[str] = Counter()
        """JMSExceptions, which who is closed by others must expect."""
        self.broken: list[str] = []
        """Errors that are no JMSException, and what hangs."""
        self._factory = ConnectionFactory(url)
        self._random = Random(seed)
        self._queue_name = f"closing-{seed}"
        self._is_over = Event()
        modes = {TRANSACTED, Session.CLIENT_ACKNOWLEDGE} | ({Session.AUTO_ACKNOWLEDGE} if tells_all else set())
        self.certain_modes = frozenset(modes)

    def run(self, seconds: float) -> list[Fault]:
        """Work for so long, or as much longer as a busy machine needs for enough of it; then take what is left, and judge."""
        workers = [Thread(target=self._work, args=(number,), daemon=True) for number in self._seeds()]
        for worker in workers:
            worker.start()
        pause = Event()
        pause.wait(seconds)
        for _ in range(PATIENCE_S * 10):
            if self.is_enough:
                break
            pause.wait(0.1)
        self._is_over.set()
        for worker in workers:
            worker.join(PATIENCE_S)
        if any(worker.is_alive() for worker in workers):
            self.broken.append("a thread hangs\n" + _stacks())
            return []
        return self.books.judge(self._drain())

    @property
    def is_enough(self) -> bool:
        """Whether messages came and went, and somebody was closed in the midst of it."""
        return len(self.books.sent) > ENOUGH and bool(self.books.settled and self.refusals)

    def _seeds(self) -> list[int]:
        return [self._random.randrange(10**9) for _ in range(THREADS)]

    def _drain(self) -> list[str]:
        """Take all, up to a message of the lowest priority: what was given back comes before it."""
        left: list[str] = []
        with self._factory.create_connection() as connection:
            connection.start()
            session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
            queue = session.create_queue(self._queue_name)
            producer = session.create_producer(queue)
            producer.priority = 0
            producer.send(session.create_text_message(_LAST))
            consumer = session.create_consumer(queue)
            while (message := consumer.receive(PATIENCE_S * 1000)) is not None and text_of(message) != _LAST:
                left.append(text_of(message))
            assert message is not None
            while (message := consumer.receive_no_wait()) is not None:
                left.append(text_of(message))
        return left

    def guard(self, work: Callable[[], None]) -> None:
        """Do `work`, in which others close what it uses."""
        try:
            work()
        except JMSException as error:
            self.refusals[type(error).__name__] += 1
        except BaseException:
            self.broken.append(traceback.format_exc())

    def _work(self, seed: int) -> None:
        random, number = Random(seed), 0
        while not self._is_over.is_set():
            number += 1
            self.guard(Visit(self, f"{seed}.{number}", random).make)

    def connect(self) -> Connection:
        return self._factory.create_connection()

    def queue(self, session: Session) -> Queue:
        return session.create_queue(self._queue_name)


class Visit:
    """A connection with a session that is used for a while in one way, and closed in the midst of it."""

    def __init__(self, crowd: Crowd, name: str, random: Random) -> None:
        self._crowd = crowd
        self._books = crowd.books
        self._name = name
        self._random = random
        self._sent: list[str] = []
        """In the transaction that is open."""
        self._got: list[str] = []
        """Received, and not acknowledged yet."""
        self._number = 0

    def make(self) -> None:
        """Connect, work, close."""
        connection = self._crowd.connect()
        try:
            connection.start()
            self._visit(connection)
        finally:
            connection.close()

    def _visit(self, connection: Connection) -> None:
        self._mode = self._random.choice(_MODES)
        self._session = connection.create_session(self._mode == TRANSACTED, self._mode)
        self._queue = self._crowd.queue(self._session)
        work = self._random.choice(
            [self._send, self._receive, self._do_both, self._do_both, self._listen, self._browse]
        )
        consumer = None
        if work in (self._receive, self._do_both):
            consumer = self._consumer()
        closer = None
        if self._random.random() < 0.6:
            closer = Thread(target=self._close, args=(connection, consumer, Random(self._random.random())), daemon=True)
            closer.start()
        try:
            work(consumer)
        finally:
            if closer is not None:
                closer.join(PATIENCE_S)
                if closer.is_alive():
                    self._crowd.broken.append("a close hangs\n" + _stacks())

    def _consumer(self) -> MessageConsumer:
        selector = "shade = 'dark'" if self._random.random() < 0.2 else None
        return self._session.create_consumer(self._queue, selector)

    def _close(self, connection: Connection, consumer: MessageConsumer | None, random: Random) -> None:
        """Close something, or stop the connection for a moment, in a thread of its own."""
        Event().wait(random.random() * 0.02)
        ends = [connection.close, self._session.close, connection.stop]
        if consumer is not None:
            ends.append(consumer.close)
        end = random.choice(ends)
        self._crowd.guard(end)
        if end == connection.stop:
            Event().wait(0.005)
            self._crowd.guard(connection.start)

    # What it is used for

    def _send(self, _: MessageConsumer | None) -> None:
        for _turn in range(self._random.randrange(1, 12)):
            self._send_one()
            self._end_some()

    def _receive(self, consumer: MessageConsumer | None) -> None:
        for _turn in range(self._random.randrange(1, 12)):
            self._receive_one(consumer)
            self._end_some()

    def _do_both(self, consumer: MessageConsumer | None) -> None:
        for _turn in range(self._random.randrange(1, 12)):
            self._send_one()
            self._receive_one(consumer)
            self._end_some()

    def _browse(self, _: MessageConsumer | None) -> None:
        for message in self._session.create_browser(self._queue):
            text_of(message)

    def _listen(self, _: MessageConsumer | None) -> None:
        if self._mode == Session.CLIENT_ACKNOWLEDGE and self._random.random() < 0.5:
            self._listen_for_another()
            return
        random = Random(self._random.random())
        self._consumer().message_listener = lambda message: self._heard(message, random)
        Event().wait(self._random.random() * 0.02)

    def _listen_for_another(self) -> None:
        """Listen, and hand all over to another thread, which acknowledges while the next ones are read."""
        heard: SimpleQueue[Message | None] = SimpleQueue()
        worker = Thread(target=self._crowd.guard, args=(lambda: self._acknowledge_all(heard),), daemon=True)
        worker.start()
        try:
            self._consumer().message_listener = lambda message: self._hand_over(message, heard)
            Event().wait(self._random.random() * 0.02)
        finally:
            heard.put(None)
            worker.join(PATIENCE_S)
            if worker.is_alive():
                self._crowd.broken.append("an acknowledgement hangs\n" + _stacks())

    def _hand_over(self, message: Message, heard: SimpleQueue[Message | None]) -> None:
        self._note(message)
        self._books.settle_perhaps([text_of(message)])  # the one that is under way may cover it already
        heard.put(message)

    def _acknowledge_all(self, heard: SimpleQueue[Message | None]) -> None:
        while (message := heard.get()) is not None:
            got, self._got = self._got, []
            message.acknowledge()
            self._books.settle(got)

    def _heard(self, message: Message, random: Random) -> None:
        """Take a message as a listener, and acknowledge, recover, or fail."""
        self._note(message)
        if self._mode in (TRANSACTED, Session.CLIENT_ACKNOWLEDGE):
            self._crowd.guard(lambda: self._end_one(random.random(), message))
        else:  # it is acknowledged after the listener, if that does not raise
            self._books.settle_perhaps(self._got)
            self._got = []
            if random.random() < 0.1:
                self._session.recover()
        if random.random() < 0.05:
            raise ListenerFailed

    def _end_one(self, chance: float, message: Message) -> None:
        if self._mode == TRANSACTED:
            self._commit_or_roll_back(is_commit=chance < 0.7)
        elif chance < 0.7:
            self._acknowledge(message)
        elif chance < 0.9:
            self._recover()

    # Steps

    def _send_one(self) -> None:
        self._number += 1
        text = f"{self._name}.{self._number}"
        message = self._session.create_text_message(text)
        message.set_string_property("shade", self._random.choice(["dark", "light"]))
        self._books.offer(text)
        self._session.create_producer(self._queue).send(message)
        if self._mode == TRANSACTED:
            self._sent.append(text)
        else:
            self._books.confirm([text])

    def _receive_one(self, consumer: MessageConsumer | None) -> None:
        assert consumer is not None
        message = consumer.receive(self._random.choice([1, 5, 10]))
        if message is None:
            return
        self._note(message)
        if self._mode == Session.CLIENT_ACKNOWLEDGE:
            chance = self._random.random()
            if chance < 0.5:
                self._acknowledge(message)
            elif chance < 0.65:
                self._recover()
        elif self._mode in self._crowd.certain_modes and self._mode != TRANSACTED:
            self._books.settle(self._got)
            self._got = []
        elif self._mode != TRANSACTED:
            self._books.settle_perhaps(self._got)
            self._got = []

    def _end_some(self) -> None:
        if self._mode == TRANSACTED and self._random.random() < 0.4:
            self._commit_or_roll_back(is_commit=self._random.random() < 0.7)

    def _note(self, message: Message) -> None:
        text = text_of(message)
        self._books.receive(text, is_flagged=message.jms_redelivered, by=f"{self._name} in mode {self._mode}")
        self._got.append(text)

    def _acknowledge(self, message: Message) -> None:
        self._books.settle_perhaps(self._got)
        message.acknowledge()
        self._books.settle(self._got)
        self._got = []

    def _recover(self) -> None:
        self._books.give_back(self._got)
        self._session.recover()
        self._got = []

    def _commit_or_roll_back(self, *, is_commit: bool) -> None:
        if is_commit:
            self._books.settle_perhaps(self._got)
            self._session.commit()
            self._books.confirm(self._sent)
            self._books.settle(self._got)
        else:
            self._books.give_back(self._got)
            self._session.rollback()
            self._books.withdraw(self._sent)
        self._sent, self._got = [], []


def _stacks() -> str:
    """Tell where each thread stands."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = sys._current_frames().items()
    return "\n".join(f"{names.get(ident)}\n{''.join(traceback.format_stack(frame))}" for ident, frame in frames)

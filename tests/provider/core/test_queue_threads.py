"""Queues under real threads: no message lost, none doubled, no wake-up missed."""

from __future__ import annotations

from threading import Event, Thread

import pytest

from pyjms_provider.core.message.message_state import MessageState
from tests.provider.helpers import QueueWorld, Reader, text_of

PATIENCE_S = 20


class Worker(Thread):
    """A client that sleeps until woken, settles what it pulls, and now and then gives back or loses interest."""

    def __init__(self, work: Work, name: str, selector: str | None, priority: int) -> None:
        super().__init__(name=name, daemon=True)
        self.work = work
        self.woken = Event()
        self.texts: list[str] = []
        self.missed = False
        self.pulls = 0
        session = work.world.session(name)
        self.reader = Reader(name, session, work.world.queue, selector, priority=priority, acquires=True)
        self.reader.target.on_ready = self.woken.set

    def run(self) -> None:
        consumer = self.reader.consumer
        while not self.work.done.is_set():
            consumer.set_interested(True)
            if not self.woken.wait(PATIENCE_S):
                self.missed = True
                self.work.finish()
            self.woken.clear()
            self._pull_all()
            self.work.finish_if_complete()
        self.reader.session.close()

    def _pull_all(self) -> None:
        reader = self.reader
        while (delivery := reader.pull()) is not None:
            self.pulls += 1
            if self.pulls % 7 == 0:
                reader.give_back(delivery)
                continue
            assert reader.settle(delivery)
            self.texts.append(text_of(delivery))
            if self.pulls % 5 == 0:
                reader.consumer.set_interested(False)
                reader.consumer.set_interested(True)


class Work:
    """A number of messages, sent by several threads, to be worked off by several workers."""

    def __init__(self, total: int) -> None:
        self.world = QueueWorld()
        self.total = total
        self.done = Event()
        self.workers: list[Worker] = []

    def send(self, sender: int, senders: int) -> None:
        for number in range(sender, self.total, senders):
            unit = self.world.unit() if number % 4 == 0 else None
            self.world.send(str(number), unit=unit, priority=number % 3, properties={"n": number % 2})
            if unit is not None:
                unit.commit(0)

    def finish_if_complete(self) -> None:
        if sum(len(worker.texts) for worker in self.workers) == self.total:
            self.finish()

    def finish(self) -> None:
        self.done.set()
        for worker in self.workers:
            worker.woken.set()

    def run(self, senders: int) -> None:
        threads = [Thread(target=self.send, args=(sender, senders), daemon=True) for sender in range(senders)]
        for thread in [*self.workers, *threads]:
            thread.start()
        for thread in [*self.workers, *threads]:
            thread.join(PATIENCE_S * 2)
            assert not thread.is_alive()


@pytest.mark.realises("QCM-11", "BJ-Q-4")
@pytest.mark.parametrize(
    ("selectors", "priorities"),
    [
        ([None, None, None, None], [0, 0, 0, 0]),
        (["n = 0", "n = 1", "n = 0", "n = 1"], [0, 0, 0, 0]),
        ([None, "n = 0", "n = 1", None], [0, 1, 1, 2]),
    ],
    ids=["alike", "selectors", "priorities"],
)
def test_nothing_is_lost_doubled_or_forgotten(selectors: list[str | None], priorities: list[int]) -> None:
    work = Work(total=600)
    work.workers += [
        Worker(work, str(number), selector, priority)
        for number, (selector, priority) in enumerate(zip(selectors, priorities, strict=True))
    ]
    work.run(senders=3)
    assert not any(worker.missed for worker in work.workers), "a wake-up was missed"
    texts = [text for worker in work.workers for text in worker.texts]
    assert sorted(texts, key=int) == [str(number) for number in range(work.total)]
    assert len(work.world.store) == 0


def test_closing_sessions_while_they_pull_returns_what_they_hold() -> None:
    world = QueueWorld()
    total = 300
    for number in range(total):
        world.send(str(number))
    settled: list[str] = []

    def work(reader: Reader) -> None:
        while (delivery := reader.pull()) is not None:
            if reader.settle(delivery):
                settled.append(text_of(delivery))

    for number in range(40):
        reader = world.reader(str(number))
        thread = Thread(target=work, args=(reader,))
        thread.start()
        reader.session.close()
        thread.join()
    assert world.queue.count(MessageState.DELIVERED) == 0
    settled += world.reader("last").texts()
    assert sorted(settled, key=int) == [str(number) for number in range(total)]

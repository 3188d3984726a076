"""What the store of messages holds, whatever others do while messages are written to make room."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import pytest

from pyjms.spi.envelope import Envelope
from pyjms.spi.errors import ResourceError
from pyjms_provider.core.journal.journal import Changes
from pyjms_provider.core.message.reference import MessageReference, ReferenceId
from pyjms_provider.core.store import NotInMemoryError, PagingMessageStore
from pyjms_provider.stores.volatile import Medium, VolatileJournal
from tests.provider.helpers import make_envelope

LIMIT = 12_000
STEPS = 300


class Paper:
    """A store with a journal that lets others act while it pages out."""

    def __init__(self) -> None:
        self.meanwhile: Callable[[], None] | None = None
        self.journal = VolatileJournal(Medium(), self._tap)
        self.journal.recover(lambda _: None)
        self.store = PagingMessageStore("test", self.journal, last_id=ReferenceId(0), memory_bytes=LIMIT)
        self.all: list[MessageReference] = []

    def _tap(self, point: str, changes: Changes) -> None:
        if point == "before page out" and self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()

    def come(self, text: str, holders: int = 2, *, persistent: bool = False) -> MessageReference:
        reference = self.store.store(make_envelope(text, persistent=persistent), None)
        if persistent:
            reference.journaled = True
        self.store.acquire(reference, holders - 1)
        self.all.append(reference)
        return reference

    def check(self, held: Sequence[MessageReference]) -> None:
        """Hold the store to what must always be so; nobody is at work in it."""
        store = self.store
        in_memory = [each for each in held if self.is_in_memory(each)]
        assert store.count_in_memory == len(in_memory)
        assert store.bytes_in_memory == sum(each.size for each in in_memory)
        assert len(store) == len(held)
        known = {each.id for each in held}
        assert not self.journal.read([each.id for each in self.all if each.id not in known])

    def is_in_memory(self, reference: MessageReference) -> bool:
        try:
            self.store.retrieve(reference)
        except (KeyError, NotInMemoryError):
            return False
        return True


@pytest.mark.realises("JBM-3.1.c")
def test_a_queue_of_a_topic_may_take_a_message_while_another_thread_pages_it_out() -> None:
    paper = Paper()
    first = paper.come("x" * LIMIT)
    paper.store.publish(first)  # by one subscription's queue
    paper.meanwhile = lambda: paper.store.publish(first)  # by the next one's
    paper.store.relieve()
    paper.check([first])
    second = paper.come("y" * LIMIT)
    paper.store.publish(second)
    paper.store.relieve()
    paper.check([first, second])
    assert paper.store.count_in_memory == 0
    assert [_text(paper.store.fetch(each)) for each in (first, second)] == ["x" * LIMIT, "y" * LIMIT]


def test_a_message_may_come_back_while_another_thread_drops_it_with_others() -> None:
    paper = Paper()
    known = paper.come("x" * LIMIT)
    paper.store.publish(known)
    paper.store.relieve()
    paper.store.load([known])
    other = paper.come("y" * LIMIT)
    paper.store.publish(other)

    def meanwhile() -> None:
        paper.store.publish(known)
        paper.store.leave([known])
        paper.store.load([known])

    paper.meanwhile = meanwhile
    paper.store.relieve()
    paper.check([known, other])
    paper.store.relieve()
    assert _text(paper.store.fetch(known)) == "x" * LIMIT


class Crowd:
    """Several who take, want, and let go of messages, at random, some of it while messages are being written."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.paper = Paper()
        self.texts: dict[MessageReference, str] = {}
        self.numbers = 0

    @property
    def held(self) -> list[MessageReference]:
        return [each for each in self.texts if each.holders]

    def run(self) -> None:
        for _ in range(STEPS):
            self.paper.meanwhile = self.act_at_once
            self.step()
            self.paper.meanwhile = None
            self.paper.check(self.held)
        for each in self.held:
            envelope = self.paper.store.fetch(each)
            assert _text(envelope) == self.texts[each]
        for each in self.held:
            self.paper.store.remove(each)
        self.paper.check([])
        assert self.paper.store.bytes_in_memory == 0

    def step(self) -> None:
        self.random.choices([self.act_at_once, self.paper.store.relieve, self.load, self.refuse], [6, 4, 2, 1])[0]()

    def act_at_once(self) -> None:
        """Do some of what others may do while a message is being written."""
        acts = [self.come, self.publish, self.leave, self.let_go, self.load]
        for act in self.random.choices(acts, [3, 6, 1, 2, 2], k=self.random.randrange(1, 8)):
            act()

    def some(self) -> MessageReference | None:
        return self.random.choice(self.held) if self.held else None

    def come(self) -> None:
        self.numbers += 1
        text = f"{self.numbers} " + "x" * self.random.randrange(3_000)
        reference = self.paper.come(text, holders=self.random.randrange(1, 4))
        self.texts[reference] = text

    def publish(self) -> None:
        if (reference := self.some()) is not None:
            self.paper.store.publish(reference)

    def leave(self) -> None:
        if (reference := self.some()) is not None:
            self.paper.store.leave([reference], are_coming=self.random.random() < 0.5)

    def let_go(self) -> None:
        if (reference := self.some()) is not None:
            self.paper.store.release(reference)

    def load(self) -> None:
        if (reference := self.some()) is not None:
            self.paper.store.load([reference])

    def refuse(self) -> None:
        """Have the disk be full once, after others have acted."""

        def full() -> None:
            self.act_at_once()
            raise ResourceError("no space on the disk")

        self.paper.meanwhile = full
        try:
            self.paper.store.relieve()
        except ResourceError:
            assert self.paper.meanwhile is None


@pytest.mark.realises("JBM-3.1.c", "BJ-MSG-4")
@pytest.mark.parametrize("seed", range(60))
def test_what_may_leave_memory_is_in_memory_whatever_others_do_meanwhile(seed: int) -> None:
    Crowd(seed).run()


def _text(envelope: Envelope | None) -> str:
    assert envelope is not None, "it is held, so it can be had"
    return str(envelope.body)

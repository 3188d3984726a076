"""Consumers with selectors on a broker whose messages are on the disk alone get what they would get from one that has all in memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from pyjms_provider.protocols.profile import commands
from tests.provider.helpers import ORDERS, make_envelope
from tests.provider.protocols.stomp.server.bench import Bench, bench_on
from tests.provider.protocols.stomp.server.pyjms_client import PyjmsClient, ids

COLOURS = ("red", "blue")
ON_DISK = "&memory=1&synchronous=off"
colours = st.sampled_from(COLOURS)
credits = st.integers(1, 3)


class Shop:
    """A broker, a sender, and a consumer for each colour, that have no credit yet."""

    def __init__(self, bench: Bench) -> None:
        self.sender = PyjmsClient(bench)
        self.sender.session()
        self.consumers = {colour: PyjmsClient(bench) for colour in COLOURS}
        self.held: dict[str, deque[Any]] = {colour: deque() for colour in COLOURS}
        self.texts: dict[str, list[str]] = {colour: [] for colour in COLOURS}
        for colour in COLOURS:
            self.consumers[colour].session()
            self.begin(colour)

    def begin(self, colour: str) -> None:
        selector = f"colour = '{colour}'"
        self.consumers[colour].do(commands.Subscribe(session="a", id="c", address=ORDERS, selector=selector))

    # What happens

    def send(self, colour: str, priority: int, text: str) -> None:
        self.sender.send(make_envelope(text, persistent=True, priority=priority, properties={"colour": colour}))

    def credit(self, colour: str, credit: int) -> None:
        self.consumers[colour].tell(commands.Credit(subscription="c", credit=credit))

    def revoke(self, colour: str) -> None:
        self.consumers[colour].do(commands.Credit(subscription="c", revoke=True))

    def settle_oldest(self, colour: str) -> None:
        if self.held[colour]:
            self.consumers[colour].do(commands.Acknowledge(session="a", ids=ids(self.held[colour].popleft())))

    def give_back(self, colour: str) -> None:
        if self.held[colour]:
            self.consumers[colour].do(commands.GiveBack(session="a", ids=ids(self.held[colour].pop())))

    def come_again(self, colour: str) -> None:
        self.consumers[colour].do(commands.Unsubscribe(id="c"))
        self.begin(colour)

    def look(self) -> None:
        """Let all come that can: one who looks in vain may wake another."""
        while any(consumer.client.transport.is_awake for consumer in self.consumers.values()):
            for consumer in self.consumers.values():
                consumer.client.settle()
        for colour, consumer in self.consumers.items():
            frames = consumer.messages()
            self.held[colour] += frames
            self.texts[colour] += [bytes(frame.body).decode() for frame in frames]


@contextmanager
def shop_on_disk() -> Iterator[Shop]:
    with TemporaryDirectory() as directory:
        bench = bench_on(Path(directory), ON_DISK)
        yield Shop(bench)
        bench.close()


@contextmanager
def shop_in_memory() -> Iterator[Shop]:
    bench = Bench()
    yield Shop(bench)
    bench.close()


events = st.one_of(
    st.tuples(st.just("send"), colours, st.integers(3, 5)),
    st.tuples(st.just("send"), colours, st.integers(3, 5)),
    st.tuples(st.just("credit"), colours, credits),
    *(st.tuples(st.just(name), colours) for name in ("revoke", "settle_oldest", "give_back", "come_again")),
)


@settings(max_examples=12)
@given(st.lists(events, min_size=5, max_size=25))
def test_the_same_comes_in_the_same_order(happens: list[tuple[Any, ...]]) -> None:
    with shop_on_disk() as disk, shop_in_memory() as memory:
        first = [("send", colour, priority) for priority in (4, 5, 3) for colour in COLOURS]
        for number, (name, *arguments) in enumerate(first + happens):
            for shop in (disk, memory):
                more = [str(number)] if name == "send" else []
                getattr(shop, name)(*arguments, *more)
                shop.look()
            assert disk.texts == memory.texts


class Lagging:
    """What does the jobs of one connection when a test says so: first the work, some time later what is told of it."""

    def __init__(self, consumer: PyjmsClient) -> None:
        self._transport = consumer.client.transport
        self._work = self._transport.work
        self._asked: deque[tuple[Callable[[], Any], Callable[[Any, None], None]]] = deque()
        self._worked: deque[Callable[[], None]] = deque()
        self._transport.work = self.add  # type: ignore[method-assign]

    def add(self, job: Callable[[], Any], done: Callable[[Any, None], None], **_: object) -> None:
        self._asked.append((job, done))

    def work(self) -> None:
        if self._asked:
            job, done = self._asked.popleft()
            self._worked.append(partial(done, job(), None))

    def tell(self) -> None:
        if self._worked:
            self._worked.popleft()()

    def ends(self) -> None:
        """Do what is left, and have jobs done as they come."""
        self._transport.work = self._work  # type: ignore[method-assign]
        while self._asked or self._worked:
            self.work()
            self.tell()


lagging_events = st.one_of(
    st.tuples(st.just("send"), colours),
    st.tuples(st.just("credit"), colours, credits),
    *(st.tuples(st.just(name), colours) for name in ("revoke", "stop", "start", "work", "tell", "work", "tell")),
)


COME_BACK_OUT_OF_REACH = [
    *(("send", "red"), ("send", "red")),
    *(("credit", "red", 2), ("credit", "blue", 1), ("revoke", "blue")),
    *(("work", "red"), ("work", "blue"), ("tell", "red"), ("revoke", "red"), ("tell", "blue")),
]
"""A message of each colour goes back behind the place up to where a selector has looked, and memory has no room for both."""


@settings(max_examples=15)
@example(COME_BACK_OUT_OF_REACH)
@given(st.lists(lagging_events, min_size=10, max_size=40))
def test_whatever_happens_during_a_search_nothing_is_lost_or_overtaken(happens: list[tuple[Any, ...]]) -> None:
    with shop_on_disk() as shop:
        lags = {colour: Lagging(consumer) for colour, consumer in shop.consumers.items()}
        sent: dict[str, list[str]] = {colour: [] for colour in COLOURS}
        first = [("send", colour) for colour in COLOURS * 2]
        for number, (name, colour, *arguments) in enumerate(first + happens):
            consumer = shop.consumers[colour]
            match name:
                case "send":
                    shop.send(colour, 4, str(number))
                    sent[colour].append(str(number))
                case "credit":
                    shop.credit(colour, *arguments)
                case "revoke":
                    consumer.tell(commands.Credit(subscription="c", revoke=True))
                case "stop":
                    consumer.tell(commands.Stop())
                case "start":
                    consumer.tell(commands.Start())
                case "work":
                    lags[colour].work()
                case "tell":
                    lags[colour].tell()
            for each in shop.consumers.values():
                if each.client.transport.is_awake:
                    each.client.pull()
        for lag, consumer in zip(lags.values(), shop.consumers.values(), strict=True):
            lag.ends()
            consumer.tell(commands.Start())
            consumer.tell(commands.Credit(subscription="c", credit=100))
        shop.look()
        assert shop.texts == sent

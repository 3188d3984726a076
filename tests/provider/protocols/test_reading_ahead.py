"""A message that a worker fetches for a consumer, which closes meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread
from typing import Any, cast

from pyjms.spi.delivery import ELSEWHERE, Delivery
from pyjms.spi.provider import ProviderConsumer, ProviderSession
from pyjms_provider.protocols.reading_ahead import Engine, Fetching
from tests.provider.helpers import make_envelope

PATIENCE_S = 20.0


class Transport:
    """Has the test run the work, on a thread of its choice."""

    def __init__(self) -> None:
        self.jobs: list[Callable[[], None]] = []

    def work(self, job: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        self.jobs.append(lambda: done(job(), None))


class World:
    """An engine, a session that notes what it gets back, and a consumer whose search lasts until it is told to end."""

    is_over = False

    def __init__(self) -> None:
        self.transport = Transport()
        self.given_back: list[Delivery] = []
        self.is_searching, self.may_find = Event(), Event()
        self.delivery = Delivery(make_envelope("found"), 1, False, None)
        self.told: list[str] = []
        self.fetching = Fetching(
            cast("Engine", self),
            cast("ProviderSession", self),
            ready=lambda: self.told.append("ready"),
            lost=lambda: self.told.append("lost"),
            none=lambda: self.told.append("none"),
            failed=lambda error: self.told.append(str(error)),
        )

    def give_back_unseen(self, deliveries: list[Delivery]) -> None:
        self.given_back += deliveries

    def poll_or_wait(self) -> Delivery:
        self.is_searching.set()
        assert self.may_find.wait(PATIENCE_S)
        return self.delivery

    def begin(self) -> None:
        self.fetching.begin(ELSEWHERE, cast("ProviderConsumer", self))


def test_what_is_found_after_the_drop_is_back_before_the_end_is_awaited() -> None:
    world = World()
    world.begin()
    worker = Thread(target=world.transport.jobs.pop())
    worker.start()
    assert world.is_searching.wait(PATIENCE_S)
    assert world.fetching.drop()
    world.may_find.set()
    world.fetching.await_end()
    assert world.given_back == [world.delivery], (
        "a session that is closed now holds nothing that would count as delivered"
    )
    worker.join()
    assert world.told == ["ready"]
    assert not world.fetching.is_busy
    assert world.fetching.take() is None


def test_what_was_found_before_the_drop_is_given_back_by_it() -> None:
    world = World()
    world.may_find.set()
    world.begin()
    world.transport.jobs.pop()()
    assert world.fetching.drop()
    assert world.given_back == [world.delivery]
    world.fetching.await_end()


def test_a_thread_that_may_not_wait_has_a_worker_give_back_what_was_found() -> None:
    world = World()
    world.may_find.set()
    world.begin()
    world.transport.jobs.pop()()
    assert world.fetching.drop(may_wait=False)
    assert world.given_back == [], "another process would have to be asked"
    ending = Thread(target=world.fetching.await_end)
    ending.start()
    world.transport.jobs.pop()()
    ending.join(PATIENCE_S)
    assert not ending.is_alive()
    assert world.given_back == [world.delivery]


def test_a_search_that_has_not_begun_finds_nothing() -> None:
    world = World()
    world.begin()
    world.fetching.drop()
    world.fetching.await_end()
    world.transport.jobs.pop()()
    assert not world.is_searching.is_set()
    assert world.given_back == []


def test_the_thread_that_searches_does_not_wait_for_itself() -> None:
    world = World()

    def close_and_find() -> Delivery:
        world.fetching.drop()
        world.fetching.await_end()
        return world.delivery

    world.poll_or_wait = close_and_find  # type: ignore[method-assign]
    world.begin()
    worker = Thread(target=world.transport.jobs.pop(), daemon=True)
    worker.start()
    worker.join(PATIENCE_S)
    assert not worker.is_alive()
    assert world.given_back == [world.delivery]

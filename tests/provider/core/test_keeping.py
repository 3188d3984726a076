"""What is half done holds off the end of the journal, and nothing begins after it."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator
from threading import Event, Thread
from typing import Any

import pytest

from pyjms.spi.errors import ClosedError
from pyjms_provider.core.journal.storage_manager import Keeper
from tests.pyjms.runtime.helpers import Call

NOBODY: Any = None


@pytest.fixture
def keeper() -> Keeper:
    return Keeper(NOBODY, NOBODY, NOBODY)


@pytest.fixture
def _switching_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_the_end_waits_for_what_was_begun_and_lets_nothing_new_begin(keeper: Keeper) -> None:
    def end() -> Call[None]:
        ending = Call(keeper.end)
        assert ending.is_blocked()
        with pytest.raises(ClosedError, match="being stopped"):
            keeper.work(never)
        return ending

    def outer() -> Call[None]:
        ending = keeper.work(end)
        assert ending.is_blocked()
        return ending

    keeper.work(outer).result()
    with pytest.raises(ClosedError):
        keeper.work(never)


def test_nothing_to_wait_for_is_not_waited_for(keeper: Keeper) -> None:
    assert keeper.work(lambda: "done") == "done"
    keeper.end()


@pytest.mark.usefixtures("_switching_often")
def test_whoever_comes_at_the_moment_of_the_end_is_waited_for_or_refused() -> None:
    for _ in range(50):
        keeper, working, refused = Keeper(NOBODY, NOBODY, NOBODY), deque[None](), deque[None]()
        begun = Event()

        def act(working: deque[None] = working, begun: Event = begun) -> None:
            working.append(None)
            begun.set()
            working.pop()

        def work(keeper: Keeper = keeper, refused: deque[None] = refused, act: Callable[[], None] = act) -> None:
            try:
                while True:
                    keeper.work(act)
            except ClosedError:
                refused.append(None)

        threads = [Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        assert begun.wait(20)
        keeper.end()
        assert not working
        for thread in threads:
            thread.join(20)
        assert len(refused) == 4


def test_who_finds_the_end_begun_after_its_entry_was_made_is_refused(keeper: Keeper) -> None:
    class EndsJustBefore(deque[None]):
        def append(self, entry: None, /) -> None:
            keeper.end()  # nobody works, so it does not wait
            super().append(entry)

    work = keeper._work
    work.entries = EndsJustBefore()
    with pytest.raises(ClosedError):
        keeper.work(never)
    assert not work.entries


def never() -> None:
    raise AssertionError("it has begun")

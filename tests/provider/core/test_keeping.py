"""What is half done holds off the end of the journal, and nothing begins after it."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from threading import Event, Thread
from typing import Any

import pytest

from pyjms.spi.errors import ClosedError
from pyjms_provider.core.keeping import Keeper
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
    with keeper.work():
        with keeper.work():
            ending = Call(keeper.end)
            assert ending.is_blocked()
            with pytest.raises(ClosedError, match="being stopped"), keeper.work():
                raise AssertionError("it has begun")
        assert ending.is_blocked()
    ending.result()
    with pytest.raises(ClosedError), keeper.work():
        raise AssertionError("it has begun")


def test_nothing_to_wait_for_is_not_waited_for(keeper: Keeper) -> None:
    with keeper.work():
        pass
    keeper.end()


@pytest.mark.usefixtures("_switching_often")
def test_whoever_comes_at_the_moment_of_the_end_is_waited_for_or_refused() -> None:
    for _ in range(50):
        keeper, working, refused = Keeper(NOBODY, NOBODY, NOBODY), deque[None](), deque[None]()
        begun = Event()

        def work(keeper: Keeper = keeper, working: deque[None] = working, refused: deque[None] = refused) -> None:
            try:
                while True:
                    with keeper.work():
                        working.append(None)
                        begun.set()  # noqa: B023 - it is of this round
                        working.pop()
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

    work: Any = keeper.work()
    work.entries = EndsJustBefore()
    with pytest.raises(ClosedError), keeper.work():
        raise AssertionError("it has begun")
    assert not work.entries

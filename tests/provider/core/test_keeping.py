"""What is half done holds off the end of the journal, and nothing begins after it."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator
from threading import Event, Thread
from typing import Any

import pytest

from pyjms.spi.errors import ClosedError
from pyjms_provider.core.journal.storage_manager import StorageManager, WorkUnderWay
from tests.pyjms.runtime.helpers import Call

NOBODY: Any = None


@pytest.fixture
def storage() -> StorageManager:
    return StorageManager(NOBODY, NOBODY, NOBODY)


@pytest.fixture
def _switching_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_the_end_waits_for_what_was_begun_and_lets_nothing_new_begin(storage: StorageManager) -> None:
    def end() -> Call[None]:
        ending = Call(storage.end)
        assert ending.is_blocked()
        with pytest.raises(ClosedError, match="being stopped"):
            storage.work(never)
        return ending

    def outer() -> Call[None]:
        ending = storage.work(end)
        assert ending.is_blocked()
        return ending

    storage.work(outer).result()
    with pytest.raises(ClosedError):
        storage.work(never)


def test_nothing_to_wait_for_is_not_waited_for(storage: StorageManager) -> None:
    assert storage.work(lambda: "done") == "done"
    storage.end()


@pytest.mark.usefixtures("_switching_often")
def test_whoever_comes_at_the_moment_of_the_end_is_waited_for_or_refused() -> None:
    for _ in range(50):
        storage, working, refused = StorageManager(NOBODY, NOBODY, NOBODY), deque[None](), deque[None]()
        begun = Event()

        def act(working: deque[None] = working, begun: Event = begun) -> None:
            working.append(None)
            begun.set()
            working.pop()

        def work(
            storage: StorageManager = storage, refused: deque[None] = refused, act: Callable[[], None] = act
        ) -> None:
            try:
                while True:
                    storage.work(act)
            except ClosedError:
                refused.append(None)

        threads = [Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        assert begun.wait(20)
        storage.end()
        assert not working
        for thread in threads:
            thread.join(20)
        assert len(refused) == 4


def test_who_finds_the_end_begun_after_its_entry_was_made_is_refused() -> None:
    class EndsJustBefore(deque[None]):
        def append(self, entry: None, /) -> None:
            work.end()  # nobody works, so it does not wait
            super().append(entry)

    work = WorkUnderWay()
    work.entries = EndsJustBefore()
    with pytest.raises(ClosedError):
        work.do(never)
    assert not work.entries


def never() -> None:
    raise AssertionError("it has begun")

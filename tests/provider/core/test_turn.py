"""One at a time, and each name for itself."""

from __future__ import annotations

from threading import Event, Thread
from weakref import ref

from pyjms_provider.core.queue.altering import KeyedLock


def test_one_at_a_time() -> None:
    turns, has, may_go, order = KeyedLock(), Event(), Event(), list[int]()

    def first() -> None:
        with turns.of("a"):
            has.set()
            assert may_go.wait(10)
            order.append(1)

    def second() -> None:
        assert has.wait(10)
        with turns.of("a"):
            order.append(2)

    threads = [Thread(target=work, daemon=True) for work in (first, second)]
    for thread in threads:
        thread.start()
    assert has.wait(10)
    may_go.set()
    for thread in threads:
        thread.join(10)
    assert order == [1, 2]


def test_each_name_has_a_turn_while_somebody_has_it() -> None:
    turns = KeyedLock()
    with turns.of("a"), turns.of("b"):
        assert turns.of("a") is turns.of("a")
        assert not turns.of("a").acquire(blocking=False)
        used = [ref(turns.of(name)) for name in "ab"]
        assert all(each() is not None for each in used)
    assert [each() for each in used] == [None, None], "nothing is kept of a name that nobody uses"

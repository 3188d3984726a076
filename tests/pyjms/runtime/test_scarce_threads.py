"""A process that can start no thread for a moment: what is to be told is told later, and nothing that works ends."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread

import pytest

from pyjms import JMSException, Session
from pyjms.runtime.waiting import EventThread, WorkThread
from pyjms.testing import VirtualClock
from tests.pyjms.runtime.helpers import Recorder, await_event, send_texts

Scarcity = Callable[[int], None]


@pytest.fixture
def threads_are_scarce(monkeypatch: pytest.MonkeyPatch) -> Scarcity:
    """Let so many threads not start, from now on."""
    left = [0]

    class Scarce(Thread):
        def start(self) -> None:
            if left[0]:
                left[0] -= 1
                raise RuntimeError("can't start new thread")
            super().start()

    monkeypatch.setattr("pyjms.runtime.waiting.Thread", Scarce)

    def set_to(number: int) -> None:
        left[0] = number

    return set_to


def test_an_event_that_finds_no_thread_is_told_with_the_next_one(threads_are_scarce: Scarcity) -> None:
    told: list[str] = []
    done = Event()
    events = EventThread("test-events")
    threads_are_scarce(2)
    events.call(lambda: told.append("first"))
    events.call(lambda: told.append("second"))
    events.call(lambda: told.append("third"))
    events.call(done.set)
    await_event(done)
    assert told == ["first", "second", "third"]
    events.end()


@pytest.mark.parametrize("scarce", [1, 2])
def test_an_event_that_finds_no_thread_is_told_at_the_end_at_the_latest(
    threads_are_scarce: Scarcity, scarce: int
) -> None:
    done = Event()
    events = EventThread("test-events")
    threads_are_scarce(scarce)
    events.call(done.set)
    events.end()
    if scarce == 1:
        await_event(done)
    else:
        assert not done.is_set(), "there was no thread at all, and nobody waits for one"


def test_the_thread_of_a_session_goes_on_when_nobody_can_be_told_of_an_error() -> None:
    done, steps = Event(), iter([1, 2])

    def work() -> bool:
        if next(steps) == 1:
            raise OverflowError("no")
        done.set()
        return False

    def tell(error: Exception) -> None:
        raise RuntimeError("can't start new thread")

    thread = WorkThread("test-work", VirtualClock(), work, tell)
    thread.start()
    thread.wake()
    await_event(done)
    thread.end()


def test_a_listener_for_which_there_is_no_thread_is_refused_and_can_be_set_again(
    threads_are_scarce: Scarcity, session: Session
) -> None:
    queue, listener = session.create_queue("orders"), Recorder()
    consumer = session.create_consumer(queue)
    threads_are_scarce(1)
    with pytest.raises(JMSException, match="ulimit"):
        consumer.message_listener = listener
    send_texts(session, queue, "espresso")
    consumer.message_listener = listener
    listener.wait_for(1)

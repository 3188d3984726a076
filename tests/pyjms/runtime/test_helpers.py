"""What the tests of the client's side look at is so also on a machine that is slow just then."""

from __future__ import annotations

import time
from threading import Event

from tests.pyjms.runtime.helpers import NOTHING_S, PATIENCE_S, Call, await_event


def test_a_call_is_blocked_only_when_it_has_come_to_where_it_waits() -> None:
    running, came, release = Event(), Event(), Event()

    def work() -> None:
        running.set()
        until = time.thread_time() + 3 * NOTHING_S
        while time.thread_time() < until:
            pass
        came.set()
        release.wait(PATIENCE_S)

    call = Call(work)
    await_event(running)
    try:
        assert call.is_blocked()
        assert came.is_set()
    finally:
        release.set()
    assert not call.is_blocked()

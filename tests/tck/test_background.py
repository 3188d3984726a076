from __future__ import annotations

from threading import Event

import pytest

from pyjms_tck.background import Background


def test_what_a_call_returned_comes_back() -> None:
    running = Background(lambda: "done", 20)
    assert running.result() == "done"
    assert not running.is_running


def test_what_a_call_raised_comes_back() -> None:
    def work() -> None:
        raise KeyError("lost")

    with pytest.raises(KeyError, match="lost"):
        Background(work, 20).result()


def test_a_call_that_does_not_end_is_told() -> None:
    go = Event()
    running = Background(go.wait, 0.01)
    assert running.is_running
    with pytest.raises(AssertionError, match=r"has not returned after 0\.01 s"):
        running.result()
    go.set()
    assert running.result(20)

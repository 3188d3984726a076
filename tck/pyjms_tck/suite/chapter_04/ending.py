"""What closing and stopping do to who is at work: to a receive that waits, and to a listener that runs (4.3.4 to 4.5)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pyjms import MessageConsumer
from pyjms_tck.environment import Waits
from pyjms_tck.fixtures import RunBackground
from pyjms_tck.suite.exchange import Holding


def check_receive_ends(
    consumer: MessageConsumer,
    close: Callable[[], object],
    background: RunBackground,
    waits: Waits,
    timeout: int | None,
) -> None:
    """Check that a receive of `consumer` waits, and returns null when `close` is called. `timeout` None: without one."""
    receiving = background(consumer.receive if timeout is None else partial(consumer.receive, timeout))
    waits.pause()
    assert receiving.is_running, "receive waits for a message"
    background(close).result()
    assert receiving.result() is None, "the pending receive returns null on close"


def check_waits_for_listener(
    end: Callable[[], object], listener: Holding, background: RunBackground, waits: Waits
) -> None:
    """Check that `end`, which closes or stops, returns after the call of `listener` that is running or about to begin."""
    listener.wait_until_entered()
    ending = background(end)
    waits.pause()
    assert ending.is_running, "close or stop waits until the listener has returned"
    listener.release()
    ending.result()
    assert listener.returned.is_set(), "close or stop returns after the listener"

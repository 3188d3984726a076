"""Taking the messages out of a queue that are in it now, and not those that come meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pyjms import Connection, Message, Queue, Session
from pyjms.runtime.connection import JmsConnection
from pyjms.spi.capability import Capability
from pyjms.spi.terminal import note
from pyjms.spi.words import counted

__all__ = ["can_browse", "count_messages", "take", "tells_left"]

_WAIT_MS: Final = 1_000
"""After which a queue is taken to be empty; a broker far away needs a while to send the first."""


def can_browse(connection: Connection) -> bool:
    """Say whether the provider shows messages without taking them."""
    return not isinstance(connection, JmsConnection) or Capability.BROWSING in connection.capabilities


def count_messages(session: Session, source: Queue, selector: str | None) -> int:
    """Return how many messages there are, by looking at each."""
    with session.create_browser(source, selector) as browser:
        return sum(1 for _ in browser)


def take(session: Session, source: Queue, selector: str | None, most: int | None) -> Iterator[Message]:
    """Yield up to `most` messages, None: until there are none; who asks acknowledges or commits."""
    taken = 0
    with session.create_consumer(source, selector) as consumer:
        while most is None or taken < most:
            message = consumer.receive(_WAIT_MS)
            if message is None:
                return
            taken += 1
            yield message


def tells_left(session: Session, source: Queue, selector: str | None, wanted: int | None, taken: int) -> bool:
    """Tell of messages that are there, and were not to be had, if fewer were taken than there were; return whether there are any."""
    left = 0 if wanted is None or taken >= wanted else count_messages(session, source, selector)
    if left:
        note(
            f"{counted(left, 'message is', 'messages are')} there still, and not handed out: "
            "the queue is paused, or other consumers come first, or they came meanwhile",
            style="yellow",
        )
    return left > 0

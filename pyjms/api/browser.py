"""Looking at the messages of a queue without taking them (JMS 1.1 §5.9)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

from pyjms.api.closing import Closeable
from pyjms.api.destination import Queue
from pyjms.api.enumeration import Enumeration
from pyjms.api.message import Message


class QueueBrowser(Closeable, declares=True):
    """Shows the messages of a queue; they stay where they are. Iterating over the browser starts at the front."""

    __slots__ = ()

    @property
    @abstractmethod
    def queue(self) -> Queue:
        """The queue that is browsed."""

    @property
    @abstractmethod
    def message_selector(self) -> str | None:
        """The selector that chooses the messages shown, or None: all of them (§3.8)."""

    @property
    @abstractmethod
    def enumeration(self) -> Enumeration[Message]:
        """A new enumeration of the messages in the order in which they would be received.

        Messages that come or go meanwhile may or may not be shown.
        """

    @abstractmethod
    def close(self) -> None:
        """End browsing. Closing twice does nothing."""

    def __iter__(self) -> Iterator[Message]:
        return self.enumeration

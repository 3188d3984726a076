"""What many threads did with the messages of one queue, and what of it cannot be true together."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from threading import Lock
from typing import NamedTuple

__all__ = ["Books", "Fault"]


class Fault(NamedTuple):
    """Something that no broker may do."""

    kind: str
    text: str
    """The message's."""
    story: tuple[str, ...]
    """What the threads noted about it, in order."""


class Books:
    """Any thread writes here what it was told, and `judge` compares. A message is known by its text, which no other has.

    What begins is noted before the call, what is certain after it returned: a call that raised leaves both possible.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._stories: dict[str, list[str]] = defaultdict(list)
        self._faults: list[Fault] = []
        self.offered: set[str] = set()
        """A send was begun."""
        self.sent: set[str] = set()
        """Certainly in the queue, or received."""
        self.withdrawn: set[str] = set()
        """Sent in a transaction that was rolled back."""
        self.received: set[str] = set()
        """Given to a client at least once."""
        self.perhaps: set[str] = set()
        """Whoever received it may have acknowledged it."""
        self.settled: set[str] = set()
        """Certainly acknowledged."""

    def _note(self, deed: str, texts: Iterable[str]) -> list[str]:
        texts = list(texts)
        for text in texts:
            self._stories[text].append(deed)
        return texts

    def _blame(self, kind: str, text: str) -> None:
        self._faults.append(Fault(kind, text, tuple(self._stories[text])))

    def offer(self, text: str) -> None:
        """Note that a send begins."""
        with self._lock:
            self.offered.update(self._note("offered", [text]))

    def confirm(self, texts: Iterable[str]) -> None:
        """Note that they are sent: the send returned, or the commit."""
        with self._lock:
            self.sent.update(self._note("sent", texts))

    def withdraw(self, texts: Iterable[str]) -> None:
        """Note that the transaction in which they were sent is rolled back."""
        with self._lock:
            self.withdrawn.update(self._note("withdrawn", texts))

    def receive(self, text: str, *, is_flagged: bool, by: str) -> None:
        """Note what a client got, `is_flagged` as JMSRedelivered says."""
        with self._lock:
            self._note(f"received by {by}", [text])
            if text in self.settled:
                self._blame("doubled", text)
            if text in self.withdrawn:
                self._blame("withdrawn, and there", text)
            if text not in self.offered:
                self._blame("from nowhere", text)
            if text in self.received and not is_flagged:
                self._blame("unflagged", text)
            self.received.add(text)

    def settle_perhaps(self, texts: Iterable[str]) -> None:
        """Note that an acknowledgement of them begins, or that one may come at any time."""
        with self._lock:
            self.perhaps.update(self._note("perhaps settled", texts))

    def settle(self, texts: Iterable[str]) -> None:
        """Note that they are acknowledged."""
        with self._lock:
            for text in self._note("settled", texts):
                if text in self.settled:
                    self._blame("settled twice", text)
                self.perhaps.add(text)
                self.settled.add(text)

    def give_back(self, texts: Iterable[str]) -> None:
        """Note that they were recovered or rolled back: they must come again."""
        with self._lock:
            self._note("given back", texts)

    def judge(self, left: Iterable[str]) -> list[Fault]:
        """Return all that is wrong, when `left` is all that was still in the queue."""
        with self._lock:
            counts = Counter(left)
            for text, count in counts.items():
                if text in self.settled:
                    self._blame("acknowledged, and there again", text)
                if text in self.withdrawn:
                    self._blame("withdrawn, and there", text)
                if text not in self.offered:
                    self._blame("from nowhere", text)
                if count > 1:
                    self._blame("there twice", text)
            for text in sorted(self.sent - self.perhaps - counts.keys()):
                self._blame("lost", text)
            return list(self._faults)

"""A completion listener that keeps what it is told."""

from __future__ import annotations

import threading
from collections.abc import Callable

from pyjms import CompletionListener, Message
from pyjms_tck.environment import Waits


class Completions(CompletionListener):
    """Keeps the messages of completed sends, the failures, and the threads of the calls; `also` is called within `on_completion`."""

    def __init__(self, also: Callable[[Message], object] | None = None) -> None:
        self.completed: list[Message] = []
        self.failed: list[tuple[Message, Exception]] = []
        self.threads: set[int] = set()
        self.raised: list[Exception] = []
        self._also = also

    def on_completion(self, message: Message) -> None:
        self.threads.add(threading.get_ident())
        if self._also is not None:
            try:
                self._also(message)
            except Exception as error:  # for the test, which compares it
                self.raised.append(error)
        self.completed.append(message)

    def on_exception(self, message: Message, exception: Exception) -> None:
        self.threads.add(threading.get_ident())
        self.failed.append((message, exception))

    def wait_for(self, count: int, waits: Waits) -> list[Message]:
        """Return the messages of completed sends when there are `count`. Raises AssertionError if that takes too long."""
        waits.until(lambda: len(self.completed) >= count, f"{count} sends had completed")
        return self.completed

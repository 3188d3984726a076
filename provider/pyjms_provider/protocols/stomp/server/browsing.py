"""What a browser finds: looked for on another thread, as messages may lie on a disk and a selector may pass over many."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from pyjms.spi.errors import ProviderError
from pyjms_provider.protocols.stomp.packed import FRAME_BYTES

if TYPE_CHECKING:
    from pyjms.spi.delivery import Delivery
    from pyjms_provider.protocols.stomp.server.engine import StompServerEngine

__all__ = ["LOOK_MESSAGES", "Browsing"]

LOOK_MESSAGES: Final = 32
"""So many at most are found in one go."""


class Browsing:
    """The way of one browser through its messages, written out as frames. The connection's thread calls all but `end`."""

    def __init__(
        self,
        engine: StompServerEngine,
        messages: Iterator[Delivery],
        write: Callable[[Delivery], Iterable[bytes]],
        ready: Callable[[], None],
    ) -> None:
        """`write` makes a frame in parts, on any thread; `ready` is called when `look` has found something, or the end."""
        self._engine = engine
        self._messages = messages
        self._write = write
        self._ready = ready
        self._found: deque[Sequence[bytes]] = deque()
        self._is_busy = False
        self._is_over = False
        self._has_seen_all = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing is there to be taken."""
        return not self._found

    @property
    def has_ended(self) -> bool:
        """Whether all has been seen, and taken."""
        return self._has_seen_all and not self._found

    def take(self) -> Sequence[bytes]:
        """Return the next frame that was found."""
        return self._found.popleft()

    def look(self, most: int) -> None:
        """Look for `most` messages more, unless that is being done; at least for one, as the end may come next."""
        if not self._is_busy:
            self._is_busy = True
            self._engine.conduit.work(partial(self._find, max(1, min(most, LOOK_MESSAGES))), self._done)

    def end(self) -> None:
        """Want no more. Any thread."""
        self._is_over = True

    def _find(self, most: int) -> tuple[list[Sequence[bytes]], bool]:
        """Return frames, and whether those are all. On another thread; raises `ProviderError`."""
        found: list[Sequence[bytes]] = []
        size = 0
        while len(found) < most and size < FRAME_BYTES and not self._is_over:
            delivery = next(self._messages, None)
            if delivery is None:
                return found, True
            parts = tuple(self._write(delivery))
            size += sum(map(len, parts))
            found.append(parts)
        return found, False

    def _done(self, result: tuple[list[Sequence[bytes]], bool] | None, error: BaseException | None) -> None:
        self._is_busy = False
        if self._is_over or self._engine.is_over:
            return
        if result is not None:
            found, self._has_seen_all = result
            self._found.extend(found)
            self._ready()
        elif isinstance(error, ProviderError):
            self._engine.refuse(None, error)
        elif error is not None:
            self._engine.fail(error)

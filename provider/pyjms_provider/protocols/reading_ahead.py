"""Reads messages on another thread: those of a browser, and those for which a consumer has to wait.

Messages may be on a disk, and a selector may skip many. A delivery whose message must be fetched has a class of its own
(`pyjms.spi.delivery`), and so has the result of a poll that needs a longer search; most deliveries are in memory.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from threading import Condition, Lock, get_ident
from typing import TYPE_CHECKING, Final, Literal, Protocol

from pyjms.spi.delivery import Delivery, Elsewhere
from pyjms.spi.errors import GoneError, ProviderError

if TYPE_CHECKING:
    from pyjms.spi.provider import ProviderConsumer, ProviderSession
    from pyjms_provider.protocols.engine import TransportContext

_LOOK_BYTES: Final = 32 * 1024
"""Found messages of this size are written before more are looked for."""
LOOK_MESSAGES: Final = 32
"""The most messages found in one job."""


class Engine(Protocol):
    """What reading ahead needs of the engine of a connection."""

    transport: TransportContext

    @property
    def is_over(self) -> bool:
        """Whether the connection has ended, or ends when all is written."""
        ...


class Browsing:
    """The messages of one browser, encoded as frames. The connection's thread calls all but `end`."""

    def __init__(
        self,
        engine: Engine,
        messages: Iterator[Delivery],
        write: Callable[[Delivery], Iterable[bytes]],
        ready: Callable[[], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        """`write` encodes a frame in parts, on any thread; `ready` is called when `look` has found messages, or the end; `failed` with the
        error of a search.
        """
        self._engine = engine
        self._messages = messages
        self._write = write
        self._ready = ready
        self._failed = failed
        self._found: deque[Sequence[bytes]] = deque()
        self._is_busy = False
        self._is_over = False
        self._has_seen_all = False

    @property
    def is_empty(self) -> bool:
        """Whether there is no frame to take."""
        return not self._found

    @property
    def has_ended(self) -> bool:
        """Whether all messages have been found, and taken."""
        return self._has_seen_all and not self._found

    def take(self) -> Sequence[bytes]:
        """Return the next frame that was found."""
        return self._found.popleft()

    def look(self, most: int) -> None:
        """Find up to `most` more messages, at least one, unless a job is doing so."""
        if not self._is_busy:
            # One worker at a time: the iterator of a browser is not safe for two threads.
            self._is_busy = True
            self._engine.transport.work(partial(self._find, max(1, min(most, LOOK_MESSAGES))), self._done)

    def end(self) -> None:
        """Stop browsing. Any thread."""
        self._is_over = True

    def _find(self, most: int) -> tuple[list[Sequence[bytes]], bool]:
        """Return frames, and whether they are the last. On another thread; raises `ProviderError`."""
        found: list[Sequence[bytes]] = []
        size = 0
        # Bounded in messages and in bytes, since all are in memory until they are written.
        while len(found) < most and size < _LOOK_BYTES and not self._is_over:
            delivery = next(self._messages, None)
            if delivery is None:
                return found, True
            parts = tuple(self._write(delivery))
            size += sum(map(len, parts))
            found.append(parts)
        return found, False

    def _done(self, result: tuple[list[Sequence[bytes]], bool] | None, error: BaseException | None) -> None:
        self._is_busy = False
        # The browser was closed while the worker was looking.
        if self._is_over or self._engine.is_over:
            return
        if result is not None:
            found, self._has_seen_all = result
            self._found.extend(found)
            self._ready()
        elif error is not None:
            self._failed(error)


_log = logging.getLogger(__name__)


class Fetching:
    """Fetches one message at a time for a consumer. The connection's thread calls all but `drop`; no callback runs under the lock."""

    def __init__(
        self,
        engine: Engine,
        session: ProviderSession,
        *,
        ready: Callable[[], None],
        lost: Callable[[], None],
        none: Callable[[], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        """`ready` is called when `take` has the message; `lost` when it could not be read, and was quarantined; `none` when a search found
        none, which `pop_found_none` reports as well; `failed` with any other error.
        """
        self._engine = engine
        self._session = session
        self._ready = ready
        self._lost = lost
        self._none = none
        self._failed = failed
        self._lock = Lock()
        self._ended = Condition(self._lock)
        self._worker = 0
        """The thread that is fetching, or gives back what it has found; 0: none."""
        self._returning = 0
        """How many messages workers are giving back, for `drop`."""
        self._unread: Delivery | None = None
        """A delivery whose message no worker reads yet."""
        self._found: Delivery | None = None
        self._is_unwanted = False
        self.is_busy = False
        """Whether a message is being fetched: no other may overtake it."""
        self.has_found_none = False
        """Whether a search has found no message; read it with `pop_found_none`."""
        self.is_woken = False
        """Set by the consumer at a notification: a message may have come after a search that found none."""

    def begin(self, found: Delivery | Literal[Elsewhere.ELSEWHERE], consumer: ProviderConsumer) -> None:
        """Fetch the message of a delivery, or search for the next one."""
        # Until the worker is done, as messages must not overtake the one that it reads.
        self.is_busy = True
        # Cleared before the search begins: a notification during it may be for a message that the search has passed already.
        self._is_unwanted = self.is_woken = False
        self._unread = found if isinstance(found, Delivery) else None
        job = partial(_read, found) if isinstance(found, Delivery) else partial(_look, consumer)
        self._engine.transport.work(partial(self._fetch, job), self._done)

    def take(self) -> Delivery | None:
        """Return the delivery whose message has been read, once."""
        with self._lock:
            found, self._found = self._found, None
        return found

    def pop_found_none(self) -> bool:
        """Return, once, whether a search has found no message, and no notification came since it began."""
        has_found_none, self.has_found_none = self.has_found_none, False
        return has_found_none and not self.is_woken

    def drop(self, *, may_wait: bool = True) -> bool:
        """Give back a message that was fetched and not taken, or is being fetched, as if it had never been delivered. Any thread.

        Args:
            may_wait: Whether this thread may wait for another process. If not, a worker gives the message back.

        Returns:
            Whether there was one, or a search for one, that was wanted until now.
        """
        with self._lock:
            found, self._found = self._found or self._unread, None
            was_wanted = found is not None or (self.is_busy and not self._is_unwanted)
            self._is_unwanted, self._unread = True, None
            is_apart = found is not None and not may_wait
            self._returning += is_apart
        if found is not None and is_apart:
            self._engine.transport.work(partial(self._return, found), lambda *_: None)
        elif found is not None:
            self._give_back(found)
        return was_wanted

    def _return(self, found: Delivery) -> None:
        try:
            self._give_back(found)
        finally:
            with self._ended:
                self._returning -= 1
                self._ended.notify_all()

    def await_end(self) -> None:
        """Wait until what is being fetched is back, after `drop`, and after the close of the consumer, which ends a search. Not on the connection's thread."""
        with self._ended:
            self._ended.wait_for(lambda: not self._returning and self._worker in (0, get_ident()))

    def _fetch(self, job: Callable[[], Delivery | None]) -> bool:
        """Return whether a message was found, which is wanted. On a worker; raises what the job raises."""
        with self._lock:
            if self._is_unwanted:
                return False  # what there was to read is back
            self._worker, self._unread = get_ident(), None
        try:
            found = job()
            if found is None or self._keep(found):
                return found is not None
            self._give_back(found)
            return False
        finally:
            with self._ended:
                self._worker = 0
                self._ended.notify_all()

    def _keep(self, found: Delivery) -> bool:
        """Keep a message for `take`, unless it is unwanted by now; return whether it is kept."""
        with self._lock:
            if not self._is_unwanted:
                self._found = found
            return not self._is_unwanted

    def _done(self, has_found: bool | None, error: BaseException | None) -> None:
        # Busy until now, as the next message must not overtake one that goes back.
        self.is_busy = False
        is_unwanted = self._is_unwanted
        if self._engine.is_over:
            return  # the session gives back all
        if error is None:
            self.has_found_none = not has_found and not is_unwanted
            (self._none if self.has_found_none else self._ready)()
        elif isinstance(error, GoneError):
            # A damaged message is skipped, and its credit serves the next one (decision 0600).
            (self._ready if is_unwanted else self._lost)()
        else:
            self._failed(error)

    def _give_back(self, delivery: Delivery) -> None:
        try:
            self._session.give_back_unseen([delivery])
        except ProviderError as error:
            _log.debug("a message went back with its session: %s", error.reason)


def _read(delivery: Delivery) -> Delivery:
    """Read the message of a delivery from the disk. Raises `ProviderError`."""
    # Access to the envelope reads it from the disk.
    assert delivery.envelope is not None
    return delivery


def _look(consumer: ProviderConsumer) -> Delivery | None:
    """Return the next message that can be read, or None: there is none, or the consumer has ended. Raises `ProviderError`."""
    # Sets the interest in the same call, so that a message that comes later wakes the consumer.
    while (delivery := consumer.poll_or_wait()) is not None:
        try:
            return _read(delivery)
        except GoneError:
            continue  # a damaged message: the next one takes its place
    return None

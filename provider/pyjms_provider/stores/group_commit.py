"""Many threads, one writer: whoever comes first commits for all who wait.

A thread that submits work while nobody commits becomes the leader: it commits its own work and that of all who wait. Who
comes meanwhile waits; when the leader is done, the first of them leads the next group. A thread that is alone never waits
for another one, and no lock is held while a group is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Generic, TypeVar

from pyjms.spi.clock import Signal
from pyjms.spi.errors import InDoubtError, ProviderError

__all__ = ["GroupCommit", "Member"]

_Work = TypeVar("_Work")


class Member(Generic[_Work]):
    """One thread's part of a group. Whoever commits the group sets `error`, to None for what was written."""

    __slots__ = ("error", "force", "leads", "signal", "work")

    def __init__(self, work: _Work, force: bool) -> None:
        self.work = work
        self.force = force
        self.error: ProviderError | None = _INTERRUPTED
        self.leads = False
        self.signal: Signal | None = None


_INTERRUPTED = InDoubtError("the thread that was writing was interrupted, so it is not known what was written")


class GroupCommit(Generic[_Work]):
    """Collects work into groups and has each group committed by one of the threads that it belongs to."""

    def __init__(self, commit: Callable[[Sequence[Member[_Work]]], None]) -> None:
        self._commit = commit
        self._lock = Lock()
        self._waiting: list[Member[_Work]] = []
        self._is_busy = False

    def submit(self, work: _Work, *, force: bool) -> None:
        """Return when `work` was committed. Raises the error that its member of the group was given."""
        member = Member(work, force)
        with self._lock:
            if self._is_busy:
                member.signal = Signal()
                self._waiting.append(member)
            self._is_busy = True
        if member.signal is None:
            try:
                self._commit((member,))  # nobody was busy, so nobody waits
            finally:
                self.end()
        elif self._wait(member, member.signal):
            self._lead(member)
        if member.error is not None:
            raise member.error

    def begin(self) -> bool:
        """Make the caller the only one who commits, and return True, unless somebody commits now. `end` must follow.

        For work that is so small that a member and a group would cost as much as the work itself.
        """
        with self._lock:
            was_busy = self._is_busy
            self._is_busy = True
        return not was_busy

    def end(self) -> None:
        """Let the next group begin."""
        with self._lock:
            self._is_busy = is_wanted = bool(self._waiting)
        if is_wanted:
            self._hand_over(())

    def _wait(self, member: Member[_Work], signal: Signal) -> bool:
        """Wait until the member's work was committed, or until it leads the next group: then return True."""
        try:
            signal.wait(-1)  # whoever leads ends this wait, whatever happens to it
        except BaseException:
            with self._lock:
                if member in self._waiting:
                    self._waiting.remove(member)
            if member.leads:
                self._hand_over([])
            raise
        return member.leads

    def _lead(self, leader: Member[_Work]) -> None:
        with self._lock:
            group = [leader, *self._waiting]
            self._waiting.clear()
        try:
            self._commit(group)
        finally:
            self._hand_over(group[1:])

    def _hand_over(self, finished: Sequence[Member[_Work]]) -> None:
        successor: Member[_Work] | None = None
        with self._lock:
            if self._waiting:
                successor = self._waiting.pop(0)
                successor.leads = True
            else:
                self._is_busy = False
        if successor is not None and successor.signal is not None:
            successor.signal.set()
        for member in finished:
            if member.signal is not None:
                member.signal.set()

"""Many threads, one writer: whoever comes first commits for all who wait.

A thread that submits work while nobody commits becomes the leader: it commits its own work and that of all who wait. Who
comes meanwhile waits; when the leader is done, the first of them leads the next group. A thread that is alone never waits
for another one, and no lock is held while a group is committed.

Where many wait, a thread of the group's own leads, until few wait: as soon as it has committed it begins with the next ones, where a
member would first have to be woken among all others. Those whose work is done are woken in chains, each by one before it: woken all at
once they would only stand in each other's way, as one of them at a time can have Python's interpreter.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from threading import Lock, Thread
from typing import Final, Generic, TypeVar

from pyjms.spi.clock import Signal
from pyjms.spi.errors import InDoubtError, ProviderError

__all__ = ["FEW", "MANY", "GroupCommit", "Member"]

_log = logging.getLogger("pyjms.store")

_Work = TypeVar("_Work")

MANY: Final = 4
"""When so many wait at the end of a commit, the group's own thread takes over."""
FEW: Final = 2
"""When fewer than so many wait, it leaves the next group to its first member."""
_CHAINS: Final = 2
"""So many of those whose work is done are woken at once, and each wakes one more: while one works, the next is on its way."""


class Member(Generic[_Work]):
    """One thread's part of a group. Whoever commits the group sets `error`, to None for what was written."""

    __slots__ = ("error", "following", "force", "is_gone", "leads", "signal", "work")

    def __init__(self, work: _Work, force: bool) -> None:
        self.work = work
        self.force = force
        self.error: ProviderError | None = _INTERRUPTED
        self.leads = False
        self.signal: Signal | None = None
        self.is_gone = False
        """Its thread was interrupted, and wakes nobody any more."""
        self.following: Member[_Work] | None = None
        """Whom its thread is to wake as soon as it was woken itself."""

    def wake(self) -> None:
        """Have its thread look what became of it. Any thread; again does nothing more."""
        if self.signal is not None:
            self.signal.set()


_INTERRUPTED = InDoubtError("the thread that was writing was interrupted, so it is not known what was written")


class GroupCommit(Generic[_Work]):
    """Collects work into groups and has each group committed by one thread, mostly by one of those that it belongs to."""

    def __init__(self, commit: Callable[[Sequence[Member[_Work]]], None], *, thread_name: str | None = None) -> None:
        """`commit` sets the error of each member, and raises nothing but what interrupts a thread.

        `thread_name`: of the thread that leads where many wait, begun when that happens for the first time; None: members always lead.
        """
        self._commit = commit
        self._thread_name = thread_name
        self._lock = Lock()
        self._waiting: list[Member[_Work]] = []
        self._is_busy = False
        self._is_closed = False
        self._may_begin_thread = thread_name is not None
        self._thread: Thread | None = None
        self._thread_leads = False
        self._thread_signal = Signal()

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

    def close(self) -> None:
        """End the group's own thread. What is submitted later is committed by its members. May be repeated."""
        with self._lock:
            self._is_closed = True
            self._may_begin_thread = False
        self._thread_signal.set()
        if self._thread is not None:
            self._thread.join()

    def _wait(self, member: Member[_Work], signal: Signal) -> bool:
        """Wait until the member's work was committed, or until it leads the next group: then return True."""
        try:
            if self._may_begin_thread and len(self._waiting) >= MANY:
                self._begin_thread()
            signal.wait(-1)  # whoever leads ends this wait, whatever happens to it
            if member.following is not None:
                member.following.wake()
        except BaseException:
            with self._lock:
                member.is_gone = True
                if member in self._waiting:
                    self._waiting.remove(member)
            if member.following is not None:
                member.following.wake()  # once more, if that was what was interrupted
            if member.leads:
                self._hand_over(())
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

    def _hand_over(self, finished: Sequence[Member[_Work]], *, is_thread: bool = False) -> None:
        """Choose who leads next, and wake those whose work is done. `is_thread`: by the group's own thread."""
        successor: Member[_Work] | None = None
        with self._lock:
            if self._is_for_thread(FEW if is_thread else MANY):
                self._thread_leads = True
            elif self._waiting:
                successor = self._waiting.pop(0)
                successor.leads = True
            else:
                self._is_busy = False
            first = _chain(finished)
            is_new_to_thread = self._thread_leads and not is_thread
        if is_new_to_thread:
            self._thread_signal.set()
        if successor is not None:
            successor.wake()
        for member in first:
            member.wake()

    def _is_for_thread(self, least: int) -> bool:
        return len(self._waiting) >= least and self._thread is not None and not self._is_closed

    def _begin_thread(self) -> None:
        with self._lock:
            if not self._may_begin_thread:
                return
            self._may_begin_thread = False
        thread = Thread(target=self._run, name=self._thread_name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the system has no more threads: members lead on
            _log.warning("%s could not be started: %s", self._thread_name, error)
        else:
            self._thread = thread

    def _run(self) -> None:
        while self._is_to_lead():
            self._lead_by_thread()

    def _is_to_lead(self) -> bool:
        """Wait until the group's own thread is to lead, and return True; or until it is to end."""
        while True:
            with self._lock:
                if self._thread_leads or self._is_closed:
                    return self._thread_leads  # who was told that it leads relies on it
            self._thread_signal.wait(-1)

    def _lead_by_thread(self) -> None:
        with self._lock:
            group = self._waiting
            self._waiting = []
            self._thread_leads = False
        try:
            self._commit(group)
        except Exception:
            _log.exception("PYJMS-STORE-8 a commit has failed, and what was to be written is in doubt")
        finally:
            self._hand_over(group, is_thread=True)


def _chain(finished: Sequence[Member[_Work]]) -> Sequence[Member[_Work]]:
    """Have each of `finished` wake another one; return those that are to be woken first. Under the group's lock."""
    there = [member for member in finished if not member.is_gone]
    for member, following in zip(there, there[_CHAINS:], strict=False):
        member.following = following
    return there[:_CHAINS]

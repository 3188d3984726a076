"""Many threads, one writer: whoever comes first commits for all who wait.

A thread that submits work while nobody commits does so at once, alone. The first who comes meanwhile leads the next group: it
commits its own work and that of all who wait; when it is done, the first who came later leads the next one.

Whoever commits holds `right` meanwhile, a lock that is entered by `with` (decision 0104). Python may raise `KeyboardInterrupt` in
the main thread at any call, also in a `finally`, but not between such a lock and its block. So the main thread lets go of the right
whatever happens, and nobody else waits for anything that it does: it leads no group, wakes nobody, and what it does not come to write,
nobody writes. It may wait for others: for who leads, and for who writes alone, which looks afterwards whether it is `awaited`.

Where many wait, a thread of the group's own leads, until few wait: as soon as it has committed it begins with the next ones, where a
member would first have to be woken among all others. Those whose work is done are woken in chains, each by one before it: woken all at
once they would only stand in each other's way, as one of them at a time can have Python's interpreter.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from threading import Lock, Thread, current_thread, main_thread
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

    __slots__ = ("error", "following", "force", "is_gone", "leads", "may_lead", "signal", "work")

    def __init__(self, work: _Work, force: bool) -> None:
        self.work = work
        self.force = force
        self.error: ProviderError | None = _INTERRUPTED
        self.leads = False
        self.may_lead = True
        """Whether others may rely on its thread: not on the main one, which may be interrupted at any moment. That leads itself alone."""
        self.signal: Signal | None = None
        self.is_gone = False
        """Its thread was interrupted: it wakes nobody any more, and what was not begun to be written must not be."""
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
        self.right: Final = Lock()
        """Held by the one who commits: see above. Others who are to hold it see first whether the group `is_free`, and call `hand_on` afterwards."""
        self._lock = Lock()
        self._waiting: list[Member[_Work]] = []
        self._is_led = False
        """A thread that may lead commits a group, or will; so whoever comes waits for it. Never the main thread."""
        self._main_is_next = False
        """The main thread was told to write for itself, so others do not come before it. If it does not come, who leads next takes this back."""
        self._is_closed = False
        self._may_begin_thread = thread_name is not None
        self._thread: Thread | None = None
        self._thread_leads = False
        self._thread_signal = Signal()

    def submit(self, work: _Work, *, force: bool) -> None:
        """Return when `work` was committed. Raises the error that its member of the group was given."""
        member = Member(work, force)
        if self.is_free():
            try:
                with self.right:
                    self._commit((member,))
            finally:
                self.hand_on()
        elif current_thread() is main_thread():
            self._submit_by_main(member)
        else:
            self._submit_with_others(member)
        if member.error is not None:
            raise member.error

    def is_free(self) -> bool:
        """Return whether nobody commits, or is about to: then the caller may do so at once, with the `right`.

        For work that is so small that a member and a group would cost as much as the work itself.
        """
        return not (self._is_led or self._main_is_next or self.right.locked())

    def hand_on(self) -> None:
        """Have the main thread write for itself if it has waited for who wrote alone, and nobody leads. After the `right` was let go of."""
        if not self._waiting:
            return
        with self._lock:
            successor = None if self._is_led else self._next_leader()
            self._main_is_next = successor is not None
        if successor is not None:
            successor.wake()

    def _submit_with_others(self, member: Member[_Work]) -> None:
        signal: Signal | None = None
        with self._lock:
            if self._is_led:
                signal = member.signal = Signal()
            self._is_led = True
            self._waiting.append(member)
        if signal is None or self._wait(member, signal):
            self._lead(member)

    def _submit_by_main(self, member: Member[_Work]) -> None:
        """Have others write it if a group is led, else write it alone, as soon as who has the right lets go of it."""
        member.may_lead = False
        signal = member.signal = Signal()
        try:
            with self._lock:
                self._waiting.append(member)
                # Who has the right looks at those who wait when it has let go of it: afterwards, if it has it still.
                waits = self._is_led or self.right.locked()
                if not waits:
                    self._waiting.remove(member)
            if waits:
                signal.wait(-1)
            if member.leads or not waits:
                with self.right:
                    self._main_is_next = False
                    self._commit((member,))
        except BaseException:
            member.is_gone = True
            raise

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
            self._leave(member)
            if member.following is not None:
                member.following.wake()  # once more, if that was what was interrupted
            if member.leads:
                self._hand_over(())
            raise
        return member.leads

    def _leave(self, member: Member[_Work]) -> None:
        """Have nobody else do what the thread of a member was to do, as it was interrupted."""
        with self._lock:
            member.is_gone = True
            if member in self._waiting:
                self._waiting.remove(member)

    def _lead(self, leader: Member[_Work]) -> None:
        group: Sequence[Member[_Work]] = ()
        try:
            with self.right:
                group = self._take()
                self._commit(group)
        except BaseException:
            self._leave(leader)
            raise
        finally:
            self._hand_over([member for member in group if member is not leader])

    def _take(self) -> Sequence[Member[_Work]]:
        """Return those who wait, who are the next group."""
        with self._lock:
            group = [member for member in self._waiting if not member.is_gone]
            self._waiting.clear()
            self._thread_leads = False
        return group

    def _hand_over(self, finished: Sequence[Member[_Work]], *, is_thread: bool = False) -> None:
        """Choose who leads next, and wake those whose work is done. `is_thread`: by the group's own thread."""
        successor: Member[_Work] | None = None
        with self._lock:
            if self._is_for_thread(FEW if is_thread else MANY):
                self._thread_leads = True
            else:
                successor = self._next_leader()
                self._is_led = successor is not None and successor.may_lead
                self._main_is_next = successor is not None and not successor.may_lead
            first = _chain(finished)
            is_new_to_thread = self._thread_leads and not is_thread
        if is_new_to_thread:
            self._thread_signal.set()
        if successor is not None:
            successor.wake()
        for member in first:
            member.wake()

    def _next_leader(self) -> Member[_Work] | None:
        """Return the first who waits and may lead; if only the main thread waits, that one, for itself. Under the lock."""
        successor = next((member for member in self._waiting if member.may_lead), None)
        if successor is None and self._waiting:
            successor = self._waiting.pop()
        if successor is not None:
            successor.leads = True
        return successor

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
        group: Sequence[Member[_Work]] = ()
        try:
            with self.right:
                group = self._take()
                self._commit(group)
        except Exception:
            _log.exception("PYJMS-STORE-8 a commit has failed, and what was to be written is in doubt")
        finally:
            self._hand_over(group, is_thread=True)


def _chain(finished: Sequence[Member[_Work]]) -> Sequence[Member[_Work]]:
    """Have each of `finished` wake another one; return those that are to be woken first. Under the group's lock."""
    there = [member for member in finished if member.may_lead and not member.is_gone]
    for member, following in zip(there, there[_CHAINS:], strict=False):
        member.following = following
    return [*there[:_CHAINS], *(member for member in finished if not member.may_lead)]  # the main thread wakes nobody

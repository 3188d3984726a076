"""Group commit: threads that write at the same time share one commit of the database.

A thread that submits work while no commit is running commits it alone, immediately. The first thread that submits during a commit
leads the next group: it commits its own work together with all waiting requests. After that, the first request that arrived in the
meantime leads the next group.

The committing thread holds `GroupCommit.writer_lock`, by a `with` statement (decision 0104), so that the lock is released however the
commit ends: a second signal may end a stuck one (decision 0230).

While many requests wait, a dedicated thread of the group leads, until few are left: it starts the next group as soon as it has
committed one, where a member would first have to be woken among all others. Threads whose work is done are woken in chains, each by
another member: if all were woken at once, they would only contend for Python's interpreter.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Sequence
from threading import Lock, Thread
from typing import Any, Final, Generic, TypeVar

from pyjms.spi.clock import Signal
from pyjms.spi.errors import InDoubtError, ProviderError

_log = logging.getLogger("pyjms.store")

_Work = TypeVar("_Work")

MANY: Final = 4
"""The number of requests waiting at the end of a commit from which on the group's own thread leads."""
FEW: Final = 2
"""With fewer waiting requests than this, the thread lets the first of them lead the next group."""
_CHAINS: Final = 2
"""The number of threads woken at once; each of them wakes one more, so that the next one wakes up while another works."""


class CommitRequest(Generic[_Work]):
    """A thread's request to commit its work. The committing thread sets `error`, to None if the work was written."""

    __slots__ = ("error", "following", "force", "is_leader", "is_withdrawn", "signal", "work")

    def __init__(self, work: _Work, force: bool) -> None:
        self.work = work
        self.force = force
        # A commit ended by a second signal is in doubt, and must not count as written.
        self.error: ProviderError | None = _INTERRUPTED
        self.is_leader = False
        """Whether its thread was chosen to lead the next group."""
        self.is_withdrawn = False
        """Whether a second signal has ended its wait, so that its thread wakes no other."""
        # Made only for a request that waits: a lone writer commits without one.
        self.signal: Signal | None = None
        self.following: CommitRequest[_Work] | None = None
        """The request to be woken by this request's thread, after that was woken itself."""

    def wake(self) -> None:
        """End the wait of the request's thread. May be called by any thread, and repeated."""
        if self.signal is not None:
            self.signal.set()


_INTERRUPTED = InDoubtError("the thread that was writing was interrupted, so it is not known what was written")


class GroupCommit(Generic[_Work]):
    """Collects work into groups; each group is committed by one thread, mostly by one of its members."""

    def __init__(
        self, commit: Callable[[Sequence[CommitRequest[_Work]]], None], *, thread_name: str | None = None
    ) -> None:
        """`commit` sets the error of each request, and raises nothing.

        `thread_name`: the name of the group's own thread, which is started when many requests wait for the first time; None: members
        always lead.
        """
        self._commit = commit
        self._thread_name = thread_name
        self.writer_lock: Final = Lock()
        """Held by the committing thread. Other users of the lock check `is_free` first."""
        self._lock = Lock()
        self._waiting: list[CommitRequest[_Work]] = []
        self._has_leader = False
        """Whether a thread commits a group, or is about to, so that new requests wait."""
        self._is_closed = False
        self._may_begin_thread = thread_name is not None
        self._thread: Thread | None = None
        self._thread_leads = False
        # The only signal that the group's thread waits for; `_thread_leads` and `_is_closed`, read under the lock, tell the reason.
        self._thread_signal = Signal()

    def submit(self, work: _Work, *, force: bool) -> None:
        """Commit `work`, alone or in a group, and return when it is committed. Raises the error that the commit set."""
        request = CommitRequest(work, force)
        if self.is_free():
            # Another thread may have begun to commit since `is_free`: then this one waits for the lock, which is as good.
            with self.writer_lock:
                self._commit((request,))
        else:
            self._submit_with_others(request)
        if request.error is not None:
            raise request.error

    def is_free(self) -> bool:
        """Return whether no thread commits, or is about to: then the caller may commit immediately, holding the `writer_lock`.

        For work so small that a request and a group would cost as much as the work itself.
        """
        return not (self._has_leader or self.writer_lock.locked())

    @property
    def right(self) -> Lock:
        """The former name of `writer_lock`; to be removed in 0.3."""
        warnings.warn("GroupCommit.right is called writer_lock", DeprecationWarning, stacklevel=2)
        return self.writer_lock

    def hand_on(self) -> None:
        """Do nothing: releasing the `writer_lock` is enough. To be removed in 0.3."""
        warnings.warn("GroupCommit.hand_on is not needed any more", DeprecationWarning, stacklevel=2)

    def _submit_with_others(self, request: CommitRequest[_Work]) -> None:
        with self._lock:
            if self._has_leader:
                request.signal = Signal()
            else:
                self._has_leader = request.is_leader = True
            self._waiting.append(request)
        # Outside the lock: the leader needs the lock to wake this thread.
        if request.signal is not None:
            self._wait(request, request.signal)
        if request.is_leader:
            self._lead(request)

    def close(self) -> None:
        """End the group's own thread; members lead all later groups. May be repeated."""
        with self._lock:
            self._is_closed = True
            self._may_begin_thread = False
        self._thread_signal.set()
        if self._thread is not None:
            self._thread.join()

    def _wait(self, request: CommitRequest[_Work], signal: Signal) -> None:
        """Wait until the request was committed, or leads the next group."""
        is_answered = False
        try:
            if self._may_begin_thread and len(self._waiting) >= MANY:
                # Started by a thread that waits anyway, so that the start delays no commit.
                self._begin_thread()
            # No time limit: the leader ends this wait in its `finally`, however it ends itself.
            signal.wait(-1)
            is_answered = True
        finally:
            if not is_answered:
                # Before `following` is read: once the request is withdrawn, no leader chains another request to it.
                self._withdraw(request)
            if request.following is not None:
                # Also when this wait was interrupted: the next thread of the chain has no other waker.
                request.following.wake()

    def _withdraw(self, request: CommitRequest[_Work]) -> None:
        """Remove a request whose thread has stopped waiting, so that no other thread relies on it."""
        with self._lock:
            request.is_withdrawn = True
            if request in self._waiting:
                # The commit of its work was not begun, and never will be.
                self._waiting.remove(request)
        # The lead was given to a thread that ends: without another leader all later requests would wait without end.
        if request.is_leader:
            self._release_to_next(())

    def _lead(self, leader: CommitRequest[_Work]) -> None:
        group: Sequence[CommitRequest[_Work]] = ()
        try:
            with self.writer_lock:
                # Taken with the writer's lock held: all requests submitted during the last commit belong to this group.
                group = self._take_group()
                self._commit(group)
        finally:
            # Without the leader's own request: its thread is running, and waits for no signal.
            if group:
                self._release_to_next([request for request in group if request is not leader])
            # A second signal has ended the wait for the lock.
            else:
                self._withdraw(leader)

    def _take_group(self) -> Sequence[CommitRequest[_Work]]:
        """Remove all waiting requests and return them as the next group."""
        with self._lock:
            group, self._waiting = self._waiting, []
            # This group ends the thread's turn to lead; a member may have taken the group while the thread was waking up.
            self._thread_leads = False
        return group

    def _release_to_next(self, finished: Sequence[CommitRequest[_Work]], *, is_thread: bool = False) -> None:
        """Choose the next leader, and wake the threads whose work is done. `is_thread`: the caller is the group's own thread."""
        successor: CommitRequest[_Work] | None = None
        with self._lock:
            if self._is_for_thread(FEW if is_thread else MANY):
                self._thread_leads = True
            else:
                successor = self._waiting[0] if self._waiting else None
                # Under the lock: a request submitted after this line sees that there is no leader, and leads itself.
                self._has_leader = successor is not None
                if successor is not None:
                    successor.is_leader = True
            # Linked under the lock, so that a request withdrawn at the same moment
            # is either left out or wakes its follower.
            first = _chain(finished)
            is_new_to_thread = self._thread_leads and not is_thread
        # The next leader is woken before the finished threads: the database is idle until it commits.
        if is_new_to_thread:
            self._thread_signal.set()
        if successor is not None:
            successor.wake()
        for request in first:
            request.wake()

    def _is_for_thread(self, least: int) -> bool:
        # Two limits, MANY to begin and FEW to go on, so that the leader does not change with each group.
        return len(self._waiting) >= least and self._thread is not None and not self._is_closed

    def _begin_thread(self) -> None:
        with self._lock:
            # Several threads may call this at once, also after `close`: only the first one starts the thread.
            if not self._may_begin_thread:
                return
            self._may_begin_thread = False
        thread = Thread(target=self._run, name=self._thread_name, daemon=True)
        try:
            thread.start()
        # The system cannot start more threads, so members go on leading.
        except RuntimeError as error:
            _log.warning("%s could not be started: %s", self._thread_name, error)
        else:
            # Set only after the start: `_is_for_thread` must choose no thread that does not run.
            self._thread = thread

    def _run(self) -> None:
        while self._is_to_lead():
            self._lead_by_thread()

    def _is_to_lead(self) -> bool:
        """Wait until the group's own thread is to lead, and return True; return False if it is to end."""
        while True:
            with self._lock:
                if self._thread_leads or self._is_closed:
                    # Also when the group is closed: a thread that has chosen this one as the leader relies on it.
                    return self._thread_leads
            self._thread_signal.wait(-1)

    def _lead_by_thread(self) -> None:
        group: Sequence[CommitRequest[_Work]] = ()
        try:
            with self.writer_lock:
                group = self._take_group()
                self._commit(group)
        # Requests are created with an in-doubt error, so a failure of `commit` itself is never taken for success.
        except Exception:
            _log.exception("PYJMS-STORE-8 a commit has failed, and what was to be written is in doubt")
        finally:
            self._release_to_next(group, is_thread=True)


def _chain(finished: Sequence[CommitRequest[_Work]]) -> Sequence[CommitRequest[_Work]]:
    """Link finished requests so that each wakes another one; return those to be woken first. The group's lock is held."""
    # A withdrawn request wakes nobody, so it must not stand between two others.
    there = [request for request in finished if not request.is_withdrawn]
    for request, following in zip(there, there[_CHAINS:], strict=False):
        request.following = following
    return there[:_CHAINS]


def __getattr__(name: str) -> Any:
    if name == "Member":  # until 0.3
        warnings.warn("Member is called CommitRequest", DeprecationWarning, stacklevel=2)
        return CommitRequest
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""A minimal application server: a pool of server sessions, which run their sessions on threads (8.2)."""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, Queue
from typing import Any

from pyjms import Connection, JMSException, Message, ServerSession, ServerSessionPool, Session
from pyjms_tck.environment import Waits
from pyjms_tck.fixtures import RunBackground


class OneSession(ServerSession):
    """A server session that returns to its pool when its session has run."""

    def __init__(self, pool: Pool, session: Session) -> None:
        self.starts = 0
        self._pool = pool
        self._session = session

    def getSession(self) -> Session:
        self._pool.asked_for_sessions += 1
        return self._session

    def start(self) -> None:
        self.starts += 1
        # `start` must return: the provider's thread calls it, and then takes the next messages (§8.2.2).
        self._pool.background(self._run)

    def _run(self) -> None:
        try:
            self._session.run()
        finally:
            # Also after a failure: a pool that loses its sessions would hang the test instead of showing the error.
            self._pool.free.put(self)


class Pool(ServerSessionPool):
    """A pool of server sessions of a connection; their sessions call `listener`. Waits when all are busy.

    refusals: how many times `getServerSession` throws before it works.
    """

    def __init__(
        self,
        connection: Connection,
        background: RunBackground,
        waits: Waits,
        listener: Callable[[Message], object],
        *,
        sessions: int = 1,
        refusals: int = 0,
    ) -> None:
        self.background: Callable[[Callable[[], None]], Any] = background
        self.free: Queue[OneSession] = Queue()
        self.taken = 0
        self.refused = 0
        self.asked_for_sessions = 0
        self.members: list[OneSession] = []
        self._refusals = refusals
        self._patience_s = waits.something_ms / 1000
        for _ in range(sessions):
            session = connection.createSession(False, Session.AUTO_ACKNOWLEDGE)
            session.setMessageListener(listener)
            self.members.append(OneSession(self, session))
            self.free.put(self.members[-1])

    @property
    def starts(self) -> int:
        """The number of starts of server sessions."""
        return sum(member.starts for member in self.members)

    def getServerSession(self) -> ServerSession:
        if self.refused < self._refusals:
            self.refused += 1
            raise JMSException("this pool refuses, on purpose")
        try:
            # A pool may let the caller wait until a session is free (§8.2.3). The
            # limit ends a wait for a session that was never run.
            member = self.free.get(timeout=self._patience_s)
        except Empty:
            raise JMSException("all server sessions of this pool are busy") from None
        self.taken += 1
        return member

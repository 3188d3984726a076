"""An application server in small: a pool of server sessions, each with a thread for its session's run."""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, Queue
from threading import Lock, Thread
from typing import Any

from pyjms import JMSException, ServerSession, ServerSessionPool, Session
from tests.pyjms.runtime.helpers import PATIENCE_S


class OneSession(ServerSession):
    """A server session that goes back to its pool when its session has run."""

    def __init__(self, pool: Pool, session: Session) -> None:
        self._pool = pool
        self._session = session
        self.hook: Callable[[], object] | None = None

    @property
    def session(self) -> Session:
        return self._session

    def start(self) -> None:
        if self.hook is not None:
            self.hook()
        self.run_on_a_thread()

    def run_on_a_thread(self) -> None:
        """Run the session, then go back to the pool."""
        thread = Thread(target=self._run, name="test-server-session", daemon=True)
        thread.start()
        self._pool.threads.append(thread)  # started already: `Pool.join` may look at any moment

    def _run(self) -> None:
        try:
            self._session.run()
        except JMSException as error:
            self._pool.errors.append(error)
        self._pool.free.put(self)


class Pool(ServerSessionPool):
    """Hands out `number` server sessions; waits when all are busy."""

    def __init__(
        self, connection: Any, listener: Any, number: int = 1, transacted: bool = False, mode: int = 1
    ) -> None:
        self.free: Queue[OneSession] = Queue()
        self.sessions: list[Session] = []
        self.threads: list[Thread] = []
        self.errors: list[JMSException] = []
        self.taken = 0
        self.hook: Callable[[], object] | None = None
        self._lock = Lock()
        for _ in range(number):
            session = connection.create_session(transacted, mode)
            session.message_listener = listener(session) if listener is not None else None
            self.sessions.append(session)
            self.free.put(OneSession(self, session))

    def get_server_session(self) -> ServerSession:
        with self._lock:
            self.taken += 1
        if self.hook is not None:
            self.hook()
        try:
            return self.free.get(timeout=PATIENCE_S)
        except Empty:
            raise JMSException("the pool is exhausted") from None

    def each(self, hook: Callable[[], object] | None) -> None:
        """Run `hook` at each start of a server session."""
        for one in list(self.free.queue):
            one.hook = hook

    def join(self) -> None:
        """Wait for all runs."""
        for thread in list(self.threads):
            thread.join(PATIENCE_S)
            assert not thread.is_alive()


def feeding(listener: Any) -> Callable[[Session], Any]:
    """Return a maker of listeners that is the same for each session."""
    return lambda session: listener

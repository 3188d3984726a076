"""Connection consumers: messages loaded into the sessions of an application server (JMS 1.1 §8.2)."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from pyjms.api.connection import ConnectionConsumer, ServerSession, ServerSessionPool
from pyjms.api.session import Session
from pyjms.errors import IllegalStateException, JMSException
from pyjms.runtime.checks import check_implementation
from pyjms.runtime.error_mapping import mapped_errors, to_jms
from pyjms.runtime.session import JmsSession
from pyjms.runtime.waiting import CloseOnce, Rest, WorkThread
from pyjms.spi.delivery import Delivery
from pyjms.spi.errors import ClosedError, ConnectionLostError, ProviderError
from pyjms.spi.provider import ProviderConsumer, ProviderSession, SubscribeRequest
from pyjms.spi.words import reason_of

if TYPE_CHECKING:
    from pyjms.runtime.contracts import ConnectionContract

_log = logging.getLogger("pyjms.runtime")


class JmsConnectionConsumer(ConnectionConsumer):
    """A connection consumer, which takes messages off a destination on a thread of its own and distributes them to server sessions."""

    __slots__ = (
        "_closed",
        "_closing",
        "_connection",
        "_consumer",
        "_is_reported",
        "_max_messages",
        "_pending_release",
        "_pool",
        "_rest",
        "_running",
        "_session",
        "_worker",
    )

    def __init__(
        self,
        connection: ConnectionContract,
        session: ProviderSession,
        pool: ServerSessionPool,
        max_messages: int,
    ) -> None:
        self._connection = connection
        self._session = session
        self._pool = pool
        self._max_messages = max_messages
        self._closed = False
        self._closing = CloseOnce()
        self._running = False
        self._rest = Rest(connection.clock)
        self._is_reported = False
        """Whether the present outage was reported to the connection's ExceptionListener; each is reported once."""
        self._pending_release: list[Delivery] = []
        name = f"pyjms-connection-consumer-{connection.next_number()}"
        self._worker = WorkThread(name, connection.clock, self._work, self._tell)

    def subscribe(self, request: SubscribeRequest) -> None:
        """Create the provider's consumer, and a thread. Raises the errors of `ProviderSession.subscribe`, unmapped."""
        self._consumer: ProviderConsumer = self._session.subscribe(request, self._worker.wake)
        self._worker.start()

    @property
    def server_session_pool(self) -> ServerSessionPool:
        if self._closed:
            raise IllegalStateException("the connection consumer is closed")
        return self._pool

    def replace_provider(self, session: ProviderSession, consumer: ProviderConsumer) -> None:
        """Use a stand-in that refuses each call: the connection was given up."""
        self._session, self._consumer = session, consumer

    def poison(self) -> None:
        """Give up the connection, as a signal has interrupted a call of this consumer half way."""
        self._connection.poison()

    def close(self) -> None:
        """Take no more messages. Messages loaded into server sessions stay with them."""
        self.shut_down()

    def shut_down(self) -> None:
        """Close, or wait for the thread that closes. May be repeated."""
        # The thread is not waited for: it may be in the application's pool, which may even be the caller.
        self._closed = True
        self._worker.end_soon()
        self._closing.do(self._release)

    def _release(self) -> None:
        try:
            with mapped_errors:
                self._session.close()
        finally:
            self._connection.forget_consumer(self)

    def begin_delivery(self) -> None:
        """Take messages, if the connection is started."""
        if not self._connection.is_started:
            return
        # The flag is set first: the provider may wake the thread within the next call, and the
        # thread would find itself stopped.
        self._running = True
        self._consumer.set_interested(True)
        self._worker.wake()

    def pause_delivery(self) -> None:
        """Take no messages until the connection is started again."""
        self._running = False
        self._consumer.set_interested(False)

    def _work(self) -> bool:
        if not self._running or self._closed:
            return False
        if self._rest.lasts:
            # The thread forgets its time with each wait, so each check has to set it again.
            self._worker.until_ms = self._rest.until_ms
            return False
        try:
            if self._pending_release:
                self._give_back([])
            deliveries = self._take()
            if deliveries:
                self._load_into_pool(deliveries)
            return bool(deliveries)
        except (ClosedError, ConnectionLostError) as error:
            if not self._closed:
                self._connection.report(error)
            return False
        except ProviderError as error:
            if not self._closed:
                if not self._is_reported:
                    self._is_reported = True
                    self._connection.report(error)
                self._rest.begin()  # the provider has woken this consumer, takes it to be at work, and does not wake it again
                self._worker.until_ms = self._rest.until_ms
            return False

    def _tell(self, error: Exception) -> None:
        """Call the connection's ExceptionListener for an unexpected error (JMS 1.1 §4.3.8)."""
        if not self._closed:
            reason = f"a connection consumer met an unexpected error: {reason_of(error)}"
            self._connection.report(ProviderError(reason))

    def _give_back(self, deliveries: list[Delivery]) -> None:
        """Release `deliveries`; those that cannot be released now are tried again before more are taken."""
        self._pending_release += deliveries
        self._session.recover(self._pending_release)
        self._pending_release = []

    def _take(self) -> list[Delivery]:
        deliveries: list[Delivery] = []
        try:
            while len(deliveries) < self._max_messages and (delivery := self._consumer.poll()) is not None:
                deliveries.append(delivery)
            # A poll that succeeds ends the outage: the next one is reported again.
            self._is_reported = False
        except ProviderError:
            if not deliveries:
                raise  # otherwise the next poll raises again, and earlier messages are not held up
        except Exception:
            self._pending_release += deliveries
            raise
        return deliveries

    def _load_into_pool(self, deliveries: list[Delivery]) -> None:
        """Load `deliveries` into a server session; release them when the application server fails."""
        loaded_into: JmsSession | None = None
        try:
            server_session: ServerSession = self._pool.get_server_session()
            _check_server_session(server_session)
            session = self._loadable(server_session.session)
            if self._load(session, deliveries):
                loaded_into = session
            else:
                deliveries = []  # they are back
            server_session.start()  # even with nothing to run: only this returns it to its pool
        except Exception as error:  # application code: the messages must not be lost by its errors
            if self._closed and loaded_into is None:
                return  # closed while the pool was asked: the messages are back on their destination
            reason = f"the server session pool failed, so its consumer stopped: {reason_of(error)}"
            try:
                if loaded_into is None:
                    self._give_back(deliveries)
                else:
                    loaded_into.unload(deliveries)
            # A pool that fails would fail for each message: no more are taken until the connection
            # is started again.
            finally:
                self.pause_delivery()
                self._connection.report(ProviderError(reason))
                _log.exception("a server session could not be started; its messages go back to their destination")

    def _load(self, session: JmsSession, deliveries: list[Delivery]) -> bool:
        """Load; if the provider cannot transfer the messages now, release them, rest, and return False.

        Raises JMSException when the session is closed.
        """
        try:
            session.load(deliveries, self._rest)
        except ClosedError as error:
            raise to_jms(error) from error
        except ProviderError as error:
            self._rest.begin()  # before they are released, which wakes this consumer
            with suppress(ProviderError):  # they are released later
                self._give_back(deliveries)
            self._rest.tell("messages could not be loaded into a server session, so they will come again", error)
            return False
        return True

    def _loadable(self, session: Session) -> JmsSession:
        """Return `session` if this connection made it. Raises JMSException for another one, which cannot be loaded."""
        if not isinstance(session, JmsSession) or session.connection is not self._connection:
            raise JMSException(f"{type(session).__name__} is no session of this connection: it cannot be loaded")
        return session


def _check_server_session(given: object) -> None:
    """Raise JMSException or IllegalArgumentException for an invalid result of a pool; any object with these members is valid."""
    if given is None or isinstance(given, type):
        what = "None" if given is None else f"the class {given.__name__}, not an object of it"
        raise JMSException(f"getServerSession() returned {what}")
    check_implementation(given)

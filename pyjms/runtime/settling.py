"""The end of a session's deliveries: they are settled, by mode, or released (JMS 1.1 §4.4.7, §4.4.11).

`UnackedMessages` holds the deliveries concerned. Those that were taken out of it for a call that fails are entered again, while the client may still
settle them; those that could not be released to the provider stay pending release, and are tried again with the next piece of work.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import get_ident
from typing import TYPE_CHECKING, NoReturn

from pyjms.api.message import Message
from pyjms.api.session import AcknowledgeMode, Session
from pyjms.errors import IllegalStateException
from pyjms.runtime.completions import AsyncSends
from pyjms.runtime.dispatch import Dispatcher, give_back_failed
from pyjms.runtime.error_mapping import mapped_errors, to_jms
from pyjms.runtime.machines import UnackedMessages
from pyjms.runtime.waiting import DeliveryGate
from pyjms.spi.capability import Capability
from pyjms.spi.delivery import Delivery
from pyjms.spi.errors import (
    ClosedError,
    ConnectionLostError,
    InDoubtError,
    ProviderError,
    RolledBackError,
    TooLateError,
)
from pyjms.spi.interrupts import defers_signals
from pyjms.spi.provider import ProviderSession

if TYPE_CHECKING:
    from pyjms.runtime.contracts import ConnectionContract

_UNKNOWN = (InDoubtError, ConnectionLostError, ClosedError)
"""Errors of a commit whose outcome is unknown, or whose messages no longer belong to this session."""


class SettlingSession(Session):
    """The part of a session that ends deliveries and transactions; `JmsSession` has the part that begins them.

    `gate` orders deliveries against stop and close; `provider_session` is the provider's session.
    """

    failure: str | None = None
    """The reason why the messages received in a transaction count as failed when it is rolled back, as if a listener had raised; None: they do not."""
    _dispatcher: Dispatcher
    async_sends: AsyncSends
    """The asynchronous sends that are incomplete: the end of a transaction waits for them."""

    def __init__(
        self, connection: ConnectionContract, mode: AcknowledgeMode, provider_session: ProviderSession
    ) -> None:
        self.connection = connection
        self.gate = DeliveryGate()
        self.provider_session = provider_session
        self.is_closed = False
        self.is_joined = False
        """Whether a block of `pyjms.joining.joined` ends the transaction, so that no other code may."""
        self._mode = mode
        self.settles_by_itself = mode in (AcknowledgeMode.AUTO_ACKNOWLEDGE, AcknowledgeMode.DUPS_OK_ACKNOWLEDGE)
        self.settles_at_once = mode is AcknowledgeMode.AUTO_ACKNOWLEDGE
        self.gives_back_at_any_time = mode is not AcknowledgeMode.SESSION_TRANSACTED
        """Whether `ProviderSession.recover` may be called now: in a transaction only after `rollback`."""
        self.unacked = UnackedMessages(mode, 0 if self.settles_by_itself else connection.max_unacknowledged)

    def poison(self) -> None:
        """Give up the connection, as a signal has interrupted a call of this session half way."""
        self.connection.poison()

    def check_open(self) -> None:
        """Raise IllegalStateException when the session or its connection is closed."""
        if self.is_closed:
            raise IllegalStateException("the session is closed")

    @property
    def transacted(self) -> bool:
        self.check_open()
        return self._mode is AcknowledgeMode.SESSION_TRANSACTED

    @property
    def acknowledge_mode(self) -> AcknowledgeMode:
        self.check_open()
        return self._mode

    # Acknowledgement (§4.4.11)

    @defers_signals()
    def acknowledge(self, message: Message | None = None) -> None:
        """Acknowledge all messages that the session has delivered so far; in other modes than CLIENT_ACKNOWLEDGE, none."""
        self.check_open()
        if self._mode is not AcknowledgeMode.CLIENT_ACKNOWLEDGE:
            return
        # The messages are taken out before the call: those that a listener's thread enters meanwhile were
        # delivered later, and are not covered.
        deliveries = self.unacked.take()
        try:
            self.provider_session.acknowledge(deliveries)
        # These deliveries are over, and the messages are redelivered: if they were put back, the next
        # call would fail for them, too.
        except TooLateError as error:
            raise to_jms(error) from error
        except Exception as error:
            self.unacked.requeue(deliveries)
            if isinstance(error, ProviderError):
                raise to_jms(error) from error
            raise
        # A session with the most unacknowledged messages allowed has stopped its listeners,
        # which may continue now.
        self._dispatcher.wake()

    @defers_signals()
    def recover(self) -> None:
        self.check_open()
        if self._mode is AcknowledgeMode.SESSION_TRANSACTED:
            raise IllegalStateException("a transacted session recovers by rollback()")
        self._check_thread("recover")
        if not self.settles_by_itself:  # otherwise it may be settled already, and would not be redelivered
            self.release_unreturned_later()
        unacked = self.unacked
        deliveries, pending = unacked.take(), unacked.take_pending_release()
        with mapped_errors:
            try:
                self.provider_session.recover([*deliveries, *pending])
            except Exception:  # the client still has its deliveries, and may acknowledge them yet
                unacked.requeue(deliveries)
                unacked.pending_release = [*pending, *unacked.pending_release]
                raise

    def give_back(self, deliveries: Sequence[Delivery]) -> None:
        """Release `deliveries`, and those pending release. Raises `ProviderError`: all of them are pending then."""
        unacked = self.unacked
        pending = (*deliveries, *unacked.take_pending_release())
        try:
            self.provider_session.recover(pending)
        except Exception:
            unacked.pending_release = (*pending, *unacked.pending_release)
            raise

    def _settle_lazy(self) -> None:
        """Settle the deliveries that a DUPS_OK_ACKNOWLEDGE session has deferred: an orderly end makes no duplicates."""
        if self._mode is AcknowledgeMode.DUPS_OK_ACKNOWLEDGE:
            with suppress(ProviderError):
                self.provider_session.acknowledge(self.unacked.take())

    def _settle_done(self) -> None:
        """Settle deferred deliveries while the session goes on: a client of this mode has no call to settle those that keep a subscription in use."""
        if self._mode is not AcknowledgeMode.DUPS_OK_ACKNOWLEDGE:
            return
        # Under the gate's lock no listener begins between the check and the taking.
        with self.gate.lock:
            if self.gate.runs_listener_elsewhere():
                return  # that thread enters and settles them; its next batch settles them
            # A listener that calls this is processing the latest message, which is settled when it returns.
            done = self.unacked.take_done() if self.gate.runs_listener_here() else self.unacked.take()
        if not done:
            return
        try:
            self.provider_session.acknowledge(done)
        except TooLateError:
            pass  # there is nothing left to settle
        # The close or unsubscribe that calls this need not fail: the next batch settles the messages.
        except ProviderError:
            self.unacked.requeue(done)
        except Exception:
            self.unacked.requeue(done)
            raise

    # Transactions (§4.4.7)

    @defers_signals()
    def commit(self) -> None:
        self._check_transaction("commit")
        self._commit(self.provider_session.commit)

    def check_joins(self) -> None:
        """Raise `JMSException` unless the calling thread may call `commit_with`."""
        self._check_transaction("join")
        self.connection.require(Capability.SHARED_TRANSACTIONS, "transactions that are shared with an application")

    @defers_signals()
    def commit_with(self, transaction: object) -> None:
        """Commit together with a transaction of the application's; see `pyjms.joining.joined`."""
        self.check_joins()
        self._commit(lambda: self.provider_session.commit_with(transaction))

    def _commit(self, commit: Callable[[], None]) -> None:
        self.async_sends.wait()
        if (failure := self.async_sends.take_failure()) is not None:
            self._roll_back()
            rolled_back = RolledBackError(
                f"the transaction was rolled back, as a message of it was not sent: {failure.reason}"
            )
            raise to_jms(rolled_back) from failure
        unacked = self.unacked
        unsettled = unacked.take()
        try:
            self.provider_session.acknowledge(unsettled)
            # Acknowledged deliveries are kept apart: a commit that is repeated must not acknowledge
            # them again, which not every provider allows.
            unacked.committing, unsettled = (*unacked.committing, *unsettled), ()
            commit()
        # The messages are not put back: after a lost connection or an unknown outcome no call of
        # this session can settle them.
        except _UNKNOWN as error:
            unacked.committing = ()
            raise to_jms(error) from error
        except ProviderError as error:
            # The received messages are redelivered, if not by this call, by the next end of a transaction.
            unacked.committing = (*unacked.committing, *unsettled)
            self._raise_rolled_back(error)
        except Exception:  # the outcome is unknown to the client, which may end the transaction once more
            unacked.requeue(unsettled)
            raise
        unacked.committing = ()
        if unacked.pending_release:  # messages of a closed consumer that no client has seen
            with suppress(ProviderError):
                self.give_back(())

    @abstractmethod
    def release_unreturned_later(self) -> None:
        """Add the messages that interrupted receives took, and did not return, to those pending release, after earlier deliveries."""

    def _raise_rolled_back(self, error: ProviderError) -> NoReturn:
        """Release the messages received in a transaction that was not committed, and raise the error that says so."""
        # The provider has rolled back by itself: only the received messages are left to be released.
        if isinstance(error, RolledBackError):
            with mapped_errors:
                self._give_back_received(self.unacked.release_all_later())
            raise to_jms(error) from error
        self._roll_back()
        rolled_back = RolledBackError(f"the transaction was rolled back, as it could not commit: {error.reason}")
        rolled_back.__cause__ = error
        raise to_jms(rolled_back) from error

    @defers_signals()
    def rollback(self) -> None:
        self._check_transaction("rollback")
        self.async_sends.wait()
        # A message that an interrupted receive took belongs to the transaction, although the client has not seen it.
        self.release_unreturned_later()
        self._roll_back()

    def _roll_back(self) -> None:
        self.async_sends.take_failure()
        # Pending release before anything is done: messages sent because of them may be lost, so no commit may settle them.
        deliveries = self.unacked.release_all_later()
        with mapped_errors:
            try:
                self.provider_session.rollback()
            except ProviderError:
                self.unacked.keep_all(deliveries)  # they still belong to the transaction
                raise
            self._give_back_received(deliveries)

    def _give_back_received(self, deliveries: Sequence[Delivery]) -> None:
        """Release the messages received in a transaction, which are pending release first; as failed, if `failure` is set.

        Raises `ProviderError`: those that were not released are still pending.
        """
        unacked = self.unacked
        if self.failure is not None:
            for delivery in deliveries:
                give_back_failed(self.provider_session, self.connection.capabilities, delivery, self.failure)
                # The releases are removed one by one: after an error the earlier ones must not be released
                # a second time.
                unacked.pending_release = unacked.pending_release[1:]
        if unacked.pending_release:
            self.give_back(())

    # Control of the session

    def refuse_in_completion(self, what: str) -> None:
        """Raise IllegalStateException in a completion listener of this session, for which the call would wait (JMS 2.0 §7.3)."""
        if self.async_sends.is_current():
            raise IllegalStateException(f"a completion listener cannot {what}: that would wait for the listener")

    def _check_transaction(self, what: str) -> None:
        self.check_open()
        if self._mode is not AcknowledgeMode.SESSION_TRANSACTED:
            raise IllegalStateException(f"the session is not transacted: {what} needs create_session(True, …)")
        if self.is_joined:
            raise IllegalStateException(
                f"no {what} within joined(): its block commits when it ends, and rolls back if it raises"
            )
        self.refuse_in_completion(f"{what} its own session")
        self._check_thread(what)

    def _check_thread(self, what: str) -> None:
        """Refuse a call that would end another thread's work half way (§4.4.6: one thread controls a session)."""
        # While the gate is shut no listener begins, so any one thread may control the session.
        if self._dispatcher.is_active and self.gate.is_open and not self._dispatcher.is_current():
            raise IllegalStateException(f"the session's listener thread controls it: only its listeners may {what}")
        with self.gate.lock:
            if self.gate.receiver not in (None, get_ident()):
                raise IllegalStateException(f"another thread blocks in a receive of this session: it cannot {what} now")

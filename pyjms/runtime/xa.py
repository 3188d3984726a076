"""Sessions that a transaction manager controls (JMS 1.1 §8): for providers with `Capability.XA`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NoReturn, TypeVar

from pyjms.api.context import JMSContext
from pyjms.api.session import AcknowledgeMode
from pyjms.api.xa import (
    XAConnection,
    XAException,
    XAJMSContext,
    XAQueueConnection,
    XAQueueSession,
    XAResource,
    XASession,
    XATopicConnection,
    XATopicSession,
    Xid,
)
from pyjms.api.xa import XAQueueConnectionFactory as XAQueueConnectionFactoryInterface
from pyjms.api.xa import XATopicConnectionFactory as XATopicConnectionFactoryInterface
from pyjms.errors import JMSException, TransactionInProgressException
from pyjms.runtime.connection import JmsConnection
from pyjms.runtime.context import JmsContext, SharedConnection
from pyjms.runtime.contracts import ConnectionContract
from pyjms.runtime.domains import JmsQueueConnection, JmsQueueSession, JmsTopicConnection, JmsTopicSession
from pyjms.runtime.error_mapping import close_made, runtime_errors
from pyjms.runtime.factory import ConnectionFactory, QueueConnectionFactory, TopicConnectionFactory
from pyjms.runtime.session import JmsSession
from pyjms.spi import xid as spi_xid
from pyjms.spi.capability import Capability
from pyjms.spi.errors import (
    BranchError,
    ClosedError,
    ConnectionLostError,
    InDoubtError,
    ProviderError,
    RolledBackError,
)
from pyjms.spi.interrupts import defers_signals
from pyjms.spi.provider import ProviderSession
from pyjms.spi.xid import BranchFailure

_Connection = TypeVar("_Connection", bound=JmsConnection)
_NO_BRANCH: Final = -1  # the format of the null Xid


class JmsXAResource(XAResource):
    """Carries a transaction manager's calls to the provider's session.

    Messages that the session received since its last `end` belong to the branch that it ends.
    """

    __slots__ = ("_session", "_working")

    def __init__(self, session: JmsSession) -> None:
        self._session = session
        self._working: spi_xid.Xid | None = None

    @property
    def connection(self) -> ConnectionContract:
        """The connection to which this resource belongs."""
        return self._session.connection

    def poison(self) -> None:
        """Give up the connection, as a signal has interrupted a call of this resource half way."""
        self._session.poison()

    @defers_signals()
    def start(self, xid: Xid, flags: int) -> None:
        _check_flags(flags, _START_FLAGS, "start")
        with _xa_errors:
            branch, join, resume = _fact(xid), flags == self.TMJOIN, flags == self.TMRESUME
            self._session.provider_session.xa_start(branch, join=join, resume=resume)
            self._working = branch
            # Sends are allowed once the provider has the branch: if it refuses, they stay refused, too.
            self._session.refuses_sends = False

    @defers_signals()
    def end(self, xid: Xid, flags: int) -> None:
        _check_flags(flags, _END_FLAGS, "end")
        if self._session.async_sends.is_current():
            raise XAException("a completion listener cannot end the work of its own session", XAException.XAER_PROTO)
        with _xa_errors:
            branch, provider = _fact(xid), self._session.provider_session
            failure = self._complete_sends() if branch == self._working else None
            try:
                # A suspended branch may be ended without being resumed (X/Open XA): its messages were
                # handed over at the suspension.
                if branch == self._working:
                    # A send from here on would belong to no branch, and would never be committed.
                    self._session.refuses_sends = True
                    # Received messages are acknowledged in the branch while it is open: later acknowledgements would
                    # belong to no branch.
                    self._acknowledge_received(provider)
                fails = flags == self.TMFAIL or failure is not None
                provider.xa_end(branch, suspend=flags == self.TMSUSPEND and not fails, fail=fails)
                if failure is not None:
                    raise BranchError(
                        f"the branch can only be rolled back, as a message of it was not sent: {failure.reason}",
                        BranchFailure.ROLLED_BACK,
                    ) from failure
            # The branch is left after an error, too: the manager rolls it back, and the session must be
            # free for the next start.
            finally:
                self._leave(branch)

    def _complete_sends(self) -> ProviderError | None:
        """Wait until the asynchronous sends of the branch are complete; return the error of the first that failed."""
        sends = self._session.async_sends
        sends.wait()
        return sends.take_failure()

    def _leave(self, branch: spi_xid.Xid) -> None:
        if self._session.unacked.pending_release:  # messages of a closed consumer that no client has seen
            with suppress(ProviderError):
                self._session.give_back(())
        if branch == self._working:
            self._working = None

    def _acknowledge_received(self, provider: ProviderSession) -> None:
        """Acknowledge received messages in the branch, or keep them if that fails, so that none is lost."""
        deliveries = self._session.unacked.take()
        if not deliveries:
            return
        try:
            provider.acknowledge(deliveries)
        except Exception:
            self._session.unacked.requeue(deliveries)
            raise

    @defers_signals()
    def prepare(self, xid: Xid) -> int:
        try:
            changed = self._session.provider_session.xa_prepare(_fact(xid))
        except ProviderError as error:
            raise _xa_error(error) from error
        # A branch that changed nothing is over with its prepare (X/Open XA): the manager does not commit it.
        return self.XA_OK if changed else self.XA_RDONLY

    @defers_signals()
    def commit(self, xid: Xid, one_phase: bool) -> None:
        try:
            self._session.provider_session.xa_commit(_fact(xid), one_phase=bool(one_phase))
        except ProviderError as error:
            raise _xa_error(error) from error

    @defers_signals()
    def rollback(self, xid: Xid) -> None:
        with _xa_errors:
            self._session.provider_session.xa_rollback(_fact(xid))

    @defers_signals()
    def recover(self, flag: int) -> Sequence[Xid]:
        _check_flags(flag, _SCAN_FLAGS, "recover")
        if not flag & self.TMSTARTRSCAN:
            return ()  # the scan is done in one step
        with _xa_errors:
            return [RecoveredXid(found) for found in self._session.provider_session.xa_recover()]

    @defers_signals()
    def forget(self, xid: Xid) -> None:
        with _xa_errors:
            self._session.provider_session.xa_forget(_fact(xid))

    def is_same_rm(self, xa_resource: XAResource) -> bool:
        return (
            isinstance(xa_resource, JmsXAResource)
            and xa_resource.connection.resource_manager == self.connection.resource_manager
        )

    @defers_signals()
    def get_transaction_timeout(self) -> int:
        with _xa_errors:
            return self._session.provider_session.xa_get_timeout()

    @defers_signals()
    def set_transaction_timeout(self, seconds: int) -> bool:
        if isinstance(seconds, bool) or not isinstance(seconds, int) or seconds < 0:
            raise XAException(f"{seconds!r} is no number of seconds: use 0 or more", XAException.XAER_INVAL)
        with _xa_errors:
            return self._session.provider_session.xa_set_timeout(seconds)


class RecoveredXid(Xid):
    """A branch that the provider returned."""

    __slots__ = ("_fact",)

    def __init__(self, fact: spi_xid.Xid) -> None:
        self._fact = fact

    @property
    def format_id(self) -> int:
        return self._fact.format_id

    @property
    def global_transaction_id(self) -> bytes:
        return self._fact.global_transaction_id

    @property
    def branch_qualifier(self) -> bytes:
        return self._fact.branch_qualifier

    def __repr__(self) -> str:
        fact = self._fact
        return f"RecoveredXid({fact.format_id}, {fact.global_transaction_id!r}, {fact.branch_qualifier!r})"

    def __eq__(self, other: object) -> bool:
        # An Xid of an application's class equals the recovered one of the same parts: managers
        # look their branches up by that.
        return isinstance(other, Xid) and _fact(other) == self._fact

    def __hash__(self) -> int:
        return hash(self._fact)


class _Controlled(JmsSession, XASession):
    """The base of the three kinds of XA session: it is its own `session`, and only XA ends its transactions."""

    _resource: JmsXAResource | None = None

    refuses_sends = True
    """True until a branch is started: a message outside of one would never be committed."""

    @property
    def session(self) -> JmsSession:
        self.check_open()
        return self

    @property
    def xa_resource(self) -> XAResource:
        self.check_open()
        # Each session has one resource, which knows the branch that the session works in.
        if self._resource is None:
            self._resource = JmsXAResource(self)
        return self._resource

    def check_joins(self) -> NoReturn:
        self.check_open()
        raise TransactionInProgressException(
            "the transaction manager ends the transactions of this session: it joins no other"
        )

    def commit(self) -> NoReturn:
        self.check_open()
        raise TransactionInProgressException("the transaction manager commits this session, through its XAResource")

    def rollback(self) -> NoReturn:
        self.check_open()
        raise TransactionInProgressException("the transaction manager rolls this session back, through its XAResource")


class JmsXASession(_Controlled):
    """An XA session of the common interfaces."""


class JmsXAQueueSession(_Controlled, JmsQueueSession, XAQueueSession):
    """An XA session of the queue domain."""

    @property
    def queue_session(self) -> JmsQueueSession:
        self.check_open()
        return self


class JmsXATopicSession(_Controlled, JmsTopicSession, XATopicSession):
    """An XA session of the topic domain."""

    @property
    def topic_session(self) -> JmsTopicSession:
        self.check_open()
        return self


class JmsXAConnection(JmsConnection, XAConnection):
    """An XA connection of the common interfaces."""

    def create_xa_session(self) -> JmsXASession:
        return self.open_session(JmsXASession, True, AcknowledgeMode.SESSION_TRANSACTED)


class JmsXAQueueConnection(JmsQueueConnection, XAQueueConnection):
    """An XA connection of the queue domain."""

    def create_xa_session(self) -> JmsXAQueueSession:
        return self.create_xa_queue_session()

    def create_xa_queue_session(self) -> JmsXAQueueSession:
        return self.open_session(JmsXAQueueSession, True, AcknowledgeMode.SESSION_TRANSACTED)


class JmsXATopicConnection(JmsTopicConnection, XATopicConnection):
    """An XA connection of the topic domain."""

    def create_xa_session(self) -> JmsXATopicSession:
        return self.create_xa_topic_session()

    def create_xa_topic_session(self) -> JmsXATopicSession:
        return self.open_session(JmsXATopicSession, True, AcknowledgeMode.SESSION_TRANSACTED)


class JmsXAContext(JmsContext, XAJMSContext):
    """An XA context: it is its own `context`, and only XA ends its transactions."""

    session_type: type[JmsXASession] = JmsXASession

    @property
    def context(self) -> JMSContext:
        self.check_open()
        return self

    @property
    def xa_resource(self) -> XAResource:
        with runtime_errors:
            session = self._opened()
            assert isinstance(session, JmsXASession)
            return session.xa_resource


_XAContext = TypeVar("_XAContext", bound=JmsXAContext)


class XAConnectionFactory(ConnectionFactory, XAQueueConnectionFactoryInterface, XATopicConnectionFactoryInterface):
    """Makes XA connections, also those of one domain; its options are those of `ConnectionFactory`.

    Each call raises JMSException when the provider lacks `Capability.XA`.
    """

    def create_xa_connection(self, user_name: str | None = None, password: str | None = None) -> JmsXAConnection:
        return self._connect_xa(JmsXAConnection, user_name, password)

    def create_xa_queue_connection(
        self, user_name: str | None = None, password: str | None = None
    ) -> JmsXAQueueConnection:
        """Return an XA connection of the queue domain, stopped."""
        return self._connect_xa(JmsXAQueueConnection, user_name, password)

    def create_xa_topic_connection(
        self, user_name: str | None = None, password: str | None = None
    ) -> JmsXATopicConnection:
        """Return an XA connection of the topic domain, stopped."""
        return self._connect_xa(JmsXATopicConnection, user_name, password)

    def create_xa_context(self, user_name: str | None = None, password: str | None = None) -> XAJMSContext:
        """Return an XA context with a connection of its own."""
        return self.open_xa_context(JmsXAContext, user_name, password)

    @defers_signals(undo=close_made)
    def open_xa_context(self, kind: type[_XAContext], user_name: str | None, password: str | None) -> _XAContext:
        """Return an XA context of the class `kind`."""
        with runtime_errors:
            connection = self._connect_xa(JmsXAConnection, user_name, password)
            return kind(SharedConnection(connection), AcknowledgeMode.SESSION_TRANSACTED)

    def _connect_xa(self, kind: type[_Connection], user_name: str | None, password: str | None) -> _Connection:
        connection = self._connect(kind, user_name, password)
        try:
            # The connection is asked, as a provider over a network knows its broker only now; one
            # without XA is closed again.
            connection.require(Capability.XA, "distributed transactions")
        except JMSException:
            connection.close()
            raise
        return connection


class XAQueueConnectionFactory(XAConnectionFactory, QueueConnectionFactory):
    """Makes XA connections of the queue domain."""

    @classmethod
    def __subclasshook__(cls, other: type) -> bool:
        if cls is XAQueueConnectionFactory and XAQueueConnectionFactoryInterface in other.__mro__:
            return True
        return NotImplemented  # type: ignore[no-any-return]

    def create_xa_connection(self, user_name: str | None = None, password: str | None = None) -> JmsXAQueueConnection:  # type: ignore[override]
        return self.create_xa_queue_connection(user_name, password)


class XATopicConnectionFactory(XAConnectionFactory, TopicConnectionFactory):
    """Makes XA connections of the topic domain."""

    @classmethod
    def __subclasshook__(cls, other: type) -> bool:
        if cls is XATopicConnectionFactory and XATopicConnectionFactoryInterface in other.__mro__:
            return True
        return NotImplemented  # type: ignore[no-any-return]

    def create_xa_connection(self, user_name: str | None = None, password: str | None = None) -> JmsXATopicConnection:  # type: ignore[override]
        return self.create_xa_topic_connection(user_name, password)


class _XAErrors:
    """A context in which SPI errors become XAExceptions."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, ProviderError):
            raise _xa_error(error) from error


_xa_errors = _XAErrors()


def _xa_error(error: ProviderError) -> XAException:
    return XAException(error.reason, _xa_code(error))


def _xa_code(error: ProviderError) -> int:
    # The values of `BranchFailure` are X/Open XA's own codes.
    if isinstance(error, BranchError):
        return error.failure.value
    if isinstance(error, RolledBackError):
        return XAException.XA_RBROLLBACK
    # The outcome is unknown here: RMFAIL makes the manager call `recover` on another connection.
    if isinstance(error, (ConnectionLostError, InDoubtError)):
        return XAException.XAER_RMFAIL
    if isinstance(error, ClosedError):
        return XAException.XAER_PROTO
    return XAException.XAER_RMERR


_START_FLAGS = (XAResource.TMNOFLAGS, XAResource.TMJOIN, XAResource.TMRESUME)
_END_FLAGS = (XAResource.TMSUCCESS, XAResource.TMFAIL, XAResource.TMSUSPEND)
_SCAN_FLAGS = (
    XAResource.TMNOFLAGS,
    XAResource.TMSTARTRSCAN,
    XAResource.TMENDRSCAN,
    XAResource.TMSTARTRSCAN | XAResource.TMENDRSCAN,
)


def _check_flags(flags: int, allowed: tuple[int, ...], call: str) -> None:
    if flags not in allowed:
        known = ", ".join(f"{each:#x}" for each in allowed)
        raise XAException(f"{flags!r} is no flag of {call}: it takes one of {known}", XAException.XAER_INVAL)


def _fact(xid: Xid) -> spi_xid.Xid:
    """Return the branch. Raises `XAException` (XAER_INVAL) for an object that is none, or one whose parts are no bytes or too long."""
    try:
        # `bytes(5)` would make five zero bytes of a number; a memoryview refuses it.
        parts = (memoryview(xid.global_transaction_id), memoryview(xid.branch_qualifier))
        fact = spi_xid.Xid(xid.format_id, bytes(parts[0]), bytes(parts[1]))
    except (AttributeError, TypeError, ValueError) as error:
        raise XAException(f"that is no Xid: {error}", XAException.XAER_INVAL) from error
    if fact.format_id == _NO_BRANCH or not fact.global_transaction_id:
        raise XAException(
            "the Xid names no branch: its format must not be -1, nor its global part empty", XAException.XAER_INVAL
        )
    return fact

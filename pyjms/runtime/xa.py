"""Sessions that a transaction manager controls (JMS 1.1 §8): for providers that have `Capability.XA`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn, TypeVar

from pyjms.api.session import AcknowledgeMode
from pyjms.api.xa import (
    XAConnection,
    XAException,
    XAQueueConnection,
    XAQueueSession,
    XAResource,
    XASession,
    XATopicConnection,
    XATopicSession,
    Xid,
)
from pyjms.api.xa import XAConnectionFactory as XAConnectionFactoryInterface
from pyjms.api.xa import XAQueueConnectionFactory as XAQueueConnectionFactoryInterface
from pyjms.api.xa import XATopicConnectionFactory as XATopicConnectionFactoryInterface
from pyjms.errors import TransactionInProgressException
from pyjms.runtime.connection import JmsConnection
from pyjms.runtime.domains import JmsQueueConnection, JmsQueueSession, JmsTopicConnection, JmsTopicSession
from pyjms.runtime.factory import ConnectionFactory, QueueConnectionFactory, TopicConnectionFactory
from pyjms.runtime.session import JmsSession
from pyjms.spi import xid as spi_xid
from pyjms.spi.capability import Capability
from pyjms.spi.delivery import Delivery
from pyjms.spi.errors import ClosedError, ConnectionLostError, ProviderError, RolledBackError

__all__ = ["XAConnectionFactory", "XAQueueConnectionFactory", "XATopicConnectionFactory"]

_Connection = TypeVar("_Connection", bound=JmsConnection)


class JmsXAResource(XAResource):
    """Carries a transaction manager's calls to the provider's session."""

    __slots__ = ("_received", "_session")

    def __init__(self, session: JmsSession) -> None:
        self._session = session
        self._received: dict[spi_xid.Xid, list[Delivery]] = {}

    @property
    def connection(self) -> JmsConnection:
        """The resource manager's connection that this resource works for."""
        return self._session.connection

    def start(self, xid: Xid, flags: int) -> None:
        with _xa_errors:
            join, resume = bool(flags & self.TMJOIN), bool(flags & self.TMRESUME)
            self._session.provider_session.xa_start(_fact(xid), join=join, resume=resume)

    def end(self, xid: Xid, flags: int) -> None:
        with _xa_errors:
            name, provider = _fact(xid), self._session.provider_session
            deliveries = self._session.ledger.take()
            self._received.setdefault(name, []).extend(deliveries)
            provider.acknowledge(deliveries)
            provider.xa_end(name, suspend=bool(flags & self.TMSUSPEND), fail=bool(flags & self.TMFAIL))

    def prepare(self, xid: Xid) -> int:
        with _xa_errors:
            changed = self._session.provider_session.xa_prepare(_fact(xid))
        return self.XA_OK if changed else self.XA_RDONLY

    def commit(self, xid: Xid, one_phase: bool) -> None:
        with _xa_errors:
            self._session.provider_session.xa_commit(_fact(xid), one_phase=one_phase)
            self._received.pop(_fact(xid), None)

    def rollback(self, xid: Xid) -> None:
        with _xa_errors:
            self._session.provider_session.xa_rollback(_fact(xid))
            self._session.provider_session.recover(self._received.pop(_fact(xid), []))

    def recover(self, flag: int) -> Sequence[Xid]:
        if not flag & self.TMSTARTRSCAN:
            return ()  # the scan is done in one step
        with _xa_errors:
            return [RecoveredXid(found) for found in self._session.provider_session.xa_recover()]

    def forget(self, xid: Xid) -> None:
        with _xa_errors:
            self._session.provider_session.xa_forget(_fact(xid))

    def is_same_rm(self, xa_resource: XAResource) -> bool:
        return isinstance(xa_resource, JmsXAResource) and xa_resource.connection is self.connection

    def get_transaction_timeout(self) -> int:
        return 0

    def set_transaction_timeout(self, seconds: int) -> bool:
        return False


class RecoveredXid(Xid):
    """A branch that the provider named."""

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

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Xid) and _fact(other) == self._fact

    def __hash__(self) -> int:
        return hash(self._fact)


class _Controlled(JmsSession, XASession):
    """What the three kinds of XA session share: it is its own `session`, and only XA ends its transactions."""

    _resource: JmsXAResource | None = None

    @property
    def session(self) -> JmsSession:
        self.check_open()
        return self

    @property
    def xa_resource(self) -> XAResource:
        self.check_open()
        if self._resource is None:
            self._resource = JmsXAResource(self)
        return self._resource

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


class XAConnectionFactory(ConnectionFactory, XAConnectionFactoryInterface):
    """Makes XA connections; its options are those of `ConnectionFactory`.

    Each call raises JMSException when the provider lacks `Capability.XA`.
    """

    def create_xa_connection(self, user_name: str | None = None, password: str | None = None) -> JmsXAConnection:
        return self._connect_xa(JmsXAConnection, user_name, password)

    def _connect_xa(self, kind: type[_Connection], user_name: str | None, password: str | None) -> _Connection:
        connection = self._connect(kind, user_name, password)
        try:
            connection.require(Capability.XA, "distributed transactions")
        except BaseException:
            connection.close()
            raise
        return connection


class XAQueueConnectionFactory(XAConnectionFactory, QueueConnectionFactory, XAQueueConnectionFactoryInterface):
    """Makes XA connections of the queue domain."""

    def create_xa_connection(self, user_name: str | None = None, password: str | None = None) -> JmsXAQueueConnection:  # type: ignore[override]
        return self.create_xa_queue_connection(user_name, password)

    def create_xa_queue_connection(
        self, user_name: str | None = None, password: str | None = None
    ) -> JmsXAQueueConnection:
        return self._connect_xa(JmsXAQueueConnection, user_name, password)


class XATopicConnectionFactory(XAConnectionFactory, TopicConnectionFactory, XATopicConnectionFactoryInterface):
    """Makes XA connections of the topic domain."""

    def create_xa_connection(self, user_name: str | None = None, password: str | None = None) -> JmsXATopicConnection:  # type: ignore[override]
        return self.create_xa_topic_connection(user_name, password)

    def create_xa_topic_connection(
        self, user_name: str | None = None, password: str | None = None
    ) -> JmsXATopicConnection:
        return self._connect_xa(JmsXATopicConnection, user_name, password)


class _XAErrors:
    """A context in which SPI errors become XAExceptions."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, ProviderError):
            raise XAException(error.reason, _xa_code(error)) from error


_xa_errors = _XAErrors()


def _xa_code(error: ProviderError) -> int:
    if isinstance(error, RolledBackError):
        return XAException.XA_RBROLLBACK
    if isinstance(error, ConnectionLostError):
        return XAException.XAER_RMFAIL
    if isinstance(error, ClosedError):
        return XAException.XAER_PROTO
    return XAException.XAER_RMERR


def _fact(xid: Xid) -> spi_xid.Xid:
    return spi_xid.Xid(xid.format_id, bytes(xid.global_transaction_id), bytes(xid.branch_qualifier))

"""Sessions and contexts whose work belongs to a distributed transaction (JMS 1.1 §8, JMS 2.0), and the part of JTA that they need.

`XAResource`, `Xid` and `XAException` are those of ``javax.transaction.xa``: a transaction manager calls the resource
of an `XASession` and implements, or is given, the `Xid` of each branch.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Final

from pyjms.api.connection import Connection, QueueConnection, TopicConnection
from pyjms.api.context import JMSContext
from pyjms.api.factory import QueueConnectionFactory, TopicConnectionFactory
from pyjms.api.names import Interface
from pyjms.api.session import QueueSession, Session, TopicSession
from pyjms.errors import CheckedThrowable, UnsupportedOperationException, application_text


class XAException(CheckedThrowable, Exception, declares=True):
    """javax.transaction.xa.XAException: why a resource refused a call. Not a `JMSException`.

    `error_code` (also ``errorCode``, a field in Java) is one of the constants, which X/Open XA defines; the argument is
    that code, or a text with the code 0.
    """

    XA_RBBASE: Final = 100
    XA_RBROLLBACK: Final = 100
    XA_RBCOMMFAIL: Final = 101
    XA_RBDEADLOCK: Final = 102
    XA_RBINTEGRITY: Final = 103
    XA_RBOTHER: Final = 104
    XA_RBPROTO: Final = 105
    XA_RBTIMEOUT: Final = 106
    XA_RBTRANSIENT: Final = 107
    XA_RBEND: Final = 107
    """From XA_RBBASE to XA_RBEND: the branch was rolled back."""
    XA_NOMIGRATE: Final = 9
    XA_HEURHAZ: Final = 8
    XA_HEURCOM: Final = 7
    XA_HEURRB: Final = 6
    XA_HEURMIX: Final = 5
    """By a decision of the resource, the branch may have been, was, was not, or was partly committed."""
    XA_RETRY: Final = 4
    XA_RDONLY: Final = 3
    XAER_ASYNC: Final = -2
    XAER_RMERR: Final = -3
    """The resource failed."""
    XAER_NOTA: Final = -4
    """There is no such branch."""
    XAER_INVAL: Final = -5
    """The arguments are not valid."""
    XAER_PROTO: Final = -6
    """The call came at a wrong time."""
    XAER_RMFAIL: Final = -7
    """The resource cannot be reached."""
    XAER_DUPID: Final = -8
    """There is such a branch already."""
    XAER_OUTSIDE: Final = -9

    errorCode: int = 0

    def __init__(self, reason: str | int | None = None, error_code: int = 0) -> None:
        super().__init__(*([] if reason is None else [reason]))
        # Java has two constructors, one with a text and one with a code.
        self.errorCode = reason if isinstance(reason, int) else error_code

    @property
    def message(self) -> str | None:
        """The reason given, or None."""
        return self.args[0] if self.args and isinstance(self.args[0], str) else None

    @property
    def error_code(self) -> int:
        """The code of X/Open XA, or 0 if only a text was given."""
        return self.errorCode

    def __str__(self) -> str:
        text = application_text(self)
        if text is None and self.args and isinstance(self.args[0], str):
            text = self.args[0]
        return text or f"XA error {self.errorCode}"

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.args[0] if self.args else None, self.errorCode)


class Xid(Interface, declares=True):
    """javax.transaction.xa.Xid: the name of one branch of a distributed transaction."""

    __slots__ = ()

    MAXGTRIDSIZE: Final = 64
    MAXBQUALSIZE: Final = 64

    @property
    @abstractmethod
    def format_id(self) -> int:
        """The format of the two other parts; -1: no branch at all."""

    @property
    @abstractmethod
    def global_transaction_id(self) -> bytes:
        """The name of the whole transaction, 1 to 64 bytes."""

    @property
    @abstractmethod
    def branch_qualifier(self) -> bytes:
        """The name of this branch within it, up to 64 bytes."""


class XAResource(Interface, declares=True):
    """javax.transaction.xa.XAResource: the interface by which a transaction manager controls a session's work.

    Each method raises `XAException`.
    """

    __slots__ = ()

    TMNOFLAGS: Final = 0x00000000
    TMJOIN: Final = 0x00200000
    TMENDRSCAN: Final = 0x00800000
    TMSTARTRSCAN: Final = 0x01000000
    TMSUSPEND: Final = 0x02000000
    TMSUCCESS: Final = 0x04000000
    TMRESUME: Final = 0x08000000
    TMFAIL: Final = 0x20000000
    TMONEPHASE: Final = 0x40000000
    XA_OK: Final = 0
    XA_RDONLY: Final = 3

    @abstractmethod
    def start(self, xid: Xid, flags: int) -> None:
        """Begin work for branch `xid`; with TMJOIN or TMRESUME, continue it."""

    @abstractmethod
    def end(self, xid: Xid, flags: int) -> None:
        """End the work for branch `xid`: TMSUCCESS, TMFAIL (it can only be rolled back), or TMSUSPEND for a while."""

    @abstractmethod
    def prepare(self, xid: Xid) -> int:
        """Promise that branch `xid` can be committed, even after a failure: XA_OK; XA_RDONLY if it changed nothing."""

    @abstractmethod
    def commit(self, xid: Xid, one_phase: bool) -> None:
        """Commit branch `xid`, prepared before unless `one_phase`."""

    @abstractmethod
    def rollback(self, xid: Xid) -> None:
        """Undo the work of branch `xid`."""

    @abstractmethod
    def recover(self, flag: int) -> Sequence[Xid]:
        """Return the branches that are prepared, or were finished by a decision of the resource.

        `flag`: TMSTARTRSCAN starts a scan, TMENDRSCAN ends it, both together do it at once.
        """

    @abstractmethod
    def forget(self, xid: Xid) -> None:
        """Forget branch `xid`, which the resource had finished by a decision of its own."""

    @abstractmethod
    def is_same_rm(self, xa_resource: XAResource) -> bool:
        """Return whether `xa_resource` belongs to the same resource manager, so that branches may be joined."""

    @abstractmethod
    def get_transaction_timeout(self) -> int:
        """Return the number of seconds after which a branch is rolled back."""

    @abstractmethod
    def set_transaction_timeout(self, seconds: int) -> bool:
        """Set that time, 0: the resource's own default. Return whether the resource supports it."""


class XASession(Session, declares=True):
    """A session whose transactions a transaction manager controls (§8.5)."""

    __slots__ = ()

    @property
    @abstractmethod
    def session(self) -> Session:
        """The session for the application."""

    @property
    @abstractmethod
    def xa_resource(self) -> XAResource:
        """The resource for the transaction manager."""

    @property
    @abstractmethod
    def transacted(self) -> bool:
        """Always True."""

    @abstractmethod
    def commit(self) -> None:
        """Raise `TransactionInProgressException`: only the transaction manager commits."""

    @abstractmethod
    def rollback(self) -> None:
        """Raise `TransactionInProgressException`: only the transaction manager rolls back."""


class XAQueueSession(XASession, declares=True):
    """An XA session of the point-to-point domain (§8.5)."""

    __slots__ = ()

    @property
    @abstractmethod
    def queue_session(self) -> QueueSession:
        """The session for the application."""


class XATopicSession(XASession, declares=True):
    """An XA session of the publish/subscribe domain (§8.5)."""

    __slots__ = ()

    @property
    @abstractmethod
    def topic_session(self) -> TopicSession:
        """The session for the application."""


class XAJMSContext(JMSContext, declares=True):
    """A context whose transactions a transaction manager controls (JMS 2.0)."""

    __slots__ = ()

    @property
    @abstractmethod
    def context(self) -> JMSContext:
        """The context for the application."""

    @property
    @abstractmethod
    def xa_resource(self) -> XAResource:
        """The resource for the transaction manager."""

    @property
    @abstractmethod
    def transacted(self) -> bool:
        """Always True."""

    @abstractmethod
    def commit(self) -> None:
        """Raise `TransactionInProgressRuntimeException`: only the transaction manager commits."""

    @abstractmethod
    def rollback(self) -> None:
        """Raise `TransactionInProgressRuntimeException`: only the transaction manager rolls back."""


class XAConnection(Connection, declares=True):
    """A connection whose sessions may take part in distributed transactions (§8.4)."""

    __slots__ = ()

    @abstractmethod
    def create_xa_session(self) -> XASession:
        """Return a new session for distributed transactions; `create_session` makes an ordinary one."""


class XAQueueConnection(XAConnection, QueueConnection, declares=True):
    """An XA connection of the point-to-point domain (§8.4)."""

    __slots__ = ()

    @abstractmethod
    def create_xa_queue_session(self) -> XAQueueSession:
        """Return a new session for distributed transactions; `create_queue_session` makes an ordinary one."""


class XATopicConnection(XAConnection, TopicConnection, declares=True):
    """An XA connection of the publish/subscribe domain (§8.4)."""

    __slots__ = ()

    @abstractmethod
    def create_xa_topic_session(self) -> XATopicSession:
        """Return a new session for distributed transactions; `create_topic_session` makes an ordinary one."""


class XAConnectionFactory(Interface, declares=True):
    """Makes connections for distributed transactions (§8.3)."""

    __slots__ = ()

    @abstractmethod
    def create_xa_connection(self, user_name: str | None = None, password: str | None = None) -> XAConnection:
        """Return a new, stopped connection, as `ConnectionFactory.create_connection`."""

    def create_xa_context(self, user_name: str | None = None, password: str | None = None) -> XAJMSContext:
        """Return a new context for distributed transactions, as `ConnectionFactory.create_context` (JMS 2.0)."""
        # Not abstract: a factory of an application may know no more than JMS 1.1.
        raise UnsupportedOperationException(f"{type(self).__name__} makes no contexts: it implements JMS 1.1")


class XAQueueConnectionFactory(QueueConnectionFactory, XAConnectionFactory, declares=True):
    """An XA factory of the point-to-point domain (§8.3)."""

    __slots__ = ()

    @abstractmethod
    def create_xa_queue_connection(
        self, user_name: str | None = None, password: str | None = None
    ) -> XAQueueConnection:
        """Return a new, stopped connection, as `ConnectionFactory.create_connection`."""


class XATopicConnectionFactory(TopicConnectionFactory, XAConnectionFactory, declares=True):
    """An XA factory of the publish/subscribe domain (§8.3)."""

    __slots__ = ()

    @abstractmethod
    def create_xa_topic_connection(
        self, user_name: str | None = None, password: str | None = None
    ) -> XATopicConnection:
        """Return a new, stopped connection, as `ConnectionFactory.create_connection`."""

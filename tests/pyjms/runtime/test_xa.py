"""Sessions that a transaction manager controls, over a provider that claims XA (JMS 1.1 §8)."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from pyjms import (
    IllegalStateException,
    JMSException,
    Session,
    TransactionInProgressException,
    XAConnection,
    XAConnectionFactory,
    XAException,
    XAQueueConnectionFactory,
    XAQueueSession,
    XAResource,
    XASession,
    XATopicConnectionFactory,
    XATopicSession,
    Xid,
)
from pyjms.joining import joined
from pyjms.spi import BranchFailure, Capability
from pyjms.spi import Xid as SpiXid
from pyjms.spi.errors import (
    BranchError,
    ClosedError,
    ConnectionLostError,
    InDoubtError,
    ProviderError,
    RolledBackError,
)
from tests.pyjms.runtime.conftest import Connect
from tests.pyjms.runtime.helpers import drain, send_texts, take, take_texts, text_of
from tests.pyjms.runtime.wrapping import Wrapped, raising


class Branch(Xid):
    """A transaction manager's Xid, written with Java's names."""

    def __init__(self, qualifier: str) -> None:
        self._qualifier = qualifier

    def getFormatId(self) -> int:
        return 17

    def getGlobalTransactionId(self) -> bytes:
        return b"global"

    def getBranchQualifier(self) -> bytes:
        return self._qualifier.encode()


@pytest.fixture
def wrapped(jms_broker_url: str) -> Iterator[Wrapped]:
    """A provider that claims XA."""
    with Wrapped(jms_broker_url, add=Capability.XA) as made:
        yield made


@pytest.fixture
def xa(wrapped: Wrapped) -> Iterator[XAConnection]:
    """A started XA connection."""
    with XAConnectionFactory(wrapped.url).create_xa_connection() as connection:
        connection.start()
        yield connection


SESSIONS = ["common", "queue", "topic"]


@pytest.fixture(params=SESSIONS)
def session(request: pytest.FixtureRequest, wrapped: Wrapped) -> Iterator[Any]:
    """An XA session of each kind."""
    connection: Any
    if request.param == "queue":
        connection = XAQueueConnectionFactory(wrapped.url).createXAQueueConnection()
        made: Any = connection.createXAQueueSession()
    elif request.param == "topic":
        connection = XATopicConnectionFactory(wrapped.url).createXATopicConnection()
        made = connection.createXATopicSession()
    else:
        connection = XAConnectionFactory(wrapped.url).createXAConnection()
        made = connection.createXASession()
    yield made
    connection.close()


@pytest.mark.realises("BOIL-JTA-3", "BOIL-EXC-12")
@pytest.mark.parametrize("method", ["commit", "rollback"])
def test_only_the_transaction_manager_ends_transactions(session: Any, method: str) -> None:
    with pytest.raises(TransactionInProgressException):
        getattr(session, method)()


def test_it_joins_no_transaction_of_an_application(session: Any) -> None:
    tables: Any = None
    with pytest.raises(TransactionInProgressException), joined(session, tables):
        pytest.fail("the block would be for nothing")


def test_an_xa_session_is_transacted(session: Any) -> None:
    assert session.transacted is True
    assert session.getTransacted() is True
    assert session.acknowledge_mode == Session.SESSION_TRANSACTED
    with pytest.raises(JMSException):
        session.recover()


def test_it_gives_its_session_and_its_resource(session: Any) -> None:
    assert isinstance(session.xa_resource, XAResource)
    assert session.getXAResource() is session.xa_resource
    assert isinstance(session.session, Session)
    if isinstance(session, XAQueueSession):
        assert session.getQueueSession() is session.queue_session
    elif isinstance(session, XATopicSession):
        assert session.getTopicSession() is session.topic_session
    else:
        assert isinstance(session, XASession)


@pytest.mark.realises("BOIL-JTA-3")
def test_a_plain_session_of_an_xa_connection_is_its_own_master(xa: XAConnection) -> None:
    session = xa.create_session(True, 0)
    queue = session.create_queue("orders")
    send_texts(session, queue, "espresso")
    session.commit()
    assert take_texts(session.create_consumer(queue), 1) == ["espresso"]
    session.rollback()


class TestResource:
    def test_a_branch_from_start_to_commit(self, wrapped: Wrapped, xa: XAConnection, connect: Connect) -> None:
        session, other = xa.create_xa_session(), connect().create_session()
        orders, bills = session.create_queue("orders"), session.create_queue("bills")
        resource, branch = session.xa_resource, Branch("one")
        send_texts(other, orders, "espresso")
        resource.start(branch, XAResource.TMNOFLAGS)
        message = take(session.create_consumer(orders))
        send_texts(session, bills, f"bill for {text_of(message)}")
        resource.end(branch, XAResource.TMSUCCESS)
        assert drain(other.create_consumer(bills)) == []
        assert resource.prepare(branch) == XAResource.XA_OK
        resource.commit(branch, False)
        assert drain(other.create_consumer(bills)) == ["bill for espresso"]
        xa.close()
        assert drain(other.create_consumer(orders)) == []
        calls = [call for call in wrapped.calls if call.startswith("xa_")]
        assert calls == [
            "xa_start one join=False resume=False",
            "xa_end one suspend=False fail=False",
            "xa_prepare",
            "xa_commit one_phase=False",
        ]

    def test_a_rollback_recovers(self, xa: XAConnection, connect: Connect) -> None:
        session, other = xa.create_xa_session(), connect().create_session()
        orders, bills = session.create_queue("orders"), session.create_queue("bills")
        resource, branch = session.xa_resource, Branch("one")
        send_texts(other, orders, "espresso")
        consumer = session.create_consumer(orders)
        resource.start(branch, XAResource.TMNOFLAGS)
        take(consumer)
        send_texts(session, bills, "bill")
        resource.end(branch, XAResource.TMFAIL)
        resource.rollback(branch)
        assert drain(other.create_consumer(bills)) == []
        again = take(other.create_consumer(orders))
        assert (text_of(again), again.jms_redelivered) == ("espresso", True)

    def test_flags(self, wrapped: Wrapped, xa: XAConnection) -> None:
        resource, branch = xa.create_xa_session().xa_resource, Branch("one")
        resource.start(branch, XAResource.TMJOIN)
        resource.end(branch, XAResource.TMSUSPEND)
        resource.start(branch, XAResource.TMRESUME)
        resource.end(branch, XAResource.TMFAIL)
        resource.commit(branch, True)
        assert [call for call in wrapped.calls if call.startswith("xa_")] == [
            "xa_start one join=True resume=False",
            "xa_end one suspend=True fail=False",
            "xa_start one join=False resume=True",
            "xa_end one suspend=False fail=True",
            "xa_commit one_phase=True",
        ]

    def test_read_only(self, wrapped: Wrapped, xa: XAConnection) -> None:
        resource = xa.create_xa_session().xa_resource
        wrapped.xa_answers["prepare"] = False
        assert resource.prepare(Branch("one")) == XAResource.XA_RDONLY

    def test_recovery(self, wrapped: Wrapped, xa: XAConnection) -> None:
        resource = xa.create_xa_session().xa_resource
        wrapped.xa_answers["recover"] = (SpiXid(17, b"global", b"one"), SpiXid(17, b"global", b"two"))
        found = resource.recover(XAResource.TMSTARTRSCAN | XAResource.TMENDRSCAN)
        assert [each.getBranchQualifier() for each in found] == [b"one", b"two"]
        assert found[0] == Branch("one")
        assert len({*found, *found}) == 2
        assert not resource.recover(XAResource.TMNOFLAGS)
        resource.forget(found[0])
        assert wrapped.calls[-1] == "xa_forget"

    def test_the_same_resource_manager(self, wrapped: Wrapped, xa: XAConnection) -> None:
        first, second = xa.create_xa_session().xa_resource, xa.create_xa_session().xa_resource
        assert first.is_same_rm(first)
        assert first.is_same_rm(second)
        with XAConnectionFactory(wrapped.url).create_xa_connection() as other:  # the wrapper says nothing of itself
            assert not first.is_same_rm(other.create_xa_session().xa_resource)

    def test_timeouts_are_not_offered(self, xa: XAConnection) -> None:
        resource = xa.create_xa_session().xa_resource
        assert resource.set_transaction_timeout(30) is False
        assert resource.get_transaction_timeout() == 0

    @pytest.mark.parametrize(
        ("error", "code"),
        [
            (RolledBackError("x"), XAException.XA_RBROLLBACK),
            (ConnectionLostError("x"), XAException.XAER_RMFAIL),
            (ClosedError("x"), XAException.XAER_PROTO),
            (ProviderError("x"), XAException.XAER_RMERR),
            (InDoubtError("x"), XAException.XAER_RMFAIL),
            *((BranchError("x", failure), failure.value) for failure in BranchFailure),
        ],
        ids=lambda each: type(each).__name__ if isinstance(each, ProviderError) else None,
    )
    def test_errors_have_the_codes_of_xa(
        self, wrapped: Wrapped, xa: XAConnection, error: ProviderError, code: int
    ) -> None:
        resource = xa.create_xa_session().xa_resource
        wrapped.before["xa_prepare"] = raising(error)
        with pytest.raises(XAException) as caught:
            resource.prepare(Branch("one"))
        assert caught.value.error_code == caught.value.errorCode == code
        assert caught.value.__cause__ is error


class TestMistakes:
    @pytest.mark.parametrize(
        ("call", "flags"),
        [
            ("start", XAResource.TMJOIN | XAResource.TMRESUME),
            ("start", XAResource.TMSUSPEND),
            ("end", XAResource.TMNOFLAGS),
            ("end", XAResource.TMSUSPEND | XAResource.TMFAIL),
            ("recover", XAResource.TMJOIN),
        ],
    )
    def test_flags_that_do_not_belong_there(self, wrapped: Wrapped, xa: XAConnection, call: str, flags: int) -> None:
        resource = xa.create_xa_session().xa_resource
        arguments = (flags,) if call == "recover" else (Branch("one"), flags)
        with pytest.raises(XAException, match=f"no flag of {call}") as caught:
            getattr(resource, call)(*arguments)
        assert caught.value.error_code == XAException.XAER_INVAL
        assert not [each for each in wrapped.calls if each.startswith("xa_")]

    @pytest.mark.parametrize(
        "xid", [SpiXid(-1, b"g", b"b"), SpiXid(1, b"", b"b")], ids=["the null Xid", "no global part"]
    )
    def test_an_xid_that_names_no_branch(self, xa: XAConnection, xid: Any) -> None:
        with pytest.raises(XAException) as caught:
            xa.create_xa_session().xa_resource.start(xid, XAResource.TMNOFLAGS)
        assert caught.value.error_code == XAException.XAER_INVAL

    @pytest.mark.parametrize(
        "xid",
        [None, SimpleNamespace(format_id=1, global_transaction_id="text", branch_qualifier=None)],
        ids=["none", "text"],
    )
    @pytest.mark.parametrize("call", ["prepare", "rollback", "forget"])
    def test_what_is_no_xid(self, xa: XAConnection, call: str, xid: Any) -> None:
        resource = xa.create_xa_session().xa_resource
        with pytest.raises(XAException, match="no Xid") as caught:
            getattr(resource, call)(xid)
        assert caught.value.error_code == XAException.XAER_INVAL

    def test_an_xid_that_is_too_long(self, xa: XAConnection) -> None:
        with pytest.raises(XAException, match="64") as caught:
            xa.create_xa_session().xa_resource.start(Branch("x" * 65), XAResource.TMNOFLAGS)
        assert caught.value.error_code == XAException.XAER_INVAL

    @pytest.mark.parametrize("seconds", [-1, True, 1.5])
    def test_a_timeout_that_is_none(self, xa: XAConnection, seconds: Any) -> None:
        with pytest.raises(XAException) as caught:
            xa.create_xa_session().xa_resource.set_transaction_timeout(seconds)
        assert caught.value.error_code == XAException.XAER_INVAL

    def test_what_nobody_would_commit_is_not_sent(self, wrapped: Wrapped, xa: XAConnection) -> None:
        session = xa.create_xa_session()
        producer, message = session.create_producer(session.create_queue("orders")), session.create_text_message("x")
        with pytest.raises(IllegalStateException, match=r"XAResource\.start"):
            producer.send(message)
        session.xa_resource.start(Branch("one"), XAResource.TMNOFLAGS)
        producer.send(message)
        session.xa_resource.end(Branch("one"), XAResource.TMSUSPEND)
        with pytest.raises(IllegalStateException):
            producer.send(message)
        assert wrapped.calls.count("send") == 1

    def test_what_cannot_be_handed_to_the_branch_stays_with_the_session(
        self, wrapped: Wrapped, xa: XAConnection, connect: Connect
    ) -> None:
        session, other = xa.create_xa_session(), connect().create_session()
        orders, resource = session.create_queue("orders"), session.xa_resource
        send_texts(other, orders, "espresso")
        resource.start(Branch("one"), XAResource.TMNOFLAGS)
        take(session.create_consumer(orders))
        wrapped.before["acknowledge"] = raising(ConnectionLostError("x"))
        with pytest.raises(XAException):
            resource.end(Branch("one"), XAResource.TMSUCCESS)
        session.close()
        assert drain(other.create_consumer(orders)) == ["espresso"]


@pytest.mark.parametrize("kind", [XAConnectionFactory, XAQueueConnectionFactory, XATopicConnectionFactory])
def test_a_provider_without_it_says_so(jms_broker_url: str, kind: Any) -> None:
    with Wrapped(jms_broker_url, remove=Capability.XA) as wrapped:
        with pytest.raises(JMSException, match=r"Capability\.XA") as caught:
            kind(wrapped.url).create_xa_connection()
        assert caught.value.error_code == "PYJMS-CAPABILITY"
        assert wrapped.calls[-1] == "close", "the connection was left open"


@pytest.mark.parametrize(
    ("capability", "use"),
    [
        (Capability.TOPICS, lambda session: session.create_topic("prices")),
        (Capability.DURABLE_SUBSCRIPTIONS, lambda session: session.unsubscribe("all")),
        (Capability.BROWSING, lambda session: session.create_browser(session.create_queue("orders"))),
        (Capability.SELECTORS, lambda session: session.create_consumer(session.create_queue("orders"), "a = 1")),
        (Capability.TRANSACTIONS, lambda session: session.connection.create_session(True, 0)),
        (Capability.TEMPORARY_DESTINATIONS, lambda session: session.create_temporary_queue()),
        (Capability.NO_LOCAL, lambda session: session.create_consumer(session.create_topic("prices"), None, True)),
        (Capability.SELECTORS, lambda session: session.create_browser(session.create_queue("orders"), "a = 1")),
    ],
    ids=["TOPICS", "DURABLE", "BROWSING", "SELECTORS", "TRANSACTIONS", "TEMPORARY", "NO_LOCAL", "BROWSER_SELECTORS"],
)
def test_what_a_provider_lacks_is_named(jms_broker_url: str, capability: Capability, use: Any) -> None:
    with Wrapped(jms_broker_url, remove=capability) as wrapped:
        from pyjms import ConnectionFactory

        with ConnectionFactory(wrapped.url, client_id="shop").create_connection() as connection:
            with pytest.raises(JMSException) as caught:
                use(connection.create_session())
            assert caught.value.error_code == "PYJMS-CAPABILITY"
            assert str(capability.name) in str(caught.value)

"""Distributed transactions: factories, connections, sessions and their resources (8.3 to 8.5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from pyjms import (
    Connection,
    Queue,
    QueueSession,
    Session,
    TopicSession,
    TransactionInProgressException,
    XAConnection,
    XAConnectionFactory,
    XAQueueConnection,
    XAQueueConnectionFactory,
    XAQueueSession,
    XAResource,
    XASession,
    XATopicConnection,
    XATopicConnectionFactory,
    XATopicSession,
)
from pyjms_tck.environment import Waits
from pyjms_tck.fixtures import MakeDestination, MakeFactory, MakeName
from pyjms_tck.profile import Profile
from pyjms_tck.requirements import needs, requirement
from pyjms_tck.suite.chapter_08.branches import Branch
from pyjms_tck.suite.exchange import in_each_mode, leftovers, send_texts, take, take_texts

DOMAINS = ["common", "queue", pytest.param("topic", marks=needs("TOPICS"))]


@pytest.fixture
def branch(make_name: MakeName) -> Branch:
    """The name of a new branch."""
    return Branch(make_name("branch"))


@pytest.fixture
def connect_xa(make_factory: MakeFactory) -> Iterator[Callable[..., Any]]:
    """Make XA connections of a domain, closed after the test: ``connect_xa("queue", user_name, password)``."""
    with ExitStack() as opened:

        def connect(domain: str, *credentials: str) -> Any:
            connection: Connection
            if domain == "queue":
                connection = make_factory(XAQueueConnectionFactory).createXAQueueConnection(*credentials)
            elif domain == "topic":
                connection = make_factory(XATopicConnectionFactory).createXATopicConnection(*credentials)
            else:
                connection = make_factory(XAConnectionFactory).createXAConnection(*credentials)
            return opened.enter_context(connection)

        yield connect


KINDS = {"common": XAConnection, "queue": XAQueueConnection, "topic": XATopicConnection}


@requirement("8.3-a")
@pytest.mark.parametrize("domain", DOMAINS)
def test_8_3_a_a_new_xa_connection_is_stopped(
    connect_xa: Callable[..., Any], session: Session, waits: Waits, domain: str, request: pytest.FixtureRequest
) -> None:
    destination = request.getfixturevalue("topic" if domain == "topic" else "queue")
    _starts_stopped(connect_xa(domain), KINDS[domain], session, destination, waits)


@requirement("8.3-b")
@pytest.mark.parametrize("domain", DOMAINS)
def test_8_3_b_a_new_xa_connection_with_credentials_is_stopped(
    connect_xa: Callable[..., Any],
    profile: Profile,
    session: Session,
    waits: Waits,
    domain: str,
    request: pytest.FixtureRequest,
) -> None:
    destination = request.getfixturevalue("topic" if domain == "topic" else "queue")
    connection = connect_xa(domain, profile.user_name or "guest", profile.password or "guest")
    _starts_stopped(connection, KINDS[domain], session, destination, waits)


def _starts_stopped(connection: Any, kind: type[Any], session: Session, destination: Any, waits: Waits) -> None:
    assert isinstance(connection, kind), "the connection of its domain"
    consumer = connection.createSession(False, Session.AUTO_ACKNOWLEDGE).createConsumer(destination)
    send_texts(session, destination, "early")
    assert leftovers(consumer, waits) == [], "a connection that was not started delivers nothing"
    connection.start()
    assert take(consumer, waits).getText() == "early"


@requirement("8.4-a")
@pytest.mark.parametrize("domain", DOMAINS)
def test_8_4_a_an_xa_connection_makes_xa_sessions(connect_xa: Callable[..., Any], domain: str) -> None:
    connection = connect_xa(domain)
    assert isinstance(connection.createXASession(), XASession)
    if domain == "queue":
        assert isinstance(connection.createXAQueueSession(), XAQueueSession)
    if domain == "topic":
        assert isinstance(connection.createXATopicSession(), XATopicSession)


@requirement("8.4-b")
@pytest.mark.parametrize("domain", DOMAINS)
@in_each_mode
def test_8_4_b_an_xa_connection_makes_ordinary_sessions(
    connect_xa: Callable[..., Any], domain: str, transacted: bool, asked: int, mode: int
) -> None:
    connection = connect_xa(domain)
    make = {"queue": "createQueueSession", "topic": "createTopicSession"}.get(domain, "createSession")
    session = getattr(connection, make)(transacted, asked)
    assert not isinstance(session, XASession), "an ordinary session"
    assert (session.getTransacted(), session.getAcknowledgeMode()) == (transacted, mode)
    if transacted:
        session.commit()  # which an XA session refuses


@requirement("8.5-a")
@pytest.mark.parametrize("domain", DOMAINS)
def test_8_5_a_an_xa_session_gives_the_session_to_work_with(connect_xa: Callable[..., Any], domain: str) -> None:
    session = connect_xa(domain).createXASession()
    assert isinstance(session.getSession(), Session)
    if domain == "queue":
        assert isinstance(session.getQueueSession(), QueueSession)
    if domain == "topic":
        assert isinstance(session.getTopicSession(), TopicSession)


@requirement("8.5-b")
@pytest.mark.parametrize("one_phase", [False, True], ids=["two phases", "one phase"])
def test_8_5_b_the_work_of_a_branch_is_committed(
    connect_xa: Callable[..., Any],
    branch: Branch,
    session: Session,
    make_queue: MakeDestination,
    waits: Waits,
    one_phase: bool,
) -> None:
    inbound, outbound = make_queue(), make_queue()
    connection, results = connect_xa("common"), session.createConsumer(outbound)
    resource = _work(connection, branch, session, (inbound, outbound), waits)
    assert leftovers(results, waits) == [], "before the commit nobody sees what the branch sent"
    if not one_phase:
        # Not XA_RDONLY: a branch that has sent and received is to be committed.
        assert resource.prepare(branch) == XAResource.XA_OK
        assert leftovers(results, waits) == [], "nor when it is prepared"
    resource.commit(branch, one_phase)
    assert take(results, waits).getText() == "sent in the branch"
    # Closed before the queue is looked at: while it is open, the session would hide what the commit left out.
    connection.close()
    assert leftovers(session.createConsumer(inbound), waits) == [], "what the branch received is acknowledged"


@requirement("8.5-b")
@pytest.mark.parametrize("prepared", [False, True], ids=["at once", "after prepare"])
def test_8_5_b_the_work_of_a_branch_is_rolled_back(
    connect_xa: Callable[..., Any],
    branch: Branch,
    session: Session,
    make_queue: MakeDestination,
    waits: Waits,
    prepared: bool,
) -> None:
    inbound, outbound = make_queue(), make_queue()
    connection = connect_xa("common")
    resource = _work(connection, branch, session, (inbound, outbound), waits)
    if prepared:
        assert resource.prepare(branch) == XAResource.XA_OK
    resource.rollback(branch)
    # Closed before the queue is looked at: the branch's own consumer would get the message again.
    connection.close()
    assert leftovers(session.createConsumer(outbound), waits) == [], "what the branch sent is discarded"
    again = take(session.createConsumer(inbound), waits, "what the branch received, again")
    assert (again.getText(), again.getJMSRedelivered()) == ("received in the branch", True)


def _work(
    connection: XAConnection, branch: Branch, session: Session, queues: tuple[Queue, Queue], waits: Waits
) -> XAResource:
    """Receive and send a message in a branch that is ended, and return the resource that decides about it."""
    inbound, outbound = queues
    send_texts(session, inbound, "received in the branch")
    # An XA connection is made stopped, like any other (§8.3).
    connection.start()
    xa_session = connection.createXASession()
    resource, work = xa_session.getXAResource(), xa_session.getSession()
    assert isinstance(resource, XAResource)
    consumer = work.createConsumer(inbound)
    resource.start(branch, XAResource.TMNOFLAGS)
    assert take_texts(consumer, waits, 1) == ["received in the branch"]
    send_texts(work, outbound, "sent in the branch")
    resource.end(branch, XAResource.TMSUCCESS)
    return resource


@requirement("8.5-c")
@pytest.mark.parametrize("domain", DOMAINS)
def test_8_5_c_an_xa_session_is_transacted(connect_xa: Callable[..., Any], domain: str) -> None:
    session = connect_xa(domain).createXASession()
    assert session.getTransacted() is True
    assert session.getAcknowledgeMode() == Session.SESSION_TRANSACTED


@requirement("8.5-d", "7.3-l")
@pytest.mark.parametrize("domain", DOMAINS)
def test_8_5_d_an_xa_session_is_not_committed_by_its_client(connect_xa: Callable[..., Any], domain: str) -> None:
    session = connect_xa(domain).createXASession()
    with pytest.raises(TransactionInProgressException):
        session.commit()


@requirement("8.5-e", "7.3-l")
@pytest.mark.parametrize("domain", DOMAINS)
def test_8_5_e_an_xa_session_is_not_rolled_back_by_its_client(connect_xa: Callable[..., Any], domain: str) -> None:
    session = connect_xa(domain).createXASession()
    with pytest.raises(TransactionInProgressException):
        session.rollback()

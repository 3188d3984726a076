"""XA as an application server sees it: connections, sessions and resources of JMS, under both names, on a durable broker."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Semaphore, Thread
from typing import Any

import pytest

from pyjms import (
    JMSException,
    ServerSession,
    ServerSessionPool,
    Session,
    TransactionInProgressException,
    XAConnectionFactory,
    XAException,
    XAQueueConnectionFactory,
    XAResource,
    XASession,
    XATopicConnectionFactory,
    Xid,
)
from pyjms.spi.registry import find_provider
from pyjms.spi.url import ProviderUrl
from pyjms_provider.broker import running_broker
from tests.provider.xa.coordinator import BranchId, Coordinator

PATIENCE_MS = 10_000
ONE, TWO = BranchId("one", "broker"), BranchId("two", "broker")

pytestmark = pytest.mark.realises("MOM-10", "BOIL-JTA-1", "BOIL-JTA-2")


class Site:
    """A broker on a file, that can be stopped and started."""

    def __init__(self, directory: Path) -> None:
        self.url = f"vm://xa-jms?store=sqlite:///{directory / 'broker.db'}&synchronous=off"
        self._opened = ExitStack()

    def connect(self, kind: Any = XAConnectionFactory) -> Any:
        """Return a started XA connection."""
        factory = kind(self.url)
        make = {
            XAQueueConnectionFactory: "createXAQueueConnection",
            XATopicConnectionFactory: "createXATopicConnection",
        }.get(kind, "createXAConnection")
        connection = self._opened.enter_context(getattr(factory, make)())
        connection.start()
        return connection

    def stop(self) -> None:
        """Stop the broker."""
        self._opened.close()
        find_provider("vm").stop_broker(ProviderUrl.parse(self.url))

    def texts(self, name: str) -> list[str]:
        """Return what is in a queue."""
        session = self.connect().create_session()
        with session.create_browser(session.create_queue(name)) as browser:
            return [message.text for message in browser]

    def send(self, *orders: str) -> None:
        """Send orders, outside of all branches."""
        session = self.connect().create_session()
        for order in orders:
            session.create_producer(session.create_queue("orders")).send(session.create_text_message(order))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.stop()


def bill_one(session: Any) -> str:
    """Take an order and send a bill; return the order."""
    consumer = session.create_consumer(session.create_queue("orders"))
    message = consumer.receive(PATIENCE_MS)
    consumer.close()
    session.create_producer(session.create_queue("bills")).send(session.create_text_message(f"bill for {message.text}"))
    text: str = message.text
    return text


def code_of(call: Any, *arguments: object) -> int:
    """Return the code with which a call of a resource is refused."""
    with pytest.raises(XAException) as caught:
        call(*arguments)
    assert caught.value.errorCode == caught.value.error_code
    return caught.value.error_code


def test_a_branch_under_names_of_python(site: Site) -> None:
    site.send("espresso")
    session = site.connect().create_xa_session()
    resource = session.xa_resource
    resource.start(ONE, XAResource.TMNOFLAGS)
    assert bill_one(session.session) == "espresso"
    resource.end(ONE, XAResource.TMSUCCESS)
    assert resource.prepare(ONE) == XAResource.XA_OK
    assert (site.texts("orders"), site.texts("bills")) == ([], [])
    resource.commit(ONE, False)
    assert (site.texts("orders"), site.texts("bills")) == ([], ["bill for espresso"])


def test_a_branch_under_names_of_java(site: Site) -> None:
    site.send("espresso")
    session = site.connect().createXASession()
    resource = session.getXAResource()
    resource.start(ONE, XAResource.TMNOFLAGS)
    work = session.getSession()
    message = work.createConsumer(work.createQueue("orders")).receive(PATIENCE_MS)
    bill = work.createTextMessage(f"bill for {message.getText()}")
    work.createProducer(work.createQueue("bills")).send(bill)
    resource.end(ONE, XAResource.TMSUCCESS)
    resource.commit(ONE, True)
    assert resource.isSameRM(site.connect().createXASession().getXAResource())
    assert resource.setTransactionTimeout(20)
    assert resource.getTransactionTimeout() == 20
    assert (site.texts("orders"), site.texts("bills")) == ([], ["bill for espresso"])


def test_queues_and_topics_have_their_own_kinds(site: Site) -> None:
    queue_session = site.connect(XAQueueConnectionFactory).createXAQueueSession()
    topic_session = site.connect(XATopicConnectionFactory).createXATopicSession()
    news = topic_session.getTopicSession().createSubscriber(topic_session.createTopic("news"))
    queue_session.getXAResource().start(ONE, XAResource.TMNOFLAGS)
    topic_session.getXAResource().start(ONE, XAResource.TMJOIN)
    sender = queue_session.getQueueSession().createSender(queue_session.createQueue("bills"))
    sender.send(queue_session.createTextMessage("bill"))
    publisher = topic_session.getTopicSession().createPublisher(topic_session.createTopic("news"))
    publisher.publish(topic_session.createTextMessage("sold"))
    assert news.receiveNoWait() is None
    queue_session.getXAResource().end(ONE, XAResource.TMSUCCESS)
    topic_session.getXAResource().end(ONE, XAResource.TMSUCCESS)
    assert topic_session.getXAResource().prepare(ONE) == XAResource.XA_OK
    queue_session.getXAResource().commit(ONE, False)
    assert news.receive(PATIENCE_MS).getText() == "sold"
    assert site.texts("bills") == ["bill"]


def test_only_the_manager_ends_the_branch(site: Site) -> None:
    session = site.connect().create_xa_session()
    session.xa_resource.start(ONE, XAResource.TMNOFLAGS)
    for call in (session.commit, session.rollback, session.session.commit):
        with pytest.raises(TransactionInProgressException):
            call()


def test_what_was_received_before_the_branch_ended_belongs_to_it(site: Site) -> None:
    site.send("espresso")
    session = site.connect().create_xa_session()
    session.xa_resource.start(ONE, XAResource.TMNOFLAGS)
    bill_one(session)
    session.xa_resource.end(ONE, XAResource.TMFAIL)
    session.xa_resource.rollback(ONE)
    again = site.connect().create_session()
    message = again.create_consumer(again.create_queue("orders")).receive(PATIENCE_MS)
    assert (message.text, message.jms_redelivered) == ("espresso", True)


class OneServer(ServerSessionPool, ServerSession):
    """An application server in small: each message it is given is processed in a branch of its own."""

    def __init__(self, session: XASession) -> None:
        self._session = session
        self._branches = iter([ONE, TWO])
        self._free = Semaphore(1)
        self.done = Semaphore(0)

    def get_server_session(self) -> ServerSession:
        assert self._free.acquire(timeout=PATIENCE_MS / 1000)
        return self

    @property
    def session(self) -> Session:
        return self._session.session

    def start(self) -> None:
        Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        branch, resource = next(self._branches), self._session.xa_resource
        resource.start(branch, XAResource.TMNOFLAGS)
        self._session.run()
        resource.end(branch, XAResource.TMSUCCESS)
        resource.commit(branch, True) if branch is TWO else resource.rollback(branch)
        self._free.release()
        self.done.release()


def test_an_application_server_processes_each_message_in_a_branch(site: Site) -> None:
    """The first branch is rolled back, so its message comes again, and is processed in the second (JMS 1.1 §8.2)."""
    connection = site.connect()
    session = connection.create_xa_session()
    heard: list[tuple[str, bool]] = []

    def listen(message: Any) -> None:
        heard.append((message.text, message.jms_redelivered))
        bills = session.create_producer(session.create_queue("bills"))
        bills.send(session.create_text_message(f"bill for {message.text}"))

    session.message_listener = listen
    server = OneServer(session)
    connection.create_connection_consumer(session.create_queue("orders"), None, server, 1)
    site.send("espresso")
    for _ in range(2):
        assert server.done.acquire(timeout=PATIENCE_MS / 1000)
    assert heard == [("espresso", False), ("espresso", True)]
    assert (site.texts("orders"), site.texts("bills")) == ([], ["bill for espresso"])


def test_work_that_is_suspended_keeps_what_was_received(site: Site) -> None:
    site.send("espresso", "latte")
    session = site.connect().create_xa_session()
    resource = session.xa_resource
    resource.start(ONE, XAResource.TMNOFLAGS)
    bill_one(session)
    resource.end(ONE, XAResource.TMSUSPEND)
    resource.start(TWO, XAResource.TMNOFLAGS)
    bill_one(session)
    resource.end(TWO, XAResource.TMSUCCESS)
    resource.start(ONE, XAResource.TMRESUME)
    resource.end(ONE, XAResource.TMSUCCESS)
    resource.commit(ONE, True)
    resource.rollback(TWO)
    assert (site.texts("orders"), site.texts("bills")) == (["latte"], ["bill for espresso"])


def test_what_is_prepared_survives_the_broker_and_is_found_by_the_scan(site: Site) -> None:
    site.send("espresso")
    session = site.connect().create_xa_session()
    session.xa_resource.start(ONE, XAResource.TMNOFLAGS)
    bill_one(session)
    session.xa_resource.end(ONE, XAResource.TMSUCCESS)
    session.xa_resource.prepare(ONE)
    site.stop()
    resource = site.connect().create_xa_session().xa_resource
    assert resource.recover(XAResource.TMNOFLAGS) == ()
    (found,) = resource.recover(XAResource.TMSTARTRSCAN | XAResource.TMENDRSCAN)
    assert (
        repr(found) == f"RecoveredXid({found.format_id}, {found.global_transaction_id!r}, {found.branch_qualifier!r})"
    )
    assert isinstance(found, Xid)
    assert (found.getFormatId(), found.getGlobalTransactionId()) == (4711, b"one")
    resource.commit(found, False)
    assert (site.texts("orders"), site.texts("bills")) == ([], ["bill for espresso"])


@pytest.mark.parametrize("operator_commits", [False, True])
def test_a_coordinator_learns_what_an_operator_did(site: Site, tmp_path: Path, operator_commits: bool) -> None:
    """The operator settles it, then the coordinator comes back, whose log has no decision: it rolls back."""
    site.send("espresso")
    session = site.connect().create_xa_session()
    session.xa_resource.start(ONE, XAResource.TMNOFLAGS)
    bill_one(session)
    session.xa_resource.end(ONE, XAResource.TMSUCCESS)
    session.xa_resource.prepare(ONE)
    broker = running_broker("xa-jms")
    assert broker is not None
    (report,) = broker.virtual_host.branches.reports()
    broker.virtual_host.branches.settle_heuristically(report.xid, commit=operator_commits)
    coordinator = Coordinator(tmp_path / "log")
    resource = site.connect().create_xa_session().xa_resource
    expected = XAException.XA_HEURCOM if operator_commits else XAException.XA_HEURRB
    assert code_of(resource.commit, ONE, False) == expected
    assert code_of(resource.rollback, ONE) == expected
    coordinator.recover({"broker": resource})
    assert coordinator.heuristics == (["one"] if operator_commits else [])
    assert not broker.virtual_host.branches.reports()
    assert site.texts("bills") == (["bill for espresso"] if operator_commits else [])


def test_wrong_calls_have_the_codes_of_xa(site: Site) -> None:
    session = site.connect().create_xa_session()
    resource, other = session.xa_resource, site.connect().create_xa_session().xa_resource
    resource.start(ONE, XAResource.TMNOFLAGS)
    assert code_of(other.start, ONE, XAResource.TMNOFLAGS) == XAException.XAER_DUPID
    assert code_of(resource.start, TWO, XAResource.TMNOFLAGS) == XAException.XAER_PROTO
    assert code_of(resource.start, TWO, XAResource.TMJOIN) == XAException.XAER_PROTO
    assert code_of(other.start, TWO, XAResource.TMJOIN) == XAException.XAER_NOTA
    assert code_of(other.start, ONE, XAResource.TMRESUME) == XAException.XAER_PROTO
    assert code_of(other.end, ONE, XAResource.TMSUCCESS) == XAException.XAER_PROTO
    assert code_of(resource.prepare, ONE) == XAException.XAER_PROTO
    assert code_of(resource.commit, TWO, False) == XAException.XAER_NOTA
    assert code_of(resource.forget, ONE) == XAException.XAER_PROTO
    session.close()
    assert code_of(other.prepare, ONE) == XAException.XA_RBROLLBACK
    other.rollback(ONE)
    assert code_of(resource.rollback, ONE) == XAException.XAER_PROTO, "its session is closed"


def test_a_broker_in_memory_says_what_to_do() -> None:
    url = "vm://xa-in-memory"
    try:
        with pytest.raises(JMSException, match=r"Capability\.XA\).*store=sqlite") as caught:
            XAConnectionFactory(url).create_xa_connection()
        assert caught.value.error_code == "PYJMS-CAPABILITY"
    finally:
        find_provider("vm").stop_broker(ProviderUrl.parse(url))


def test_the_owner_chooses_how_long_a_branch_may_take(tmp_path: Path) -> None:
    url = f"vm://xa-timeout?store=sqlite:///{tmp_path / 'broker.db'}&branch_timeout=45"
    try:
        with XAConnectionFactory(url).create_xa_connection() as connection:
            resource = connection.create_xa_session().xa_resource
            assert resource.get_transaction_timeout() == 45
            resource.set_transaction_timeout(5)
            assert resource.get_transaction_timeout() == 5
            resource.set_transaction_timeout(0)
            assert resource.get_transaction_timeout() == 45
    finally:
        find_provider("vm").stop_broker(ProviderUrl.parse(url))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("store=sqlite:///x.db&branch_timeout=soon", "'soon' is no number of seconds"),
        ("branch_timeout=5", "needs store="),
    ],
)
def test_what_is_no_timeout_is_refused(options: str, problem: str) -> None:
    with pytest.raises(JMSException, match=problem):
        XAConnectionFactory(f"vm://xa-wrong?{options}").create_xa_connection()


def test_ordinary_sessions_of_an_xa_connection_are_their_own_masters(site: Site) -> None:
    session = site.connect().create_session(True, Session.AUTO_ACKNOWLEDGE)
    session.create_producer(session.create_queue("bills")).send(session.create_text_message("bill"))
    assert site.texts("bills") == []
    session.commit()
    assert site.texts("bills") == ["bill"]


_PREPARES = """
import sys
from pyjms import XAConnectionFactory, XAResource
from tests.provider.xa.coordinator import BranchId
connection = XAConnectionFactory(sys.argv[1]).create_xa_connection()
session = connection.create_xa_session()
xid = BranchId("one", "broker")
session.xa_resource.start(xid, XAResource.TMNOFLAGS)
with session.create_producer(session.create_queue("orders")) as producer:
    producer.send(session.create_text_message("prepared"))
session.xa_resource.end(xid, XAResource.TMSUCCESS)
session.xa_resource.prepare(xid)
local = connection.create_session(True, 0)
local.create_producer(local.create_queue("orders")).send(local.create_text_message("never committed"))
print("prepared", flush=True)
sys.stdin.read()
"""


@pytest.mark.realises("JBM-5.1.b")
@pytest.mark.parametrize("kind", ["standard", "total_order"])
def test_what_a_killed_process_had_prepared_is_there_with_its_content(tmp_path: Path, kind: str) -> None:
    url = f"vm://killed-{kind}?store=sqlite:///{tmp_path}/broker.db&type={kind}"
    with subprocess.Popen(
        [sys.executable, "-c", _PREPARES, url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[3],
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"prepared\n"
        process.kill()
    try:
        with XAConnectionFactory(url).create_xa_connection() as connection:
            connection.start()
            plain = connection.create_session()
            queue = plain.create_queue("orders")
            plain.create_producer(queue).send(plain.create_text_message("sent later"))
            consumer = plain.create_consumer(queue)
            held_back = kind == "total_order"
            # Only in a total order does a message wait for one before it whose coordinator has not decided.
            first = consumer.receive_no_wait()
            assert (first is None) == held_back
            resource = connection.create_xa_session().xa_resource
            (found,) = resource.recover(XAResource.TMSTARTRSCAN)
            resource.commit(found, False)
            texts = [consumer.receive(PATIENCE_MS).text for _ in range(2 if held_back else 1)]  # type: ignore[union-attr]
            assert texts == (["prepared", "sent later"] if held_back else ["prepared"])
            assert consumer.receive_no_wait() is None, "a local transaction ends with its session"
    finally:
        find_provider("vm").stop_broker(ProviderUrl.parse(url))

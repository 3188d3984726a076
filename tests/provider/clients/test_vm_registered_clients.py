"""Tags of registered clients with what the API joins: the application's own transaction, and branches that outlive the broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from sqlalchemy import create_engine, event, text

from pyjms import (
    ConnectionFactory,
    JMSException,
    Session,
    TransactionRolledBackException,
    XAConnectionFactory,
    XAResource,
)
from pyjms.joining import joined
from pyjms.recoverable import PersistentSession
from pyjms_provider.broker import stop_broker
from tests.provider.xa.coordinator import BranchId


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    store = quote(f"sqlite:///{tmp_path / 'shared.db'}?pyjms_shared=true", safe="")
    yield f"vm://registered?store={store}"
    stop_broker("registered")


def told(url: str) -> tuple[str | None, str | None]:
    """What the queue manager tells the client that registers again, by the broker's next run."""
    stop_broker("registered")
    with ConnectionFactory(url).create_connection() as connection:
        till = PersistentSession(connection.create_session(True, Session.AUTO_ACKNOWLEDGE), "till")
        return till.last_request, till.last_reply


@pytest.mark.realises("MOM-23")
def test_a_tag_is_stored_in_the_applications_own_transaction_or_not_at_all(url: str, tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'shared.db'}")
    with ConnectionFactory(url).create_connection() as connection:
        session = connection.create_session(True, Session.AUTO_ACKNOWLEDGE)
        with engine.begin() as own:
            own.execute(text("CREATE TABLE works (what TEXT)"))
        till = PersistentSession(session, "till")
        for number in (1, 2):
            with engine.connect() as own, own.begin(), joined(session, own):
                own.execute(text("INSERT INTO works VALUES (:what)"), {"what": str(number)})
                till.tag_request(str(number))
                session.create_producer(session.create_queue("orders")).send(session.create_message())

        def refuse(_: object) -> None:
            raise JMSException("the application does not want it")

        with engine.connect() as own:
            event.listen(own, "commit", refuse)
            with pytest.raises(JMSException), own.begin(), joined(session, own):
                own.execute(text("INSERT INTO works VALUES ('3')"))
                till.tag_request("3")
    with engine.connect() as own:
        assert own.execute(text("SELECT what FROM works")).scalars().all() == ["1", "2"]
    engine.dispose()
    assert told(url) == ("2", None)


@pytest.mark.realises("MOM-23")
@pytest.mark.parametrize("commits", [True, False])
def test_the_tag_of_a_prepared_branch_waits_for_its_decision_though_the_broker_dies(url: str, commits: bool) -> None:
    branch = BranchId("one", "broker")
    with XAConnectionFactory(url).create_xa_connection() as connection:
        session = connection.create_xa_session()
        till = PersistentSession(session, "till")
        session.xa_resource.start(branch, XAResource.TMNOFLAGS)
        session.create_producer(session.create_queue("orders")).send(session.create_message())
        till.tag_request("7")
        session.xa_resource.end(branch, XAResource.TMSUCCESS)
        session.xa_resource.prepare(branch)
    with pytest.raises(JMSException, match="is prepared: have its coordinator"):
        told(url)
    with XAConnectionFactory(url).create_xa_connection() as connection:
        resource = connection.create_xa_session().xa_resource
        if commits:
            resource.commit(branch, False)
        else:
            resource.rollback(branch)
    assert told(url) == ("7" if commits else None, None)


def test_a_program_that_was_superseded_can_commit_nothing_with_a_tag(url: str) -> None:
    with ConnectionFactory(url).create_connection() as connection:
        session = connection.create_session(True, Session.AUTO_ACKNOWLEDGE)
        orders = session.create_queue("orders")
        first = PersistentSession(session, "till")
        first.tag_request("1")
        session.create_producer(orders).send(session.create_message())
        with ConnectionFactory(url).create_connection() as other:
            PersistentSession(other.create_session(True, Session.AUTO_ACKNOWLEDGE), "till")
        with pytest.raises(TransactionRolledBackException, match="has registered again since"):
            session.commit()
        connection.start()
        assert session.create_consumer(orders).receive_no_wait() is None
    assert told(url) == (None, None)

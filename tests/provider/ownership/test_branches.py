"""Branches of distributed transactions hold what they have received, and with it an exclusive queue, or a message group."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyjms import ConnectionFactory, Session, XAConnectionFactory, XAResource
from pyjms_provider.broker import stop_broker
from tests.provider.ownership.site import COUNT, Site, Waiting, opened, received
from tests.provider.xa.coordinator import BranchId

ONE = BranchId("one", "broker")


def numbers(first: int) -> list[str]:
    return [str(number) for number in range(first, COUNT)]


def prepare(site: Site) -> None:
    """Receive three messages in a branch, prepare it, and close all."""
    with XAConnectionFactory(site.url).create_xa_connection() as connection:
        connection.start()
        xa_session = connection.create_xa_session()
        resource, session = xa_session.xa_resource, xa_session.session
        resource.start(ONE, XAResource.TMNOFLAGS)
        consumer = session.create_consumer(session.create_queue("orders"))
        assert [received(consumer).text for _ in range(3)] == ["0", "1", "2"]
        resource.end(ONE, XAResource.TMSUCCESS)
        assert resource.prepare(ONE) == XAResource.XA_OK


def decide(site: Site, *, commit: bool) -> None:
    with XAConnectionFactory(site.url).create_xa_connection() as connection:
        resource = connection.create_xa_session().xa_resource
        if commit:
            resource.commit(ONE, False)
        else:
            resource.rollback(ONE)


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("transport", ["vm with a store", "stomp with a store", "amqp with a store"])
def test_a_prepared_branch_holds_back_what_is_behind(
    transport: str, kind: str, tmp_path: Path, how: str, *, commit: bool
) -> None:
    with opened(transport, kind, tmp_path) as site:
        prepare(site)
        waiting = Waiting(site, how)
        decide(site, commit=commit)
        assert waiting.texts(COUNT - 3 if commit else COUNT) == numbers(3 if commit else 0)


@pytest.mark.parametrize("commit", [True, False])
def test_so_does_one_that_a_restarted_broker_found(stored: Site, *, commit: bool) -> None:
    prepare(stored)
    stop_broker(stored.url.removeprefix("vm://").partition("?")[0])
    with ConnectionFactory(stored.url).create_connection() as connection:
        connection.start()
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        consumer = session.create_consumer(session.create_queue("orders"))
        assert consumer.receive_no_wait() is None
        decide(stored, commit=commit)
        texts = [received(consumer).text for _ in range(COUNT - 3 if commit else COUNT)]
    assert texts == numbers(3 if commit else 0)


def test_a_session_goes_on_in_its_next_branch(stored: Site) -> None:
    with XAConnectionFactory(stored.url).create_xa_connection() as connection:
        connection.start()
        xa_session = connection.create_xa_session()
        resource, session = xa_session.xa_resource, xa_session.session
        waiting: Waiting | None = None
        for number in range(3):
            branch = BranchId(f"branch {number}", "broker")
            resource.start(branch, XAResource.TMNOFLAGS)
            consumer = session.create_consumer(session.create_queue("orders"))
            assert received(consumer).text == str(number)
            waiting = waiting or Waiting(stored, "listener")
            consumer.close()
            resource.end(branch, XAResource.TMSUCCESS)
            resource.prepare(branch)
        for number in range(3):
            resource.commit(BranchId(f"branch {number}", "broker"), False)
        assert waiting is not None
        assert waiting.texts(COUNT - 3) == numbers(3)

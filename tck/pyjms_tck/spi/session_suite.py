"""Contract tests: registered clients and their tags, for providers with `Capability.PERSISTENT_SESSIONS`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from threading import Event
from typing import TYPE_CHECKING, NamedTuple

import pytest

from pyjms.spi.capability import Capability
from pyjms.spi.errors import InDoubtError, RegistrationError, RolledBackError, SupersededError
from pyjms.spi.sessions import CLIENT_NAME_MAX, TAG_MAX, ClientTags
from pyjms.spi.xid import Xid
from pyjms_tck.requirements import needs, needs_offered
from pyjms_tck.spi.environment import Environment, envelope

if TYPE_CHECKING:
    from pyjms.spi.envelope import Address
    from pyjms.spi.provider import ProviderConnection, ProviderSession
    from pyjms.spi.sessions import PersistentSessions, RegisteredClient

PERSISTENT = 2
_LOOK_S = 0.02


class SessionSetup(NamedTuple):
    """A client that registers, with a queue for its messages."""

    environment: Environment
    connection: ProviderConnection
    sessions: PersistentSessions
    name: str
    queue: Address

    def register(self) -> RegisteredClient:
        """Register, or register again."""
        return self.sessions.register(self.name)

    def tags(self, client: RegisteredClient, request: str | None = None, reply: str | None = None) -> ClientTags:
        """Return tags of a registration."""
        return ClientTags(name=client.name, incarnation=client.incarnation, request=request, reply=reply)

    def stored(self) -> tuple[str | None, str | None]:
        """Return the stored tags, as another connection sees them."""
        clients = self.environment.connect().persistent_sessions().clients()
        (found,) = [each for each in clients if each.name == self.name]
        return found.request_tag, found.reply_tag

    def send(self, session: ProviderSession, text: str = "order") -> None:
        """Send a PERSISTENT message."""
        session.send(envelope(self.queue, text, delivery_mode=PERSISTENT))


def open_sessions(environment: Environment) -> SessionSetup | None:
    """Return a client that has not registered yet; None from a provider that does not declare PERSISTENT_SESSIONS."""
    connection = environment.connect()
    if Capability.PERSISTENT_SESSIONS not in connection.capabilities:
        return None
    sessions = connection.persistent_sessions()
    return SessionSetup(environment, connection, sessions, environment.name("client"), environment.queue())


@pytest.fixture
def opened(environment: Environment) -> Iterator[SessionSetup | None]:
    setup = open_sessions(environment)
    yield setup
    if setup is not None:
        with suppress(RegistrationError):  # a test has deregistered it
            environment.connect().persistent_sessions().deregister(setup.name)


@needs_offered("PERSISTENT_SESSIONS")
def test_a_client_that_registers_again_gets_its_last_committed_tags(opened: SessionSetup) -> None:
    first = opened.register()
    assert (first.incarnation, first.request_tag, first.reply_tag, first.left_ms) == (1, None, None, None)
    session = opened.connection.open_session(transacted=True)
    for request, reply in (("request 1", None), (None, "reply 1"), ("request 2", None)):
        session.tag(opened.tags(first, request, reply))
        opened.send(session)
        session.commit()
    assert opened.stored() == ("request 2", "reply 1")
    opened.connection.close()
    second = opened.environment.connect().persistent_sessions().register(opened.name)
    assert (second.name, second.generation, second.incarnation) == (opened.name, first.generation, 2)
    assert (second.request_tag, second.reply_tag) == ("request 2", "reply 1")
    assert second.request_ms > 0 < second.reply_ms


@needs_offered("PERSISTENT_SESSIONS")
def test_tags_are_stored_with_the_commit_and_dropped_by_a_rollback(opened: SessionSetup) -> None:
    session = opened.connection.open_session(transacted=True)
    client = opened.register()
    session.tag(opened.tags(client, "dropped"))
    opened.send(session)
    assert opened.stored() == (None, None)
    session.rollback()
    opened.send(session)
    session.commit()
    assert opened.stored() == (None, None)
    session.tag(opened.tags(client, "committed"))
    # The later call of one transaction counts, for each of the two.
    session.tag(opened.tags(client, None, "alone"))
    session.commit()
    assert opened.stored() == ("committed", "alone")


@needs_offered("PERSISTENT_SESSIONS")
def test_a_session_that_ends_without_a_commit_leaves_the_tags_as_they_were(opened: SessionSetup) -> None:
    session = opened.connection.open_session(transacted=True)
    session.tag(opened.tags(opened.register(), "lost"))
    opened.send(session)
    session.close()
    assert opened.stored() == (None, None)
    assert opened.environment.drain(opened.queue) == []


@needs_offered("PERSISTENT_SESSIONS")
def test_outside_of_transactions_a_tag_is_stored_with_the_next_send_or_acknowledgement(opened: SessionSetup) -> None:
    session = opened.connection.open_session(transacted=False)
    client = opened.register()
    session.tag(opened.tags(client, "sent", "received"))
    assert opened.stored() == (None, None)
    opened.send(session, "first")
    assert opened.stored() == ("sent", None)
    opened.send(session, "second")
    receiver = opened.environment.receiver(session, opened.queue)
    first, second = receiver.take(), receiver.take()
    assert (first.envelope.body, second.envelope.body) == ("first", "second")
    session.acknowledge([first])
    assert opened.stored() == ("sent", "received")
    session.acknowledge([second])
    session.close()
    assert opened.environment.drain(opened.queue) == []


@needs_offered("PERSISTENT_SESSIONS")
def test_a_registration_supersedes_the_earlier_one(opened: SessionSetup) -> None:
    session, alone = (opened.connection.open_session(transacted=transacted) for transacted in (True, False))
    old = opened.register()
    session.tag(opened.tags(old, "begun"))
    opened.send(session)
    new = opened.environment.connect().persistent_sessions().register(opened.name)
    with pytest.raises(RolledBackError) as raised:
        session.commit()
    assert isinstance(raised.value.__cause__, SupersededError)
    # A provider may leave the check to the call that writes.
    with pytest.raises(SupersededError):
        alone.tag(opened.tags(old, "late"))
        opened.send(alone)
    assert opened.environment.drain(opened.queue) == []
    assert opened.stored() == (None, None)
    opened.send(alone)
    session.tag(opened.tags(new, "next"))
    session.commit()
    assert opened.stored() == ("next", None)


@needs_offered("PERSISTENT_SESSIONS")
def test_a_client_that_was_deregistered_is_forgotten(opened: SessionSetup) -> None:
    session = opened.connection.open_session(transacted=True)
    old = opened.register()
    session.tag(opened.tags(old, "old"))
    session.commit()
    opened.sessions.deregister(opened.name)
    with pytest.raises(RegistrationError):
        opened.sessions.deregister(opened.name)
    with pytest.raises((RegistrationError, RolledBackError)):
        session.tag(opened.tags(old, "late"))
        session.commit()
    session.rollback()
    new = opened.register()
    assert (new.incarnation, new.request_tag) == (1, None)
    assert new.generation != old.generation


@needs_offered("PERSISTENT_SESSIONS")
def test_names_and_tags_have_a_limit(opened: SessionSetup) -> None:
    for wrong in ("", "x" * (CLIENT_NAME_MAX + 1), "a\0b", "a\ud800"):
        with pytest.raises(RegistrationError):
            opened.sessions.register(wrong)
    session, client = opened.connection.open_session(transacted=True), opened.register()
    for wrong in ("", "x" * (TAG_MAX + 1), "a\0b", "a\ud800"):
        with pytest.raises(RegistrationError):
            session.tag(opened.tags(client, wrong))
    longest, awkward = "ä" * TAG_MAX, "\\ : \r\n\t'\"\N{GRINNING FACE}"
    session.tag(opened.tags(client, longest, awkward))
    session.commit()
    assert opened.stored() == (longest, awkward)


@needs_offered("PERSISTENT_SESSIONS")
def test_a_client_is_connected_until_its_connection_closes(opened: SessionSetup) -> None:
    opened.register()
    others = opened.environment.connect().persistent_sessions()
    (found,) = [each for each in others.clients() if each.name == opened.name]
    assert found.left_ms is None
    opened.connection.close()
    # A broker behind a network may notice a moment later.
    asked, pause = 0, Event()
    while [each for each in others.clients() if each.name == opened.name and each.left_ms is None]:
        assert (asked := asked + 1) < opened.environment.patience_s / _LOOK_S, "the client has left"
        pause.wait(_LOOK_S)


@needs("PERSISTENT_SESSIONS", "XA")
def test_the_tags_of_a_branch_are_stored_when_it_is_committed(environment: Environment) -> None:
    opened = open_sessions(environment)
    if opened is None or Capability.XA not in opened.connection.capabilities:
        return
    client = opened.register()
    session = opened.connection.open_session(transacted=True)
    for number, commits in ((1, True), (2, False)):
        xid = Xid(1, opened.name.encode(), str(number).encode())
        session.xa_start(xid)
        session.tag(opened.tags(client, f"request {number}"))
        opened.send(session)
        session.xa_end(xid)
        assert session.xa_prepare(xid)
        # While it is prepared, the answer is not known.
        with pytest.raises(InDoubtError):
            opened.environment.connect().persistent_sessions().register(opened.name)
        with pytest.raises(InDoubtError):
            opened.sessions.deregister(opened.name)
        if commits:
            session.xa_commit(xid)
        else:
            session.xa_rollback(xid)
        assert opened.stored() == ("request 1", None)
    xid = Xid(1, opened.name.encode(), b"one phase")
    session.xa_start(xid)
    session.tag(opened.tags(client, None, "reply"))
    session.xa_end(xid)
    session.xa_commit(xid, one_phase=True)
    assert opened.stored() == ("request 1", "reply")
    opened.sessions.deregister(opened.name)

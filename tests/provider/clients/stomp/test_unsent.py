"""What certainly was not written is told as refused, not as in doubt."""

from __future__ import annotations

import pytest

from pyjms.spi.errors import InDoubtError, ResourceError, RolledBackError
from pyjms_provider.clients.stomp.foreign.connection import ForeignConnection
from pyjms_provider.clients.stomp.native.connection import NativeConnection
from tests.provider.clients.stomp.fake_broker import FakeBroker
from tests.provider.clients.stomp.native.peer import Peer, linked
from tests.provider.clients.stomp.world import connected
from tests.provider.helpers import make_envelope


def close_outbox(connection: NativeConnection | ForeignConnection) -> None:
    """Be between the end of the connection and the telling of it."""
    connection.link.newest._buffer.close()


@pytest.mark.parametrize("persistent", [True, False])
def test_a_message_that_finds_the_outbox_closed_was_not_sent(*, persistent: bool) -> None:
    with Peer() as peer, linked(peer) as connection:
        session = connection.open_session(transacted=False)
        close_outbox(connection)
        with pytest.raises(ResourceError, match="before the message was sent"):
            session.send(make_envelope("x", persistent=persistent))
        assert peer.of("SEND") == []


def test_a_commit_that_finds_the_outbox_closed_was_rolled_back() -> None:
    with Peer() as peer, linked(peer) as connection:
        session = connection.open_session(transacted=True)
        session.send(make_envelope("x", persistent=True))
        close_outbox(connection)
        with pytest.raises(RolledBackError, match="before it was committed"):
            session.commit()
        assert peer.of("COMMIT") == []


def test_a_message_to_another_broker_that_finds_the_outbox_closed_was_not_sent() -> None:
    with FakeBroker() as broker, connected(broker) as connection:
        session = connection.open_session(transacted=False)
        close_outbox(connection)
        with pytest.raises(ResourceError, match="before the message was sent"):
            session.send(make_envelope("x", persistent=True))


def test_what_was_written_is_in_doubt() -> None:
    with Peer(cut_before=("SEND", 1)) as peer, linked(peer) as connection:
        session = connection.open_session(transacted=False)
        with pytest.raises(InDoubtError):
            session.send(make_envelope("x", persistent=True))

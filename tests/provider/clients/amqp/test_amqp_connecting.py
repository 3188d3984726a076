"""Connections: the login, client ids, redirects, and what the broker says of itself."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from threading import Thread

import pytest

from pyjms.spi.capability import Capability
from pyjms.spi.errors import AccessDeniedError, ClosedError, DuplicateClientIdError, ResourceError
from pyjms_provider.amqp.errors import ConnectionFault
from pyjms_provider.amqp.performatives import Open
from pyjms_provider.clients.network.calls import NotSentError
from pyjms_provider.protocols.amqp.connection import ConnectionSettings
from pyjms_provider.protocols.amqp.states import ConnectionState
from tests.provider.clients.amqp.peer import Peer, Script
from tests.provider.clients.amqp.world import QUICKLY, Events, connect, connected, message, session_at


def test_a_connection_tells_the_broker_and_opens_with_the_client_id(peer: Peer) -> None:
    with connected(peer, client_id="me") as connection:
        assert connection.info.name == "AMQP broker over AMQP 1.0"
        assert connection.info.version == "1.0"
        assert connection.state == "connected"
        assert Capability.TRANSACTIONS in connection.capabilities
        assert Capability.XA not in connection.capabilities
    opened = peer.opens[0]
    assert (opened.container_id, opened.hostname) == ("me", "127.0.0.1")
    assert "sole-connection-for-container" in opened.desired_capabilities
    assert connection.state == "closed"
    with pytest.raises(ClosedError):
        connection.open_session(transacted=False)


def test_a_client_id_that_is_set_later_is_said_on_a_new_connection(peer: Peer) -> None:
    with connected(peer) as connection:
        connection.set_client_id("later")
        connection.open_session(transacted=False).send(message("one"))
    assert [opened.container_id == "later" for opened in peer.opens] == [False, True]
    assert len(peer.queue("orders")) == 1


def test_a_client_id_in_use_is_refused_and_another_one_may_follow(peer: Peer) -> None:
    fault = ConnectionFault("amqp:invalid-field", "in use", {"invalid-field": "container-id"})
    with connected(peer) as connection:
        usual = peer.script.open
        peer.script.open = Open("peer", properties={"amqp:connection-establishment-failed": True})
        peer.script.refuse_open = fault
        with pytest.raises(DuplicateClientIdError):
            connection.set_client_id("taken")
        peer.script.open, peer.script.refuse_open = usual, None
        connection.set_client_id("free")
        assert peer.opens[-1].container_id == "free"


@pytest.mark.parametrize(("user", "password"), [("guest", "wrong"), (None, None)])
def test_a_wrong_login_is_refused(user: str | None, password: str | None) -> None:
    with Peer(Script(users={"guest": "secret"})) as peer, pytest.raises(AccessDeniedError):
        connect(f"{peer.url}?{QUICKLY}", user_name=user, password=password)


def test_a_login_by_password(peer: Peer) -> None:
    peer.script.users = {"guest": "secret"}
    connection = connect(f"{peer.url}?{QUICKLY}", user_name="guest", password="secret")
    connection.close()
    assert len(peer.opens) == 1


@pytest.mark.parametrize(
    ("properties", "frame_size"),
    [
        ({"amqp:connection-establishment-failed": True}, 4096),
        pytest.param({}, 0, id="as Broker-J does"),
    ],
)
def test_a_broker_that_closes_while_it_opens_is_told_with_its_reason(
    peer: Peer, properties: dict[str, bool], frame_size: int
) -> None:
    peer.script.refuse_open = ConnectionFault("amqp:connection:forced", "it stops")
    peer.script.open = Open("peer", properties=properties)
    peer.script.settings = ConnectionSettings(frame_size_max=frame_size)
    with pytest.raises(ResourceError, match="it stops"):
        connect(peer.url)


@pytest.fixture
def deaf() -> Iterator[int]:
    """The port of something that accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def test_a_port_that_does_not_answer_is_given_up(deaf: int) -> None:
    with pytest.raises(ResourceError, match="does it speak AMQP"):
        connect(f"amqp://127.0.0.1:{deaf}?connect_timeout_ms=50")


def test_a_port_that_speaks_something_else_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            made, _ = listener.accept()
            with made:
                made.recv(100)
                made.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = Thread(target=answer, daemon=True)
        thread.start()
        with pytest.raises(ResourceError):
            connect(f"amqp://127.0.0.1:{listener.getsockname()[1]}")
        thread.join()


def test_a_port_where_nothing_listens_is_told_with_advice() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ResourceError, match="see whether the broker runs"):
        connect(f"amqp://127.0.0.1:{port}")


def redirecting(to: Peer) -> Script:
    info = {"network-host": "127.0.0.1", "port": to.port, "hostname": "there"}
    return Script(
        open=Open("first", properties={"amqp:connection-establishment-failed": True}),
        refuse_open=ConnectionFault("amqp:connection:redirect", "go there", info),
    )


def test_a_redirect_is_followed(peer: Peer) -> None:
    with Peer(redirecting(peer)) as first:
        with session_at(first) as session:
            session.send(message("one"))
        assert len(peer.queue("orders")) == 1
        with pytest.raises(ResourceError, match="go there"):
            connect(f"{first.url}?redirects=no")


def test_redirects_have_an_end() -> None:
    with Peer() as first, Peer() as second:
        first.script, second.script = redirecting(second), redirecting(first)
        with pytest.raises(ResourceError, match="go there"):
            connect(first.url)


def test_a_list_for_failover_is_used_when_the_broker_is_lost(peer: Peer) -> None:
    named = {"hostname": "127.0.0.1", "network-host": "127.0.0.1", "port": peer.port}
    events = Events()
    first = Peer(Script(open=Open("first", properties={"failover-server-list": [named]})))
    with first, connected(first, QUICKLY, events) as connection:
        session = connection.open_session(transacted=False)
        first._listener.shutdown(socket.SHUT_RDWR)
        first._listener.close()
        first.cut()
        events.wait_for(1)
        session.send(message("one"))
        assert len(peer.queue("orders")) == 1


def test_a_list_of_urls_is_tried_in_order(peer: Peer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    connection = connect(f"amqp://127.0.0.1:{port}?failover=127.0.0.1:{peer.port}")
    assert connection.state == "connected"
    connection.close()


def test_nothing_begins_on_a_connection_whose_close_was_read(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    with connected(peer) as connection:
        physical = connection.link.newest
        # For a moment the engine knows of the close, and the connection has not ended yet.
        monkeypatch.setattr(physical.engine, "state", ConnectionState.ENDED)
        with pytest.raises(NotSentError):
            physical.begin_session()
        monkeypatch.undo()
        connection.open_session(transacted=False)

"""Why a WebSocket was closed, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread

import pytest
from websockets.sync.server import ServerConnection, serve
from websockets.typing import Subprotocol

from pyjms import BytesMessage, ConnectionFactory, DeliveryMode, Session
from pyjms.spi.errors import ProviderError
from pyjms_provider.clients.network.web_sockets import why_closed
from pyjms_provider.protocols.stomp.codec import encode
from pyjms_provider.protocols.stomp.frames import Frame, Version
from tests.provider.clients.stomp.world import Events, connect
from tests.provider.helpers import make_envelope
from tests.system.network.served import anonymous_broker


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "the broker closed the connection"),
        (b"\x03", "the broker closed the connection"),
        (b"\x03\xe8", "the broker closed the connection"),
        (b"\x03\xe8bye", "the broker closed the connection (it says: bye)"),
        (b"\x03\xf1", "with code 1009, as a message was larger than it takes over WebSockets: send smaller ones"),
        (
            b"\x03\xf0no guests",
            "with code 1008, as its rules do not allow this: see its log for the rule (it says: no guests)",
        ),
        (b"\x03\xea", "with code 1002, as it got what breaks the WebSocket protocol"),
        (b"\x0f\xa0", "with code 4000"),
        (b"\x0f\xa0a\nb\x1b[1m\xff", "with code 4000 (it says: a b\ufffd[1m\ufffd)"),
    ],
)
def test_a_close_code_is_told_in_words(data: bytes, text: str) -> None:
    assert text in why_closed(data)
    assert why_closed(data).isprintable()


@contextmanager
def web_socket_broker(then: Callable[[ServerConnection], None], **settings: int) -> Iterator[str]:
    """Answers CONNECT, and then does what is given."""

    def handle(connection: ServerConnection) -> None:
        connection.recv()
        headers = {"version": "1.2", "server": "ActiveMQ/5.17.2", "heart-beat": "0,0"}
        connection.send(encode(Frame("CONNECTED", headers), Version.V1_2))
        then(connection)

    protocol = Subprotocol("v12.stomp")
    with serve(handle, "127.0.0.1", 0, subprotocols=[protocol], compression=None, **settings) as server:  # type: ignore[arg-type]
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"stomp+ws://127.0.0.1:{server.socket.getsockname()[1]}"
        finally:
            server.shutdown()
            thread.join(20)


def test_a_client_is_told_that_its_message_was_too_large() -> None:
    def read(connection: ServerConnection) -> None:
        for _ in connection:
            pass

    events = Events()
    with web_socket_broker(read, max_size=1000) as url:
        connection = connect(f"{url}?reconnect=no", events)
        with pytest.raises(ProviderError, match=r"code 1009.*send smaller ones"):
            connection.open_session(transacted=False).send(make_envelope("x" * 2000, persistent=True))
        assert "1009" in events.wait_for(1)[0].reason
        connection.close()


def test_a_client_is_told_why_it_was_sent_away() -> None:
    def refuse(connection: ServerConnection) -> None:
        connection.recv()
        connection.close(1008, "not from here")

    events = Events()
    with web_socket_broker(refuse) as url:
        connection = connect(f"{url}?reconnect=no", events)
        with pytest.raises(ProviderError, match="its rules do not allow this"):
            connection.open_session(transacted=False).send(make_envelope("x", persistent=True))
        assert "not from here" in events.wait_for(1)[0].reason
        connection.close()


def test_what_is_larger_than_a_web_socket_message_arrives_at_our_broker() -> None:
    content = bytes(range(256)) * (17 * 4096)  # 17 MiB; a message may have 16
    with anonymous_broker(transports=["websocket"]) as served:
        factory = ConnectionFactory(f"stomp+ws://{served.addresses()[0].partition('://')[2]}?reconnect=no")
        with factory.create_connection() as connection:
            connection.start()
            session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
            orders = session.create_queue("orders")
            message = session.create_bytes_message()
            message.write_bytes(content)
            session.create_producer(orders).send(message, DeliveryMode.PERSISTENT, 4, 0)
            received = session.create_consumer(orders).receive(30_000)
            assert isinstance(received, BytesMessage)
            assert received.body_length == len(content)

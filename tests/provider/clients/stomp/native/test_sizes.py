"""A message that is larger than the broker takes is refused here, and costs nobody the connection."""

from __future__ import annotations

import pytest

from pyjms import ConnectionFactory, DeliveryMode, ResourceAllocationException, Session, TextMessage
from pyjms.spi.errors import TooLargeError
from pyjms_provider.protocols.stomp import command_frames
from pyjms_provider.protocols.stomp.codec import Limits
from tests.provider.clients.stomp.native.peer import Peer, linked
from tests.provider.helpers import make_envelope
from tests.system.network.served import anonymous_broker, port_of


@pytest.mark.parametrize("transacted", [False, True])
def test_what_the_broker_does_not_take_is_not_sent(*, transacted: bool) -> None:
    with Peer(body_max=100) as peer, linked(peer) as connection:
        session = connection.open_session(transacted=transacted)
        with pytest.raises(TooLargeError, match="101 bytes, and the broker takes 100 at"):
            session.send(make_envelope("x" * 101))
        session.send(make_envelope("y" * 100))
        session.close()
        assert [len(frame.body) for frame in peer.of("SEND")] == [100]
        assert peer.connection_count == 1


def test_a_broker_that_does_not_say_is_sent_anything() -> None:
    with Peer() as peer, linked(peer) as connection:
        connection.open_session(transacted=False).send(make_envelope("x" * 1000))
        assert len(peer.of("SEND")) == 1


@pytest.mark.parametrize("mode", [DeliveryMode.PERSISTENT, DeliveryMode.NON_PERSISTENT])
@pytest.mark.parametrize("transacted", [False, True])
def test_a_message_that_is_too_large_fails_alone(
    monkeypatch: pytest.MonkeyPatch, mode: int, *, transacted: bool
) -> None:
    monkeypatch.setattr(command_frames, "PACKED_LIMITS", Limits(body_max=50_000))
    told: list[object] = []
    with anonymous_broker() as served:
        factory = ConnectionFactory(f"stomp://127.0.0.1:{port_of(served)}?reconnect_delay_ms=1")
        with factory.create_connection() as connection:
            connection.exception_listener = told.append
            connection.start()
            session = connection.create_session(transacted, Session.AUTO_ACKNOWLEDGE)
            orders = session.create_queue("orders")
            producer = session.create_producer(orders)
            producer.delivery_mode = mode
            producer.send(session.create_text_message("first"))
            with pytest.raises(ResourceAllocationException, match="takes 50000 at most") as raised:
                producer.send(session.create_text_message("x" * 50_000))
            assert raised.value.error_code == "PYJMS-TOO-LARGE"
            producer.send(session.create_text_message("second"))
            if transacted:
                session.commit()
            consumer = session.create_consumer(orders)
            received = [consumer.receive(20_000), consumer.receive(20_000)]
            assert [each.text for each in received if isinstance(each, TextMessage)] == ["first", "second"]
    assert told == []

"""The main thread is interrupted at each place of a poll, or of a close, at the pyjms broker: nothing is left that nobody has."""

from __future__ import annotations

from pyjms.spi.delivery import Delivery
from pyjms_provider.clients.stomp.native.consumer import NativeConsumer
from pyjms_provider.protocols.stomp.frames import Frame
from tests.provider.clients.stomp.native.peer import Peer, consumer_of, linked
from tests.provider.clients.stomp.world import Told


def prefetch(peer: Peer, consumer: NativeConsumer, told: Told, count: int) -> None:
    """Have so many messages come that nobody takes."""
    for number in range(1, count + 1):
        peer.deliver_to(consumer, number)
    told.wait(count)


def test_what_is_about_to_go_back_is_handed_out_to_nobody() -> None:
    """Else a client has what comes to another one, too."""
    told = Told()
    with Peer() as peer, linked(peer) as connection:
        session = connection.open_session(transacted=False)
        consumer = consumer_of(session, told)
        prefetch(peer, consumer, told, 2)
        delivery = consumer.poll()
        assert delivery is not None
        polled: list[Delivery | None] = []

        def poll(_: int, frame: Frame) -> None:
            if frame.headers.get("unseen"):
                polled.append(consumer.poll())

        peer.before_answer = poll
        session.recover([delivery])
        assert polled == [None]
        assert [frame.headers["ids"] for frame in peer.of("RETURN")] == ["2", "1"]

"""The main thread is interrupted at each place where a plain broker makes a temporary destination, or one is let go of, and calls again."""

from __future__ import annotations

from contextlib import suppress
from threading import Event

import pytest

from pyjms.spi.envelope import AddressKind
from pyjms.spi.errors import DestinationError
from pyjms_provider.protocols.stomp.frames import Frame
from tests.provider.clients.stomp.fake_broker import PATIENCE_S, FakeBroker
from tests.provider.clients.stomp.world import connected
from tests.provider.interruptions import Interruption, each_interruption

CLASSIC, RABBITMQ = "ActiveMQ/5.17.2", "RabbitMQ/3.10.8"
FILES = tuple(f"clients/stomp/{name}.py" for name in ("temporaries", "connection", "epoch", "wire", "outbox"))


def probes(broker: FakeBroker, command: str) -> list[str]:
    """Return the ids of the consumers by which destinations were named, or of those that were ended."""
    return [each.headers["id"] for each in broker.of(command) if each.headers["id"].startswith("probe")]


def answering(server: str) -> FakeBroker:
    """Return a broker that delivers what a client sends to itself, as ActiveMQ does."""

    def answer(number: int, frame: Frame) -> None:
        if frame.command == "SEND":
            broker.deliver(probes(broker, "SUBSCRIBE")[-1], "x", message_id="ID:host-1:1:-1:1:1")

    broker = FakeBroker(server, on_frame=answer)
    return broker


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("server", [CLASSIC, RABBITMQ])
def test_one_is_made_after_the_making_of_another_was_interrupted(server: str, *, first: bool) -> None:
    """Nobody could make any, or its name was another one's, as it was counted and the broker had not heard of it."""

    def attempt(interruption: Interruption) -> None:
        with answering(server) as broker, connected(broker) as connection:
            epoch = connection.link.current()
            if not first:
                connection.create_temporary(AddressKind.TOPIC)
            with suppress(KeyboardInterrupt), interruption():
                connection.create_temporary(AddressKind.QUEUE)
            assert not connection.temporaries._right.locked(), interruption.where
            made = connection.create_temporary(AddressKind.QUEUE)
            if connection.link.current() is not epoch:
                return  # the broker counts anew
            is_done = Event()
            epoch.call_soon(is_done.set)  # after what else the I/O thread has to do
            assert is_done.wait(PATIENCE_S)
            connection.flush()
            named = probes(broker, "SUBSCRIBE")
            if server == CLASSIC:
                assert made.name == f"/remote-temp-queue/ID:host-1:1:{len(named)}", interruption.where
                assert len(set(named)) == len(named), interruption.where
            assert set(probes(broker, "UNSUBSCRIBE")) >= set(named), interruption.where

    assert each_interruption(attempt, *FILES) > 20


def test_one_whose_deletion_was_interrupted_is_gone() -> None:
    def attempt(interruption: Interruption) -> None:
        with FakeBroker(RABBITMQ) as broker, connected(broker) as connection:
            address = connection.create_temporary(AddressKind.TOPIC)
            with suppress(KeyboardInterrupt), interruption():
                connection.delete_temporary(address)
            with suppress(DestinationError):  # it was deleted
                connection.delete_temporary(address)
            with pytest.raises(DestinationError, match="deleted"):
                connection.temporaries.check_usable(address)
                pytest.fail(f"{interruption.where}: it may be sent to")

    assert each_interruption(attempt, *FILES) > 3

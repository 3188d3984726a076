"""The clients of a chaotic run. Each uses one connection for a while and closes it in the middle of its work.

Their actions are counted, not random: every run does the same as far as the threads permit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count

from pyjms import Connection, DeliveryMode, Message, MessageConsumer, Queue, Session, Topic

STEPS = 25
"""The number of steps that a client takes with one connection."""
_WAIT_MS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The shared state of one run's clients."""

    inbound: Queue
    outbound: Queue
    fleeting: Queue
    """The queue of NON_PERSISTENT messages."""
    topic: Topic | None
    subscription: str
    is_over: Callable[[], bool]
    breathe: Callable[[], None]
    """Waits a moment between two steps."""


Client = Callable[[World, Connection], None]
_numbers = count(1)


def _steps(world: World) -> Iterator[int]:
    for step in range(STEPS):
        if world.is_over():
            return
        yield step
        world.breathe()


def _text(session: Session) -> Message:
    return session.create_text_message(f"text {next(_numbers)}")


def producer(world: World, connection: Connection) -> None:
    """Send to the queues, and to the topic if there is one."""
    session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
    sending = session.create_producer(None)
    for _ in _steps(world):
        sending.send(world.inbound, _text(session))
        sending.send(world.fleeting, _text(session), DeliveryMode.NON_PERSISTENT, 4, 0)
        if world.topic is not None:
            sending.send(world.topic, _text(session))


def batches(world: World, connection: Connection) -> None:
    """Send transactions of several messages to two queues; roll every third one back, and leave the last one open."""
    session = connection.create_session(True, Session.SESSION_TRANSACTED)
    sending = session.create_producer(None)
    for step in _steps(world):
        for queue in (world.inbound, world.outbound, world.inbound):
            sending.send(queue, _text(session))
        # The connection closes with this transaction open: none of it may ever be visible (§4.3.5).
        if step == STEPS - 1:
            return
        (session.rollback if step % 3 == 2 else session.commit)()


def receiver(world: World, connection: Connection) -> None:
    """Receive from the queues, acknowledging automatically."""
    session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
    consumers = [session.create_consumer(queue) for queue in (world.inbound, world.fleeting)]
    for _ in _steps(world):
        for consumer in consumers:
            consumer.receive(_WAIT_MS)


def acknowledger(world: World, connection: Connection) -> None:
    """Acknowledge every third message with those before it, recover now and then, and leave some unacknowledged."""
    session = connection.create_session(False, Session.CLIENT_ACKNOWLEDGE)
    consumer = session.create_consumer(world.outbound)
    for step in _steps(world):
        message = consumer.receive(_WAIT_MS)
        if message is not None and step % 3 == 2:
            message.acknowledge()
        elif step % 10 == 6:
            session.recover()


def mover(world: World, connection: Connection) -> None:
    """Move messages from one queue to the other in transactions; roll every fourth one back, and leave the last open."""
    session = connection.create_session(True, Session.SESSION_TRANSACTED)
    consumer, sending = session.create_consumer(world.inbound), session.create_producer(world.outbound)
    for step in _steps(world):
        for _ in range(2):
            if consumer.receive(_WAIT_MS) is not None:
                sending.send(_text(session))
        # Messages received in the open transaction must be redelivered, and those sent in it must not be visible.
        if step == STEPS - 1:
            return
        (session.rollback if step % 4 == 3 else session.commit)()


def subscriber(world: World, connection: Connection) -> None:
    """Receive from the durable subscription of the connection's client, and recover now and then."""
    assert world.topic is not None
    session = connection.create_session(False, Session.CLIENT_ACKNOWLEDGE)
    consumer: MessageConsumer = session.create_durable_subscriber(world.topic, world.subscription)
    for step in _steps(world):
        message = consumer.receive(_WAIT_MS)
        if message is not None and step % 2:
            message.acknowledge()
        elif step % 8 == 4:
            session.recover()

"""The steps from a message's arrival to the attempt to pull it, in order, as `tracing` shows them."""

from __future__ import annotations

import pytest

from pyjms_provider.core.queue.consumer import Consumer
from pyjms_provider.core.queue.queue import Queue
from pyjms_provider.core.queue.statistics import Step, tracing
from tests.provider.helpers import QueueWorld, text_of


@pytest.mark.realises("QCM-12", "QCM-13", "QCM-14", "QCM-15", "QCM-20", "QCM-21", "QCM-22")
def test_work_is_announced_upwards_and_pulled_downwards() -> None:
    world = QueueWorld()
    reader = world.reader(interested=True)
    steps: list[tuple[Step, object]] = []
    with tracing(lambda step, where: steps.append((step, where))):
        world.send("a")
        announced = len(steps)
        delivery = reader.session.pull()
    assert text_of(delivery) == "a"
    assert steps[:announced] == [
        (Step.ARRIVED, world.queue),
        (Step.QUEUE_NOTIFIED, reader.consumer),
        (Step.CONSUMER_NOTIFIED, reader.target),
        (Step.TARGET_NOTIFIED, reader.session),
    ]
    assert steps[announced:] == [
        (Step.SESSION_PULLED, reader.session),
        (Step.TARGET_PULLED, reader.target),
        (Step.CONSUMER_PULLED, reader.consumer),
    ]


@pytest.mark.realises("QCM-20", "QCM-21")
def test_a_session_goes_over_the_targets_that_want_work_each_in_its_turn() -> None:
    world = QueueWorld()
    session = world.session()
    other = world.make_queue("queue://other")
    readers = [
        world.reader(str(number), session=session, queue=queue) for number, queue in enumerate([world.queue, other])
    ]
    second = Consumer(other, readers[0].target)
    session.add_consumer(second)
    assert session.pull() is None, "nobody has been woken"
    for reader in readers:
        reader.consumer.set_interested(True)
    for text in "ab":
        world.send(text)
        world.send(text.upper(), queue=other)
    pulled: list[str] = []
    while (delivery := session.pull()) is not None:
        pulled.append(text_of(delivery))
    assert sorted(pulled) == ["A", "B", "a", "b"]
    assert not any(reader.target.wants_work for reader in readers)


def test_nothing_is_left_of_it_afterwards() -> None:
    before = (Queue.enqueue, Consumer.pull)
    seen: list[Step] = []
    with pytest.raises(RuntimeError), tracing(lambda step, _: seen.append(step)):
        QueueWorld().send()
        raise RuntimeError
    assert (Queue.enqueue, Consumer.pull) == before
    QueueWorld().send()
    assert seen == [Step.ARRIVED]

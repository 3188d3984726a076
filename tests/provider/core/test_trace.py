"""The steps from a message's arrival to the attempt to pull it, in order, as `tracing` shows them."""

from __future__ import annotations

import pytest

from pyjms_provider.core.queue.consumer import Consumer
from pyjms_provider.core.queue.queue import Queue
from pyjms_provider.core.queue.statistics import Step, tracing
from tests.provider.helpers import QueueWorld, text_of


@pytest.mark.realises("QCM-12", "QCM-13", "QCM-14", "QCM-15", "QCM-21", "QCM-22")
def test_work_is_announced_upwards_and_pulled_downwards() -> None:
    world = QueueWorld()
    reader = world.reader(interested=True)
    steps: list[tuple[Step, object]] = []
    with tracing(lambda step, where: steps.append((step, where))):
        world.send("a")
        announced = len(steps)
        delivery = reader.target.pull()
    assert text_of(delivery) == "a"
    assert steps[:announced] == [
        (Step.ARRIVED, world.queue),
        (Step.QUEUE_NOTIFIED, reader.consumer),
        (Step.CONSUMER_NOTIFIED, reader.target),
        (Step.TARGET_NOTIFIED, reader.session),
    ]
    assert steps[announced:] == [
        (Step.TARGET_PULLED, reader.target),
        (Step.CONSUMER_PULLED, reader.consumer),
    ]


def test_nothing_is_left_of_it_afterwards() -> None:
    before = (Queue.enqueue, Consumer.pull)
    seen: list[Step] = []
    with pytest.raises(RuntimeError), tracing(lambda step, _: seen.append(step)):
        QueueWorld().send()
        raise RuntimeError
    assert (Queue.enqueue, Consumer.pull) == before
    QueueWorld().send()
    assert seen == [Step.ARRIVED]

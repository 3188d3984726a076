"""From a message that arrives to bytes on the wire, step by step: the core's steps, then the connection's."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms_provider.core.queue.statistics import Step, tracing
from pyjms_provider.protocols.scheduling import DeliveryScheduler, SessionScheduler
from pyjms_provider.protocols.stomp.server.standard import StandardSubscription
from tests.provider.protocols.stomp.server.bench import Bench


@pytest.mark.realises("QCM-12", "QCM-13", "QCM-14", "QCM-15", "QCM-20", "QCM-21", "QCM-22", "QCM-23")
def test_a_message_takes_all_steps_to_a_consumer_across_the_network(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []

    def watch(owner: Any, name: str, said: str) -> None:
        original = getattr(owner, name)

        def watched(*arguments: Any) -> Any:
            steps.append(said)
            return original(*arguments)

        monkeypatch.setattr(owner, name, watched)

    def observe(step: Step, who: object) -> None:
        if step is not Step.CONSUMER_NOTIFIED:
            steps.append(step.value)

    receiver, sender = bench.connect(), bench.connect()
    with tracing(observe):  # as consumers begin with what is observed then
        receiver.send("SUBSCRIBE", id="s", destination="/queue/returns,/queue/orders", ack="client")
        receiver.settle()
    steps.clear()
    watch(SessionScheduler, "schedule", "the session hears that the consumer wants to work")
    watch(DeliveryScheduler, "schedule", "the connection hears that the session wants to work")
    assert receiver.engine.handler is not None
    watch(receiver.engine.handler.scheduler, "_wake", "the scheduler is asked for the connection")
    watch(DeliveryScheduler, "pull", "the connection goes over its sessions")
    watch(SessionScheduler, "pull", "the session goes over its consumers")
    watch(StandardSubscription, "pull", "the subscription tries to pull")
    with tracing(observe):
        sender.send("SEND", b"x", destination="/queue/orders")
        assert b"MESSAGE" in receiver.pull()  # the I/O thread's buffer
    assert list(dict.fromkeys(steps)) == [
        "a message arrives at the queue",
        "the queue wakes a consumer",
        "the target tells its session",
        "the session hears that the consumer wants to work",
        "the connection hears that the session wants to work",
        "the scheduler is asked for the connection",
        "the connection goes over its sessions",
        "the session goes over its consumers",
        "the subscription tries to pull",
        "the target goes over its consumers",
        "the consumer tries to pull",
    ]

"""A queue that takes no requests: all other workflows go on, and it is asked again once it has room."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest

from pyjms import (
    ConnectionFactory,
    JMSException,
    Message,
    ResourceAllocationException,
    TransactionRolledBackException,
)
from pyjms.flows import FlowClient, FlowEngine, FlowStore, Status
from pyjms.spi.envelope import Envelope
from pyjms.spi.errors import ProviderError
from pyjms.testing import VirtualClock
from pyjms_provider.broker import stop_broker
from pyjms_provider.clients.vm import VmSession
from pyjms_provider.model.broker import manage, managed_host
from pyjms_provider.serving.served_broker import ServedBroker
from tests.pyjms.flows.supply import supply_flow

NARROW = {"name": "narrow", "max_messages": 1, "overflow": "reject"}
REFUSALS = (ResourceAllocationException, TransactionRolledBackException)


@pytest.fixture(params=["vm", "stomp", "amqp"])
def site(request: pytest.FixtureRequest) -> Iterator[ConnectionFactory]:
    """A broker that says at the send, or at the commit, that a queue is full."""
    if request.param == "vm":
        factory = ConnectionFactory("vm://narrow-flows")
        with factory.create_connection():
            system = manage("narrow-flows")
            managed_host(system).create_child("queue", NARROW)
            yield factory
            system.close()
        stop_broker("narrow-flows")
        return
    with ServedBroker.open() as served:
        served.broker.create_child("authentication_provider", {"name": "anonymous", "type": "anonymous"})
        served.broker.create_child("access_control", {"name": "access", "rules": [{"effect": "allow", "who": "*"}]})
        node = served.broker.create_child("virtual_host_node", {"name": "broker", "type": "memory"})
        host: Any = node.create_child("virtual_host", {"name": "broker"})
        host.create_child("queue", NARROW)
        port = {"name": "port", "type": request.param, "host": "127.0.0.1", "transports": ["tcp"], "port": 0}
        served.broker.create_child(
            "port", port | {"authentication_providers": ["anonymous"], "access_control": "access"}
        )
        yield ConnectionFactory(f"{request.param}://127.0.0.1:{served.addresses()[0].rpartition(':')[2]}")


def deploy(store: FlowStore) -> None:
    for name in ("narrow", "wide"):
        step = {"name": "a", "queue": name, "timeout_s": 10, "retries": 5, "on_timeout": "park"}
        store.deploy(supply_flow(name=name, step=[step]))


def start(factory: ConnectionFactory) -> None:
    """Have three workflows begin that ask a narrow queue, and between them three that ask a wide one."""
    with factory.create_connection() as connection:
        client = FlowClient(connection.create_session(False, 1))
        for number in range(3):
            client.start("narrow", instance=f"narrow-{number}")
            client.start("wide", instance=f"wide-{number}")


def taken(factory: ConnectionFactory, queue: str) -> list[str]:
    """Take out what is asked for; return which keys."""
    with factory.create_connection() as connection:
        session = connection.create_session(False, 1)
        connection.start()
        consumer = session.create_consumer(session.create_queue(queue))
        found: list[Message] = list(iter(consumer.receive_no_wait, None))
        return [each.jms_correlation_id or "" for each in found]


def test_a_full_queue_of_a_step_stops_no_other_workflow(site: ConnectionFactory, store: FlowStore) -> None:
    deploy(store)
    start(site)
    engine = FlowEngine(site, store, on_trouble=lambda _: None)
    with pytest.raises(REFUSALS):
        engine.run(until_idle=True)
    assert sorted(set(taken(site, "wide"))) == [f"wide-{number}:a" for number in range(3)]
    assert taken(site, "pyjms.flows") == []
    asked = taken(site, "narrow")
    assert asked == ["narrow-0:a"]
    for _ in range(2):  # each time there is room for one more
        with pytest.raises(REFUSALS) if len(asked) < 2 else nullcontext():
            engine.run(until_idle=True)
        asked += taken(site, "narrow")
    assert sorted(asked) == [f"narrow-{number}:a" for number in range(3)]
    assert {each.status for each in store.instances()} == {Status.RUNNING}


def test_a_running_engine_asks_again_by_itself_and_tells_once(site: ConnectionFactory, store: FlowStore) -> None:
    deploy(store)
    start(site)
    troubles: list[JMSException] = []
    asked: list[str] = []
    engine = FlowEngine(site, store, on_trouble=troubles.append)
    find = store.find

    def find_and_make_room(instance: str) -> Any:
        """Look at what is to be asked for again: by then, what was asked for before is there."""
        if instance.startswith("narrow"):
            asked.extend(taken(site, "narrow"))
        if len(asked) == 2:
            engine.stop()
        return find(instance)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "find", find_and_make_room)
        engine.run()
    assert asked == ["narrow-0:a", "narrow-1:a"]
    assert len(troubles) == 1


def test_what_was_postponed_when_the_engine_ended_is_asked_for_when_its_time_is_up(
    site: ConnectionFactory, store: FlowStore
) -> None:
    deploy(store)
    start(site)
    clock = VirtualClock()
    with pytest.raises(REFUSALS):
        FlowEngine(site, store, clock=clock, on_trouble=lambda _: None).run(until_idle=True)
    asked = taken(site, "narrow")
    for _ in range(2):
        clock.advance(40_000)
        engine = FlowEngine(site, store, clock=clock, on_trouble=lambda _: None)
        with pytest.raises(REFUSALS):
            engine.run(until_idle=True)
        while more := taken(site, "narrow"):
            asked += more
            try:
                engine.run(until_idle=True)
            except REFUSALS:
                continue
    assert set(asked) == {f"narrow-{number}:a" for number in range(3)}


def test_a_request_that_is_refused_by_itself_keeps_no_other_from_its_queue(
    factory: ConnectionFactory, store: FlowStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    deploy(store)
    send = VmSession.send

    def refuse_one(session: VmSession, envelope: Envelope) -> None:
        if envelope.correlation_id == "wide-0:a":
            raise ProviderError("it is too large")
        send(session, envelope)

    monkeypatch.setattr(VmSession, "send", refuse_one)
    start(factory)
    engine = FlowEngine(factory, store, on_trouble=lambda _: None)
    for _ in range(2):
        with pytest.raises(JMSException, match="too large"):
            engine.run(until_idle=True)
    assert set(taken(factory, "wide")) == {"wide-1:a", "wide-2:a"}

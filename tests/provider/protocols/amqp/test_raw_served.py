"""Rules that need a broker of the test's own: with a clock, or a store; and peers of a served broker that keep no rules."""

from __future__ import annotations

import os
from contextlib import closing as closed_at_the_end
from pathlib import Path
from random import Random

import pytest

from pyjms.testing import VirtualClock
from pyjms_provider.amqp.codec import Described, ULong
from pyjms_provider.amqp.errors import Condition
from pyjms_provider.amqp.performatives import (
    Attach,
    Close,
    Detach,
    Disposition,
    Error,
    Header,
    Properties,
    Rejected,
    Source,
    Target,
    write,
)
from tests.provider.protocols.amqp.raw import Ended, SocketWire, text
from tests.provider.protocols.amqp.raw_broker import RawBroker, fresh, served_url
from tests.provider.protocols.amqp.test_hostile import WHOLE
from tests.sampling import SEED_NAME


@pytest.mark.amqp_rule("2.4.5-b")
def test_a_silent_peer_is_told_why_its_connection_ends() -> None:
    clock = VirtualClock()
    with served_url(clock, idle_timeout_ms=8_000) as url, closed_at_the_end(RawBroker(url)) as broker:
        peer = broker.connect()
        peer.log_in("", "")
        assert peer.open().idle_time_out == 4_000
        clock.await_wait(16_000)
        clock.advance(16_000)
        error = peer.expect(Close).error
        assert error is not None
        assert error.condition == Condition.RESOURCE_LIMIT_EXCEEDED
        peer.expect_end()


@pytest.mark.amqp_rule("3.2.1-f")
def test_a_durable_message_outlives_the_broker(tmp_path: Path) -> None:
    name, store = fresh(), f"sqlite:///{tmp_path}/shop.db"
    with served_url(host={"store_url": store}) as url, closed_at_the_end(RawBroker(url)) as broker:
        broker.put(name, write(Header(durable=True)) + text("kept"), text("not durable"))
    with served_url(host={"store_url": store}) as url, closed_at_the_end(RawBroker(url)) as broker:
        assert broker.left(name) == [text("kept")]


@pytest.mark.amqp_rule("2.6.3-c", "relay-2.2.2-a")
def test_a_host_that_makes_no_nodes_has_those_of_its_operator() -> None:
    with (
        served_url(host={"create_on_demand": False}, queues=("there",)) as url,
        closed_at_the_end(RawBroker(url)) as broker,
    ):
        broker.put("there", text("x"))
        assert broker.left("there") == [text("x")]
        peer = broker.in_session()
        for record in (
            Attach("in", 0, True, source=Source("missing"), target=Target()),
            Attach("out", 0, False, source=Source(), target=Target("missing"), initial_delivery_count=0),
        ):
            peer.send(record)
            answer = peer.expect(Attach)
            assert (answer.source, answer.target) == (None, None)
            error = peer.expect(Detach).error
            assert error is not None
            assert error.condition == Condition.NOT_FOUND
            peer.send(Detach(0, closed=True))
        peer.attach_sender(Target(None), name="any")
        state = peer.outcome(write(Properties(to="missing")) + text("x"))
        assert isinstance(state, Rejected)
        assert state.error is not None
        assert state.error.condition == Condition.NOT_FOUND
        peer.close()


@pytest.mark.parametrize("outcomes", [(), ("amqp:accepted:list",)], ids=["rejected", "detached"])
def test_a_refusal_has_the_code_of_the_brokers_error(outcomes: tuple[str, ...]) -> None:
    with (
        served_url(host={"queue_defaults": {"max_messages": 1, "overflow": "reject"}}) as url,
        closed_at_the_end(RawBroker(url)) as broker,
    ):
        broker.put("full", text("x"))
        peer = broker.sender("full", source=Source(outcomes=outcomes))
        peer.transfer(text("y"))
        error = peer.expect(Detach).error if outcomes else peer.expect(Disposition).state.error
        assert isinstance(error, Error)
        assert error.condition == Condition.RESOURCE_LIMIT_EXCEEDED
        assert error.info == {"code": "PYJMS-QUEUE-FULL", "kind": "PYJMS-RESOURCE"}
        assert "full" in (error.description or "")


def test_a_refusal_fits_the_clients_frames() -> None:
    selector = f"{'é' * 2_000} = = 1"
    filters = {"jms-selector": Described(ULong(0x0000468C00000004), selector)}
    with served_url() as url, closed_at_the_end(RawBroker(url)) as broker:
        peer = broker.opened(max_frame_size=512)
        peer.begin()
        peer.send(Attach("in", 0, True, source=Source(fresh(), filter=filters), target=Target()))
        peer.expect(Attach)
        detach = peer.expect(Detach)
    assert len(write(detach)) + 8 <= 512
    assert detach.error is not None
    info = dict(detach.error.info or {})
    assert (detach.error.condition, info["code"]) == (Condition.INVALID_FIELD, "PYJMS-SELECTOR")
    assert info["selector"]
    assert selector.startswith(info["selector"])


def test_a_served_broker_survives_peers_that_keep_no_rules(broker: RawBroker) -> None:
    random = Random(f"{os.environ[SEED_NAME]} hostile")
    for _ in range(60):
        stream = bytearray(b"".join(WHOLE[: random.randint(1, len(WHOLE))]))
        for _ in range(random.randint(0, 4)):
            at = random.randrange(len(stream))
            if random.random() < 0.5:
                stream[at] = random.randrange(256)
            else:
                stream[at:at] = random.randbytes(random.randint(1, 8))
        peer = broker.connect()
        assert isinstance(peer.wire, SocketWire)
        peer.wire.write(bytes(stream))
        peer.wire.end_writing()
        while peer.wire.read():  # until the broker closes: no peer is kept waiting
            pass
        peer.wire.close()
    name = fresh()
    broker.put(name, text("the others are served"))
    assert broker.left(name) == [text("the others are served")]


def test_a_flood_behind_an_open_is_not_kept_in_memory(broker: RawBroker) -> None:
    peer = broker.connect()
    peer.send_bytes(b"".join(WHOLE[:2]) + b"\x00" * 1_000_000)
    with pytest.raises(Ended):
        while True:
            peer.next()

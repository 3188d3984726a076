"""Signs of life: which the broker gives, which it awaits, and which it gives unasked to find out who has gone."""

from __future__ import annotations

import pytest

from pyjms_provider.core.policy import Overflow, QueuePolicy
from pyjms_provider.queue_manager import QueueManager
from tests.provider.protocols.stomp.server.bench import Bench, Client


@pytest.mark.realises("BJ-IDLE-1", "BJ-IDLE-2")
def test_the_broker_says_something_in_time(bench: Bench) -> None:
    client = Client(bench)
    assert client.log_in(heart_beat="0,4000").headers["heart-beat"] == "10000,10000"
    due_ms = client.engine.next_tick_ms()
    assert due_ms is not None
    assert bench.clock.now_ms < due_ms <= bench.clock.now_ms + 10_000
    bench.clock.now_ms = due_ms
    client.engine.tick()
    still_due_ms = client.engine.next_tick_ms()
    assert still_due_ms is None or still_due_ms > due_ms, "while the client reads nothing, none can be said"
    client.settle()
    assert client.beats == 1
    assert client.engine.next_tick_ms() == bench.clock.now_ms + 8_001


@pytest.mark.realises("BJ-IDLE-3")
def test_a_silent_client_is_taken_for_dead_after_some_tolerance(bench: Bench) -> None:
    client = Client(bench)
    client.log_in(heart_beat="10000,0")
    bench.clock.now_ms += 20_000
    client.engine.tick()
    client.feed(b"\n")
    bench.clock.now_ms += 20_000
    client.engine.tick()
    assert not client.engine.is_over
    bench.clock.now_ms += 6_000
    client.engine.tick()
    assert "nothing was heard" in client.next().headers["message"]


def stuck_client(bench: Bench, version: str) -> Client:
    """Return a client that wants no heart-beats, and has sent more to a full queue than the broker reads."""
    QueueManager.of(bench.broker.name).create("narrow", QueuePolicy(max_messages=1, overflow=Overflow.BLOCK))
    client = Client(bench, version=version)
    client.log_in()
    client.send("SEND", destination="/queue/narrow")
    client.settle()
    assert client.engine.next_tick_ms() is None
    client.send("SEND", b"x" * 2_000_000, destination="/queue/narrow")
    assert not client.engine.is_reading
    return client


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_a_client_that_is_not_read_is_sent_lines_for_nothing_else_tells_that_it_has_gone(
    bench: Bench, version: str
) -> None:
    client = stuck_client(bench, version)
    for beats in (1, 2):
        assert client.engine.next_tick_ms() == bench.clock.now_ms + 8_001
        bench.clock.now_ms += 8_001
        client.engine.tick()
        assert client.pull() == b"\n"
        assert client.beats == beats
    reader = bench.connect()
    reader.send("SUBSCRIBE", id="1", destination="/queue/narrow")
    reader.settle()
    client.settle()
    assert client.engine.is_reading
    assert client.engine.next_tick_ms() is None, "it did not ask for heart-beats"


def test_a_client_of_stomp_1_0_which_has_no_lines_between_frames_is_sent_none(bench: Bench) -> None:
    assert stuck_client(bench, "1.0").engine.next_tick_ms() is None

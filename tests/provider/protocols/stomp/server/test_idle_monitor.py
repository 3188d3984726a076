"""Signs of life: which the broker gives, which it awaits, and which it gives unasked to find out who has gone."""

from __future__ import annotations

import pytest

from pyjms_provider.core.policy import Overflow, QueuePolicy
from pyjms_provider.protocols.stomp.server.settings import StompSettings
from pyjms_provider.queue_manager import QueueManager
from tests.provider.protocols.stomp.server.bench import Bench, Client


@pytest.mark.realises("BJ-IDLE-1", "BJ-IDLE-2")
def test_the_broker_says_something_in_time(bench: Bench) -> None:
    client = Client(bench)
    assert client.log_in(heart_beat="0,4000").headers["heart-beat"] == "1000,1000"
    due_ms = client.engine.next_tick_ms()
    assert due_ms is not None
    assert bench.clock.now_ms < due_ms <= bench.clock.now_ms + 4_000
    bench.clock.now_ms = due_ms
    client.engine.tick()
    still_due_ms = client.engine.next_tick_ms()
    assert still_due_ms is None or still_due_ms > due_ms, "while the client reads nothing, none can be said"
    client.settle()
    assert client.beats == 1
    assert client.engine.next_tick_ms() == bench.clock.now_ms + 3_201


@pytest.mark.parametrize(("wanted", "agreed_ms"), [("0,1000", 1_000), ("0,10", 1_000), ("0,60000", 60_000)])
def test_a_client_is_sent_heart_beats_as_often_as_it_asked_for_but_not_more_than_once_a_second(
    bench: Bench, wanted: str, agreed_ms: int
) -> None:
    client = Client(bench)
    client.log_in(heart_beat=wanted)
    for beats in (1, 2, 3):
        begun_ms = bench.clock.now_ms
        bench.clock.now_ms = client.engine.next_tick_ms() or 0
        assert 0 < bench.clock.now_ms - begun_ms < agreed_ms
        client.engine.tick()
        client.settle()
        assert client.beats == beats


@pytest.mark.realises("BJ-IDLE-3")
@pytest.mark.parametrize(
    ("promised", "agreed_ms"), [("1000,0", 1_000), ("10,0", 1_000), ("10000,0", 10_000), ("60000,1000", 60_000)]
)
def test_a_silent_client_is_taken_for_dead_after_twice_what_it_promised(
    bench: Bench, promised: str, agreed_ms: int
) -> None:
    client = Client(bench)
    client.log_in(heart_beat=promised)
    for _ in range(2):
        bench.clock.now_ms += 2 * agreed_ms - 1
        client.engine.tick()
        assert not client.engine.is_over
        client.feed(b"\n")
    bench.clock.now_ms += 2 * agreed_ms
    client.engine.tick()
    assert "nothing was heard" in client.next().headers["message"]
    assert client.engine.is_over


def test_a_port_may_have_another_least_period_and_no_heart_beats_at_all() -> None:
    for least_ms, shown, agreed_ms in ((30_000, "30000,30000", 30_000), (0, "0,0", 0)):
        bench = Bench(StompSettings(heart_beat_ms=least_ms))
        client = Client(bench)
        assert client.log_in(heart_beat="1000,1000").headers["heart-beat"] == shown
        due_ms = client.engine.next_tick_ms()
        assert due_ms == (bench.clock.now_ms + agreed_ms * 0.8 + 1 if agreed_ms else None)
        bench.close()


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

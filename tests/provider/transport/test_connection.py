"""The work cycle, step by step: no sockets, no threads, no loop."""

from __future__ import annotations

import gc
from collections.abc import Callable
from itertools import product
from threading import Thread
from weakref import ref

import pytest

from pyjms.spi.errors import ResourceError
from pyjms_provider.protocols.engine import DeclinedJobError, RemoteJob
from pyjms_provider.transport.connection import NEXT, Direction, Event, State
from pyjms_provider.transport.settings import ListenerSettings
from tests.provider.transport.by_hand import GRAIN_MS, AnsweringLayer, PassingLayer, World


@pytest.fixture
def world() -> World:
    return World().begin()


def read_until_paused(world: World) -> int:
    """Have the peer send until nobody reads; return how many bytes that were."""
    read = 0
    while "pause_reading" not in world.transport.calls:
        world.read(b"x" * 1_024)
        read += 1_024
    return read


def heard(world: World) -> int:
    """Return how many bytes the engine was fed."""
    return sum(len(each) - len("received ") for each in world.engine.diary if each.startswith("received "))


@pytest.mark.realises("BJ-NET-1", "BJ-PE-1")
def test_what_is_read_goes_to_the_engine(world: World) -> None:
    world.read(b"hello")
    assert "received hello" in world.engine.diary


@pytest.mark.realises("BJ-NET-2", "BJ-PE-2")
def test_what_the_engine_has_to_say_is_pulled_not_pushed(world: World) -> None:
    world.engine.replies = [b"one", b"two"]
    assert not world.transport.written
    world.connection.wake()
    assert not world.transport.written, "waking is not writing"
    world.run()
    assert world.transport.written == [b"onetwo"], "one send for all that was pulled"


@pytest.mark.realises("BJ-TCP-3")
def test_a_cycle_writes_reads_and_writes(world: World) -> None:
    world.connection.wake()
    world.read(b"x")
    assert world.engine.diary == ["pull", "received x", "pull"]


@pytest.mark.realises("BJ-TCP-5")
def test_many_wakes_are_one_turn(world: World) -> None:
    for _ in range(5):
        world.connection.wake()
    assert len(world.steps) == 1
    world.run()
    world.connection.wake()
    assert len(world.steps) == 1


@pytest.mark.realises("BJ-TCP-4")
def test_nothing_is_read_while_output_waits(world: World) -> None:
    world.transport.takes_all = False
    world.engine.replies = [b"much"]
    world.connection.wake()
    world.run()
    world.engine.diary.clear()
    read = read_until_paused(world)
    assert read <= world.settings.read_buffer_bytes, "it costs one buffer"
    assert world.engine.diary == []
    world.transport.takes_all = True
    world.connection.resume_writing()
    world.run()
    assert world.engine.diary[0] == "pull"
    assert heard(world) == read
    assert world.transport.calls == ["pause_reading", "resume_reading"]


@pytest.mark.realises("BJ-PE-6")
def test_who_does_not_read_costs_one_buffer_and_one_frame(world: World) -> None:
    size = world.settings.write_buffer_bytes
    world.transport.takes_all = False
    world.engine.replies = [b"a" * (size - 1), b"b" * (5 * size), b"c"]
    world.connection.wake()
    world.run()
    world.connection.wake()
    world.run()
    assert [len(data) for data in world.transport.written] == [6 * size - 1]
    assert world.engine.replies == [b"c"]


@pytest.mark.realises("BJ-PE-7")
def test_who_has_more_has_another_turn_after_the_others(world: World) -> None:
    size = world.settings.write_buffer_bytes
    world.engine.replies = [b"a" * size, b"b" * size, b"c"]
    world.connection.wake()
    for written in (1, 2, 3):
        world.run()
        assert len(world.transport.written) == written
    world.run()
    assert not world.steps


def test_who_has_more_to_say_does_not_hear_meanwhile(world: World) -> None:
    world.engine.replies = [b"a" * world.settings.write_buffer_bytes]
    world.connection.wake()
    world.run()
    world.transport.takes_all = False
    world.engine.replies = [b"a" * world.settings.write_buffer_bytes]
    world.read(b"x")
    assert "received x" not in world.engine.diary


def test_an_engine_that_does_not_read_is_not_fed(world: World) -> None:
    world.engine.reads = False
    read = read_until_paused(world)
    assert not heard(world)
    world.engine.reads = True
    world.connection.wake()
    world.run()
    assert heard(world) == read
    assert world.transport.calls == ["pause_reading", "resume_reading"]


@pytest.mark.parametrize("reads", [True, False])
def test_a_socket_that_is_gone_is_neither_stopped_nor_read(world: World, *, reads: bool) -> None:
    world.engine.reads = False
    if reads:
        read_until_paused(world)
        world.engine.reads = True
    world.transport.calls = ["close"]
    world.read(b"y")
    world.connection.wake()
    world.run()
    assert world.transport.calls == ["close"]


def test_reading_goes_on_while_a_job_runs(world: World) -> None:
    world.connection.work(lambda: 1, lambda *_: None)
    world.read(b"x")
    assert "received x" in world.engine.diary


def test_a_result_is_told_and_then_pulled_for(world: World) -> None:
    told: list[object] = []
    world.connection.work(lambda: 1, lambda result, error: told.append((result, error)))
    world.jobs[0][1](7, None)
    assert told == [(7, None)]
    world.run()
    assert world.engine.diary == ["pull"]


def test_a_result_is_told_after_the_end_too(world: World) -> None:
    told: list[object] = []
    world.connection.work(lambda: 1, lambda result, error: told.append(result))
    world.connection.connection_lost(None)
    world.jobs[0][1](7, None)
    world.run()
    assert told == [7]
    assert world.engine.diary == ["closed NoneType"]


@pytest.mark.parametrize("is_told_at_once", [True, False])
def test_the_outcome_of_another_process_is_told_later_on_the_connections_thread(
    world: World, is_told_at_once: bool
) -> None:
    told: list[object] = []
    outcomes: list[Callable[[BaseException | None], None]] = []

    def start(ended: Callable[[BaseException | None], None]) -> bool:
        outcomes.append(ended)
        if is_told_at_once:
            ended(None)
        return True

    assert world.connection.begin(RemoteJob(start, told.append), told.append)
    assert told == []
    if not is_told_at_once:
        thread = Thread(target=outcomes[0], args=(None,))
        thread.start()
        thread.join()
    assert told == []
    world.run()
    assert told == [None, True]
    world.run()
    assert "pull" in world.engine.diary


def test_a_job_that_another_process_cannot_do_leaves_the_connection_as_it_was(world: World) -> None:
    assert not world.connection.begin(
        RemoteJob(lambda ended: False, lambda error: pytest.fail("ended")), lambda is_done: pytest.fail("done")
    )
    world.connection.connection_lost(None)
    world.run()
    assert world.engine.diary == ["closed NoneType"], "no job is waited for"


def test_a_job_that_another_process_declines_is_not_ended(world: World) -> None:
    def start(ended: Callable[[BaseException | None], None]) -> bool:
        ended(DeclinedJobError())
        return True

    told: list[bool] = []
    assert world.connection.begin(RemoteJob(start, lambda error: pytest.fail("ended")), told.append)
    world.run()
    assert told == [False]


def test_an_error_of_its_start_is_the_outcome_of_a_job(world: World) -> None:
    def start(ended: Callable[[BaseException | None], None]) -> bool:
        raise ResourceError("no")

    told: list[object] = []
    assert world.connection.begin(RemoteJob(start, lambda error: told.append(type(error))), told.append)
    assert told == []
    world.run()
    assert told == [ResourceError, True]


# -------------------------------------------------------------------------------------------------------------------- time


@pytest.mark.realises("BJ-IDLE-4")
def test_the_alarm_is_set_for_the_engines_next_tick(world: World) -> None:
    world.engine.tick_ms = 500
    world.read(b"x")
    assert world.alarms == [500]
    world.connection.wake()
    world.run()
    assert world.alarms == [500], "once is enough"
    world.engine.tick_ms = 300
    world.read(b"x")
    assert world.alarms == [500], "who wants an earlier one wakes the connection"
    world.connection.wake()
    world.run()
    assert world.alarms == [500, 300]


def is_free(world: World) -> bool:
    return world.connection.is_free


def test_who_is_free_pushes_once_until_its_next_turn(world: World) -> None:
    assert is_free(world)
    world.connection.push(b"one")
    assert world.transport.written == [b"one"]
    assert "pull" not in world.engine.diary
    assert not is_free(world)
    world.connection.wake()
    world.run()
    assert is_free(world)
    world.connection.push(b"two")
    assert not is_free(world)
    world.read(b"the peer goes on")
    assert is_free(world)


def test_who_has_a_turn_to_come_or_more_to_say_is_not_free(world: World) -> None:
    world.connection.wake()
    assert not is_free(world)
    world.run()
    assert is_free(world)
    world.engine.replies = [b"x" * world.settings.write_buffer_bytes]
    world.read(b"x")
    assert not is_free(world)


@pytest.mark.realises("BJ-TCP-4")
def test_a_peer_that_reads_nothing_costs_one_push_more(world: World) -> None:
    world.transport.takes_all = False
    world.connection.push(b"one")
    for _ in range(3):
        world.connection.wake()
        world.run()
        world.read(b"it speaks, and does not read")
        assert not is_free(world)
    assert world.transport.written == [b"one"]
    world.transport.takes_all = True
    world.connection.resume_writing()
    world.run()
    assert is_free(world)


def test_what_is_pushed_is_traced_and_a_fault_ends_that_connection_alone(world: World) -> None:
    world.trace = lambda _, direction, data: world.traced.append((direction, data))
    world.connection.push(b"one")
    assert world.traced == [(Direction.OUT, b"one")]

    def fail(*_: object) -> None:
        raise RuntimeError("a fault of the trace")

    world.trace = fail
    world.connection.push(b"two")
    assert "abort" in world.transport.calls
    assert not is_free(world)


def test_a_tick_comes_when_it_is_due_and_not_before(world: World) -> None:
    world.engine.tick_ms = 500
    world.read(b"x")
    world.clock.advance(499)
    world.ring()
    assert "tick" not in world.engine.diary
    world.clock.advance(1)
    world.ring()
    assert world.engine.diary[-2:] == ["tick", "pull"]


def test_an_engine_that_is_never_content_does_not_keep_the_loop_busy(world: World) -> None:
    world.clock.advance(1_000)
    world.engine.tick_ms = 0
    world.read(b"x")
    assert world.alarms[-1] > 1_000


def test_there_is_one_alarm_however_long_an_engine_is_not_content(world: World) -> None:
    world.clock.advance(1_000)
    world.engine.tick = world.connection.wake  # type: ignore[method-assign]  # and its tick does not change
    world.engine.tick_ms = 0
    world.read(b"x")
    for _ in range(100):
        world.connection.wake()
        world.run()
        world.clock.advance(10)
        world.ring()
        world.run()
        assert len(world.alarms) == 1


def test_an_alarm_that_an_earlier_one_replaced_is_not_set_again(world: World) -> None:
    for now_ms in range(0, 10_000, 1_000):
        world.engine.tick_ms = now_ms + 700
        world.connection.wake()
        world.run()
        world.engine.tick_ms = now_ms + 300  # who wants an earlier one wakes the connection
        world.connection.wake()
        world.run()
        assert world.alarms == [now_ms + 700, now_ms + 300]
        for step_ms in (300, 400):
            world.clock.advance(step_ms)
            world.engine.tick_ms = now_ms + 1_700
            world.ring()
        assert world.alarms == [now_ms + 1_700]
        world.clock.advance(300)


@pytest.mark.realises("BJ-IDLE-3")
def test_any_byte_is_a_sign_of_life(world: World) -> None:
    world.clock.advance(100)
    assert world.connection.heard_ms == 0
    world.read(b"\n")
    assert world.connection.heard_ms == 100


@pytest.mark.realises("BJ-IDLE-3")
def test_a_peer_that_is_not_listened_to_is_not_silent(world: World) -> None:
    world.transport.takes_all = False
    world.engine.replies = [b"much"]
    world.connection.wake()
    world.run()
    world.read(b"a sign of life")
    read_until_paused(world)
    world.clock.advance(60_000)
    assert world.connection.heard_ms == 60_000
    world.connection.resume_writing()
    world.run()
    assert world.connection.heard_ms == 60_000, "it had no chance to speak before"


@pytest.mark.realises("BJ-IDLE-3")
@pytest.mark.parametrize("has_layer", [False, True])
def test_a_peer_that_reads_nothing_is_heard_as_long_as_it_speaks(*, has_layer: bool) -> None:
    world = World()
    world.layer = PassingLayer() if has_layer else None
    world.begin()
    if has_layer:
        world.read(b"hello")  # the layer is open with it
    world.transport.takes_all = False
    world.engine.replies = [b"much"]
    world.connection.wake()
    world.run()
    for _ in range(1_000):
        world.clock.advance(10)
        world.read(b"\n")
        assert world.connection.heard_ms == world.clock.monotonic_ms()
    world.clock.advance(60_000)
    assert world.connection.heard_ms == 10_000
    assert world.transport.calls == []
    world.engine.diary.clear()
    world.connection.resume_writing()
    world.run()
    assert world.engine.diary == ["pull", "received " + "\n" * 1_000, "pull"]


def test_a_peer_that_takes_no_byte_for_too_long_is_cut_off() -> None:
    world = World(ListenerSettings(stalled_timeout_ms=1_000)).begin()
    world.transport.takes_all = False
    world.engine.replies = [b"much"]
    world.connection.wake()
    world.run()
    world.clock.advance(1_000)
    world.ring()
    assert world.transport.calls == ["abort"]


def test_a_peer_that_goes_on_in_time_is_not_cut_off() -> None:
    world = World(ListenerSettings(stalled_timeout_ms=1_000)).begin()
    world.transport.takes_all = False
    world.engine.replies = [b"much"]
    world.connection.wake()
    world.run()
    world.connection.resume_writing()
    world.clock.advance(1_000)
    world.ring()
    assert world.transport.calls == []


def test_a_peer_that_takes_bytes_slowly_is_not_cut_off_until_it_takes_none() -> None:
    world = World(ListenerSettings(stalled_timeout_ms=1_000)).begin()
    world.transport.takes_all = False
    world.engine.replies = [b"much"]
    world.connection.wake()
    world.run()
    for unsent in (3, 2, 1):
        world.transport.unsent = unsent
        world.clock.advance(1_000)
        world.ring()
        assert world.transport.calls == []
    world.clock.advance(1_000)
    world.ring()
    assert world.transport.calls == ["abort"]


def test_answers_of_a_layer_hide_nothing_of_what_the_peer_takes() -> None:
    world = World(ListenerSettings(stalled_timeout_ms=1_000))
    world.layer = AnsweringLayer()
    world.begin()
    world.read(b"hello")
    world.transport.written.clear()
    world.transport.takes_all = False
    world.engine.replies = [b"much"]
    world.connection.wake()
    world.run()
    world.read(b"ping")
    assert world.transport.written == [b"much", b"an answer"]
    world.transport.unsent -= 1
    world.clock.advance(1_000)
    world.ring()
    assert world.transport.calls == ["pause_reading"]
    world.clock.advance(1_000)
    world.ring()
    assert world.transport.calls == ["pause_reading", "abort"]


def test_a_limit_of_stalling_puts_off_no_end(world: World) -> None:
    closing_ms = world.settings.closing_timeout_ms
    world = World(ListenerSettings(stalled_timeout_ms=3 * closing_ms)).begin()
    world.transport.takes_all = False
    world.engine.replies = [b"farewell"]
    world.engine.over = True
    world.connection.wake()
    world.run()
    world.transport.unsent -= 1
    world.clock.advance(closing_ms)
    world.ring()
    assert world.transport.calls == ["abort"]


# ----------------------------------------------------------------------------------------------------------------- the end


def test_an_engine_that_is_over_has_its_last_word_before_the_end(world: World) -> None:
    world.engine.replies = [b"farewell"]
    world.engine.over = True
    world.connection.wake()
    world.run()
    assert world.transport.written == [b"farewell"]
    assert world.transport.calls == ["write_eof"], "then the peer is to hang up"


def test_last_words_wait_until_the_system_takes_them_but_not_for_ever(world: World) -> None:
    world.transport.takes_all = False
    world.engine.replies = [b"farewell"]
    world.engine.over = True
    world.connection.wake()
    world.run()
    assert world.transport.calls == []
    world.clock.advance(world.settings.closing_timeout_ms)
    world.ring()
    assert world.transport.calls == ["abort"]


def test_a_peer_that_does_not_hang_up_is_hung_up_on(world: World) -> None:
    world.engine.over = True
    world.connection.wake()
    world.run()
    world.read(b"more and more")
    world.clock.advance(world.settings.closing_timeout_ms)
    world.ring()
    assert world.transport.calls == ["write_eof", "abort"]
    assert "received more and more" not in world.engine.diary


def test_who_sends_nothing_more_still_gets_the_answers(world: World) -> None:
    told: list[object] = []
    world.connection.work(lambda: 1, lambda result, error: told.append(result))
    assert world.connection.eof_received() is True
    world.run()
    assert world.transport.calls == []
    world.engine.replies = [b"receipt"]
    world.jobs[0][1](1, None)
    world.run()
    assert world.transport.written == [b"receipt"]
    assert world.transport.calls == ["close"]


def test_who_sends_nothing_more_waits_for_other_clients_a_while_only(world: World) -> None:
    world.connection.work(lambda: 1, lambda *_: None, patient=True)
    world.clock.advance(60_000)
    world.ring()
    world.connection.eof_received()
    world.run()
    world.clock.advance(world.settings.closing_timeout_ms - GRAIN_MS)
    world.ring()
    assert "stop" not in world.engine.diary
    world.jobs[0][1](1, None)
    world.connection.work(lambda: 2, lambda *_: None, patient=True)  # what was asked for before, in its turn
    world.run()
    world.engine.stop = lambda reason: setattr(world.engine, "over", True)  # type: ignore[method-assign]
    world.clock.advance(GRAIN_MS)
    world.ring()
    assert world.transport.calls == ["close"]


def test_who_sends_nothing_more_has_all_the_time_that_the_disk_takes(world: World) -> None:
    world.connection.work(lambda: 1, lambda *_: None, patient=True)
    world.connection.work(lambda: 2, lambda *_: None)
    world.connection.eof_received()
    world.run()
    world.jobs[0][1](1, None)
    world.run()
    world.clock.advance(60_000)
    world.ring()
    assert "stop" not in world.engine.diary
    assert world.transport.calls == []
    world.jobs[1][1](2, None)
    world.run()
    assert world.transport.calls == ["close"]


@pytest.mark.parametrize("place", ["received", "pull", "tick", "stop"])
def test_a_fault_of_an_engine_ends_its_connection_alone(
    world: World, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    world.engine.fails_in = place
    world.engine.tick_ms = 0
    world.read(b"secret")
    world.clock.advance(GRAIN_MS)
    world.ring()
    world.connection.stop("test")
    assert "abort" in world.transport.calls
    world.connection.connection_lost(None)
    assert world.engine.diary[-1] == "closed RuntimeError"
    assert world.has_ended
    assert "PYJMS-NET-10" in caplog.text


def test_an_engine_hears_of_the_end_once(world: World) -> None:
    world.connection.connection_lost(ConnectionResetError())
    world.connection.connection_lost(None)
    world.ring()
    world.connection.wake()
    world.run()
    assert world.engine.diary == ["closed ConnectionResetError"]


@pytest.mark.realises("BJ-TCP-6")
def test_the_states_of_a_connection_are_a_table() -> None:
    forbidden = {
        (State.OPEN, Event.OPENED),
        (State.CLOSING, Event.OPENED),
        (State.CLOSING, Event.FINISHED),
        *((State.ENDED, event) for event in Event),
    }
    assert {pair for pair in product(State, Event) if pair not in NEXT} == forbidden


def test_a_trace_sees_both_directions() -> None:
    world = World()
    world.trace = lambda _, direction, data: world.traced.append((direction, data))
    world.begin()
    world.engine.replies = [b"pong"]
    world.read(b"ping")
    assert world.traced == [(Direction.IN, b"ping"), (Direction.OUT, b"pong")]


def test_what_has_ended_is_kept_by_nobody_until_its_last_alarm(world: World) -> None:
    connection, engine = ref(world.connection), ref(world.engine)
    world.engine.tick_ms = 30_000
    world.read(b"x")
    assert world.armed, "an alarm is to come"
    world.connection.connection_lost(None)
    world.engine.conduit.wake()
    world.run()
    assert world.engine.diary[-1] == "closed NoneType"
    gc.disable()
    try:
        del world.connection, world.engine, world.transport.protocol
        world.steps.clear()
        assert [connection(), engine()] == [None, None]
    finally:
        gc.enable()

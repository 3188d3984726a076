"""Where threads wait: the inbox and the gate of a session's deliveries."""

from __future__ import annotations

from threading import Barrier, get_ident

import pytest

from pyjms import JMSException
from pyjms.runtime.waiting import CloseOnce, DeliveryGate, Inbox
from pyjms.spi import SystemClock
from pyjms.testing import VirtualClock
from tests.pyjms.runtime.helpers import PATIENCE_S, Call, WatchedClock


class TestInbox:
    def test_a_wake_before_the_wait_is_not_lost(self) -> None:
        inbox = Inbox(SystemClock().wait)
        inbox.wake()
        assert inbox.wait(None)

    def test_two_wakes_are_one(self) -> None:
        clock = VirtualClock()
        inbox = Inbox(clock.wait)
        inbox.wake()
        inbox.wake()
        assert inbox.wait(None)
        assert not inbox.wait(clock.monotonic_ms())

    def test_a_wait_ends_with_its_deadline(self) -> None:
        clock = VirtualClock()
        inbox = Inbox(clock.wait)
        waiting = Call(inbox.wait, clock.monotonic_ms() + 1000)
        clock.await_wait(1000)
        clock.advance(999)
        assert waiting.is_blocked()
        clock.advance(1)
        assert waiting.result() is False

    def test_a_deadline_that_has_passed_does_not_block(self) -> None:
        clock = VirtualClock()
        until_ms = clock.monotonic_ms() + 10
        clock.advance(11)
        assert Inbox(clock.wait).wait(until_ms) is False

    def test_waking_ends_a_wait_without_limit(self) -> None:
        clock = WatchedClock()
        inbox = Inbox(clock.wait)
        waiting = Call(inbox.wait, None)
        clock.await_blocked(waiting)
        inbox.wake()
        assert waiting.result() is True


class TestGate:
    def test_it_is_shut_at_first(self) -> None:
        assert not DeliveryGate().is_open

    def test_a_quiet_gate_waits_for_nobody(self) -> None:
        gate = DeliveryGate()
        Call(gate.wait_until_quiet).result()
        Call(gate.wait_until_quiet, listeners_only=True).result()

    @pytest.mark.parametrize("listeners_only", [False, True])
    def test_it_waits_for_a_listener(self, listeners_only: bool) -> None:
        gate, steps = DeliveryGate(), Barrier(2, timeout=PATIENCE_S)
        Call(self._busy, gate, "consumer", True, steps)
        steps.wait()
        waiting = Call(gate.wait_until_quiet, listeners_only=listeners_only)
        assert waiting.is_blocked()
        steps.wait()
        waiting.result()

    def test_listeners_only_passes_by_a_receive(self) -> None:
        gate, steps = DeliveryGate(), Barrier(2, timeout=PATIENCE_S)
        receiving = Call(self._busy, gate, "consumer", False, steps)
        steps.wait()
        Call(gate.wait_until_quiet, listeners_only=True).result()
        waiting = Call(gate.wait_until_quiet)
        assert waiting.is_blocked()
        with gate.lock:
            assert gate.receiver == receiving.thread.ident
        steps.wait()
        waiting.result()
        with gate.lock:
            assert gate.receiver is None

    def test_it_waits_for_one_consumer_only(self) -> None:
        gate, steps = DeliveryGate(), Barrier(2, timeout=PATIENCE_S)
        Call(self._busy, gate, "mine", True, steps)
        steps.wait()
        Call(gate.wait_until_quiet, consumer="other").result()
        waiting = Call(gate.wait_until_quiet, consumer="mine")
        assert waiting.is_blocked()
        steps.wait()
        waiting.result()

    def test_nobody_waits_for_itself(self) -> None:
        def on_one_thread() -> bool:
            gate = DeliveryGate()
            with gate.lock:
                gate.enter("consumer")
            gate.wait_until_quiet()
            inside = gate.runs_listener_here()
            gate.leave()
            return inside and not gate.runs_listener_here()

        assert Call(on_one_thread).result()

    def test_a_receive_is_no_listener(self) -> None:
        gate = DeliveryGate()
        with gate.lock:
            gate.receiver, gate.receives_for = get_ident(), "consumer"
        assert not gate.runs_listener_here()

    @staticmethod
    def _busy(gate: DeliveryGate, consumer: str, listener: bool, steps: Barrier) -> None:
        with gate.lock:
            if listener:
                gate.enter(consumer)
            else:
                gate.receiver, gate.receives_for = get_ident(), consumer
        steps.wait()
        steps.wait()
        if listener:
            gate.leave()
        else:
            with gate.lock:
                gate.end_receive()


class TestCloseOnce:
    def test_its_own_thread_does_not_wait_for_itself(self) -> None:
        closing, done = CloseOnce(), list[int]()

        def work() -> None:
            closing.do(work)
            done.append(1)

        Call(closing.do, work).result()
        assert done == [1]

    @pytest.mark.parametrize("is_awaited", [False, True])
    @pytest.mark.parametrize("error", [JMSException("failed"), ValueError("wrong")])
    def test_the_next_call_closes_again_after_an_unexpected_error_only(
        self, error: Exception, is_awaited: bool
    ) -> None:
        closing, done = CloseOnce(), list[int]()
        others = list[Call[None]]()

        def work() -> None:
            if is_awaited:
                others.append(Call(closing.do, lambda: done.append(2)))
            raise error

        with pytest.raises(type(error)):
            closing.do(work)
        if not others:
            others.append(Call(closing.do, lambda: done.append(2)))
        others[0].result()
        assert done == ([] if isinstance(error, JMSException) else [2])

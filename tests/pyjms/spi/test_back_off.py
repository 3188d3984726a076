"""The waits between attempts."""

from __future__ import annotations

from random import Random

from pyjms.spi.clock import BackOff, Delays


def test_waits_grow_up_to_a_limit_and_chance_shortens_them() -> None:
    delays = Delays(BackOff(first_ms=100, most_ms=1_000, factor=2, jitter=0.5), lambda: 0.0)
    assert [delays.next_ms() for _ in range(6)] == [100, 200, 400, 800, 1_000, 1_000]
    delays.reset()
    assert delays.next_ms() == 100
    lucky = Delays(BackOff(first_ms=100, most_ms=1_000, jitter=0.5), lambda: 1.0)
    assert lucky.next_ms() == 50
    patient = Delays(BackOff(first_ms=1, most_ms=1_000), lambda: 0.0)
    assert [patient.next_ms() for _ in range(5_000)][-1] == 1_000


def test_waits_between_rounds_double_up_to_the_limit_and_jitter_takes_at_most_half() -> None:
    delays = Delays(BackOff(first_ms=100, most_ms=1000, jitter=0.5), Random(7).random)
    for whole in (100, 200, 400, 800, 1000, 1000):
        assert whole / 2 <= delays.next_ms() <= whole
    delays.reset()
    assert delays.next_ms() <= 100


def test_two_clients_do_not_wait_alike() -> None:
    half = BackOff(first_ms=1000, most_ms=1000, jitter=0.5)
    assert Delays(half, Random(1).random).next_ms() != Delays(half, Random(2).random).next_ms()

"""Wrong attempts are counted by network and user, within bounded memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyjms.testing import VirtualClock
from pyjms_provider.security.contracts import TooManyAttemptsError
from pyjms_provider.security.logins import Throttle, ThrottleSettings, network_of


@pytest.mark.parametrize(
    ("peer", "network"),
    [
        ("192.0.2.7:61613", "192.0.2.7"),
        ("192.0.2.7", "192.0.2.7"),
        ("[2001:db8::1]:61613", "2001:db8::/64"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:1", "2001:db8::/64"),
        ("[2001:db8:0:1::1]:1", "2001:db8:0:1::/64"),
        ("[::ffff:192.0.2.7]:61613", "192.0.2.7"),
        ("[fe80::1%eth0]:61613", "fe80::/64"),
        ("localhost:80", "localhost"),
        ("", ""),
        ("x" * 1000, "x" * 64),
    ],
)
def test_a_network_is_what_one_customer_has(peer: str, network: str) -> None:
    assert network_of(peer) == network


@given(st.text())
def test_any_text_can_be_a_peer(peer: str) -> None:
    assert len(network_of(peer)) <= 64


def test_memory_is_bounded_and_the_oldest_go_first() -> None:
    throttle = Throttle(ThrottleSettings(burst=1, remembered=100), VirtualClock())
    for number in range(1000):
        throttle.admit(f"10.0.{number // 250}.{number % 250}:1", "alice")
    assert len(throttle) == 200
    with pytest.raises(TooManyAttemptsError):
        throttle.admit("10.0.3.249:2", "alice")
    throttle.admit("10.0.0.0:2", "alice")


@given(st.lists(st.tuples(st.integers(0, 30_000), st.booleans()), max_size=60))
def test_never_more_are_looked_at_than_the_rate_allows(steps: list[tuple[int, bool]]) -> None:
    clock = VirtualClock()
    throttle = Throttle(ThrottleSettings(burst=3, interval_ms=10_000, network_burst=1000), clock)
    wrong = 0
    for wait_ms, is_right in steps:
        clock.advance(wait_ms)
        try:
            throttle.admit("192.0.2.7:1", "alice")
        except TooManyAttemptsError:
            continue
        if is_right:
            throttle.forgive("192.0.2.7:1", "alice")
        else:
            wrong += 1
        assert wrong <= 3 + clock.monotonic_ms() / 10_000


def test_refused_attempts_do_not_prolong_the_wait() -> None:
    clock = VirtualClock()
    throttle = Throttle(ThrottleSettings(burst=1, interval_ms=10_000), clock)
    throttle.admit("192.0.2.7:1", "alice")
    for _ in range(10):
        clock.advance(999)
        with pytest.raises(TooManyAttemptsError):
            throttle.admit("192.0.2.7:1", "alice")
    clock.advance(10)
    throttle.admit("192.0.2.7:1", "alice")

"""Connections that are cut, halved, delayed, overtaken by the next one and cut into pieces at every step of the protocol: nothing
is lost, and nothing comes twice that may not; and no subscription is ever silently gone.

``PYJMS_CUTS=2000`` says how many cuts; the default is 100. ``PYJMS_NETWORK_SEED`` has the pieces cut elsewhere.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from itertools import accumulate, cycle, islice, product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyjms.history import Report, record
from pyjms_provider.protocols.amqp.frames import ProtocolHeader, ProtocolId, write_frame
from pyjms_provider.protocols.stomp.codec import encode
from pyjms_provider.protocols.stomp.frames import Frame, Version
from pyjms_provider.serving.served_broker import ServedBroker
from tests.system.network.crowd import Crowd
from tests.system.network.proxy import AmqpFrameEnds, Cut, FrameEnds, Place, Proxy, StompFrameEnds, Way
from tests.system.network.served import anonymous_broker, port_of

CUTS = int(os.environ.get("PYJMS_CUTS", "100"))
SEED = int(os.environ.get("PYJMS_NETWORK_SEED", "0"))
_log = logging.getLogger(__name__)
_FRAMES = {"stomp": 24, "amqp": 44}
_ROUNDS = 60  # of work, in which even the latest frame comes


@pytest.fixture(params=["stomp", "amqp"])
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def broker(protocol: str) -> Iterator[ServedBroker]:
    with anonymous_broker(name=protocol, type=protocol) as broker:
        yield broker


def cuts(frames: int) -> Iterator[list[Cut]]:
    """Yield plans: each of the `frames` of a round of work and of healing, at each place, once; every third is cut twice."""
    steps = cycle(product(range(1, frames + 1), Place, Way))
    for number, (frame, place, way) in enumerate(each for each in steps if each[1:] != (Place.LATE, Way.DOWN)):
        plan = [Cut(way, frame, place)]
        if number % 3 == 2:  # the connection that is being made anew is cut, too
            plan.append(Cut(Way.UP if number % 2 else Way.DOWN, 1 + number % 7, Place.WITHIN))
        yield plan


@settings(max_examples=30)
@given(st.lists(st.binary(max_size=40), max_size=5), st.integers(1, 60))
def test_the_proxy_knows_where_frames_of_stomp_end(bodies: list[bytes], step: int) -> None:
    frames = [
        encode(Frame("SENDS", {"content-length": str(len(body))}, body), Version.V1_2) + b"\n\n" for body in bodies
    ]
    assert _ends_of(b"".join(frames), StompFrameEnds(), step) == [end - 3 for end in accumulate(map(len, frames))]


@settings(max_examples=30)
@given(st.lists(st.binary(min_size=1, max_size=40), max_size=5), st.integers(1, 60))
def test_the_proxy_knows_where_frames_of_amqp_end(bodies: list[bytes], step: int) -> None:
    pieces = [bytes(ProtocolHeader(ProtocolId.AMQP)), *(write_frame(0, body) + write_frame(0, b"") for body in bodies)]
    expected = list(accumulate(map(len, pieces)))
    assert _ends_of(b"".join(pieces), AmqpFrameEnds(), step) == [expected[0] - 1, *(end - 9 for end in expected[1:])]


def _ends_of(data: bytes, ends: FrameEnds, step: int) -> list[int]:
    return [at + end for at in range(0, len(data), step) for end in ends.of(data[at : at + step])]


def judged(report: Report) -> None:
    assert report.violations == (), str(report)


@pytest.mark.timeout(300 if CUTS <= 100 else 7200)
@pytest.mark.parametrize("rechunks", [False, True])
def test_cuts_at_every_step_break_no_guarantee(
    broker: ServedBroker, protocol: str, tmp_path: Path, *, rechunks: bool
) -> None:
    target = ("127.0.0.1", port_of(broker))
    with record(tmp_path) as recording, Proxy(target, SEED, protocol) as proxy:
        proxy.rechunks = rechunks
        crowd = Crowd(proxy.port, recording, protocol)
        done = 0
        for plan in islice(cuts(_FRAMES[protocol]), CUTS // 2):
            done += len(plan)
            proxy.arm(plan)
            for _ in range(_ROUNDS):
                crowd.work()
                if not proxy.is_armed:
                    break
            proxy.arm([])
            crowd.check_that_all_receive()
            if done >= CUTS // 2:
                break
        assert proxy.cut_count >= CUTS // 2 * 0.9
        assert len(crowd.heard.errors) >= proxy.cut_count / 3  # losses are told, if the healing is not what was cut
        crowd.drain()
        crowd.close()
        report = recording.check(complete=True)
        judged(report)
    _log.info("%d cuts, %d losses told, %d events judged", proxy.cut_count, len(crowd.heard.errors), report.events)

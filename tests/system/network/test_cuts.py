"""Connections that are cut, halved, delayed, overtaken by the next one and cut into pieces at every step of the protocol: nothing
is lost, and nothing comes twice that may not; and no subscription is ever silently gone.

``PYJMS_CUTS=2000`` says how many cuts; the default is 100.
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
from pyjms_provider.protocols.stomp.codec import encode
from pyjms_provider.protocols.stomp.frames import Frame, Version
from pyjms_provider.serving.served_broker import ServedBroker
from tests.system.network.crowd import Crowd
from tests.system.network.proxy import Cut, FrameEnds, Place, Proxy, Way
from tests.system.network.served import anonymous_broker

CUTS = int(os.environ.get("PYJMS_CUTS", "100"))
_log = logging.getLogger(__name__)
_ROUNDS = 60  # of work, in which even the latest frame comes


@pytest.fixture
def broker() -> Iterator[ServedBroker]:
    with anonymous_broker() as broker:
        yield broker


def cuts() -> Iterator[list[Cut]]:
    """Yield plans: each frame of a round of work and of healing, at each place, once; every third is cut twice."""
    steps = cycle(product(range(1, 25), Place, Way))
    for number, (frame, place, way) in enumerate(each for each in steps if each[1:] != (Place.LATE, Way.DOWN)):
        plan = [Cut(way, frame, place)]
        if number % 3 == 2:  # the connection that is being made anew is cut, too
            plan.append(Cut(Way.UP if number % 2 else Way.DOWN, 1 + number % 7, Place.WITHIN))
        yield plan


@settings(max_examples=30)
@given(st.lists(st.binary(max_size=40), max_size=5), st.integers(1, 60))
def test_the_proxy_knows_where_frames_end(bodies: list[bytes], step: int) -> None:
    frames = [
        encode(Frame("SENDS", {"content-length": str(len(body))}, body), Version.V1_2) + b"\n\n" for body in bodies
    ]
    data, ends = b"".join(frames), FrameEnds()
    found = [at + end for at in range(0, len(data), step) for end in ends.of(data[at : at + step])]
    assert found == [end - 3 for end in accumulate(map(len, frames))]


def judged(report: Report) -> None:
    assert report.violations == (), str(report)


@pytest.mark.timeout(300 if CUTS <= 100 else 7200)
@pytest.mark.parametrize("rechunks", [False, True])
def test_cuts_at_every_step_break_no_guarantee(broker: ServedBroker, tmp_path: Path, *, rechunks: bool) -> None:
    port = int(broker.addresses()[0].rpartition(":")[2])
    with record(tmp_path) as recording, Proxy(("127.0.0.1", port)) as proxy:
        proxy.rechunks = rechunks
        crowd = Crowd(proxy.port, recording)
        done = 0
        for plan in islice(cuts(), CUTS // 2):
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

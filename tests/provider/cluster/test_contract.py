"""The contract tests of the SPI, on connections to a cluster: at a member that leads half of its shards, and at one that leads none, whose clients
reach all destinations by links.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyjms.spi.registry import register_provider
from pyjms.testing import VirtualClock
from pyjms_tck.spi.environment import Environment
from pyjms_tck.spi.suite import *  # noqa: F403  the contract's own tests
from tests.provider.cluster.fake import SHARDS, FakeCluster, FakeClusterProvider

# A consumer behind a link takes messages in advance: what comes while it has credit is its own, whether it is interested or not, and goes to
# no other consumer until it closes.
del test_many_threads_share_a_queue_and_each_message_comes_once  # noqa: F821
del test_what_is_given_back_is_told  # noqa: F821
del test_who_found_something_waits_no_longer  # noqa: F821
del test_the_wake_up_of_who_waits_no_longer_is_handed_on  # noqa: F821


@pytest.fixture(scope="module", params=[range(0, SHARDS, 2), ()], ids=["leads half", "leads nothing"])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[FakeCluster, VirtualClock]]:
    clock = VirtualClock()
    cluster = FakeCluster(tmp_path_factory.mktemp("cluster"), clock, request.param)
    register_provider("fakecluster", FakeClusterProvider(cluster))
    yield cluster, clock
    register_provider("fakecluster", None)
    cluster.stop()


@pytest.fixture  # type: ignore[no-redef]
def environment(cluster: tuple[FakeCluster, VirtualClock]) -> Iterator[Environment]:
    with Environment("fakecluster://books") as opened:
        opened.clock = cluster[1]
        yield opened

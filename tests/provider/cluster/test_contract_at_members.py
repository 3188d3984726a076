"""The contract tests of the SPI, at a member of a cluster in PostgreSQL that leads nothing: one in another process leads all shards."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyjms.spi.registry import register_provider
from pyjms_tck.spi.environment import Environment
from pyjms_tck.spi.suite import *  # noqa: F403  the contract's own tests
from tests.provider.cluster.fake import ClusterProvider
from tests.provider.cluster.world import SHARDS, ClusterWorld, leaders, wait_until
from tests.provider.postgresql import PostgresqlServer

pytestmark = [pytest.mark.requires("postgresql"), pytest.mark.xdist_group("contract at members")]

# A consumer behind a link takes messages in advance; see `test_contract.py`.
del test_many_threads_share_a_queue_and_each_message_comes_once  # noqa: F821
del test_what_is_given_back_is_told  # noqa: F821
del test_who_found_something_waits_no_longer  # noqa: F821
del test_the_wake_up_of_who_waits_no_longer_is_handed_on  # noqa: F821

# These move the clock, and members have that of the system; `test_contract.py` has them behind links, too.
del test_a_branch_that_takes_too_long_is_rolled_back_if_timeouts_are_heeded  # noqa: F821
del test_a_browser_does_not_see_a_message_for_later  # noqa: F821
del test_a_message_for_later_comes_at_its_time_and_says_it  # noqa: F821
del test_a_message_for_later_is_for_the_subscribers_of_its_send  # noqa: F821
del test_a_message_that_expires_before_its_time_never_comes  # noqa: F821
del test_a_reservation_waits_for_a_message_and_not_for_ever  # noqa: F821
del test_a_transaction_whose_message_expired_is_rolled_back_by_its_prepare  # noqa: F821
del test_capabilities_are_those_that_work  # noqa: F821
del test_messages_that_are_due_at_one_time_come_by_priority  # noqa: F821
del test_the_delivery_time_of_a_message_in_a_transaction_is_that_of_its_send  # noqa: F821


_LEASE_MS = 60_000
"""Nobody dies here, and the machine is busy at times."""


@pytest.fixture(scope="module")
def members(postgresql: PostgresqlServer) -> Iterator[None]:
    world = ClusterWorld(postgresql)
    world.start_process("leader", lease_ms=_LEASE_MS)
    member = world.start("asked", lease_ms=_LEASE_MS)
    for number in range(SHARDS):
        member.move_leader(number, "leader")
    wait_until(lambda: set(leaders(member).values()) == {"leader"} and not member.brokers())
    register_provider("members", ClusterProvider(member))
    yield
    register_provider("members", None)
    world.close()


@pytest.fixture  # type: ignore[no-redef]
def environment(members: None) -> Iterator[Environment]:
    with Environment("members://shop") as opened:
        yield opened

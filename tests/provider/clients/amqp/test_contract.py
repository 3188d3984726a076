"""The contract tests of the SPI, over AMQP with the bundled broker, in memory and with a store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyjms.spi.capability import Capability
from pyjms.testing import VirtualClock
from pyjms_tck.spi.branch_suite import *  # noqa: F403  the contract's own tests
from pyjms_tck.spi.closing_suite import *  # noqa: F403
from pyjms_tck.spi.connecting_suite import *  # noqa: F403
from pyjms_tck.spi.declarations import misdeclared
from pyjms_tck.spi.delivery_suite import *  # noqa: F403
from pyjms_tck.spi.environment import Environment
from pyjms_tck.spi.notifying_suite import *  # noqa: F403
from pyjms_tck.spi.pipeline_suite import *  # noqa: F403
from pyjms_tck.spi.refusing_suite import *  # noqa: F403
from pyjms_tck.spi.session_suite import *  # noqa: F403
from pyjms_tck.spi.sharing_suite import *  # noqa: F403
from tests.system.network.served import port_of, stored_broker

# A consumer over AMQP takes messages in advance: what comes while it has credit is its own, whether it is interested or not, and goes to no other
# consumer until it closes.
# The failures of a listener are counted in the client, which delivers from its memory (decision 0812): that counts as working here.
del test_capabilities_are_those_that_work  # noqa: F821
del test_many_threads_share_a_queue_and_each_message_comes_once  # noqa: F821
del test_what_is_given_back_is_told  # noqa: F821
del test_who_found_something_waits_no_longer  # noqa: F821
del test_the_wake_up_of_who_waits_no_longer_is_handed_on  # noqa: F821


@pytest.fixture(scope="module", params=["memory", "store"])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, VirtualClock]]:
    store = f"sqlite:///{tmp_path_factory.mktemp('store') / 'broker.db'}" if request.param == "store" else None
    clock = VirtualClock()
    with stored_broker(store, clock, {"type": "amqp", "name": "amqp"}) as served:
        yield f"amqp://127.0.0.1:{port_of(served)}", clock


@pytest.fixture  # type: ignore[no-redef]
def environment(served: tuple[str, VirtualClock]) -> Iterator[Environment]:
    url, clock = served
    with Environment(url) as opened:
        opened.clock = clock
        yield opened


def test_what_the_broker_can_do_over_amqp_is_declared(environment: Environment, request: pytest.FixtureRequest) -> None:
    lacking = Capability(0)
    for each in Capability:
        if each not in environment.connect().capabilities:
            lacking |= each
    has_store = "store" in request.node.callspec.params.values()
    assert lacking == (
        Capability.EMBEDDED_BROKER
        | Capability.SHARED_TRANSACTIONS
        | Capability.REDELIVERY_LIMITS
        | (Capability(0) if has_store else Capability.XA)
    )
    assert set(misdeclared(environment)) == {Capability.REDELIVERY_LIMITS}

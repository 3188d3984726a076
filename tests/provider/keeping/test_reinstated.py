"""A message whose removal could not be written comes back when it is its time, and to its place."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import InDoubtError, ProviderError, ResourceError
from pyjms.testing import VirtualClock
from pyjms.types import Long
from pyjms_provider.core.journal.in_doubt_writes import RETRY_MS
from pyjms_provider.core.journal.journal import Changes
from pyjms_provider.queue_manager import QueueManager
from tests.provider.keeping.site import consume, take_all
from tests.provider.simulation.site import SimulatedSite

LATE = Address(AddressKind.QUEUE, "late")


def manager(site: SimulatedSite) -> QueueManager:
    return QueueManager(site.broker.virtual_host)


def advance(site: SimulatedSite, milliseconds: int) -> None:
    assert isinstance(site.clock, VirtualClock)
    site.clock.advance(milliseconds)
    site.tend()


@pytest.mark.parametrize("kind", [ResourceError, InDoubtError], ids=["refused", "in doubt"])
@pytest.mark.parametrize("choices", [{}, {"groups": True}, {"type": "sorted", "key": "k"}], ids=repr)
def test_a_scheduled_message_that_could_not_be_moved_still_waits_for_its_time(
    kind: type[ProviderError], choices: dict[str, Any]
) -> None:
    """And then everybody finds it, as it has a place in the queue like any other."""
    site = SimulatedSite()
    manager(site).create("orders", **choices)
    site.texts(LATE)
    site.send("now", properties={"k": 1})
    site.send("later", properties={"k": 2, "JMS_pyjms_deliverAt": Long(site.clock.time_ms() + 60_000)})

    def lose(point: str, changes: Changes) -> None:
        if point == "before write" and any(
            each.envelope is not None and each.envelope.body == "later" for each in changes.messages
        ):
            site.trap = None
            raise kind("the disk is full")

    site.trap = lose
    with suppress(ProviderError):
        manager(site).move("orders", "late")
    advance(site, RETRY_MS)
    assert (site.texts(), site.texts(LATE)) == ([], ["now"])
    assert take_all(consume(site.session())) == []
    advance(site, 60_000)
    assert site.texts() == ["later"]
    session = site.session()
    (found,) = take_all(consume(session, selector="k = 2"))
    session.recover([found])
    assert site.texts() == ["later"]
    assert site.drain() == [("later", 2)]


@pytest.mark.parametrize("kind", [ResourceError, InDoubtError], ids=["refused", "in doubt"])
def test_a_message_that_was_given_back_and_could_not_be_moved_stays_away(kind: type[ProviderError]) -> None:
    site = SimulatedSite()
    manager(site).create("orders", redelivery_delay_ms=60_000)
    site.texts(LATE)
    site.send("order")
    session = site.session()
    session.recover(take_all(consume(session)))

    def lose(point: str, changes: Changes) -> None:
        if point == "before write" and changes.messages:
            site.trap = None
            raise kind("the disk is full")

    site.trap = lose
    with suppress(ProviderError):
        manager(site).move("orders", "late")
    advance(site, RETRY_MS)
    assert take_all(consume(site.session())) == []
    advance(site, 60_000)
    assert site.drain() == [("order", 2)]

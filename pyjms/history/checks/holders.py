"""A message is in one pair of hands at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from pyjms.history.events import Event
from pyjms.history.facts import Facts
from pyjms.history.findings import Finding, finding


class _Holder(NamedTuple):
    """A delivery, and what is known of how long it was held: made once, however many come after it."""

    event: Event
    until: Mapping[str, int]
    """By node: when the earliest of what may have ended the holding began."""
    latest_ns: int | None
    """It was not surely held until after a delivery that was over then or later; None: nothing may have ended it."""


def check_holders(facts: Facts) -> Iterator[Finding]:
    """Yield deliveries that lie wholly within the time during which another one of the same message was held.

    The first holder must be known to have been alive still: a connection that broke unnoticed gives its messages back.
    """
    for (channel, mid), deliveries in facts.groups.items():
        if len(deliveries) == 1:
            continue
        holders: list[_Holder] = []
        for second, least_ns in zip(deliveries, _least_ends(deliveries), strict=True):
            holders = [each for each in holders if each.latest_ns is None or each.latest_ns > least_ns]
            for first in reversed(holders):
                proof = _held_throughout(facts, first, second)
                if proof is None:
                    continue
                yield finding(
                    "two-holders",
                    [first.event, second, proof],
                    mid=mid,
                    dest=channel.dest,
                    first=first.event.consumer,
                    second=second.consumer,
                )
                break
            holders.append(_holder(facts, second))


def _least_ends(deliveries: Sequence[Event]) -> list[int]:
    """Return for each delivery when it or a later one was over at the earliest: who held no longer is done with."""
    ends = [event.t0 if event.t1 is None else event.t1 for event in reversed(deliveries)]
    return list(accumulate(ends, min))[::-1]


def _holder(facts: Facts, event: Event) -> _Holder:
    until: dict[str, int] = {}
    for release in facts.releases(event):
        until[release.node] = min(release.t0, until.get(release.node, release.t0))
    return _Holder(event, until, min(until.values(), default=None))


def _held_throughout(facts: Facts, first: _Holder, second: Event) -> Event | None:
    """Return what shows that `first` was held until after `second`; None if it need not have been."""
    if second.t1 is None or not facts.precedes(first.event, second):
        return None
    for node, until_ns in first.until.items():
        if not second.t1 + facts.allowance_ns(second.node, node) < until_ns:
            return None
    return facts.proof_of_life(first.event, second)

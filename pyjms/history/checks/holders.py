"""A message is in one pair of hands at a time."""

from __future__ import annotations

from collections.abc import Iterator

from pyjms.history.events import Event
from pyjms.history.facts import Facts
from pyjms.history.findings import Finding, finding

__all__ = ["check_holders"]


def check_holders(facts: Facts) -> Iterator[Finding]:
    """Yield deliveries that lie wholly within the time during which another one of the same message was held.

    The first holder must be known to have been alive still: a connection that broke unnoticed gives its messages back.
    """
    for (channel, mid), deliveries in facts.groups.items():
        for number, second in enumerate(deliveries):
            for first in reversed(deliveries[:number]):
                proof = _held_throughout(facts, first, second)
                if proof is None:
                    continue
                yield finding(
                    "two-holders",
                    [first, second, proof],
                    mid=mid,
                    dest=channel.dest,
                    first=first.consumer,
                    second=second.consumer,
                )
                break


def _held_throughout(facts: Facts, first: Event, second: Event) -> Event | None:
    """Return what shows that `first` was held until after `second`; None if it need not have been."""
    if not facts.precedes(first, second):
        return None
    if not all(facts.precedes(second, release) for release in facts.releases(first)):
        return None
    return facts.proof_of_life(first, second)

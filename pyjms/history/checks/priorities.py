"""Higher priorities should come first (JMS 1.1 §3.4.10: a provider tries)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from pyjms.history.facts import Facts
from pyjms.history.findings import Finding, finding
from pyjms.history.notes import note_of


def check_priorities(facts: Facts) -> Iterator[Finding]:
    """Yield messages that came right after one of lower priority, though they were there before it was asked for."""
    for deliveries in facts.by_consumer.values():
        for lower, higher in pairwise(deliveries):
            if lower.redelivered or higher.redelivered or (lower.prio or 0) >= (higher.prio or 0):
                continue
            sent = facts.sent(higher.mid)
            shown = () if sent is None or note_of(sent).get("scheduled") else facts.surely_sent(sent)
            if shown and facts.precedes(shown[-1], lower):
                yield finding(
                    "priority",
                    [*shown, lower, higher],
                    mid=higher.mid,
                    dest=higher.dest,
                    high=higher.prio,
                    low=lower.prio,
                    later=lower.mid,
                )

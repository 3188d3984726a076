"""What is sent in a transaction is seen by nobody before its commit, and never without."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from pyjms.history.events import BRANCH, COMMIT, FAIL, OK, ROLLBACK
from pyjms.history.facts import Facts, Outcome
from pyjms.history.findings import Finding, finding

_ENDED = {(ROLLBACK, OK), (COMMIT, FAIL)}
"""What says for sure that a branch has had no effect."""


def check_visibility(facts: Facts) -> Iterator[Finding]:
    """Yield deliveries and sights of messages that were not committed, or not yet."""
    told: set[tuple[str | None, str | None]] = set()
    for event in chain(facts.deliveries, facts.seen):
        sent = facts.sent(event.mid)
        if sent is None or sent.tx is None or (event.mid, event.dest) in told:
            continue
        ends = facts.ends_of(sent.tx)
        commits = [end for end in ends if end.op == COMMIT]
        if facts.outcome(sent.tx) is Outcome.NEVER:
            # a local transaction without a commit says enough; of a branch somebody must have said so
            said = [end for end in ends if (end.op, end.ok) in _ENDED][:1] if sent.tx.startswith(BRANCH) else ()
            rule, evidence = "rolled-back-visible", [sent, *said, event]
        elif commits and all(facts.precedes(event, commit) for commit in commits):
            rule, evidence = "uncommitted-visible", [sent, event, commits[0]]
        else:
            continue
        told.add((event.mid, event.dest))
        yield finding(rule, evidence, mid=event.mid, dest=event.dest)

"""All or nothing: what a transaction sent and what it received take effect together, also where nobody was told the outcome.

The checker of histories judges by what is known of an outcome; where a process died in a commit, it allows both. But not half of each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from pyjms.history import Event
from pyjms.history.events import ACK, DELIVER, OK, SEND

_PERSISTENT = 2


def find_torn(events: Iterable[Event]) -> list[str]:
    """Return the transactions of which a part took effect. All must have been consumed in the end.

    Only what is PERSISTENT counts, as a death may take the rest.
    """
    work: Mapping[str, list[Event]] = defaultdict(list)
    deliveries: Mapping[str, list[Event]] = defaultdict(list)
    persistent: set[str] = set()
    for event in events:
        if event.mid is None:
            continue
        if event.op == SEND and event.mode == _PERSISTENT:
            persistent.add(event.mid)
        if event.op == DELIVER:
            deliveries[event.mid].append(event)
        elif event.op in {SEND, ACK} and event.tx is not None and event.ok == OK:
            work[event.tx].append(event)
    torn: list[str] = []
    for tx, parts in work.items():
        effects = {_has_effect(part, deliveries[part.mid or ""]) for part in parts if part.mid in persistent}
        if len(effects) > 1:
            torn.append(f"of {tx}: {[(part.op, part.mid, part.dest) for part in parts if part.mid in persistent]}")
    return torn


def _has_effect(part: Event, deliveries: Iterable[Event]) -> bool:
    """A message that was sent comes; one that was received does not come again where it was.

    It comes when `receive` returns, which may have been called long before.
    """
    if part.op == SEND:
        return any(True for _ in deliveries)
    received_ns = part.t1 or part.t0
    return not any(
        (each.t1 or each.t0) > received_ns for each in deliveries if (each.dest, each.sub) == (part.dest, part.sub)
    )

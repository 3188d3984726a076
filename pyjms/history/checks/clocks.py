"""A clock that was set back makes what came later seem earlier: then nothing else can be told for sure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pyjms.history.events import CLOCK, Event
from pyjms.history.findings import Finding, finding
from pyjms.history.notes import note_of

_NS_PER_MS = 1_000_000


def check_clocks(events: Iterable[Event]) -> Iterator[Finding]:
    """Yield for each node by how much its clock was set back at most, as one of its processes has seen."""
    most: dict[str, Event] = {}
    for event in events:
        if event.op == CLOCK and (event.node not in most or _weight(most[event.node]) < _weight(event)):
            most[event.node] = event
    for node, event in sorted(most.items()):
        yield finding("clock-stepped", [event], mid=None, dest=None, node=node, back_ms=_back_ns(event) // _NS_PER_MS)


def _weight(event: Event) -> tuple[int, int, str]:
    return _back_ns(event), -event.t0, event.pid


def _back_ns(event: Event) -> int:
    found = note_of(event).get("back_ns")
    return found if isinstance(found, int) else 0

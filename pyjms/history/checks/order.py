"""What a session sends to a destination, in one priority and delivery mode, reaches a consumer in that order."""

from __future__ import annotations

from collections.abc import Iterator

from pyjms.history.events import BRANCH, Event
from pyjms.history.facts import Facts, is_queue
from pyjms.history.findings import Finding, finding
from pyjms.history.notes import note_of


def check_order(facts: Facts) -> Iterator[Finding]:
    """Yield first deliveries that came after one that was sent later."""
    for consumer, deliveries in facts.by_consumer.items():
        latest: dict[tuple[object, ...], tuple[Event, Event]] = {}
        for event in deliveries:
            sent = facts.sent(event.mid)
            stream = None if sent is None or event.redelivered else stream_of(sent, event)
            if stream is None or sent is None:
                continue
            before = latest.get(stream)
            if before is None or (before[0].sn or 0) < (sent.sn or 0):
                latest[stream] = sent, event
            elif _is_out_of_order(sent, before[0]):
                yield _reordered(facts, consumer, (sent, event), before)


def stream_of(sent: Event, event: Event) -> tuple[object, ...] | None:
    """Return what the messages that must keep their order have in common; None for a message that need not.

    Messages that were scheduled come when they are due; dead letters come from elsewhere.
    """
    if sent.sn is None or sent.dest is None or note_of(sent).get("scheduled"):
        return None
    if is_queue(event.dest) and event.dest != sent.dest:
        return None
    prio = sent.prio if event.prio is None else event.prio
    mode = sent.mode if event.mode is None else event.mode
    return sent.sess, sent.dest, prio, mode


def _is_out_of_order(sent: Event, later: Event) -> bool:
    """Two branches of distributed transactions may be committed in another order than they were begun."""
    if sent is later or sent.sn == later.sn:
        return False
    return sent.tx == later.tx or not any((each.tx or "").startswith(BRANCH) for each in (sent, later))


def _reordered(facts: Facts, consumer: str, low: tuple[Event, Event], high: tuple[Event, Event]) -> Finding:
    other = _other_consumer(facts, consumer, *low)
    return finding(
        "reordered" if other is None else "reordered-shared",
        [low[0], high[0], high[1], low[1], *(() if other is None else (other,))],
        mid=low[0].mid,
        dest=low[1].dest,
        consumer=consumer,
        later=high[0].mid,
    )


def _other_consumer(facts: Facts, consumer: str, sent: Event, event: Event) -> Event | None:
    """Return a sign of another consumer of the queue that may have held the message between its send and its delivery."""
    if not is_queue(event.dest):
        return None
    for other, begun in facts.subscribes.items():
        if other == consumer or begun.dest != event.dest or facts.precedes(event, begun):
            continue
        if not any(
            facts.precedes(end, sent) for place in (other, begun.sess, begun.conn) for end in facts.closes(place)
        ):
            return begun
    for other, deliveries in facts.by_consumer.items():
        if other != consumer and other not in facts.subscribes and deliveries[0].dest == event.dest:
            return deliveries[0]  # it is not known when it came
    return None

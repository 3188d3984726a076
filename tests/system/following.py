"""Follows forwarded messages from site to site in the histories of both: each is at exactly one site, at every moment and at the end.

What JMS asks of each site by itself, `pyjms.history.check` judges. Pure: events in, findings out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from pyjms.history.events import BROWSE, DELIVER, Event
from pyjms.history.facts import Facts, Options, Outcome

__all__ = ["astray"]


def astray(here: Iterable[Event], there: Iterable[Event], source: str, target: str, forwarders: set[str]) -> list[str]:
    """Return what is wrong with the messages that were sent to `source` here and are forwarded to `target` there.

    forwarders: the ids of the forwarding processes. At the end, browsers have walked over both queues, or the rest was consumed.
    """
    at_source, at_target = Facts(here, Options()), Facts(there, Options())
    taken = _taken_by(at_source, source, forwarders)
    arrivals = _arrivals(at_target, target, forwarders)
    remaining = _last_walk(at_source, source)
    found = Counter({**Counter(_last_walk(at_target, target)), **_consumed(at_target, target, forwarders)})
    wrong = []
    for mid, sends in at_source.sends.items():
        ours = [each for each in sends if each.dest == source and each.pid not in forwarders]
        if not ours or not all(_is_sure(at_source, each) for each in ours):
            continue
        places = (mid in remaining) + found[mid]
        if places != 1:
            wrong.append(f"{mid} is at {places} places at the end")
        left = taken.get(mid)
        if left is not None and not any(each.t0 < left for each in arrivals.get(mid, ())):
            wrong.append(f"{mid} was settled here before anybody committed it there")
    return wrong


def _is_sure(facts: Facts, event: Event) -> bool:
    return event.ok == "ok" and (event.tx is None or facts.outcome(event.tx) is Outcome.SURE)


def _taken_by(facts: Facts, source: str, forwarders: set[str]) -> dict[str, int]:
    """Return when the settlement of each message by a forwarder was known to be committed."""
    found: dict[str, int] = {}
    for delivery in _deliveries(facts, source):
        outcome, events = facts.consumed(delivery)
        if delivery.pid in forwarders and outcome is Outcome.SURE and events[-1].t1 is not None:
            found[str(delivery.mid)] = events[-1].t1
    return found


def _arrivals(facts: Facts, target: str, forwarders: set[str]) -> dict[str, list[Event]]:
    """Return the commits, also those whose end is not known, that brought each message to the target."""
    found: dict[str, list[Event]] = {}
    for mid, sends in facts.sends.items():
        for each in sends:
            if each.dest != target or each.pid not in forwarders or each.tx is None:
                continue
            if facts.outcome(each.tx) is not Outcome.NEVER:
                found.setdefault(mid, []).extend(facts.ends_of(each.tx))
    return found


def _consumed(facts: Facts, target: str, forwarders: set[str]) -> Counter[str]:
    """Return how often each message was consumed by whoever reads it."""
    return Counter(
        str(each.mid)
        for each in _deliveries(facts, target)
        if each.pid not in forwarders and facts.consumed(each)[0] is Outcome.SURE
    )


def _deliveries(facts: Facts, dest: str) -> Iterator[Event]:
    return (each for each in facts.deliveries if each.op == DELIVER and each.dest == dest)


def _last_walk(facts: Facts, dest: str) -> list[str]:
    """Return the messages that the last walk of a browser over a queue has seen, each as often as it has."""
    seen = [each for each in facts.seen if each.op == BROWSE and each.dest == dest and each.mid is not None]
    walks = facts.walks.get(dest, ())
    last = max(walks, key=lambda each: each.t0).consumer if walks else None
    return [str(each.mid) for each in seen if each.consumer == last]

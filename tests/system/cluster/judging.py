"""What the checker of histories does not judge: promises of a cluster beyond those of JMS."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from pyjms.history import Event, History, check
from pyjms.history.events import ACK, UNKNOWN
from pyjms.history.facts import Facts, Options, Outcome, is_queue
from tests.provider.kill.torn import find_torn
from tests.system.cluster.site import GROUPED

_NS_PER_MS: Final = 1_000_000
_NON_PERSISTENT: Final = 1
_UNWRITTEN_NS: Final = 2_000_000_000
"""What PostgreSQL has confirmed unforced is on the disk after three times 200 ms; a busy machine may need longer."""
_ON_ITS_WAY_NS: Final = 10_000_000_000
"""A message may be in a link or member that stands still for two leases of 2 s; its client gives up after 3 s, and a busy machine takes longer."""
_NOT_HERE: Final = ("refused-but-delivered", "lost-nonpersistent")
"""Warnings of the checker that a cluster has no excuse for."""


class Judgement(NamedTuple):
    """What was found in a history of which all was consumed in the end."""

    events: int
    counts: Mapping[str, int]
    faults: Sequence[str]


def judge(history: History, shared: Collection[tuple[str, str]], crashes_ns: Collection[int]) -> Judgement:
    """Judge a whole history.

    Args:
        history: All events of all clients.
        shared: The shared durable subscriptions, by topic and name.
        crashes_ns: When PostgreSQL was ended at once, which takes what it has not forced.
    """
    report = check(history, complete=True)
    facts = Facts(history.events, Options(complete=True, expiry_allowance_ms=1000))
    faults = [
        f"{each.rule}: {each.text} ({evidence(each.events)})"
        for each in report.violations
        if each.rule != "reordered" or not was_on_its_way(facts, *each.events[:2])
    ]
    faults += [f"{each.rule}: {each.text}" for each in report.findings if each.rule in _NOT_HERE]
    faults += [f"torn: {each}" for each in find_torn(without_contested(history.events))]
    faults += lost_of_shared(facts, shared)
    faults += lost_transient(facts, crashes_ns)
    # A session of the crowd sends one group, and a group has one consumer at a time.
    faults += [
        f"out of order in its group: {each.text}"
        for each in report.findings
        if each.rule == "reordered-shared"
        and each.dest == f"queue://{GROUPED}"
        and not was_on_its_way(facts, *each.events[:2])
    ]
    return Judgement(report.events, report.counts(), faults)


def evidence(events: Sequence[Event]) -> str:
    """Return what events prove a finding, by the clock of the recording: the history itself is gone when a test ends."""
    begun_ns = min((each.t0 for each in events), default=0)
    return "; ".join(
        f"{each.op} {each.mid or ''} {each.ok} after {(each.t0 - begun_ns) / _NS_PER_MS:.0f} ms, "
        f"for {((each.t1 or each.t0) - each.t0) / _NS_PER_MS:.0f} ms, by {each.sess}{f' in {each.tx}' if each.tx else ''}"
        for each in events
    )


def was_on_its_way(facts: Facts, sent: Event, later: Event) -> bool:
    """Return whether a message may follow a later one, as its client was told that it may still arrive, and did not wait for it.

    A transaction in doubt whose coordinator has died is settled when the other members know that.
    """
    if sent.tx is None:
        told_ns = [sent.t1 or sent.t0] if sent.ok == UNKNOWN else []
    else:
        is_in_doubt = facts.outcome(sent.tx) is Outcome.DOUBT
        told_ns = [end.t1 or end.t0 for end in facts.ends_of(sent.tx)] if is_in_doubt else []
    return any(later.t0 < told + _ON_ITS_WAY_NS for told in told_ns)


def without_contested(events: Sequence[Event]) -> Iterator[Event]:
    """Yield the events but for acknowledgements of messages that several transactions have acknowledged.

    A consumer may get what it had fetched before its connection was lost, when another one has it already: that it does not come again
    tells nothing of the transaction that was too late.
    """
    by: Mapping[tuple[str | None, ...], set[str | None]] = defaultdict(set)
    for event in events:
        if event.op == ACK:
            by[event.mid, event.dest, event.sub].add(event.tx)
    yield from (each for each in events if each.op != ACK or len(by[each.mid, each.dest, each.sub]) == 1)


def lost_of_shared(facts: Facts, shared: Collection[tuple[str, str]]) -> Iterator[str]:
    """Yield the PERSISTENT messages that no consumer of a shared durable subscription got."""
    for topic, name in shared:
        came = {mid for (channel, mid) in facts.groups if channel.dest == topic and channel.sub == name}
        for mid in facts.sends:
            sent = facts.sent(mid)
            if sent is None or sent.dest != topic or sent.mode == _NON_PERSISTENT:
                continue
            if facts.surely_sent(sent) and mid not in came:
                yield f"lost of a shared subscription: {mid} of {topic}, sent by {sent.sess}"


def lost_transient(facts: Facts, crashes_ns: Collection[int]) -> Iterator[str]:
    """Yield the NON_PERSISTENT messages to queues that nobody got: in a cluster they outlive their leader."""
    came = {mid for (_, mid) in facts.groups}
    for mid in facts.sends:
        sent = facts.sent(mid)
        if sent is None or sent.mode != _NON_PERSISTENT or not is_queue(sent.dest) or mid in came:
            continue
        shown = facts.surely_sent(sent)
        last_ns = shown[-1].t1 if shown else None
        if last_ns is not None and not any(sent.t0 < crash < last_ns + _UNWRITTEN_NS for crash in crashes_ns):
            yield f"lost, though its leader's end is no reason: {mid} (NON_PERSISTENT) of {sent.dest}, sent by {sent.sess}"


def told(judgement: Judgement, done: Counter[str]) -> str:
    """Say for people what was done, and found."""
    faults = ", ".join(f"{number} x {name}" for name, number in done.most_common())
    return f"{sum(done.values())} faults ({faults}); {judgement.events} events judged; {dict(judgement.counts)}"

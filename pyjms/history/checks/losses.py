"""What was sent for sure is consumed, or is still there: lost, lost-nonpersistent, unaccounted.

A queue's message is lost when a browser that saw the whole queue last did not see it, nobody held it then, and nobody
consumed it before or got it later. A consumer that is open may hold messages in advance, which no browser sees. A subscription's is lost when a later one of the same stream came and it did not.
Where `Options.complete` says that all was consumed at the end, what was not is lost as well.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from pyjms.history.checks.order import stream_of
from pyjms.history.events import BRANCH, FAIL, OK, Event
from pyjms.history.facts import Channel, Facts, Outcome, is_queue, is_temporary
from pyjms.history.findings import Finding, finding
from pyjms.history.notes import note_of

_NON_PERSISTENT = 1


class Life(NamedTuple):
    """A subscription from its making to its end, if it has one."""

    channel: Channel
    begun: Event
    end: Event | None
    is_durable: bool


def check_losses(facts: Facts) -> Iterator[Finding]:
    """Yield messages that are gone, and destinations of which it is not known."""
    here: list[tuple[Channel, Event]] = []
    by_topic: Mapping[str, list[Event]] = defaultdict(list)
    for mid in facts.sends:
        sent = facts.sent(mid) if facts.judged is None or mid in facts.judged else None
        if sent is None or sent.dest is None or is_temporary(sent.dest) or not facts.surely_sent(sent):
            continue
        if is_queue(sent.dest):
            here.append((Channel(sent.dest, None), sent))
        else:
            by_topic[sent.dest].append(sent)
    yield from _Judge(facts).queues(here)
    yield from _Judge(facts).topics(by_topic)


class _Judge:
    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._unaccounted: dict[Channel, list[Event]] = {}
        self._by_channel: Mapping[Channel, list[tuple[str, list[Event]]]] = defaultdict(list)
        for (channel, mid), deliveries in facts.groups.items():
            self._by_channel[channel].append((mid, deliveries))
        self._elsewhere = {mid for (channel, mid) in facts.groups if self._is_away(channel.dest, mid)}
        self._elsewhere |= {event.mid for event in facts.seen if event.mid and self._is_away(event.dest, event.mid)}

    def _is_away(self, dest: str | None, mid: str) -> bool:
        sent = self._facts.sent(mid)
        return sent is not None and is_queue(dest) and sent.dest != dest

    # Queues

    def queues(self, messages: Sequence[tuple[Channel, Event]]) -> Iterator[Finding]:
        walks = {dest: last_whole(found) for dest, found in self._facts.walks.items()}
        seen: Mapping[str, set[str | None]] = defaultdict(set)
        for event in self._facts.seen:
            seen[event.consumer or ""].add(event.mid)
        is_shared = {dest: walk is not None and sharer(self._facts, walk) is not None for dest, walk in walks.items()}
        for channel, sent in messages:
            walk = walks.get(channel.dest)
            if walk is not None and not self._facts.precedes(self._facts.surely_sent(sent)[-1], walk):
                walk = None
            if walk is not None and sent.mid in seen[walk.consumer or ""]:
                continue
            if walk is not None and is_shared[channel.dest]:
                walk = None
            why = "it was not in the queue at the end" if walk is not None else "all was consumed at the end"
            yield from self._judge(channel, sent, walk, None, why)
        yield from self._tell_unaccounted()

    # Subscriptions

    def topics(self, by_topic: Mapping[str, Sequence[Event]]) -> Iterator[Finding]:
        for life in lives(self._facts):
            latest = self._latest(life)
            for sent in by_topic.get(life.channel.dest, ()):
                shown = self._facts.surely_sent(sent)
                if not self._facts.precedes(life.begun, sent):
                    continue
                if life.end is not None and not self._facts.precedes(shown[-1], life.end):
                    continue
                yield from self._judge_in(life, sent, latest)
        yield from self._tell_unaccounted()

    def _judge_in(self, life: Life, sent: Event, latest: Mapping[object, tuple[Event, Event]]) -> Iterator[Finding]:
        channel = life.channel
        later = latest.get(stream_of(sent, sent))
        is_skipped = (
            later is not None
            and (later[0].sn or 0) > (sent.sn or 0)
            and not (sent.tx or "").startswith(BRANCH)
            and (channel, sent.mid) not in self._facts.groups
        )
        if is_skipped and later is not None:
            if sent.mid not in self._elsewhere and not self._facts.may_have_expired(sent, later[1].t1):
                yield from self._lost(
                    sent, [life.begun, *later], "its subscription got a later one of the same session"
                )
        elif life.is_durable and life.end is None:  # unsubscribing drops what is left
            yield from self._judge(channel, sent, None, life.begun, "all was consumed at the end")

    def _latest(self, life: Life) -> dict[object, tuple[Event, Event]]:
        """Return send and delivery of the last message of each stream that came during a life."""
        latest: dict[object, tuple[Event, Event]] = {}
        for mid, deliveries in self._by_channel[life.channel]:
            sent = self._facts.sent(mid)
            if sent is None or (sent.tx or "").startswith(BRANCH):
                continue
            stream = stream_of(sent, deliveries[0])
            if life.end is not None and not self._facts.precedes(deliveries[0], life.end):
                continue
            if not life.is_durable and self._facts.broke(life.begun, deliveries[0]):
                continue  # a connection that mends itself subscribes anew
            if stream is not None and (stream not in latest or (latest[stream][0].sn or 0) < (sent.sn or 0)):
                latest[stream] = sent, deliveries[0]
        return latest

    # Both

    def _judge(
        self, channel: Channel, sent: Event, walk: Event | None, begun: Event | None, why: str
    ) -> Iterator[Finding]:
        """`walk`: the browser that saw all of a queue last; `begun`: the making of a subscription."""
        facts, mid = self._facts, sent.mid
        assert mid is not None
        deliveries = facts.groups.get((channel, mid), ())
        if mid in self._elsewhere or (channel, mid) in facts.rejected:
            return
        if facts.may_have_expired(sent, None if walk is None else walk.t1):
            return
        if any(facts.consumed(event)[0] is not Outcome.NEVER for event in deliveries):
            return
        if walk is not None and any(not facts.precedes(event, walk) for event in deliveries):
            return  # it came later
        is_back = all(facts.surely_back(event, walk) for event in deliveries)
        is_back = is_back and (walk is None or not self._may_wait(sent, deliveries))
        if is_back and (walk is not None or facts.options.complete):
            yield from self._lost(sent, [event for event in (walk, begun) if event is not None], why)
        elif not self._may_be_dropped(sent):
            self._unaccounted.setdefault(channel, []).append(sent)

    def _may_wait(self, sent: Event, deliveries: Sequence[Event]) -> bool:
        """Say whether a message may be in its queue unseen: it was scheduled, or waits before it is tried again."""
        tried = (note_of(each) for event in deliveries for each in self._facts.settlements(event))
        return bool(note_of(sent).get("scheduled")) or any("failed" in note for note in tried)

    def _lost(self, sent: Event, evidence: Sequence[Event], why: str) -> Iterator[Finding]:
        if self._may_be_dropped(sent):
            return
        rule = "lost-nonpersistent" if sent.mode == _NON_PERSISTENT else "lost"
        yield finding(rule, [*self._facts.surely_sent(sent), *evidence], mid=sent.mid, dest=sent.dest, why=why)

    def _may_be_dropped(self, sent: Event) -> bool:
        """JMS 1.1 §4.7: a provider that fails may lose NON_PERSISTENT messages."""
        crashes = self._facts.crashes
        return sent.mode == _NON_PERSISTENT and any(not self._facts.precedes(crash, sent) for crash in crashes)

    def _tell_unaccounted(self) -> Iterator[Finding]:
        for channel, sends in self._unaccounted.items():
            dest = channel.dest if channel.sub is None else f"{channel.dest} (subscription {channel.sub})"
            yield finding("unaccounted", sends[:1], mid=sends[0].mid, dest=dest, number=len(sends))


def last_whole(walks: Sequence[Event]) -> Event | None:
    """Return the last walk that saw all of a queue."""
    whole = [walk for walk in walks if walk.ok == OK and not note_of(walk).get("selector")]
    return max(whole, key=lambda walk: walk.t0, default=None)


def sharer(facts: Facts, walk: Event) -> Event | None:
    """Return a sign of a consumer that may have held messages of the queue in advance while a browser walked it."""
    begun = dict(facts.subscribes)
    for consumer, deliveries in facts.by_consumer.items():
        begun.setdefault(consumer, deliveries[0])
    found = (
        event
        for event in begun.values()
        if event.dest == walk.dest
        and event.ok != FAIL
        and not facts.precedes(walk, event)
        and not facts.surely_gone(event, walk)
    )
    return next(found, None)


def lives(facts: Facts) -> Iterator[Life]:
    """Yield the subscriptions that should get all messages of their topics."""
    for sub, subscribes in facts.subscriptions.items():
        made = [event for event in subscribes if event.ok == OK and event.dest is not None]
        if not made or any(note_of(event).keys() & {"selector", "no_local"} for event in subscribes):
            continue  # what it should have got is not known without every message's properties
        first = made[0]
        is_durable = bool(note_of(first).get("durable"))
        ends = [*facts.unsubscribes.get(sub, ()), *(each for each in subscribes if each.dest != first.dest)]
        if not is_durable:
            ends = [end for place in (first.consumer, first.sess, first.conn) for end in facts.closes(place)]
        end = min(ends, key=lambda event: event.t0, default=None)
        assert first.dest is not None
        yield Life(Channel(first.dest, sub), first, end, is_durable)

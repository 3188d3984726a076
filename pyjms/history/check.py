"""All checks over one history, each a function from `Facts` to findings. Pure: events in, findings out."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, pairwise
from typing import NamedTuple

from pyjms.history.events import BRANCH, CLOCK, COMMIT, FAIL, OK, ROLLBACK, Event, History, note_of
from pyjms.history.facts import Channel, Facts, Options, Outcome, is_queue, is_temporary
from pyjms.history.findings import Finding, Report, finding
from pyjms.spi.envelope import Address, AddressKind, BodyKind, Envelope, MessageId
from pyjms.spi.selector import compile_selector
from pyjms.types import Float, Stored


def check(
    history: History | Iterable[Event],
    *,
    complete: bool = False,
    expiry_allowance_ms: int = 1000,
    without: Iterable[str] = (),
) -> Report:
    """Judge a history by every rule of `pyjms.history.rules`.

    history: what `read` returns, or events from anywhere, in any order. It must hold all clients of the destinations.
    complete: the run consumed everything in the end, so that messages that were not consumed are lost.
    expiry_allowance_ms: how much later than its expiration a message may arrive.
    without: names of rules whose findings are left out.
    """
    whole = history if isinstance(history, History) else History(events=tuple(history))
    facts = Facts(whole.events, Options(complete=complete, expiry_allowance_ms=expiry_allowance_ms))
    left_out = frozenset(without)
    found = [each for judge in CHECKS for each in judge(facts) if each.rule not in left_out]
    stepped = list(check_clocks(whole.events))
    found += () if "clock-stepped" in left_out else stepped
    cut = [finding("cut-off", (), mid=None, dest=None, pid=pid) for pid in whole.cut_off]
    # The worst first; among equals, in the order in which they can have been noticed.
    found.sort(key=lambda each: (-each.verdict.rank, each.events[-1].t0))
    report = Report(findings=(*found, *cut), events=facts.events)
    # An apparent violation may be explained by the missing events, or by a clock that was put back.
    return report.softened() if cut or stepped else report


_NON_PERSISTENT = 1


class Life(NamedTuple):
    """A subscription from its making to its end, if it has one."""

    channel: Channel
    begun: Event
    end: Event | None
    is_durable: bool


def check_losses(facts: Facts) -> Iterator[Finding]:
    """Yield lost messages, and destinations for which losses are unknown."""
    here: list[tuple[Channel, Event]] = []
    by_topic: Mapping[str, list[Event]] = defaultdict(list)
    for mid in facts.sends:
        sent = facts.sent(mid) if facts.judged is None or mid in facts.judged else None
        # A temporary destination ends with its connection, and so do its messages.
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
            # The browser may have been past the end of the queue when the message was committed.
            if walk is not None and not self._facts.precedes(self._facts.surely_sent(sent)[-1], walk):
                walk = None
            if walk is not None and sent.mid in seen[walk.consumer or ""]:
                continue
            # An open consumer may have prefetched the message, where no browser sees it.
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
                # A subscription gets messages sent after it was made; those sent at the same time may or may not arrive.
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
            # Branches may be committed in another order than their messages were sent.
            and not (sent.tx or "").startswith(BRANCH)
            and (channel, sent.mid) not in self._facts.groups
        )
        if is_skipped and later is not None:
            if sent.mid not in self._elsewhere and not self._facts.may_have_expired(sent, later[1].t1):
                yield from self._lost(
                    sent, [life.begun, *later], "its subscription got a later one of the same session"
                )
        elif life.is_durable and life.end is None:  # unsubscribing drops the remaining messages
            yield from self._judge(channel, sent, None, life.begun, "all was consumed at the end")

    def _latest(self, life: Life) -> dict[object, tuple[Event, Event]]:
        """Return send and delivery of the last message of each stream that arrived during a life."""
        latest: dict[object, tuple[Event, Event]] = {}
        for mid, deliveries in self._by_channel[life.channel]:
            sent = self._facts.sent(mid)
            if sent is None or (sent.tx or "").startswith(BRANCH):
                continue
            stream = stream_of(sent, deliveries[0])
            if life.end is not None and not self._facts.precedes(deliveries[0], life.end):
                continue
            if not life.is_durable and self._facts.broke(life.begun, deliveries[0]):
                continue  # a connection that reconnects subscribes again
            if stream is not None and (stream not in latest or (latest[stream][0].sn or 0) < (sent.sn or 0)):
                latest[stream] = sent, deliveries[0]
        return latest

    # Both

    def _judge(
        self, channel: Channel, sent: Event, walk: Event | None, begun: Event | None, why: str
    ) -> Iterator[Finding]:
        """`walk`: the last browser that saw the whole queue; `begun`: the making of a subscription."""
        facts, mid = self._facts, sent.mid
        assert mid is not None
        deliveries = facts.groups.get((channel, mid), ())
        # A message that was moved or dead-lettered is accounted for: its absence from its queue is right.
        if mid in self._elsewhere or (channel, mid) in facts.rejected:
            return
        if facts.may_have_expired(sent, None if walk is None else walk.t1):
            return
        # An acknowledgement with an unknown outcome may have taken effect, and then the absence of the message is right.
        if any(facts.consumed(event)[0] is not Outcome.NEVER for event in deliveries):
            return
        if walk is not None and any(not facts.precedes(event, walk) for event in deliveries):
            return  # it was delivered later
        is_back = all(facts.surely_back(event, walk) for event in deliveries)
        is_back = is_back and (walk is None or not self._may_wait(sent, deliveries))
        if is_back and (walk is not None or facts.options.complete):
            yield from self._lost(sent, [event for event in (walk, begun) if event is not None], why)
        elif not self._may_be_dropped(sent):
            self._unaccounted.setdefault(channel, []).append(sent)

    def _may_wait(self, sent: Event, deliveries: Sequence[Event]) -> bool:
        """Return whether a message may be in its queue unseen: it was scheduled, or waits for its redelivery."""
        tried = (note_of(each) for event in deliveries for each in self._facts.settlements(event))
        return bool(note_of(sent).get("scheduled")) or any("failed" in note for note in tried)

    def _lost(self, sent: Event, evidence: Sequence[Event], why: str) -> Iterator[Finding]:
        if self._may_be_dropped(sent):
            return
        rule = "lost-nonpersistent" if sent.mode == _NON_PERSISTENT else "lost"
        yield finding(rule, [*self._facts.surely_sent(sent), *evidence], mid=sent.mid, dest=sent.dest, why=why)

    def _may_be_dropped(self, sent: Event) -> bool:
        """Return whether the provider may lose the message: one that fails may lose NON_PERSISTENT messages (JMS 1.1 §4.7)."""
        crashes = self._facts.crashes
        return sent.mode == _NON_PERSISTENT and any(not self._facts.precedes(crash, sent) for crash in crashes)

    def _tell_unaccounted(self) -> Iterator[Finding]:
        for channel, sends in self._unaccounted.items():
            dest = channel.dest if channel.sub is None else f"{channel.dest} (subscription {channel.sub})"
            yield finding("unaccounted", sends[:1], mid=sends[0].mid, dest=dest, number=len(sends))


def last_whole(walks: Sequence[Event]) -> Event | None:
    """Return the last walk that saw the whole queue."""
    whole = [walk for walk in walks if walk.ok == OK and not note_of(walk).get("selector")]
    return max(whole, key=lambda walk: walk.t0, default=None)


def sharer(facts: Facts, walk: Event) -> Event | None:
    """Return an event of a consumer that may have prefetched messages of the queue while a browser walked it."""
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
        if not made or any(note_of(event).keys() & {"selector", "no_local", "shared"} for event in subscribes):
            # Without every message's properties its messages are unknown; those of a shared one may wait where another consumer
            # that has not polled them was to get them, while later ones are consumed.
            continue
        first = made[0]
        is_durable = bool(note_of(first).get("durable"))
        ends = [*facts.unsubscribes.get(sub, ()), *(each for each in subscribes if each.dest != first.dest)]
        if not is_durable:
            ends = [end for place in (first.consumer, first.sess, first.conn) for end in facts.closes(place)]
        end = min(ends, key=lambda event: event.t0, default=None)
        assert first.dest is not None
        yield Life(Channel(first.dest, sub), first, end, is_durable)


def check_origins(facts: Facts) -> Iterator[Finding]:
    """Yield deliveries of messages that were never sent, differ from what was sent, or arrive at another destination."""
    reported: set[tuple[str, str | None, str]] = set()
    for event in chain(facts.deliveries, facts.seen):
        if event.mid is None:
            continue
        for found in _origin(facts, event):
            key = (event.mid, event.dest, found.rule)
            if key not in reported:
                reported.add(key)
                yield found
    yield from _without_id(facts)


def _origin(facts: Facts, event: Event) -> Iterator[Finding]:
    mid, dest = event.mid, event.dest
    sends = facts.sends.get(mid or "", ())
    if not sends:
        yield finding("phantom", [event], mid=mid, dest=dest)
        return
    if all(facts.precedes(event, sent) for sent in sends):
        yield finding("before-send", [event, sends[0]], mid=mid, dest=dest)
    # Any other outcome may mean that the message was accepted.
    if all(sent.ok == FAIL for sent in sends):
        yield finding("refused-but-delivered", [sends[0], event], mid=mid, dest=dest)
    if event.sha is not None and all(sent.sha not in {None, event.sha} for sent in sends):
        yield finding("corrupt", [sends[0], event], mid=mid, dest=dest)
    if is_queue(dest) and all(sent.dest != dest for sent in sends):
        yield finding("moved", [sends[0], event], mid=mid, dest=dest, sent_to=sends[0].dest)


def _without_id(facts: Facts) -> Iterator[Finding]:
    # Without ids the checks cannot follow a message, which the reader of the report must know.
    nameless = [event for event in facts.deliveries if event.mid is None]
    for dest, number in Counter(event.dest for event in nameless).items():
        example = next(event for event in nameless if event.dest == dest)
        yield finding("without-id", [example], mid=None, dest=dest, number=number)


def check_duplicates(facts: Facts) -> Iterator[Finding]:
    """Yield messages that were delivered again after their acknowledgement, or acknowledged twice."""
    for (channel, mid), deliveries in facts.groups.items():
        if len(deliveries) > 1:
            yield from _twice(facts, channel, mid, deliveries)


def _twice(facts: Facts, channel: Channel, mid: str, deliveries: Sequence[Event]) -> Iterator[Finding]:
    consumed = [(held, how) for held in deliveries for sure, how in (facts.consumed(held),) if sure is Outcome.SURE]
    if not consumed:
        return
    # The acknowledgement that was complete first is the one after which the message must not be delivered again.
    first, how = min(consumed, key=lambda pair: pair[1][-1].t1 or 0)
    moved_ns = facts.moved_ns(mid) if _is_home(facts, channel, mid) else None
    reported = [first]
    for later in deliveries:
        if moved_ns is not None and later.t0 > moved_ns:
            reported.append(later)  # put back by hand: another life
        elif facts.precedes(how[-1], later) and (proof := facts.proof_of_life(later, later)) is not None:
            reported.append(later)
            yield finding("delivered-after-ack", [first, *how, later, proof], mid=mid, dest=channel.dest)
    for other, its in consumed:
        if other not in reported:
            yield finding("duplicated", [first, *how, other, *its], mid=mid, dest=channel.dest)


def _is_home(facts: Facts, channel: Channel, mid: str) -> bool:
    sent = facts.sent(mid)
    return sent is not None and sent.dest == channel.dest


class _Holder(NamedTuple):
    """A delivery, and bounds for the time it was held: made once for any number of later deliveries."""

    event: Event
    until: Mapping[str, int]
    """By node: the begin of the earliest event that may have ended the holding."""
    latest_ns: int | None
    """It was not surely held beyond a delivery that was over at this time or later; None: nothing may have ended it."""


def check_holders(facts: Facts) -> Iterator[Finding]:
    """Yield deliveries that lie wholly within the time during which another delivery of the same message was held.

    The first holder must be known to have still been alive: a connection that broke unnoticed returns its messages.
    """
    for (channel, mid), deliveries in facts.groups.items():
        if len(deliveries) == 1:
            continue
        holders: list[_Holder] = []
        for second, least_ns in zip(deliveries, _least_ends(deliveries), strict=True):
            # Holders that can no longer overlap with later deliveries are dropped: a message that was delivered thousands of times is
            # not judged in pairs.
            holders = [each for each in holders if each.latest_ns is None or each.latest_ns > least_ns]
            # The latest holder first; one finding for a delivery is enough.
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
    """Return for each delivery the earliest end of it and all later ones: holders that ended before are no longer needed."""
    ends = [event.t0 if event.t1 is None else event.t1 for event in reversed(deliveries)]
    return list(accumulate(ends, min))[::-1]


def _holder(facts: Facts, event: Event) -> _Holder:
    until: dict[str, int] = {}
    for release in facts.releases(event):
        until[release.node] = min(release.t0, until.get(release.node, release.t0))
    return _Holder(event, until, min(until.values(), default=None))


def _held_throughout(facts: Facts, first: _Holder, second: Event) -> Event | None:
    """Return the event that shows that `first` was held until after `second`; None if it need not have been."""
    if second.t1 is None or not facts.precedes(first.event, second):
        return None
    for node, until_ns in first.until.items():
        # Each node's releases are compared with that node's allowance for clocks.
        if not second.t1 + facts.allowance_ns(second.node, node) < until_ns:
            return None
    return facts.proof_of_life(first.event, second)


def check_flags(facts: Facts) -> Iterator[Finding]:
    """Yield second deliveries without the flag, and flags without a first delivery."""
    for (channel, mid), deliveries in facts.groups.items():
        for place in range(len(deliveries)):
            found = _flag(facts, channel, mid, place, deliveries)
            if found is not None:
                yield found


def _flag(facts: Facts, channel: Channel, mid: str, place: int, deliveries: Sequence[Event]) -> Finding | None:
    event = deliveries[place]
    if event.redelivered is False:
        moved_ns = facts.moved_ns(mid)
        if moved_ns is not None and event.t0 > moved_ns and not _is_away(facts, channel, mid):
            return None  # put back by hand, as a new message
        # From the nearest backwards, as the first one that was surely earlier is enough.
        before = (deliveries[at] for at in range(place - 1, -1, -1))
        earlier = next((other for other in before if facts.precedes(other, event)), None)
        proof = None if earlier is None else facts.proof_of_life(event, event)
        if earlier is not None and proof is not None:
            return finding("redelivered-without-flag", [earlier, event, proof], mid=mid, dest=channel.dest)
        return None
    # The flag is wrong only if no earlier delivery is possible: one of the same moment excuses it.
    is_first = all(other is event or (event.t1 or event.t0) < other.t0 for other in deliveries)
    if event.redelivered and is_first and not _is_away(facts, channel, mid):
        return finding("flag-without-delivery", [event], mid=mid, dest=channel.dest)
    return None


def _is_away(facts: Facts, channel: Channel, mid: str) -> bool:
    """Return whether the channel is not the one to which the message was sent: a queue of dead letters."""
    sent = facts.sent(mid)
    return sent is not None and sent.dest != channel.dest


def check_order(facts: Facts) -> Iterator[Finding]:
    """Yield first deliveries that followed one of a message sent later."""
    for consumer, deliveries in facts.by_consumer.items():
        latest: dict[tuple[object, ...], tuple[Event, Event]] = {}
        for event in deliveries:
            sent = facts.sent(event.mid)
            # A redelivered message may follow later ones, which were delivered meanwhile.
            stream = None if sent is None or event.redelivered else stream_of(sent, event)
            if stream is None or sent is None:
                continue
            before = latest.get(stream)
            if before is None or (before[0].sn or 0) < (sent.sn or 0):
                latest[stream] = sent, event
            elif _is_out_of_order(sent, before[0]):
                yield _reordered(facts, consumer, (sent, event), before)


def stream_of(sent: Event, event: Event) -> tuple[object, ...] | None:
    """Return the key of the stream in which messages must keep their order; None for a message that is in none.

    Scheduled messages arrive when they are due; dead letters arrive from other queues.
    """
    if sent.sn is None or sent.dest is None or note_of(sent).get("scheduled"):
        return None
    # A queue of dead letters has them in the order in which they were dead-lettered.
    if is_queue(event.dest) and event.dest != sent.dest:
        return None
    # The delivered values: a provider may have changed them, as an administrator may (JMS 1.1 §3.4.12).
    prio = sent.prio if event.prio is None else event.prio
    mode = sent.mode if event.mode is None else event.mode
    return sent.sess, sent.dest, prio, mode


def _is_out_of_order(sent: Event, later: Event) -> bool:
    """Return whether two messages may be committed in another order than they were sent, as in branches of distributed transactions."""
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
    """Return an event of another consumer of the queue, or shared subscription, that may have held the message between its send and its delivery."""
    is_topic = not is_queue(event.dest)
    for other, begun in facts.subscribes.items():
        if other == consumer or (begun.dest, begun.sub) != (event.dest, event.sub) or facts.precedes(event, begun):
            continue
        if is_topic and not note_of(begun).get("shared"):
            continue
        # Consumers that had ended before the send cannot have held the message.
        if not any(
            facts.precedes(end, sent) for place in (other, begun.sess, begun.conn) for end in facts.closes(place)
        ):
            return begun
    if is_topic:
        return None
    for other, deliveries in facts.by_consumer.items():
        if other != consumer and other not in facts.subscribes and deliveries[0].dest == event.dest:
            return deliveries[0]  # the time of its delivery is unknown
    return None


_ENDED = {(ROLLBACK, OK), (COMMIT, FAIL)}
"""Events that prove that a branch has had no effect."""


def check_visibility(facts: Facts) -> Iterator[Finding]:
    """Yield deliveries and browsed messages that were not committed, or not yet."""
    reported: set[tuple[str | None, str | None]] = set()
    for event in chain(facts.deliveries, facts.seen):
        sent = facts.sent(event.mid)
        if sent is None or sent.tx is None or (event.mid, event.dest) in reported:
            continue
        ends = facts.ends_of(sent.tx)
        commits = [end for end in ends if end.op == COMMIT]
        if facts.outcome(sent.tx) is Outcome.NEVER:
            # a local transaction without a commit is proof enough; a branch needs a recorded end
            proofs = [end for end in ends if (end.op, end.ok) in _ENDED][:1] if sent.tx.startswith(BRANCH) else ()
            rule, evidence = "rolled-back-visible", [sent, *proofs, event]
        elif commits and all(facts.precedes(event, commit) for commit in commits):
            rule, evidence = "uncommitted-visible", [sent, event, commits[0]]
        else:
            continue
        reported.add((event.mid, event.dest))
        yield finding(rule, evidence, mid=event.mid, dest=event.dest)


def check_endings(facts: Facts) -> Iterator[Finding]:
    """Yield deliveries whose call began after the end of their consumer, session or connection."""
    for event in facts.deliveries:
        places = (event.consumer, event.sess, event.conn)
        ends = [end for place in places for end in facts.closes(place) if end.ok == OK and facts.precedes(end, event)]
        if ends:
            yield finding("after-close", [ends[0], event], mid=event.mid, dest=event.dest, consumer=event.consumer)
        begun = facts.subscribes.get(event.consumer or "")
        for end in facts.unsubscribes.get(event.sub or "", ()):
            if end.ok == OK and begun is not None and facts.precedes(begun, end) and facts.precedes(end, event):
                yield finding("after-unsubscribe", [begun, end, event], mid=event.mid, dest=event.dest)
                break


_NOWHERE = Address(AddressKind.QUEUE, "")


def check_filters(facts: Facts) -> Iterator[Finding]:
    """Yield deliveries that the consumer had excluded."""
    for event in facts.deliveries:
        begun = facts.subscribes.get(event.consumer or "")
        sent = facts.sent(event.mid)
        # Compared by connection: no_local concerns what the consumer's own connection has published.
        if begun is not None and note_of(begun).get("no_local") and sent is not None and sent.conn == event.conn:
            yield finding("no-local", [begun, sent, event], mid=event.mid, dest=event.dest)
        selector = missed_selector(event)
        if selector is not None:
            yield finding("selector", [event], mid=event.mid, dest=event.dest, selector=selector)


def missed_selector(event: Event) -> str | None:
    """Return the consumer's selector if the delivered message does not match it."""
    note = note_of(event)
    selector, read = note.get("selector"), _as_read(event, note)
    if isinstance(selector, str) and read is not None and not compile_selector(selector).matches(read):
        return selector
    return None


def _as_read(event: Event, note: Mapping[str, object]) -> Envelope | None:
    """Return the message as far as the selector read it; None if that was not recorded."""
    headers, properties = note.get("headers"), note.get("properties")
    if not isinstance(headers, dict) or not isinstance(properties, dict):
        return None
    return Envelope(
        destination=_NOWHERE,
        message_id=None if event.mid is None else MessageId(event.mid),
        timestamp_ms=headers.get("JMSTimestamp", 0),
        expiration_ms=event.exp or 0,
        delivery_mode=event.mode or 0,
        priority=event.prio or 0,
        correlation_id=headers.get("JMSCorrelationID"),
        reply_to=None,
        jms_type=headers.get("JMSType"),
        properties={name: _value(value) for name, value in properties.items()},
        body_kind=BodyKind.NONE,
        body=None,
    )


def _value(written: object) -> Stored:
    if not isinstance(written, list):
        return written  # type: ignore[return-value]  # text, or nothing
    kind, text = written
    if kind == "bool":
        return bool(text == "True")
    if kind in {"float", "Double"}:
        return float(text)
    return Float(float(text)) if kind == "Float" else int(text)


_NS_PER_MS = 1_000_000


def check_clocks(events: Iterable[Event]) -> Iterator[Finding]:
    """Yield for each node the greatest step by which its clock was put back, as seen by one of its processes."""
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


def check_expiry(facts: Facts) -> Iterator[Finding]:
    """Yield deliveries that began after the message had expired, and expiries before it had, by more than the allowance."""
    for event in facts.expired_early:
        early_ms = facts.early_ns(event) // _NS_PER_MS + facts.options.expiry_allowance_ms
        yield finding("expired-early", [event], mid=event.mid, dest=event.dest, early_ms=early_ms)
    for event in facts.deliveries:
        sent = facts.sent(event.mid)
        if not event.exp:
            continue
        allowance_ns = facts.options.expiry_allowance_ms * _NS_PER_MS
        if sent is not None:
            # The expiration was computed by the sender's clock, and is compared with the receiver's.
            allowance_ns += facts.allowance_ns(sent.node, event.node)
        late_ns = event.t0 - event.exp * _NS_PER_MS
        if late_ns > allowance_ns:
            yield finding("after-expiry", [event], mid=event.mid, dest=event.dest, late_ms=late_ns // _NS_PER_MS)


def check_priorities(facts: Facts) -> Iterator[Finding]:
    """Yield messages that directly followed one of lower priority, though they were available before it was requested."""
    for deliveries in facts.by_consumer.values():
        for lower, higher in pairwise(deliveries):
            if lower.redelivered or higher.redelivered or (lower.prio or 0) >= (higher.prio or 0):
                continue
            sent = facts.sent(higher.mid)
            # A scheduled message is not available before its time, so that lower ones rightly precede it.
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


CHECKS: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    check_losses,
    check_origins,
    check_duplicates,
    check_holders,
    check_flags,
    check_order,
    check_visibility,
    check_endings,
    check_filters,
    check_expiry,
    check_priorities,
)

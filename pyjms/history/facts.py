"""The conclusions from a history's events: the holders of messages, the committed transactions, the certain order of
events. All checks use them, so that each uncertainty is decided in one place, and in favour of the provider.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain
from typing import NamedTuple

from pyjms.history.events import (
    ACK,
    BRANCH,
    BROWSE,
    CLOSE,
    COMMIT,
    CRASH,
    DELIVER,
    EXPIRE,
    FAIL,
    OK,
    RECOVER,
    ROLLBACK,
    SEND,
    SUBSCRIBE,
    UNKNOWN,
    UNSUBSCRIBE,
    Event,
    note_of,
)

_NS_PER_MS = 1_000_000
# Clocks of two machines differ by some milliseconds even when both are set by NTP; closer times prove no order.
_OTHER_NODE_NS = 100 * _NS_PER_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The settings of a checker."""

    complete: bool = False
    """Whether all messages were consumed at the end, so that the others are lost, even where no queue browser looked."""
    expiry_allowance_ms: int = 1000
    """How much later than its expiration a message may arrive: for differences of clocks, and messages in transit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Facts about a whole history for the checker of a part of it: some messages, with all events that concern them."""

    end_ns: int = 0
    """The last moment of the whole history."""
    lags: Mapping[frozenset[str], int] = field(default_factory=dict)
    """The greatest time by which messages between two nodes seemed to arrive before they were sent, in nanoseconds."""
    judged: frozenset[str] | None = None
    """The messages that are wholly in the part; None: all."""


class Outcome(Enum):
    """The known outcome of an operation."""

    SURE = "it happened"
    DOUBT = "it may have happened"
    NEVER = "it did not happen"


class Channel(NamedTuple):
    """A queue, or one subscription of a topic: each of its messages goes to one consumer."""

    dest: str
    sub: str | None


def is_queue(dest: str | None) -> bool:
    """Return whether a destination is a queue, temporary ones included."""
    return dest is not None and dest.startswith(("queue://", "temp-queue://"))


def is_temporary(dest: str) -> bool:
    """Return whether a destination ends with its connection."""
    return dest.startswith("temp-")


class Facts:
    """A history, indexed. Nothing in it changes once it is made."""

    def __init__(self, events: Iterable[Event], options: Options, around: Surroundings | None = None) -> None:
        around = around or Surroundings()
        self.options = options
        self.judged = around.judged
        self.sends: Mapping[str, Sequence[Event]] = defaultdict(list)
        self.deliveries: list[Event] = []
        self.groups: Mapping[tuple[Channel, str], list[Event]] = defaultdict(list)
        """Deliveries by channel and message, in order of time."""
        self.by_consumer: Mapping[str, list[Event]] = defaultdict(list)
        """Deliveries by consumer, in order of `dn`."""
        self.seen: list[Event] = []
        """Messages that browsers saw."""
        self.walks: Mapping[str, list[Event]] = defaultdict(list)
        """The ends of walks by browsers, by queue."""
        self.crashes: list[Event] = []
        self.subscribes: dict[str, Event] = {}
        """By consumer."""
        self.subscriptions: Mapping[str, list[Event]] = defaultdict(list)
        """Subscribes by subscription."""
        self.unsubscribes: Mapping[str, list[Event]] = defaultdict(list)
        self.expired: set[str] = set()
        """Messages that were reported as expired, at a time at which they may have expired."""
        self.expired_early: list[Event] = []
        """Reported expiries of messages that had time left, as far as clocks can tell."""
        self.rejected: set[tuple[Channel, str]] = set()
        self.end_ns = around.end_ns
        self.events = 0
        self._settlements: Mapping[tuple[str | None, int | None], list[Event]] = defaultdict(list)
        self._ends: Mapping[str, list[Event]] = defaultdict(list)
        self._closes: Mapping[str, list[Event]] = defaultdict(list)
        self._proofs: Mapping[str, list[Event]] = defaultdict(list)
        # Events arrive in the order of their files, each of one process.
        for event in sorted(events, key=lambda each: each.t0):
            self._enter(event)
        self._arrange()
        self._moves = dict(self._find_moves())
        self._lags = self._measure_clocks() if around.judged is None else around.lags

    def _enter(self, event: Event) -> None:
        self.events += 1
        self.end_ns = max(self.end_ns, event.t0, event.t1 or 0)
        enter = _ENTER.get(event.op)
        if enter is not None:
            enter(self, event)
        # Only answers of the broker prove that the connection was whole. A NON_PERSISTENT send may return
        # without an answer.
        if event.ok == OK and event.conn is not None and event.op in _ROUND_TRIPS and event.mode != 1:
            self._proofs[event.conn].append(event)

    def _enter_send(self, event: Event) -> None:
        if event.mid is not None:
            self.sends[event.mid].append(event)  # type: ignore[attr-defined]

    def _enter_deliver(self, event: Event) -> None:
        self.deliveries.append(event)
        if event.mid is not None and event.dest is not None:
            self.groups[Channel(event.dest, event.sub), event.mid].append(event)
        if event.consumer is not None:
            self.by_consumer[event.consumer].append(event)

    def _enter_settlement(self, event: Event) -> None:
        self._settlements[event.consumer, event.dn].append(event)
        if "rejected" in note_of(event) and event.mid is not None and event.dest is not None:
            self.rejected.add((Channel(event.dest, event.sub), event.mid))

    def _enter_end(self, event: Event) -> None:
        if event.tx is not None:
            self._ends[event.tx].append(event)

    def _enter_close(self, event: Event) -> None:
        place = event.consumer or event.sess or event.conn
        if place is not None:
            self._closes[place].append(event)

    def _enter_browse(self, event: Event) -> None:
        if event.mid is not None:
            self.seen.append(event)
        elif event.dest is not None:
            self.walks[event.dest].append(event)

    def _enter_subscribe(self, event: Event) -> None:
        if event.consumer is not None:
            self.subscribes[event.consumer] = event
        if event.sub is not None:
            self.subscriptions[event.sub].append(event)

    def _enter_unsubscribe(self, event: Event) -> None:
        if event.sub is not None:
            self.unsubscribes[event.sub].append(event)

    def _enter_crash(self, event: Event) -> None:
        self.crashes.append(event)

    def _enter_expire(self, event: Event) -> None:
        if event.mid is None:
            return
        # An expiry excuses a loss only at its time: a provider that drops messages early must not hide it that way
        # (decision 0501).
        if self.early_ns(event) > 0:
            self.expired_early.append(event)
        else:
            self.expired.add(event.mid)

    def _arrange(self) -> None:
        for deliveries in self.by_consumer.values():
            # By the consumer's own count, which is exact: times may be equal, or go back with the clock.
            deliveries.sort(key=lambda event: (event.dn or 0, event.t0))

    # Time

    def precedes(self, first: Event, second: Event) -> bool:
        """Return whether `first` was surely over before `second` began."""
        # A call that was never seen to return may still be running.
        if first.t1 is None:
            return False
        if first.node == second.node:
            return first.t1 < second.t0
        return first.t1 + self.allowance_ns(first.node, second.node) < second.t0

    def allowance_ns(self, one: str, other: str) -> int:
        """Return the greatest difference between the clocks of two nodes, as far as the messages between them show it."""
        if one == other:
            return 0
        return _OTHER_NODE_NS + self._lags.get(frozenset((one, other)), 0)

    def _measure_clocks(self) -> dict[frozenset[str], int]:
        """Return the differences of clocks: a message that seems to arrive before it was sent shows the least one."""
        lags: dict[frozenset[str], int] = {}
        for event in self.deliveries:
            for sent in self.sends.get(event.mid or "", ()):
                # Only an impossible order proves a difference: a late arrival may be due to the message's way.
                if sent.node != event.node and event.t1 is not None and event.t1 < sent.t0:
                    pair = frozenset((sent.node, event.node))
                    lags[pair] = max(lags.get(pair, 0), sent.t0 - event.t1)
        return lags

    # Messages

    def sent(self, mid: str | None) -> Event | None:
        """Return the one send of a message; None if there is none, or more than one."""
        found = self.sends.get(mid, ()) if mid is not None else ()
        # Two sends of one id are a fault of the client or the provider; then neither is judged.
        return found[0] if len(found) == 1 else None

    def surely_sent(self, sent: Event) -> tuple[Event, ...]:
        """Return the events that prove that a message existed: its send, and its commit; none if that is uncertain."""
        if sent.ok != OK:
            return ()
        # A send in a transaction becomes visible with the commit, which is then part of the proof.
        if sent.tx is None:
            return (sent,)
        commit = self.commit_of(sent.tx)
        return () if commit is None else (sent, commit)

    def may_have_expired(self, sent: Event, by_ns: int | None) -> bool:
        """Return whether a message may have expired until then."""
        if sent.mid in self.expired:
            return True
        latest_ns = self.end_ns if by_ns is None else by_ns
        return bool(sent.exp) and (sent.exp - self.options.expiry_allowance_ms) * _NS_PER_MS <= latest_ns  # type: ignore[operator]

    def early_ns(self, expiry: Event) -> int:
        """Return how much too early a message expired, beyond the allowance; 0 or less: not too early, or unknown."""
        if not expiry.exp or expiry.t1 is None:
            return 0
        return (expiry.exp - self.options.expiry_allowance_ms) * _NS_PER_MS - expiry.t1

    def moved_ns(self, mid: str) -> int | None:
        """Return when a message was first known to have left its queue as a dead letter does; None: never.

        Its later life in its queue is a separate one, which an operator may have given it.
        """
        return self._moves.get(mid)

    def _find_moves(self) -> Iterator[tuple[str, int]]:
        first: dict[str, int] = {}
        for event in chain(self.deliveries, self.seen):
            sent = self.sent(event.mid)
            # A message that is found in another queue was moved there, as a dead letter is.
            if sent is not None and event.mid is not None and sent.dest != event.dest and is_queue(event.dest):
                first[event.mid] = min(first.get(event.mid, event.t0), event.t0)
        for channel, mid in self.rejected:
            for held in self.groups.get((channel, mid), ()):
                times = [each.t0 for each in self.settlements(held) if "rejected" in note_of(each)]
                first[mid] = min([first.get(mid, self.end_ns), *times])
        return iter(first.items())

    # Transactions

    def outcome(self, tx: str) -> Outcome:
        """Return whether a transaction was committed. One without an end was not, unless it is distributed."""
        ends = self._ends.get(tx, ())
        commits = [event.ok for event in ends if event.op == COMMIT]
        # One success is enough: a coordinator repeats a commit whose outcome it did not learn.
        if OK in commits:
            return Outcome.SURE
        if tx.startswith(BRANCH) and any(event.op == ROLLBACK and event.ok == OK for event in ends):
            return Outcome.NEVER  # a coordinator tries again until it gets an answer, even after a crash
        # The benefit of the doubt goes to the provider: an unknown outcome may have been either one.
        if UNKNOWN in commits:
            return Outcome.DOUBT
        if commits:
            return Outcome.NEVER
        if any(event.ok != OK for event in ends):
            return Outcome.DOUBT  # without the rollback, the work may continue in the next transaction
        return Outcome.NEVER if ends or not tx.startswith(BRANCH) else Outcome.DOUBT

    def ends_of(self, tx: str) -> Sequence[Event]:
        """Return the commits and rollbacks of a transaction."""
        return self._ends.get(tx, ())

    def commit_of(self, tx: str) -> Event | None:
        """Return the successful commit, if there is one."""
        return next((event for event in self._ends.get(tx, ()) if event.op == COMMIT and event.ok == OK), None)

    # Deliveries

    def settlements(self, delivery: Event) -> Sequence[Event]:
        """Return the acknowledgements and recovers of a delivery, in order of time."""
        return self._settlements.get((delivery.consumer, delivery.dn), ())

    def consumed(self, delivery: Event) -> tuple[Outcome, tuple[Event, ...]]:
        """Return whether a delivery was acknowledged, and by which events: an ack, and the commit of its transaction."""
        in_doubt = False
        for event in self.settlements(delivery):
            if event.op == RECOVER:
                # Released: a later acknowledgement of this delivery settles nothing. An adoption only changes the
                # session that holds it.
                if event.ok == OK and "adopted" not in note_of(event):
                    break
                continue
            # A rejected message was dead-lettered by the provider, and may return from there.
            if event.ok == FAIL or "rejected" in note_of(event):
                continue
            outcome = Outcome.SURE if event.tx is None else self.outcome(event.tx)
            if outcome is Outcome.NEVER:
                continue
            if outcome is Outcome.SURE and event.ok == OK:
                commit = None if event.tx is None else self.commit_of(event.tx)
                return Outcome.SURE, (event,) if commit is None else (event, commit)
            in_doubt = True
        return (Outcome.DOUBT if in_doubt else Outcome.NEVER), ()

    def releases(self, delivery: Event) -> Iterator[Event]:
        """Yield the events that may have ended the holding of a delivery, each at its begin at the earliest."""
        transactions = set() if delivery.tx is None else {delivery.tx}
        for event in self.settlements(delivery):
            # An acknowledgement in a transaction releases nothing before its end, which may be a rollback.
            if event.op == ACK and event.tx is not None:
                transactions.add(event.tx)
            else:
                yield event
        for tx in transactions:
            yield from self._ends.get(tx, ())  # a provider may release at the rollback what the client then recovers
        for place in (delivery.sess, delivery.conn):
            yield from self._closes.get(place or "", ())

    def closes(self, place: str | None) -> Sequence[Event]:
        """Return the closes of a consumer, session or connection."""
        return self._closes.get(place or "", ())

    def proof_of_life(self, delivery: Event, after: Event) -> Event | None:
        """Return the event that proves that the connection of `delivery` was still alive when `after` was over; None if there is none.

        A broker releases the messages of a connection when it loses it, which the client may not notice for a while; messages
        prefetched by the client may still be delivered meanwhile. So only a later answer of the broker proves
        that a connection was whole.
        """
        proofs = self._proofs.get(delivery.conn or "", ())
        if after.t1 is None:
            return None
        # By bisection, as a connection may have very many answers.
        start = bisect_right(proofs, after.t1, key=lambda event: event.t0)
        proof = next((proofs[at] for at in range(start, len(proofs)) if self.precedes(after, proofs[at])), None)
        return None if proof is None or self.broke(delivery, proof) else proof

    def broke(self, since: Event, until: Event) -> bool:
        """Return whether a connection may have broken between two of its events: it, its process or the broker died."""
        return any(not self.precedes(until, crash) for crash in self.troubles(since))

    def troubles(self, since: Event) -> list[Event]:
        """Return the events that may have broken the connection of an event after it."""
        return [
            crash
            for crash in self.crashes
            if self._concerns(crash, since.conn, since.pid) and not self.precedes(crash, since)
        ]

    @staticmethod
    def _concerns(crash: Event, conn: str | None, pid: str) -> bool:
        # A crash names a connection, a process, or, with neither, the broker, which concerns all.
        if crash.conn is not None:
            return crash.conn == conn
        return crash.pid in {"", pid}

    def surely_back(self, delivery: Event, before: Event | None) -> bool:
        """Return whether a delivery without an acknowledgement had surely been released before an event, or at the end.

        Its client recovered it, closed its session or connection, or is known to have died.
        """
        ends = [
            event for event in self.settlements(delivery) if event.op == RECOVER and "adopted" not in note_of(event)
        ]
        branches = {event.tx for event in self.settlements(delivery) if event.tx and event.tx.startswith(BRANCH)}
        # The rollback of a branch releases the messages received in it, even if another session made the call.
        ends += (end for tx in branches for end in self._ends.get(tx, ()) if end.op == ROLLBACK)
        return self._surely_ended(delivery, [*ends, *self.closes(delivery.sess), *self.closes(delivery.conn)], before)

    def surely_gone(self, begun: Event, before: Event) -> bool:
        """Return whether a consumer, which may have prefetched messages, had surely ended before an event.

        `begun`: its subscribe, or any of its deliveries.
        """
        places = (begun.consumer, begun.sess, begun.conn)
        return self._surely_ended(begun, [end for place in places for end in self.closes(place)], before)

    def _surely_ended(self, begun: Event, ends: Iterable[Event], before: Event | None) -> bool:
        # A close that failed may have left the messages with the session.
        sure = [event for event in ends if event.ok == OK]
        sure += (
            crash
            for crash in self.crashes
            # Trouble of one connection is no end: the provider may have restored it, and its messages with it.
            if crash.conn is None and self._concerns(crash, begun.conn, begun.pid) and not self.precedes(crash, begun)
        )
        return any(before is None or self.precedes(event, before) for event in sure)


_ENTER = {
    SEND: Facts._enter_send,  # noqa: SLF001  the table of its own methods
    DELIVER: Facts._enter_deliver,  # noqa: SLF001
    ACK: Facts._enter_settlement,  # noqa: SLF001
    RECOVER: Facts._enter_settlement,  # noqa: SLF001
    COMMIT: Facts._enter_end,  # noqa: SLF001
    ROLLBACK: Facts._enter_end,  # noqa: SLF001
    CLOSE: Facts._enter_close,  # noqa: SLF001
    BROWSE: Facts._enter_browse,  # noqa: SLF001
    SUBSCRIBE: Facts._enter_subscribe,  # noqa: SLF001
    UNSUBSCRIBE: Facts._enter_unsubscribe,  # noqa: SLF001
    CRASH: Facts._enter_crash,  # noqa: SLF001
    EXPIRE: Facts._enter_expire,  # noqa: SLF001
}
_ROUND_TRIPS = frozenset({SEND, COMMIT, ROLLBACK, ACK, RECOVER, SUBSCRIBE, UNSUBSCRIBE, CLOSE})

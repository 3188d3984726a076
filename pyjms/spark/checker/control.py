"""Control events: what clients do apart from messages. Few enough for the driver, and sent to all executors that judge.

Subscribing, closing, crashing, and the ends of browsers' walks: their number grows with that of connections, sessions
and consumers, not with that of messages.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

from pyjms.history.check import Life, last_whole, lives, sharer
from pyjms.history.events import (
    CLOCK,
    CLOSE,
    COMMIT,
    CRASH,
    DELIVER,
    EXPIRE,
    OK,
    OPERATIONS,
    OUTCOMES,
    ROLLBACK,
    SUBSCRIBE,
    UNSUBSCRIBE,
    Event,
    note_of,
)
from pyjms.history.facts import Facts, Options, Surroundings, is_queue
from pyjms.history.reading import HistoryError
from pyjms.spark.checker.expressions import expr
from pyjms.spark.checker.reading import event_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_CONTROL = "op IN ('subscribe', 'unsubscribe', 'close', 'crash', 'clock') OR (op = 'browse' AND mid IS NULL)"
_PLACE = ("h", "node", "conn", "sess", "consumer", "sub")
_READER = f"""xxhash64({", ".join(f"coalesce({name}, '')" for name in _PLACE)})"""
_OVERVIEW_KEYS = {
    "h": "h",
    "op": "op",
    "node": "node",
    "reader": f"IF(op = 'deliver', {_READER}, NULL)",
    "is_queue": "op = 'send' AND (dest LIKE 'queue://%' OR dest LIKE 'temp-queue://%')",
    "ok": "ok",
}
_OVERVIEW = {
    "events": "count(*)",
    "last_ns": "max(greatest(t0, coalesce(t1, 0)))",
    "first_t0": "min(t0)",
    "last_t0": "max(t0)",
    "most_dn": "max(coalesce(dn, 0L))",
    "least_prio": "min(coalesce(prio, 0))",
    "most_prio": "max(coalesce(prio, 0))",
    "has_selector": """coalesce(bool_or(note LIKE '%"selector"%'), false)""",
    "has_no_mid": "bool_or(mid IS NULL)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """All actions of one consumer on one node, in short."""

    h: str
    node: str
    conn: str | None
    sess: str | None
    consumer: str | None
    sub: str | None
    last_t0: int
    most_dn: int
    has_priorities: bool


@dataclass(slots=True)
class Overview:
    """A history from above."""

    events: int = 0
    begin_ns: dict[str, int] = field(default_factory=dict)
    """By history."""
    end_ns: dict[str, int] = field(default_factory=dict)
    """By history."""
    nodes: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    readers: list[Reader] = field(default_factory=list)
    has_selectors: bool = False
    transactions: int = 0
    """The number of ends of transactions."""
    has_topics: bool = False
    has_nameless: bool = False
    """Whether there are deliveries without an id."""
    has_expiries: bool = False

    @property
    def has_one_clock(self) -> bool:
        """Whether each history was recorded on one node."""
        return all(len(nodes) == 1 for nodes in self.nodes.values())


def overview_of(events: DataFrame, control: Sequence[Mapping[str, Any]]) -> Overview:
    """Return a history from above; `control`: the result of `control_rows`. Raises `HistoryError` for events that are
    no history.

    Receivers are digests here, as long names for each delivery would take half of the time; the subscriptions have the
    names.
    """
    keys = [expr(text).alias(name) for name, text in _OVERVIEW_KEYS.items()]
    rows = events.groupBy(*keys).agg(*(expr(text).alias(name) for name, text in _OVERVIEW.items())).toArrow()
    found, came = Overview(), list[dict[str, Any]]()
    for row in rows.to_pylist():
        # Checked in the overview, the only place that sees all events: all later steps skip unknown events.
        if row["op"] not in OPERATIONS or row["ok"] not in OUTCOMES:
            raise HistoryError(f"this is no history: it has an event {row['op']!r} that ended {row['ok']!r}")
        _add(found, row)
        came += [row] if row["op"] == DELIVER else []
    # The digest is resolved by the subscriptions, which are here already, and not by another grouping of all
    # deliveries.
    names = {row["reader"]: row for row in control if row["op"] == SUBSCRIBE}
    # Recordings that began late, or lost a file, have deliveries of consumers whose subscription is missing.
    if any(row["reader"] not in names for row in came):
        strangers = events.where("op = 'deliver'").groupBy(*_PLACE).count()
        names |= {row["reader"]: row for row in strangers.selectExpr("*", f"{_READER} AS reader").toArrow().to_pylist()}
    found.readers = [_reader(row, names[row["reader"]]) for row in came]
    return found


def _add(found: Overview, row: Mapping[str, Any]) -> None:
    h = row["h"]
    found.events += row["events"]
    found.begin_ns[h] = min(found.begin_ns.get(h, row["first_t0"]), row["first_t0"])
    found.end_ns[h] = max(found.end_ns.get(h, 0), row["last_ns"])
    found.nodes[h].add(row["node"])
    found.transactions += row["events"] if row["op"] in {COMMIT, ROLLBACK} else 0
    found.has_expiries |= row["op"] == EXPIRE
    found.has_topics |= row["op"] == "send" and row["is_queue"] is False
    if row["op"] == DELIVER:
        found.has_selectors |= row["has_selector"]
        found.has_nameless |= row["has_no_mid"]


def _reader(row: Mapping[str, Any], names: Mapping[str, Any]) -> Reader:
    return Reader(
        **{name: names[name] for name in _PLACE},
        last_t0=row["last_t0"],
        most_dn=row["most_dn"],
        has_priorities=row["least_prio"] < row["most_prio"],
    )


class Control:
    """The events of one history beside its messages, indexed."""

    def __init__(self, events: Iterable[Event], strays: Iterable[Event], end_ns: int, nodes: Iterable[str]) -> None:
        self.end_ns = end_ns
        self.nodes = frozenset(nodes)
        self.lags: dict[frozenset[str], int] = {}
        self.steps: list[Event] = []
        """The times at which a clock was seen to have been set back."""
        self._closes: Mapping[str, list[Event]] = defaultdict(list)
        self._by_consumer: Mapping[str, list[Event]] = defaultdict(list)
        self._by_sub: Mapping[str, list[Event]] = defaultdict(list)
        self._subs: Mapping[str, dict[str, None]] = defaultdict(dict)
        self._by_dest: Mapping[str, list[Event]] = defaultdict(list)
        self._strays: Mapping[str, list[Event]] = defaultdict(list)
        self._crashes: list[Event] = []
        self._walks: dict[str, tuple[Event, ...]] = {}
        ordered = sorted(events, key=lambda each: each.t0)
        for event in ordered:
            self._enter(event)
        for event in strays:
            self._strays[event.dest or ""].append(event)
        self._events = [*ordered, *chain.from_iterable(self._strays.values())]
        # Without clock differences at first: they are known after screening, and `calibrate` replaces these facts.
        self.facts = Facts(self._events, Options())

    def calibrate(self, lags: Mapping[frozenset[str], int]) -> None:
        """Use the differences between the nodes' clocks: they decide which event was certainly before another."""
        self.lags = dict(lags)
        self.facts = Facts(self._events, Options(), self.surroundings())
        for dest, walks in self.facts.walks.items():
            walk = last_whole(walks)
            if walk is not None:
                other = sharer(self.facts, walk)
                self._walks[dest] = (walk,) if other is None else (walk, other)

    def surroundings(self, *mids: str) -> Surroundings:
        """Return the facts about the whole history that the judgement of some messages needs."""
        return Surroundings(end_ns=self.end_ns, lags=self.lags, judged=frozenset(mids))

    def _enter(self, event: Event) -> None:
        if event.op == CLOSE:
            # A close also names the session and connection of the closed object, so the key is the smallest of them.
            self._closes[event.consumer or event.sess or event.conn or ""].append(event)
        elif event.op == CRASH:
            self._crashes.append(event)
        elif event.op == CLOCK:
            self.steps.append(event)
        elif event.op in {SUBSCRIBE, UNSUBSCRIBE}:
            if event.sub is not None:
                self._by_sub[event.sub].append(event)
            if event.op == SUBSCRIBE:
                self._by_consumer[event.consumer or ""].append(event)
                self._by_dest[event.dest or ""].append(event)
                if event.sub is not None and not is_queue(event.dest):
                    self._subs[event.dest or ""][event.sub] = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave the facts at the driver: each executor computes its own."""
        return {**self.__dict__, "facts": None, "_events": ()}

    def lives(self) -> Iterator[Life]:
        """Yield the subscriptions that should get all messages of their topics."""
        return lives(self.facts)

    def subscriptions(self) -> Iterator[tuple[str, str, list[Event]]]:
        """Yield each topic, each of its subscriptions, and the subscribe events."""
        for dest, subs in self._subs.items():
            for sub in subs:
                made = [each for each in self._by_sub[sub] if each.op == SUBSCRIBE and each.dest == dest]
                yield dest, sub, made

    def first_close_ns(self, *places: str | None) -> int | None:
        """Return when the first close of any of these places had certainly ended."""
        ends = (end.t1 for place in places for end in self._closes.get(place or "", ()) if end.ok == OK)
        return min((end for end in ends if end is not None), default=None)

    def last_close_ns(self, *places: str | None) -> int | None:
        """Return when the last recorded close of these places ended; None if there is none, or it may not have ended."""
        ends = [end.t1 for place in places for end in self._closes.get(place or "", ())]
        # A close without an end may still be under way, so its end is unknown.
        return None if not ends or None in ends else max(end for end in ends if end is not None)

    def first_unsubscribe_ns(self, sub: str | None) -> int | None:
        """Return when the first deletion of a subscription had certainly taken effect."""
        ends = (end.t1 for end in self._by_sub.get(sub or "", ()) if end.op == UNSUBSCRIBE and end.ok == OK)
        return min((end for end in ends if end is not None), default=None)

    def knows(self, consumer: str | None) -> bool:
        """Say whether the creation of a consumer was recorded."""
        return consumer is None or consumer in self._by_consumer

    def without_local(self) -> set[str]:
        """Return the consumers created with noLocal."""
        return {
            name for name, made in self._by_consumer.items() if any(note_of(event).get("no_local") for event in made)
        }

    def around(self, events: Sequence[Event], dest: str | None = None) -> list[Event]:
        """Return the other events that the judgement of some messages needs.

        dest: a queue whose consumers are all included, too.
        """
        # A dict as an ordered set: events are compared by value, and the reference sees each once.
        found: dict[Event, None] = {}
        subscribes: list[Event] = list(self._by_dest.get(dest or "", ()))
        for event in events:
            if event.op == DELIVER:
                subscribes += self._by_consumer.get(event.consumer or "", ())
            for sub in (event.sub, *self._subs.get(event.dest or "", ())):
                found.update(dict.fromkeys(self._by_sub.get(sub or "", ())))
            found.update(dict.fromkeys(self._walks.get(event.dest or "", ())))
        found.update(dict.fromkeys(self._strays.get(dest or "", ())))
        found.update(dict.fromkeys(subscribes))
        everybody = [*events, *(event for event in found if event.op in {SUBSCRIBE, DELIVER})]
        for place in {place for each in everybody for place in (each.consumer, each.sess, each.conn)}:
            found.update(dict.fromkeys(self._closes.get(place or "", ())))
        found.update(dict.fromkeys(self._crashes_of(everybody)))
        return list(found)

    def _crashes_of(self, events: Sequence[Event]) -> Iterator[Event]:
        """Yield the crashes that concern these events' connections; of the others one on each node, after which
        messages may be dropped.
        """
        conns, pids = {event.conn for event in events}, {event.pid for event in events}
        latest: dict[str, Event] = {}
        for crash in self._crashes:
            if (crash.conn in conns) if crash.conn is not None else crash.pid in {"", *pids}:
                yield crash
            elif (other := latest.get(crash.node)) is None or _end(other) < _end(crash):
                latest[crash.node] = crash
        yield from latest.values()


def _end(event: Event) -> float:
    return float("inf") if event.t1 is None else event.t1


def control_rows(events: DataFrame) -> list[dict[str, Any]]:
    """Return the control events, with the digest of their actor (`reader`)."""
    return list(events.where(_CONTROL).selectExpr("*", f"{_READER} AS reader").toArrow().to_pylist())


def control_of(events: DataFrame, rows: Iterable[dict[str, Any]], overview: Overview) -> dict[str, Control]:
    """Return the `Control` of each history; `rows`: the result of `control_rows`."""
    by_history: Mapping[str, list[Event]] = defaultdict(list)
    for row in rows:
        by_history[row["h"]].append(event_of(row))
    known = {(h, event.consumer) for h, found in by_history.items() for event in found if event.op == SUBSCRIBE}
    # The recording has no subscription of these consumers; their first delivery stands for it.
    strange = {(each.h, each.consumer) for each in overview.readers if each.consumer} - known
    strays: Mapping[str, list[Event]] = defaultdict(list)
    if strange:
        for h, event in _first_deliveries(events, strange):
            strays[h].append(event)
    return {h: Control(by_history[h], strays[h], end_ns, overview.nodes[h]) for h, end_ns in overview.end_ns.items()}


def _first_deliveries(events: DataFrame, consumers: set[tuple[str, str]]) -> Iterator[tuple[str, Event]]:
    """Yield the first delivery of each of these consumers: their creation was not recorded."""
    names = events.sparkSession.createDataFrame(sorted(consumers), "h STRING, consumer STRING")
    first = events.where("op = 'deliver'").join(names.hint("broadcast"), ["h", "consumer"], "left_semi")
    columns = ", ".join(f"`{name}`" for name in first.columns)
    rows = first.groupBy("h", "consumer").agg(
        expr(f"min_by(struct({columns}), struct(coalesce(dn, 0L), t0))").alias("event")
    )
    for row in rows.select("event.*").toArrow().to_pylist():
        yield row["h"], event_of(row)

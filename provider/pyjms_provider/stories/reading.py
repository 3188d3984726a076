"""Finds the stories of messages in the files of a story log. Safe while a broker writes them, and long after it has ended.

One pass, oldest file first. In a file, the lines with the wanted ids are found as bytes, then those of the same messages by their
numbers; no other line is decoded. A number stands for one message until another one begins with it. Messages in a broker's
store when it ended continue under their numbers in the next run; those in memory alone are lost.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.message.trace_events import FACTS, STATE_AFTER, Happening
from pyjms_provider.stories.log import correlation_text, read_line, searched, segments_in

if TYPE_CHECKING:
    from pathlib import Path


RESTARTED: Final = "restarted"
"""The broker ended and was started again, and the message was in its store."""
LOST: Final = "lost"
"""The broker ended, and the message was in its memory alone."""
_BEGINNINGS: Final = frozenset({Happening.SENT, Happening.ACCEPTED})
_HAPPENINGS: Final = {each.value: each for each in Happening}
_WITH_IDS: Final = frozenset(each for each, names in FACTS.items() if "message_id" in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryQuery:
    """The condition for the messages to find; None matches any."""

    message_id: str | None = None
    correlation_id: str | None = None
    property: tuple[str, str] | None = None
    """A name and a value as text; only properties that the operator has chosen are recorded."""

    def fits(self, facts: dict[str, Any]) -> bool:
        """Return whether the facts of a line match."""
        if self.message_id is not None and facts.get("message_id") != self.message_id:
            return False
        if self.correlation_id is not None and facts.get("correlation_id") != self.correlation_id:
            return False
        if self.property is not None:
            name, value = self.property
            found = (facts.get("properties") or {}).get(name)
            return found is not None and _text(found) == value
        return True

    def needle(self) -> bytes:
        """Return bytes that are part of every matching line."""
        if self.message_id is not None:
            return searched(self.message_id)
        if self.correlation_id is not None:
            return searched(correlation_text(self.correlation_id))
        assert self.property is not None
        # Only the name: the form of a value in a line depends on its type, which the text does not tell.
        return searched(self.property[0]) + b": "


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryEvent:
    """One step."""

    at_ms: int
    what: str
    """The value of a `Happening`, or `RESTARTED` or `LOST`."""
    where: str
    """The queue or subscription; empty: it concerns all of them."""
    state: str | None
    """The message's state there from then on; None: it does not change."""
    facts: dict[str, Any]
    """As `FACTS` names them; with `user`, `address`, `protocol` and `client_id` of a known connection."""


@dataclass(slots=True, kw_only=True)
class Story:
    """The recorded facts about one message."""

    message_id: str | None
    correlation_id: str | None
    events: list[StoryEvent] = field(default_factory=list)
    number: int = 0
    """The message's last number in its store; 0: it is not there."""
    run_id: str = ""
    """The run of the broker to which the number belongs."""

    @property
    def places(self) -> dict[str, str]:
        """The recorded places of the message: its state by queue or subscription."""
        states = {each.where: each.state for each in self.events if each.where and each.state is not None}
        absent = {MessageState.ABSENT.name}
        lost = bool(self.events) and self.events[-1].what == LOST
        return {} if lost else {where: state for where, state in states.items() if state not in absent}


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundStories:
    """All stories found."""

    stories: tuple[Story, ...]
    missing: int
    """The approximate number of steps, of any messages, that could not be recorded in the time that the files cover."""
    since_ms: int | None
    """When the oldest file was begun; None: there is none."""
    is_cut: bool
    """Whether there are more stories than requested."""


@dataclass(slots=True)
class _Life:
    """The time in which a number stands for one message."""

    story: Story
    number: int
    is_kept: bool = False
    """The channels that hold it."""
    open: set[str] = field(default_factory=set)
    """The channels that have it."""


def find_stories(directory: Path, wanted: StoryQuery, most: int = 20) -> FoundStories:
    """Return the stories of the matching messages, `most` at most. Raises `OSError`."""
    reader = _Reader(wanted, most)
    segments = segments_in(directory)
    for segment in segments:
        try:
            data = segment.path.read_bytes()
        except FileNotFoundError:
            # The broker has deleted it meanwhile, as it does with the oldest files.
            continue
        reader.read(segment.run_id, segment.begun_ms, data)
    return FoundStories(
        stories=tuple(reader.stories.values()),
        missing=reader.missing,
        since_ms=segments[0].begun_ms if segments else None,
        is_cut=reader.is_cut,
    )


class _Reader:
    def __init__(self, wanted: StoryQuery, most: int) -> None:
        self._wanted = wanted
        self._most = most
        self._needle = wanted.needle()
        self._run_id = ""
        self._lives: dict[int, _Life] = {}
        self._connections: dict[str, dict[str, Any]] = {}
        self.stories: dict[str, Story] = {}
        self.missing = 0
        self.is_cut = False

    def read(self, run_id: str, begun_ms: int, data: bytes) -> None:
        """Read one file."""
        if run_id != self._run_id:
            self._begin_run(run_id, begun_ms)
        # With the line end before it, so that the same text in a property of a message does not count.
        marks = list(_lines_with(data, b'\n{"missing":'))
        self.missing += sum(int(mark["missing"]) for _, mark in marks if isinstance(mark, dict))
        lines = dict(_lines_with(data, self._needle))
        # The needle may be in another field, so a line counts only if the decoded facts match.
        numbers = {line[0] for line in lines.values() if isinstance(line, list) and self._wanted.fits(line[4])}
        # Number 0 stands for messages in no store, such as refused ones. Open stories continue from the file before.
        numbers = (numbers - {0}) | set(self._lives)
        for number in numbers:
            lines |= dict(_lines_with(data, b"\n[%d," % number))
        # By place in the file, as several searches found the lines.
        steps = [(place, line) for place, line in sorted(lines.items()) if isinstance(line, list)]
        if not steps:
            return
        # Only for a file that has steps, as most files have none of a message.
        self._connections = {
            line["connection"]: line for _, line in _lines_with(data, b'\n{"connection":') if isinstance(line, dict)
        }
        for _, (number, at_ms, what, where, facts) in steps:
            happening = _HAPPENINGS.get(what)
            if happening is not None:
                self._take(number, at_ms, happening, where, facts)

    def _begin_run(self, run_id: str, begun_ms: int) -> None:
        """Continue with the messages in the store of the run before."""
        self._run_id = run_id
        for number, life in list(self._lives.items()):
            kept = life.is_kept and bool(life.open)
            if life.open:
                # The broker that died has recorded nothing about its end, so this event is added here.
                event = StoryEvent(at_ms=begun_ms, what=RESTARTED if kept else LOST, where="", state=None, facts={})
                life.story.events.append(event)
            if kept:
                life.story.run_id = run_id
            else:
                # The new run gives this number to another message.
                del self._lives[number]

    def _take(self, number: int, at_ms: int, happening: Happening, where: str, facts: dict[str, Any]) -> None:
        life = self._lives.get(number)
        # Other events have no ids, so a query would seem to match them.
        fits = happening in _WITH_IDS and self._wanted.fits(facts)
        if happening in _BEGINNINGS and (life is None or not fits or where in life.open):
            # The number stands for another message from here on.
            self._lives.pop(number, None)
            life = None
        if life is None:
            if not fits:
                return
            story = self._story(facts)
            if story is None:
                return
            life = _Life(story, number)
            # Number 0 belongs to no message: events with it are each of another message.
            if number:
                self._lives[number] = life
        story = life.story
        if happening in _BEGINNINGS:
            life.is_kept = life.is_kept or bool(facts.get("kept"))
        state = STATE_AFTER[happening]
        if state is MessageState.ABSENT:
            life.open.discard(where)
        elif state is not None:
            life.open.add(where)
            story.number, story.run_id = number, self._run_id
        shown = {name: value for name, value in facts.items() if name not in {"message_id", "correlation_id"}}
        story.events.append(
            StoryEvent(
                at_ms=at_ms,
                what=happening.value,
                where=where,
                state=None if state is None else state.name,
                facts=shown | self._who(facts),
            )
        )

    def _story(self, facts: dict[str, Any]) -> Story | None:
        message_id = facts.get("message_id")
        # A message without an id (JMS 1.1 §3.4.3 lets senders disable it) has a story of its own.
        key = message_id or f"\0{len(self.stories)}"
        if key not in self.stories:
            if len(self.stories) >= self._most:
                self.is_cut = True
                return None
            self.stories[key] = Story(message_id=message_id, correlation_id=facts.get("correlation_id"))
        return self.stories[key]

    def _who(self, facts: dict[str, Any]) -> dict[str, Any]:
        """Return the known facts about the connection of a step."""
        named = facts.get("connection") or (facts.get("session") or "").rpartition("/")[0]
        if not named:
            return {}
        known = self._connections.get(named, {})
        return {"connection": named} | {name: value for name, value in known.items() if name != "connection" and value}


def _lines_with(data: bytes, needle: bytes) -> Iterator[tuple[int, list[Any] | dict[str, Any]]]:
    """Yield the whole lines with the needle, which may begin with the end of the line before, and their places."""
    begins = needle.startswith(b"\n")
    place = data.find(needle)
    while place >= 0:
        begin = place + 1 if begins else data.rfind(b"\n", 0, place) + 1
        end = data.find(b"\n", begin)
        if end < 0:
            # The broker died while writing this line.
            return
        line = read_line(data[begin:end])
        if line is not None:
            yield begin, line
        place = data.find(needle, end)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def in_words(event: StoryEvent) -> str:
    """Return a description of the event in words; the caller adds time, place and state."""
    return _WORDS[event.what](event.facts)


def _sender(facts: Mapping[str, Any]) -> str:
    mode = "PERSISTENT" if facts.get("persistent") else "NON_PERSISTENT"
    unit = f" in transaction {facts['transaction']}" if facts.get("transaction") else ""
    by = _by(facts)
    return f"{', sent' if by else ''}{by}{unit}; {mode}"


def _by(facts: Mapping[str, Any]) -> str:
    connection = facts.get("connection")
    if not connection:
        return ""
    known = ", ".join(str(facts[name]) for name in ("user", "client_id", "address") if facts.get(name))
    return f" by connection {connection}" + (f" ({known})" if known else "")


def _receiver(facts: Mapping[str, Any]) -> str:
    session = str(facts.get("session") or "").rpartition("/")[2]
    consumer = facts.get("consumer")
    parts = [f"consumer {consumer}"] if consumer else []
    parts += [f"session {session}"] if session else []
    return (" by " + " of ".join(parts) if parts else "") + _by(facts).replace(" by ", " of ", 1)


def _delivered(facts: Mapping[str, Any]) -> str:
    return f"taken{_receiver(facts)}; delivery {facts.get('delivery')}"


def _unit(facts: Mapping[str, Any]) -> str:
    return f" in transaction {facts['transaction']}" if facts.get("transaction") else ""


def _operator(facts: Mapping[str, Any]) -> str:
    return f" by operator {facts['by']}" if facts.get("by") else ""


_BY_HAPPENING: Mapping[Happening, Callable[[Mapping[str, Any]], str]] = {
    Happening.SENT: lambda facts: f"taken over{_sender(facts)}; nobody sees it before the commit",
    Happening.ACCEPTED: lambda facts: f"accepted{_sender(facts)}",
    Happening.COMMITTED: lambda _: "committed by its sender",
    Happening.ROLLED_BACK: lambda _: "rolled back by its sender",
    Happening.DELIVERED: _delivered,
    Happening.ACKNOWLEDGED: lambda facts: f"acknowledged{_receiver(facts)}",
    Happening.ACKNOWLEDGED_IN_TRANSACTION: lambda facts: (
        f"acknowledged{_receiver(facts)}{_unit(facts)}, which has not ended"
    ),
    Happening.ACKNOWLEDGEMENT_ROLLED_BACK: lambda facts: (
        f"its acknowledgement was rolled back{_unit(facts)}{_receiver(facts)}"
    ),
    Happening.RETURNED: lambda facts: f"given back{_receiver(facts)} after delivery {facts.get('delivery')}",
    Happening.REINSTATED: lambda _: "back again, as its leaving could not be written to the store",
    Happening.EXPIRED: lambda _: "expired",
    Happening.DEAD: lambda facts: f"set aside in {facts.get('target')}: {facts.get('reason')}",
    Happening.MOVED: lambda facts: f"moved to {facts.get('target')}{_operator(facts)}",
    Happening.REPLAYED: lambda facts: f"sent back to {facts.get('target')}{_operator(facts)}",
    Happening.DELETED: lambda facts: f"deleted{_operator(facts)}",
    Happening.OVERFLOWED: lambda _: "dropped, as the queue was full and makes room for newer messages",
    Happening.SUPERSEDED: lambda _: "dropped, as a newer message with the same key has come",
    Happening.UNREADABLE: lambda _: "taken out, as it could not be read from the store; the broker's log tells more",
    Happening.CLOSED: lambda _: "gone with its queue or subscription",
    Happening.DUPLICATE: lambda _: "dropped as a duplicate: a message with this duplicate id had come before",
    Happening.REFUSED: lambda facts: f"refused, and its sender was told: {facts.get('reason')}",
    Happening.UNWANTED: lambda facts: f"published{_by(facts)}, and no subscription wanted it",
    Happening.PAGED_OUT: lambda _: "left memory; it is on the disk",
    Happening.PAGED_IN: lambda _: "back in memory",
}
_WORDS: Mapping[str, Callable[[Mapping[str, Any]], str]] = MappingProxyType(
    {
        **{happening.value: words for happening, words in _BY_HAPPENING.items()},
        RESTARTED: lambda _: "the broker ended, and was started again with the message in its store",
        LOST: lambda _: "the broker ended, and the message was in its memory alone",
    }
)


def __getattr__(name: str) -> Any:
    renamed = {"Wanted": StoryQuery, "Found": FoundStories}.get(name)  # until 0.3
    if renamed is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(f"{name} is called {renamed.__name__}", DeprecationWarning, stacklevel=2)
    return renamed

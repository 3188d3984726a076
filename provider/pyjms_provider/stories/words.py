"""Steps of a story in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pyjms_provider.core.message.trace_events import Happening
from pyjms_provider.stories.reading import LOST, RESTARTED

if TYPE_CHECKING:
    from pyjms_provider.stories.reading import StoryEvent


def in_words(event: StoryEvent) -> str:
    """Return what happened, in words; time, place and state are left to whoever shows it."""
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

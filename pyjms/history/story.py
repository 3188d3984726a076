"""The life story of one message: its events, with client and time. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from pyjms.history.events import (
    ACK,
    BROWSE,
    CLOCK,
    COMMIT,
    CRASH,
    DELIVER,
    EXPIRE,
    FAIL,
    RECOVER,
    ROLLBACK,
    SEND,
    SUBSCRIBE,
    UNKNOWN,
    UNSUBSCRIBE,
    Event,
    note_of,
)


def story(events: Iterable[Event], mid: str) -> tuple[Event, ...]:
    """Return the events of the message `mid`, in order of time, with the ends of its transactions."""
    everything = tuple(events)
    own = [event for event in everything if event.mid == mid]
    # Commits and rollbacks have no message of their own, yet decide about this one.
    transactions = {event.tx for event in own if event.tx is not None}
    ends = [event for event in everything if event.tx in transactions and event.op in {COMMIT, ROLLBACK}]
    return tuple(sorted([*own, *ends], key=lambda event: (event.t0, event.n or 0)))


def describe(event: Event) -> str:
    """Return a description of the event, in words."""
    text = _WORDS.get(event.op, _by_name)(event)
    if event.ok == FAIL:
        return f"{text}: refused"
    if event.ok == UNKNOWN:
        return f"{text}: outcome not known"
    return text


def _by_name(event: Event) -> str:
    place = event.consumer or event.sess or event.conn
    return f"{event.op} {place or ''}".rstrip()


def _send(event: Event) -> str:
    mode = "NON_PERSISTENT" if event.mode == 1 else "PERSISTENT"
    expiry = f", expires at {event.exp}" if event.exp else ""
    part = f" in transaction {event.tx}" if event.tx else ""
    return f"sent to {event.dest} by {event.sess}{part}; {mode}, priority {event.prio}{expiry}"


def _deliver(event: Event) -> str:
    flag = ", JMSRedelivered" if event.redelivered else ""
    part = f" in transaction {event.tx}" if event.tx else ""
    return f"delivered from {event.dest} to {event.consumer}{part}; delivery {event.count}{flag}"


def _ack(event: Event) -> str:
    part = f" in transaction {event.tx}" if event.tx else ""
    reason = note_of(event).get("rejected")
    return f"acknowledged by {event.sess}{part}" if reason is None else f"rejected by {event.sess}{part}: {reason}"


def _recover(event: Event) -> str:
    adopted = note_of(event).get("adopted")
    return f"given back by {event.sess}" if adopted is None else f"handed over to session {adopted}"


_WORDS: Mapping[str, Callable[[Event], str]] = MappingProxyType(
    {
        SEND: _send,
        DELIVER: _deliver,
        ACK: _ack,
        RECOVER: _recover,
        BROWSE: lambda event: f"{event.dest} browsed" if event.mid is None else f"seen by a browser of {event.dest}",
        COMMIT: lambda event: f"transaction {event.tx} committed",
        ROLLBACK: lambda event: f"transaction {event.tx} rolled back",
        EXPIRE: lambda event: f"expired in {event.dest}",
        CLOCK: lambda event: f"the clock of {event.node} was set back",
        SUBSCRIBE: lambda event: f"{event.consumer} subscribed to {event.dest}",
        UNSUBSCRIBE: lambda event: f"subscription {event.sub} deleted",
        CRASH: lambda event: (
            f"connection {event.conn} in trouble"
            if event.conn
            else f"process {event.pid} died"
            if event.pid
            else "broker died"
        ),
    }
)

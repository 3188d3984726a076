"""What a batch of events makes of the instances concerned, before anything is written. Pure.

Events are obeyed in the order in which they came, also several of one instance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from pyjms.flows.definition import Flow
from pyjms.flows.errors import FlowException, FlowStoreException, UnknownInstanceException
from pyjms.flows.instance import Ask, Event, Instance, Park, Retry, advance, asked, begin, obey_person
from pyjms.flows.wording import Start

__all__ = ["Arrival", "Batch", "Changed", "decide"]

Changed: TypeAlias = tuple[Instance, int]
"""The next state of an instance, and the revision of the one that it replaces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """One event for one instance."""

    instance: str
    event: Start | Event
    id: str = ""
    """Of its message; "": it has none."""
    was_delivered: bool = False
    """It has come before, and who had it may have died after the store was written: what is waited for is asked again."""


@dataclass(slots=True)
class Batch:
    """What is to be written, and what to be asked for then."""

    begun: list[Instance] = field(default_factory=list)
    changed: list[Changed] = field(default_factory=list)
    asks: list[Ask] = field(default_factory=list)
    refused: list[tuple[Arrival, FlowException]] = field(default_factory=list)
    """Events that mean nothing, with the reason."""


def decide(
    arrivals: Iterable[Arrival], known: Mapping[str, Instance], flow: Callable[[str, int], Flow], now_ms: int
) -> Batch:
    """Return what follows. known: the instances that are there, of those concerned. flow: see `FlowStore.flow`.

    Raises `FlowStoreException` of `flow`.
    """
    present = dict(known)
    asks: dict[str, Ask] = {}
    batch = Batch()
    for arrival in arrivals:
        try:
            following, ask = _obey(arrival, present.get(arrival.instance), flow, now_ms)
        except FlowStoreException:
            raise
        except FlowException as error:
            batch.refused.append((arrival, error))
            continue
        present[arrival.instance] = following
        if ask is not None:
            asks.pop(ask.key, None)
            asks[ask.key] = ask
    batch.begun = [each for id_, each in present.items() if id_ not in known]
    batch.changed = [(present[id_], each.revision) for id_, each in known.items() if present[id_] is not each]
    batch.asks = list(asks.values())
    return batch


def _obey(
    arrival: Arrival, instance: Instance | None, flow: Callable[[str, int], Flow], now_ms: int
) -> tuple[Instance, Ask | None]:
    event = arrival.event
    if isinstance(event, Start):
        if instance is None:
            return begin(flow(event.flow, event.version), arrival.instance, event.data, now_ms)
        following, ask = instance, None
    elif instance is None:
        raise UnknownInstanceException(f"there is no instance {arrival.instance}")
    elif isinstance(event, Retry | Park):
        following, ask = obey_person(flow(instance.flow, instance.version), instance, event, arrival.id, now_ms)
    else:
        following, ask = advance(flow(instance.flow, instance.version), instance, event, now_ms)
    if following is instance and arrival.was_delivered:
        return instance, asked(flow(instance.flow, instance.version), instance)
    return following, ask

"""Of which queues and subscriptions somebody may be told, by the names that their channels have in stories."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pyjms_provider.core.journal.journal import SubscriptionKey
from pyjms_provider.security.contracts import Operation, TargetKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyjms_provider.model.operations import Permits
    from pyjms_provider.stories.reading import StoryEvent

__all__ = ["Sight"]

_HIDDEN: Final = "where you may not look"


class Sight:
    """What the caller of one operation may observe at one virtual host. For one thread."""

    def __init__(self, permits: Permits, virtual_host: str) -> None:
        """`permits`: what the caller may do."""
        self._permits = permits
        self._virtual_host = virtual_host
        self._known: dict[str, bool] = {}

    def covers(self, where: str) -> bool:
        """Return whether they may observe the queue, topic or subscription whose channel has that name.

        The name of a subscription can be read in several ways if a ``#`` or ``/`` is in its parts: then they must be allowed all of them.
        """
        if where not in self._known:
            self._known[where] = all(self._may(kind, name) for kind, name in _targets(where))
        return self._known[where]

    def seen(self, event: StoryEvent) -> StoryEvent:
        """Return a step as it may be told: without the name of where the message went, if that is hidden."""
        target = event.facts.get("target")
        if not isinstance(target, str) or self.covers(target):
            return event
        return replace(event, facts={**event.facts, "target": _HIDDEN})

    def _may(self, kind: TargetKind, name: str) -> bool:
        return bool(self._permits(Operation.OBSERVE, kind, self._virtual_host, [name]))


def _targets(where: str) -> Iterator[tuple[TargetKind, str]]:
    scheme, _, name = where.partition("://")
    if scheme == "queue":
        yield TargetKind.QUEUE, name
    elif scheme != "topic":
        yield TargetKind.TEMPORARY, name
    elif "#" not in name:
        yield TargetKind.TOPIC, name
    for topic, subscription in _splits(name, "#") if scheme == "topic" else ():
        if "/" not in subscription:
            yield TargetKind.TOPIC, topic  # of a subscriber who is there: the number tells nothing
        for client_id, subscribed in _splits(subscription, "/"):
            yield TargetKind.SUBSCRIPTION, str(SubscriptionKey(client_id, subscribed))


def _splits(text: str, at: str) -> Iterator[tuple[str, str]]:
    """Yield the parts before and after each place where `at` stands."""
    place = text.find(at)
    while place >= 0:
        yield text[:place], text[place + 1 :]
        place = text.find(at, place + 1)

"""The stories of a virtual host's messages: their settings, and the operation that reads them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import quote

from pydantic import Field

from pyjms_provider.core.journal.journal import SubscriptionKey
from pyjms_provider.core.queue.statistics import whereabouts
from pyjms_provider.model.attributes import Attributes, ByteCount, ImmutableModel, attribute
from pyjms_provider.model.errors import InvalidArgumentsError, Problem
from pyjms_provider.model.operations import EVERYTHING, Permissions, operation
from pyjms_provider.security.contracts import Operation, TargetKind
from pyjms_provider.stories.reading import FoundStories, Story, StoryQuery, find_stories, in_words
from pyjms_provider.stories.settings import StoryLevel, StorySettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyjms_provider.broker import EmbeddedBroker
    from pyjms_provider.core.host.virtual_host import VirtualHost
    from pyjms_provider.core.queue.queue import Queue
    from pyjms_provider.stories.reading import StoryEvent

_HIDDEN: Final = "where you may not look"


class VisibilityFilter:
    """What the caller of one operation may observe at one virtual host. For one thread."""

    def __init__(self, permissions: Permissions, virtual_host: str) -> None:
        """`permissions`: what the caller may do."""
        self._permissions = permissions
        self._virtual_host = virtual_host
        self._known: dict[str, bool] = {}

    def covers(self, where: str) -> bool:
        """Return whether the caller may observe the queue, topic or subscription whose channel has that name.

        The name of a subscription is ambiguous if a ``#`` or ``/`` is in its parts: then the caller must be allowed every reading.
        """
        # Remembered: a story names the same few places again and again, and a policy is costly to ask.
        if where not in self._known:
            self._known[where] = all(self._may(kind, name) for kind, name in _targets(where))
        return self._known[where]

    def seen(self, event: StoryEvent) -> StoryEvent:
        """Return a step as the caller may see it: without the message's destination, if that is hidden."""
        target = event.facts.get("target")
        if not isinstance(target, str) or self.covers(target):
            return event
        return replace(event, facts={**event.facts, "target": _HIDDEN})

    def _may(self, kind: TargetKind, name: str) -> bool:
        return bool(self._permissions(Operation.OBSERVE, kind, self._virtual_host, [name]))


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
            # A connected subscriber: its number tells nothing, so the topic decides.
            yield TargetKind.TOPIC, topic
        for client_id, subscribed in _splits(subscription, "/"):
            yield TargetKind.SUBSCRIPTION, str(SubscriptionKey(client_id, subscribed))


def _splits(text: str, at: str) -> Iterator[tuple[str, str]]:
    """Yield the parts before and after each place where `at` stands."""
    # All places, as client ids and names may contain the character: the reader
    # cannot tell which split is the right one.
    place = text.find(at)
    while place >= 0:
        yield text[:place], text[place + 1 :]
        place = text.find(at, place + 1)


class StoryAttributes(Attributes):
    """The attributes of stories."""

    story: StoryLevel = attribute(
        "What is written down of messages: ends (what leaves without having been consumed), all (every step), or off.",
        default="off",
    )
    story_directory: str = attribute(
        "Below which folder; the node and the host have one of their own there.", default="${pyjms.work_dir}/stories"
    )
    story_days: int = attribute("How long stories are kept.", default=7, unit="days", ge=1, le=9999)
    story_bytes: ByteCount = attribute(
        "How much room they take at most; the oldest go first.", default="64MB", unit="bytes", ge=1_000_000
    )
    story_properties: list[str] = attribute(
        "Properties of messages whose values are written down too, so that messages are found by them.", default=[]
    )


class StoryStep(ImmutableModel):
    """One change."""

    at_ms: int
    what: str
    where: str
    """The queue, or the subscription's channel; empty: it concerns all of them."""
    state: str | None
    """The message's state there from then on; null: it does not change."""
    text: str
    facts: dict[str, Any]


class StoryPlace(ImmutableModel):
    """Where the message is now, as the broker knows it."""

    where: str
    state: str
    delivery_count: int
    session: str | None
    is_in_memory: bool
    deliver_at_ms: int


class StoryView(ImmutableModel):
    """One message."""

    message_id: str | None
    correlation_id: str | None
    steps: list[StoryStep]
    now: list[StoryPlace]


class StoriesView(ImmutableModel):
    """All messages that were looked for."""

    stories: list[StoryView]
    level: str
    """The level of recording at this virtual host."""
    since_ms: int | None
    """When the oldest file was begun that is still there; null: there is none."""
    missing: int
    """The approximate number of steps, of any messages, that could not be recorded."""
    is_cut: bool
    """Whether there are more messages than were wanted."""


def story_settings(chosen: StoryAttributes, node: str, host: str) -> StorySettings | None:
    """Return the broker's settings of stories; None: stories are off."""
    if chosen.story is StoryLevel.OFF:
        return None
    return StorySettings(
        level=chosen.story,
        directory=Path(chosen.story_directory) / _folder(node) / _folder(host),
        days=chosen.story_days,
        total_bytes=chosen.story_bytes,
        properties=tuple(chosen.story_properties),
    )


def _folder(name: str) -> str:
    """Return a name as that of a folder, with unsafe characters escaped."""
    safe = quote(name, safe=" ")
    # A name of dots alone would lead to the folder itself, or to the one above it.
    return safe.replace(".", "%2E") if not safe.strip(".") else safe


class StoryTelling:
    """The operation `story` of a virtual host."""

    if TYPE_CHECKING:

        @property
        def access_name(self) -> str: ...
        @property
        def embedded(self) -> EmbeddedBroker: ...
        @property
        def path(self) -> str: ...

    @operation(
        "Tell the story of a message: what happened to it, and where it is.", needs=Operation.OBSERVE, changes=False
    )
    def story(
        self,
        id: Annotated[str | None, Field(max_length=1000, description="Its JMSMessageID.")] = None,
        correlation_id: Annotated[
            str | None, Field(max_length=10_000, description="Instead: its JMSCorrelationID.")
        ] = None,
        property: Annotated[
            str | None,
            Field(max_length=10_000, description="Instead: NAME=VALUE, of those that story_properties names."),
        ] = None,
        most: Annotated[int, Field(ge=1, le=100, description="So many messages at most.")] = 20,
        *,
        permissions: Permissions = EVERYTHING,
    ) -> StoriesView:
        """Return the story, as far as it was recorded, and as the caller may observe the queues and subscriptions in it.

        Raises `InvalidArgumentsError`, `WrongStateError`.
        """
        given = [each for each in (id, correlation_id, property) if each]
        if len(given) != 1:
            problem = Problem(name="id", text="say which message: one of id, correlation_id and property")
            raise InvalidArgumentsError(f"story of {self.path}", (problem,))
        name, equals, value = (property or "").partition("=")
        if property and not equals:
            problem = Problem(name="property", text="is NAME=VALUE")
            raise InvalidArgumentsError(f"story of {self.path}", (problem,))
        wanted = StoryQuery(message_id=id, correlation_id=correlation_id, property=(name, value) if property else None)
        return _tell(self.embedded, wanted, most, VisibilityFilter(permissions, self.access_name))


def _tell(broker: EmbeddedBroker, wanted: StoryQuery, most: int, visibility: VisibilityFilter) -> StoriesView:
    log = broker.stories
    if log is None:
        found = FoundStories(stories=(), missing=0, since_ms=None, is_cut=False)
    else:
        # What happened just before the question is then in the files, too.
        log.flush()
        found = find_stories(log.settings.directory, wanted, most)
    stories = list(found.stories)
    # Nothing was written down of it, but the broker still knows where the message is now.
    if wanted.message_id is not None and not stories:
        stories = [Story(message_id=wanted.message_id, correlation_id=None)]
    now = _now(broker, stories)
    views = [_view(each, now.get(each.message_id or "", []), visibility) for each in stories]
    return StoriesView(
        stories=[each for each in views if each is not None],
        level=StoryLevel.OFF.value if log is None else log.settings.level.value,
        since_ms=found.since_ms,
        missing=found.missing,
        is_cut=found.is_cut,
    )


def _now(broker: EmbeddedBroker, stories: list[Story]) -> dict[str, list[StoryPlace]]:
    """Return the places of the messages, by their ids: if all steps are recorded, in the stories' places only, otherwise everywhere."""
    host = broker.virtual_host
    is_exact = broker.stories is not None and broker.stories.settings.level is StoryLevel.ALL
    if is_exact and all(each.events for each in stories):
        names = {where for each in stories for where in each.places}
        channels = [found for name in names if (found := _channel_named(host, name)) is not None]
    else:
        queues = [found for name in host.queue_names() if (found := host.find_queue(name)) is not None]
        channels = [*queues, *host.subscriptions.durable().values()]
    numbers = {
        each.number: each.message_id
        for each in stories
        # Numbers of an earlier run may stand for other messages now.
        if each.message_id and each.run_id == broker.run_id and each.number
    }
    there = whereabouts([each.message_id for each in stories if each.message_id], numbers, channels)
    return {
        message_id: [
            StoryPlace(
                where=each.where,
                state=each.state.name,
                delivery_count=each.delivery_count,
                session=each.session,
                is_in_memory=each.is_in_memory,
                deliver_at_ms=each.deliver_at_ms,
            )
            for each in places
        ]
        for message_id, places in there.items()
    }


def _view(story: Story, now: list[StoryPlace], visibility: VisibilityFilter) -> StoryView | None:
    """Return the view of a message for the caller; None: it was never at a place that they may observe, or nothing is known."""
    events = [each for each in story.events if not each.where or visibility.covers(each.where)]
    places = [each for each in now if visibility.covers(each.where)]
    is_hidden = len(events) < len(story.events) or len(places) < len(now)
    # Hidden steps may leave events without a place; those alone would tell that the message exists.
    if not places and not (any(each.where for each in events) if is_hidden else events):
        return None
    return StoryView(
        message_id=story.message_id,
        correlation_id=story.correlation_id,
        steps=[
            StoryStep(
                at_ms=each.at_ms,
                what=each.what,
                where=each.where,
                state=each.state,
                text=in_words(each),
                facts=each.facts,
            )
            for each in map(visibility.seen, events)
        ],
        now=places,
    )


def _channel_named(host: VirtualHost, name: str) -> Queue | None:
    """Return the queue or durable subscription whose channel has that name."""
    scheme, _, rest = name.partition("://")
    return host.find_queue(rest) if scheme == "queue" else host.subscriptions.find(name)

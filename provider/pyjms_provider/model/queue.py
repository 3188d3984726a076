"""A queue as operators see it: its attributes, how full it is, and what can be done with its messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count, islice
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import BaseModel, Field

from pyjms.spi.selector import compile_selector, quote
from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.queue.measuring import most_deliveries, oldest_timestamp_ms
from pyjms_provider.core.queue.observing import counts_of, traffic_of
from pyjms_provider.model.children import OFFSET_MAX
from pyjms_provider.model.configuration.contract import ObjectId, ObjectRecord
from pyjms_provider.model.errors import UnknownObjectError
from pyjms_provider.model.explaining import ExplainedMessage, explain_message
from pyjms_provider.model.life_cycle import State
from pyjms_provider.model.managed import ManagedObject, Snapshot
from pyjms_provider.model.messages import MessageView, NewMessage, to_envelope
from pyjms_provider.model.operations import KEPT_QUIET, NO_PROGRESS, WRITES_TO, Progress, operation
from pyjms_provider.model.queue_attributes import ALERT_FIELDS, POLICY_FIELDS, QueueAttributes
from pyjms_provider.model.showing import Showing
from pyjms_provider.model.statistics import StatisticKind, statistic
from pyjms_provider.model.watched import AlertView, PastView, Since, alert_views, past_view
from pyjms_provider.security.contracts import Operation, Target, TargetKind

if TYPE_CHECKING:
    from pyjms_provider.core.queue.policy import QueuePolicy
    from pyjms_provider.core.queue.queue import Queue
    from pyjms_provider.model.queue_source import QueueSource
    from pyjms_provider.model.virtual_host import VirtualHost
    from pyjms_provider.watching.alerts import AlertLimits

__all__ = ["Ids", "ManagedQueue", "MessagePage", "Offset", "Selector", "chosen"]

_PAGE: Final = 1000
_numbers = count(1)

Selector = Annotated[str | None, Field(description="Which messages, as a JMS selector; none: all.")]
Ids = Annotated[list[str] | None, Field(description="Which messages, by their ids; none: all.")]
TargetQueue = Annotated[
    str,
    Field(
        min_length=1,
        description="The name of the other queue; it is made if there is none.",
        json_schema_extra={WRITES_TO: "queue"},
    ),
]
Offset = Annotated[int, Field(ge=0, le=OFFSET_MAX, description="So many are left out first.")]
Most = Annotated[int | None, Field(ge=1, description="At most so many; none: all.")]


class MessagePage(BaseModel):
    """Part of the messages that wait: fewer than were asked for where they are long, so the next page begins behind those that came."""

    messages: list[MessageView]
    has_more: bool


class Done(BaseModel):
    """How many messages something was done with."""

    messages: int


def chosen(selector: str | None, ids: list[str] | None) -> str | None:
    """Return one selector that says both."""
    if ids is None:
        return selector
    if not ids:
        return "FALSE"
    listed = ", ".join(map(quote, ids))
    return f"JMSMessageID IN ({listed})" + ("" if not selector else f" AND ({selector})")


class ManagedQueue(ManagedObject):
    """A view of one queue of a running host. It costs nothing but itself."""

    category = "queue"
    attributes_class = QueueAttributes

    def __init__(self, host: VirtualHost, source: QueueSource, name: str, own_id: ObjectId) -> None:
        self.parent = host
        self.id = own_id
        self.name = name
        self._host = host
        self._source = source
        self._children = {}
        self._listeners = ()
        self.pending = ()
        self._seen: tuple[tuple[object, ...], Snapshot] | None = None

    # What it is

    @property
    def snapshot(self) -> Snapshot:
        source = self._source
        error = source.error(self.name)
        if error is not None:
            return Snapshot(state=State.ERRORED, record=source.record(self.name), attributes=None, error=error)
        try:
            policy = source.policy(self.name)
        except UnknownObjectError:
            gone = State.DELETED if self._host.is_running else State.CLOSED
            return Snapshot(state=gone, record=source.record(self.name), attributes=None)
        limits = source.alert_limits(self.name)
        made_of = policy, source.kept_record(self.name), limits
        seen = self._seen
        if seen is None or seen[0] != made_of:
            record = source.record(self.name)
            shown = Snapshot(state=State.ACTIVE, record=record, attributes=_attributes(record, policy, limits))
            self._seen = seen = made_of, shown
        return seen[1]

    @property
    def type(self) -> str:
        found = self.snapshot.attributes
        return "" if found is None else str(getattr(found.type, "value", found.type))

    @property
    def is_durable(self) -> bool:
        record = self._source.record(self.name)
        is_kept = bool(record.created_ms or record.updated_ms) and self._host.life_time == "permanent"
        return record.attributes.get("durable", True) is not False and (self._host.keeps_queues or is_kept)

    def target(self) -> Target:
        return Target(kind=TargetKind.QUEUE, name=self.name, virtual_host=self._host.name)

    def _running(self) -> Queue:
        queue = self._host.embedded.virtual_host.find_queue(self.name)
        if queue is None:
            raise UnknownObjectError(f"{self._host.path} has no queue {self.name!r}")
        return queue

    # Changes

    def set_attributes(self, changes: Mapping[str, Any], *, by: str = "") -> None:
        self._host.configuration_thread.call(lambda: self._source.change(self.name, dict(changes), by))

    def delete(self, *, by: str = "") -> None:
        self._host.configuration_thread.call(lambda: self._source.delete(self.name))

    # Statistics

    @statistic("Messages that a consumer could get now.", unit="messages")
    def waiting(self) -> int:
        """Messages that a consumer could get now."""
        counts = counts_of(self._running())
        return counts.new - counts.delayed

    @statistic("Messages whose time has not come.", unit="messages")
    def delayed(self) -> int:
        """Messages whose time has not come."""
        return self._running().delayed_count

    @statistic("Messages that consumers have and have not settled.", unit="messages")
    def held(self) -> int:
        """Messages that consumers have."""
        return self._running().count(MessageState.DELIVERED)

    @statistic("Messages in transactions that have not ended.", unit="messages")
    def uncommitted(self) -> int:
        """Messages in open transactions."""
        return self._running().count(MessageState.NOT_COMMITTED)

    @statistic("All its messages.", unit="messages")
    def depth(self) -> int:
        """All its messages."""
        return counts_of(self._running()).depth

    @statistic("Consumers.", unit="consumers")
    def consumers(self) -> int:
        """How many consumers it has."""
        return self._running().consumer_count

    def _rates(self) -> tuple[float | None, ...]:
        return self._source.rates.look(self.name, traffic_of(self._running()), self.clock.monotonic_ms())

    @statistic("Messages that have come since the broker started.", unit="messages", kind=StatisticKind.COUNTER)
    def arrived(self) -> int:
        """How many messages have come, those among them that it had before the broker started."""
        return traffic_of(self._running())[0]

    @statistic("Messages that have left since the broker started.", unit="messages", kind=StatisticKind.COUNTER)
    def departed(self) -> int:
        """How many messages have left, for whatever reason."""
        return traffic_of(self._running())[2]

    @statistic("Deliveries to consumers since the broker started.", unit="messages", kind=StatisticKind.COUNTER)
    def delivered(self) -> int:
        """How many deliveries to consumers there were; a message that comes again counts again."""
        return traffic_of(self._running())[1]

    @statistic("Messages that come, lately.", unit="messages/s", kind=StatisticKind.RATE)
    def arrival_rate(self) -> float | None:
        """How many messages a second come; None: nobody has looked before."""
        return self._rates()[0]

    @statistic("Messages that leave, lately.", unit="messages/s", kind=StatisticKind.RATE)
    def departure_rate(self) -> float | None:
        """How many messages a second leave; None: nobody has looked before."""
        return self._rates()[2]

    @statistic("Deliveries to consumers, lately.", unit="messages/s", kind=StatisticKind.RATE)
    def delivery_rate(self) -> float | None:
        """How many deliveries a second consumers get; None: nobody has looked before."""
        return self._rates()[1]

    @statistic("Its alerts that hold now: too many messages, too old ones, or too large ones.")
    def alerts(self) -> list[AlertView]:
        """Its alerts that hold now."""
        return alert_views(self._source.alerts(self.name))

    @statistic("How many alerts hold now.", unit="alerts")
    def alert_count(self) -> int:
        """How many alerts hold now."""
        return len(self._source.alerts(self.name))

    @statistic("How long ago the oldest message was sent that waits or is held.", unit="ms", costly=True)
    def oldest_age_ms(self) -> int | None:
        """How long ago the oldest message was sent; None: there is none, or its sender did not say."""
        oldest_ms = oldest_timestamp_ms(self._running())
        return None if oldest_ms is None else max(0, self.clock.time_ms() - oldest_ms)

    @statistic(
        "The most deliveries of one message, among those that leave first and those held for longest.", costly=True
    )
    def most_deliveries(self) -> int:
        """How often the message was delivered that was delivered most often, of those that can be told at once."""
        return most_deliveries(self._running())

    # Operations

    @operation(
        "Return the last hour, a point each ten seconds, if it is among the busiest queues.",
        needs=Operation.OBSERVE,
        changes=False,
    )
    def history(self, since_ms: Since = 0) -> PastView:
        """Return what was noted after `since_ms`."""
        return past_view(self._host.watch.past_of(self.name, since_ms))

    @operation("Look at messages that nobody holds, in their order.", needs=Operation.BROWSE, changes=False)
    def browse(
        self,
        selector: Selector = None,
        message_ids: Ids = None,
        offset: Offset = 0,
        limit: Annotated[int, Field(ge=1, le=_PAGE, description="At most so many.")] = 50,
        *,
        with_bodies: Annotated[bool, Field(description="Whether bodies are wanted.")] = True,
    ) -> MessagePage:
        """Return a page of messages. Raises `InvalidSelectorError`, `ResourceError`."""
        found = self._source.manager.browse_counted(self.name, chosen(selector, message_ids))
        showing = Showing(with_bodies=with_bodies)
        shown, has_more = showing.page(found, showing.counted, offset, limit)
        return MessagePage(messages=shown, has_more=has_more)

    @operation(
        "Say of messages whether a selector takes them, and which clause decides.",
        needs=Operation.BROWSE,
        changes=False,
    )
    def explain(
        self,
        selector: Annotated[str, Field(description="The selector.")],
        message_ids: Ids = None,
        limit: Annotated[int, Field(ge=1, le=_PAGE, description="At most so many messages, the first ones.")] = 50,
    ) -> list[ExplainedMessage]:
        """Return what a selector says of messages that nobody holds. Raises `InvalidSelectorError`, `ResourceError`."""
        compiled = compile_selector(selector)
        found = self._source.manager.browse(self.name, chosen(None, message_ids))
        return [explain_message(compiled, each) for each in islice(found, limit)]

    @operation("Send a message to it.", needs=Operation.WRITE)
    def publish(
        self, message: Annotated[NewMessage, Field(description="The message.", json_schema_extra={KEPT_QUIET: True})]
    ) -> str:
        """Send a message, and return its id. Raises `InvalidArgumentsError`, `ResourceError`."""
        broker = self._host.embedded
        message_id = f"ID:{broker.name}-{broker.run_id}-management-{next(_numbers)}"
        envelope = to_envelope(message, self.name, message_id, self.clock.time_ms(), self.path)
        broker.virtual_host.route(envelope, None, None)
        return message_id

    @operation("Delete all messages that nobody holds.")
    def purge(self, *, progress: Progress = NO_PROGRESS) -> Done:
        """Delete all messages that nobody holds."""
        return self._done(lambda go_on: self._source.manager.purge(self.name, None, go_on=go_on), progress)

    @operation("Delete those messages that are chosen and that nobody holds.")
    def delete_messages(
        self, selector: Selector = None, message_ids: Ids = None, *, progress: Progress = NO_PROGRESS
    ) -> Done:
        """Delete chosen messages. Raises `InvalidSelectorError`, `ResourceError`."""
        which = chosen(selector, message_ids)
        return self._done(lambda go_on: self._source.manager.purge(self.name, which, go_on=go_on), progress)

    @operation("Move messages that nobody holds to another queue.")
    def move_messages(
        self,
        target: TargetQueue,
        selector: Selector = None,
        message_ids: Ids = None,
        most: Most = None,
        *,
        progress: Progress = NO_PROGRESS,
    ) -> Done:
        """Move messages. Raises `InvalidSelectorError`, `DestinationError`, `ResourceError`."""
        which = chosen(selector, message_ids)
        return self._done(
            lambda go_on: self._source.manager.move(self.name, target, which, most, go_on=go_on), progress
        )

    @operation("Copy messages that nobody holds to another queue.")
    def copy_messages(
        self,
        target: TargetQueue,
        selector: Selector = None,
        message_ids: Ids = None,
        most: Most = None,
        *,
        progress: Progress = NO_PROGRESS,
    ) -> Done:
        """Copy messages. Raises as `move_messages`."""
        which = chosen(selector, message_ids)
        return self._done(
            lambda go_on: self._source.manager.copy(self.name, target, which, most, go_on=go_on), progress
        )

    @operation("Let no message out; senders and browsers go on.")
    def pause(self, *, by: str = "") -> None:
        """Let no message out. May be repeated."""
        self.set_attributes({"paused": True}, by=by)

    @operation("End a pause.")
    def resume(self, *, by: str = "") -> None:
        """End a pause. May be repeated."""
        self.set_attributes({"paused": False}, by=by)

    @statistic("About how many bytes its messages take, as far as the broker had to know.", unit="bytes", costly=True)
    def bytes(self) -> int:
        """About how many bytes its messages take."""
        return self._running().size

    def _done(self, work: Callable[[Callable[[int], bool]], int], progress: Progress) -> Done:
        total = self._running().count(MessageState.NEW)
        done = work(lambda so_far: progress(so_far, total))
        progress(done, done)
        return Done(messages=done)


def _attributes(record: ObjectRecord, policy: QueuePolicy, limits: AlertLimits) -> QueueAttributes:
    """Return the effective attributes: what the queue obeys, and what its record says besides."""
    said = record.attributes
    return QueueAttributes.model_construct(
        name=record.name,
        description=said.get("description"),
        durable=said.get("durable", True),
        context=said.get("context", {}),
        **{name: getattr(policy, name) for name in POLICY_FIELDS},
        **{name: getattr(limits, name.removeprefix("alert_")) for name in ALERT_FIELDS},
    )

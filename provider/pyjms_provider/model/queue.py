"""The attributes of queues: the fields of their policy, which is what the broker's core obeys."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from functools import partial
from itertools import count, islice
from typing import TYPE_CHECKING, Annotated, Any, Final
from weakref import WeakValueDictionary

from pydantic import BaseModel, Field

from pyjms.spi.errors import DestinationInUseError, InDoubtError, ProviderError
from pyjms.spi.selector import compile_selector, quote
from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.policy import (
    MAXIMUM_DELIVERIES,
    MAXIMUM_FAILURES,
    Overflow,
    QueuePolicy,
)
from pyjms_provider.core.queue.statistics import counts_of, most_deliveries, oldest_timestamp_ms, traffic_of
from pyjms_provider.core.queue_types import MissingQueueType
from pyjms_provider.model.attributes import (
    Attributes,
    ByteCount,
    Reached,
    attribute,
    interpolate,
    mask,
    plain,
    resolve,
)
from pyjms_provider.model.errors import (
    BadVariableError,
    InvalidAttributesError,
    NotChangeableError,
    ObjectExistsError,
    ObjectInUseError,
    Problem,
    UnknownObjectError,
)
from pyjms_provider.model.managed import OFFSET_MAX, ChildSource, ManagedObject, Snapshot, State, observed_id
from pyjms_provider.model.messages import (
    ExplainedMessage,
    MessageRenderer,
    MessageView,
    NewMessage,
    explain_message,
    to_envelope,
)
from pyjms_provider.model.metrics_sampler import AlertLimits, AlertView, PastView, Rates, Since, alert_views, past_view
from pyjms_provider.model.operations import (
    KEPT_QUIET,
    NO_PROGRESS,
    WRITES_TO,
    Progress,
    Statistic,
    StatisticKind,
    operation,
    statistic,
    statistics_of,
)
from pyjms_provider.model.queue_policy import (
    POLICY_FIELDS,
    QueueTypeChoice,
    changed_fields,
    policy_errors_as_attribute_errors,
    policy_of,
    policy_reaches,
)
from pyjms_provider.queue_manager import QueueExistsError, QueueManager, UnknownQueueError
from pyjms_provider.receivers import unacknowledged_by_receiver
from pyjms_provider.security.contracts import Operation, Target, TargetKind
from pyjms_provider.stores.configuration_contract import ObjectId, ObjectRecord

if TYPE_CHECKING:
    from pyjms_provider.core.queue.channel_state import Counts
    from pyjms_provider.core.queue.queue import Queue
    from pyjms_provider.model.contracts import ManagedHost
    from pyjms_provider.model.metrics_sampler import Alert


ALERT_FIELDS: Final = tuple(f"alert_{field.name}" for field in fields(AlertLimits))
"""The attributes that the metrics sampler obeys, not the queue itself."""


class QueueAttributes(Attributes):
    """The attributes of a queue. Times are in milliseconds; 0 means no limit unless it says otherwise."""

    type: QueueTypeChoice = attribute(
        "In which order messages leave. Another one can be chosen while the queue is empty and has no consumers.",
        default="standard",
    )
    priorities: int = attribute("Levels of a priority queue.", default=10)
    key: str | None = attribute("The property that a last-value or sorted queue goes by.", default=None)
    partitions: int = attribute(
        "Into how many parts with leaders of their own a cluster divides it; chosen when it is created, and changed by partition_queue; "
        "one broker alone divides nothing.",
        default=1,
    )
    max_messages: int = attribute("How many messages it may hold; 0: any number.", default=0, unit="messages")
    max_bytes: ByteCount = attribute("How many bytes they may take; 0: any number.", default=0, unit="bytes")
    overflow: Overflow = attribute("What happens when it is full.", default="reject")
    block_timeout_ms: int = attribute(
        "How long a sender waits for room, with overflow block; 0: for as long as it takes.", default=0, unit="ms"
    )
    exclusive: bool = attribute("One consumer gets all messages; the next takes its place.", default=False)
    groups: bool = attribute("Messages of one JMSXGroupID go to one consumer.", default=False)
    non_destructive: bool = attribute("Consumers see every message and take none.", default=False)
    paused: bool = attribute("Messages come in, and none goes out.", default=False)
    max_deliveries: int = attribute(
        "So often is a message delivered before it is a dead letter; 0: without limit.", default=MAXIMUM_DELIVERIES
    )
    max_failures: int = attribute("The same for one whose listener fails; 0: any number.", default=MAXIMUM_FAILURES)
    redelivery_delay_ms: int = attribute(
        "How long a message stays away that was given back; 0: as its host says.", default=0, unit="ms"
    )
    redelivery_multiplier: float = attribute("By this the delay grows with each delivery.", default=1.0)
    max_redelivery_delay_ms: int = attribute("The longest delay; 0: it grows without end.", default=0, unit="ms")
    non_blocking_redelivery: bool = attribute(
        "An exclusive queue, or a group, goes on with later messages while one waits for its redelivery delay.",
        default=False,
    )
    dead_letter: str = attribute("The queue of its dead letters.", default="DLQ")
    expiry_queue: str | None = attribute("The queue of its expired messages; without one they go.", default=None)
    min_time_to_live_ms: int = attribute("The shortest life of a message; 0: as its sender says.", default=0, unit="ms")
    max_time_to_live_ms: int = attribute("The longest life of a message; 0: as its sender says.", default=0, unit="ms")
    delivery_mode: int | None = attribute("1 or 2, in place of what the sender says.", default=None)
    priority: int | None = attribute("0 to 9, in place of what the sender says.", default=None)
    time_to_live_ms: int | None = attribute("In place of what the sender says; 0: for ever.", default=None, unit="ms")
    duplicate_window_ms: int = attribute(
        "How long a producer's duplicate id is remembered.", default=300_000, unit="ms"
    )
    duplicate_count: int = attribute(
        "How many of them are remembered; 0: duplicates are not looked for.", default=20_000
    )
    alert_messages: int | None = attribute(
        "So many messages raise an alert; 0: none do; none: as the virtual host says.",
        default=None,
        unit="messages",
        ge=0,
    )
    alert_bytes: ByteCount | None = attribute(
        "The same for about how many bytes they take.", default=None, unit="bytes", ge=0
    )
    alert_age_ms: int | None = attribute(
        "The same for the age of the oldest message that waits or is held.", default=None, unit="ms", ge=0
    )
    alert_message_bytes: ByteCount | None = attribute(
        "The same for about how many bytes one message takes.", default=None, unit="bytes", ge=0
    )
    alert_repeat_gap_ms: int | None = attribute(
        "After which an alert that holds is told again; 0: it is not; none: as the virtual host says.",
        default=None,
        unit="ms",
        ge=0,
    )

    def reaches(self) -> Iterator[Reached]:
        yield from policy_reaches({"dead_letter": self.dead_letter, "expiry_queue": self.expiry_queue})


def alert_choices(attributes: BaseModel) -> dict[str, int]:
    """Return the alert settings in the attributes of a queue, or of a host, by the fields of `AlertLimits`."""
    found = {name.removeprefix("alert_"): getattr(attributes, name) for name in ALERT_FIELDS}
    return {name: value for name, value in found.items() if value is not None}


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
    """A page of waiting messages, shorter than requested if they are long; the next page begins after the last one returned."""

    messages: list[MessageView]
    has_more: bool


class Done(BaseModel):
    """The number of messages that an operation has affected."""

    messages: int


def chosen(selector: str | None, ids: list[str] | None) -> str | None:
    """Return one selector for both conditions."""
    if ids is None:
        return selector
    if not ids:
        return "FALSE"
    listed = ", ".join(map(quote, ids))
    return f"JMSMessageID IN ({listed})" + ("" if not selector else f" AND ({selector})")


class ManagedQueue(ManagedObject):
    """A view of one queue of a running host, cheap to make."""

    category = "queue"
    attributes_class = QueueAttributes

    def __init__(self, host: ManagedHost, source: QueueSource, name: str, own_id: ObjectId) -> None:
        self.parent = host.as_object
        self.id = own_id
        self.name = name
        self._host = host
        self._source = source
        self._children = {}
        self._listeners = ()
        self.pending = ()
        self._seen: tuple[tuple[object, ...], Snapshot] | None = None

    # Its state

    @property
    def snapshot(self) -> Snapshot:
        source = self._source
        error = source.error(self.name)
        if error is not None:
            return Snapshot(state=State.ERRORED, record=source.record(self.name), attributes=None, error=error)
        try:
            policy = source.policy(self.name)
        except UnknownObjectError:
            end_state = State.DELETED if self._host.is_running else State.CLOSED
            return Snapshot(state=end_state, record=source.record(self.name), attributes=None)
        limits = source.alert_limits(self.name)
        made_of = policy, source.kept_record(self.name), limits
        # One tuple, replaced as a whole: threads that read at the same time get a pair that belongs together.
        seen = self._seen
        if seen is None or seen[0] != made_of:
            record = source.record(self.name)
            attributes = _attributes(record, source.description(record), policy, limits)
            shown = Snapshot(state=State.ACTIVE, record=record, attributes=attributes)
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
        # A host with a store stores all its queues; one in memory only those of which its node has a record.
        return record.attributes.get("durable", True) is not False and (self._host.keeps_queues or is_kept)

    def target(self) -> Target:
        return Target(kind=TargetKind.QUEUE, name=self.name, virtual_host=self._host.access_name)

    def _running(self) -> Queue:
        queue = self._host.embedded.virtual_host.find_queue(self.name)
        if queue is None:
            raise UnknownObjectError(f"{self._host.path} has no queue {self.name!r}")
        return queue

    # Changes

    def set_attributes(self, changes: Mapping[str, Any], *, by: str = "") -> None:
        # On the host's thread: two changes at once would both start from the
        # same old attributes, and one would be lost.
        self._host.configuration_thread.call(lambda: self._source.change(self.name, dict(changes), by))

    def delete(self, *, by: str = "") -> None:
        self._host.configuration_thread.call(lambda: self._source.delete(self.name))

    # Statistics

    @statistic("Messages that a consumer could get now.", unit="messages")
    def waiting(self) -> int:
        counts = counts_of(self._running())
        # A delayed message is new to the queue, but no consumer could get it yet.
        return counts.new - counts.delayed

    @statistic("Messages whose delivery time is in the future.", unit="messages")
    def delayed(self) -> int:
        return self._running().delayed_count

    @statistic("Messages that consumers have and have not settled.", unit="messages")
    def held(self) -> int:
        return self._running().count(MessageState.DELIVERED)

    @statistic("Messages in transactions that have not ended.", unit="messages")
    def uncommitted(self) -> int:
        return self._running().count(MessageState.NOT_COMMITTED)

    @statistic("All its messages.", unit="messages")
    def depth(self) -> int:
        return counts_of(self._running()).depth

    @statistic("Consumers.", unit="consumers")
    def consumers(self) -> int:
        """The number of its consumers."""
        return self._running().consumer_count

    @statistic("Receivers that it pushes messages to.", unit="receivers")
    def receivers(self) -> int:
        return len(self._running().pusher.receivers)

    @statistic("Its receivers, by their names, and how many unacknowledged messages each has.")
    def unacknowledged_by_receiver(self) -> dict[str, int]:
        return unacknowledged_by_receiver(self._running())

    @statistic("Whether a message that nobody takes is kept; otherwise it is acknowledged and discarded.")
    def is_storing_undeliverable(self) -> bool:
        return self._running().is_storing_undeliverable

    @statistic("Whether its PERSISTENT messages survive the process.")
    def is_reliable(self) -> bool:
        return self._running().is_reliable

    def _rates(self) -> tuple[float | None, ...]:
        return self._source.rates.sample(self.name, traffic_of(self._running()), self.clock.monotonic_ms())

    @statistic("Messages that have arrived since the broker started.", unit="messages", kind=StatisticKind.COUNTER)
    def arrived(self) -> int:
        """The number of messages that have arrived, including those it had before the broker started."""
        return traffic_of(self._running())[0]

    @statistic("Messages that have left since the broker started.", unit="messages", kind=StatisticKind.COUNTER)
    def departed(self) -> int:
        return traffic_of(self._running())[2]

    @statistic("Deliveries to consumers since the broker started.", unit="messages", kind=StatisticKind.COUNTER)
    def delivered(self) -> int:
        """The number of deliveries to consumers; a redelivery counts again."""
        return traffic_of(self._running())[1]

    @statistic("Messages that arrive, lately.", unit="messages/s", kind=StatisticKind.RATE)
    def arrival_rate(self) -> float | None:
        """The messages that arrive per second; None: not sampled before."""
        return self._rates()[0]

    @statistic("Messages that leave, lately.", unit="messages/s", kind=StatisticKind.RATE)
    def departure_rate(self) -> float | None:
        """The messages that leave per second; None: not sampled before."""
        return self._rates()[2]

    @statistic("Deliveries to consumers, lately.", unit="messages/s", kind=StatisticKind.RATE)
    def delivery_rate(self) -> float | None:
        """The deliveries to consumers per second; None: not sampled before."""
        return self._rates()[1]

    @statistic("Its alerts that hold now: too many messages, too old ones, or too large ones.")
    def alerts(self) -> list[AlertView]:
        return alert_views(self._source.alerts(self.name))

    @statistic("How many alerts hold now.", unit="alerts")
    def alert_count(self) -> int:
        return len(self._source.alerts(self.name))

    @statistic("How long ago the oldest message was sent that waits or is held.", unit="ms", costly=True)
    def oldest_age_ms(self) -> int | None:
        """The age of the oldest message, from when it was sent; None: there is none, or it has no timestamp."""
        oldest_ms = oldest_timestamp_ms(self._running())
        return None if oldest_ms is None else max(0, self.clock.time_ms() - oldest_ms)

    @statistic(
        "The most deliveries of one message, among those that leave first and those held for longest.", costly=True
    )
    def most_deliveries(self) -> int:
        return most_deliveries(self._running())

    # Operations

    @operation(
        "Return the last hour, a point each ten seconds, if it is among the busiest queues.",
        needs=Operation.OBSERVE,
        changes=False,
    )
    def history(self, since_ms: Since = 0) -> PastView:
        return past_view(self._host.sampler.past_of(self.name, since_ms))

    @operation("Browse messages that no consumer holds, in their order.", needs=Operation.BROWSE, changes=False)
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
        # Lazy: the page takes as many messages as fit into one answer, and the rest of the queue is not read.
        found = self._source.manager.browse_counted(self.name, chosen(selector, message_ids))
        renderer = MessageRenderer(with_bodies=with_bodies)
        shown, has_more = renderer.page(found, renderer.counted, offset, limit)
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
        """Return the selector's results for messages that no consumer holds. Raises `InvalidSelectorError`, `ResourceError`."""
        # Compiled first, so that a wrong selector is reported although the queue is empty.
        compiled = compile_selector(selector)
        found = self._source.manager.browse(self.name, chosen(None, message_ids))
        return [explain_message(compiled, each) for each in islice(found, limit)]

    @operation("Send a message to it.", needs=Operation.WRITE)
    def publish(
        self, message: Annotated[NewMessage, Field(description="The message.", json_schema_extra={KEPT_QUIET: True})]
    ) -> str:
        """Send a message, and return its id. Raises `InvalidArgumentsError`, `ResourceError`."""
        broker = self._host.embedded
        # The run is part of the id, as the counter begins again with each process.
        message_id = f"ID:{broker.name}-{broker.run_id}-management-{next(_numbers)}"
        envelope = to_envelope(message, self.name, message_id, self.clock.time_ms(), self.path)
        broker.virtual_host.route(envelope, None, None)
        return message_id

    @operation("Delete all messages that no consumer holds.")
    def purge(self, *, progress: Progress = NO_PROGRESS) -> Done:
        return self._done(lambda go_on: self._source.manager.purge(self.name, None, go_on=go_on), progress)

    @operation("Delete the chosen messages that no consumer holds.")
    def delete_messages(
        self, selector: Selector = None, message_ids: Ids = None, *, progress: Progress = NO_PROGRESS
    ) -> Done:
        """Delete chosen messages. Raises `InvalidSelectorError`, `ResourceError`."""
        which = chosen(selector, message_ids)
        return self._done(lambda go_on: self._source.manager.purge(self.name, which, go_on=go_on), progress)

    @operation("Move messages that no consumer holds to another queue.")
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
        which, crossing = chosen(selector, message_ids), self._host.crossing_to(target)
        move = self._source.manager.move if crossing is None else crossing.move
        return self._done(lambda go_on: move(self.name, target, which, most, go_on=go_on), progress)

    @operation("Copy messages that no consumer holds to another queue.")
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
        which, crossing = chosen(selector, message_ids), self._host.crossing_to(target)
        copy = self._source.manager.copy if crossing is None else crossing.copy
        return self._done(lambda go_on: copy(self.name, target, which, most, go_on=go_on), progress)

    @operation("Let no message out; senders and browsers go on.")
    def pause(self, *, by: str = "") -> None:
        self.set_attributes({"paused": True}, by=by)

    @operation("End a pause.")
    def resume(self, *, by: str = "") -> None:
        """End a pause. May be repeated."""
        self.set_attributes({"paused": False}, by=by)

    @statistic("About how many bytes its messages take, as far as the broker had to know.", unit="bytes", costly=True)
    def bytes(self) -> int:
        return self._running().size

    def _done(self, work: Callable[[Callable[[int], bool]], int], progress: Progress) -> Done:
        total = self._running().count(MessageState.NEW)
        done = work(lambda so_far: progress(so_far, total))
        # The estimate may have been wrong: messages arrive and leave meanwhile, so the end is reported with the true number.
        progress(done, done)
        return Done(messages=done)


def _attributes(
    record: ObjectRecord, description: str | None, policy: QueuePolicy, limits: AlertLimits
) -> QueueAttributes:
    """Return the effective attributes: the description, those of the queue's policy, and the others of its record."""
    actual = record.attributes
    # Without validation, as the policy has been checked, and a list shows thousands of queues.
    return QueueAttributes.model_construct(
        name=record.name,
        description=description,
        durable=actual.get("durable", True),
        context=actual.get("context", {}),
        **{name: getattr(policy, name) for name in POLICY_FIELDS},
        **{name: getattr(limits, name.removeprefix("alert_")) for name in ALERT_FIELDS},
    )


Column = Callable[["QueueSource"], Mapping[str, Any]]


def _consumers(source: QueueSource) -> Mapping[str, Any]:
    return {name: queue.consumer_count for name, queue in _running(source)}


def _chosen(field: str, source: QueueSource) -> Mapping[str, Any]:
    """Return a field of all queues' policies; of a queue in error the given value, if it has one."""
    in_error = {name: source.record(name).attributes.get(field) for name in source.names_in_error()}
    return {**in_error, **{name: plain(getattr(queue.policy, field)) for name, queue in _running(source)}}


def _state(source: QueueSource) -> Mapping[str, Any]:
    # All at once and not object by object: a list of ten thousand queues is sorted by this column.
    state = State.ACTIVE if source.host.is_running else State.CLOSED
    in_error = dict.fromkeys(source.names_in_error(), State.ERRORED.value)
    return {**dict.fromkeys(source.names(), state.value), **in_error}


def _alerts(source: QueueSource) -> Mapping[str, Any]:
    holding = source.host.sampler.book.holding if source.host.is_running else {}
    return {name: len(holding.get(name, ())) for name, _ in _running(source)}


def _most_deliveries(source: QueueSource) -> Mapping[str, Any]:
    return {name: most_deliveries(queue) for name, queue in _running(source)}


def _running(source: QueueSource) -> list[tuple[str, Queue]]:
    return source.host.embedded.virtual_host.queues() if source.host.is_running else []


_COUNTED: Final[Mapping[str, Callable[[Counts], int]]] = {
    "waiting": lambda counts: counts.new - counts.delayed,
    "delayed": lambda counts: counts.delayed,
    "held": lambda counts: counts.held,
    "uncommitted": lambda counts: counts.uncommitted,
    "depth": lambda counts: counts.depth,
    "arrived": lambda counts: counts.accepted,
    "delivered": lambda counts: counts.delivered,
    "departed": lambda counts: counts.departed,
}
_COLUMNS: Final[Mapping[str, Column]] = {
    **{field: partial(_chosen, field) for field in POLICY_FIELDS},
    "state": _state,
    "consumers": _consumers,
    "alert_count": _alerts,
    "most_deliveries": _most_deliveries,
}
KNOWN: Final = frozenset({*_COUNTED, *_COLUMNS})
"""The fields that `queue_columns` supports."""


def queue_columns(source: QueueSource, fields: Iterable[str]) -> dict[str, Mapping[str, Any]]:
    """Return those fields of all queues, by the name of the field and of the queue; each queue is counted once."""
    wanted = set(fields)
    found = {field: _COLUMNS[field](source) for field in wanted & _COLUMNS.keys()}
    counted = wanted & _COUNTED.keys()
    if counted:
        # Counted once for all fields, so that the columns of one queue are of the same moment.
        counts = [(name, counts_of(queue)) for name, queue in _running(source)]
        for field in counted:
            count = _COUNTED[field]
            found[field] = {name: count(each) for name, each in counts}
    return found


_log = logging.getLogger(__name__)
_FIXED: Final = ("name", "durable")


class QueueSource(ChildSource):
    """The queues of one virtual host."""

    def __init__(self, host: ManagedHost) -> None:
        self.host = host
        self._records: Mapping[str, ObjectRecord] = {}
        self._errors: Mapping[str, str] = {}
        self._own_alerts: Mapping[str, Mapping[str, int]] = {}
        self._host_alerts: tuple[Attributes | None, AlertLimits] = (None, AlertLimits())
        self.rates = Rates()
        self.made: WeakValueDictionary[str, ManagedQueue] = WeakValueDictionary()

    # Any thread

    @property
    def category(self) -> str:
        return "queue"

    @property
    def manager(self) -> QueueManager:
        """The operations on queues. Raises `WrongStateError` while the host does not run."""
        return self.host.queue_manager

    def names(self) -> Sequence[str]:
        if not self.host.is_running:
            # A host that is stopped knows only the queues of its configuration.
            return sorted(self._records)
        found = self.host.embedded.virtual_host.queue_names()
        return found if not self._errors else sorted({*found, *self._errors})

    def find(self, name: str) -> ManagedQueue | None:
        # A queue in error is no queue of the host, but an operator must be able to see, change or delete it.
        if not self.is_there(name) and name not in self._errors:
            return None
        found = self.made.get(name)
        if found is None:
            # A listener keeps a reference to the queue's object, and must find the same one again.
            found = self.made[name] = ManagedQueue(
                self.host, self, name, observed_id(self.host.as_object, "queue", name)
            )
        return found

    def has_column(self, field: str) -> bool:
        return field in KNOWN or field in statistics_of(ManagedQueue)

    def columns(self, fields: Collection[str]) -> Mapping[str, Mapping[str, Any]]:
        """Return fields of all queues: much faster than asking them one by one."""
        others = {field: self._column(field) for field in fields if field not in KNOWN}
        return {**others, **queue_columns(self, KNOWN.intersection(fields))}

    def _column(self, statistic: str) -> Mapping[str, Any]:
        declared = vars(ManagedQueue)[statistic]
        assert isinstance(declared, Statistic)
        # One object for all queues: making one for each would cost more than reading it.
        probe = ManagedQueue(self.host, self, "", self.host.id)
        found: dict[str, Any] = {}
        for probe.name in self.names():
            # The queue is in error, or was deleted meanwhile.
            with suppress(UnknownObjectError):
                found[probe.name] = plain(declared.compute(probe))
        return found

    def targets(self) -> tuple[TargetKind, str]:
        return TargetKind.QUEUE, self.host.access_name

    def is_there(self, name: str) -> bool:
        """Return whether the host has that queue."""
        return self.host.is_running and self.host.embedded.virtual_host.find_queue(name) is not None

    def policy(self, name: str) -> QueuePolicy:
        """Return a queue's policy. Raises `UnknownObjectError`."""
        queue = self.host.embedded.virtual_host.find_queue(name) if self.host.is_running else None
        if queue is None:
            raise UnknownObjectError(f"{self.host.path} has no queue {name!r}")
        return queue.policy

    def names_in_error(self) -> Sequence[str]:
        """Return the stored queues that could not be created."""
        return list(self._errors)

    def error(self, name: str) -> str | None:
        """Return why a stored queue could not be created."""
        return self._errors.get(name)

    def kept_record(self, name: str) -> ObjectRecord | None:
        """Return the record of a queue, None if an operator has never created or changed it; the same object until that happens."""
        return self._records.get(name)

    def record(self, name: str) -> ObjectRecord:
        """Return a queue's record, with its actual attributes."""
        found = self._records.get(name)
        if found is None:
            # Made from the policy: a queue that was created by first use has no record.
            actual = {"name": name, **(changed_fields(self.policy(name)) if self.is_there(name) else {})}
            return ObjectRecord(
                id=observed_id(self.host.as_object, "queue", name),
                category="queue",
                parent=self.host.id,
                attributes=actual,
            )
        return found

    def description(self, record: ObjectRecord) -> str | None:
        """Return a queue's description, with its variables replaced as long as they have values."""
        given: str | None = record.attributes.get("description")
        if given is None or "${" not in given:
            return given
        try:
            return interpolate(given, partial(self._variable, record.attributes.get("context"), record))
        except BadVariableError:  # a context above has been changed since: to look at the queue raises nothing
            return given

    def alert_limits(self, name: str) -> AlertLimits:
        """Return a queue's alert limits: its own, or those of its host."""
        limits, own = self._alerts_of_host(), self._own_alerts.get(name)
        return limits if own is None else replace(limits, **own)

    def _alerts_of_host(self) -> AlertLimits:
        chosen = self.host.snapshot.attributes
        known, limits = self._host_alerts
        # By identity: attributes are immutable, and each sample asks once for every queue.
        if chosen is not None and chosen is not known:
            limits = AlertLimits(**alert_choices(chosen))
            # One tuple, so that a thread that reads meanwhile gets limits of just these attributes.
            self._host_alerts = chosen, limits
        return limits

    def watched_for_alerts(self) -> frozenset[str] | None:
        """Return the queues that may have alerts; None: all."""
        if self.host.snapshot.attributes is None or not self._alerts_of_host().is_any:
            # Without limits of the host, the sampler can skip all queues but these.
            return frozenset(self._own_alerts)
        return None

    def alerts(self, name: str) -> tuple[Alert, ...]:
        """Return the alerts of a queue that hold now."""
        return self.host.sampler.book.holding.get(name, ()) if self.host.is_running else ()

    # On the configuration thread

    def create(self, attributes: Mapping[str, Any], by: str) -> ManagedObject:
        """Create a queue, as `ChildSource`. `InDoubtError`: it exists, and its record is stored."""
        now_ms = self.host.clock.time_ms()
        name = str(attributes.get("name", ""))
        record = ObjectRecord(
            id=observed_id(self.host.as_object, "queue", name),
            category="queue",
            parent=self.host.id,
            attributes=dict(attributes),
            created_by=by,
            created_ms=now_ms,
            updated_by=by,
            updated_ms=now_ms,
        )
        policy = policy_of(self._resolve(record), f"queue {name}")
        # The journal keeps every queue of the host, so this one could not end with the process.
        if self.host.keeps_queues and not attributes.get("durable", True):
            problem = Problem(
                name="durable", text="the virtual host has a store, which keeps all its queues; leave it out"
            )
            raise InvalidAttributesError(f"queue {name}", (problem,))
        if name in self._errors:
            raise ObjectExistsError(
                f"there is a queue {name!r} already, which could not be made; change it, or delete it"
            )
        doubt: InDoubtError | None = None
        try:
            with policy_errors_as_attribute_errors(f"queue {name}"):
                self.manager.create(name, policy)
        except QueueExistsError as error:
            raise ObjectExistsError(error.reason) from error
        # The queue is there nevertheless, so its record is written too, and the doubt is raised at the end.
        except InDoubtError as error:
            doubt = error
        try:
            # Made before it is kept: a queue that cannot be made leaves no record behind.
            self._keep(name, record)
        except Exception:
            self.manager.destroy(name)
            raise
        made = self.find(name)
        assert made is not None, "it was made a moment ago"
        host = self.host.as_object
        self.host.tell(host, lambda listener: listener.child_added(host, made))
        if doubt is not None:
            raise doubt
        return made

    def change(self, name: str, changes: Mapping[str, Any], by: str) -> None:
        """Change attributes of a queue, all or none. Raises as `ManagedObject.set_attributes`."""
        before = self.record(name)
        actual = dict(before.attributes)
        for each, value in changes.items():
            if each in _FIXED and value != actual.get(each, True):
                raise NotChangeableError(f"queue {name}: {each} cannot be changed; create another queue")
            if value is None:
                actual.pop(each, None)
            else:
                actual[each] = value
        # Resolved before anything is changed: an error here leaves queue, record and listeners as they are.
        record = replace(before, attributes=actual, updated_by=by, updated_ms=self.host.clock.time_ms())
        policy = policy_of(self._resolve(record), f"queue {name}")
        if name in self._errors and not self.is_there(name):
            self._create_corrected(name, record, policy)
            return
        # Read before the change, for the case that the record cannot be written.
        old = self.policy(name)
        # Applied before it is written: the record must never promise what the queue has refused.
        self._obey(name, policy)
        try:
            self._keep(name, record)
        except Exception:
            self._obey(name, old)
            raise
        # A queue whose type was missing is one of another type now.
        self._errors = {each: why for each, why in self._errors.items() if each != name}
        found = self._found(name)
        masked = mask(QueueAttributes, before.attributes), mask(QueueAttributes, actual)
        self.host.tell(found, lambda listener: listener.attributes_changed(found, *masked))

    def _create_corrected(self, name: str, record: ObjectRecord, policy: QueuePolicy) -> None:
        """Create a queue that could not be created before."""
        with policy_errors_as_attribute_errors(f"queue {name}"):
            self.manager.create(name, policy)
        self._keep(name, record)
        # Last: until the record is written, the queue counts as being in error.
        self._errors = {each: why for each, why in self._errors.items() if each != name}

    def _obey(self, name: str, policy: QueuePolicy) -> None:
        try:
            with policy_errors_as_attribute_errors(f"queue {name}"):
                self.manager.alter(name, **{each: getattr(policy, each) for each in POLICY_FIELDS})
        except DestinationInUseError as error:
            raise ObjectInUseError(error.reason) from error

    def delete(self, name: str) -> None:
        """Delete a queue with its messages. Raises `ObjectInUseError`, `UnknownObjectError`; `InDoubtError`: it is deleted nevertheless."""
        made = self._found(name)
        record = self._records.get(name)
        # The record first: a crash in between then leaves a queue, but no record that would create it again.
        self._forget(name)
        if name in self._errors:
            self._errors = {each: why for each, why in self._errors.items() if each != name}
        try:
            if self.is_there(name):
                self.manager.destroy(name)
        # The queue is deleted nevertheless, so listeners are told before the doubt is raised.
        except InDoubtError:
            self._tell_gone(name, made)
            raise
        except (ProviderError, OSError) as error:
            if record is not None:
                # The queue is still there, so its record is written again.
                self._keep(name, record)
            if isinstance(error, UnknownQueueError):
                raise UnknownObjectError(error.reason) from error
            if isinstance(error, DestinationInUseError):
                raise ObjectInUseError(error.reason) from error
            raise
        self._tell_gone(name, made)

    def _tell_gone(self, name: str, made: ManagedQueue) -> None:
        self.made.pop(name, None)
        host = self.host.as_object
        self.host.tell(host, lambda listener: listener.child_removed(host, made))

    def restore(self, records: Sequence[ObjectRecord]) -> None:
        """Create the queues of the node's configuration again; faulty ones are ERRORED with the reason."""
        self._records = {**self._records, **{record.name: record for record in records}}
        # One wrong record must not keep the other queues, or the host, from being opened.
        errors: dict[str, str] = {}
        for record in records:
            try:
                self._restore(record)
            except ProviderError as error:
                why = f"{record.source}: {error.reason}" if record.source else error.reason
                errors[record.name] = why
                _log.error("PYJMS-MODEL-2 queue %s of %s could not be made: %s", record.name, self.host.path, why)
        kinds = [(name, queue.policy.type) for name, queue in _running(self)]
        # These are there, and keep their messages, but deliver none.
        missing = {name: kind.reason for name, kind in kinds if isinstance(kind, MissingQueueType)}
        self._errors = {**self._errors, **missing, **errors}

    def _restore(self, record: ObjectRecord) -> None:
        resolved = self._resolve(record)
        policy = policy_of(resolved, f"queue {record.name}", is_restored=True)
        self._note_alerts(record.name, alert_choices(resolved))
        if not self.is_there(record.name):
            self.manager.create(record.name, policy)
        # The journal has restored the queue with another policy; the record
        # holds more, such as variables, and decides.
        elif self.policy(record.name) != policy:
            self._obey(record.name, policy)

    def kept_records(self) -> list[ObjectRecord]:
        """Return the records that are in the node's configuration."""
        return [record for record in self._records.values() if self._must_be_kept(record)]

    def put_away(self) -> list[ObjectRecord]:
        """Return the records that the next start needs, and forget them."""
        kept = [record for record in self._records.values() if record.attributes.get("durable", True)]
        self._records, self._errors, self._own_alerts = {}, {}, {}
        self.made.clear()
        return kept

    def _found(self, name: str) -> ManagedQueue:
        found = self.find(name)
        if found is None:
            raise UnknownObjectError(f"{self.host.path} has no queue {name!r}")
        return found

    def _resolve(self, record: ObjectRecord) -> QueueAttributes:
        own = record.attributes.get("context")
        lookup = partial(self._variable, own, record)
        found = resolve(QueueAttributes, record.attributes, lookup, f"queue {record.name}")
        assert isinstance(found, QueueAttributes)
        return found

    def _variable(self, own: Any, record: ObjectRecord, name: str) -> str | None:
        if name == "this:name":
            return record.name
        if isinstance(own, Mapping) and isinstance(own.get(name), str):
            return str(own[name])
        # Not from the environment: a user who may create a queue need not have the right to read the broker's environment.
        return self.host.variable_below(name, record.name)

    def _keep(self, name: str, record: ObjectRecord) -> None:
        """Keep a record, and store it in the configuration if it must be there."""
        if self._must_be_kept(record):
            self.host.write_record(record)
        # The record held more before than it does now, and the journal alone stores the queue from here on.
        elif name in self._records and self._must_be_kept(self._records[name]):
            self.host.remove_record(record.id)
        self._records = {**self._records, name: record}
        says_something = not record.attributes.keys().isdisjoint(ALERT_FIELDS)
        self._note_alerts(name, alert_choices(self._resolve(record)) if says_something else {})

    def _note_alerts(self, name: str, chosen: Mapping[str, int]) -> None:
        if chosen or name in self._own_alerts:
            others = {each: known for each, known in self._own_alerts.items() if each != name}
            self._own_alerts = {**others, name: chosen} if chosen else others

    def _forget(self, name: str) -> None:
        record = self._records.get(name)
        if record is not None:
            if self._must_be_kept(record):
                self.host.remove_record(record.id)
            self._records = {each: kept for each, kept in self._records.items() if each != name}
            self._note_alerts(name, {})

    def _must_be_kept(self, record: ObjectRecord) -> bool:
        if not record.attributes.get("durable", True):
            return False
        says_more = any(
            each not in {"name", "type", "durable"} and each not in POLICY_FIELDS and value not in (None, {}, "")
            for each, value in record.attributes.items()
        )
        # Writing a record writes the whole file of the node, so a queue that its policy describes fully has no record there.
        return not self.host.keeps_queues or says_more or _has_variables(record.attributes)


def _has_variables(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_variables, value.values()))
    if isinstance(value, (list, tuple)):
        return any(map(_has_variables, value))
    # The journal keeps the values, not the variables that they came from.
    return isinstance(value, str) and "${" in value

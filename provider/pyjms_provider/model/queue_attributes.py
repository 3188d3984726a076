"""The attributes of queues: the fields of their policy, which is what the broker's core obeys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from pyjms_provider.core.policy import (
    MAXIMUM_DELIVERIES,
    MAXIMUM_FAILURES,
    Overflow,
    PolicyError,
    QueuePolicy,
    QueueType,
)
from pyjms_provider.core.queue.queue_rules import check_disk
from pyjms_provider.model.alerts import AlertLimits
from pyjms_provider.model.attributes import Attributes, ByteCount, Reached, attribute
from pyjms_provider.model.errors import InvalidAttributesError, Problem
from pyjms_provider.security.contracts import Operation, TargetKind

POLICY_FIELDS: Final = tuple(field.name for field in fields(QueuePolicy))
ALERT_FIELDS: Final = tuple(f"alert_{field.name}" for field in fields(AlertLimits))
"""What the queue itself does not obey, but who watches over it."""


class QueueAttributes(Attributes):
    """What can be chosen for a queue. Times are in milliseconds; 0 means no limit unless it says otherwise."""

    type: QueueType = attribute(  # type: ignore[assignment]  # narrower than any category's
        "In which order messages leave. Another one can be chosen while the queue is empty and has no consumers.",
        default="standard",
    )
    priorities: int = attribute("Levels of a priority queue.", default=10)
    key: str | None = attribute("The property that a last-value or sorted queue goes by.", default=None)
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


def policy_reaches(values: Mapping[str, Any]) -> Iterator[Reached]:
    """Yield the queues that a policy sends messages to, besides the one of all dead letters."""
    for name, usual in (("dead_letter", QueuePolicy().dead_letter), ("expiry_queue", None)):
        chosen = values.get(name)
        if isinstance(chosen, str) and chosen != usual:
            yield Operation.WRITE, TargetKind.QUEUE, chosen


class PolicyPattern(BaseModel):
    """Which queues, or with ``topic://`` which subscriptions, have a policy that they were not given themselves."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    pattern: str
    policy: dict[str, Any]


def policy_of(attributes: QueueAttributes, where: str) -> QueuePolicy:
    """Return the policy that the attributes say. Raises `InvalidAttributesError`."""
    with told_of_attributes(where):
        return QueuePolicy(**{name: getattr(attributes, name) for name in POLICY_FIELDS})


@contextmanager
def told_of_attributes(where: str) -> Iterator[None]:
    """Tell a policy that cannot be as attributes that cannot. Raises `InvalidAttributesError`."""
    try:
        yield
    except PolicyError as error:
        raise _refused(where, error, "") from error


def read_policy(values: Mapping[str, Any], where: str, attribute_name: str, *, has_disk: bool) -> QueuePolicy:
    """Return a policy of plain values, for a host that has a disk or not. Raises `InvalidAttributesError`."""
    try:
        policy = QueuePolicy.from_mapping(values)
        check_disk(policy, has_disk=has_disk)
    except PolicyError as error:
        raise _refused(where, error, attribute_name) from error
    return policy


def _refused(where: str, error: PolicyError, attribute_name: str) -> InvalidAttributesError:
    first = error.reason.partition(" ")[0].partition("=")[0]
    name = attribute_name or (first if first in POLICY_FIELDS else "")
    return InvalidAttributesError(where, (Problem(name=name, text=error.reason),))


def alert_choices(attributes: BaseModel) -> dict[str, int]:
    """Return what the attributes of a queue, or of a host, say of alerts, by the fields of `AlertLimits`."""
    found = {name.removeprefix("alert_"): getattr(attributes, name) for name in ALERT_FIELDS}
    return {name: value for name, value in found.items() if value is not None}


def changed_fields(policy: QueuePolicy) -> dict[str, Any]:
    """Return what a policy says beside the defaults, as plain values."""
    default = QueuePolicy()
    return {
        name: getattr(value, "value", value)
        for name in POLICY_FIELDS
        if (value := getattr(policy, name)) != getattr(default, name)
    }

"""Queue policies: type, limits, redelivery, times and consumers of a queue, as its owner chooses them; validated once, when made.

A policy only has values. `queue_rules.py` and the modules beside it apply them.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, fields, replace
from enum import Enum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from pyjms.spi.errors import ProviderError
from pyjms.spi.registry import PluginError
from pyjms_provider.core.queue_types import (
    AnyQueueType,
    InstalledQueueType,
    MissingQueueType,
    QueueType,
    find_queue_type,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "MAXIMUM_DELIVERIES",
    "MAXIMUM_FAILURES",
    "Overflow",
    "PolicyError",
    "QueuePolicies",
    "QueuePolicy",
    "QueueType",
    "read_bytes",
]


_UNITS: Final = {"": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


def read_bytes(text: str) -> int | None:
    """Return the number of bytes, None: the text is not one. Without a unit it is in bytes."""
    match = re.fullmatch(r"([0-9]{1,19})\s*([a-zA-Z]*)", text)
    unit = None if match is None else _UNITS.get(match[2].lower())
    return None if match is None or unit is None else int(match[1]) * unit


MAXIMUM_FAILURES = 7
"""One delivery and six redeliveries, the usual limit of JMS providers to which programs were written."""

MAXIMUM_DELIVERIES = 10
"""As in Artemis: without a limit a poison message would be redelivered for ever."""

_LONG_MAX = 2**63 - 1
_PRIORITIES = 10
_PARTITIONS = 256  # as many as a cluster may have shards
_TOPIC = "topic://"


class PolicyError(ProviderError):
    """An invalid policy; the text names the field and a remedy."""

    code = "PYJMS-POLICY"


class Overflow(Enum):
    """The behaviour of a full queue when a message is sent to it."""

    REJECT = "reject"
    """The sender gets an error (ResourceAllocationException)."""
    BLOCK = "block"
    """The sender waits for room."""
    RING = "ring"
    """The oldest message that is not held is dropped."""
    FLOW_TO_DISK = "flow_to_disk"
    """The message is accepted, and stays on the disk until it is needed; requires a broker with a store, or a limit of memory."""

    __hash__ = object.__hash__


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePolicy:
    """The settings of one queue. Every time is in milliseconds; 0 means "no limit" unless a field says otherwise.

    Raises `PolicyError` when a value is out of range or two values exclude each other.
    """

    type: AnyQueueType = QueueType.STANDARD
    priorities: int = _PRIORITIES
    """Levels of a `priority` queue, 1 to 10."""
    key: str | None = None
    """The property that distinguishes messages of a `last_value` or `sorted` queue, or of a package's type; None for other types."""

    partitions: int = 1
    """Into how many parts a cluster divides the queue, each with a leader of its own, 1 to 256; each part itself has 1, as has a queue of one broker."""

    max_messages: int = 0
    max_bytes: int = 0
    """Limits of all messages in the queue, also of those that are held or not committed."""
    overflow: Overflow = Overflow.REJECT
    block_timeout_ms: int = 0
    """How long a sender waits for room with `block`; then it gets the error of `reject`."""

    exclusive: bool = False
    """One consumer gets all messages; when it ends, the next one takes over."""
    groups: bool = False
    """Messages of one JMSXGroupID are delivered to one consumer."""
    non_destructive: bool = False
    """Consumers see every message and take none: messages leave by age, limits or an administrator."""
    paused: bool = False
    """Messages are accepted, and none is delivered."""

    max_deliveries: int = MAXIMUM_DELIVERIES
    """How often a message is delivered, for whatever reason it was released, before it becomes a dead letter."""
    max_failures: int = MAXIMUM_FAILURES
    """The same for a message that its listener fails on, by raising (JMS 1.1 §4.5.2); the lower of both counts."""
    redelivery_delay_ms: int = 0
    """The delay before a released message is redelivered; 0: the host's (`HostPolicy.back_off_ms`)."""
    redelivery_multiplier: float = 1.0
    """The factor by which the delay grows with each delivery."""
    max_redelivery_delay_ms: int = 0
    non_blocking_redelivery: bool = False
    """Whether an exclusive queue, or a group, delivers later messages, out of order, while one waits for its redelivery delay."""
    dead_letter: str = "DLQ"
    """The queue of this queue's dead letters."""
    expiry_queue: str | None = None
    """The queue that expired messages are moved to, another one than the queue itself; None: they are dropped."""

    min_time_to_live_ms: int = 0
    max_time_to_live_ms: int = 0
    delivery_mode: int | None = None
    """1 or 2: overrides the sender's value (JMS 1.1 §3.4.12), as do the next two; None: the sender decides."""
    priority: int | None = None
    time_to_live_ms: int | None = None

    duplicate_window_ms: int = 300_000
    """How long a producer's duplicate id is remembered."""
    duplicate_count: int = 20_000
    """How many of them are remembered; 0: none, so that duplicates are not detected."""

    def __post_init__(self) -> None:
        _check_types(self)
        for name, (least, most) in _RANGES.items():
            value = getattr(self, name)
            if value is not None and not least <= value <= most:
                raise PolicyError(f"{name} is {value!r}; give a number from {least} to {most}")
        found = _contradictions(self)
        if found:
            raise PolicyError("; ".join(found))

    @property
    def is_limited(self) -> bool:
        """Whether the queue can be full."""
        return bool(self.max_messages or self.max_bytes)

    @property
    def changes_messages(self) -> bool:
        """Whether headers of incoming messages may be changed."""
        chosen = (self.delivery_mode, self.priority, self.time_to_live_ms)
        return chosen != (None, None, None) or bool(self.min_time_to_live_ms or self.max_time_to_live_ms)

    def check_for(self, name: str) -> None:
        """Raise `PolicyError` if the queue `name` cannot have this policy as its own."""
        if self.expiry_queue == name:
            raise PolicyError(
                f"expiry_queue is {name!r}, the queue itself, where expired messages would be expired still, and go without a trace; "
                "name another queue, or leave it out to have them dropped"
            )

    def check_undivided(self) -> None:
        """Raise `PolicyError` if one broker cannot have a queue with this policy, but only a cluster."""
        if self.partitions > 1:
            raise PolicyError(
                f"partitions is {self.partitions}, and only a cluster divides queues, when they are created or first used below its virtual host, "
                "or by partition_queue; leave it out"
            )

    def altered(self, **changes: Any) -> QueuePolicy:
        """Return a policy with other values for some fields; enumerations may be given by their text, and bytes with a unit.

        Raises `PolicyError`.
        """
        unknown = changes.keys() - _NAMES
        if unknown:
            raise PolicyError(f"a queue's policy has no {min(unknown)}; it has: {', '.join(sorted(_NAMES))}")
        # URLs, files and management only have texts.
        if isinstance(changes.get("type"), str):
            changes["type"] = _queue_type(changes["type"])
        if isinstance(changes.get("overflow"), str):
            changes["overflow"] = _member("overflow", Overflow, changes["overflow"])
        if isinstance(changes.get("max_bytes"), str):
            changes["max_bytes"] = _bytes(changes["max_bytes"])
        return replace(self, **changes)

    def to_json(self) -> str:
        """Return the policy as one JSON object with every field, so that later defaults do not change it."""
        values = {name: _plain(getattr(self, name)) for name in _NAMES}
        if isinstance(self.type, MissingQueueType):
            values["paused"] = self.type.was_paused
        return json.dumps(values, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> QueuePolicy:
        """Read the JSON of `to_json`, or of a person: fields that are left out have their defaults. Raises `PolicyError`."""
        return cls.from_mapping(cls._read(text))

    @classmethod
    def from_journal(cls, text: str, missing: dict[str, str] | None = None) -> QueuePolicy:
        """Read the JSON of `to_json`. A type that cannot be used here is a `MissingQueueType`, and the policy is paused. Raises `PolicyError`.

        `missing`: the types that could not be found so far, with the reasons: each is looked for once.
        """
        values = cls._read(text)
        name = values.get("type")
        missing = {} if missing is None else missing
        if isinstance(name, str):
            if name not in missing:
                try:
                    find_queue_type(name)
                except PluginError as error:
                    missing[name] = error.reason
            if name in missing:
                was_paused = values.get("paused") is True
                values["type"] = MissingQueueType(name, missing[name], was_paused=was_paused)
                values["paused"] = True
        return cls.from_mapping(values)

    @staticmethod
    def _read(text: str) -> dict[str, Any]:
        try:
            read = json.loads(text)
        except ValueError as error:
            raise PolicyError(f"a queue's policy is no JSON: {error}; write for instance {{}}") from error
        if not isinstance(read, dict):
            raise PolicyError(f"a queue's policy is a JSON object, not {text!r}; write for instance {{}}")
        return read

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> QueuePolicy:
        """Make a policy from a mapping of values; fields that are left out have their defaults. Raises `PolicyError`."""
        return cls().altered(**values)


_NAMES = frozenset(field.name for field in fields(QueuePolicy))
_BOOLEANS = ("exclusive", "groups", "non_destructive", "paused", "non_blocking_redelivery")
_TEXTS = ("key", "dead_letter", "expiry_queue")
_RANGES: Mapping[str, tuple[float, float]] = {
    "priorities": (1, _PRIORITIES),
    "partitions": (1, _PARTITIONS),
    "max_messages": (0, _LONG_MAX),
    "max_bytes": (0, _LONG_MAX),
    "block_timeout_ms": (0, _LONG_MAX),
    "max_deliveries": (0, 2**31 - 1),
    "max_failures": (0, 2**31 - 1),
    "redelivery_delay_ms": (0, _LONG_MAX),
    "redelivery_multiplier": (1.0, 1000.0),
    "max_redelivery_delay_ms": (0, _LONG_MAX),
    "min_time_to_live_ms": (0, _LONG_MAX),
    "max_time_to_live_ms": (0, _LONG_MAX),
    "delivery_mode": (1, 2),
    "priority": (0, _PRIORITIES - 1),
    "time_to_live_ms": (0, _LONG_MAX),
    "duplicate_window_ms": (1, _LONG_MAX),
    "duplicate_count": (0, 10_000_000),
}
_OPTIONAL = frozenset({"key", "expiry_queue", "delivery_mode", "priority", "time_to_live_ms"})


def _check_types(policy: QueuePolicy) -> None:
    if not isinstance(policy.type, AnyQueueType):
        raise PolicyError(f"type is {policy.type!r}; give a QueueType")
    if not isinstance(policy.overflow, Overflow):
        raise PolicyError(f"overflow is {policy.overflow!r}; give an Overflow")
    for name in _BOOLEANS:
        if not isinstance(getattr(policy, name), bool):
            raise PolicyError(f"{name} is {getattr(policy, name)!r}; give true or false")
    for name in _TEXTS:
        value = getattr(policy, name)
        if not (isinstance(value, str) and value) and not (value is None and name in _OPTIONAL):
            raise PolicyError(f"{name} is {value!r}; give a name")
    for name in _RANGES:
        value = getattr(policy, name)
        if value is None and name in _OPTIONAL:
            continue
        allowed = (int, float) if name == "redelivery_multiplier" else int
        # bool is an int to Python: `true` would count as 1.
        if isinstance(value, bool) or not isinstance(value, allowed):
            raise PolicyError(f"{name} is {value!r}; give a {'number' if allowed is not int else 'whole number'}")


def _contradictions(policy: QueuePolicy) -> list[str]:
    """Return the contradictions between fields, each with the remedy."""
    kind = policy.type
    is_bundled = isinstance(kind, QueueType)
    keyed = kind is QueueType.LAST_VALUE or kind is QueueType.SORTED
    needs_key = kind.plugin.needs_key if isinstance(kind, InstalledQueueType) else keyed
    delays = 0 < policy.max_redelivery_delay_ms < policy.redelivery_delay_ms
    lives = 0 < policy.max_time_to_live_ms < policy.min_time_to_live_ms
    rules = (
        (needs_key and policy.key is None, f"type={kind.value} needs key", "give the name of a property"),
        (is_bundled and not keyed and policy.key is not None, f"type={kind.value} has no key", "leave key out"),
        (
            isinstance(kind, MissingQueueType) and not policy.paused,
            f"type={kind.value} cannot be used here, so the queue stays paused",
            "install its package and start the broker again, or choose the type standard",
        ),
        (
            policy.type is not QueueType.PRIORITY and policy.priorities != _PRIORITIES,
            f"type={policy.type.value} has no choice of priorities",
            "leave it out, or make it type=priority",
        ),
        (
            policy.overflow is not Overflow.REJECT and not policy.is_limited,
            f"overflow={policy.overflow.value} without a limit does nothing",
            "give max_messages or max_bytes",
        ),
        (
            policy.block_timeout_ms > 0 and policy.overflow is not Overflow.BLOCK,
            "block_timeout_ms is for overflow=block",
            "leave one of them out",
        ),
        (
            policy.partitions > 1 and policy.exclusive,
            "partitions of an exclusive queue would each choose a consumer of their own",
            "leave one of them out",
        ),
        (
            policy.partitions > 1 and kind not in {QueueType.STANDARD, QueueType.PRIORITY},
            f"type={kind.value} needs all messages in one place, which partitions do not have",
            "leave partitions out, or make it standard or priority",
        ),
        (policy.exclusive and policy.groups, "exclusive leaves nothing for groups to do", "leave one of them out"),
        (
            policy.non_destructive and (policy.exclusive or policy.groups),
            "with non_destructive every consumer sees every message",
            "leave exclusive and groups out",
        ),
        (
            kind is QueueType.TOTAL_ORDER and (policy.groups or policy.non_destructive),
            "type=total_order leaves no choice to groups, and holds messages back, which non_destructive consumers do not wait for",
            "leave groups and non_destructive out, or choose another type",
        ),
        (
            kind is QueueType.TOTAL_ORDER and policy.non_blocking_redelivery,
            "type=total_order lets no message overtake one that waits for its redelivery",
            "leave non_blocking_redelivery out",
        ),
        (
            policy.non_destructive and (kind is QueueType.SORTED or isinstance(kind, InstalledQueueType)),
            f"type={kind.value} puts messages where a non_destructive consumer has been",
            "leave one of them out",
        ),
        (delays, "max_redelivery_delay_ms is below redelivery_delay_ms", "raise it, or give 0 for no limit"),
        (lives, "max_time_to_live_ms is below min_time_to_live_ms", "raise it, or give 0 for no limit"),
    )
    return [f"{problem}: {remedy}" for holds, problem, remedy in rules if holds]


def _plain(value: object) -> object:
    return value.value if isinstance(value, Enum | InstalledQueueType | MissingQueueType) else value


def _queue_type(text: str) -> QueueType | InstalledQueueType:
    try:
        return find_queue_type(text)
    except PluginError as error:
        raise PolicyError(f"type is {text!r}; {error.reason}") from error


def _member(name: str, kind: type[Enum], text: str) -> Enum:
    try:
        return kind(text)
    except ValueError:
        values = ", ".join(member.value for member in kind)
        raise PolicyError(f"{name} is {text!r}; give one of {values}") from None


def _bytes(text: str) -> int:
    found = read_bytes(text)
    if found is None:
        raise PolicyError(f"max_bytes is {text!r}; give a number of bytes, as 200MB or 1GiB")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePolicies:
    """The policies of queues that were not made with one of their own. The first pattern that matches counts.

    A pattern is a glob on the queue's name (``orders.*``), or, after ``topic://``, on the name of a topic: it then
    applies to the subscriptions of that topic. Raises `PolicyError` for a subscription that would stop its publishers.
    """

    default: QueuePolicy = QueuePolicy()
    subscriptions: QueuePolicy = QueuePolicy()
    """For subscriptions whose topic no pattern names."""
    patterns: tuple[tuple[str, QueuePolicy], ...] = ()

    def __post_init__(self) -> None:
        # Checked when policies are given, as no client could get the error later: a publisher knows nothing of subscribers.
        of_topics = [("subscriptions", self.subscriptions)]
        of_topics += [(pattern, policy) for pattern, policy in self.patterns if pattern.startswith(_TOPIC)]
        for name, policy in of_topics:
            if policy.is_limited and policy.overflow in {Overflow.REJECT, Overflow.BLOCK}:
                raise PolicyError(
                    f"{name}: overflow={policy.overflow.value} would let one slow subscriber stop all publishers; "
                    f"give ring or flow_to_disk"
                )
            if policy.partitions > 1:
                raise PolicyError(f"{name}: partitions is for queues, and subscriptions have none; leave it out")
        # A pattern without wildcards is the name of one queue.
        for pattern, policy in self.patterns:
            policy.check_for(pattern)

    def every(self) -> Sequence[QueuePolicy]:
        """Return all of them, in no order that matters."""
        return (self.default, self.subscriptions, *(policy for _, policy in self.patterns))

    def undivided(self) -> QueuePolicies:
        """Return them for one part of each queue, as a leader in a cluster has it."""
        return replace(
            self,
            default=replace(self.default, partitions=1),
            patterns=tuple((pattern, replace(policy, partitions=1)) for pattern, policy in self.patterns),
        )

    def for_queue(self, name: str) -> QueuePolicy:
        """Return the policy of the queue `name`: the expiry queue of all queues drops the messages that expire in itself."""
        found = (
            each for pattern, each in self.patterns if not pattern.startswith(_TOPIC) and fnmatchcase(name, pattern)
        )
        policy = next(found, self.default)
        return replace(policy, expiry_queue=None) if policy.expiry_queue == name else policy

    def for_subscription(self, topic: str) -> QueuePolicy:
        """Return the policy of a subscription of `topic`."""
        for pattern, policy in self.patterns:
            if pattern.startswith(_TOPIC) and fnmatchcase(topic, pattern[len(_TOPIC) :]):
                return policy
        return self.subscriptions

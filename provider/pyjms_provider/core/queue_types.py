"""The types of queues: those of this broker, and those that packages bring.

A package registers a class as an entry point of the group ``pyjms.queue_types``; the name of the entry point is the type, as the policy of a queue
names it. The class is constructed without arguments, when a policy first names the type.

A queue whose type is no longer installed keeps its type and its messages: `MissingQueueType` stands for it, and the queue is paused.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias

from pyjms.spi.errors import ResourceError
from pyjms.spi.registry import PluginError, make_plugin, plugins

if TYPE_CHECKING:
    from pyjms.spi.envelope import Envelope

QUEUE_TYPE_GROUP: Final = "pyjms.queue_types"

Rank: TypeAlias = int | float | str | None
"""The place of a message in the order of its queue: None comes first, then numbers by size, then texts by their characters."""


class QueueType(Enum):
    """The order in which messages leave a queue, and which of them stay."""

    STANDARD = "standard"
    """By JMS priority, then by age (JMS 1.1 §3.4.10)."""
    PRIORITY = "priority"
    """The same with fewer levels of priority; with one level, strictly by age."""
    LAST_VALUE = "last_value"
    """As standard, but a newer message of the same key replaces an older one."""
    SORTED = "sorted"
    """By the value of a property, the smallest first, then by age."""
    TOTAL_ORDER = "total_order"
    """In the order in which the destination accepted them, whatever their priorities and delivery modes; for all consumers, and all
    subscriptions of a topic, the same one. A message that is not committed, or waits for its redelivery delay, holds back those behind it."""

    __hash__ = object.__hash__


class QueueTypePlugin(ABC):
    """A type of queues: an entry point of the group ``pyjms.queue_types``."""

    title: ClassVar[str] = ""
    """What it is, for operators."""
    needs_key: ClassVar[bool] = False
    """Whether the policy must name a `key`; otherwise it may."""

    @abstractmethod
    def ranks(self, key: str | None) -> Callable[[Envelope], Rank]:
        """Return the function that ranks the messages of one queue; `key`: the policy's. Called when the queue is made.

        The message of the lowest rank leaves first; of equal rank, the oldest. A message is ranked once, when it is sent, or restored after a
        start of the broker, oldest first: the function may remember what it needs of the messages before. It is called by any thread, also by
        several at once, without a lock; it is quick, and never waits. A message that it raises for comes first.
        """


class InstalledQueueType:
    """A type of queues that a package brings. Equal by name."""

    __slots__ = ("plugin", "value")

    def __init__(self, value: str, plugin: QueueTypePlugin) -> None:
        self.value: Final = value
        """Its name."""
        self.plugin: Final = plugin

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InstalledQueueType) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return f"<the queue type {self.value}>"

    def __str__(self) -> str:
        return self.value


class MissingQueueType:
    """The type of a queue in a store, or a configuration, that cannot be used here. Equal by name."""

    __slots__ = ("reason", "value", "was_paused")

    def __init__(self, value: str, reason: str, *, was_paused: bool = False) -> None:
        """`reason`: why it cannot be used, and what to do; `was_paused`: whether its owner had paused the queue."""
        self.value: Final = value
        """Its name."""
        self.reason: Final = reason
        self.was_paused: Final = was_paused

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MissingQueueType) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return f"<the missing queue type {self.value}>"

    def __str__(self) -> str:
        return self.value


AnyQueueType: TypeAlias = QueueType | InstalledQueueType | MissingQueueType
"""The type of a queue."""


class MissingQueueTypeError(ResourceError):
    """The queue is of a type that no installed package brings, so it delivers nothing; the text says what to do."""

    code = "PYJMS-QUEUE-TYPE"


_made: Final[dict[str, InstalledQueueType]] = {}


def find_queue_type(name: str) -> QueueType | InstalledQueueType:
    """Return the queue type of that name. Raises `PluginError`, which says what is missing, or broken."""
    try:
        return QueueType(name)
    except ValueError:
        pass
    found = _made.get(name)
    if found is not None:
        return found
    installed = plugins({QUEUE_TYPE_GROUP})[QUEUE_TYPE_GROUP]
    if name not in installed:
        known = ", ".join((*(each.value for each in QueueType), *sorted(installed)))
        raise PluginError(f"no package brings the queue type {name!r}: install it, or choose one of {known}")
    made = make_plugin(installed[name], QueueTypePlugin, f"the queue type {name!r}")  # type: ignore[type-abstract]
    # Two threads may make it at once; both then use the first one.
    return _made.setdefault(name, InstalledQueueType(name, made))

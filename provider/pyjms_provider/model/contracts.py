"""What the objects below a virtual host see of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyjms.spi.clock import Clock
    from pyjms_provider.broker import EmbeddedBroker
    from pyjms_provider.model.configuration_thread import ConfigurationThread
    from pyjms_provider.model.managed import ManagedObject, Snapshot
    from pyjms_provider.model.metrics_sampler import MetricsSampler
    from pyjms_provider.queue_manager import QueueManager
    from pyjms_provider.stores.configuration_contract import ObjectId, ObjectRecord


class ManagedHost(Protocol):
    """A virtual host. Any thread may read it; records are written on its configuration thread."""

    id: ObjectId
    name: str

    @property
    def as_object(self) -> ManagedObject:
        """The same object, as the parent of others."""
        ...

    @property
    def path(self) -> str:
        """Category and names, for people."""
        ...

    @property
    def clock(self) -> Clock:
        """The time."""
        ...

    @property
    def snapshot(self) -> Snapshot:
        """Its state and attributes, as they are now."""
        ...

    @property
    def life_time(self) -> str:
        """How long it lives."""
        ...

    @property
    def configuration_thread(self) -> ConfigurationThread:
        """The thread that makes changes to it."""
        ...

    @property
    def embedded(self) -> EmbeddedBroker:
        """The running broker. Raises `WrongStateError` while there is none."""
        ...

    @property
    def is_running(self) -> bool:
        """Whether there is a running broker."""
        ...

    @property
    def sampler(self) -> MetricsSampler:
        """Its metrics and alerts. Raises `WrongStateError` while it does not run."""
        ...

    @property
    def queue_manager(self) -> QueueManager:
        """What does things with its queues. Raises `WrongStateError` while it does not run."""
        ...

    @property
    def keeps_queues(self) -> bool:
        """Whether its store keeps its queues and their policies."""
        ...

    def variable_below(self, name: str, below: str) -> str | None:
        """Return the value of a context variable for the object `below`."""
        ...

    def write_record(self, record: ObjectRecord) -> None:
        """Have the node keep a queue's record. Raises `StoreError`."""
        ...

    def remove_record(self, gone: ObjectId) -> None:
        """Have the node forget a queue's record. Raises `StoreError`."""
        ...

    def tell_child_added(self, child: ManagedObject) -> None:
        """Tell listeners of a queue that was created."""
        ...

    def tell_child_removed(self, child: ManagedObject) -> None:
        """Tell listeners of a queue that was deleted."""
        ...

    def tell_attributes_changed(self, child: ManagedObject, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        """Tell listeners of a queue that was changed."""
        ...

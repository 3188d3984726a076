"""Interfaces between the parts of the model, and to the services of the rest of the broker.

The objects below a virtual host see it as `ManagedHost`. The model knows neither transports nor management: `SystemConfig` gets the
factories of ports as `Services` from the code that puts the broker together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock, Signal
    from pyjms.spi.envelope import Address
    from pyjms_provider.broker import EmbeddedBroker
    from pyjms_provider.cluster.contracts import Cluster
    from pyjms_provider.cluster.known import JoinedCluster
    from pyjms_provider.cluster.settings import ClusterSettings
    from pyjms_provider.model.configuration_thread import ConfigurationThread
    from pyjms_provider.model.managed import ChildSource, ConfigurationChangeListener, ManagedObject, Snapshot
    from pyjms_provider.model.metrics_sampler import MetricsSampler
    from pyjms_provider.queue_manager import QueueManager
    from pyjms_provider.stores.configuration_contract import ObjectId, ObjectRecord
    from pyjms_provider.transport.settings import TlsSettings


class Crossing(Protocol):
    """Moves messages from a queue of one shard to a queue of another one."""

    def move(self, name: str, target: str, selector: str | None, most: int | None, go_on: Callable[[int], bool]) -> int:
        """Move messages as `QueueManager.move`, in transactions of both shards."""
        ...

    def copy(self, name: str, target: str, selector: str | None, most: int | None, go_on: Callable[[int], bool]) -> int:
        """Copy messages as `QueueManager.copy`."""
        ...


class ManagedHost(Protocol):
    """A virtual host. Any thread may read it; records are written on its configuration thread."""

    id: ObjectId
    name: str

    @property
    def access_name(self) -> str:
        """Its name in access rules."""
        ...

    @property
    def joined(self) -> Cluster | None:
        """The cluster that it has joined; None: it is in none, or does not run."""
        ...

    def broker_with(self, address: Address) -> EmbeddedBroker | None:
        """Return the running broker of this process that has a queue or a topic; None: another member has it, or the host does not run."""
        ...

    def crossing_to(self, queue: str) -> Crossing | None:
        """Return how messages come from the queues of this host to another queue that is in another shard; None: it is in this host."""
        ...

    def joined_as_leader(self, address: Address) -> Cluster | None:
        """Return the cluster for what runs where its destination is, which reaches that destination here alone; None: it is in none."""
        ...

    @property
    def as_object(self) -> ManagedObject:
        """The host as the parent of other objects."""
        ...

    def own_sources(self) -> Mapping[str, ChildSource]:
        """Return the sources of the objects of its own broker, which is the front of this member where it is clustered."""
        ...

    @property
    def path(self) -> str:
        """Category and names, for display."""
        ...

    @property
    def clock(self) -> Clock:
        """The time."""
        ...

    @property
    def snapshot(self) -> Snapshot:
        """Its state and attributes at present."""
        ...

    @property
    def life_time(self) -> str:
        """Its life time."""
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
        """The operations on its queues. Raises `WrongStateError` while it does not run."""
        ...

    @property
    def keeps_queues(self) -> bool:
        """Whether its store keeps its queues and their policies."""
        ...

    def variable_below(self, name: str, below: str) -> str | None:
        """Return the value of a context variable for the object `below`."""
        ...

    def write_record(self, record: ObjectRecord) -> None:
        """Store a queue's record in the node's configuration. Raises `StoreError`."""
        ...

    def remove_record(self, object_id: ObjectId) -> None:
        """Remove a queue's record from the node's configuration. Raises `StoreError`."""
        ...

    def tell(self, about: ManagedObject, tell: Callable[[ConfigurationChangeListener], None]) -> None:
        """Notify the listeners of an object, and those of its ancestors that listen to all objects below them."""
        ...


class OpenPort(Protocol):
    """A port that listens."""

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where it listens, as URLs: ``stomp://127.0.0.1:61613``."""
        ...

    @property
    def connections(self) -> int:
        """The number of open connections."""
        ...

    def reload_certificates(self, tls: TlsSettings) -> None:
        """Use the certificates that `tls` names for connections from now on; open ones stay.

        Raises `ListenerSettingsError` if it cannot be used, or if the port was opened without TLS: then nothing changes.
        """
        ...

    def close(self, *, lingers: bool = False) -> None:
        """Stop listening, and end its connections. May be repeated; may wait, with a way out.

        `lingers`: return as soon as it has stopped listening, as the caller may be waiting for an answer over one of them.
        """
        ...


PortOpener = Callable[["ManagedObject"], OpenPort]
"""Opens a port as its effective attributes say. Raises `ProviderError` or `OSError`."""


JoinCluster = Callable[["ClusterSettings", "Clock", "Signal"], "JoinedCluster"]
"""Makes the member of a cluster. Waits for the database until the signal is raised; raises `ClosedError`, `ClusterError`, `ResourceError`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The factories that the rest of the broker provides."""

    port_openers: Mapping[str, PortOpener] = field(default_factory=dict)
    """By the type of the port."""
    join_cluster: JoinCluster | None = None
    """None: virtual hosts of clusters are not opened here."""

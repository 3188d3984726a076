"""A broker with its network: opened from a configuration, closed in order.

When a user is changed or deleted, the user's log-ins at the console and connections of clients end at once. Changes that other
programs make to the user file apply to new log-ins only, as the broker is not notified of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from threading import Lock
from typing import TYPE_CHECKING, Any, Self

from pyjms.spi.clock import Clock, Signal, SystemClock
from pyjms_provider.broker import EmbeddedBroker
from pyjms_provider.forks import forget_in_children
from pyjms_provider.management.service import ManagementService
from pyjms_provider.model.broker import SystemConfig
from pyjms_provider.model.contracts import Services
from pyjms_provider.model.errors import WrongStateError
from pyjms_provider.model.managed import ConfigurationChangeListener, State
from pyjms_provider.model.port import INSTALLED, Port
from pyjms_provider.security.audit import AuditLog
from pyjms_provider.serving.client_ports import client_opener
from pyjms_provider.serving.hosts import HostFailures, running_hosts
from pyjms_provider.serving.installed_port import installed_opener
from pyjms_provider.serving.management_queues import MANAGEMENT, ManagementQueues
from pyjms_provider.transport.service import NetworkService

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyjms_provider.cluster.known import JoinedCluster
    from pyjms_provider.cluster.settings import ClusterSettings
    from pyjms_provider.model.broker import Broker
    from pyjms_provider.model.contracts import JoinCluster, OpenPort, PortOpener
    from pyjms_provider.model.managed import ManagedObject
    from pyjms_provider.security.secrets import SecretBox
    from pyjms_provider.stores.configuration_contract import ConfigurationStore
    from pyjms_provider.transport.connection import Trace


_CATEGORY = "user"


class UserWatch(ConfigurationChangeListener):
    """Listens to all users of a broker."""

    def __init__(self, management: Callable[[ManagedObject], ManagementService], synthetic: EmbeddedBroker) -> None:
        """`synthetic`: a virtual host that is not in the tree."""
        self._management = management
        self._synthetic = synthetic

    def attributes_changed(self, managed: ManagedObject, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        if managed.category == _CATEGORY and managed.parent is not None:
            self._end(managed.parent, managed.name, "was changed; log in again")

    def child_removed(self, parent: ManagedObject, child: ManagedObject) -> None:
        if child.category == _CATEGORY:
            self._end(parent, child.name, "was deleted")

    def _end(self, provider: ManagedObject, user_name: str, what: str) -> None:
        # The revocation is noted by this call: a STOMP log-in that enters its
        # connection after the loop is refused by its own check.
        self._management(provider).end_sessions(provider.name, user_name)
        # The host of `$management` is in no tree, and has clients, too.
        for host in (*_running(provider), self._synthetic):
            for connection_id, client in host.clients().items():
                who = client.principal
                if who is not None and (who.provider, who.name) == (provider.name, user_name):
                    host.end_connection(connection_id, f"the user {user_name!r} {what}")


def _running(provider: ManagedObject) -> Iterator[EmbeddedBroker]:
    for each in running_hosts(provider.root):
        with suppress(WrongStateError):  # it stops at this moment, and ends all its connections
            yield each.embedded


class _ManagementServices:
    """The one management service of a broker, made for the first port that needs it."""

    def __init__(self, audit: AuditLog) -> None:
        self._audit = audit
        self._lock = Lock()
        self._management: ManagementService | None = None

    def of(self, port: ManagedObject) -> ManagementService:
        """Return the management service of a port's broker."""
        root = port.root
        assert isinstance(root, SystemConfig)
        with self._lock:
            # Under the lock: two ports may be opened at once, and two managements
            # would not know each other's jobs and sessions.
            if self._management is None:
                self._management = ManagementService(root, self._audit)
            return self._management

    def close(self) -> None:
        """End all running jobs."""
        if self._management is not None:
            self._management.close()


class ServedBroker:
    """A broker that runs from `open` to `close`; a context manager closes it."""

    def __init__(
        self,
        system: SystemConfig,
        network: NetworkService,
        services: _ManagementServices,
        queues: ManagementQueues,
        audit: AuditLog,
    ) -> None:
        self.system = system
        self.network = network
        self._services = services
        self._queues = queues
        self._audit = audit
        self._is_parents = False
        """Whether it belongs to the parent process, from which this one was forked."""
        forget_in_children(self)

    @classmethod
    def open(
        cls,
        store: ConfigurationStore | None = None,
        *,
        name: str = "broker",
        context: Mapping[str, str] | None = None,
        secrets: SecretBox | None = None,
        clock: Clock | None = None,
        trace: Trace | None = None,
        audit_file: Path | None = None,
    ) -> Self:
        """Open the objects in `store` (None: an empty broker that stores nothing) and all its ports.

        Faulty single objects are ERRORED. Raises `StoreError` when the configuration cannot be read, and `OSError` when
        `audit_file` cannot be opened.
        """
        clock = clock or SystemClock()
        audit = AuditLog(clock, path=audit_file)
        with ExitStack() as undo:
            undo.callback(audit.close)
            network = NetworkService(name, clock=clock, trace=trace)
            undo.callback(network.stop)
            network.start()
            services = _ManagementServices(audit)
            synthetic = EmbeddedBroker(MANAGEMENT, clock)
            undo.callback(synthetic.stop)
            clients = client_opener(network, synthetic, services.of)
            openers = {
                "stomp": clients,
                "amqp": clients,
                "http": _http_opener(network, services),
                INSTALLED: installed_opener(network, services.of),
            }
            system = SystemConfig.opened(
                store,
                broker={"name": name},
                context=context,
                secrets=secrets,
                clock=clock,
                services=Services(port_openers=openers, join_cluster=_joiner(network)),
            )
            undo.callback(system.close)
            HostFailures(system.broker)
            system.broker.add_listener(UserWatch(services.of, synthetic), below=True)
            opened = cls(system, network, services, ManagementQueues(services.of(system), synthetic), audit)
            # From here on `close` ends all this; `undo` serves only an opening that fails half way.
            undo.pop_all()
        return opened

    @property
    def broker(self) -> Broker:
        """The broker's managed object."""
        return self.system.broker

    def addresses(self) -> list[str]:
        """Return the addresses of the broker as URLs, port by port."""
        ports = [
            port for port in self.broker.children("port") if isinstance(port, Port)
        ]  # without ports of an unknown kind
        return [address for port in ports for address in port.addresses]

    def objects_in(self, state: State) -> list[ManagedObject]:
        """Return the objects in a state, in the order of the tree; ERRORED ones hold the reason."""
        found: list[ManagedObject] = []
        waiting: list[ManagedObject] = [self.broker]
        while waiting:
            each = waiting.pop(0)
            if each.state is state:
                found.append(each)
            # Children go to the front, so an object is followed by all below it, in the order of the tree.
            waiting[:0] = list(each.children())
        return found

    def close(self) -> None:
        """End connections, ports, virtual hosts, the network and the audit file, in this order.

        May be repeated. Does nothing in a child that was forked.
        """
        if self._is_parents:
            return
        with ExitStack() as ends:  # in reverse order; one that fails to end does not keep the others open
            ends.callback(self._audit.close)  # the last of all: a log-in that is under way still has its record
            ends.callback(self.network.stop)
            ends.callback(self.system.close)
            ends.callback(self._services.close)
            ends.callback(self._queues.close)

    def forget(self) -> None:
        """Mark the broker as the parent's, in a forked child: its threads do not exist here, so a close would wait for ever."""
        self._is_parents = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _joiner(network: NetworkService) -> JoinCluster:
    """Return what joins clusters. The first member imports SQLAlchemy: a broker may be in none."""

    def join(settings: ClusterSettings, clock: Clock, cancelled: Signal) -> JoinedCluster:
        from pyjms_provider.serving.cluster_links import start_member

        return start_member(settings, clock, network, cancelled)

    return join


def _http_opener(network: NetworkService, services: _ManagementServices) -> PortOpener:
    """Return the opener of ports for operators. The first one imports the modules that serve HTTP: a broker may have none."""

    def opener(port: ManagedObject) -> OpenPort:
        from pyjms_provider.management.console.pages import console_routes
        from pyjms_provider.serving.http_port import http_opener

        return http_opener(network, services.of, lambda _: console_routes())(port)

    return opener

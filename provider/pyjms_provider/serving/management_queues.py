"""Who answers the management queues of a broker: the whole broker's, and those of virtual hosts that want one."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Final
from uuid import UUID

from pyjms.spi.errors import ProviderError
from pyjms_provider.management.messages import MessageService
from pyjms_provider.model.life_cycle import State
from pyjms_provider.model.listeners import ConfigurationChangeListener
from pyjms_provider.model.virtual_host import VirtualHost
from pyjms_provider.serving.hosts import running_hosts

if TYPE_CHECKING:
    from pyjms_provider.broker import EmbeddedBroker
    from pyjms_provider.management.desk import Desk
    from pyjms_provider.model.managed import ManagedObject

__all__ = ["WANTED", "ManagementQueues"]

WANTED: Final = "pyjms.management.queue"
"""The context variable that is ``true`` where a virtual host is to have a management queue."""


class ManagementQueues(ConfigurationChangeListener):
    """Follows the virtual hosts as they come and go. A service ends by itself with its host."""

    def __init__(self, desk: Desk, synthetic: EmbeddedBroker) -> None:
        """`synthetic`: the running host ``$management``, whose queue is about the whole broker."""
        self._desk = desk
        self._synthetic = synthetic
        self._lock = Lock()
        self._services: dict[UUID, MessageService] = {}
        self._whole = MessageService(desk, synthetic)
        desk.system.add_listener(self, below=True)
        for host in running_hosts(desk.system):
            self._serve(host)

    def state_changed(self, managed: ManagedObject, old: State, new: State) -> None:
        """Serve a virtual host that begins to run, and forget one that runs no more: its service ends by itself."""
        if not isinstance(managed, VirtualHost):
            return
        if new is State.ACTIVE:
            self._serve(managed)
        else:
            with self._lock:
                self._services.pop(managed.id, None)

    def _serve(self, host: VirtualHost) -> None:
        if host.variable(WANTED) != "true":
            return
        try:
            service = MessageService(self._desk, host.embedded, host.names)
        except ProviderError:
            return  # it has stopped meanwhile
        with self._lock:
            before = self._services.pop(host.id, None)
            self._services[host.id] = service
        if before is not None:
            before.close()

    def close(self) -> None:
        """Take no more requests, and end the host ``$management``."""
        with self._lock:
            services = [*self._services.values(), self._whole]
            self._services = {}
        for service in services:
            service.close()
        self._synthetic.stop()

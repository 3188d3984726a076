"""The virtual hosts of a managed broker, as the connections of one port see them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms_provider.model.errors import WrongStateError
from pyjms_provider.model.life_cycle import State
from pyjms_provider.model.lookup import collect
from pyjms_provider.model.virtual_host import VirtualHost
from pyjms_provider.serving.embedded_host import EmbeddedHost

if TYPE_CHECKING:
    from pyjms_provider.broker import EmbeddedBroker
    from pyjms_provider.model.managed import ManagedObject
    from pyjms_provider.model.port import Port
    from pyjms_provider.protocols.stomp.server.hosts import ServedHost

__all__ = ["ManagedHosts", "check_hosts", "running_hosts"]


def running_hosts(root: ManagedObject) -> list[VirtualHost]:
    """Return the virtual hosts of a tree that run, in the order of their names."""
    return [each for each in collect(root, "virtual_host") if isinstance(each, VirtualHost) and each.is_running]


def check_hosts(port: Port) -> None:
    """Raise `WrongStateError` if all virtual hosts that there are failed to open: clients of failover would come here, and find nothing."""
    hosts = [each for each in collect(port.root, "virtual_host") if isinstance(each, VirtualHost)]
    if hosts and all(each.state is State.ERRORED for each in hosts):
        failed = "; ".join(f"{each.path} is in error" for each in hosts)
        raise WrongStateError(f"{failed}, so {port.path} would serve nobody; start that first, and then the port")


class ManagedHosts:
    """Implements `HostDirectory` for a port."""

    def __init__(self, port: Port, default_host: str, synthetic: EmbeddedBroker | None = None) -> None:
        """`synthetic`: a host that is not in the tree, found by its name alone."""
        self._port = port
        self._default = default_host
        self._synthetic = synthetic

    def find(self, name: str) -> ServedHost | None:
        """Return the virtual host of that name; if there is none, the default one, or the only one.

        Clients of other brokers name in `host` the machine that they connect to: that must not keep them out.
        """
        if self._synthetic is not None and name == self._synthetic.name:
            return EmbeddedHost(self._synthetic, self._port.access())
        hosts = {each.name: each for each in running_hosts(self._port.root)}
        found = hosts.get(name) or hosts.get(self._default)
        if found is None and len(hosts) == 1 and not self._default:
            found = next(iter(hosts.values()))
        return None if found is None else EmbeddedHost(found.embedded, self._port.access())

"""The virtual hosts of a managed broker, as the connections of one port see them."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from pyjms.spi.errors import ClosedError
from pyjms_provider.model.errors import WrongStateError
from pyjms_provider.model.life_cycle import State
from pyjms_provider.model.lookup import collect
from pyjms_provider.model.managed import ConfigurationChangeListener
from pyjms_provider.model.port import StompPort
from pyjms_provider.model.virtual_host import VirtualHost
from pyjms_provider.serving.embedded_host import EmbeddedHost

if TYPE_CHECKING:
    from pyjms_provider.broker import EmbeddedBroker
    from pyjms_provider.model.managed import ManagedObject
    from pyjms_provider.model.port import Port
    from pyjms_provider.protocols.stomp.server.hosts import ServedHost

__all__ = ["HostFailures", "ManagedHosts", "check_hosts", "running_hosts"]


def running_hosts(root: ManagedObject) -> list[VirtualHost]:
    """Return the virtual hosts of a tree that run, in the order of their names."""
    return [each for each in _all_hosts(root) if each.is_running]


def _all_hosts(root: ManagedObject) -> list[VirtualHost]:
    return [each for each in collect(root, "virtual_host") if isinstance(each, VirtualHost)]


def check_hosts(port: Port) -> None:
    """Raise `WrongStateError` if all virtual hosts that there are have failed: clients of failover would come here, and find nothing."""
    hosts = _all_hosts(port.root)
    if hosts and all(each.state is State.ERRORED for each in hosts):
        failed = "; ".join(f"{each.path} is in error" for each in hosts)
        raise WrongStateError(f"{failed}, so {port.path} would serve nobody; start that first, and then the port")


class HostFailures(ConfigurationChangeListener):
    """Closes ports of clients when the last virtual host behind them has failed: it has lost its store to another broker, say."""

    def __init__(self, root: ManagedObject) -> None:
        root.add_listener(self, below=True)
        self._look(root)  # one may have failed just before

    def state_changed(self, managed: ManagedObject, old: State, new: State) -> None:
        if isinstance(managed, VirtualHost) and new is State.ERRORED:
            self._look(managed.root)

    def _look(self, root: ManagedObject) -> None:
        for port in collect(root, "port"):
            if isinstance(port, StompPort):
                with suppress(ClosedError):  # the broker ends, and its ports with it
                    port.configuration_thread.submit(partial(_close_if_in_vain, port))


def _close_if_in_vain(port: StompPort) -> None:
    try:
        check_hosts(port)
    except WrongStateError as error:
        port.give_up(error)


class ManagedHosts:
    """Implements `HostDirectory` for a port."""

    def __init__(self, port: Port, default_host: str, synthetic: EmbeddedBroker | None = None) -> None:
        """`synthetic`: a host that is not in the tree, found by its name alone."""
        self._port = port
        self._default = default_host
        self._synthetic = synthetic

    def find(self, name: str) -> ServedHost | None:
        """Return the virtual host of that name; if there is none, the default one, or the only one. None if that does not run.

        Clients of other brokers name in `host` the machine that they connect to: that must not keep them out. But who belongs to a
        host that does not run just now is not to be led to another one.
        """
        if self._synthetic is not None and name == self._synthetic.name:
            return EmbeddedHost(self._synthetic, self._port.access(), self._port.id)
        hosts = {each.name: each for each in _all_hosts(self._port.root)}
        found = hosts.get(name) or hosts.get(self._default)
        if found is None and len(hosts) == 1 and not self._default:
            found = next(iter(hosts.values()))
        if found is None:
            return None
        try:
            return EmbeddedHost(found.embedded, self._port.access(), self._port.id)
        except WrongStateError:
            return None

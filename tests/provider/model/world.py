"""What the tests of the model share: a broker in a folder, with ports that only pretend to listen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyjms.spi.errors import ResourceError
from pyjms_provider.model.broker import SystemConfig
from pyjms_provider.model.configuration.toml_file import TomlConfigurationStore
from pyjms_provider.model.contracts import Services
from pyjms_provider.model.managed import ConfigurationChangeListener, ManagedObject
from pyjms_provider.model.virtual_host import VirtualHost
from pyjms_provider.security.secrets import SecretBox
from pyjms_provider.stores.configuration_contract import ConfigurationStore
from pyjms_provider.transport.settings import TlsSettings


@dataclass
class PretendedPort:
    """A port that is open in name only."""

    addresses: tuple[str, ...]
    connections: int = 0
    is_closed: bool = False

    def reload_certificates(self, tls: TlsSettings) -> None:
        """Do nothing."""

    def close(self, *, lingers: bool = False) -> None:
        self.is_closed = True


@dataclass
class Folder:
    """A broker whose configuration is in a folder; it can be opened again."""

    path: Path
    opened: list[PretendedPort] = field(default_factory=list)
    refuses_ports: bool = False
    make_store: Callable[[], ConfigurationStore] | None = None
    system: SystemConfig | None = None

    def open(self, **choices: Any) -> SystemConfig:
        self.close()
        store = TomlConfigurationStore(self.path / "broker.toml") if self.make_store is None else self.make_store()
        self.system = SystemConfig.opened(
            store,
            broker={"name": "shop"},
            context={"pyjms.work_dir": str(self.path), **choices.pop("context", {})},
            secrets=SecretBox.open(self.path / "broker.key"),
            services=Services(port_openers={"stomp": self._open_port, "http": self._open_port}),
            **choices,
        )
        return self.system

    def _open_port(self, port: ManagedObject) -> PretendedPort:
        if self.refuses_ports:
            raise ResourceError("the address is in use; choose another")
        self.opened.append(PretendedPort((f"pretended://{port.name}",)))
        return self.opened[-1]

    def close(self) -> None:
        if self.system is not None:
            self.system.close()

    def host(self, *, stored: bool = False, node: str = "json", **attributes: Any) -> VirtualHost:
        """Make a virtual host ``main/shop``."""
        assert self.system is not None
        above = self.system.broker.create_child("virtual_host_node", {"name": "main", "type": node})
        url = {"store_url": f"sqlite:///{self.path}/messages.db"} if stored else {}
        made = above.create_child("virtual_host", {"name": "shop", **url, **attributes})
        assert isinstance(made, VirtualHost)
        return made

    def found_host(self) -> VirtualHost:
        """Return the host that `host` made, after the broker was opened again."""
        assert self.system is not None
        found = self.system.broker.child("virtual_host_node", "main").child("virtual_host", "shop")
        assert isinstance(found, VirtualHost)
        return found


class Recorder(ConfigurationChangeListener):
    """Remembers what it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, ...]] = []

    def state_changed(self, managed: ManagedObject, old: Any, new: Any) -> None:
        self.heard.append(("state", managed.name, old.value, new.value))

    def attributes_changed(self, managed: ManagedObject, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        changed = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
        self.heard.append(("attributes", managed.name, *changed))

    def child_added(self, parent: ManagedObject, child: ManagedObject) -> None:
        self.heard.append(("added", parent.name, child.name))

    def child_removed(self, parent: ManagedObject, child: ManagedObject) -> None:
        self.heard.append(("removed", parent.name, child.name))

"""Virtual host nodes: where the configuration of a virtual host is kept (Broker-J `VirtualHostNode`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyjms_provider.model.attributes import Attributes, Secret, attribute, with_password
from pyjms_provider.model.configuration.writer import MemoryConfigurationStore
from pyjms_provider.model.configured import ManagingObject
from pyjms_provider.model.managed import observed_id
from pyjms_provider.security.secrets import SecretBox
from pyjms_provider.stores.configuration_contract import ObjectRecord

if TYPE_CHECKING:
    from pyjms_provider.model.managed import ManagedObject
    from pyjms_provider.stores.configuration_contract import ConfigurationStore

_HOST: Final = "virtual_host"


class NodeAttributes(Attributes):
    """The attributes of any node."""

    host: dict[str, Any] = attribute(
        "The attributes of the virtual host that is opened where the node keeps none; its name is the node's, unless they say another. "
        "Without passwords: an SQL driver has places of its own for those, as .pgpass.",
        default={},
    )


class VirtualHostNode(ManagingObject):
    """A node of any type."""

    category = "virtual_host_node"
    attributes_class = NodeAttributes

    def _validate(self, new: Attributes, old: Attributes | None) -> None:
        assert isinstance(new, NodeAttributes)
        if any("password" in name for name in new.host):
            raise self._wrong("host", "holds a password, which would be seen; leave it to the driver of the store")

    def given_host(self) -> ObjectRecord | None:
        """Return the record of the virtual host that its attributes describe; None: they describe none."""
        given = self.snapshot.record.attributes.get("host")
        if not given:
            return None
        # With its variables as they were written: they are those of the virtual host.
        return ObjectRecord(
            id=observed_id(self, _HOST, self.name),
            category=_HOST,
            parent=self.id,
            attributes={"name": self.name, "type": "standard", **given},
            source=self.snapshot.record.source,
        )

    def _open_pending(self) -> None:
        given = self.given_host()
        if given is not None and not any(each.category == _HOST for each in self.pending):
            self.pending = (*self.pending, given)
        super()._open_pending()


class MemoryNode(VirtualHostNode):
    """Keeps its virtual host in memory until the process ends; a stop and a new start preserve it."""

    def __init__(self, parent: ManagedObject | None, record: ObjectRecord) -> None:
        super().__init__(parent, record)
        self._remembered = MemoryConfigurationStore()

    def _make_store(self) -> tuple[ConfigurationStore, SecretBox | None]:
        return self._remembered, None


class JsonNodeAttributes(NodeAttributes):
    """The attributes of a node with a JSON file."""

    path: str = attribute(
        "The file; it is made when it is missing.",
        default="${pyjms.work_dir}/${this:name}.json",
        mutable=False,
        min_length=1,
    )


class JsonNode(VirtualHostNode):
    """Keeps the configuration in a JSON file."""

    attributes_class = JsonNodeAttributes

    def _make_store(self) -> tuple[ConfigurationStore, SecretBox | None]:
        from pyjms_provider.model.configuration.json_file import JsonConfigurationStore

        found = self.attributes
        assert isinstance(found, JsonNodeAttributes)
        path = Path(found.path)
        # The file's folder is made here, as the store itself makes only the file.
        path.parent.mkdir(parents=True, exist_ok=True)
        return JsonConfigurationStore(path), SecretBox.open(f"{path}.key")


class StoreNodeAttributes(NodeAttributes):
    """The attributes of a node with a store of any kind."""

    url: str = attribute("The store, as a URL without a password: its scheme says which.", mutable=False, min_length=1)
    password: Secret | None = attribute("The password for the store.", default=None, secure=True)
    key_file: str = attribute(
        "Where the key is that encrypts secrets in the store.",
        default="${pyjms.work_dir}/${this:name}.key",
        mutable=False,
        min_length=1,
    )


class StoreNode(VirtualHostNode):
    """Keeps the configuration in a store: with the type `sql` in a database that a SQLAlchemy URL names, otherwise in a store of another package."""

    attributes_class = StoreNodeAttributes

    def _validate(self, new: Attributes, old: Attributes | None) -> None:
        super()._validate(new, old)
        assert isinstance(new, StoreNodeAttributes)
        self._check_shown("url", new.url, "password")

    def _make_store(self) -> tuple[ConfigurationStore, SecretBox | None]:
        found = self.attributes
        assert isinstance(found, StoreNodeAttributes)
        return self._store_at(with_password(found.url, found.password)), _secrets(found.key_file)

    def _store_at(self, url: str) -> ConfigurationStore:
        """Return the store that a URL names, which is not open yet. Raises `UrlError`, `UnsupportedStoreError`."""
        if self.type == "sql":
            # Imported here: SQLAlchemy is in an extra that other nodes do not need.
            from pyjms_provider.stores.sql.configuration import SqlConfigurationStore

            return SqlConfigurationStore(url, self.clock)
        from pyjms_provider.stores.opening import configuration_store

        return configuration_store(url, self.clock)


def _secrets(key_file: str) -> SecretBox:
    path = Path(key_file)
    path.parent.mkdir(parents=True, exist_ok=True)
    return SecretBox.open(path)

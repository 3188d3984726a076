"""Which virtual hosts a port serves; one that would serve none, as they could not be opened, is not opened itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyjms_provider.model.configuration.toml_file import TomlConfigurationStore
from pyjms_provider.model.errors import FailedOpeningError
from pyjms_provider.model.life_cycle import State
from pyjms_provider.model.port import StompPort
from pyjms_provider.model.virtual_host import VirtualHost
from pyjms_provider.serving.served_broker import ServedBroker
from pyjms_provider.stores.sql.file_lock import FileLock


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "shop.db"


def opened(folder: Path) -> ServedBroker:
    return ServedBroker.open(TomlConfigurationStore(folder / "broker.toml"), context={"pyjms.work_dir": str(folder)})


@pytest.fixture
def folder(tmp_path: Path, store: Path) -> Path:
    """Where a broker is configured that has one virtual host with a store."""
    with opened(tmp_path) as served:
        top = served.broker
        top.create_child("authentication_provider", {"name": "who", "type": "anonymous"})
        top.create_child("access_control", {"name": "access", "rules": [{"effect": "allow", "who": "*"}]})
        node = top.create_child("virtual_host_node", {"name": "shop", "type": "json"})
        node.create_child("virtual_host", {"name": "shop", "store_url": f"sqlite:///{store}"})
        chosen = {"transports": ["tcp"], "authentication_providers": ["who"], "access_control": "access"}
        top.create_child("port", {"name": "stomp", "type": "stomp", "host": "127.0.0.1", "port": 0, **chosen})
    return tmp_path


def test_no_port_opens_over_a_host_that_could_not_take_its_store(folder: Path, store: Path) -> None:
    lock = FileLock(f"{store}.lock", "another broker")
    lock.acquire()
    with opened(folder) as served:
        (host,) = [each for each in served.objects_in(State.ERRORED) if isinstance(each, VirtualHost)]
        (port,) = [each for each in served.objects_in(State.ERRORED) if isinstance(each, StompPort)]
        assert served.addresses() == []
        assert "virtual_host" in str(port.snapshot.error)
        with pytest.raises(FailedOpeningError, match="would serve nobody"):
            port.start()
        lock.release()
        host.start()
        port.start()
        assert len(served.addresses()) == 1

"""The contract of configuration stores, on all bundled ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pyjms_provider.model.configuration.json_file import JsonConfigurationStore
from pyjms_provider.model.configuration.toml_file import TomlConfigurationStore
from pyjms_provider.model.configuration.writer import MemoryConfigurationStore
from pyjms_provider.stores.configuration_contract import ConfigurationStore
from pyjms_provider.stores.errors import HeldStoreError
from pyjms_provider.stores.sql.configuration import SqlConfigurationStore
from pyjms_provider.stores.testing import ConfigurationHome
from pyjms_provider.stores.testing.configuration_suite import *  # noqa: F403 - the suite is taken over as a whole
from tests.needs.declaring import needing
from tests.provider.postgresql import PostgresqlServer

pytestmark = pytest.mark.realises("BJ-CFG-2", "BJ-ST-1", "BJ-ST-2", "BJ-ST-6", "BJ-MOD-3")


@pytest.fixture(params=["memory", "json", "toml", "sqlite", needing("postgresql")])
def configuration_home(request: pytest.FixtureRequest, tmp_path: Path) -> ConfigurationHome:
    return ConfigurationHome(_maker(request, tmp_path))


def _maker(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], ConfigurationStore]:
    match request.param:
        case "memory":
            memory = MemoryConfigurationStore()
            return lambda: memory
        case "json":
            return lambda: JsonConfigurationStore(tmp_path / "host.json")
        case "toml":
            return lambda: TomlConfigurationStore(tmp_path / "broker.toml")
        case "sqlite":
            return lambda: SqlConfigurationStore(f"sqlite:///{tmp_path}/broker.db")
        case _:
            server: PostgresqlServer = request.getfixturevalue("postgresql")
            url = server.make_store()
            return lambda: SqlConfigurationStore(url)


def test_who_finds_it_held_is_told_what_to_do(configuration_home: ConfigurationHome) -> None:
    configuration_home.make().open("test")
    with pytest.raises(HeldStoreError, match=r"is held by .*test.*; (stop|close) that first"):
        configuration_home.make().open("other")
    configuration_home.close()

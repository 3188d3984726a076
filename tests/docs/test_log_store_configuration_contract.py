"""The contract of configuration stores, on the example of the guide to stores."""

from pathlib import Path

import pytest

from pyjms_provider.stores.testing import ConfigurationHome
from pyjms_provider.stores.testing.configuration_suite import *  # noqa: F403 - the suite is taken over as a whole
from tests.docs.log_store import log_store

pytestmark = pytest.mark.realises("BJ-ST-6")


@pytest.fixture
def configuration_home(tmp_path: Path) -> ConfigurationHome:
    return ConfigurationHome(lambda: log_store.LogStore().configuration_store(f"log://{tmp_path}/shop"))

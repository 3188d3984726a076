"""The contract of journals, on a file of SQLite."""

from pathlib import Path

import pytest

from pyjms.spi.clock import SystemClock
from pyjms_provider.settings import StoreSettings
from pyjms_provider.stores.sql import open_journal
from pyjms_provider.stores.testing import JournalHome
from pyjms_provider.stores.testing.suite import *  # noqa: F403 - the suite is taken over as a whole

pytestmark = pytest.mark.realises("BJ-ST-1", "BJ-ST-4", "JBM-4")


@pytest.fixture
def journal_home(tmp_path: Path) -> JournalHome:
    settings = StoreSettings(url=f"sqlite:///{tmp_path / 'store.db'}")
    return JournalHome(lambda holder: open_journal(settings, holder, SystemClock()))

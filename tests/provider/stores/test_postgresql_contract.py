"""The contract of journals, on PostgreSQL."""

import pytest

from pyjms.spi.clock import SystemClock
from pyjms_provider.settings import StoreSettings
from pyjms_provider.stores.sql import open_journal
from pyjms_provider.stores.testing import JournalHome
from pyjms_provider.stores.testing.suite import *  # noqa: F403 - the suite is taken over as a whole
from tests.provider.postgresql import PostgresqlServer

pytestmark = pytest.mark.realises("BJ-ST-1", "BJ-ST-5", "JBM-4")


@pytest.fixture
def journal_home(postgresql: PostgresqlServer) -> JournalHome:
    settings = StoreSettings(url=postgresql.make_store())
    return JournalHome(lambda holder: open_journal(settings, holder, SystemClock()))

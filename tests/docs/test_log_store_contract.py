"""The contract of journals, on the example of the guide to stores."""

from pathlib import Path

import pytest

from pyjms.spi.clock import Signal, SystemClock
from pyjms_provider.core.journal.journal import Journal
from pyjms_provider.settings import StoreSettings
from pyjms_provider.stores.contract import StoreRequest
from pyjms_provider.stores.testing import JournalHome
from pyjms_provider.stores.testing.suite import *  # noqa: F403 - the suite is taken over as a whole
from tests.docs.log_store import log_store

pytestmark = pytest.mark.realises("BJ-ST-6")


@pytest.fixture
def journal_home(tmp_path: Path) -> JournalHome:
    settings = StoreSettings(url=f"log://{tmp_path}/shop")

    def opened(holder: str) -> Journal:
        request = StoreRequest(
            settings=settings, holder=holder, clock=SystemClock(), on_lost=lambda _: None, cancelled=Signal()
        )
        journal: Journal = log_store.LogStore().open_journal(request)
        return journal

    return JournalHome(opened)

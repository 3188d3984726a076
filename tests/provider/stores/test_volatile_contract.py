"""The contract of journals, on the journal in memory."""

import pytest

from pyjms_provider.stores.testing import JournalHome
from pyjms_provider.stores.testing.suite import *  # noqa: F403 - the suite is taken over as a whole
from pyjms_provider.stores.volatile import Medium, VolatileJournal

pytestmark = pytest.mark.realises("BJ-ST-6", "JBM-4")


@pytest.fixture
def journal_home() -> JournalHome:
    medium = Medium()
    return JournalHome(lambda holder: VolatileJournal(medium, holder=holder))

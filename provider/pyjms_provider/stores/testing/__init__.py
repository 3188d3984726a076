"""The contracts of stores as tests, for authors of stores. The bundled stores pass the same tests.

A ``conftest.py`` defines how a store is opened, and one test module per contract imports a suite::

    # conftest.py
    import pytest
    from pyjms_provider.stores.testing import ConfigurationHome, JournalHome


    @pytest.fixture
    def journal_home(tmp_path):
        return JournalHome(lambda holder: MyJournal(tmp_path / "store", holder))


    @pytest.fixture
    def configuration_home(tmp_path):
        return ConfigurationHome(lambda: MyConfigurationStore(tmp_path / "store"))


    # test_my_journal.py
    from pyjms_provider.stores.testing.suite import *  # noqa: F403

    # test_my_configuration_store.py
    from pyjms_provider.stores.testing.configuration_suite import *  # noqa: F403

The suites need pytest. They open stores one after the other at the same location, empty at the beginning of each test, all in one
process. Authors must test further requirements themselves (the authors' guide lists them).
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyjms_provider.core.journal.journal import Journal
from pyjms_provider.stores.configuration_contract import ConfigurationStore

__all__ = ["ConfigurationHome", "JournalHome"]

pytest.register_assert_rewrite(
    "pyjms_provider.stores.testing.suite",
    "pyjms_provider.stores.testing.configuration_suite",
)


class JournalHome:
    """An empty location for the journals of one test."""

    def __init__(self, open_journal: Callable[[str], Journal]) -> None:
        """`open_journal` opens the journal at this location for a holder of the given name, without `recover`."""
        self._open = open_journal
        self._journals: list[Journal] = []

    def open(self, holder: str = "the suite") -> Journal:
        """Open the journal."""
        journal = self._open(holder)
        self._journals.append(journal)
        return journal

    def close(self) -> None:
        """Close the journals that a test has left open."""
        for journal in self._journals:
            journal.close(clean=False)


class ConfigurationHome:
    """An empty location for the configuration of one test."""

    def __init__(self, make_store: Callable[[], ConfigurationStore]) -> None:
        """`make_store` returns an unopened store at this location; if the store is not lasting, the same object each time."""
        self._make = make_store
        self._stores: list[ConfigurationStore] = []

    def make(self) -> ConfigurationStore:
        """Return an unopened store."""
        store = self._make()
        self._stores.append(store)
        return store

    def close(self) -> None:
        """Close the stores that a test has left open."""
        for store in self._stores:
            store.close()

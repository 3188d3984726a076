"""The contracts of stores as tests, for authors of stores: the same that the bundled stores pass.

A ``conftest.py`` says how a store is opened, and a test module for each contract takes a suite over::

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

The suites need pytest. They open stores one after the other on the same place, and each test on an empty one, all in one process: what a
store has to show besides, its author shows by tests of its own (the authors' guide lists it).
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
    """One empty place where journals are kept, for one test."""

    def __init__(self, open_journal: Callable[[str], Journal]) -> None:
        """`open_journal` opens the journal that is kept there, for the holder of that name; it is not yet recovered."""
        self._open = open_journal
        self._journals: list[Journal] = []

    def open(self, holder: str = "the suite") -> Journal:
        """Open the journal."""
        journal = self._open(holder)
        self._journals.append(journal)
        return journal

    def close(self) -> None:
        """Close what a test has left open."""
        for journal in self._journals:
            journal.close(clean=False)


class ConfigurationHome:
    """One empty place where a configuration is kept, for one test."""

    def __init__(self, make_store: Callable[[], ConfigurationStore]) -> None:
        """`make_store` returns a store of what is kept there, which is not open; one that is not lasting: the same each time."""
        self._make = make_store
        self._stores: list[ConfigurationStore] = []

    def make(self) -> ConfigurationStore:
        """Return a store that is not open."""
        store = self._make()
        self._stores.append(store)
        return store

    def close(self) -> None:
        """Close what a test has left open."""
        for store in self._stores:
            store.close()

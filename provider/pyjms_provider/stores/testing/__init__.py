"""The contract of journals as tests, for authors of stores: the same that the bundled stores pass.

A ``conftest.py`` says how a journal is opened, and a test module takes the suite over::

    # conftest.py
    import pytest
    from pyjms_provider.stores.testing import JournalHome


    @pytest.fixture
    def journal_home(tmp_path):
        return JournalHome(lambda holder: MyJournal(tmp_path / "store", holder))


    # test_my_journal.py
    from pyjms_provider.stores.testing.suite import *  # noqa: F403

The suite needs pytest. It opens journals one after the other on the same place, and each test on an empty one.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyjms_provider.core.journal import Journal

__all__ = ["JournalHome"]

pytest.register_assert_rewrite("pyjms_provider.stores.testing.suite")


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

"""What pyjms says its version is."""

from __future__ import annotations

from importlib import metadata

import pytest

from pyjms.spi.words import installed_version


def test_the_version_is_that_of_what_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the name of the distribution: another project of the index is called pyjms."""
    monkeypatch.setattr(metadata, "version", {"pyjms-messaging": "7.1"}.__getitem__)
    assert installed_version() == "7.1"


def test_a_source_tree_that_is_not_installed_has_version_0(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_none(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", find_none)
    assert installed_version() == "0"

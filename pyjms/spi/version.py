"""Which version of pyjms this is: what a broker, a client and a report say of themselves."""

from __future__ import annotations

from typing import Final

__all__ = ["DISTRIBUTION", "installed_version"]

DISTRIBUTION: Final = "pyjms-messaging"
"""The name by which pip knows pyjms: the package index has another project of the name ``pyjms``."""


def installed_version() -> str:
    """Return the version of pyjms that is installed; "0" when it runs from a source tree that is not. Looks on the disk."""
    from importlib import metadata  # takes long to import

    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return "0"

"""Which version of pyjms this is: what a broker, a client and a report say of themselves."""

from __future__ import annotations

from importlib import metadata

__all__ = ["installed_version"]


def installed_version() -> str:
    """Return the version of pyjms that is installed; "0" when it runs from a source tree that is not. Looks on the disk."""
    try:
        return metadata.version("pyjms")
    except metadata.PackageNotFoundError:
        return "0"

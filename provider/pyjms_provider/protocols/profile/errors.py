"""The error in what the other side said."""

from __future__ import annotations

from pyjms.spi.errors import ProviderError


class CommandError(ProviderError):
    """A command, or its answer, lacks a header, or has one that is wrong. The text quotes no value of a header."""

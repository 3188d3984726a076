"""What is wanted of a store that is opened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlalchemy import URL

    from pyjms.spi.clock import Clock, Signal
    from pyjms_provider.settings import Synchronous

__all__ = ["Wanted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which store a broker wants, and how."""

    url: URL
    holder: str
    """The broker's name."""
    clock: Clock
    synchronous: Synchronous
    waits: bool
    """Whether to wait while another broker holds it."""
    cancelled: Signal | None
    """What ends that wait; None: nothing."""
    is_shared: bool
    """Whether tables of others may stand beside its own."""
    keep_free_bytes: int
    """How much of its disk is left for acknowledgements; a server's disk is the server's."""

"""Waiting for a store that another broker holds."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from pyjms.spi.clock import Signal
from pyjms.spi.errors import ClosedError
from pyjms_provider.stores.errors import HeldStoreError, UnavailableStoreError

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock
    from pyjms_provider.stores.errors import StoreError

__all__ = ["HOW_TO_STAND_BY", "RETRY_MS", "Waiting", "acquire"]

_T = TypeVar("_T")

_log = logging.getLogger(__name__)

HOW_TO_STAND_BY: Final = (
    'stop it, or have this broker take over when it ends: stand_by=wait in a vm:// URL, `stand_by = "wait"` of a virtual host, '
    "--stand-by of `pyjms broker run`"
)
"""What the error says whose reader finds a store held."""
RETRY_MS: Final = 200
"""How long a stand-by broker waits before it looks again whether the store is free."""


class Waiting(Protocol):
    """Whether a broker waits for a store, and how."""

    @property
    def clock(self) -> Clock:
        """The time."""

    @property
    def waits(self) -> bool:
        """Whether to wait while another broker holds it."""

    @property
    def cancelled(self) -> Signal | None:
        """What ends that wait; None: nothing."""


def acquire(take: Callable[[], _T], wanted: Waiting) -> _T:
    """Return what `take` returns, called until it raises `HeldStoreError` no more, or once if it may not wait.

    Who has found the store held goes on waiting while its server is away, which is when the holder may lose it. At first that is
    an error: the URL may be wrong. Raises the errors of `take`, and `ClosedError` when the wait was `cancelled`.
    """
    last: type[StoreError] | None = None
    signal, clock = wanted.cancelled or Signal(), wanted.clock
    while True:
        try:
            return take()
        except (HeldStoreError, UnavailableStoreError) as error:
            if not wanted.waits or (last is None and isinstance(error, UnavailableStoreError)):
                raise
            if last is not type(error):
                _log.info("PYJMS-STORE-5 waiting to take over: %s", error.reason.partition("; ")[0])
            last = type(error)
        if clock.wait(signal, clock.monotonic_ms() + RETRY_MS):
            raise ClosedError("the wait for the store was cancelled")

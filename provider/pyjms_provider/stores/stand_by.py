"""Waiting for a store that another broker holds."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from pyjms.spi.clock import Signal
from pyjms.spi.errors import ClosedError
from pyjms_provider.stores.errors import HeldStoreError, ReadOnlyStoreError, UnavailableStoreError

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock
    from pyjms_provider.stores.errors import StoreError

__all__ = ["HOW_TO_STAND_BY", "RETRY_MS", "acquire"]

_T = TypeVar("_T")

_log = logging.getLogger(__name__)

HOW_TO_STAND_BY: Final = (
    'stop it, or have this broker take over when it ends: stand_by=wait in a vm:// URL, `stand_by = "wait"` of a virtual host, '
    "--stand-by of `pyjms broker run`"
)
"""What the error says whose reader finds a store held."""
RETRY_MS: Final = 200
"""How long a stand-by broker waits before it looks again whether the store is free."""


def acquire(take: Callable[[], _T], clock: Clock, *, waits: bool = True, cancelled: Signal | None = None) -> _T:
    """Return what `take` returns, called until it raises `HeldStoreError` no more, or once if not `waits`.

    Who has found the store held goes on waiting while its server is away, which is when the holder may lose it. At first that is
    an error: the URL may be wrong. A server that takes no writes is waited for: it is there, and may be about to fail over. Raises the errors of `take`, and `ClosedError` when the wait was `cancelled`; None: nothing ends it.
    """
    told: set[type[StoreError]] = set()
    signal = cancelled or Signal()
    while True:
        try:
            return take()
        except (HeldStoreError, UnavailableStoreError) as error:
            is_away = isinstance(error, UnavailableStoreError) and not isinstance(error, ReadOnlyStoreError)
            if not waits or (not told and is_away):
                raise
            if type(error) not in told:
                level = logging.WARNING if isinstance(error, ReadOnlyStoreError) else logging.INFO
                _log.log(level, "PYJMS-STORE-5 waiting to take over: %s", error.reason.partition("; ")[0])
            told.add(type(error))
        if clock.wait(signal, clock.monotonic_ms() + RETRY_MS):
            raise ClosedError("the wait for the store was cancelled")

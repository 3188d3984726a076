"""Waiting for a store that another broker holds."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from pyjms.spi.errors import ClosedError
from pyjms_provider.stores.errors import HeldStoreError

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock, Signal

__all__ = ["RETRY_MS", "acquire"]

_log = logging.getLogger(__name__)

RETRY_MS: Final = 200
"""How long a stand-by broker waits before it looks again whether the store is free."""


def acquire(take: Callable[[], None], clock: Clock, *, waits: bool, cancelled: Signal | None) -> None:
    """Call `take` until it raises `HeldStoreError` no more, or once if it may not wait.

    Raises `HeldStoreError` of the one attempt, and `ClosedError` when the wait was `cancelled`.
    """
    from pyjms.spi.clock import Signal

    is_first = True
    signal = cancelled or Signal()
    while True:
        try:
            return take()
        except HeldStoreError as error:
            if not waits:
                raise
            if is_first:
                _log.info("PYJMS-STORE-5 waiting to take over: %s", error.reason)
            is_first = False
        if clock.wait(signal, clock.monotonic_ms() + RETRY_MS):
            raise ClosedError("the wait for the store was cancelled")

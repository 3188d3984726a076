"""From the settings of a store to its journal; imports what that store needs, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyjms.spi.errors import MissingProviderError

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock, Signal
    from pyjms.spi.errors import ProviderError
    from pyjms_provider.core.journal import Journal
    from pyjms_provider.settings import StoreSettings

__all__ = ["open_store"]


def open_store(
    settings: StoreSettings,
    holder: str,
    clock: Clock,
    *,
    on_lost: Callable[[ProviderError], None],
    cancelled: Signal | None = None,
) -> Journal:
    """Open the journal that `settings` names, for a broker called `holder`.

    `on_lost` is told, once and from any thread, when the journal has got another holder or is gone for good; `cancelled`
    ends the wait of a stand-by broker. Raises `MissingProviderError`, `UrlError`, `ResourceError`.
    """
    try:
        from pyjms_provider.stores.sql import open_journal
    except ModuleNotFoundError as error:
        raise MissingProviderError(f"store= needs {error.name}; install it with: pip install 'pyjms[store]'") from error
    return open_journal(settings, holder, clock, on_lost=on_lost, cancelled=cancelled)

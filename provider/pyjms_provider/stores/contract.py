"""The contract of store plug-ins of other packages, for ``vm://NAME?store=URL`` and for served brokers.

A package registers its store as an entry point of the group ``pyjms.stores``. The name of the entry point is the scheme of the
store's URLs; its object is a class that implements `StoreOpener` and is constructed without arguments. The package is imported
when a URL of its scheme is first used. The schemes of the bundled stores, ``sqlite`` and ``postgresql+psycopg``, are never looked up.

A plug-in provides a `Journal`, and also a `ConfigurationStore` if it can store the configuration of virtual hosts.
`pyjms_provider.stores.testing` has both contracts as tests.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from pyjms_provider.core.journal.journal import Journal
from pyjms_provider.settings import StandBy, StoreSettings
from pyjms_provider.stores.configuration_contract import ConfigurationStore
from pyjms_provider.stores.errors import UnsupportedStoreError
from pyjms_provider.stores.file_lock import acquire

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock, Signal
    from pyjms.spi.errors import ProviderError

__all__ = ["ENTRY_POINT_GROUP", "StoreOpener", "StoreRequest"]

ENTRY_POINT_GROUP = "pyjms.stores"

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRequest:
    """A broker's request to open the store of its messages."""

    settings: StoreSettings
    """The URL and the options. The URL may contain a password: never put it into an error or a log unchanged.

    `synchronous` and `acknowledge` define what ``force`` of `Journal.write` guarantees; a store may guarantee more, and refuses a
    level that it does not support with `UnsupportedStoreError`. `acquire` implements `stand_by`, and the broker `memory_bytes`.
    """
    holder: str
    """The broker's name."""
    clock: Clock
    """The clock of all waits and expirations."""
    on_lost: Callable[[ProviderError], None]
    """To be called once, from any thread, when another broker holds the store, or may hold it. It never blocks."""
    cancelled: Signal
    """The signal that ends the wait of a stand-by broker."""

    @property
    def waits(self) -> bool:
        """Whether to wait while another broker holds the store."""
        return self.settings.stand_by is StandBy.WAIT

    def acquire(self, take: Callable[[], _T]) -> _T:
        """Call `take`, which locks the store or raises a `HeldStoreError` that names the holder, and return its result.

        For a stand-by broker `take` is called repeatedly until the store is free; the wait goes on when it raises
        `UnavailableStoreError` in the meantime. Raises the errors of `take`, and `ClosedError` when the wait is cancelled.
        """
        return acquire(take, self.clock, waits=self.waits, cancelled=self.cancelled)


class StoreOpener(ABC):
    """Opens the stores of one URL scheme. Constructed without arguments; called by any thread, also by several at once."""

    @abstractmethod
    def open_journal(self, request: StoreRequest) -> Journal:
        """Open the journal at a URL for one broker, and create it if it does not exist; `recover` is called next.

        May wait for the disk, a server, and another holder (`StoreRequest.acquire`). Raises `UrlError`, and `StoreError`:
        `UnsupportedStoreError`, `UnusableStoreError`, `HeldStoreError`, `ForeignStoreError`, `NewerStoreError`,
        `DamagedStoreError`. Each error says what to do.
        """

    def configuration_store(self, url: str) -> ConfigurationStore:
        """Return the configuration store at a URL, not opened yet. Raises `UrlError`, `UnsupportedStoreError`.

        A journal may be open at the same URL. The default raises `UnsupportedStoreError`.
        """
        raise UnsupportedStoreError(
            "this store keeps messages, and no configuration; name another one for that, as a json file or a database"
        )

"""The contract of stores that come in other packages than this one, for ``vm://NAME?store=URL`` and for served brokers.

A package names its store in an entry point of the group ``pyjms.stores``: the entry point's name is the scheme of the
store's URLs, and its object a class that implements `StoreOpener` and is made without arguments. It is imported when a URL of
its scheme is first used. The schemes of the bundled stores, ``sqlite`` and ``postgresql+psycopg``, are never looked up.

What is behind such a URL is a `Journal`, and a `ConfigurationStore` if the store can keep the configuration of virtual hosts,
too. `pyjms_provider.stores.testing` has both contracts as tests.
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
    """What a broker wants of the store that keeps its messages."""

    settings: StoreSettings
    """The URL, and how carefully it is to be kept. The URL may hold a password: never put it into an error or a log as it is.

    `synchronous` and `acknowledge` say what ``force`` of `Journal.write` comes to; a store may do more than is asked for, and
    refuses with `UnsupportedStoreError` what it cannot do. `stand_by` is done by `acquire`, `memory_bytes` by the broker.
    """
    holder: str
    """The broker's name."""
    clock: Clock
    """The time, by which whatever waits or expires goes."""
    on_lost: Callable[[ProviderError], None]
    """To be told, once and from any thread, when another broker holds the store now, or may. Never waits."""
    cancelled: Signal
    """Ends the wait of a stand-by broker."""

    @property
    def waits(self) -> bool:
        """Whether to wait while another broker holds the store."""
        return self.settings.stand_by is StandBy.WAIT

    def acquire(self, take: Callable[[], _T]) -> _T:
        """Return what `take` returns, which takes hold of the store, or raises `HeldStoreError` that names the holder.

        A stand-by broker has it called again and again until the store is free, and waits on when it raises
        `UnavailableStoreError` meanwhile. Raises what `take` raises, and `ClosedError` when that wait is cancelled.
        """
        return acquire(take, self.clock, waits=self.waits, cancelled=self.cancelled)


class StoreOpener(ABC):
    """Opens the stores of one URL scheme. Made without arguments; any thread, several at once."""

    @abstractmethod
    def open_journal(self, request: StoreRequest) -> Journal:
        """Open the journal at a URL for one broker, and make it if it is not there; `recover` is called next.

        May wait for the disk, a server, and another holder (`StoreRequest.acquire`). Raises `UrlError`, and `StoreError`:
        `UnsupportedStoreError`, `UnusableStoreError`, `HeldStoreError`, `ForeignStoreError`, `NewerStoreError`,
        `DamagedStoreError`; each tells what to do.
        """

    def configuration_store(self, url: str) -> ConfigurationStore:
        """Return the configuration store at a URL, which is not open yet. Raises `UrlError`, `UnsupportedStoreError`.

        The same URL may be that of a journal, at the same time. The default refuses.
        """
        raise UnsupportedStoreError(
            "this store keeps messages, and no configuration; name another one for that, as a json file or a database"
        )

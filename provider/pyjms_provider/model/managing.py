"""Objects that keep the configuration of what is below them in a store of their own (Broker-J `managesChildren`)."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING

from pyjms.spi.errors import ProviderError
from pyjms_provider.model.configuration.writer import StoreWriter
from pyjms_provider.model.configured import Stoppable
from pyjms_provider.model.statistics import statistic

if TYPE_CHECKING:
    from pyjms_provider.model.managed import ManagedObject
    from pyjms_provider.security.secrets import SecretBox
    from pyjms_provider.stores.configuration_contract import ConfigurationStore


class ManagingObject(Stoppable):
    """Opens its store when it is opened, recovers what is in it, and has every change below it written through."""

    _store: ConfigurationStore | None = None
    _store_writer: StoreWriter | None = None

    @abstractmethod
    def _make_store(self) -> tuple[ConfigurationStore, SecretBox | None]:
        """Return its store, which is not open yet, and what encrypts secrets there; None: the store is not kept."""

    @property
    def store_writer(self) -> StoreWriter | None:
        return self._store_writer

    @property
    def keeps_for_good(self) -> bool:
        return self._store is None or self._store.is_lasting

    @statistic("Where the configuration of what is below it is kept.")
    def configuration_store(self) -> str:
        """Where the configuration is kept."""
        return "" if self._store is None else self._store.where

    @property
    def _holder(self) -> str:
        """The name of the broker, for whoever finds the store held. What is above the broker does not know it yet."""
        above: ManagedObject | None = self
        while above is not None and above.category != "broker":
            above = above.parent
        return "broker" if above is None else above.name

    def _on_open(self) -> None:
        store, secrets = self._make_store()
        try:
            records = store.open(self._holder)
        except ProviderError:
            store.close()
            raise
        self._store, self._store_writer = store, StoreWriter(self, store, secrets)
        self.pending = tuple(replace(each, parent=self.id) if each.parent is None else each for each in records)

    def _on_stop(self) -> None:
        store, self._store, self._store_writer = self._store, None, None
        if store is not None:
            store.close()

"""A configuration store that keeps nothing beyond the process: for tests, and for brokers that live in a program."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pyjms_provider.stores.configuration_contract import ConfigurationStore, ObjectId, ObjectRecord
from pyjms_provider.stores.errors import HeldStoreError, StoreError


class MemoryConfigurationStore(ConfigurationStore):
    """Keeps records as long as it lives itself, so that a test can open it again."""

    is_lasting = False

    def __init__(self) -> None:
        self._records: dict[ObjectId, ObjectRecord] = {}
        self._holder: str | None = None

    @property
    def where(self) -> str:
        return "memory"

    def open(self, holder: str) -> Sequence[ObjectRecord]:
        if self._holder is not None:
            raise HeldStoreError(f"this configuration is held by {self._holder}; close that first")
        self._holder = holder
        return list(self._records.values())

    def update(self, records: Sequence[ObjectRecord], removed: Collection[ObjectId] = ()) -> None:
        if self._holder is None:
            raise StoreError("this configuration store is not open, so nothing can be changed there")
        self._records.update({record.id: record for record in records})
        for each in removed:
            self._records.pop(each, None)

    def close(self) -> None:
        self._holder = None

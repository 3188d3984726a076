"""A configuration store in a JSON file, which programs write and people may read (Broker-J's JSON store)."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from pyjms_provider.model.configuration.contract import ObjectId, ObjectRecord
from pyjms_provider.model.configuration.files import FileConfigurationStore
from pyjms_provider.stores.errors import DamagedStoreError, ForeignStoreError, NewerStoreError

__all__ = ["JsonConfigurationStore", "in_order"]

_PRODUCT: Final = "pyjms configuration"
_VERSION: Final = 1
_OPTIONAL: Final = ("created_by", "created_ms", "updated_by", "updated_ms")


class JsonConfigurationStore(FileConfigurationStore):
    """A list of objects, in the order in which they were made; a version that only newer programs may raise."""

    def _empty(self) -> str:
        return self._render({}, (), ())

    def _render(
        self, after: Mapping[ObjectId, ObjectRecord], records: Sequence[ObjectRecord], removed: Collection[ObjectId]
    ) -> str:
        whole = {"product": _PRODUCT, "version": _VERSION, "objects": [_to_json(each) for each in after.values()]}
        return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"

    def _parse(self, text: str) -> list[ObjectRecord]:
        try:
            whole = json.loads(text)
        except ValueError as error:
            raise DamagedStoreError(
                f"{self.where} is no JSON: {error}; correct it, or put a backup in its place"
            ) from error
        if not isinstance(whole, dict) or whole.get("product") != _PRODUCT:
            raise ForeignStoreError(f"{self.where} is no configuration of pyjms; name another file")
        if not isinstance(whole.get("version"), int) or whole["version"] > _VERSION:
            raise NewerStoreError(
                f"{self.where} has version {whole.get('version')!r}, and this pyjms knows version {_VERSION}: install the "
                f"pyjms that wrote it, or a newer one"
            )
        try:
            return in_order([self._to_record(number, each) for number, each in enumerate(whole["objects"], 1)])
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedStoreError(f"{self.where}: {error}; correct it, or put a backup in its place") from error

    def _to_record(self, number: int, found: Any) -> ObjectRecord:
        try:
            parent = found.get("parent")
            record = ObjectRecord(
                id=ObjectId(UUID(found["id"])),
                category=str(found["category"]),
                parent=None if parent is None else ObjectId(UUID(parent)),
                attributes=dict(found["attributes"]),
                is_stopped=bool(found.get("stopped", False)),
                source=f"{self._path.name}, object {number}",
            )
            return replace(record, **{name: found[name] for name in _OPTIONAL if name in found})
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"object {number} is not understood: {error}") from error


def _to_json(record: ObjectRecord) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": str(record.id), "category": record.category}
    if record.parent is not None:
        shown["parent"] = str(record.parent)
    if record.is_stopped:
        shown["stopped"] = True
    shown.update({name: value for name in _OPTIONAL if (value := getattr(record, name))})
    shown["attributes"] = dict(record.attributes)
    return shown


def in_order(records: Sequence[ObjectRecord]) -> list[ObjectRecord]:
    """Return parents before their children. Raises `ValueError` for one without its parent, or an id that is there twice."""
    waiting = {record.id: record for record in records}
    if len(waiting) < len(records):
        raise ValueError("two objects have the same id")
    ordered: list[ObjectRecord] = []
    known: set[ObjectId | None] = {None}
    while waiting:
        ready = [record for record in waiting.values() if record.parent in known]
        if not ready:
            lost = next(iter(waiting.values()))
            raise ValueError(f"{lost.category} {lost.name!r} has a parent that is not there")
        for record in ready:
            ordered.append(record)
            known.add(record.id)
            del waiting[record.id]
    return ordered

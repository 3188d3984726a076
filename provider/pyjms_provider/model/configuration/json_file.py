"""A configuration store in a JSON file, which programs write and people may read (Broker-J's JSON store)."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from pyjms_provider.model.configuration.files import FileConfigurationStore
from pyjms_provider.stores.configuration_contract import ObjectId, ObjectRecord
from pyjms_provider.stores.errors import DamagedStoreError, ForeignStoreError, NewerStoreError

__all__ = ["JsonConfigurationStore", "in_order"]

_PRODUCT: Final = "pyjms configuration"
_VERSION: Final = 1
_OPTIONAL: Final[tuple[tuple[str, type], ...]] = (
    ("created_by", str),
    ("created_ms", int),
    ("updated_by", str),
    ("updated_ms", int),
)
_DEPTH_MAX: Final = 100
_WORDS: Final[Mapping[type, str]] = {
    dict: "an object",
    list: "a list",
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}


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
            if "\\u" in text:
                json.dumps(whole, ensure_ascii=False).encode()  # fails for half of a surrogate pair
        except RecursionError as error:
            raise DamagedStoreError(
                f"{self.where} is nested too deeply; correct it, or put a backup in its place"
            ) from error
        except ValueError as error:
            raise DamagedStoreError(
                f"{self.where} is no JSON in UTF-8: {error}; correct it, or put a backup in its place"
            ) from error
        if not isinstance(whole, dict) or whole.get("product") != _PRODUCT:
            raise ForeignStoreError(f"{self.where} is no configuration of pyjms; name another file")
        try:
            version = _checked(whole, "version", int)
            objects = [] if version > _VERSION else _checked(whole, "objects", list)
        except ValueError as error:
            raise DamagedStoreError(f"{self.where}: {error}; correct it, or put a backup in its place") from error
        if version > _VERSION:
            raise NewerStoreError(
                f"{self.where} has version {version}, and this pyjms knows version {_VERSION}: install the "
                f"pyjms that wrote it, or a newer one"
            )
        try:
            return in_order([self._to_record(number, each) for number, each in enumerate(objects, 1)])
        except ValueError as error:
            raise DamagedStoreError(f"{self.where}: {error}; correct it, or put a backup in its place") from error

    def _to_record(self, number: int, found: Any) -> ObjectRecord:
        try:
            _check_kind("it", found, dict)
            attributes = _checked(found, "attributes", dict)
            _check_depth(attributes)
            record = ObjectRecord(
                id=_id(_checked(found, "id", str)),
                category=_checked(found, "category", str),
                parent=None if found.get("parent") is None else _id(_checked(found, "parent", str)),
                attributes=attributes,
                is_stopped="stopped" in found and _checked(found, "stopped", bool),
                source=f"{self._path.name}, object {number}",
            )
            return replace(record, **{name: _checked(found, name, kind) for name, kind in _OPTIONAL if name in found})
        except ValueError as error:
            raise ValueError(f"object {number} is not understood: {error}") from error


def _checked(found: Mapping[str, Any], name: str, kind: type) -> Any:
    """Return the value of that name. Raises `ValueError` if it is missing, or of another kind."""
    if name not in found:
        raise ValueError(f"{name!r} is missing")
    _check_kind(repr(name), found[name], kind)
    return found[name]


def _check_kind(what: str, value: Any, kind: type) -> None:
    if type(value) is not kind:
        raise ValueError(f"{what} is {_WORDS[type(value)]}, not {_WORDS[kind]}")


def _id(text: str) -> ObjectId:
    try:
        return ObjectId(UUID(text))
    except ValueError:
        raise ValueError(f"{text[:40]!r} is no id: a UUID, in hexadecimal") from None


def _check_depth(whole: Any) -> None:
    """Raise `ValueError` for what is nested more deeply than anything that management takes."""
    waiting = [(whole, 0)]
    while waiting:
        data, depth = waiting.pop()
        if depth > _DEPTH_MAX:
            raise ValueError(f"its attributes are nested deeper than {_DEPTH_MAX} levels")
        if isinstance(data, (dict, list)):
            waiting += [(each, depth + 1) for each in (data.values() if isinstance(data, dict) else data)]


def _to_json(record: ObjectRecord) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": str(record.id), "category": record.category}
    if record.parent is not None:
        shown["parent"] = str(record.parent)
    if record.is_stopped:
        shown["stopped"] = True
    shown.update({name: value for name, _ in _OPTIONAL if (value := getattr(record, name))})
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

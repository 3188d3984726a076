"""Configuration in files: the base of all such stores, and the store in JSON."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from pyjms.spi.errors import InDoubtError
from pyjms_provider.security.private_files import PrivateFileError, remove_unfinished, write_private
from pyjms_provider.stores.configuration_contract import ConfigurationStore, ObjectId, ObjectRecord
from pyjms_provider.stores.errors import (
    DamagedStoreError,
    ForeignStoreError,
    HeldStoreError,
    NewerStoreError,
    StoreError,
    UnusableStoreError,
)
from pyjms_provider.stores.file_lock import FileLock, describe_holder

Writer = Callable[[Path, str], None]


class EditedFileError(StoreError):
    """The file was changed by another program while the broker held it."""

    code = "PYJMS-STORE-EDITED"


def find_same_addresses(records: Sequence[ObjectRecord]) -> Iterator[tuple[ObjectRecord, str]]:
    """Yield each record with the address of an earlier one, and the remedy."""
    found: dict[_Address, ObjectRecord] = {}
    for each in records:
        first = found.setdefault(_address_of(each), each)
        if first is not each:
            yield (
                each,
                (
                    f"there is a {each.category} {each.name!r} already, at {first.source}, and another one at {each.source}; give "
                    f"one of them another name, or take it out"
                ),
            )


def find_same_ids(records: Sequence[ObjectRecord]) -> Iterator[tuple[ObjectRecord, str]]:
    """Yield each record with another name than an earlier one but the same id, as a copied one has, and the remedy."""
    found: dict[ObjectId, ObjectRecord] = {}
    for each in records:
        first = found.setdefault(each.id, each)
        if _address_of(first) != _address_of(each):
            yield (
                each,
                (
                    f"the {each.category} {each.name!r} at {each.source} has the id of the {first.category} {first.name!r} at "
                    f"{first.source}; take that id out of the one that is a copy"
                ),
            )


_Address = tuple[ObjectId | None, str, str]


def _address_of(record: ObjectRecord) -> _Address:
    return record.parent, record.category, record.name


class FileConfigurationStore(ConfigurationStore):
    """Keeps all records in one file; every change writes the whole file."""

    def __init__(self, path: str | Path, *, write: Writer = write_private) -> None:
        """`write`: replaces the text of a file atomically and durably."""
        self._path = Path(path).absolute()
        self._write = write
        self._lock: FileLock | None = None
        self._records: Mapping[ObjectId, ObjectRecord] = {}
        self._text = ""  # as it was read or written last

    @property
    def where(self) -> str:
        return str(self._path)

    def open(self, holder: str) -> Sequence[ObjectRecord]:
        lock = FileLock(f"{self._path}.lock", describe_holder(holder))
        try:
            lock.acquire()
        except HeldStoreError as error:
            who = error.reason.partition(" is held by ")[2].partition(";")[0]
            raise HeldStoreError(f"{self._path} is held by {who}; stop that first, or name another file") from None
        try:
            # Under the lock: until it was taken, another broker could write. One that died while writing has left a
            # new file behind, which has not been renamed.
            remove_unfinished(self._path)
            records = self._read_file()
            self._refuse_twins(records)
        except Exception:
            lock.release()
            raise
        self._lock = lock
        self._records = {record.id: record for record in records}
        return records

    def _refuse_twins(self, records: Sequence[ObjectRecord]) -> None:
        """Refuse two objects of one name or id: one would work unseen, and a change meant for it would be written into the other."""
        for _, problem in (*find_same_addresses(records), *find_same_ids(records)):
            raise DamagedStoreError(f"{self.where}: {problem}")

    def read(self) -> Sequence[ObjectRecord]:
        """Return the records in the file, like `open`, but without the lock; nothing is written. Raises as `open`."""
        if not self._path.exists():
            raise UnusableStoreError(f"there is no {self._path}; name a file that is there")
        return self._read_file()

    def _read_file(self) -> list[ObjectRecord]:
        try:
            text = self._path.read_text(encoding="utf-8")
        except FileNotFoundError:
            text = self._empty()
            self._put(text)
        except OSError as error:
            raise UnusableStoreError(
                f"{self._path} cannot be read: {error.strerror}; it must be a file of this user's"
            ) from error
        except UnicodeDecodeError as error:
            raise DamagedStoreError(
                f"{self._path} is no text in UTF-8 (byte {error.start}); put a backup in its place"
            ) from error
        self._text = text
        return self._parse(text)

    def update(self, records: Sequence[ObjectRecord], removed: Collection[ObjectId] = ()) -> None:
        if self._lock is None:
            raise StoreError(f"{self._path} is not open, so nothing can be changed there")
        after = {**self._records, **{record.id: record for record in records}}
        for each in removed:
            after.pop(each, None)
        # Before each write, as the whole file is written: edits made meanwhile would be lost.
        self._check_unedited()
        text = self._render(after, records, removed)
        self._put(text)
        # After the write: until then the file has the old text, which is compared before the next change.
        self._text = text
        self._records = after
        self._note_written()

    def _check_unedited(self) -> None:
        """Refuse to overwrite a file that was edited meanwhile. A file that was deleted is written again."""
        try:
            is_edited = self._path.read_text(encoding="utf-8") != self._text
        except FileNotFoundError:
            is_edited = False
        except (OSError, UnicodeDecodeError):
            is_edited = True
        if is_edited:
            raise EditedFileError(
                f"the configuration was not changed: somebody has edited {self._path} since the broker read it; start the broker "
                f"again to have that obeyed, or put back what was there"
            )

    def _put(self, text: str) -> None:
        try:
            self._write(self._path, text)
        except (PrivateFileError, OSError) as error:
            reason = error.reason if isinstance(error, PrivateFileError) else str(error)
            if not self._has(text):
                raise StoreError(f"the configuration was not changed: {reason}") from error
            # Replaced, but not forced to disk. The broker continues without the change, and so must the file.
            with suppress(PrivateFileError, OSError):
                self._write(self._path, self._text)
            if self._has(text):
                # The change could not be removed again; the next change writes the whole file without it.
                self._text = text
            raise InDoubtError(
                f"it is not known whether the change of the configuration is kept; the broker goes on without it: {reason}"
            ) from error

    def _has(self, text: str) -> bool:
        """Return whether this text is in the file now."""
        try:
            return text != self._text and self._path.read_text(encoding="utf-8") == text
        except (OSError, UnicodeDecodeError):
            return False

    @abstractmethod
    def _empty(self) -> str:
        """Return the text of a file without records."""

    @abstractmethod
    def _parse(self, text: str) -> list[ObjectRecord]:
        """Parse the text into records, parents first. Raises `DamagedStoreError`, `NewerStoreError`, `ForeignStoreError`."""

    @abstractmethod
    def _render(
        self, after: Mapping[ObjectId, ObjectRecord], records: Sequence[ObjectRecord], removed: Collection[ObjectId]
    ) -> str:
        """Return the text with all records in their state `after` the change."""

    def _note_written(self) -> None:
        """Note that the text of `_render` is in the file now."""

    def close(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()


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
    """A list of objects, in the order of their creation; with a version that only newer programs may raise."""

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
            # Only an escape can bring in half of a pair, and the test costs as much as the parsing.
            if "\\u" in text:
                # This fails for half of a surrogate pair.
                json.dumps(whole, ensure_ascii=False).encode()
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
            # A newer format may have other objects: the operator must be told of its version, not of their faults.
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
    """Return the value of that name. Raises `ValueError` if it is missing, or of another type."""
    if name not in found:
        raise ValueError(f"{name!r} is missing")
    _check_kind(repr(name), found[name], kind)
    return found[name]


def _check_kind(what: str, value: Any, kind: type) -> None:
    # The exact type: true is an int to Python, and would pass for a number.
    if type(value) is not kind:
        raise ValueError(f"{what} is {_WORDS[type(value)]}, not {_WORDS[kind]}")


def _id(text: str) -> ObjectId:
    try:
        return ObjectId(UUID(text))
    except ValueError:
        raise ValueError(f"{text[:40]!r} is no id: a UUID, in hexadecimal") from None


def _check_depth(whole: Any) -> None:
    """Raise `ValueError` for nesting deeper than any value that management accepts."""
    # With a list and not by recursion, which would fail at the very depth that is to be reported.
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
    """Return parents before their children. Raises `ValueError` for a record without its parent, or a duplicate id."""
    waiting = {record.id: record for record in records}
    if len(waiting) < len(records):
        raise ValueError("two objects have the same id")
    ordered: list[ObjectRecord] = []
    known: set[ObjectId | None] = {None}
    while waiting:
        # Users may have changed the order; round by round, each record with a known parent is next.
        ready = [record for record in waiting.values() if record.parent in known]
        if not ready:
            lost = next(iter(waiting.values()))
            raise ValueError(f"{lost.category} {lost.name!r} has a parent that is not there")
        for record in ready:
            ordered.append(record)
            known.add(record.id)
            del waiting[record.id]
    return ordered

"""What configuration stores in files have in common: one holder, and changes that are whole or not there.

A change is written to a new file, forced to the disk, and put in place of the old one by a rename; so whatever stops the
process or the machine leaves the old text or the new one. What it left half written beside the file is removed at the next
opening.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from pyjms.spi.errors import InDoubtError
from pyjms_provider.security.private_files import PrivateFileError, remove_unfinished, write_private
from pyjms_provider.stores.configuration_contract import ConfigurationStore, ObjectId, ObjectRecord
from pyjms_provider.stores.errors import DamagedStoreError, HeldStoreError, StoreError, UnusableStoreError
from pyjms_provider.stores.file_lock import FileLock, describe_holder

__all__ = ["EditedFileError", "FileConfigurationStore", "find_same_addresses", "find_same_ids"]

Writer = Callable[[Path, str], None]


class EditedFileError(StoreError):
    """Somebody has changed the file while the broker held it."""

    code = "PYJMS-STORE-EDITED"


def find_same_addresses(records: Sequence[ObjectRecord]) -> Iterator[tuple[ObjectRecord, str]]:
    """Yield each record whose address one before it has, and what to do about it."""
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
    """Yield each record that has another name than one before it, and yet its id, as a copied one has; and what to do about it."""
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
    """Keeps all records in one file; every change writes it anew."""

    def __init__(self, path: str | Path, *, write: Writer = write_private) -> None:
        """`write`: puts a text in place of a file's, at once and durably."""
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
        """Two objects of one name or id: one would do its work unseen, and a change meant for it be written into the other."""
        for _, problem in (*find_same_addresses(records), *find_same_ids(records)):
            raise DamagedStoreError(f"{self.where}: {problem}")

    def read(self) -> Sequence[ObjectRecord]:
        """Return what is in the file, as `open` does, but without taking hold of it; nothing is written. Raises the same."""
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
        self._check_unedited()
        text = self._render(after, records, removed)
        self._put(text)
        self._text = text
        self._records = after
        self._note_written()

    def _check_unedited(self) -> None:
        """Refuse to write over what somebody else has written meanwhile. A file that has gone is written anew."""
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
            # Put in place, and then not forced. The broker goes on without the change, and so must the file.
            with suppress(PrivateFileError, OSError):
                self._write(self._path, self._text)
            if self._has(text):
                self._text = text  # the next change writes the whole file without this one
            raise InDoubtError(
                f"it is not known whether the change of the configuration is kept; the broker goes on without it: {reason}"
            ) from error

    def _has(self, text: str) -> bool:
        """Return whether this is in the file now."""
        try:
            return text != self._text and self._path.read_text(encoding="utf-8") == text
        except (OSError, UnicodeDecodeError):
            return False

    @abstractmethod
    def _empty(self) -> str:
        """Return the text of a file without records."""

    @abstractmethod
    def _parse(self, text: str) -> list[ObjectRecord]:
        """Return what the text says, parents first. Raises `DamagedStoreError`, `NewerStoreError`, `ForeignStoreError`."""

    @abstractmethod
    def _render(
        self, after: Mapping[ObjectId, ObjectRecord], records: Sequence[ObjectRecord], removed: Collection[ObjectId]
    ) -> str:
        """Return the text with all records as they are `after` the change."""

    def _note_written(self) -> None:
        """Hear that what `_render` returned is in the file now."""

    def close(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()

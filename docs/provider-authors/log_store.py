"""A store in two files of a folder, a log each: `log:///var/lib/shop`. An example of how to write stores.

What a broker keeps is in memory, as `Medium` has it, and each change to it is appended to the log before it is made. Opening reads the
log from its beginning, and writes in its place a short one: what there is now. It suits some thousands of messages, not millions.
"""

from __future__ import annotations

import json
import os
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import UUID
from zlib import crc32

from pyjms.spi.envelope import Address, AddressKind, Envelope
from pyjms.spi.errors import ClosedError, ProviderError, UrlError
from pyjms.spi.replay import StageName
from pyjms.spi.xid import Xid
from pyjms_provider.core.journal.journal import (
    BranchOutcome,
    Changes,
    ClientChanges,
    ClientRecord,
    DuplicateMark,
    GroupRecord,
    Journal,
    NewMessage,
    PipelineChanges,
    PreparedBranch,
    QueueNumber,
    QueueRecord,
    Recovery,
    Removal,
    Reservation,
    StageRecord,
    SubscriptionKey,
)
from pyjms_provider.core.message.reference import MessageReference, ReferenceId
from pyjms_provider.settings import Synchronous
from pyjms_provider.stores.codec import decode, encode
from pyjms_provider.stores.configuration_contract import ConfigurationStore, ObjectId, ObjectRecord
from pyjms_provider.stores.contract import StoreOpener, StoreRequest
from pyjms_provider.stores.errors import (
    DamagedStoreError,
    ForeignStoreError,
    HeldStoreError,
    LostStoreError,
    NewerStoreError,
    StoreError,
    UnusableStoreError,
)
from pyjms_provider.stores.file_lock import FileLock, describe_holder
from pyjms_provider.stores.group_commit import CommitRequest, GroupCommit
from pyjms_provider.stores.volatile import KeptBranch, KeptStage, Medium, VolatileJournal

PRODUCT, VERSION = b"pyjms log store", 1
HEAD_SIZE = 8  # of a record: its length and its CRC-32, four bytes each


class LogStore(StoreOpener):
    """Opens stores below a folder."""

    def open_journal(self, request: StoreRequest) -> LogJournal:
        return LogJournal(folder_of(request.settings.url) / "messages.log", request)

    def configuration_store(self, url: str) -> LogConfigurationStore:
        return LogConfigurationStore(folder_of(url) / "configuration.log")


def folder_of(url: str) -> Path:
    """Return the folder that a URL names. Raises `UrlError`."""
    parts = urlsplit(url)
    if parts.netloc or parts.query or parts.fragment or not parts.path.startswith("/"):
        raise UrlError("a log store is a folder, and has no options; write for instance log:///var/lib/shop")
    return Path(unquote(parts.path))


# Values as bytes. Nothing is pickled: who can write the file could make the broker run what he likes.


def pack(value: object) -> object:
    """Return a value as JSON has it: what JSON has no word for, as its kind and its parts."""
    kind, parts = type(value).__name__, ()
    match value:
        case None | bool() | float() | str():
            return value
        case list():
            return [pack(each) for each in value]
        case AddressKind():
            parts = (value.value,)
        case int():
            return value
        case bytes():
            parts = (value.hex(),)
        case UUID():
            parts = (str(value),)
        case tuple():
            parts = value
        case Mapping():
            kind, parts = "dict", [[*item] for item in value.items()]
        case Envelope():
            kind, parts = "Envelope", (b64encode(encode(value)).decode(),)
        case MessageReference():
            known = (value.id, value.expiration_ms, value.priority, value.reliable)
            parts = (*known, value.deliver_at_ms, value.size, value.shared)
        case _:
            parts = [getattr(value, each.name) for each in fields(value)]
    return {kind: [pack(part) for part in parts]}


def unpack(packed: dict[str, list[Any]]) -> object:
    """Return what was packed, whose parts were unpacked before. Raises `KeyError`, `TypeError`, `ValueError`, `StoreError`."""
    ((name, parts),) = packed.items()
    return MAKERS[name](*parts)


def made_of_fields(kind: type) -> Callable[..., object]:
    names = [each.name for each in fields(kind)]
    return lambda *parts: kind(**dict(zip(names, parts, strict=True)))


def reference_of(
    number: int, expiration_ms: int, priority: int, reliable: bool, deliver_at_ms: int, size: int, shared: bool
) -> MessageReference:
    reference = MessageReference(ReferenceId(number), None, expiration_ms, priority, reliable)
    reference.deliver_at_ms, reference.size, reference.shared = deliver_at_ms, size, shared
    return reference


@dataclass(frozen=True, slots=True)
class Dropped:
    """In the log: a queue was dropped."""

    queue: QueueNumber


@dataclass(frozen=True, slots=True)
class Held:
    """In the log: a broker holds the store from here, or let go of it. `clean`: it was delivering nothing then."""

    clean: bool


@dataclass(frozen=True, slots=True)
class Kept:
    """In the log of a configuration: records that were written, and ids of those that were removed."""

    records: list[ObjectRecord]
    removed: list[ObjectId]


MAKERS: dict[str, Callable[..., object]] = {
    **{
        kind.__name__: made_of_fields(kind)
        for kind in (
            Address, BranchOutcome, Changes, ClientChanges, ClientRecord, Dropped, DuplicateMark, GroupRecord, Held, Kept,
            KeptBranch, KeptStage, Medium, NewMessage, ObjectRecord, PipelineChanges, PreparedBranch, QueueRecord, Removal, Reservation,
            StageName, StageRecord, SubscriptionKey, Xid,
        )
    },
    "AddressKind": AddressKind,
    "Envelope": lambda text: decode(b64decode(text)),
    "MessageReference": reference_of,
    "UUID": UUID,
    "bytes": bytes.fromhex,
    "dict": lambda *items: dict(items),
    "tuple": lambda *parts: parts,
}  # fmt: skip


class Log:
    """A file that records are appended to, held by one process at a time."""

    def __init__(self, path: Path, holder: str, acquire: Callable[[Callable[[], None]], None]) -> None:
        """`acquire` calls what takes hold of the file, maybe several times. Raises `StoreError`."""
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UnusableStoreError(f"{path.parent} cannot be made: {error.strerror}; name another folder") from error
        self._lock = FileLock(f"{path}.lock", describe_holder(holder))
        acquire(self._lock.acquire)
        self._file = -1
        self._end = 0

    def read(self) -> Iterator[Any]:
        """Return the records that were written whole. Raises `ForeignStoreError`, `NewerStoreError`, `DamagedStoreError`."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            raise UnusableStoreError(f"{self.path} cannot be read: {error.strerror}; it must be this user's") from error
        head, _, _ = data.partition(b"\n")
        product, _, version = head.rpartition(b" ")
        if product != PRODUCT or not version.isdigit():
            raise ForeignStoreError(f"{self.path} is no log store; name another folder")
        if int(version) > VERSION:
            raise NewerStoreError(f"{self.path} has version {int(version)}; install a newer log-store")
        at = len(head) + 1
        while at < len(data):
            size, checksum = (int.from_bytes(data[here : here + 4], "big") for here in (at, at + 4))
            body = data[at + HEAD_SIZE : at + HEAD_SIZE + size]
            end = at + HEAD_SIZE + len(body)
            if len(body) < size or crc32(body) != checksum or not size:
                # The last record was being written when the process or the power ended, so nobody was answered.
                if end >= len(data) or not any(data[at:]):
                    return
                raise DamagedStoreError(f"{self.path} is damaged at byte {at}; put a backup in its place")
            yield self._understood(body, at)
            at = end

    def _understood(self, body: bytes, at: int) -> object:
        try:
            return json.loads(body, object_hook=unpack)
        except (KeyError, TypeError, ValueError, StoreError) as error:
            raise DamagedStoreError(
                f"{self.path}: the record at byte {at} is not understood: {error!r}; put a backup in its place"
            ) from error

    def begin(self, first: object) -> None:
        """Put a log that has one record in the place of the file, so that it is the old one or this, whatever happens."""
        new = self.path.with_suffix(".new")
        try:
            self._file = os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            self._write(b"%s %d\n" % (PRODUCT, VERSION) + framed(first), force=True)
            new.replace(self.path)
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise UnusableStoreError(
                f"{self.path} cannot be written: {error.strerror}; make room, or see to its rights"
            ) from error

    def append(self, record: object, *, force: bool) -> None:
        """Write a record, whole or not at all. Raises `StoreError`; `LostStoreError` when nobody knows what is in the file now."""
        try:
            self._write(framed(record), force=force)
        except OSError as error:
            try:
                os.ftruncate(self._file, self._end)
            except OSError:
                raise LostStoreError(
                    f"{self.path} cannot be written any more: {error.strerror}; start the broker again"
                ) from error
            raise StoreError(f"{self.path} was not written: {error.strerror}; make room, and send again") from error

    def _write(self, data: bytes, *, force: bool) -> None:
        at = self._end
        while data:
            written = os.pwrite(self._file, data, at)
            data, at = data[written:], at + written
        if force:
            os.fsync(self._file)
        self._end = at

    def close(self) -> None:
        """Let go of the file. May be repeated."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)
        self._lock.release()


def framed(record: object) -> bytes:
    body = json.dumps(pack(record), separators=(",", ":")).encode()
    return len(body).to_bytes(4, "big") + crc32(body).to_bytes(4, "big") + body


class LogJournal(Journal):
    """Appends each group of changes as one record, then makes them in memory, where everything is read."""

    is_local = True

    def __init__(self, path: Path, request: StoreRequest) -> None:
        """Open the journal and read what is in it. Raises `StoreError`."""
        # Also what only acknowledges: a record that is lost before others that are not would look like damage.
        self._forces = request.settings.synchronous is Synchronous.FULL
        self._on_lost = request.on_lost
        self._lock = Lock()
        self._noted: list[Changes] = []
        self._closed: ProviderError | None = None
        self._commits: GroupCommit[object] = GroupCommit(self._commit)
        self._log = Log(path, request.holder, request.acquire)
        try:
            self._memory = VolatileJournal(self._replayed(), holder=request.holder)
        except BaseException:
            self._log.close()
            raise

    def _replayed(self) -> Medium:
        medium = Medium()
        for record in self._log.read():
            if isinstance(record, Medium):
                medium = record
                continue
            for each in record:
                match each:
                    case Changes():
                        medium.apply(each)
                    case QueueRecord():
                        medium.queues[each.number] = each
                        medium.last_number = max(medium.last_number, each.number)
                    case Dropped(queue):
                        medium.drop_queue(queue)
                    case Held(clean):
                        medium.is_clean = clean
                        if clean:
                            medium.marks.clear()
        medium.holder = None
        self._log.begin(medium)
        return medium

    def recover(self, progress: Callable[[int], None]) -> Recovery:
        self._log.append([Held(clean=False)], force=True)
        return self._memory.recover(progress)

    def write(self, changes: Changes, *, force: bool) -> None:
        self._commits.submit(changes.with_envelopes(self._memory.read), force=force)

    def note(self, changes: Changes) -> None:
        with self._lock:
            if self._closed is None:
                self._noted.append(changes)
                self._memory.note(Changes(dropped=changes.dropped))  # their numbers are given to nobody from now on

    def define_queue(self, record: QueueRecord) -> QueueNumber:
        known = replace(record, number=self._memory.number_of(record))
        self._commits.submit(known, force=True)
        return known.number

    def number_of(self, record: QueueRecord, *, anew: bool = False) -> QueueNumber:
        return self._memory.number_of(record, anew=anew)

    def drop_queue(self, number: QueueNumber) -> None:
        self._commits.submit(Dropped(number), force=True)

    def _commit(self, requests: Sequence[CommitRequest[object]]) -> None:
        """Write what all requests want as one record. One thread at a time is in here, and holds no lock."""
        with self._lock:
            noted, self._noted = self._noted, []
        work = [*noted, *(request.work for request in requests)]
        error = self._closed or self._append(work)
        if error is None:
            for each in work:
                self._make_true(each)
        else:
            with self._lock:
                self._noted[:0] = noted
        if any(isinstance(each, Held) for each in work):
            self._memory.close(clean=False)
            self._log.close()
            self._closed = self._closed or ClosedError("the journal was closed")
        for request in requests:
            request.error = error

    def _append(self, work: list[object]) -> ProviderError | None:
        try:
            self._log.append(work, force=self._forces)
        except LostStoreError as error:
            self._closed = error
            self._on_lost(error)
            return error
        except StoreError as error:
            return error
        return None

    def _make_true(self, work: object) -> None:
        match work:
            case Changes():
                self._memory.write(work, force=False)
            case QueueRecord():
                self._memory.define_queue(work)
            case Dropped(queue):
                self._memory.drop_queue(queue)
            case Held(clean):
                self._memory.close(clean=clean)

    def holds(self, queue: QueueNumber, reference: MessageReference) -> bool | None:
        self.write(Changes(), force=False)  # and with it what was to be written before
        return self._memory.holds(queue, reference)

    def read(self, ids: Sequence[ReferenceId]) -> dict[ReferenceId, Envelope]:
        return self._memory.read(ids)

    def page_out(self, messages: Sequence[tuple[MessageReference, Envelope]]) -> None:
        self._memory.page_out(messages)

    def drop_paged(self, ids: Sequence[ReferenceId]) -> None:
        self._memory.drop_paged(ids)

    def close(self, *, clean: bool) -> None:
        with suppress(
            ProviderError
        ):  # closed already, or it cannot be written, so that the next holder takes it for a death
            self._commits.submit(Held(clean), force=True)


class LogConfigurationStore(ConfigurationStore):
    """Keeps records in memory, and in a log of its own."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._log: Log | None = None
        self._records: dict[ObjectId, ObjectRecord] = {}

    @property
    def where(self) -> str:
        return str(self._path)

    def open(self, holder: str) -> Sequence[ObjectRecord]:
        try:
            log = Log(self._path, holder, lambda take: take())
        except HeldStoreError as error:
            who = error.reason.partition(";")[0]
            raise HeldStoreError(f"{who}; stop that first, or name another folder") from None
        try:
            self._records = {}
            for kept in log.read():
                self._apply(kept)
            log.begin(Kept(list(self._records.values()), []))
        except BaseException:
            log.close()
            raise
        self._log = log
        return list(self._records.values())

    def update(self, records: Sequence[ObjectRecord], removed: Collection[ObjectId] = ()) -> None:
        if self._log is None:
            raise StoreError(f"{self._path} is not open, so nothing can be changed there")
        kept = Kept(list(records), list(removed))
        self._log.append(kept, force=True)
        self._apply(kept)

    def _apply(self, kept: Kept) -> None:
        self._records.update({record.id: record for record in kept.records})
        for each in kept.removed:
            self._records.pop(each, None)

    def close(self) -> None:
        log, self._log = self._log, None
        if log is not None:
            log.close()

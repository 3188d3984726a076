"""Writes changes of the tree to its store; and the store that keeps nothing beyond the process."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyjms_provider.model import tree
from pyjms_provider.model.attributes import declarations, refers_only
from pyjms_provider.model.errors import UnknownCategoryError
from pyjms_provider.model.managed import ConfigurationChangeListener
from pyjms_provider.security.secrets import SecretBox
from pyjms_provider.stores.configuration_contract import ConfigurationStore, ObjectId, ObjectRecord
from pyjms_provider.stores.errors import HeldStoreError, StoreError

if TYPE_CHECKING:
    from pyjms_provider.model.managed import ManagedObject
    from pyjms_provider.stores.configuration_contract import ObjectId, ObjectRecord


class StoreWriter(ConfigurationChangeListener):
    """Stores the objects below one managing object. An error of it undoes the change."""

    def __init__(self, manager: ManagedObject, store: ConfigurationStore, secrets: SecretBox | None) -> None:
        """`secrets`: encrypts secure attributes; None: the store is not persistent, so they are not encrypted."""
        self._manager = manager
        self._store = store
        self._secrets = secrets

    def attributes_changed(self, managed: ManagedObject, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        self._store.update([self._sealed_in_place(managed)])

    def child_added(self, parent: ManagedObject, child: ManagedObject) -> None:
        # In one update with the object itself, so that a crash leaves all of them or none.
        waiting = [_sealed(record, _kind_of(record), self._secrets) for record in _waiting(child)]
        self._store.update([*(self._sealed_in_place(each) for each in _kept(child)), *waiting])

    def child_removed(self, parent: ManagedObject, child: ManagedObject) -> None:
        self._store.update([], [*(each.id for each in _kept(child)), *(record.id for record in _waiting(child))])

    def put(self, record: ObjectRecord) -> None:
        """Store the record of an object that has no secrets."""
        self._store.update([record])

    def drop(self, object_id: ObjectId) -> None:
        """Remove a record."""
        self._store.update([], [object_id])

    def revealed(self, record: ObjectRecord) -> ObjectRecord:
        """Return a record in the model's form: secrets in clear. Raises `SecretError`.

        A secret that a user wrote into the file in clear is accepted, and encrypted when the object next changes.
        """
        return record if self._secrets is None else reveal(record, self._secrets)

    def _sealed_in_place(self, managed: ManagedObject) -> ObjectRecord:
        """Return the record of an object in the store's form: secrets encrypted, the top without a parent."""
        record = _sealed(managed.snapshot.record, type(managed), self._secrets)
        # The id of the manager belongs to the store above: a node can be moved with its file.
        return replace(record, parent=None) if managed.parent is self._manager else record


def _kind_of(record: ObjectRecord) -> type[ManagedObject] | None:
    """Return the class of a record's object; None: it is not installed, or unknown before variables are replaced."""
    try:
        return tree.class_of(record.category, record.attributes.get("type"))[1]
    except UnknownCategoryError:
        return None


def _sealed(record: ObjectRecord, kind: type[ManagedObject] | None, secrets: SecretBox | None) -> ObjectRecord:
    # An object whose type is not installed stays unchanged: it is unknown which of its attributes are secret.
    if secrets is None or kind is None:
        return record
    known = declarations(kind.attributes_class)
    attributes = {
        name: secrets.encrypt(value, context=_context(record, name))
        if name in known and known[name].is_secure and _is_open_secret(value)
        else value
        for name, value in record.attributes.items()
    }
    return replace(record, attributes=attributes)


def reveal(record: ObjectRecord, secrets: SecretBox) -> ObjectRecord:
    """Return a record with its secrets in clear. Raises `SecretError`."""
    attributes = {
        name: secrets.decrypt(value, context=_context(record, name))
        if isinstance(value, str) and SecretBox.is_encrypted(value)
        else value
        for name, value in record.attributes.items()
    }
    return replace(record, attributes=attributes)


def _kept(managed: ManagedObject) -> Iterator[ManagedObject]:
    """Yield the object and all below it that are in the same store."""
    yield managed
    if not tree.manages_children(managed.category):
        for each in managed.children():
            if each.is_durable:
                yield from _kept(each)


def _waiting(managed: ManagedObject) -> Iterator[ObjectRecord]:
    """Yield the records that the same store has below an object and its descendants, without an object yet."""
    for each in _kept(managed):
        if not tree.manages_children(each.category):
            yield from each.kept_below()


def _context(record: ObjectRecord, name: str) -> str:
    # Bound to object and attribute: a ciphertext copied to another place in the file cannot be decrypted there.
    return f"{record.id}/{name}"


def _is_open_secret(value: object) -> bool:
    # A variable alone is no secret; encrypted, it could not be edited any more.
    return isinstance(value, str) and not refers_only(value) and not SecretBox.is_encrypted(value)


class MemoryConfigurationStore(ConfigurationStore):
    """Keeps records as long as it exists, so that a test can open it again."""

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

"""The contract of `ConfigurationStore`, rule by rule. A test's docstring is its rule; see the package for how to run them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid5

import pytest

from pyjms_provider.stores.configuration_contract import ConfigurationStore, ObjectId, ObjectRecord
from pyjms_provider.stores.errors import HeldStoreError, StoreError
from pyjms_provider.stores.testing import ConfigurationHome

_SPACE = UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")
_HOLDER = "the suite"

# Texts that some database, encoding or format may not accept.
AWKWARD = (
    "Größe ∞ 😀",
    "back\\slash \\u0041",
    "",
    "x" * 5000,
    "line\nbreak\ttab",
    "'quoted' \"twice\" '''thrice''' %s ?",
    "${p} # [x]",
)


def record(name: str, category: str, parent: ObjectRecord | None = None, **attributes: Any) -> ObjectRecord:
    """Return the record of an object; records of the same name and category have the same id."""
    return ObjectRecord(
        id=ObjectId(uuid5(_SPACE, f"{category}/{name}")),
        category=category,
        parent=None if parent is None else parent.id,
        attributes={"name": name, **attributes},
        created_by="me",
        created_ms=2**41,
        updated_by="you",
        updated_ms=2**41 + 1,
    )


BROKER = record("shop", "broker", description="Größe ∞", context={"a": "b"})
PORT = record("stomp", "port", BROKER, port="${p}", protocols=["stomp"], tls={"versions": ["1.3"], "deep": [{"x": 1}]})
USERS = record("people", "authentication_provider", BROKER, type="file")
ADMIN = record("admin", "user", USERS, password="pyjms-secret:1:abc")  # noqa: S106  encrypted, as records have it


@pytest.fixture
def store(configuration_home: ConfigurationHome) -> Iterator[ConfigurationStore]:
    """Open an empty store."""
    store = configuration_home.make()
    assert list(store.open(_HOLDER)) == []
    yield store
    configuration_home.close()


def kept(home: ConfigurationHome, store: ConfigurationStore) -> list[ObjectRecord]:
    """Close `store`, and return the records that another one finds at the same location."""
    store.close()
    other = home.make()
    found = list(other.open(_HOLDER))
    other.close()
    return found


def test_an_empty_store_stays_empty(configuration_home: ConfigurationHome, store: ConfigurationStore) -> None:
    """A store that does not exist is created, and exists at the next opening."""
    assert kept(configuration_home, store) == []


def test_what_was_kept_is_found_again(configuration_home: ConfigurationHome, store: ConfigurationStore) -> None:
    """All fields of records are stored, and parents are returned before their children."""
    store.update([BROKER])
    store.update([PORT, USERS, ADMIN])
    found = kept(configuration_home, store)
    assert {each.id: each for each in found} == {each.id: each for each in (BROKER, PORT, USERS, ADMIN)}
    order = [each.id for each in found]
    assert order.index(BROKER.id) < order.index(USERS.id) < order.index(ADMIN.id)
    assert kept(configuration_home, store) == found


@pytest.mark.parametrize("text", AWKWARD)
def test_any_text_may_be_kept(configuration_home: ConfigurationHome, store: ConfigurationStore, text: str) -> None:
    """Any text may be the value of an attribute, an item of a list or table, and the name of the user of a change."""
    attributes = {"name": "p", "text": text, "all": [text], "deep": {"of": [{"x": text}]}}
    port = replace(PORT, attributes=attributes, created_by=text, updated_by=text)
    store.update([BROKER, port])
    assert kept(configuration_home, store)[1:] == [port]


def test_values_keep_their_types(configuration_home: ConfigurationHome, store: ConfigurationStore) -> None:
    """Numbers do not become texts, nor booleans numbers."""
    values: dict[str, Any] = {"yes": True, "no": False, "one": 1, "big": 2**53, "part": 0.5, "text": "1", "empty": []}
    store.update([record("shop", "broker", **values)])
    (found,) = kept(configuration_home, store)
    # Compared by `repr`, as in Python 1 == True and 1 == 1.0.
    assert {name: repr(found.attributes[name]) for name in values} == {
        name: repr(value) for name, value in values.items()
    }


def test_changes_and_removals_are_one_step(configuration_home: ConfigurationHome, store: ConfigurationStore) -> None:
    """A record replaces the whole record with its id; removed records are deleted."""
    store.update([BROKER, PORT, USERS, ADMIN])
    # Fewer attributes than before: the missing ones must be removed with the old record.
    changed = replace(PORT, attributes={"name": "stomp", "port": 5, "new": True}, is_stopped=True, updated_by="them")
    store.update([changed], [USERS.id, ADMIN.id])
    assert kept(configuration_home, store) == [BROKER, changed]


def test_removing_what_is_not_there_changes_nothing(
    configuration_home: ConfigurationHome, store: ConfigurationStore
) -> None:
    """Removals may be repeated."""
    store.update([BROKER])
    store.update([], [PORT.id])
    store.update([])
    assert kept(configuration_home, store) == [BROKER]


def test_what_was_found_may_be_changed(configuration_home: ConfigurationHome, store: ConfigurationStore) -> None:
    """Records found at the opening may be changed, and a removed object may be created again."""
    store.update([BROKER, PORT])
    store.close()
    again = configuration_home.make()
    again.open(_HOLDER)
    again.update([USERS], [PORT.id])
    # A removed id is used again, as the ids of some objects are derived from their names.
    again.update([PORT])
    assert {each.id: each for each in kept(configuration_home, again)} == {
        each.id: each for each in (BROKER, USERS, PORT)
    }


def test_a_held_store_is_refused_with_the_holders_name(
    configuration_home: ConfigurationHome, store: ConfigurationStore
) -> None:
    """Another store object of this process gets an error that names the holder, does not disturb it, and may open the store afterwards."""
    other = configuration_home.make()
    with pytest.raises(HeldStoreError, match=_HOLDER):
        other.open("other")
    # The refused attempt must not have closed or locked the store for its holder.
    store.update([BROKER])
    store.close()
    assert list(other.open("other")) == [BROKER]
    other.close()


def test_a_store_that_is_not_open_is_not_changed(
    configuration_home: ConfigurationHome, store: ConfigurationStore
) -> None:
    """`close` may be repeated; after it nothing can be changed."""
    store.close()
    store.close()
    with pytest.raises(StoreError):
        store.update([BROKER])
    assert kept(configuration_home, store) == []


def test_it_has_a_name(store: ConfigurationStore) -> None:
    """`where` names the store for operators."""
    assert store.where

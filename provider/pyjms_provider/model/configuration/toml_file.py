"""A configuration store in a TOML file that people write: their comments and their order stay when something is changed.

```toml
version = 1

[broker]                  # the top object: a table with the name of its category
name = "shop"

[[port]]                  # what is below it: a list of tables for each category
name = "stomp"
type = "stomp"

[[authentication_provider]]
name = "file"

[[authentication_provider.user]]  # and so on
name = "operator"
```

Ids are made from names; what the broker must remember besides is in the table `kept` of an object, which people leave alone.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping, Sequence
from typing import Any, Final
from uuid import NAMESPACE_URL, UUID, uuid5

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AoT, InlineTable, Table

from pyjms_provider.model import tree
from pyjms_provider.model.configuration.files import FileConfigurationStore
from pyjms_provider.model.configuration.toml_text import add_table, move_comments, put, unwrapped
from pyjms_provider.stores.configuration_contract import ObjectId, ObjectRecord
from pyjms_provider.stores.errors import DamagedStoreError, ForeignStoreError, NewerStoreError

__all__ = ["TomlConfigurationStore"]

_VERSION: Final = 1
_KEPT: Final = "kept"
_FACTS: Final = {"created_by": str, "created_ms": int, "updated_by": str, "updated_ms": int}
_TOP: Final = "broker"
_EMPTY: Final = f"""\
# Configuration of a pyjms broker. Comments stay when the broker changes something here.
version = {_VERSION}
"""
_HEADER: Final = re.compile(r"^\s*\[\[?\s*([A-Za-z0-9_.\-]+)\s*\]", re.MULTILINE)


class TomlConfigurationStore(FileConfigurationStore):
    """Keeps the broker and what is below it, down to the virtual host nodes, which keep theirs."""

    _document: tomlkit.TOMLDocument
    _next: tomlkit.TOMLDocument

    def _empty(self) -> str:
        return _EMPTY

    def _parse(self, text: str) -> list[ObjectRecord]:
        try:
            self._document = tomlkit.parse(text)
        except TOMLKitError as error:
            raise DamagedStoreError(f"{self.where} is no TOML: {error}; correct it") from error
        version = self._document.get("version")
        if version is None:
            raise ForeignStoreError(f"{self.where} is no configuration of pyjms: it has no version; write version = 1")
        if not isinstance(version, int) or version > _VERSION:
            raise NewerStoreError(
                f"{self.where} has version {version!r}, and this pyjms knows version {_VERSION}: install the pyjms that "
                f"wrote it, or a newer one"
            )
        place_of = _places(self._path.name, text)
        try:
            return [
                _to_record(table, parent, category, place_of) for table, parent, category in _objects(self._document)
            ]
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedStoreError(f"{self.where}{_line_of(error, text)}: {error}; correct it") from error

    def _render(
        self, after: Mapping[ObjectId, ObjectRecord], records: Sequence[ObjectRecord], removed: Collection[ObjectId]
    ) -> str:
        document = self._next = tomlkit.parse(tomlkit.dumps(self._document))  # a copy: the change may not be kept
        for gone in removed:
            _remove(document, gone)
        for record in records:
            found = {_id_of(table, parent, category): table for table, parent, category in _objects(document)}
            table = found.get(record.id)
            if table is None:
                _add(document, found, record)
            else:
                _alter(table, record, found=True)
        return tomlkit.dumps(document)

    def _note_written(self) -> None:
        self._document = self._next


class _UnknownNameError(ValueError):
    """A name at the top of the file means nothing."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(reason)
        self.name = name


def _line_of(error: Exception, text: str) -> str:
    """Return the line where a name stands that means nothing."""
    if not isinstance(error, _UnknownNameError):
        return ""
    found = re.search(rf"^\s*(\[\[?\s*)?[\"']?{re.escape(error.name)}[\"']?\s*[\].=]", text, re.MULTILINE)
    return "" if found is None else f", line {text.count(chr(10), 0, found.end()) + 1}"


_Place = tuple[MutableMapping[str, Any], ObjectId | None, str]


def _objects(document: tomlkit.TOMLDocument) -> Iterator[_Place]:
    """Yield each object's table, its parent's id and its category, parents first."""
    top = document.get(_TOP)
    if top is None:
        unknown = next((name for name in document if name != "version"), None)
        if unknown is not None:
            raise _UnknownNameError(
                unknown, f"{unknown!r} stands here without a table [{_TOP}] that it could belong to"
            )
        return
    if not isinstance(top, MutableMapping):
        raise TypeError(f"{_TOP} is a table; write [{_TOP}]")
    yield top, None, _TOP
    own = _id_of(top, None, _TOP)
    known = {"version", _TOP, *(shape.category for shape in tree.children_of(_TOP))}
    unknown = next((name for name in document if name not in known), None)
    if unknown is not None:
        raise _UnknownNameError(
            unknown, f"there is no category {unknown!r}; there are: {', '.join(sorted(known - {'version'}))}"
        )
    yield from _children(document, own, _TOP)


def _children(container: Mapping[str, Any], parent: ObjectId, category: str) -> Iterator[_Place]:
    for shape in tree.children_of(category):
        found = container.get(shape.category, ())
        for table in found if isinstance(found, (list, tuple)) else (None,):
            if not isinstance(table, MutableMapping):
                raise TypeError(f"{shape.category} is a list of tables; write [[{shape.category}]]")
            yield table, parent, shape.category
            yield from _children(table, _id_of(table, parent, shape.category), shape.category)


def _id_of(table: Mapping[str, Any], parent: ObjectId | None, category: str) -> ObjectId:
    kept = _kept(table).get("id")
    if kept is not None:
        try:
            return ObjectId(UUID(kept))
        except (AttributeError, TypeError, ValueError):
            raise ValueError(
                f"the id {str(kept)!r} in a table {_KEPT!r} is none; leave that table to the broker"
            ) from None
    if parent is None:
        return ObjectId(uuid5(NAMESPACE_URL, f"pyjms:{category}"))
    return ObjectId(uuid5(parent, f"{category}/{table.get('name', '')}"))


def _kept(table: Mapping[str, Any]) -> Mapping[str, Any]:
    found = table.get(_KEPT, {})
    if not isinstance(found, Mapping):
        raise TypeError(f"{_KEPT!r} is a table that the broker writes; take it out")
    return found


def _to_record(
    table: Mapping[str, Any], parent: ObjectId | None, category: str, place_of: Callable[[str], str]
) -> ObjectRecord:
    kept = _kept(table)
    below = {shape.category for shape in tree.children_of(category)} if category != _TOP else set()
    facts = {name: unwrapped(kept[name]) for name in _FACTS if name in kept}
    wrong = [name for name, value in facts.items() if not isinstance(value, _FACTS[name])]
    if wrong or not isinstance(kept.get("stopped", False), bool):
        raise TypeError(
            f"{', '.join(wrong) or 'stopped'} in a table {_KEPT!r} is not what the broker wrote; take it out"
        )
    return ObjectRecord(
        id=_id_of(table, parent, category),
        category=category,
        parent=parent,
        attributes={name: unwrapped(value) for name, value in table.items() if name != _KEPT and name not in below},
        is_stopped=bool(kept.get("stopped", False)),
        source=place_of(category),
        **facts,
    )


def _places(file: str, text: str) -> Callable[[str], str]:
    """Return what tells, for the first, second, … object of a category, the line where it begins."""
    lines: dict[str, list[int]] = {}
    for header in _HEADER.finditer(text):
        category = header[1].rpartition(".")[2]
        lines.setdefault(category, []).append(text.count("\n", 0, header.start(1)) + 1)
    seen: Counter[str] = Counter()

    def place_of(category: str) -> str:
        number = seen[category]
        seen[category] += 1
        found = lines.get(category, [])
        return f"{file}, line {found[number]}" if number < len(found) else file

    return place_of


def _add(
    document: tomlkit.TOMLDocument, found: Mapping[ObjectId, MutableMapping[str, Any]], record: ObjectRecord
) -> None:
    table = tomlkit.table()
    _alter(table, record, found=False)
    if record.parent is None:
        document.append(record.category, table)
        return
    parent = found[record.parent]
    container: MutableMapping[str, Any] = document if parent is document.get(_TOP) else parent
    siblings = container.get(record.category)
    if siblings is None or isinstance(siblings, AoT):
        add_table(container, record.category, table)
    else:
        siblings.append(_inline(table))


def _alter(table: MutableMapping[str, Any], record: ObjectRecord, *, found: bool) -> None:
    """Make a table say what the record says, and leave alone what it says already."""
    below = {shape.category for shape in tree.children_of(record.category)} if record.category != _TOP else set()
    wanted = {name: value for name, value in record.attributes.items() if value is not None and name not in below}
    if wanted.get("type") == "":
        del wanted["type"]
    kept: dict[str, Any] = {name: value for name in _FACTS if (value := getattr(record, name))}
    if record.is_stopped:
        kept["stopped"] = True
    if not found or "id" in table.get(_KEPT, {}):
        kept = {"id": str(record.id), **kept}
    if kept:
        wanted[_KEPT] = kept
    for name in [each for each in table if each not in wanted and each not in below]:
        del table[name]
    for name, value in wanted.items():
        if name not in table or unwrapped(table[name]) != value:
            put(table, name, value)


def _inline(table: Table) -> InlineTable:
    made = tomlkit.inline_table()
    made.update(table.unwrap())
    return made


def _remove(document: tomlkit.TOMLDocument, gone: ObjectId) -> None:
    for table, parent, category in _objects(document):
        if _id_of(table, parent, category) != gone:
            continue
        if parent is None:
            del document[category]
            return
        above = {_id_of(each, its, kind): each for each, its, kind in _objects(document)}[parent]
        container = document if above is document.get(_TOP) else above
        siblings = container[category]
        index = next(index for index, each in enumerate(siblings) if each is table)
        move_comments(document, container, category, index)
        del siblings[index]
        if not siblings:
            del container[category]
        return

"""A configuration store in a TOML file that users write: their comments and their order stay when the broker changes something.

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

Ids are derived from names; other facts of the broker are in the table `kept` of an object, which users leave alone.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping, Sequence
from difflib import SequenceMatcher
from typing import Any, Final
from uuid import NAMESPACE_URL, UUID, uuid5

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AoT, Array, Comment, InlineTable, Item, Key, Table, Whitespace

from pyjms_provider.model import tree
from pyjms_provider.model.configuration.json_file import FileConfigurationStore
from pyjms_provider.stores.configuration_contract import ObjectId, ObjectRecord
from pyjms_provider.stores.errors import DamagedStoreError, ForeignStoreError, NewerStoreError

_INDENT: Final = "    "
_LINE_MAX: Final = 100
_Entry = tuple[Key | None, Any]


def unwrapped(value: Any) -> Any:
    """Return a value without its layout."""
    return value.unwrap() if isinstance(value, Item) else value


def put(table: MutableMapping[str, Any], name: str, value: Any) -> None:
    """Set a value in a table. A new one is placed below the others, above comments that belong to the next table."""
    if name in table:
        old = table[name]
        table[name] = _fitted(old, value) if isinstance(old, Array) and isinstance(value, list) else to_item(value)
        return
    # To the parser, comments above the next table are the end of this one; a new value must be above them.
    trailing = _taken_off(table.value.body) if isinstance(table, Table) else []
    table[name] = to_item(value)
    if isinstance(table, Table):
        table.value.body.extend(trailing)


def move_comments(document: tomlkit.TOMLDocument, container: Mapping[str, Any], name: str, index: int) -> None:
    """Prepare the removal of one of a list of tables: comments above it are removed with it, and those above the next table stay.

    To the parser, lines above a table are the end of the previous table.
    """
    siblings = container[name]
    if not isinstance(siblings, AoT):
        return
    body = _last_body(siblings[index])
    before = _last_body(siblings[index - 1]) if index > 0 else _body_before(document, container, name)
    # Comments stay where they are rather than move to a wrong table.
    if before is None:
        return
    while before and before[-1][0] is None and isinstance(before[-1][1], Comment):
        before.pop()
    following = _taken_off(body)
    # No two empty lines where the table has been.
    while following and before and _is_space(before[-1]) and _is_space(following[0]):
        following.pop(0)
    before.extend(following)


def add_table(container: MutableMapping[str, Any], name: str, table: Table) -> None:
    """Add a table to a list of them, which is created if need be, above comments that belong to the next table."""
    siblings = container.get(name)
    above = siblings[-1] if isinstance(siblings, AoT) else container
    end = _last_body(above) if isinstance(above, Table) else []
    trailing = _taken_off(end)
    if trailing:
        end.append((None, Whitespace("\n")))
    if isinstance(siblings, AoT):
        siblings.append(table)
    else:
        siblings = tomlkit.aot()
        siblings.append(table)
        container[name] = siblings
    if trailing:
        added = _last_body(container[name][-1])
        _taken_off(added)
        added.extend(trailing)


def _taken_off(body: list[_Entry]) -> list[_Entry]:
    """Remove and return the comments and empty lines below the last value."""
    trailing: list[_Entry] = []
    while body and body[-1][0] is None:
        trailing.insert(0, body.pop())
    return trailing


def _is_space(entry: _Entry) -> bool:
    return entry[0] is None and isinstance(entry[1], Whitespace)


def _last_body(table: Any) -> list[_Entry]:
    """Return the keys, values and comments of a table, or of the last table below it."""
    body: list[_Entry] = table.value.body
    below = _body_of_last_table(body)
    return body if below is None else below


def _body_of_last_table(entries: Sequence[_Entry]) -> list[_Entry] | None:
    """Return the contents of the last table of `entries`; None: they do not end with one."""
    for key, value in reversed(entries):
        if isinstance(value, AoT):
            return _last_body(value[-1])
        if isinstance(value, Table):
            return _last_body(value)
        if key is not None:
            break
    return None


def _body_before(document: tomlkit.TOMLDocument, container: Mapping[str, Any], name: str) -> list[_Entry] | None:
    """Return the entries before a list of tables; None: unknown."""
    body: list[_Entry] = document.body if container is document else container.value.body  # type: ignore[attr-defined]
    names = [None if key is None else key.key for key, _ in body]
    if names.count(name) != 1:
        return None
    return _body_of_last_table(body[: names.index(name)])


def to_item(value: Any) -> Any:
    """Return a value in TOML's form: on one line, but for a long list of tables one line for each."""
    if isinstance(value, Mapping):
        made: InlineTable = tomlkit.inline_table()
        made.update({name: to_item(inner) for name, inner in value.items() if inner is not None})
        return made
    if not isinstance(value, (list, tuple)):
        return value
    listed: Array = tomlkit.array()
    for inner in value:
        listed.append(to_item(inner))
    if any(isinstance(inner, Mapping) for inner in value) and len(listed.as_string()) > _LINE_MAX:
        listed.multiline(multiline=True)
    return listed


def _fitted(old: Array, wanted: Sequence[Any]) -> Array:
    """Return a list with the lines of `old`, and the comments above them, for all elements that are equal."""
    chunks, rest = _lines_of(old)
    made: Array = to_item(wanted)
    if chunks is None:
        return made
    lines: list[str] = []
    # By their texts, as elements may be tables, which are not hashable; without the heuristic for frequent elements.
    match = SequenceMatcher(a=[repr(each) for each in old.unwrap()], b=[repr(each) for each in wanted], autojunk=False)
    for tag, first, last, begin, end in match.get_opcodes():
        if tag == "equal":
            lines += [line for chunk in chunks[first:last] for line in chunk]
        else:
            lines += [f"{_INDENT}{tomlkit.item(to_item(each)).as_string()}," for each in wanted[begin:end]]
    try:
        fitted = tomlkit.parse("\n".join(["x = [", *lines, *rest, "]"]))["x"]
    except TOMLKitError:
        return made
    # Checked by parsing: wrongly combined lines must never change a value.
    return fitted if isinstance(fitted, Array) and fitted.unwrap() == list(wanted) else made


def _lines_of(array: Array) -> tuple[list[list[str]] | None, list[str]]:
    """Return the lines of each element, with the comments above it, and the lines below the last.

    None in place of lines: the elements are not on a line each.
    """
    first, *lines = array.as_string().splitlines()
    if first.strip() != "[" or not lines or lines[-1].strip() != "]":
        return None, []
    chunks: list[list[str]] = []
    above: list[str] = []
    for line in lines[:-1]:
        above.append(line)
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        # The last element may have no comma, and needs one when another follows.
        body, hash_, comment = line.partition(" #")
        if not body.rstrip().endswith(","):
            above[-1] = f"{body.rstrip()},{' #' if hash_ else ''}{comment}"
        try:
            # Each line must be one whole element, or lines cannot be exchanged.
            if len(tomlkit.parse("\n".join(["x = [", above[-1], "]"]))["x"].unwrap()) != 1:
                return None, []
        except TOMLKitError:
            return None, []
        chunks.append(above)
        above = []
    return (chunks, above) if len(chunks) == len(array) else (None, [])


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
    """Stores the broker and the objects below it, down to the virtual host nodes, which have stores of their own."""

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
        # The parser keeps no line numbers, so they are found by the headers in the text.
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
        # A copy: the change may not be stored.
        document = self._next = tomlkit.parse(tomlkit.dumps(self._document))
        for object_id in removed:
            _remove(document, object_id)
        for record in records:
            # Computed for each record: an earlier one may have added the parent of this one.
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
    """A name at the top of the file is unknown."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(reason)
        self.name = name


def _line_of(error: Exception, text: str) -> str:
    """Return the line with an unknown name."""
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
        raise _UnknownNameError(unknown, tree.missing(unknown, sorted(known - {"version"})))
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
    # By the names on the way down: users write no ids, and an object keeps its id as long as its name.
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
    # Users may have edited this table, too.
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
    """Return a function that gives, for the first, second, … object of a category, the line where it begins."""
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
    """Set the values of the record in a table, and leave equal ones alone."""
    below = {shape.category for shape in tree.children_of(record.category)} if record.category != _TOP else set()
    wanted = {name: value for name, value in record.attributes.items() if value is not None and name not in below}
    # The only type of its category, which users leave out.
    if wanted.get("type") == "":
        del wanted["type"]
    kept: dict[str, Any] = {name: value for name in _FACTS if (value := getattr(record, name))}
    if record.is_stopped:
        kept["stopped"] = True
    # An object that a user wrote gets no id: its name is enough, and the file stays the user's.
    if not found or "id" in table.get(_KEPT, {}):
        kept = {"id": str(record.id), **kept}
    if kept:
        wanted[_KEPT] = kept
    for name in [each for each in table if each not in wanted and each not in below]:
        del table[name]
    for name, value in wanted.items():
        # Values that are right keep their layout and comments.
        if name not in table or unwrapped(table[name]) != value:
            put(table, name, value)


def _inline(table: Table) -> InlineTable:
    made = tomlkit.inline_table()
    made.update(table.unwrap())
    return made


def _remove(document: tomlkit.TOMLDocument, object_id: ObjectId) -> None:
    for table, parent, category in _objects(document):
        if _id_of(table, parent, category) != object_id:
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

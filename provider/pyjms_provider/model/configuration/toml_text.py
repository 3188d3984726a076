"""Values in a TOML file that people write and read: what has not changed keeps its place, its layout and its comments."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from difflib import SequenceMatcher
from typing import Any, Final

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AoT, Array, Comment, InlineTable, Item, Key, Table, Whitespace

__all__ = ["add_table", "move_comments", "put", "to_item", "unwrapped"]

_INDENT: Final = "    "
_LINE_MAX: Final = 100
_Entry = tuple[Key | None, Any]


def unwrapped(value: Any) -> Any:
    """Return a value without its layout."""
    return value.unwrap() if isinstance(value, Item) else value


def put(table: MutableMapping[str, Any], name: str, value: Any) -> None:
    """Set a value in a table. A new one stands below the others, above comments that belong to what follows the table."""
    if name in table:
        old = table[name]
        table[name] = _fitted(old, value) if isinstance(old, Array) and isinstance(value, list) else to_item(value)
        return
    trailing = _taken_off(table.value.body) if isinstance(table, Table) else []
    table[name] = to_item(value)
    if isinstance(table, Table):
        table.value.body.extend(trailing)


def move_comments(document: tomlkit.TOMLDocument, container: Mapping[str, Any], name: str, index: int) -> None:
    """Before one of a list of tables is removed: have comments above it go with it, and those above what follows stay.

    To the parser, what stands above a table is the end of the table before.
    """
    siblings = container[name]
    if not isinstance(siblings, AoT):
        return
    gone = _last_body(siblings[index])
    before = _last_body(siblings[index - 1]) if index > 0 else _body_before(document, container, name)
    if before is None:
        return
    while before and before[-1][0] is None and isinstance(before[-1][1], Comment):
        before.pop()
    following = _taken_off(gone)
    while following and before and _is_space(before[-1]) and _is_space(following[0]):
        following.pop(0)
    before.extend(following)


def add_table(container: MutableMapping[str, Any], name: str, table: Table) -> None:
    """Add a table to a list of them, which is made if need be, above comments that belong to what follows."""
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
    """Take the comments and empty lines below the last value off, and return them."""
    trailing: list[_Entry] = []
    while body and body[-1][0] is None:
        trailing.insert(0, body.pop())
    return trailing


def _is_space(entry: _Entry) -> bool:
    return entry[0] is None and isinstance(entry[1], Whitespace)


def _last_body(table: Any) -> list[_Entry]:
    """Return the keys, values and comments of a table, or of the last below it."""
    body: list[_Entry] = table.value.body
    below = _body_of_last_table(body)
    return body if below is None else below


def _body_of_last_table(entries: Sequence[_Entry]) -> list[_Entry] | None:
    """Return what is in the last table of `entries`; None: they do not end with one."""
    for key, value in reversed(entries):
        if isinstance(value, AoT):
            return _last_body(value[-1])
        if isinstance(value, Table):
            return _last_body(value)
        if key is not None:
            break
    return None


def _body_before(document: tomlkit.TOMLDocument, container: Mapping[str, Any], name: str) -> list[_Entry] | None:
    """Return what stands before a list of tables; None: that cannot be told."""
    body: list[_Entry] = document.body if container is document else container.value.body  # type: ignore[attr-defined]
    names = [None if key is None else key.key for key, _ in body]
    if names.count(name) != 1:
        return None
    return _body_of_last_table(body[: names.index(name)])


def to_item(value: Any) -> Any:
    """Return a value as TOML has it: on one line, but a list of tables that is long on one line for each."""
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
    """Return a list with the lines of `old`, and the comments above them, where it says what that says."""
    chunks, rest = _lines_of(old)
    made: Array = to_item(wanted)
    if chunks is None:
        return made
    lines: list[str] = []
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
    return fitted if isinstance(fitted, Array) and fitted.unwrap() == list(wanted) else made


def _lines_of(array: Array) -> tuple[list[list[str]] | None, list[str]]:
    """Return the lines of each element, comments above it among them, and what stands below the last.

    None in place of lines: the elements do not stand on a line each.
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
        body, hash_, comment = line.partition(" #")
        if not body.rstrip().endswith(","):
            above[-1] = f"{body.rstrip()},{' #' if hash_ else ''}{comment}"
        try:
            if len(tomlkit.parse("\n".join(["x = [", above[-1], "]"]))["x"].unwrap()) != 1:
                return None, []
        except TOMLKitError:
            return None, []
        chunks.append(above)
        above = []
    return (chunks, above) if len(chunks) == len(array) else (None, [])

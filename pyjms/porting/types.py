"""What the types of Java's library and of JMS have: read from tables, once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from pyjms.porting.jms_members import JMS
from pyjms.porting.library import LIBRARY
from pyjms.porting.library_collections import COLLECTIONS
from pyjms.porting.model import Type

__all__ = ["LIBRARY_TYPES", "PACKAGES", "LibraryType", "Member", "find_members", "is_subclass", "supertypes"]

_CLASS = re.compile(r"(?:class|interface|exception) (?P<name>[\w.]+)(?:<(?P<args>[\w, ]+)>)?(?: < (?P<supers>.+))?")
_MEMBER = re.compile(
    r"(?P<static>static )?(?:(?P<returns>[\w.<>\[\], ]+?) )?(?P<name>\w+)(?P<call>\((?P<params>[^)]*)\))?"
    r"(?: = (?P<template>.*?))?(?: @(?P<flag>\w+))?"
)


@dataclass(frozen=True, slots=True)
class Member:
    """A method, a constructor (`name` is ``new``) or a constant."""

    name: str
    params: tuple[str, ...] | None
    """The types as the table has them; None: it is no method."""
    returns: str
    template: str | None
    """How it is written in Python; None: as in Java."""
    is_static: bool
    flag: str | None
    owner: LibraryType

    @property
    def variadic(self) -> bool:
        """Whether it takes any number of arguments."""
        return bool(self.params) and self.params is not None and self.params[-1].endswith("...")


@dataclass(slots=True)
class LibraryType:
    """A class or interface of the library."""

    name: str
    parameters: tuple[str, ...]
    supers: tuple[str, ...]
    members: list[Member] = field(default_factory=list)


def _read(table: str, package: str) -> Iterator[LibraryType]:
    current: LibraryType | None = None
    for line in filter(str.strip, table.splitlines()):
        if not line.startswith(" "):
            match = _CLASS.fullmatch(line)
            assert match is not None, line
            supers = tuple(part.strip() for part in (match["supers"] or "").split(", ") if part)
            current = LibraryType(package + match["name"], tuple((match["args"] or "").split(", ")), supers)
            yield current
            continue
        match = _MEMBER.fullmatch(line.strip())
        assert match is not None, line
        assert current is not None, line
        params = None if match["call"] is None else tuple(p.strip() for p in match["params"].split(", ") if p.strip())
        returns = match["returns"] or ("void" if match["name"] != "new" else "")
        current.members.append(
            Member(match["name"], params, returns, match["template"], bool(match["static"]), match["flag"], current)
        )


LIBRARY_TYPES: Final[Mapping[str, LibraryType]] = {
    each.name: each
    for table, package in ((JMS, "javax.jms."), (LIBRARY, ""), (COLLECTIONS, ""))
    for each in _read(table, package)
}
_SIMPLE: Final = {name.rpartition(".")[2]: name for name in LIBRARY_TYPES if name != "java.util.Queue"} | {
    "IllegalStateException": "java.lang.IllegalStateException"
}
PACKAGES: Final = frozenset(name.rpartition(".")[0] for name in LIBRARY_TYPES)


def type_named(text: str, arguments: Mapping[str, Type]) -> Type:
    """Return a type as the tables write it: by its simple name, perhaps with arguments and ``[]``."""
    plain = text.removesuffix("...")
    dims = plain.count("[]")
    plain = plain.replace("[]", "")
    if plain in arguments:
        found = arguments[plain]
        return Type(found.name, found.args, found.dims + dims)
    name, _, rest = plain.partition("<")
    args = tuple(type_named(part.strip(), arguments) for part in _split(rest[:-1])) if rest else ()
    return Type(_SIMPLE.get(name, name), args, dims)


def _split(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        depth += (letter == "<") - (letter == ">")
        if letter == "," and not depth:
            parts.append(text[start:place])
            start = place + 1
    return [*parts, text[start:]]


def arguments_of(owner: LibraryType, receiver: Type | None) -> dict[str, Type]:
    """Return what the type parameters of `owner` stand for, at an object of the type `receiver`."""
    given = receiver.args if receiver is not None and receiver.args else ()
    default = Type("java.lang.Object")
    return {
        name: given[place] if place < len(given) else default for place, name in enumerate(owner.parameters) if name
    }


def supertypes(name: str) -> Iterator[LibraryType]:
    """Yield a type of the library, and all that it extends and implements."""
    known = LIBRARY_TYPES.get(name)
    if known is not None:
        yield known
        for each in known.supers:
            yield from supertypes(_SIMPLE.get(each.partition("<")[0], each))


def is_subclass(name: str, other: str) -> bool:
    """Return whether a type of the library is one, or below one."""
    return other in {"java.lang.Object", name} or any(each.name == other for each in supertypes(name))


def find_members(type_name: str, name: str) -> list[Member]:
    """Return the members of a name that a type has, inherited ones last."""
    return [member for each in supertypes(type_name) for member in each.members if member.name == name]

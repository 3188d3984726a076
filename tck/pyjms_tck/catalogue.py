"""The requirements of JMS 1.1 and 2.0 as data: a TOML file for each chapter in the folder ``catalogue``, loaded and checked.

Invariant: the result of `load_catalogue` is consistent. Ids are unique and begin with their section, features are
capabilities of the SPI, and each requirement that cannot be tested says why.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from types import MappingProxyType
from typing import Any

from pyjms.spi.capability import Capability

_TITLES = {
    1: "Introduction",
    2: "Architecture",
    3: "Messages",
    4: "Common facilities",
    5: "Point-to-point",
    6: "Publish/subscribe",
    7: "Exceptions",
    8: "Application servers",
    11: "The API, name by name",
    20: "JMS 2.0",
}
_FILE = re.compile(r"(?P<number>\d\d)-(?P<name>[a-z0-9-]+)\.toml")
_ID = re.compile(r"(?P<section>\d+(\.\d+)*)-[A-Za-z0-9_.]+(-[A-Za-z0-9_.]+)*")
_ASSERTION = re.compile(r"(JMS:(SPEC|JAVADOC):\d+(\.\d+)*|(BOILDOWN|JMS11):[\w.]+:\d+)")


class CatalogueError(ValueError):
    """The catalogue contradicts itself; the text names the file, the id and the correction."""


class Version(StrEnum):
    """The version of JMS in which a requirement came, and by which a provider is judged."""

    V1_1 = "1.1"
    V2_0 = "2.0"
    """JMS 2.0, and Jakarta Messaging 3.1, which is the same under another package name."""


class Level(StrEnum):
    """How binding a requirement is."""

    REQUIRED = "required"
    """Every provider must fulfil it (or, with a feature, every provider that declares the feature)."""
    OPTIONAL = "optional"
    """The provider may offer it; one that does must fulfil it."""
    UNDEFINED = "undefined"
    """The specification leaves the behaviour open: it is recorded, and every permitted behaviour passes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One rule that a provider keeps or breaks."""

    id: str
    """The section, a dash, and a letter or a name: ``3.4.1-a``."""
    section: str
    """The section of JMS 1.1; requirements of JMS 2.0 alone are numbered as a chapter 20."""
    statement: str
    """What must hold, in our own words."""
    level: Level
    hint: str
    """What to check after a failure."""
    chapter: int
    feature: str | None = None
    """The name of the `Capability` that makes a provider subject to it, or None."""
    assertions: tuple[str, ...] = ()
    """The official assertion ids that it covers."""
    testable: bool = True
    reason: str | None = None
    """Why there is no test, for a requirement that is not testable."""
    version: Version = Version.V1_1
    """The first version of JMS that asks for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """A file of the catalogue."""

    number: int
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """All requirements by id, ordered by section and then by id; and the chapters by number."""

    requirements: Mapping[str, Requirement]
    chapters: Mapping[int, Chapter]


@cache
def load_catalogue() -> Catalogue:
    """Return the catalogue of this package. Raises `CatalogueError`."""
    return read_catalogue(resources.files("pyjms_tck") / "catalogue")


def read_catalogue(folder: Traversable) -> Catalogue:
    """Return the catalogue whose files are in `folder`. Raises `CatalogueError`."""
    chapters: dict[int, Chapter] = {}
    found: dict[str, Requirement] = {}
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if not file.name.endswith(".toml"):
            continue
        match = _FILE.fullmatch(file.name)
        if match is None:
            raise CatalogueError(f"{file.name}: name the file NN-name-of-the-chapter.toml, in lower case")
        number = int(match["number"])
        title = _TITLES.get(number) or match["name"].replace("-", " ").capitalize()
        # A chapter may have several files.
        chapters.setdefault(number, Chapter(number=number, title=title))
        for requirement in _read(file, number):
            if requirement.id in found:
                raise CatalogueError(f"{file.name}: {requirement.id} stands twice in the catalogue; give one a new id")
            found[requirement.id] = requirement
    ordered = dict(sorted(found.items(), key=lambda item: order_of(item[0])))
    return Catalogue(requirements=MappingProxyType(ordered), chapters=MappingProxyType(dict(sorted(chapters.items()))))


def order_of(id: str) -> tuple[tuple[int, ...], tuple[tuple[int, str], ...]]:
    """Return a sort key for ids: 3.4.2 before 3.4.10, ``-z`` before ``-aa``, ``-a2`` before ``-a10``."""
    section, _, rest = id.partition("-")
    words = re.findall(r"\d+|\D+", rest)
    return tuple(int(part) for part in section.split(".")), tuple(
        (int(word), "") if word.isdecimal() else (len(word), word) for word in words
    )


_KEYS = {field.name for field in fields(Requirement)} - {"chapter"}
_NEEDED = {"id", "section", "statement", "level", "testable", "hint"}


def _read(file: Traversable, chapter: int) -> Iterator[Requirement]:
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise CatalogueError(f"{file.name} is no TOML: {error}") from error
    if other := sorted(content.keys() - {"requirement"}):
        raise CatalogueError(f"{file.name}: unknown {', '.join(other)}; write [[requirement]] tables only")
    for number, table in enumerate(content.get("requirement", ()), 1):
        where = f"{file.name}: {table.get('id') or f'requirement {number}'}"
        yield _requirement(table, chapter, where)


def _requirement(table: dict[str, Any], chapter: int, where: str) -> Requirement:
    if unknown := sorted(table.keys() - _KEYS):
        raise CatalogueError(f"{where}: unknown {', '.join(unknown)}; known are {', '.join(sorted(_KEYS))}")
    if missing := sorted(key for key in _NEEDED if key not in table):
        raise CatalogueError(f"{where}: {', '.join(missing)} is missing")
    for key, value in table.items():
        wanted: type = {"testable": bool, "assertions": list}.get(key, str)
        if not isinstance(value, wanted) or value == "":
            raise CatalogueError(f"{where}: {key} = {value!r} must be a {wanted.__name__}, and not empty")
    problem = _problem(table, chapter)
    if problem:
        raise CatalogueError(f"{where}: {problem}")
    return Requirement(
        **{
            **table,
            "chapter": chapter,
            "level": Level(table["level"]),
            "version": Version(table.get("version", Version.V1_1)),
            "assertions": tuple(table.get("assertions", ())),
        }
    )


def _problem(table: dict[str, Any], chapter: int) -> str | None:
    """Return an error in the values of a requirement whose keys and types are right."""
    match = _ID.fullmatch(table["id"])
    if match is None or match["section"] != table["section"]:
        return f"an id is the section, a dash, and letters, such as {table['section']}-a"
    if int(table["section"].partition(".")[0]) != chapter:
        return f"section {table['section']} belongs into the file of its chapter"
    if table["level"] not in list(Level):
        return f"level {table['level']!r} is none of {', '.join(Level)}"
    if table.get("version", Version.V1_1) not in list(Version):
        return f"version {table['version']!r} is none of {', '.join(Version)}"
    feature = table.get("feature")
    if feature is not None and feature not in Capability.__members__:
        return f"feature {feature!r} is no member of pyjms.spi.Capability"
    wrong = [text for text in table.get("assertions", ()) if not (isinstance(text, str) and _ASSERTION.fullmatch(text))]
    if wrong:
        return f"assertions {wrong} do not look like JMS:SPEC:2"
    if table["testable"] == ("reason" in table):
        return "a requirement has a reason exactly when it is not testable"
    return None


# The selection of requirements for a run: by id, section, chapter, feature, level, or official assertion. Pure. The
# contract tests of the SPI are selected in the same way: by id, or by part, which replaces the section.

_CONTRACT_PART = "_suite"
"""The end of a contract test's section: the name of its module."""


class SelectionError(ValueError):
    """A selection matches nothing; the text says what is possible."""


def select(catalogue: Catalogue, wanted: Iterable[str]) -> tuple[str, ...]:
    """Return the ids of the requirements that match one of `wanted`, in the order of the catalogue; all if `wanted` is
    empty.

    ``3.4.1-a`` is an id, ``3.4`` a section with all below it, ``3`` a chapter, ``TOPICS`` a feature, ``required`` a
    level, ``JMS:SPEC:2`` an official assertion, ``closing`` a part of the contract of the SPI. Raises `SelectionError`
    for a text that matches nothing.
    """
    wanted = tuple(wanted)
    found: set[str] = set()
    for text in wanted:
        matching = {requirement.id for requirement in catalogue.requirements.values() if _matches(requirement, text)}
        if not matching:
            raise SelectionError(_nothing(catalogue, text))
        found |= matching
    return tuple(id for id in catalogue.requirements if not wanted or id in found)


def in_version(catalogue: Catalogue, version: Version) -> Catalogue:
    """Return the requirements by which a provider of `version` of JMS is judged: those of that version and of earlier ones."""
    found = {id: each for id, each in catalogue.requirements.items() if each.version <= version}
    chapters = {each.chapter for each in found.values()}
    return Catalogue(
        requirements=MappingProxyType(found),
        chapters=MappingProxyType({number: each for number, each in catalogue.chapters.items() if number in chapters}),
    )


def is_selected(requirement: Requirement, wanted: Iterable[str]) -> bool:
    """Return whether one of `wanted` matches a requirement; an empty `wanted` matches all."""
    wanted = tuple(wanted)
    return not wanted or any(_matches(requirement, text) for text in wanted)


def part_of(requirement: Requirement) -> str | None:
    """Return the part of the contract of the SPI to which a requirement belongs; None: it is one of JMS."""
    section = requirement.section
    return section.removesuffix(_CONTRACT_PART) if section.endswith(_CONTRACT_PART) else None


def _matches(requirement: Requirement, text: str) -> bool:
    if re.fullmatch(r"\d+(\.\d+)*", text):
        # The dots at the ends keep 3.4 from matching 3.40.
        return f"{requirement.section}.".startswith(f"{text}.")
    return (
        text in (requirement.id, *requirement.assertions)
        or text.lower() in (requirement.level, part_of(requirement))
        or (requirement.feature is not None and text.upper() == requirement.feature)
    )


def _nothing(catalogue: Catalogue, text: str) -> str:
    parts = list(dict.fromkeys(part for one in catalogue.requirements.values() if (part := part_of(one))))
    known = [*catalogue.requirements, *(parts or (*Capability.__members__, *Level))]
    near = difflib.get_close_matches(text, known, n=1) or difflib.get_close_matches(text.upper(), known, n=1)
    hint = f"; is {near[0]} meant?" if near else "."
    if parts:
        return f"nothing is selected by {text!r}{hint} Write an id, as --list shows them, or a part: {', '.join(parts)}"
    return (
        f"nothing is selected by {text!r}{hint} Write an id (3.4.1-a), a section (3.4), a chapter (3), a feature "
        f"(TOPICS), a level (required) or an official assertion (JMS:SPEC:2)"
    )

"""Reads files of rules, in TOML or JSON; reports all problems, with their places and remedies."""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from pyjms.routing.content import finder
from pyjms.routing.rules import BODIES, Content, Language, Rule, RuleSet, TargetSpec, Transform
from pyjms.routing.transformers import make_transformer
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import InvalidSelectorError
from pyjms.spi.selector import Selector, compile_selector

_BYTES_MAX: Final = 4_000_000


def load_rules(file: Path) -> RuleSet:
    """Return the rules of a file. Raises `RulesError`, `OSError`."""
    data, text = load_document(file)
    return read_rules(data, text)


def load_document(file: Path) -> tuple[Any, str | None]:
    """Return the content of a file, and its text if line numbers can be found in it. Raises `RulesError`, `OSError`."""
    # Reading a pipe or a device may never end.
    if file.exists() and not file.is_file():
        raise RulesError((Problem(file.name, "it is no file, but a folder, a device or a pipe", None),))
    try:
        with file.open("rb") as opened:
            # One byte more than allowed shows that the file is larger, without reading all of it.
            data = opened.read(_BYTES_MAX + 1)
        text = data.decode()
    except UnicodeDecodeError as error:
        raise RulesError((Problem(file.name, f"it is no text in UTF-8: {error.reason}", None),)) from error
    if len(data) > _BYTES_MAX:
        raise RulesError((Problem(file.name, f"it has more than {_BYTES_MAX} bytes; is it the right file?", None),))
    return parse_document(text, file.name)


def parse_document(text: str, name: str) -> tuple[Any, str | None]:
    """Return the result of `load_document` for the text of a file of that name. Raises `RulesError`."""
    is_json = name.lower().endswith(".json")
    try:
        # JSON is returned without its text: only TOML's table headers can be found line by line.
        return (json.loads(text), None) if is_json else (tomllib.loads(text), text)
    except RecursionError as error:
        raise RulesError((Problem(name, "it is nested too deeply; is it the right file?", None),)) from error
    except ValueError as error:
        kind = "JSON" if is_json else "TOML"
        line = getattr(error, "lineno", None)
        raise RulesError((Problem(name, f"it is no {kind}: {error}", line),)) from error


_T = TypeVar("_T")

TOP: Final = ("route", "sender", "body_bytes_max", "undeliverable", "targets", "rule")
RULE: Final = ("name", "sender", "type", "body", "selector", "content", "to", "transform", "tap", "stop")
CONTENT: Final = ("json", "xml", "equals", "where", "exists", "as_number")
TARGET: Final = ("queue", "topic", "url", "user", "password_file", "duplicate_property")
_HEADER: Final = re.compile(r"\s*\[\[\s*(?:rule|\"rule\")\s*\]\]")


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem in a file of rules."""

    place: str
    """A place such as ``rule 3 (big orders), selector``."""
    text: str
    line: int | None

    def __str__(self) -> str:
        """Return it in one line, in the format of compilers."""
        return f"{'' if self.line is None else f'line {self.line}: '}{self.place}: {self.text}"


class RulesError(ValueError):
    """The rules cannot be used: `problems` has all problems found."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


class _Reader:
    """Collects problems while it continues reading."""

    def __init__(self, text: str | None) -> None:
        lines = (text or "").splitlines()
        self._lines = lines
        # tomllib gives no line numbers; the headers are in the order of the rules, so they are counted.
        self._rule_lines = [number for number, line in enumerate(lines, 1) if _HEADER.match(line)]
        self.problems: list[Problem] = []

    def line_of_rule(self, number: int) -> int | None:
        return self._rule_lines[number] if number < len(self._rule_lines) else None

    def complain(self, place: str, text: str, near: int | None = None, word: str = "") -> None:
        """Record a problem; its line is the first one, starting at `near` and within the same table, that begins with
        `word`.
        """
        line = near
        if near is not None and word:
            for number in range(near + 1, len(self._lines) + 1):
                content = self._lines[number - 1].lstrip()
                # The next table begins: a key of the same name there would belong to another rule.
                if content.startswith("[[rule") or (content.startswith("[") and "=" not in content):
                    break
                if content.partition("=")[0].strip().strip('"') == word:
                    line = number
                    break
        self.problems.append(Problem(place, text, line))

    def known(self, table: Mapping[str, Any], names: tuple[str, ...], place: str, near: int | None = None) -> None:
        for name in table:
            if name not in names:
                close = difflib.get_close_matches(str(name), names, 1)
                advice = f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(names)}"
                self.complain(place, f"{name!r} is unknown; {advice}", near, str(name))


def read_rules(data: object, text: str | None = None) -> RuleSet:
    """Return the rules in a document. `text`: its source, for line numbers. Raises `RulesError`."""
    reader = _Reader(text)
    if not isinstance(data, Mapping):
        raise RulesError((Problem("the file", "it is no table; begin with [[rule]]", None),))
    reader.known(data, TOP, "the file")
    targets: dict[str, TargetSpec] = {}
    tables = data.get("targets", {})
    if isinstance(tables, Mapping):
        for name, table in tables.items():
            found = _read_target(reader, str(name), table)
            if found is not None:
                targets[str(name)] = found
    else:
        reader.complain("targets", 'write each target as a table: [targets.erp] queue = "orders"')
    rules = _read_list(reader, data, targets)
    undeliverable = data.get("undeliverable")
    if undeliverable is not None:
        _name_target(reader, undeliverable, targets, "undeliverable", None)
    senders = data.get("sender", ["JMSXUserID", "JMSXAppID"])
    sender_properties = _texts(reader, senders, "sender", None, "the names of properties") or ()
    body_bytes_max = data.get("body_bytes_max", 1 << 20)
    if isinstance(body_bytes_max, bool) or not isinstance(body_bytes_max, int) or body_bytes_max < 0:
        reader.complain("body_bytes_max", f"{body_bytes_max!r} is no number of bytes; write for instance 1048576")
        # Reading continues with any value, so that all problems are reported together.
        body_bytes_max = 0
    if reader.problems:
        raise RulesError(tuple(reader.problems))
    return RuleSet(
        rules=rules,
        targets=targets,
        undeliverable=undeliverable,
        sender_properties=sender_properties,
        body_bytes_max=body_bytes_max,
    )


def _read_list(reader: _Reader, data: Mapping[str, Any], targets: dict[str, TargetSpec]) -> tuple[Rule, ...]:
    tables = data.get("rule", [])
    if not isinstance(tables, list) or not tables:
        reader.complain("the file", 'it has no rules; write [[rule]] and below it to = ["queue:NAME"]')
        return ()
    rules: list[Rule] = []
    names: set[str] = set()
    for number, table in enumerate(tables):
        line = reader.line_of_rule(number)
        if not isinstance(table, Mapping):
            reader.complain(f"rule {number + 1}", "it is no table; write [[rule]]", line)
            continue
        name = table.get("name", f"rule {number + 1}")
        place = f"rule {number + 1}" + (f" ({name})" if "name" in table else "")
        if not isinstance(name, str) or not name or name in names:
            reader.complain(place, "its name is empty or another rule's; each rule has a name of its own", line, "name")
        # Counts and explanations use the name, so two rules must not share one.
        names.add(str(name))
        rules.append(_read_rule(reader, table, str(name), place, line, targets))
    return tuple(rules)


def _read_rule(
    reader: _Reader,
    table: Mapping[str, Any],
    name: str,
    place: str,
    line: int | None,
    targets: dict[str, TargetSpec],
) -> Rule:
    reader.known(table, RULE, place, line)

    def texts(key: str, what: str) -> tuple[str, ...] | None:
        return None if key not in table else _texts(reader, table[key], f"{place}, {key}", line, what, key)

    bodies = texts("body", f"some of {', '.join(BODIES)}")
    for body in bodies or ():
        if body not in BODIES:
            reader.complain(
                f"{place}, body", f"{body!r} is no kind of body; there are: {', '.join(BODIES)}", line, "body"
            )
    chosen = texts("to", "names of targets, or queue:NAME, topic:NAME") or ()
    if not chosen:
        reader.complain(place, 'it sends nothing anywhere; write to = ["queue:NAME"]', line)
    for target in chosen:
        _name_target(reader, target, targets, f"{place}, to", line)
    flags = {}
    for key in ("tap", "stop"):
        flags[key] = table.get(key, False)
        if not isinstance(flags[key], bool):
            reader.complain(f"{place}, {key}", f"{flags[key]!r} is neither true nor false", line, key)
    return Rule(
        name=name,
        targets=chosen,
        senders=texts("sender", "identities of senders"),
        types=texts("type", "values of JMSType"),
        bodies=bodies,
        selector=_selector(reader, table.get("selector"), f"{place}, selector", line, "selector"),
        content=tuple(_each(reader, table, "content", place, line, _read_content)),
        transforms=tuple(_each(reader, table, "transform", place, line, _read_transform)),
        tap=flags["tap"] is True,
        stop=flags["stop"] is True,
        line=line,
    )


def _each(
    reader: _Reader,
    table: Mapping[str, Any],
    key: str,
    place: str,
    line: int | None,
    read: Callable[[_Reader, Mapping[str, Any], str, int | None], _T | None],
) -> list[_T]:
    given = table.get(key, [])
    if not isinstance(given, list) or not all(isinstance(each, Mapping) for each in given):
        reader.complain(f"{place}, {key}", f"write a list of tables: {key} = [{{ … }}]", line, key)
        return []
    found = [read(reader, each, f"{place}, {key} {number}", line) for number, each in enumerate(given, 1)]
    return [each for each in found if each is not None]


def _read_content(reader: _Reader, table: Mapping[str, Any], place: str, line: int | None) -> Content | None:
    reader.known(table, CONTENT, place, line)
    languages = [each for each in Language if each.value in table]
    tests = [each for each in ("equals", "where", "exists") if each in table]
    if len(languages) != 1 or len(tests) != 1:
        reader.complain(
            place,
            'give one path and one test, as { json = "/customer/country", equals = "DE" }; the tests are equals, where, exists',
            line,
            "content",
        )
        return None
    equals = table.get("equals")
    values = None if equals is None else tuple(equals) if isinstance(equals, list) else (equals,)
    is_right = values is None or (bool(values) and all(isinstance(each, (str, int, float)) for each in values))
    exists, as_number = table.get("exists"), table.get("as_number", False)
    if not is_right or not isinstance(exists, (bool, type(None))) or not isinstance(as_number, bool):
        reader.complain(
            place,
            "equals takes texts, numbers, true or false; exists and as_number take true or false",
            line,
            "content",
        )
        return None
    where = _selector(reader, table.get("where"), f"{place}, where", line, "content")
    if where is not None and where.identifiers != {"value"}:
        reader.complain(place, "where speaks of the identifier value alone, as in value > 100", line, "content")
        return None
    content = Content(
        language=languages[0],
        path=str(table[languages[0].value]),
        equals=values,
        where=where,
        exists=exists,
        as_number=as_number,
    )
    try:
        # The result is dropped: it only reports a wrong path now and not at the first message.
        finder(content)
    except ValueError as error:
        reader.complain(place, str(error), line, "content")
        return None
    # A refused selector has been reported; meanwhile the condition must not match everything.
    return content if tests != ["where"] or where is not None else None


def _read_transform(reader: _Reader, table: Mapping[str, Any], place: str, line: int | None) -> Transform | None:
    use = table.get("use")
    if not isinstance(use, str):
        reader.complain(place, 'it names no transformer; write { use = "set", … }', line, "transform")
        return None
    try:
        made = make_transformer(use, {name: value for name, value in table.items() if name != "use"})
    except ValueError as error:
        reader.complain(place, str(error), line, "transform")
        return None
    return Transform(use=use, apply=made)


def _selector(reader: _Reader, given: object, place: str, line: int | None, word: str) -> Selector | None:
    if given is None:
        return None
    if not isinstance(given, str):
        reader.complain(place, f"{given!r} is no text", line, word)
        return None
    try:
        return compile_selector(given)
    except InvalidSelectorError as error:
        reader.complain(place, error.reason, line, word)
        return None


def _texts(
    reader: _Reader, given: object, place: str, line: int | None, what: str, word: str = ""
) -> tuple[str, ...] | None:
    """Return a text, or a list of texts."""
    found = [given] if isinstance(given, str) else given
    if not isinstance(found, list) or not found or not all(isinstance(each, str) and each for each in found):
        reader.complain(place, f"write a text or a list of texts: {what}", line, word)
        return None
    return tuple(dict.fromkeys(found))


def _name_target(reader: _Reader, name: object, targets: dict[str, TargetSpec], place: str, line: int | None) -> None:
    """Check that a name denotes a target; ``queue:NAME`` and ``topic:NAME`` are targets at the source's site."""
    if isinstance(name, str) and name in targets:
        return
    kind, colon, rest = str(name).partition(":")
    if colon and rest and kind in {"queue", "topic"}:
        # Entered like a named target, so that the rest of the code has only one kind.
        targets[str(name)] = TargetSpec(address=Address(AddressKind[kind.upper()], rest))
        return
    known = ", ".join(each for each in targets if ":" not in each) or "none"
    reader.complain(
        place, f"there is no target {name!r}; write queue:NAME or topic:NAME, or one of [targets]: {known}", line, "to"
    )


def _read_target(reader: _Reader, name: str, table: object) -> TargetSpec | None:
    place = f"targets.{name}"
    if not isinstance(table, Mapping):
        reader.complain(place, 'it is no table; write { queue = "orders", url = "stomp://HOST:PORT" }')
        return None
    reader.known(table, TARGET, place)
    for key, value in table.items():
        if not isinstance(value, str) or not value:
            reader.complain(place, f"{key} = {value!r} is no text")
            return None
    if ("queue" in table) == ("topic" in table):
        reader.complain(place, "it needs a queue or a topic, and not both")
        return None
    kind = AddressKind.QUEUE if "queue" in table else AddressKind.TOPIC
    return TargetSpec(
        address=Address(kind, table["queue" if "queue" in table else "topic"]),
        url=table.get("url"),
        user=table.get("user"),
        password_file=table.get("password_file"),
        duplicate_property=table.get("duplicate_property"),
    )

"""Paths into message bodies. Pure.

JSON: a JSON Pointer (RFC 6901), such as ``/customer/country`` or ``/lines/0/item``; ``*`` stands for any member of an array or an
object. XML: the paths of Python's ElementTree from the root on, such as ``customer/address[1]/city`` or ``.//{urn:shop}item``, and
an attribute at the end as ``customer/@country``; ``.`` is the root itself.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias
from xml.etree.ElementTree import Element

from pyjms.routing.facts import ABSENT, Facts, read_pointer
from pyjms.routing.rules import Content, Language
from pyjms.spi.envelope import Address, AddressKind, BodyKind, Envelope

if TYPE_CHECKING:
    from pyjms.types import Stored

Finder: TypeAlias = Callable[[Facts], tuple[Any, ...]]
"""Returns the values at a path: strings, numbers, booleans, None, and for JSON also lists and dicts."""

# ElementTree visits each element again for each //, so the time grows with a power of the size of the body.
_ANYWHERE_MAX = 2
_NOWHERE = Address(AddressKind.QUEUE, "value")


def finder(content: Content) -> Finder:
    """Return the function that finds the values of a condition. Raises ValueError for an invalid path."""
    find = _json_finder(content.path) if content.language is Language.JSON else _xml_finder(content.path)
    if not content.as_number:
        return find
    return lambda facts: tuple(number for value in find(facts) if (number := _number(value)) is not None)


def _json_finder(path: str) -> Finder:
    steps = read_pointer(path)
    # Paths without a wildcard find one value at most, and need no generator.
    if "*" not in steps:
        return _walker(steps)
    return lambda facts: tuple(_walk_all(facts.json, steps))


def _walker(steps: tuple[str, ...]) -> Finder:
    def walk(facts: Facts) -> tuple[Any, ...]:
        value = facts.json
        for step in steps:
            # JSON's objects are plain dictionaries, and the usual case, so no function is called for their members.
            value = value.get(step, ABSENT) if type(value) is dict else _member(value, step)
        return () if value is ABSENT else (value,)

    return walk


def _walk_all(value: Any, steps: tuple[str, ...]) -> Iterator[Any]:
    if value is ABSENT:
        return
    if not steps:
        yield value
        return
    step, rest = steps[0], steps[1:]
    members: Iterable[Any] = (_member(value, step),)
    if step == "*":
        members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for member in members:
        yield from _walk_all(member, rest)


def _member(value: Any, step: str) -> Any:
    if isinstance(value, dict):
        return value.get(step, ABSENT)
    # Not every digit of Unicode is one for int(), which also refuses texts of more than 4,300 digits.
    if isinstance(value, list) and step.isascii() and step.isdigit() and len(step) < 10:
        return value[int(step)] if int(step) < len(value) else ABSENT
    return ABSENT


def _xml_finder(path: str) -> Finder:
    # An @ within brackets belongs to a predicate, as in item[@id='7'], and names no attribute to return.
    elements, _, attribute = path.rpartition("@") if "@" in path.rpartition("]")[2] else (path, "", "")
    place = elements.rstrip("/") or "."
    if place.startswith("/"):
        raise ValueError(f"{path!r} begins with a slash; paths begin below the root: write {place.lstrip('/')!r}")
    if place.count("//") > _ANYWHERE_MAX:
        raise ValueError(
            f"{path!r} has // more than {_ANYWHERE_MAX} times: each looks at all that is below what the ones before it found"
        )
    try:
        # ElementTree compiles a path only at its first use, so it is tried when the rules are read.
        Element("probe").findall(place)
    except (SyntaxError, KeyError, TypeError) as error:  # TypeError: a path that ends within brackets
        raise ValueError(f"{path!r} is no path of ElementTree: {error}") from error

    def find(facts: Facts) -> tuple[Any, ...]:
        root = facts.xml
        if root is None:
            return ()
        found = [root] if place == "." else root.findall(place)
        if attribute:
            return tuple(each.attrib[attribute] for each in found if attribute in each.attrib)
        return tuple((each.text or "").strip() for each in found)

    return find


def _number(value: Any) -> int | float | None:
    # A bool is an int in Python, but true is no number in JSON.
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    try:
        # As an int first: a float has 53 bits, and different large numbers would become equal.
        return int(value) if not isinstance(value, float) else value
    except ValueError:
        try:
            return float(value)
        except ValueError:
            return None


def key_of(value: Any) -> Hashable:
    """Return a key that equal values share: for numbers the value, whatever their type; True is no 1."""
    if isinstance(value, bool):
        return (bool, value)
    return value if isinstance(value, (str, int, float)) else None


def holds(content: Content, values: tuple[Any, ...]) -> bool:
    """Say whether a condition holds for the values at its path."""
    if content.equals is not None:
        wanted = {key_of(each) for each in content.equals}
        return any(value is not None and key_of(value) in wanted for value in values)
    if content.where is not None:
        return any(content.where.matches(_as_message(value)) for value in values)
    return bool(values) is content.exists


def _as_message(value: Any) -> Envelope:
    """Return a message with the property ``value`` for a selector; null and values with members are null to it."""
    stored: Stored = value if isinstance(value, (str, int, float, bool)) else None
    # A property has at most a Java long; JSON's numbers are unbounded, and beyond 10**308 not even floats.
    if isinstance(stored, int) and not -(2**63) <= stored < 2**63:
        stored = float(stored) if abs(stored) < 10**300 else None
    properties = {} if stored is None else {"value": stored}
    return Envelope(_NOWHERE, None, 0, 0, 2, 4, None, None, None, properties, BodyKind.NONE, None)

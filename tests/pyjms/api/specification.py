"""The API of JMS 1.1 as data (`tests/data/spec/jms11-api.json`), in the shape that tests ask for."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_overloads

_FILE = Path(__file__).resolve().parents[2] / "data" / "spec" / "jms11-api.json"
_DATA: dict[str, Any] = json.loads(_FILE.read_text(encoding="utf-8"))

JAVA_EXCEPTIONS: tuple[str, ...] = tuple(
    entry["python"] for entry in _DATA["java_runtime_exceptions_named_by_the_specification"]
)


@dataclass(frozen=True, slots=True)
class Method:
    """One Java method with all its overloads, each a list of parameter names as Python spells them."""

    java: str
    python: str
    is_property: bool
    overloads: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Property:
    """One property; `setter` is None if it can only be read."""

    python: str
    getter: str
    setter: str | None


@dataclass(frozen=True, slots=True)
class Type:
    """One interface, class or exception with the members that it declares itself."""

    name: str
    kind: str
    bases: tuple[str, ...]
    constants: dict[str, int]
    constructors: tuple[tuple[str, ...], ...]
    methods: tuple[Method, ...]
    properties: tuple[Property, ...]
    wrong_domain: tuple[str, ...]


def _names(overload: dict[str, Any]) -> tuple[str, ...]:
    return tuple(parameter["py"] for parameter in overload["params"])


def _type(entry: dict[str, Any]) -> Type:
    return Type(
        name=entry["name"],
        kind=entry["kind"],
        bases=tuple(entry["extends"]),
        constants={constant["name"]: constant["value"] for constant in entry["constants"]},
        constructors=tuple(_names(constructor) for constructor in entry["constructors"]),
        methods=tuple(
            Method(
                java=method["java"],
                python=method["python"]["name"],
                is_property=method["python"]["kind"] == "property",
                overloads=tuple(_names(overload) for overload in method["overloads"]),
            )
            for method in entry["methods"]
        ),
        properties=tuple(
            Property(python=found["name"], getter=found["getter"], setter=found["setter"])
            for found in entry["properties"]
        ),
        wrong_domain=tuple(entry.get("inherited_methods_that_throw_IllegalStateException", ())),
    )


TYPES: dict[str, Type] = {entry["name"]: _type(entry) for entry in _DATA["types"]}


def lineage(name: str) -> Iterator[Type]:
    """Yield the type and all that it extends within JMS."""
    found = TYPES.get(name)
    if found:
        yield found
        for base in found.bases:
            yield from lineage(base)


def accepts(function: Callable[..., Any], overload: tuple[str, ...]) -> bool:
    """Tell whether `function`, bound or not, can be called with these arguments, by position and by keyword."""
    variants = get_overloads(inspect.unwrap(getattr(function, "__func__", function))) or [function]
    first = () if inspect.ismethod(function) and variants == [function] else (None,)
    by_position = (*first, *overload)
    keywords = dict.fromkeys(overload)
    return any(_binds(variant, by_position, {}) for variant in variants) and any(
        _binds(variant, first, keywords) for variant in variants
    )


def _binds(function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
    try:
        inspect.signature(function).bind(*arguments, **keywords)
    except TypeError:
        return False
    return True

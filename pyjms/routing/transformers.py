"""Transformers of messages: built-in ones, and those of the entry-point group ``pyjms.transformers``.

An entry point is a function that takes the settings of one use, and returns the transformer: a function from envelope
to envelope. It raises ValueError for settings that it cannot use; the transformer raises it for a message that it
cannot transform, which then is undeliverable.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from pyjms.routing.facts import read_pointer
from pyjms.spi.envelope import BodyKind, Envelope
from pyjms.spi.registry import entry_points
from pyjms.spi.selector.headers import ATTRIBUTES, FUNCTIONS, read
from pyjms.spi.selector.lexical import is_identifier
from pyjms.spi.words import reason_of
from pyjms.types import Long, Stored

ENTRY_POINT_GROUP: Final = "pyjms.transformers"

Transformer: TypeAlias = Callable[[Envelope], Envelope]
TransformerFactory: TypeAlias = Callable[[Mapping[str, Any]], Transformer]


class TransformerError(ValueError):
    """A transformer is unknown, its settings cannot be used, or it cannot transform the message."""


_INT_MAX: Final = 2**31
_HEADERS: Final = (*ATTRIBUTES, *FUNCTIONS)


def known_transformers() -> tuple[str, ...]:
    """Return the names that `find_transformer` knows, sorted."""
    return tuple(sorted({*BUILT_IN, *(point.name for point in entry_points(group=ENTRY_POINT_GROUP))}))


def find_transformer(name: str) -> TransformerFactory:
    """Return the factory of the transformers of a name. Raises `TransformerError` if there is none."""
    # Built-in names take precedence, so that an installed package cannot change the meaning of existing rules.
    if name in BUILT_IN:
        return BUILT_IN[name]
    for point in entry_points(group=ENTRY_POINT_GROUP, name=name):
        try:
            found: TransformerFactory = point.load()
        except (ImportError, AttributeError) as error:
            raise TransformerError(f"the transformer {name!r} ({point.value}) cannot be loaded: {error}") from error
        return found
    raise TransformerError(f"there is no transformer {name!r}; there are: {', '.join(known_transformers())}")


def make_transformer(name: str, settings: Mapping[str, Any]) -> Transformer:
    """Return the transformer of one use. Raises `ValueError`: the name is unknown, or it cannot use the settings."""
    make = find_transformer(name)
    try:
        return make(settings)
    except ValueError:
        raise
    except Exception as error:  # foreign code: it may fail in any way, which must not affect the other rules
        raise TransformerError(f"the transformer {name!r} cannot use its settings: {reason_of(error)}") from error


def _set(settings: Mapping[str, Any]) -> Transformer:
    """Set properties."""
    wanted = _only(settings, "properties")["properties"]
    if not isinstance(wanted, Mapping) or not wanted:
        raise TransformerError('"set" needs properties = { NAME = VALUE }')
    # Checked and typed once, and not for each message.
    stored: dict[str, Stored] = {_property(name): _stored(value, name) for name, value in wanted.items()}
    return lambda envelope: replace(envelope, properties={**envelope.properties, **stored})


def _remove(settings: Mapping[str, Any]) -> Transformer:
    """Remove properties."""
    names = _only(settings, "properties")["properties"]
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise TransformerError('"remove" needs properties = ["NAME"]')
    unwanted = frozenset(names)
    return lambda envelope: replace(
        envelope, properties={name: value for name, value in envelope.properties.items() if name not in unwanted}
    )


def _copy(settings: Mapping[str, Any]) -> Transformer:
    """Copy a header field to a property; null is not copied."""
    given = _only(settings, "header", "to")
    header, to = given["header"], _property(given["to"])
    if header not in _HEADERS:
        raise TransformerError(f'"copy" copies one of {", ".join(_HEADERS)}; {header!r} is none')

    def copy(envelope: Envelope) -> Envelope:
        value = read(envelope, header)
        if value is None:
            return envelope
        # A time does not fit a Java int, the type of a plain int.
        stored = Long(value) if header == "JMSTimestamp" and isinstance(value, int) else value
        return replace(envelope, properties={**envelope.properties, to: stored})

    return copy


def _type(settings: Mapping[str, Any]) -> Transformer:
    """Change JMSType."""
    value = _only(settings, "value")["value"]
    if not isinstance(value, str):
        raise TransformerError('"type" needs value = "TEXT"')
    return lambda envelope: replace(envelope, jms_type=value)


def _map_json(settings: Mapping[str, Any]) -> Transformer:
    """Make a JSON object of fields of another one; missing fields are left out."""
    fields = _only(settings, "fields")["fields"]
    if not isinstance(fields, Mapping) or not fields:
        raise TransformerError('"map-json" needs fields = { new_name = "/old/path" }')
    paths = {str(name): read_pointer(str(path)) for name, path in fields.items()}

    def map_fields(envelope: Envelope) -> Envelope:
        body = envelope.body
        if isinstance(body, bytes):
            body = body.decode()
        if not isinstance(body, str):
            raise TransformerError("the body is no text, and map-json needs JSON")
        try:
            document = json.loads(body)
        # RecursionError is no ValueError: uncaught, it would be reported as a fault of the transformer.
        except RecursionError:
            raise TransformerError("the body is JSON that is nested too deeply") from None
        made = {name: value[0] for name, steps in paths.items() if (value := _at(document, steps))}
        # Without escapes, which would make a body in UTF-8 longer.
        text = json.dumps(made, ensure_ascii=False)
        is_bytes = envelope.body_kind is BodyKind.BYTES
        return replace(envelope, body=text.encode() if is_bytes else text)

    return map_fields


def _at(value: Any, steps: tuple[str, ...]) -> tuple[Any, ...]:
    for step in steps:
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            return ()
    return (value,)


def _only(settings: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """Return the settings, if they have these keys and no others."""
    if set(settings) != set(names):
        raise TransformerError(f"its settings are {', '.join(names)}; given: {', '.join(settings) or 'none'}")
    return settings


def _property(name: object) -> str:
    if not isinstance(name, str) or not is_identifier(name) or name.startswith("JMS"):
        raise TransformerError(
            f"{name!r} is no name of a property: write letters, digits and _, not beginning with JMS"
        )
    return name


def _stored(value: object, name: str) -> Stored:
    # bool before int, as it is an int in Python.
    if isinstance(value, (bool, str, float)):
        return value
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        # A plain int is a Java int in properties; larger numbers need a long.
        return value if -_INT_MAX <= value < _INT_MAX else Long(value)
    raise TransformerError(f"{name} = {value!r} is no value of a property: write a text, a number, true or false")


BUILT_IN: Final[Mapping[str, TransformerFactory]] = MappingProxyType(
    {"set": _set, "remove": _remove, "copy": _copy, "type": _type, "map-json": _map_json}
)
"""By the name in rules."""

"""Attributes, declared once per category on a class; all code that shows or sets them reads the declarations there.

An object has its *actual* attributes, as they were given, which may hold variables, and its *effective* ones: an instance of
the category's `Attributes`, with defaults, variables replaced, and values converted. Errors of pydantic's validation are
reported as `InvalidAttributesError`.

A context variable, ``${foo}``, stands for a value from the object, its ancestors, or the process, and may use other variables;
``$${`` stands for ``${`` itself. `managed.ManagedObject.variable` looks values up; this module reads texts.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from functools import cache
from typing import Annotated, Any, ClassVar, Final, Literal, get_args, get_origin
from urllib.parse import quote, unquote

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from pyjms.spi.words import plain_words
from pyjms_provider.core.policy import read_bytes
from pyjms_provider.model.errors import (
    BadVariableError,
    CyclicVariableError,
    InvalidAttributesError,
    LongVariableError,
    Problem,
    UnknownVariableError,
)
from pyjms_provider.security.contracts import Operation, TargetKind

Lookup = Callable[[str], str | None]
_LOOKUPS_MAX: Final = 10_000
_CHARACTERS_MAX: Final = 1_000_000

DEFAULTS: Final[Mapping[str, str]] = {
    "pyjms.work_dir": "pyjms-data",
    "pyjms.alert.messages": "0",
    "pyjms.alert.bytes": "0",
    "pyjms.alert.age_ms": "0",
    "pyjms.alert.message_bytes": "0",
    "pyjms.alert.repeat_gap_ms": "600000",
}
"""The values of variables without a value of their own: the folder for all files of a broker; no alerts."""

_BEGIN: Final = "${"
_END: Final = "}"


def process_variable(name: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """Return a variable of the process's environment: `name` as it is, or ``pyjms.stomp.port`` as PYJMS_STOMP_PORT."""
    value = environment.get(name)
    if value is None:
        # Shells allow neither dots nor dashes in the names of variables.
        value = environment.get(name.upper().replace(".", "_").replace("-", "_"))
    return DEFAULTS.get(name) if value is None else value


class Effort:
    """Limits the work of resolving one object: a few dozen variables, each of two others, would take exponential time."""

    def __init__(self) -> None:
        self._lookups = 0
        self._characters = 0

    def note(self, value: str) -> None:
        """Count one value. Raises `LongVariableError`."""
        self._lookups += 1
        self._characters += len(value)
        if self._lookups > _LOOKUPS_MAX or self._characters > _CHARACTERS_MAX:
            raise LongVariableError(
                f"its variables lead to more than {_LOOKUPS_MAX} others, or {_CHARACTERS_MAX} characters; use fewer within others"
            )


def interpolate(text: str, lookup: Lookup, effort: Effort | None = None) -> str:
    """Return `text` with its variables replaced; `effort`: the limit, shared by several texts.

    Raises `UnknownVariableError`, `CyclicVariableError` (which names the cycle), `LongVariableError`, `BadVariableError`.
    """
    return _expand(text, lookup, (), effort or Effort())


def interpolate_all(value: Any, lookup: Lookup, effort: Effort | None = None) -> Any:
    """Replace the variables in every text within lists and maps. Raises as `interpolate`."""
    # One count for all texts of the object, so that many attributes together cannot exceed the limit either.
    effort = effort or Effort()
    if isinstance(value, str):
        return interpolate(value, lookup, effort)
    if isinstance(value, Mapping):
        return {key: interpolate_all(inner, lookup, effort) for key, inner in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [interpolate_all(inner, lookup, effort) for inner in value]
    return value


def refers_only(text: str) -> bool:
    """Return whether `text` is one variable and nothing else, so that it contains no secret itself."""
    return text.startswith(_BEGIN) and text.find(_END) == len(text) - 1 and text.count(_BEGIN) == 1


def _expand(text: str, lookup: Lookup, path: tuple[str, ...], effort: Effort) -> str:
    pieces: list[str] = []
    at = 0
    while (begin := text.find(_BEGIN, at)) >= 0:
        # Only a dollar sign of this piece counts: one that was read already belongs to the escape before.
        if begin > at and text[begin - 1] == "$":
            pieces.append(text[at : begin - 1] + _BEGIN)
            at = begin + len(_BEGIN)
            continue
        end = text.find(_END, begin)
        name = text[begin + len(_BEGIN) : end]
        if end < 0 or not name or _BEGIN in name:
            # The text is not quoted, as it may be a secret.
            raise BadVariableError(
                "it has a ${ that is no variable; write ${name}, or $${ for the characters themselves"
            )
        pieces.append(text[at:begin] + _value(name, lookup, path, effort))
        at = end + len(_END)
    return "".join(pieces) + text[at:]


def _value(name: str, lookup: Lookup, path: tuple[str, ...], effort: Effort) -> str:
    if name in path:
        cycle = " → ".join((*path[path.index(name) :], name))
        raise CyclicVariableError(f"variables lead back to themselves: {cycle}; give one of them a plain value")
    value = lookup(name)
    if value is None:
        raise UnknownVariableError(
            f"there is no variable {name!r}: give it a value in the context of the object or of one above it, in that of "
            f"the system, or in the environment of the process"
        )
    # The path goes down with each level, so that a cycle is found at its first repetition.
    found = _expand(value, lookup, (*path, name), effort)
    effort.note(found)
    return found


MASK: Final = "********"
"""Shown in place of a secret; given as a value, it leaves the secret as it is."""

Secret = SecretStr
"""The type of attributes that hold passwords and private keys; only `get_secret_value` returns the text."""

_MUTABLE, _SECURE, _UNIT, _REFERS = "x-mutable", "x-secure", "x-unit", "x-refers-to"


def _read_bytes(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    found = read_bytes(value)
    if found is None:
        raise ValueError("should be a number of bytes, as 200MB or 1GiB")
    return found


ByteCount = Annotated[int, BeforeValidator(_read_bytes)]
"""A number of bytes, which may be written with a unit: ``200MB``, ``1GiB``."""
_CONTROL: Final = r"\x00-\x1f\x7f"
Reached = tuple[Operation, TargetKind, str]
"""An operation on a destination of the same virtual host."""
Name = Annotated[str, Field(min_length=1, max_length=255, pattern=rf"^[^{_CONTROL}]+$")]
"""A name of an object: any text on one line."""


def attribute(
    description: str,
    *,
    default: Any = PydanticUndefined,
    mutable: bool = True,
    secure: bool = False,
    unit: str | None = None,
    refers_to: str | None = None,
    **constraints: Any,
) -> Any:
    """Declare an attribute; its type is the annotation of the field.

    `default`: of any type, may hold variables; without one the attribute is mandatory. `mutable` False: it is set
    when the object is created, and stays. `secure`: it is never shown, and stored encrypted; its type is `Secret`.
    `refers_to`: the category whose objects it names, which stand beside this object or beside one above it.
    `constraints`: as pydantic's `Field` has them (`ge`, `le`, `min_length`, `pattern`, …).
    """
    extra: dict[str, Any] = {_MUTABLE: mutable, _SECURE: secure}
    if unit is not None:
        extra[_UNIT] = unit
    if refers_to is not None:
        extra[_REFERS] = refers_to
    return Field(default=default, description=description, json_schema_extra=extra, **constraints)


class Attributes(BaseModel):
    """The effective attributes of an object, and, as a class, their declaration. The fields here are those of every category."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    name: Name = attribute("What the object is called; unique among its siblings.", mutable=False)
    type: str = attribute("The specialisation of its category.", default="", mutable=False)
    description: str | None = attribute("Free text for people.", default=None, max_length=10_000)
    durable: bool = attribute("Whether it survives a restart of the broker.", default=True, mutable=False)
    context: dict[str, str] = attribute("Variables for this object and those below it.", default={}, max_length=1_000)

    def reaches(self) -> Iterator[Reached]:
        """Yield the object's operations on other destinations of its host: a user who configures them needs the right to them."""
        yield from ()

    def places(self) -> Iterator[str]:
        """Yield the places to which its secrets are sent, if it has any: a user who changes them must know the secrets."""
        for name in ("url", "store_url"):
            if name in type(self).model_fields:
                yield str(getattr(self, name))


class ImmutableModel(BaseModel):
    """An immutable structured value of attributes, arguments and results, with declared fields only."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeDeclaration:
    """The declaration of an attribute, for code that shows it or asks for it."""

    name: str
    description: str
    is_mandatory: bool
    default: Any
    """As declared, with its variables; None for a mandatory attribute."""
    is_mutable: bool
    is_secure: bool
    unit: str | None
    refers_to: str | None
    """The category of the objects that it names."""
    allowed: tuple[Any, ...] | None
    """All values that it may have, if they can be listed."""
    schema: Mapping[str, Any]
    """Its type and limits as a JSON schema."""


@cache
def declarations(kind: type[Attributes]) -> Mapping[str, AttributeDeclaration]:
    """Return the declarations of a class of attributes by name, in the order of declaration."""
    # Cached for each class: making a schema is slow, and each view of an object asks for it.
    schema = kind.model_json_schema()
    definitions = schema.get("$defs", {})
    return {
        name: _declaration(
            name, field, {**schema["properties"][name], **({"$defs": definitions} if definitions else {})}
        )
        for name, field in kind.model_fields.items()
    }


def _declaration(name: str, field: FieldInfo, schema: Mapping[str, Any]) -> AttributeDeclaration:
    extra = field.json_schema_extra
    assert isinstance(extra, dict), f"{name} was not declared by attribute()"
    unit, refers_to = extra.get(_UNIT), extra.get(_REFERS)
    return AttributeDeclaration(
        name=name,
        description=field.description or "",
        is_mandatory=field.is_required(),
        default=None if field.is_required() else plain(field.default),
        is_mutable=bool(extra[_MUTABLE]),
        is_secure=bool(extra[_SECURE]),
        unit=None if unit is None else str(unit),
        refers_to=None if refers_to is None else str(refers_to),
        allowed=_allowed(field.annotation) or _listed(schema),
        schema=schema,
    )


def _allowed(annotation: Any) -> tuple[Any, ...] | None:
    if annotation is bool:
        return (True, False)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return tuple(member.value for member in annotation)
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return None


def _listed(schema: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """Return the values that a type lists in its own schema: those that packages bring are in no annotation."""
    found = schema.get("enum")
    return tuple(found) if isinstance(found, list) else None


def resolve(
    kind: type[Attributes], actual: Mapping[str, Any], lookup: Callable[[str], str | None], where: str
) -> Attributes:
    """Return the effective attributes: defaults filled in, variables replaced, values converted.

    `where` names the object in errors. Raises `InvalidAttributesError`, which lists all wrong attributes.
    """
    problems = [_unknown(name, kind) for name in actual if name not in kind.model_fields]
    # Defaults without variables are the same for all objects, and most attributes have them.
    values = dict(_plain_defaults(kind))
    effort = Effort()
    for name, field in kind.model_fields.items():
        if name in values and name not in actual:
            continue
        raw = actual.get(name, field.default)
        if raw is PydanticUndefined:
            problems.append(Problem(name=name, text="is mandatory; give it a value"))
            continue
        try:
            # The context is not replaced: its texts are read where they are used,
            # and may name variables of objects below.
            value = raw if name == "context" else _from_text(field, interpolate_all(raw, lookup, effort))
        except BadVariableError as error:
            problems.append(Problem(name=name, text=error.reason))
            continue
        if _is_no_number(field, value):
            problems.append(Problem(name=name, text="should be a number, and true and false are none"))
            continue
        values[name] = value
    # Cycles of unused variables too: the first object below that uses one could not be opened.
    problems += _cycles(actual.get("context"), lookup, effort)
    unresolved = {problem.name for problem in problems}
    try:
        attributes = kind.model_validate(values)
    except ValidationError as error:
        # A value whose variable was not found is reported once, and not as missing as well.
        problems += [each for each in problems_of(error) if each.name not in unresolved]
    else:
        if not problems:
            return attributes
    raise InvalidAttributesError(where, tuple(problems))


def _cycles(context: Any, lookup: Callable[[str], str | None], effort: Effort) -> list[Problem]:
    """Return the problems of variables that form a cycle or expand too far, even if nothing uses them yet."""
    found: list[Problem] = []
    for name, text in context.items() if isinstance(context, Mapping) else ():
        if isinstance(text, str) and "${" in text:
            try:
                interpolate(f"${{{name}}}", lookup, effort)
            except LongVariableError as error:
                return [*found, Problem(name=f"context.{name}", text=error.reason)]
            except CyclicVariableError as error:
                found.append(Problem(name=f"context.{name}", text=error.reason))
            except BadVariableError:
                # Its use reports the error, and the variable may be set before that.
                continue
    return found


@cache
def _plain_defaults(kind: type[Attributes]) -> Mapping[str, Any]:
    """Return the defaults that are the same for all objects, as they hold no variables."""
    return {
        name: field.default
        for name, field in kind.model_fields.items()
        if field.default is not PydanticUndefined and "${" not in repr(field.default)
    }


def _unknown(name: str, kind: type[Attributes]) -> Problem:
    close = get_close_matches(name, kind.model_fields, n=1)
    hint = f"did you mean {close[0]}?" if close else f"there are: {', '.join(kind.model_fields)}"
    return Problem(name=name, text=f"there is no such attribute; {hint}")


def _from_text(field: FieldInfo, value: Any) -> Any:
    """Parse a list, a map or a structured value that is given as text, as the values of variables are."""
    if not isinstance(value, str) or value[:1] not in {"[", "{"} or _takes_text(field):
        return value
    try:
        return json.loads(value)
    except ValueError:
        # The validation reports what the value should be.
        return value


def _takes_text(field: FieldInfo) -> bool:
    return _takes(field, "[]", strict=True)


def _is_no_number(field: FieldInfo, value: Any) -> bool:
    """Return whether a truth value is given for a number: true would count as 1, the port with that number or a queue of one message."""
    if not isinstance(value, bool) or field.annotation is bool:
        return False
    # A field that takes true only where it is lax would make a number of it.
    return _takes(field, value, strict=False) and not _takes(field, value, strict=True)


def _takes(field: FieldInfo, value: Any, *, strict: bool) -> bool:
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(field.rebuild_annotation())
        adapter.validate_python(value, strict=strict)
    except ValidationError:
        return False
    return True


def problems_of(error: ValidationError) -> tuple[Problem, ...]:
    """Return pydantic's errors as problems, in texts that quote no value."""
    return tuple(
        Problem(
            name=".".join(map(str, found["loc"])),
            text=_sentence(found["type"], found["msg"]),
        )
        # Without inputs: a wrong password must be neither in a log nor in an answer.
        for found in error.errors(include_url=False, include_input=False, include_context=False)
    )


def _sentence(kind: str, message: str) -> str:
    if kind == "missing":
        return "is mandatory; give it a value"
    if kind == "extra_forbidden":
        return "there is no such name here; leave it out"
    if kind == "string_pattern_mismatch" and _CONTROL in message:
        return "a line break, a tab or another control character is in it; leave it out"
    text = plain_words(message)
    return text[:1].lower() + text[1:]


def plain(value: Any) -> Any:
    """Return a value as JSON: enumerations by their values, secrets masked."""
    if isinstance(value, SecretStr):
        return MASK
    if isinstance(value, BaseModel):
        return {name: plain(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    if isinstance(value, (set, frozenset)):
        # Sorted, so that the same set has the same text each time.
        return sorted(map(plain, value), key=str)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


def mask(kind: type[Attributes], actual: Mapping[str, Any], names: Sequence[str] | None = None) -> dict[str, Any]:
    """Return actual attributes with secrets masked; `names`: only these, None: all.

    Undeclared attributes are masked, too: one may be a misspelt secret, or belong to a type that is misspelt or not installed.
    """
    known = declarations(kind)
    return {
        # Undeclared names are masked, too: one may be a misspelt secret.
        name: plain(value) if value is None or (name in known and not known[name].is_secure) else MASK
        for name, value in actual.items()
        if names is None or name in names
    }


_IN_QUERY: Final = re.compile(r"[?&]\w*(?:password|passwd|passcode|pwd|secret)=[^&]", re.IGNORECASE)
"""Includes ``sslpassword`` of PostgreSQL, which opens the client's key."""
_USER: Final = re.compile(r"^([A-Za-z0-9+.\-]+://[^/@:]*)(?::([^/@]*))?@")
_WITH_SLASHES: Final = re.compile(r"^[A-Za-z0-9+.\-]+://[^/@:\[]*:(?!\d*/)[^@]*@")
"""SQLAlchemy takes everything up to the next @ for the password, slashes too; after a number it is a path with an @."""


def has_password(url: str) -> bool:
    """Return whether a URL holds a password: after its user, or in its query, where drivers of databases take one, too."""
    found = _USER.match(url)
    is_after_user = (found is not None and found[2] is not None) or _WITH_SLASHES.match(url) is not None
    return is_after_user or _IN_QUERY.search(url) is not None


def split_password(url: str) -> tuple[str, str | None]:
    """Return a URL without the password after its user, and that password; None: it holds none."""
    found = _USER.match(url)
    if found is None or found[2] is None:
        return url, None
    # Decoded, as `with_password` encodes it again.
    return f"{found[1]}@{url[found.end() :]}", unquote(found[2])


def with_password(url: str, password: Secret | None) -> str:
    """Return a URL with the password after its user."""
    found = _USER.match(url)
    if found is None or password is None:
        return url
    # All characters are quoted: a password with @ or / would otherwise end the user part of the URL.
    return f"{found[1]}:{quote(password.get_secret_value(), safe='')}@{url[found.end() :]}"

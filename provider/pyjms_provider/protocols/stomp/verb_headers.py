"""How a verb is declared: which field stands in which header, in which form."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from enum import Enum
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import DestinationError
from pyjms.spi.xid import Xid
from pyjms_provider.protocols.stomp.delivery_ids import read_delivery_ids, write_delivery_ids
from pyjms_provider.protocols.stomp.destinations import EXACT_PATHS
from pyjms_provider.protocols.stomp.errors import ProfileError
from pyjms_provider.protocols.stomp.frames import Frame

__all__ = [
    "ADDRESS",
    "FLAG",
    "IDS",
    "KIND",
    "LONG",
    "NUMBER",
    "TEXT",
    "WHOLE",
    "XID",
    "Verb",
    "choice",
    "form",
    "header",
    "readable",
    "verb",
]

_number = re.compile(r"-?[0-9]{1,10}").fullmatch
_long = re.compile(r"[0-9]{1,19}").fullmatch
_RECEIPT = "receipt"
_NO_HEADER = re.compile("[\0\ud800-\udfff]")


def readable(text: str) -> str:
    """Return `text` as a header can carry it: what none can carry is replaced. For people, not for programs."""
    return _NO_HEADER.sub("�", text)


@dataclass(frozen=True, slots=True)
class _Form:
    """A value as the text of a header, and back; `read` raises `ValueError`."""

    write: Callable[[Any], str]
    read: Callable[[str], Any]
    meant: str


def _read_number(text: str) -> int:
    if not _number(text):
        raise ValueError
    return int(text)


def _read_whole(text: str) -> int:
    if not _number(text) or text.startswith("-"):
        raise ValueError
    return int(text)


def _read_long(text: str) -> int:
    if not _long(text) or int(text) >= 2**63:
        raise ValueError
    return int(text)


def _read_flag(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError
    return text == "true"


def _read_address(text: str) -> Address:
    try:
        return EXACT_PATHS.read({"destination": text})
    except DestinationError as error:
        raise ValueError from error


def _read_text(text: str) -> str:
    if not text:
        raise ValueError
    return text


TEXT = _Form(str, _read_text, "a text")
NUMBER = _Form(str, _read_number, "a number")
WHOLE = _Form(str, _read_whole, "a number from 0")
LONG = _Form(str, _read_long, "a number from 0")
FLAG = _Form(lambda value: "true" if value else "false", _read_flag, "true or false")
ADDRESS = _Form(EXACT_PATHS.write_reply_to, _read_address, "a destination such as /queue/orders")
KIND = _Form(lambda kind: str(kind.name.lower()), lambda text: AddressKind[text.upper()], "queue or topic")
XID = _Form(str, Xid.parse, "a branch, FORMAT:GLOBAL:BRANCH, the last two in hexadecimal")
IDS = _Form(write_delivery_ids, read_delivery_ids, "delivery ids such as 1-5,7")


def form(write: Callable[[Any], str], read: Callable[[str], Any], meant: str) -> _Form:
    """Return a form of its own; `read` raises `ValueError`."""
    return _Form(write, read, meant)


def choice(values: type[Enum]) -> _Form:
    """Return the form of a member of an enumeration: its value."""
    return _Form(lambda value: str(value.value), values, "one of " + ", ".join(str(each.value) for each in values))


@dataclass(frozen=True, slots=True)
class _Place:
    name: str
    header: str
    form: _Form
    default: Any


def header(name: str, form: _Form, *, default: Any = MISSING) -> Any:
    """Declare a field that stands in header `name`; a field at its default is not written."""
    return field(default=default, metadata={"header": name, "form": form})


_V = TypeVar("_V")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(header,))
def verb(cls: type[_V]) -> type[_V]:
    """Make `cls` a frozen record of the fields that it declares with `header`."""
    return dataclass(frozen=True, slots=True, kw_only=True)(cls)


_known_places: dict[type, tuple[_Place, ...]] = {}


def _places(kind: type[Verb]) -> tuple[_Place, ...]:
    known = _known_places.get(kind)
    if known is None:
        known = _known_places[kind] = tuple(
            _Place(each.name, each.metadata["header"], each.metadata["form"], each.default) for each in fields(kind)
        )
    return known


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb with what it says."""

    COMMAND: ClassVar[str]
    MARK: ClassVar[tuple[str, str | None] | None] = None
    """The header, with its value or any, that tells it from other verbs of the same command."""

    def write(self, receipt: str | None = None) -> Frame:
        """Return its frame; `receipt`: the broker answers with RECEIPT, or ERROR, that names it."""
        headers: dict[str, str] = {}
        if self.MARK is not None and self.MARK[1] is not None:
            headers[self.MARK[0]] = self.MARK[1]
        for place in _places(type(self)):
            value = getattr(self, place.name)
            if value != place.default:
                headers[place.header] = place.form.write(value)
        if receipt is not None:
            headers[_RECEIPT] = receipt
        return Frame(self.COMMAND, headers)

    @classmethod
    def from_headers(cls, frame: Frame) -> Self:
        """Return the verb that `frame`, a frame of its command, says. Raises `ProfileError`."""
        values = {}
        headers = frame.headers
        for place in _places(cls):
            text = headers.get(place.header)
            if text is None:
                if place.default is MISSING:
                    raise ProfileError(
                        f"{frame.command} needs the header {place.header}: {place.form.meant}",
                        receipt=headers.get(_RECEIPT),
                    )
                continue
            try:
                values[place.name] = place.form.read(text)
            except (ValueError, KeyError, ProfileError):
                raise ProfileError(
                    f"the header {place.header} of {frame.command} must be {place.form.meant}",
                    receipt=headers.get(_RECEIPT),
                ) from None
        return cls(**values)

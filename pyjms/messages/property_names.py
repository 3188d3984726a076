"""Which names a property may have (JMS 1.1 §3.5.1, §3.5.9, §3.5.10, §3.8.1.1).

A name is an identifier of message selectors. ``JMSX`` belongs to JMS itself, ``JMS_`` to providers, and every other
name that begins with ``JMS`` to the header fields.
"""

from __future__ import annotations

from pyjms.errors import IllegalArgumentException, MessageFormatException
from pyjms.messages.java_text import shorten
from pyjms.spi.property_names import SET_BY_PROVIDERS
from pyjms.spi.selector.identifiers import first_bad_character, is_identifier, is_reserved

__all__ = [
    "CLIENT_JMSX",
    "DELIVERY_COUNT",
    "KNOWN_NAMES",
    "PROVIDER_PREFIX",
    "check_property_name",
    "is_client_name",
    "is_provider_name",
    "is_shown",
]

DELIVERY_COUNT = "JMSXDeliveryCount"
"""Read like a property of every received message (JMS 1.1 §3.5.9)."""

CLIENT_JMSX = {"JMSXGroupID": str, "JMSXGroupSeq": int}
"""The JMSX properties that clients set, with the class of their stored value (String, int)."""

PROVIDER_PREFIX = "JMS_pyjms"
"""The names of this project's own provider properties."""
DELIVER_AT = f"{PROVIDER_PREFIX}_deliverAt"
DUPLICATE_ID = f"{PROVIDER_PREFIX}_duplicateId"
CLIENT_SETTABLE = frozenset({DELIVER_AT, DUPLICATE_ID})
"""Those of them that clients may set: when a message is for, and what tells its duplicates."""

KNOWN_NAMES: set[str] = set()
"""Names found to be good, whatever the type of their value; setters look here first."""
_KNOWN_MAX = 4096
_KNOWN_LENGTH_MAX = 128


def check_property_name(name: object) -> str:
    """Return `name` if a client may set a property of that name, and remember it.

    Raises `IllegalArgumentException` for None, "" and what is no text, `MessageFormatException` for all other names.
    """
    if not isinstance(name, str) or not name:
        raise IllegalArgumentException(
            "a property needs a name" if name is None or name == "" else f"a name is a str, not {type(name).__name__}"
        )
    text = str.__str__(name)
    bad = first_bad_character(text)
    if bad is not None:
        raise MessageFormatException(
            f"{shorten(text)} is no property name, because of {text[bad]!r}: it must be an identifier, a letter, _ or $ "
            "followed by letters, digits, _ or $ (JMS 1.1 §3.5.1)"
        )
    if is_reserved(text):
        raise MessageFormatException(
            f"{text!r} is a reserved word of selectors, so no property name (JMS 1.1 §3.8.1.1)"
        )
    if text.startswith("JMS"):
        _check_reserved(text)
    if text not in CLIENT_JMSX:
        _remember(text)
    return text


def is_client_name(name: str) -> bool:
    """Say whether clients may set `name`, which is an identifier."""
    try:
        _check_reserved(name)
    except MessageFormatException:
        return False
    return True


def is_provider_name(name: str) -> bool:
    """Say whether providers set `name` on messages that they deliver."""
    return name in SET_BY_PROVIDERS or (name.startswith(PROVIDER_PREFIX) and name not in CLIENT_SETTABLE)


def is_shown(name: str) -> bool:
    """Say whether a received message shows `name` as a property: one that clients set, or that providers set.

    Messages of clients without JMS may have other names too, such as ``content-type`` or ``JMSPriority``.
    """
    if name in KNOWN_NAMES:
        return True
    if not is_identifier(name) or not (is_client_name(name) or is_provider_name(name)):
        return False
    if name not in CLIENT_JMSX and is_client_name(name):
        _remember(name)
    return True


def _remember(name: str) -> None:
    if len(name) <= _KNOWN_LENGTH_MAX:
        if len(KNOWN_NAMES) >= _KNOWN_MAX:
            KNOWN_NAMES.clear()
        KNOWN_NAMES.add(name)


def _check_reserved(name: str) -> None:
    if not name.startswith("JMS") or name in CLIENT_JMSX or name in CLIENT_SETTABLE:
        return
    if name in SET_BY_PROVIDERS:
        raise MessageFormatException(f"{name} is set by the provider, not by clients (JMS 1.1 §3.5.9)")
    if name.startswith("JMSX"):
        allowed = " and ".join(CLIENT_JMSX)
        raise MessageFormatException(f"{name!r}: of the JMSX names clients set {allowed} only (JMS 1.1 §3.5.9)")
    if not name.startswith("JMS_"):
        raise MessageFormatException(f"{name!r}: names that begin with JMS are reserved (JMS 1.1 §3.8.1.1)")
    if name.startswith(PROVIDER_PREFIX):
        raise MessageFormatException(f"{name!r}: {PROVIDER_PREFIX}… is set by the provider only (JMS 1.1 §3.5.10)")

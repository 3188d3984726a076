"""Which headers are the application's properties, and which belong to STOMP, to a broker or to this project."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

from pyjms_provider.protocols.stomp.header_lines import PROFILE_HEADER

__all__ = [
    "ALIAS_PREFIX",
    "RESERVED",
    "SET_BY_PROTOCOL",
    "alias_of",
    "is_of_profile",
    "is_reserved",
    "name_of_alias",
    "quoted",
    "unquoted",
]

ALIAS_PREFIX = f"{PROFILE_HEADER}_x_"
"""Begins the header of a property that cannot travel under its own name."""

RESERVED = frozenset(
    # STOMP itself
    "accept-version ack content-length content-type destination heart-beat host id login message message-id passcode "
    "receipt receipt-id selector server session subscription transaction version "
    # what JMS's header fields are written as
    "correlation-id expires persistent priority redelivered reply-to timestamp type "
    # ActiveMQ Classic
    "amq-msg-type browser client-id retain transformation transformation-custom transformation-error "
    # ActiveMQ Artemis
    "amqMessageId consumer-window-size destination-type durable-subscription-name durable-subscriber-name "
    "filter no-local routing-type subscription-type "
    # RabbitMQ
    "amqp-message-id app-id auto-delete cluster-id content-encoding durable exclusive expiration nowait "
    "prefetch-count requeue user-id "
    # this project
    f"delivery-count {PROFILE_HEADER}".split()
)
_OF_FRAMES = "ack browser content-length destination message-id receipt redelivered subscription transaction"
_OF_HEADER_FIELDS = "correlation-id expires persistent priority reply-to timestamp type"
SET_BY_PROTOCOL = frozenset(_OF_FRAMES.split() + _OF_HEADER_FIELDS.split())
"""The headers of SEND and MESSAGE that our broker gives a meaning of its own. All others of a plain client come through as they are."""

_RESERVED_BEGINNINGS = re.compile(rf"x-|activemq\.|_+AMQ_|{PROFILE_HEADER}_(?:x_|\d+\Z)").match
_plain_name = re.compile(r"[A-Za-z0-9_$.]+").fullmatch
_UNQUOTED = "$_.-"


def is_reserved(name: str) -> bool:
    """Say whether a header `name` is no property of an application."""
    return name in RESERVED or _RESERVED_BEGINNINGS(name) is not None


_of_profile = re.compile(rf"{PROFILE_HEADER}(?:_(?:x_.*|\d+))?", re.DOTALL).fullmatch


def is_of_profile(name: str) -> bool:
    """Say whether a header `name` is the profile header, a part of it, or stands for a property of another name."""
    return name.startswith(PROFILE_HEADER) and _of_profile(name) is not None


def alias_of(name: str) -> str | None:
    """Return the header under which the property `name` travels if it must not be `name` itself; None: it may."""
    if not is_reserved(name) and (_plain_name(name) or (name.isprintable() and _travels(name))):
        return None
    return ALIAS_PREFIX + quoted(name)


def _travels(name: str) -> bool:
    return bool(name) and not any(character in ":\\ " for character in name)


def name_of_alias(header: str) -> str:
    """Return the property that travels as `header`, which begins with `ALIAS_PREFIX`."""
    return unquoted(header[len(ALIAS_PREFIX) :])


def quoted(text: str) -> str:
    """Return `text` percent-encoded, so that neither STOMP nor the profile header gives any of it a meaning."""
    return text if _plain_name(text) else quote(text, safe=_UNQUOTED, errors="surrogatepass")


def unquoted(text: str) -> str:
    """Return what `quoted` was given. Raises `ValueError` for what is no UTF-8."""
    return unquote(text, errors="surrogatepass") if "%" in text else text

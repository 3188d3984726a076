"""Errors of AMQP: conditions (part 2, 2.8.14 to 2.8.18; parts 3 and 4), and which of connection, session and link each one ends."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any


class Condition(StrEnum):
    """The conditions that the standard names."""

    INTERNAL_ERROR = "amqp:internal-error"
    NOT_FOUND = "amqp:not-found"
    UNAUTHORIZED_ACCESS = "amqp:unauthorized-access"
    DECODE_ERROR = "amqp:decode-error"
    RESOURCE_LIMIT_EXCEEDED = "amqp:resource-limit-exceeded"
    NOT_ALLOWED = "amqp:not-allowed"
    INVALID_FIELD = "amqp:invalid-field"
    NOT_IMPLEMENTED = "amqp:not-implemented"
    RESOURCE_LOCKED = "amqp:resource-locked"
    PRECONDITION_FAILED = "amqp:precondition-failed"
    RESOURCE_DELETED = "amqp:resource-deleted"
    ILLEGAL_STATE = "amqp:illegal-state"
    FRAME_SIZE_TOO_SMALL = "amqp:frame-size-too-small"
    CONNECTION_FORCED = "amqp:connection:forced"
    FRAMING_ERROR = "amqp:connection:framing-error"
    CONNECTION_REDIRECT = "amqp:connection:redirect"
    WINDOW_VIOLATION = "amqp:session:window-violation"
    ERRANT_LINK = "amqp:session:errant-link"
    HANDLE_IN_USE = "amqp:session:handle-in-use"
    UNATTACHED_HANDLE = "amqp:session:unattached-handle"
    DETACH_FORCED = "amqp:link:detach-forced"
    TRANSFER_LIMIT_EXCEEDED = "amqp:link:transfer-limit-exceeded"
    MESSAGE_SIZE_EXCEEDED = "amqp:link:message-size-exceeded"
    LINK_REDIRECT = "amqp:link:redirect"
    STOLEN = "amqp:link:stolen"
    UNKNOWN_TRANSACTION = "amqp:transaction:unknown-id"
    TRANSACTION_ROLLBACK = "amqp:transaction:rollback"
    TRANSACTION_TIMEOUT = "amqp:transaction:timeout"


class AmqpError(Exception):
    """Root of the errors of this package: a condition, and a text for the peer that says what to do."""

    def __init__(self, condition: str, description: str, info: Mapping[str, Any] | None = None) -> None:
        super().__init__(description)
        self.condition = str(condition)
        self.description = description
        self.info = info


class ConnectionFault(AmqpError):
    """The connection cannot go on: it is closed with this error (part 2, 2.7.9)."""


class DecodeError(ConnectionFault):
    """Bytes that are no value of AMQP, or a performative whose fields are not those of its definition."""

    def __init__(self, description: str) -> None:
        super().__init__(Condition.DECODE_ERROR, description)


class FramingError(ConnectionFault):
    """Bytes that are no frame."""

    def __init__(self, description: str) -> None:
        super().__init__(Condition.FRAMING_ERROR, description)


class LimitError(ConnectionFault):
    """Something is larger than this side takes."""

    def __init__(self, description: str) -> None:
        super().__init__(Condition.RESOURCE_LIMIT_EXCEEDED, description)


class SessionFault(AmqpError):
    """The session cannot go on: it is ended with this error (part 2, 2.7.8)."""


class LinkFault(AmqpError):
    """The link cannot go on: it is detached and closed with this error (part 2, 2.7.7)."""


class EncodeError(Exception):
    """A value that AMQP cannot say; nothing of it was written."""


class ProtocolMisuseError(Exception):
    """This side asked for what the state of the connection, session or link does not allow: a fault of the program."""

"""Errors of the broker as AMQP tells them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyjms.spi.errors import (
    AccessDeniedError,
    BranchError,
    CapabilityError,
    ClosedError,
    ConnectionLostError,
    DestinationError,
    DestinationInUseError,
    DuplicateClientIdError,
    GoneError,
    GroupError,
    InvalidSelectorError,
    ProviderError,
    RegistrationError,
    ResourceError,
    RolledBackError,
    StageError,
    SubscriptionInUseError,
    TooLargeError,
    UnknownSubscriptionError,
)
from pyjms_provider.amqp.errors import AmqpError, Condition, ConnectionFault, EncodeError, LinkFault
from pyjms_provider.amqp.performatives import Error
from pyjms_provider.core.host.temporaries import ForeignTemporaryError
from pyjms_provider.protocols.profile.answers import error_headers
from pyjms_provider.protocols.profile.errors import CommandError

_CONDITIONS: Final[Mapping[type[ProviderError], Condition]] = {
    AccessDeniedError: Condition.UNAUTHORIZED_ACCESS,
    BranchError: Condition.ILLEGAL_STATE,
    CapabilityError: Condition.NOT_IMPLEMENTED,
    ClosedError: Condition.CONNECTION_FORCED,
    CommandError: Condition.INVALID_FIELD,
    ConnectionLostError: Condition.CONNECTION_FORCED,
    DestinationError: Condition.NOT_FOUND,
    DestinationInUseError: Condition.RESOURCE_LOCKED,
    DuplicateClientIdError: Condition.INVALID_FIELD,
    ForeignTemporaryError: Condition.RESOURCE_LOCKED,
    GoneError: Condition.RESOURCE_DELETED,
    GroupError: Condition.PRECONDITION_FAILED,
    InvalidSelectorError: Condition.INVALID_FIELD,
    RegistrationError: Condition.PRECONDITION_FAILED,
    ResourceError: Condition.RESOURCE_LIMIT_EXCEEDED,
    RolledBackError: Condition.TRANSACTION_ROLLBACK,
    StageError: Condition.PRECONDITION_FAILED,
    SubscriptionInUseError: Condition.RESOURCE_LOCKED,
    TooLargeError: Condition.MESSAGE_SIZE_EXCEEDED,
    UnknownSubscriptionError: Condition.NOT_FOUND,
}


def condition_of(error: BaseException) -> str:
    """Return the condition of an error; that of the nearest class which has one."""
    if isinstance(error, AmqpError):
        return error.condition
    if isinstance(error, EncodeError):
        return Condition.NOT_IMPLEMENTED
    kinds = [kind for kind in type(error).__mro__ if kind in _CONDITIONS]
    return _CONDITIONS[kinds[0]] if kinds else Condition.INTERNAL_ERROR


def told(error: BaseException, room: int) -> Error:
    """Return an error as the peer is told: a pyjms client raises one of the same class and code.

    Args:
        error: why something was not done.
        room: bytes that a performative may have: longer texts are cut.
    """
    left = max(room - _OVERHEAD, 0)
    info: Mapping[str, Any] | None = error.info if isinstance(error, AmqpError) else None
    if isinstance(error, ProviderError):
        headers = error_headers(error)
        long = _OF_ANY_LENGTH & headers.keys()
        info = headers | {name: _cut(headers[name], left // 4) for name in long}
        left -= len(long) * (left // 4)
    # Never left out: the SDK of Azure reads it always, and waits for ever if it is not there.
    return Error(condition_of(error), _cut(_text(error), left), info or {})


_OVERHEAD: Final = 300
"""Bytes of a disposition or detach with an error, beside its texts of any length."""
_OF_ANY_LENGTH: Final = frozenset({"problem", "selector"})


def _cut(text: str, size: int) -> str:
    """Return the beginning of a text that has so many bytes at most."""
    return text.encode(errors="replace")[:size].decode(errors="ignore")


def link_fault(error: BaseException, room: int) -> LinkFault:
    """Return the error with which a link ends; its texts are cut as those of `told`."""
    found = told(error, room)
    return LinkFault(found.condition, found.description or "", found.info)


def as_provider_error(error: Exception) -> ProviderError:
    """Return an error as one of the SPI."""
    return error if isinstance(error, ProviderError) else ProviderError(_text(error))


def connection_fault(error: BaseException) -> ConnectionFault:
    """Return the error with which a connection ends."""
    return ConnectionFault(condition_of(error), _text(error), error.info if isinstance(error, AmqpError) else None)


def _text(error: BaseException) -> str:
    if isinstance(error, ProviderError):
        return error.reason
    if isinstance(error, AmqpError | EncodeError):
        return str(error)
    # A fault of the broker may hold what is not the client's: its log has it.
    return "the broker failed to do this; its log says why, at PYJMS-AMQP-4"

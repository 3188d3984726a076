"""The errors of the SPI for what a broker says: one table of conditions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyjms.spi.errors import (
    AccessDeniedError,
    ConnectionLostError,
    DestinationError,
    DestinationInUseError,
    DuplicateClientIdError,
    ProviderError,
    ResourceError,
    RolledBackError,
    SubscriptionInUseError,
    TooLargeError,
)
from pyjms_provider.amqp.errors import Condition
from pyjms_provider.amqp.performatives import Error, Modified, Rejected, Released
from pyjms_provider.protocols.profile.answers import error_of

_SHOWN: Final = 400
_OURS: Final = "PYJMS-"

CONDITIONS: Final[Mapping[str, type[ProviderError]]] = {
    Condition.NOT_FOUND: DestinationError,
    Condition.RESOURCE_DELETED: DestinationError,
    Condition.INVALID_FIELD: DestinationError,
    Condition.UNAUTHORIZED_ACCESS: AccessDeniedError,
    Condition.RESOURCE_LIMIT_EXCEEDED: ResourceError,
    Condition.RESOURCE_LOCKED: ResourceError,
    Condition.NOT_ALLOWED: ResourceError,
    Condition.PRECONDITION_FAILED: ResourceError,
    Condition.MESSAGE_SIZE_EXCEEDED: TooLargeError,
    Condition.FRAME_SIZE_TOO_SMALL: TooLargeError,
    Condition.STOLEN: SubscriptionInUseError,
    Condition.TRANSACTION_ROLLBACK: RolledBackError,
    Condition.TRANSACTION_TIMEOUT: RolledBackError,
    Condition.UNKNOWN_TRANSACTION: RolledBackError,
    Condition.CONNECTION_FORCED: ConnectionLostError,
}
"""What a condition means for a call. One that is not here is a `ProviderError`."""

CONTAINER_ID: Final = "container-id"
"""The field that a broker names with `amqp:invalid-field` where another connection has the client id."""


def text_of(error: Error | None) -> str:
    """Return a broker's words on one line."""
    if error is None:
        return "the broker gives no reason"
    text = " ".join((error.description or "").split())
    shown = f"{text[:_SHOWN]}…" if len(text) > _SHOWN else text
    return f"{shown} ({error.condition})" if shown else str(error.condition)


def refusal(error: Error | None, default: type[ProviderError] = ProviderError) -> ProviderError:
    """Return the error for what the broker says: of the class and code that the pyjms broker names, or that the condition means.

    Args:
        error: the broker's error; None: it gives none.
        default: the class for a condition that is not in the table.
    """
    headers = {str(name): str(value) for name, value in ((error.info if error else None) or {}).items()}
    if error is not None and headers.get("code", "").startswith(_OURS):
        return error_of(headers, error.description or "")
    kind = default if error is None else CONDITIONS.get(str(error.condition), default)
    return kind(f"the broker refused it: {text_of(error)}")


def login_refusal(error: Error | None) -> ProviderError:
    """Return the error for a connection that the broker closes while it opens."""
    if error is not None and error.condition == Condition.INVALID_FIELD:
        info: Mapping[Any, Any] = error.info or {}
        if str(info.get("invalid-field", "")) == CONTAINER_ID:
            return DuplicateClientIdError(f"another connection has the client id: {text_of(error)}")
    if error is not None and error.condition == Condition.UNAUTHORIZED_ACCESS:
        return AccessDeniedError(f"the broker refused the login: {text_of(error)}")
    return ResourceError(f"the broker refused the connection: {text_of(error)}")


def outcome_refusal(outcome: Any) -> ProviderError | None:
    """Return the error for the outcome of a message that was sent; None: the broker has taken it."""
    if isinstance(outcome, Rejected):
        return refusal(outcome.error, ResourceError)
    if isinstance(outcome, Released | Modified):
        return ResourceError("the broker has not taken the message, and does not say why: send it again later")
    return None


def in_use(error: ProviderError) -> DestinationInUseError:
    """Return the error for a temporary destination that cannot be deleted."""
    return DestinationInUseError(error.reason)

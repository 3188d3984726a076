"""The errors that a provider may raise: one class for each failure that a caller can tell apart.

Each class names the JMS exception that the runtime raises in its place (`pyjms.runtime.error_mapping` is the one edge
where that happens); the original becomes the linked exception.
"""

from __future__ import annotations

from typing import ClassVar

from pyjms.spi.xid import BranchFailure

__all__ = [
    "AccessDeniedError",
    "BranchError",
    "CapabilityError",
    "ClosedError",
    "ConnectionLostError",
    "DestinationError",
    "DestinationInUseError",
    "DuplicateClientIdError",
    "FencedError",
    "GoneError",
    "GroupError",
    "InDoubtError",
    "InvalidSelectorError",
    "MissingProviderError",
    "ProgramEndsError",
    "ProviderError",
    "RegistrationError",
    "ResourceError",
    "RolledBackError",
    "StageError",
    "SubscriptionInUseError",
    "SupersededError",
    "TooLargeError",
    "TooLateError",
    "UnknownSubscriptionError",
    "UrlError",
]


class ProviderError(Exception):
    """Root of all errors that cross the SPI; `reason` tells the reader what to do about it."""

    jms_name: ClassVar[str] = "JMSException"
    """Name of the exception class that a JMS client sees (JMS 1.1 §7)."""
    code: ClassVar[str] = "PYJMS-0"
    """Stable code; the JMS client reads it as the exception's error code."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class UrlError(ProviderError):
    """The URL cannot be understood: syntax, an unknown option, a value out of range."""

    code = "PYJMS-URL"


class MissingProviderError(ProviderError):
    """No provider is registered for the scheme, or what it needs is not installed."""

    code = "PYJMS-PROVIDER"


class CapabilityError(ProviderError):
    """The provider lacks the capability that the call needs."""

    code = "PYJMS-CAPABILITY"


class AccessDeniedError(ProviderError):
    """Credentials or permissions were refused (JMS 1.1 §4.3.1)."""

    jms_name = "JMSSecurityException"
    code = "PYJMS-ACCESS"


class DuplicateClientIdError(ProviderError):
    """The client identifier is in use or malformed (JMS 1.1 §4.3.2)."""

    jms_name = "InvalidClientIDException"
    code = "PYJMS-CLIENT-ID"


class DestinationError(ProviderError):
    """The destination is not understood, no longer exists, or belongs to another connection (JMS 1.1 §4.4.3)."""

    jms_name = "InvalidDestinationException"
    code = "PYJMS-DESTINATION"


class DestinationInUseError(ProviderError):
    """A temporary destination cannot be deleted while it has consumers (JMS 1.1 §5.3, §6.4)."""

    code = "PYJMS-DESTINATION-IN-USE"


class InvalidSelectorError(ProviderError):
    """The selector breaks the grammar of JMS 1.1 §3.8.1.

    `reason` ends with the selector and a caret under `position` (a 0-based index into `selector`).
    """

    jms_name = "InvalidSelectorException"
    code = "PYJMS-SELECTOR"

    def __init__(self, problem: str, selector: str, position: int) -> None:
        self.problem = problem
        self.selector = selector
        self.position = position
        super().__init__(f"{problem}\n{_excerpt(selector, position)}")

    def __reduce__(self) -> tuple[object, ...]:
        # The error is pickled by its three arguments: `args` holds the finished text alone.
        return type(self), (self.problem, self.selector, self.position)


class UnknownSubscriptionError(ProviderError):
    """There is no durable subscription of that name for this client (JMS 1.1 §6.3)."""

    jms_name = "InvalidDestinationException"
    code = "PYJMS-SUBSCRIPTION"


class SubscriptionInUseError(ProviderError):
    """A durable subscription has an active subscriber, or messages that are not settled (JMS 1.1 §6.3)."""

    code = "PYJMS-SUBSCRIPTION-IN-USE"


class ResourceError(ProviderError):
    """The provider lacks a resource for the call: memory, disk, a lock, a connection."""

    jms_name = "ResourceAllocationException"
    code = "PYJMS-RESOURCE"


class TooLargeError(ProviderError):
    """The message is larger than the broker allows: nothing of it was sent, and it will not fit later either."""

    jms_name = "ResourceAllocationException"
    code = "PYJMS-TOO-LARGE"


class GoneError(ResourceError):
    """The message of a delivery no longer exists, and that delivery is over: receive the next one.

    It may have been unreadable, and quarantined by the provider, which reports that to its operator.
    """

    code = "PYJMS-GONE"


class ClosedError(ProviderError):
    """The provider's object was closed, by this client or by the broker's stop."""

    jms_name = "IllegalStateException"
    code = "PYJMS-CLOSED"


class ConnectionLostError(ProviderError):
    """The connection to the broker is lost; messages sent through it may not have arrived."""

    code = "PYJMS-LOST"


class ProgramEndsError(ConnectionLostError):
    """The broker in this process has ended, as the program ends: waits are ended, and the exception listener is not notified."""

    code = "PYJMS-PROGRAM-ENDS"


class RolledBackError(ProviderError):
    """The unit of work was rolled back instead of committed (JMS 1.1 §7.3)."""

    jms_name = "TransactionRolledBackException"
    code = "PYJMS-ROLLED-BACK"


class InDoubtError(ProviderError):
    """The outcome of a unit of work is unknown."""

    code = "PYJMS-IN-DOUBT"


class TooLateError(InDoubtError):
    """The connection of a delivery was lost before, or while, its messages were settled: they are delivered again, unless
    the broker has received the settlement. They cannot be settled any more (JMS 1.1 §4.4.11, "redelivered").
    """

    code = "PYJMS-TOO-LATE"


class GroupError(ProviderError):
    """A reader group does not exist, reads another destination, or no longer has such messages (`pyjms.spi.replay`)."""

    code = "PYJMS-GROUP"


class FencedError(GroupError):
    """Another client has opened the reader group since: its former owner must stop."""

    code = "PYJMS-FENCED"


class StageError(ProviderError):
    """A staged unit does not exist, or belongs to another sink or epoch (`pyjms.spi.replay`)."""

    code = "PYJMS-STAGE"


class RegistrationError(ProviderError):
    """A client is not registered, or its name or tags are not allowed (`pyjms.spi.sessions`)."""

    code = "PYJMS-REGISTRATION"


class SupersededError(RegistrationError):
    """The client has registered again since: this registration must stop."""

    code = "PYJMS-SUPERSEDED"


class BranchError(ProviderError):
    """A call for a branch of a distributed transaction failed (X/Open XA; JMS 1.1 §8)."""

    code = "PYJMS-XA"

    def __init__(self, reason: str, failure: BranchFailure = BranchFailure.PROTOCOL) -> None:
        super().__init__(reason)
        self.failure = failure


def _excerpt(text: str, position: int, width: int = 60) -> str:
    """Return the text around `position` in `text`, on one line, with a caret beneath it."""
    # A selector may have several lines, and the caret fits under one.
    flat = "".join(" " if character.isspace() else character for character in text)
    start = max(0, position - width // 2)
    shown = flat[start : start + width]
    head = "…" if start else ""
    tail = "…" if start + width < len(flat) else ""
    return f"  {head}{shown}{tail}\n  {' ' * (len(head) + position - start)}^"

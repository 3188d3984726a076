"""What a broker's ERROR means: the error class that fits, by what brokers write there.

STOMP has no codes: what is known of the texts was seen from ActiveMQ 5.17 and RabbitMQ 3.10, and read in the sources.
"""

from __future__ import annotations

from pyjms.spi.envelope import Address
from pyjms.spi.errors import (
    AccessDeniedError,
    DestinationError,
    DestinationInUseError,
    DuplicateClientIdError,
    ProviderError,
    ResourceError,
    SubscriptionInUseError,
    UnknownSubscriptionError,
)
from pyjms_provider.protocols.stomp.answers import error_of
from pyjms_provider.protocols.stomp.frames import Frame

__all__ = ["not_made_anew", "refusal"]

_SHOWN = 400

# The first words that stand in what the broker wrote, in lower case, decide.
_MEANINGS: tuple[tuple[str, type[ProviderError]], ...] = (
    ("invalidclientidexception", DuplicateClientIdError),
    ("client id", DuplicateClientIdError),
    ("durable consumer is in use", SubscriptionInUseError),
    ("subscription is in use", SubscriptionInUseError),
    ("exclusive use", SubscriptionInUseError),
    ("no durable subscription exists", UnknownSubscriptionError),
    ("no durable subscription", UnknownSubscriptionError),
    ("consumers on the temporary", DestinationInUseError),
    ("user name", AccessDeniedError),
    ("securityexception", AccessDeniedError),
    ("not authorized", AccessDeniedError),
    ("access refused", AccessDeniedError),
    ("access_refused", AccessDeniedError),
    ("security error", AccessDeniedError),
    ("bad connect", AccessDeniedError),
    ("denied", AccessDeniedError),
    ("invaliddestinationexception", DestinationError),
    ("destinationdoesnotexist", DestinationError),
    ("invalid destination", DestinationError),
    ("unknown destination", DestinationError),
    ("not_found", DestinationError),
    ("not found", DestinationError),
    ("resourceallocationexception", ResourceError),
    ("usage manager", ResourceError),
    ("resource", ResourceError),
)


def refusal(frame: Frame) -> ProviderError:
    """Return the error that an ERROR frame stands for; its text is the broker's. The pyjms broker names its class."""
    if frame.headers.get("code", "").startswith("PYJMS"):
        return error_of(frame)
    message = frame.headers.get("message", "")
    body = bytes(frame.body[:4096]).decode(errors="replace").partition("\n\tat ")[0].strip()
    text = ": ".join(dict.fromkeys(part for part in (message.strip(), body) if part)) or "no reason given"
    searched = text.lower()
    kind = next((kind for words, kind in _MEANINGS if words in searched), ProviderError)
    shown = " ".join(text.split())
    return kind(f"the broker refused it: {shown[:_SHOWN]}{'…' if len(shown) > _SHOWN else ''}")


def not_made_anew(address: Address, error: ProviderError) -> ResourceError:
    """Return what a client is told of a consumer that is refused where its connection was made anew: no further attempt cures it, and
    the others shall live.
    """
    return ResourceError(f"a consumer of {address} could not be made anew, and receives nothing more: {error.reason}")

"""The errors of calls whose connection ends, or whose answer does not come."""

from __future__ import annotations

from pyjms.spi.envelope import Address
from pyjms.spi.errors import InDoubtError, ProviderError, ResourceError, RolledBackError
from pyjms_provider.repeatable import RepeatableError


def not_restored(address: Address, error: ProviderError) -> ResourceError:
    """Return the error for a consumer that the broker refuses after a failover: no further attempt helps, and the other consumers go on."""
    return ResourceError(f"a consumer of {address} could not be made anew, and receives nothing more: {error.reason}")


class ConnectionLostInCallError(Exception):
    """The connection ended before the broker answered: it is not known whether the request was done."""


class NotSentError(ConnectionLostInCallError):
    """The connection ended before any of the request was written: the broker has not received it."""


class UnansweredError(ResourceError):
    """The broker did not answer in time: it is not known whether it has done the request, or is going to."""


def lost_while_sent(error: ConnectionLostInCallError, in_doubt: type[ProviderError] = InDoubtError) -> ProviderError:
    """Return the client's error for a message that was being sent when the connection ended; `in_doubt`: if it may have arrived."""
    if isinstance(error, NotSentError):
        return RepeatableError(f"the connection was lost before the message was sent ({error}): send it again")
    return in_doubt(f"the connection was lost while a message was sent ({error}): it is not known whether it arrived")


def lost_while_ended(error: ConnectionLostInCallError | ResourceError, how: str) -> ProviderError:
    """Return the client's error for a transaction whose end got no answer; `how`: "committed" or "staged"."""
    if isinstance(error, NotSentError):
        return RolledBackError(
            f"the transaction was rolled back, as the connection was lost before it was {how}: {error}"
        )
    if isinstance(error, ConnectionLostInCallError):
        return InDoubtError(
            f"the connection was lost while the transaction was {how} ({error}): it is not known whether that was done"
        )
    return InDoubtError(f"it is not known whether the transaction was {how}: {error.reason}")

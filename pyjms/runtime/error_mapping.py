"""The one place where SPI errors become JMS exceptions, and those the exceptions of the simplified API; and the close of objects that a program does not get."""

from __future__ import annotations

from contextlib import suppress

from pyjms import errors
from pyjms.api.base import Closeable
from pyjms.api.destination import TemporaryQueue, TemporaryTopic
from pyjms.errors import JMSException, JMSRuntimeException
from pyjms.spi.errors import ProviderError


def to_jms(error: ProviderError) -> JMSException:
    """Return the exception that the error's class names, with its code, the error as the linked exception."""
    # The SPI's errors name their class, as they must not import those of the API.
    kind: type[JMSException] = getattr(errors, error.jms_name)
    exception = kind(error.reason, error.code)
    exception.linked_exception = error
    return exception


class _MappedErrors:
    """A context in which SPI errors become JMS exceptions. Stateless: one serves all threads."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, ProviderError):
            raise to_jms(error) from error


mapped_errors = _MappedErrors()
"""``with mapped_errors:`` around calls of the SPI that are not made for every message."""


_RUNTIME: dict[type[JMSException], type[JMSRuntimeException]] = {
    errors.IllegalStateException: errors.IllegalStateRuntimeException,
    errors.InvalidClientIDException: errors.InvalidClientIDRuntimeException,
    errors.InvalidDestinationException: errors.InvalidDestinationRuntimeException,
    errors.InvalidSelectorException: errors.InvalidSelectorRuntimeException,
    errors.JMSSecurityException: errors.JMSSecurityRuntimeException,
    errors.MessageFormatException: errors.MessageFormatRuntimeException,
    errors.MessageNotWriteableException: errors.MessageNotWriteableRuntimeException,
    errors.ResourceAllocationException: errors.ResourceAllocationRuntimeException,
    errors.TransactionInProgressException: errors.TransactionInProgressRuntimeException,
    errors.TransactionRolledBackException: errors.TransactionRolledBackRuntimeException,
}


def to_runtime(error: JMSException) -> JMSRuntimeException:
    """Return the exception of the simplified API that stands for `error`, with its reason and code, and `error` as the cause."""
    kind = next((_RUNTIME[base] for base in type(error).__mro__ if base in _RUNTIME), JMSRuntimeException)
    return kind(error.message, error.error_code, error)


class _RuntimeErrors:
    """A context in which JMS exceptions become those of the simplified API. Stateless: one serves all threads."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, JMSException):
            raise to_runtime(error) from error


runtime_errors = _RuntimeErrors()
"""``with runtime_errors:`` around calls of the classic API that are not made for every message."""


class ErrorCollector:
    """``with collector:`` around each of several steps that must all be tried, even if some of them fail."""

    __slots__ = ("_first",)

    def __init__(self) -> None:
        self._first: JMSException | None = None

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        # Anything else, such as an interrupt, ends the steps at once.
        if not isinstance(error, JMSException):
            return False
        self._first = self._first or error
        return True

    def raise_first(self) -> None:
        """Raise the first collected error, if any."""
        if self._first is not None:
            raise self._first


def close_made(made: Closeable) -> None:
    """Close a connection, session, context, consumer, producer or browser that the program does not get."""
    with suppress(JMSException, JMSRuntimeException):  # the program gets the interrupt
        made.close()


def delete_made(made: TemporaryQueue | TemporaryTopic) -> None:
    """Delete a temporary destination that the program does not get."""
    with suppress(JMSException):  # as above; it ends with its connection
        made.delete()

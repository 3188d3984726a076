"""The one place where SPI errors become JMS exceptions; and the close of objects that a program does not get."""

from __future__ import annotations

from contextlib import suppress

from pyjms import errors
from pyjms.api.base import Closeable
from pyjms.api.destination import TemporaryQueue, TemporaryTopic
from pyjms.errors import JMSException
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
    """Close a connection, session, consumer, producer or browser that the program does not get."""
    with suppress(JMSException):  # the program gets the interrupt
        made.close()


def delete_made(made: TemporaryQueue | TemporaryTopic) -> None:
    """Delete a temporary destination that the program does not get."""
    with suppress(JMSException):  # as above; it ends with its connection
        made.delete()

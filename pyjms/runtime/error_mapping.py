"""SPI error → JMS exception: the one edge where the one becomes the other."""

from __future__ import annotations

from pyjms import errors
from pyjms.errors import JMSException
from pyjms.spi.errors import ProviderError


def to_jms(error: ProviderError) -> JMSException:
    """Return the exception that the error's class names, with its code, the error as the linked exception."""
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
    """``with collector:`` around each of several steps that must all be tried, whichever of them fails."""

    __slots__ = ("_first",)

    def __init__(self) -> None:
        self._first: JMSException | None = None

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, JMSException):
            return False
        self._first = self._first or error
        return True

    def raise_first(self) -> None:
        """Raise the first error that was collected, if any."""
        if self._first is not None:
            raise self._first

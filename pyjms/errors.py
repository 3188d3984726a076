"""The exception tree of JMS 1.1 §7.3, and the Java run-time exceptions that the specification names."""

from __future__ import annotations

from pyjms.api.throwable import CheckedThrowable, RuntimeThrowable

__all__ = [
    "IllegalArgumentException",
    "IllegalStateException",
    "IndexOutOfBoundsException",
    "InvalidClientIDException",
    "InvalidDestinationException",
    "InvalidSelectorException",
    "JMSException",
    "JMSSecurityException",
    "MessageEOFException",
    "MessageFormatException",
    "MessageNotReadableException",
    "MessageNotWriteableException",
    "NullPointerException",
    "NumberFormatException",
    "ResourceAllocationException",
    "TransactionInProgressException",
    "TransactionRolledBackException",
    "UnsupportedOperationException",
]


class JMSException(CheckedThrowable, Exception, declares=True):
    """Root of all exceptions of the JMS API.

    ``str(error)`` and `message` show the reason. `error_code` is a provider-specific string or None.
    `linked_exception` is the cause, also set as ``__cause__``.
    """

    _error_code: str | None = None  # also of a subclass that does not call this constructor, as a dataclass

    def __init__(self, reason: str | None = None, error_code: str | None = None) -> None:
        super().__init__(*([] if reason is None else [reason]))
        self._error_code = error_code

    @property
    def error_code(self) -> str | None:
        """The provider's code for this error, or None."""
        return self._error_code

    @property
    def linked_exception(self) -> BaseException | None:
        """The exception that caused this one, or None."""
        return self.__cause__

    @linked_exception.setter
    def linked_exception(self, error: BaseException | None) -> None:
        self.__cause__ = error

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self.args[0]) if self.args else None, self._error_code)


class IllegalStateException(JMSException):
    """A method was called at a wrong time: a closed object, a wrong domain, commit without a transaction."""


class InvalidClientIDException(JMSException):
    """The provider rejects the client identifier."""


class InvalidDestinationException(JMSException):
    """The destination is not understood or no longer valid."""


class InvalidSelectorException(JMSException):
    """The message selector is malformed; the reason shows where."""


class JMSSecurityException(JMSException):
    """The provider rejects the credentials, or the client may not do this."""


class MessageEOFException(JMSException):
    """A StreamMessage or BytesMessage ended while it was read."""


class MessageFormatException(JMSException):
    """A data type that the message does not support, or data read as a wrong type."""


class MessageNotReadableException(JMSException):
    """A write-only message was read."""


class MessageNotWriteableException(JMSException):
    """A read-only message was written."""


class ResourceAllocationException(JMSException):
    """The provider cannot allocate what the call needs."""


class TransactionInProgressException(JMSException):
    """The call is not allowed while a transaction is in progress: commit of a session that XA controls."""


class TransactionRolledBackException(JMSException):
    """A commit rolled the transaction back instead."""


class IllegalArgumentException(RuntimeThrowable, ValueError):
    """java.lang.IllegalArgumentException: an argument that no call accepts, such as an empty property name."""


class NumberFormatException(IllegalArgumentException):
    """java.lang.NumberFormatException: a text that is no number of the wanted type."""


class NullPointerException(RuntimeThrowable, TypeError):
    """java.lang.NullPointerException: None where a value is needed."""


class UnsupportedOperationException(RuntimeThrowable, NotImplementedError):
    """java.lang.UnsupportedOperationException: a call that this object does not allow."""


class IndexOutOfBoundsException(RuntimeThrowable, IndexError):
    """java.lang.IndexOutOfBoundsException: a length outside the buffer."""

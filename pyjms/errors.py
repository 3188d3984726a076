"""The exceptions of JMS (1.1 §7.3), those of the simplified API of JMS 2.0, and the Java run-time exceptions that the specification names.

All of them have the methods of `Throwable`, which a ``catch`` block of a program from Java calls.
"""

from __future__ import annotations

import sys
import traceback
from types import FrameType
from typing import TextIO

from pyjms.api.names import JavaNames, is_of_application

__all__ = [
    "IllegalArgumentException",
    "IllegalStateException",
    "IllegalStateRuntimeException",
    "IndexOutOfBoundsException",
    "InvalidClientIDException",
    "InvalidClientIDRuntimeException",
    "InvalidDestinationException",
    "InvalidDestinationRuntimeException",
    "InvalidSelectorException",
    "InvalidSelectorRuntimeException",
    "JMSException",
    "JMSRuntimeException",
    "JMSSecurityException",
    "JMSSecurityRuntimeException",
    "MessageEOFException",
    "MessageFormatException",
    "MessageFormatRuntimeException",
    "MessageNotReadableException",
    "MessageNotWriteableException",
    "MessageNotWriteableRuntimeException",
    "NullPointerException",
    "NumberFormatException",
    "ResourceAllocationException",
    "ResourceAllocationRuntimeException",
    "TransactionInProgressException",
    "TransactionInProgressRuntimeException",
    "TransactionRolledBackException",
    "TransactionRolledBackRuntimeException",
    "UnsupportedOperationException",
]


class Throwable(JavaNames, declares=True):
    """The methods of java.lang.Throwable for code that catches an exception. Python's exceptions lack them; ours derive
    from both, from this class first.
    """

    __slots__ = ()
    args: tuple[object, ...]
    __cause__: BaseException | None

    def get_cause(self) -> BaseException | None:
        """Return ``__cause__``, or None. A method, so that a subclass may have a field `cause`."""
        return self.__cause__

    def __str__(self) -> str:
        text = application_text(self)
        return super().__str__() if text is None else text

    def to_string(self) -> str:
        """Return the name of the class and, where there is one, the reason; ``str(error)`` is the reason alone."""
        name, reason = type(self).__name__, str(self)
        return f"{name}: {reason}" if reason else name

    def print_stack_trace(self, file: TextIO | None = None) -> None:
        """Write to `file`, or to ``sys.stderr``, the traceback that Python prints for an uncaught exception."""
        traceback.print_exception(self, file=file)  # type: ignore[call-overload]  # it is an exception, too


class CheckedThrowable(Throwable, declares=True):
    """Java's checked exceptions, such as `JMSException`: the reason is a property, like all other values."""

    __slots__ = ()

    @property
    def message(self) -> str | None:
        """The reason given, or None."""
        return str(self.args[0]) if self.args else None


class RuntimeThrowable(Throwable, declares=True):
    """Java's run-time exceptions. They are also Python errors, whose subclasses may have a field `message`."""

    __slots__ = ()

    def get_message(self) -> str | None:
        """Return the reason given, or None. A method, so that a subclass may have a field `message`."""
        return str(self.args[0]) if self.args else None


def application_text(error: Throwable) -> str | None:
    """Return what getMessage() says of `error` if its class, of an application, overrides it or has a field `message`;
    otherwise None.

    Also None while that method runs, as it may ask for the text of its own error: there ``str(self)`` is the reason.
    """
    kind = type(error)
    # Only a class of an application changes the text: the methods of this package return the reason given.
    owner = next(base for base in kind.__mro__ if "getMessage" in vars(base))
    if not is_of_application(owner) and not ("message" in kind.java_members and "message" in vars(error)):
        return None
    getter = kind.getMessage  # type: ignore[attr-defined]  # no Throwable is without it
    code = getattr(getter, "__code__", None)
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  nothing else tells who asks
    while frame is not None:
        # The application's own getMessage() may ask for str(self), which would call it again without end.
        if code is not None and frame.f_code is code and any(value is error for value in frame.f_locals.values()):
            return None
        frame = frame.f_back
    text = getter(error)
    return "" if text is None else str(text)


class JMSException(CheckedThrowable, Exception, declares=True):
    """Root of all exceptions of the JMS API.

    ``str(error)`` and `message` show the reason. `error_code` is a provider-specific string or None.
    `linked_exception` is the cause, also set as ``__cause__``.
    """

    _error_code: str | None = None  # also of a subclass that does not call this constructor, as a dataclass

    def __init__(
        self,
        reason: str | None = None,
        error_code: str | None = None,
        linked_exception: BaseException | None = None,
    ) -> None:
        # Without a reason `args` stays empty: str() would show None otherwise.
        super().__init__(*([] if reason is None else [reason]))
        self._error_code = error_code
        if linked_exception is not None:
            self.__cause__ = linked_exception

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


class JMSRuntimeException(RuntimeThrowable, RuntimeError, declares=True):
    """Root of the exceptions of the simplified API, `JMSContext`, `JMSProducer` and `JMSConsumer` (JMS 2.0).

    Each subclass stands for the `JMSException` of the same name without ``Runtime``. `error_code` is a provider-specific string
    or None; `get_cause` returns the cause, which is also ``__cause__``.
    """

    _error_code: str | None = None  # also of a subclass that does not call this constructor

    def __init__(
        self,
        detail_message: str | None = None,
        error_code: str | None = None,
        cause: BaseException | None = None,
    ) -> None:
        super().__init__(*([] if detail_message is None else [detail_message]))
        self._error_code = error_code
        if cause is not None:
            self.__cause__ = cause

    @property
    def message(self) -> str | None:
        """The reason given, or None."""
        return str(self.args[0]) if self.args else None

    @property
    def error_code(self) -> str | None:
        """The provider's code for this error, or None."""
        return self._error_code

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self.args[0]) if self.args else None, self._error_code)


class IllegalStateRuntimeException(JMSRuntimeException):
    """A method was called at a wrong time: a closed context, a commit without a transaction, a close from the context's own listener."""


class InvalidClientIDRuntimeException(JMSRuntimeException):
    """The provider rejects the client identifier."""


class InvalidDestinationRuntimeException(JMSRuntimeException):
    """The destination is not understood or no longer valid."""


class InvalidSelectorRuntimeException(JMSRuntimeException):
    """The message selector is malformed; the reason shows where."""


class JMSSecurityRuntimeException(JMSRuntimeException):
    """The provider rejects the credentials, or the client may not do this."""


class MessageFormatRuntimeException(JMSRuntimeException):
    """A data type that the message does not support, or a body that is not of the wanted type."""


class MessageNotWriteableRuntimeException(JMSRuntimeException):
    """The producer has properties for a message whose properties are read-only."""

    # Two constructors of this class, and of the next one, call their first parameter by another name.
    def __init__(
        self,
        detail_message: str | None = None,
        error_code: str | None = None,
        cause: BaseException | None = None,
        *,
        reason: str | None = None,
    ) -> None:
        super().__init__(reason if detail_message is None else detail_message, error_code, cause)


class ResourceAllocationRuntimeException(JMSRuntimeException):
    """The provider cannot allocate what the call needs."""

    def __init__(
        self,
        detail_message: str | None = None,
        error_code: str | None = None,
        cause: BaseException | None = None,
        *,
        reason: str | None = None,
    ) -> None:
        super().__init__(reason if detail_message is None else detail_message, error_code, cause)


class TransactionInProgressRuntimeException(JMSRuntimeException):
    """The call is not allowed while a transaction is in progress: commit of a context that XA controls."""


class TransactionRolledBackRuntimeException(JMSRuntimeException):
    """A commit rolled the transaction back instead."""

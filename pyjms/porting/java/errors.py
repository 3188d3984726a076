"""Java's exceptions that pyjms itself does not need, and errors for parts of a program that were not ported."""

from __future__ import annotations

import builtins
from typing import Any, NoReturn

from pyjms.api.base import NameNotFoundException, NamingException, NoSuchElementException
from pyjms.errors import (
    CheckedThrowable,
    IllegalArgumentException,
    IndexOutOfBoundsException,
    JMSRuntimeException,
    NullPointerException,
    RuntimeThrowable,
    Throwable,
)

__all__ = [
    "RUNTIME_EXCEPTIONS",
    "ArithmeticException",
    "ArrayIndexOutOfBoundsException",
    "AssertionError",
    "BrokenBarrierException",
    "CancellationException",
    "ClassCastException",
    "ClassNotFoundException",
    "CloneNotSupportedException",
    "ConcurrentModificationException",
    "DateTimeException",
    "DateTimeParseException",
    "EOFException",
    "EmptyStackException",
    "Error",
    "Exception",
    "ExecutionException",
    "FileNotFoundException",
    "FormatFlagsConversionMismatchException",
    "IOException",
    "IllegalFormatConversionException",
    "IllegalFormatException",
    "IllegalFormatFlagsException",
    "IllegalFormatPrecisionException",
    "IllegalMonitorStateException",
    "IllegalStateException",
    "IllegalThreadStateException",
    "InputMismatchException",
    "InterruptedException",
    "MissingFormatArgumentException",
    "MissingFormatWidthException",
    "NegativeArraySizeException",
    "NoSuchFileException",
    "NotPorted",
    "ParseException",
    "PatternSyntaxException",
    "RejectedExecutionException",
    "RuntimeException",
    "SecurityException",
    "StringIndexOutOfBoundsException",
    "TimeoutException",
    "UncheckedIOException",
    "UnknownFormatConversionException",
    "UnsupportedCharsetException",
    "UnsupportedEncodingException",
    "message_of",
    "not_ported",
    "not_ported_field",
]


class NotPorted(BaseException):
    """Execution has reached a part of the program that is not ported yet; the text says which.

    No ``except Exception`` of the program catches it.
    """


def not_ported(what: str) -> NoReturn:
    """Raise `NotPorted`, where an expression is expected."""
    raise NotPorted(what)


class not_ported_field:  # noqa: N801  it is written like the function
    """A static field that was not ported: reading it raises `NotPorted`."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __get__(self, instance: object, owner: type | None = None) -> NoReturn:
        raise NotPorted(self._what)


class _WithCause(BaseException):
    """The constructors of Java's exceptions: a message, a cause, both, or neither."""

    def __init__(self, message: object = None, cause: BaseException | None = None) -> None:
        if isinstance(message, BaseException) and cause is None:
            cause = message
            # An exception with only a cause has the cause's text as its message, as in Throwable.
            message = _described(cause)
        # Without a message `args` stays empty, which means null.
        super().__init__(*([] if message is None else [message]))
        if cause is not None:
            self.__cause__ = cause


def _described(error: BaseException) -> str:
    name, reason = java_class_name(type(error)), message_of(error)
    return name if reason is None else f"{name}: {reason}"


class Exception(_WithCause, CheckedThrowable, builtins.Exception):
    """java.lang.Exception, for `throw` and for subclasses; `except` uses Python's own."""


class IOException(Exception, OSError):
    """java.io.IOException."""


class InterruptedException(Exception):
    """java.lang.InterruptedException, raised by `sleep` alone."""


class TimeoutException(Exception):
    """java.util.concurrent.TimeoutException."""


class RuntimeException(_WithCause, RuntimeThrowable, RuntimeError):
    """java.lang.RuntimeException."""


class IllegalStateException(RuntimeException):
    """java.lang.IllegalStateException; JMS's is another class, in pyjms."""


class IllegalMonitorStateException(RuntimeException):
    """java.lang.IllegalMonitorStateException."""


class NegativeArraySizeException(RuntimeException):
    """java.lang.NegativeArraySizeException."""


class SecurityException(RuntimeException):
    """java.lang.SecurityException."""


class EmptyStackException(RuntimeException):
    """java.util.EmptyStackException."""


class ConcurrentModificationException(RuntimeException):
    """java.util.ConcurrentModificationException."""


class CancellationException(IllegalStateException):
    """java.util.concurrent.CancellationException."""


class RejectedExecutionException(RuntimeException):
    """java.util.concurrent.RejectedExecutionException."""


class UncheckedIOException(RuntimeException):
    """java.io.UncheckedIOException."""


class DateTimeException(RuntimeException):
    """java.time.DateTimeException."""


class DateTimeParseException(DateTimeException):
    """java.time.format.DateTimeParseException."""


class ArrayIndexOutOfBoundsException(IndexOutOfBoundsException):
    """java.lang.ArrayIndexOutOfBoundsException."""


class StringIndexOutOfBoundsException(IndexOutOfBoundsException):
    """java.lang.StringIndexOutOfBoundsException."""


class IllegalThreadStateException(IllegalArgumentException):
    """java.lang.IllegalThreadStateException."""


class IllegalFormatException(IllegalArgumentException):
    """java.util.IllegalFormatException."""


class UnknownFormatConversionException(IllegalFormatException):
    """java.util.UnknownFormatConversionException."""


class MissingFormatArgumentException(IllegalFormatException):
    """java.util.MissingFormatArgumentException."""


class MissingFormatWidthException(IllegalFormatException):
    """java.util.MissingFormatWidthException."""


class IllegalFormatConversionException(IllegalFormatException):
    """java.util.IllegalFormatConversionException."""


class IllegalFormatPrecisionException(IllegalFormatException):
    """java.util.IllegalFormatPrecisionException."""


class IllegalFormatFlagsException(IllegalFormatException):
    """java.util.IllegalFormatFlagsException."""


class FormatFlagsConversionMismatchException(IllegalFormatException):
    """java.util.FormatFlagsConversionMismatchException."""


class UnsupportedCharsetException(IllegalArgumentException):
    """java.nio.charset.UnsupportedCharsetException."""


class PatternSyntaxException(IllegalArgumentException):
    """java.util.regex.PatternSyntaxException."""


class InputMismatchException(NoSuchElementException):
    """java.util.InputMismatchException."""


class EOFException(IOException):
    """java.io.EOFException."""


class FileNotFoundException(IOException):
    """java.io.FileNotFoundException."""


class UnsupportedEncodingException(IOException):
    """java.io.UnsupportedEncodingException."""


class NoSuchFileException(IOException):
    """java.nio.file.NoSuchFileException."""


class ExecutionException(Exception):
    """java.util.concurrent.ExecutionException."""


class BrokenBarrierException(Exception):
    """java.util.concurrent.BrokenBarrierException."""


class ClassNotFoundException(Exception):
    """java.lang.ClassNotFoundException."""


class CloneNotSupportedException(Exception):
    """java.lang.CloneNotSupportedException."""


class ParseException(Exception):
    """java.text.ParseException."""


class ClassCastException(_WithCause, RuntimeThrowable, TypeError):
    """java.lang.ClassCastException: a cast of an object that has another class."""


class ArithmeticException(_WithCause, RuntimeThrowable, builtins.ArithmeticError):
    """java.lang.ArithmeticException: an integer was divided by zero."""


class Error(_WithCause, RuntimeThrowable, BaseException):
    """java.lang.Error: not caught by `catch (Exception e)`."""


class AssertionError(Error):
    """java.lang.AssertionError."""


RUNTIME_EXCEPTIONS = (
    ArithmeticError,
    AttributeError,
    IllegalArgumentException,
    IndexError,
    KeyError,
    NoSuchElementException,
    NullPointerException,
    RuntimeError,
    TypeError,
    ValueError,
)
"""The exceptions that `catch (RuntimeException e)` catches: Java's classes, and those that Python raises in their
place.
"""

_PACKAGES = {
    "pyjms.errors": "javax.jms",
    "pyjms.api.base": "java.util",
    "pyjms.porting.java.errors": "java.lang",
}
_ELSEWHERE = {
    NamingException: "javax.naming.NamingException",
    NameNotFoundException: "javax.naming.NameNotFoundException",
    IOException: "java.io.IOException",
    TimeoutException: "java.util.concurrent.TimeoutException",
    EmptyStackException: "java.util.EmptyStackException",
    ConcurrentModificationException: "java.util.ConcurrentModificationException",
    CancellationException: "java.util.concurrent.CancellationException",
    RejectedExecutionException: "java.util.concurrent.RejectedExecutionException",
    UncheckedIOException: "java.io.UncheckedIOException",
    DateTimeException: "java.time.DateTimeException",
    DateTimeParseException: "java.time.format.DateTimeParseException",
    IllegalFormatException: "java.util.IllegalFormatException",
    UnknownFormatConversionException: "java.util.UnknownFormatConversionException",
    MissingFormatArgumentException: "java.util.MissingFormatArgumentException",
    MissingFormatWidthException: "java.util.MissingFormatWidthException",
    IllegalFormatConversionException: "java.util.IllegalFormatConversionException",
    IllegalFormatPrecisionException: "java.util.IllegalFormatPrecisionException",
    IllegalFormatFlagsException: "java.util.IllegalFormatFlagsException",
    FormatFlagsConversionMismatchException: "java.util.FormatFlagsConversionMismatchException",
    UnsupportedCharsetException: "java.nio.charset.UnsupportedCharsetException",
    PatternSyntaxException: "java.util.regex.PatternSyntaxException",
    InputMismatchException: "java.util.InputMismatchException",
    EOFException: "java.io.EOFException",
    FileNotFoundException: "java.io.FileNotFoundException",
    UnsupportedEncodingException: "java.io.UnsupportedEncodingException",
    NoSuchFileException: "java.nio.file.NoSuchFileException",
    ExecutionException: "java.util.concurrent.ExecutionException",
    BrokenBarrierException: "java.util.concurrent.BrokenBarrierException",
    ParseException: "java.text.ParseException",
    builtins.Exception: "java.lang.Exception",
    OSError: "java.io.IOException",
    ZeroDivisionError: "java.lang.ArithmeticException",
    AttributeError: "java.lang.NullPointerException",
    TypeError: "java.lang.NullPointerException",
    IndexError: "java.lang.IndexOutOfBoundsException",
    RuntimeError: "java.lang.RuntimeException",
    ValueError: "java.lang.IllegalArgumentException",
}


def java_class_name(kind: type) -> str:
    """Return the result of ``getClass().getName()`` for a class of Java, of JMS, or of a ported program."""
    # In the class's own dictionary: a subclass does not inherit the Java name of the class above.
    named: Any = kind.__dict__.get("java_name")
    if isinstance(named, str):
        return named
    if kind in _ELSEWHERE:
        return _ELSEWHERE[kind]
    package = _PACKAGES.get(kind.__module__)
    # The other unchecked exceptions of `pyjms.errors` are those of java.lang, such as NullPointerException.
    if package == "javax.jms" and not issubclass(kind, (CheckedThrowable, JMSRuntimeException)):
        package = "java.lang"
    return f"{package}.{kind.__name__}" if package else kind.__qualname__.rpartition("<locals>.")[2].replace(".", "$")


def message_of(error: BaseException) -> str | None:
    """Return ``getMessage()`` of any exception: of Java's classes, and of Python's own."""
    get: Any = getattr(error, "getMessage", None)
    if isinstance(error, Throwable) and get is not None:
        return get()  # type: ignore[no-any-return]
    # Python's own exceptions have an empty text where Java has null.
    return str(error) if error.args else None


def class_cast(source: str, target: str) -> ClassCastException:
    """Return the exception of a cast from one class to another, with the text of the JDK."""
    places = [_module_of(source), _module_of(target)]
    # The JDK writes one clause for a shared module; programs print these texts, and tests compare them.
    if places[0] == places[1]:
        where = f"{source} and {target} are in {places[0]}"
    else:
        where = f"{source} is in {places[0]}; {target} is in {places[1]}"
    return ClassCastException(f"class {source} cannot be cast to class {target} ({where})")


def _module_of(name: str) -> str:
    if name.startswith(("java.", "[")):
        return "module java.base of loader 'bootstrap'"
    return "unnamed module of loader 'app'"

"""`Throwable`: the methods that a ``catch`` block calls, for every exception that a program from Java may catch."""

from __future__ import annotations

import traceback
from typing import TextIO

from pyjms.api.names import JavaNames

__all__ = ["CheckedThrowable", "RuntimeThrowable", "Throwable"]


class Throwable(JavaNames, declares=True):
    """What java.lang.Throwable has for who catches one. Python's exceptions lack it; ours derive from both."""

    __slots__ = ()
    args: tuple[object, ...]
    __cause__: BaseException | None

    def get_cause(self) -> BaseException | None:
        """Return ``__cause__``, or None. A method, so that a subclass may have a field `cause`."""
        return self.__cause__

    def to_string(self) -> str:
        """Return the name of the class and, where there is one, the reason; ``str(error)`` is the reason alone."""
        name, reason = type(self).__name__, str(self)
        return f"{name}: {reason}" if reason else name

    def print_stack_trace(self, file: TextIO | None = None) -> None:
        """Write to `file`, or to ``sys.stderr``, what Python writes of an exception that nobody catches."""
        traceback.print_exception(self, file=file)  # type: ignore[call-overload]  # it is an exception, too


class CheckedThrowable(Throwable, declares=True):
    """What those have that Java makes callers catch, such as `JMSException`: the reason is a property, as all that is read."""

    __slots__ = ()

    @property
    def message(self) -> str | None:
        """The reason given, or None."""
        return str(self.args[0]) if self.args else None


class RuntimeThrowable(Throwable, declares=True):
    """What Java's run-time exceptions have. They are errors of Python, too, whose subclasses may have a field `message`."""

    __slots__ = ()

    def get_message(self) -> str | None:
        """Return the reason given, or None. A method, so that a subclass may have a field `message`."""
        return str(self.args[0]) if self.args else None

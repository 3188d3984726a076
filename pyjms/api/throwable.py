"""`Throwable`: the methods that a ``catch`` block calls, for every exception that a program from Java may catch."""

from __future__ import annotations

import sys
import traceback
from types import FrameType
from typing import TextIO

from pyjms.api.fields import is_of_application
from pyjms.api.names import JavaNames


class Throwable(JavaNames, declares=True):
    """What java.lang.Throwable has for who catches one. Python's exceptions lack it; ours derive from both, from this one first."""

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


def application_text(error: Throwable) -> str | None:
    """Return what getMessage() says of `error` if its class, of an application, overrides it or has a field `message`; else None.

    None also within that method, which may ask for the text of its own error: ``str(self)`` is the reason given, there.
    """
    kind = type(error)
    owner = next(base for base in kind.__mro__ if "getMessage" in vars(base))
    if not is_of_application(owner) and not ("message" in kind.java_members and "message" in vars(error)):
        return None
    getter = kind.getMessage  # type: ignore[attr-defined]  # no Throwable is without it
    code = getattr(getter, "__code__", None)
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  nothing else tells who asks
    while frame is not None:
        if code is not None and frame.f_code is code and any(value is error for value in frame.f_locals.values()):
            return None
        frame = frame.f_back
    text = getter(error)
    return "" if text is None else str(text)

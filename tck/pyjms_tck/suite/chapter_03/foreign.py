"""Messages of another make: they implement the interfaces of the API, and are no classes of pyjms.

Each wraps a message of the provider under test, which saves writing the rules of messages again: for who sends such a
message, only its methods count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyjms import BytesMessage, MapMessage, Message, ObjectMessage, StreamMessage, TextMessage

_KINDS: tuple[type[Message], ...] = (TextMessage, ObjectMessage, MapMessage, StreamMessage, BytesMessage, Message)


def foreign(message: Message) -> Any:
    """Return a message of another make with the content of `message`."""
    kind = next(kind for kind in _KINDS if isinstance(message, kind))
    make: Callable[[Message], Any] = _CLASSES[kind]
    return make(message)


def _method(name: str) -> Callable[..., Any]:
    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        return getattr(self.wrapped, name)(*arguments, **named)

    return call


def _property(name: str) -> property:
    def read(self: Any) -> Any:
        return getattr(self.wrapped, name)

    def write(self: Any, value: Any) -> None:
        setattr(self.wrapped, name, value)

    return property(read, write)


def _class(kind: type[Message]) -> Any:
    members: dict[str, Any] = {"__init__": _wrap}
    for name in getattr(kind, "__abstractmethods__", ()):
        declared = getattr(kind, name)
        members[name] = _property(name) if isinstance(declared, property) else _method(name)
    return type(f"Foreign{kind.__name__}", (kind,), members)


def _wrap(self: Any, message: Message) -> None:
    self.wrapped = message


_CLASSES = {kind: _class(kind) for kind in _KINDS}

"""Whatever an application offers as a listener, made callable: an implementation of the interface, or a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyjms.api.connection import ExceptionListenerLike
from pyjms.api.consumer import MessageListenerLike
from pyjms.api.message import Message
from pyjms.errors import IllegalArgumentException, JMSException

__all__ = ["exception_callback", "message_callback"]


def message_callback(listener: MessageListenerLike) -> Callable[[Message], Any]:
    """Return what to call with a message. Raises IllegalArgumentException for what cannot be called with one."""
    return _callback(listener, "message listener", "on_message", "onMessage")


def exception_callback(listener: ExceptionListenerLike) -> Callable[[JMSException], Any]:
    """Return what to call with an exception. Raises IllegalArgumentException for what cannot be called with one."""
    return _callback(listener, "exception listener", "on_exception", "onException")


def _callback(listener: object, what: str, *names: str) -> Callable[[Any], Any]:
    for name in names:
        if callable(method := getattr(listener, name, None)):
            return method  # type: ignore[no-any-return]
    if callable(listener):
        return listener
    raise IllegalArgumentException(f"{type(listener).__name__} is no {what}: it has no {names[0]}")

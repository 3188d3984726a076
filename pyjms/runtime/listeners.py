"""Whatever an application offers as a listener, made callable: an implementation of the interface, or a function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from pyjms.api.connection import ExceptionListenerLike
from pyjms.api.consumer import MessageListenerLike
from pyjms.api.message import Message
from pyjms.api.names import hidden_method
from pyjms.errors import IllegalArgumentException, JMSException


def message_callback(listener: MessageListenerLike, *, awaits: bool = False) -> Callable[[Message], Any]:
    """Return what to call with a message. Raises IllegalArgumentException for what cannot be called with one.

    `awaits`: the caller awaits a coroutine that the listener returns.
    """
    return _callback(listener, "message", awaits, "on_message", "onMessage")


def exception_callback(listener: ExceptionListenerLike, *, awaits: bool = False) -> Callable[[JMSException], Any]:
    """Return what to call with an exception. Raises IllegalArgumentException for what cannot be called with one."""
    return _callback(listener, "exception", awaits, "on_exception", "onException")


def check_implementation(given: object) -> None:
    """Raise IllegalArgumentException for an object of an application with a field that hides one of its methods."""
    if (reason := hidden_method(given)) is not None:
        raise IllegalArgumentException(reason)


def _callback(listener: object, argument: str, awaits: bool, *names: str) -> Callable[[Any], Any]:
    what = f"{argument} listener"
    if isinstance(listener, type) and any(
        name in vars(base) for base in listener.__mro__ for name in (*names, "__call__")
    ):
        raise IllegalArgumentException(
            f"{listener.__name__} is the class of a {what}: give an object of it, {listener.__name__}(…)"
        )
    check_implementation(listener)
    for name in names:
        if callable(method := getattr(listener, name, None)):
            return _checked(method, f"{type(listener).__name__}.{name}", argument, awaits)
    if callable(listener):
        return _checked(listener, getattr(listener, "__qualname__", type(listener).__name__), argument, awaits)
    raise IllegalArgumentException(f"{type(listener).__name__} is no {what}: it has no {names[0]}")


def _checked(function: Callable[[Any], Any], name: str, argument: str, awaits: bool) -> Callable[[Any], Any]:
    """Return `function`. Raises IllegalArgumentException where a call with one argument would fail, or run nothing."""
    called = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
    for candidate in (function, called):
        if inspect.isgeneratorfunction(candidate) or inspect.isasyncgenfunction(candidate):
            raise IllegalArgumentException(
                f"{name} is no {argument} listener: it yields, so that a call of it runs nothing"
            )
        if inspect.iscoroutinefunction(candidate) and not awaits:
            raise IllegalArgumentException(
                f"{name} is no {argument} listener: it is a coroutine function, and nobody would await it. Use pyjms.aio"
            )
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError, NameError):  # built in, or with annotations that name what is not there
        return function
    try:
        signature.bind(None)
    except TypeError as error:
        raise IllegalArgumentException(
            f"{name} is no {argument} listener: it cannot be called with one {argument} ({error})"
        ) from error
    return function

"""Checks of arguments from applications: listeners, which become callables, and the terms of a consumer (JMS 1.1 §4.5, §6.11.1, §8.2)."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pyjms.api.connection import ExceptionListenerLike
from pyjms.api.consumer import MessageListenerLike
from pyjms.api.destination import Destination, TemporaryTopic, Topic
from pyjms.api.message import Message
from pyjms.api.names import hidden_method
from pyjms.api.producer import CompletionListener
from pyjms.api.session import AcknowledgeMode
from pyjms.errors import (
    IllegalArgumentException,
    IllegalStateException,
    InvalidDestinationException,
    InvalidSelectorException,
    JMSException,
)
from pyjms.messages.destinations import address_of
from pyjms.runtime.error_mapping import mapped_errors
from pyjms.spi.capability import Capability
from pyjms.spi.envelope import AddressKind
from pyjms.spi.provider import SubscribeRequest
from pyjms.spi.selector import Selector, selector_or_none

if TYPE_CHECKING:
    from pyjms.runtime.completions import Callbacks
    from pyjms.runtime.contracts import ConnectionContract


def message_callback(listener: MessageListenerLike, *, awaits: bool = False) -> Callable[[Message], Any]:
    """Return the callable for a message. Raises IllegalArgumentException for a listener that cannot be called with one.

    `awaits`: the caller awaits a coroutine that the listener returns.
    """
    return _callback(listener, "message", awaits, "on_message", "onMessage")


def exception_callback(listener: ExceptionListenerLike, *, awaits: bool = False) -> Callable[[JMSException], Any]:
    """Return the callable for an exception. Raises IllegalArgumentException for a listener that cannot be called with one."""
    return _callback(listener, "exception", awaits, "on_exception", "onException")


def completion_callbacks(listener: CompletionListener) -> Callbacks:
    """Return the two methods of a completion listener. Raises IllegalArgumentException for an object that has not both."""
    kind = type(listener)
    # A program may have a listener for each message: its class is checked once.
    names = _completion_methods.get(kind)
    if names is not None:
        on_completion, on_exception = getattr(listener, names[0], None), getattr(listener, names[1], None)
        if callable(on_completion) and callable(on_exception):
            return on_completion, on_exception
    if listener is None:
        raise IllegalArgumentException("None is no completion listener: leave the argument out for a send that waits")
    what = "completion listener"
    if isinstance(listener, type):
        raise IllegalArgumentException(
            f"{listener.__name__} is the class of a {what}: give an object of it, {listener.__name__}(…)"
        )
    check_implementation(listener)
    names = (
        _method_name(listener, ("on_completion", "onCompletion"), what, 1),
        _method_name(listener, ("on_exception", "onException"), what, 2),
    )
    _completion_methods[kind] = names
    return getattr(listener, names[0]), getattr(listener, names[1])


_completion_methods: WeakKeyDictionary[type, tuple[str, str]] = WeakKeyDictionary()
"""The names of the two methods, by class of completion listeners."""


def _method_name(listener: object, names: tuple[str, ...], what: str, arguments: int) -> str:
    """Return the one of the names that is a method. Raises IllegalArgumentException where there is none that takes so many arguments."""
    kind = type(listener).__name__
    for each in names:
        if callable(method := getattr(listener, each, None)):
            _checked(method, f"{kind}.{each}", what, arguments)
            return each
    raise IllegalArgumentException(f"{kind} is no {what}: it has no {names[0]}")


def check_implementation(given: object) -> None:
    """Raise IllegalArgumentException for an object of an application with a field that hides one of its methods."""
    if (reason := hidden_method(given)) is not None:
        raise IllegalArgumentException(reason)


def _callback(listener: object, argument: str, awaits: bool, *names: str) -> Callable[[Any], Any]:
    what = f"{argument} listener"
    # A class is callable, too: each message would only make an object of it.
    if isinstance(listener, type) and any(
        name in vars(base) for base in listener.__mro__ for name in (*names, "__call__")
    ):
        raise IllegalArgumentException(
            f"{listener.__name__} is the class of a {what}: give an object of it, {listener.__name__}(…)"
        )
    check_implementation(listener)
    for name in names:
        if callable(method := getattr(listener, name, None)):
            return _checked(method, f"{type(listener).__name__}.{name}", what, awaits=awaits)
    if callable(listener):
        return _checked(listener, getattr(listener, "__qualname__", type(listener).__name__), what, awaits=awaits)
    raise IllegalArgumentException(f"{type(listener).__name__} is no {what}: it has no {names[0]}")


def _checked(
    function: Callable[..., Any], name: str, what: str, arguments: int = 1, *, awaits: bool = False
) -> Callable[..., Any]:
    """Return `function`. Raises IllegalArgumentException where a call with so many arguments would fail, or run nothing."""
    # An object may be a coroutine function by its `__call__` alone.
    called = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
    for candidate in (function, called):
        if inspect.isgeneratorfunction(candidate) or inspect.isasyncgenfunction(candidate):
            raise IllegalArgumentException(f"{name} is no {what}: it yields, so that a call of it runs nothing")
        if inspect.iscoroutinefunction(candidate) and not awaits:
            raise IllegalArgumentException(
                f"{name} is no {what}: it is a coroutine function, and nobody would await it. Use pyjms.aio"
            )
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError, NameError):  # built in, or with annotations of unknown names
        return function
    try:
        signature.bind(*[None] * arguments)
    except TypeError as error:
        called_with = f"one {what.split(maxsplit=1)[0]}" if arguments == 1 else "a message and an exception"
        raise IllegalArgumentException(
            f"{name} is no {what}: it cannot be called with {called_with} ({error})"
        ) from error
    return function


_UNTRANSACTED = {
    AcknowledgeMode.AUTO_ACKNOWLEDGE,
    AcknowledgeMode.CLIENT_ACKNOWLEDGE,
    AcknowledgeMode.DUPS_OK_ACKNOWLEDGE,
}
_TRANSACTED, _ACKNOWLEDGE_MODE, _SESSION_MODE = "transacted", "acknowledge_mode", "session_mode"


def session_mode(*arguments: Any, **named: Any) -> AcknowledgeMode:
    """Return the mode of a session that is created with these arguments: a mode alone, or whether it is transacted, and the mode if not.

    Raises `JMSException` for an unknown mode, `TypeError` for arguments that no overload takes.
    """
    # JMS 2.0 has one argument of int, JMS 1.1 a boolean and an int: only a single argument that is no bool is a mode.
    is_mode_alone = (
        len(arguments) == 1 and not named and not isinstance(arguments[0], bool) and arguments[0] is not None
    )
    given = dict(zip((_SESSION_MODE,) if is_mode_alone else (_TRANSACTED, _ACKNOWLEDGE_MODE), arguments, strict=False))
    if len(arguments) > 2 or given.keys() & named.keys() or (_SESSION_MODE in named and len(named) + len(given) > 1):
        raise TypeError(
            "a session is created with no argument, with (session_mode), or with (transacted, acknowledge_mode)"
        )
    given |= named
    if unknown := given.keys() - {_TRANSACTED, _ACKNOWLEDGE_MODE, _SESSION_MODE}:
        raise TypeError(f"create_session() got an unexpected keyword argument {min(unknown)!r}")
    if _SESSION_MODE in given:
        return _mode(
            given[_SESSION_MODE],
            "use Session.SESSION_TRANSACTED, AUTO_ACKNOWLEDGE, CLIENT_ACKNOWLEDGE or DUPS_OK_ACKNOWLEDGE",
        )
    transacted = given.get(_TRANSACTED, False)
    if isinstance(transacted, AcknowledgeMode):  # it would be true, and the session a transacted one
        raise JMSException(
            f"with two arguments, whether a session is transacted comes first: create_session(False, Session.{transacted.name})"
            if transacted
            else "with two arguments, whether a session is transacted comes first: create_session(True, Session.SESSION_TRANSACTED)"
        )
    if transacted:
        return AcknowledgeMode.SESSION_TRANSACTED  # JMS 1.1 §4.4.11: the mode is ignored
    advice = "use Session.AUTO_ACKNOWLEDGE, CLIENT_ACKNOWLEDGE or DUPS_OK_ACKNOWLEDGE"
    mode = _mode(given.get(_ACKNOWLEDGE_MODE, AcknowledgeMode.AUTO_ACKNOWLEDGE), advice)
    if mode not in _UNTRANSACTED:
        raise JMSException(
            "SESSION_TRANSACTED is the mode of a transacted session, create_session(Session.SESSION_TRANSACTED); "
            f"without transactions, {advice}"
        )
    return mode


def _mode(given: object, advice: str) -> AcknowledgeMode:
    if not isinstance(given, int) or given not in tuple(AcknowledgeMode):
        raise JMSException(f"{given!r} is no acknowledge mode: {advice}")
    return AcknowledgeMode(given)


def subscribe_request(
    connection: ConnectionContract,
    destination: Destination,
    selector: str | None,
    *,
    no_local: bool = False,
    durable_name: str | None = None,
    shared_name: str | None = None,
    is_shared: bool = False,
) -> SubscribeRequest:
    """Return the request to the provider.

    Raises `InvalidDestinationException`, `InvalidSelectorException`; `JMSException` for a missing capability of the provider.
    """
    address = address_of(destination)
    if selector:
        connection.require(Capability.SELECTORS, "message selectors")
    if address.kind is AddressKind.TOPIC:
        connection.require(Capability.TOPICS, "topics")
        if no_local:
            connection.require(Capability.NO_LOCAL, "no_local")
    with mapped_errors:
        return SubscribeRequest(
            address=address,
            selector=selector_of(selector),
            # JMS 1.1 has no_local for topics only (§6.11): with a queue it is ignored.
            no_local=bool(no_local) and address.kind is AddressKind.TOPIC,
            durable_name=durable_name,
            shared_name=shared_name,
            is_shared=is_shared,
            priority=connection.consumer_priority,
        )


def selector_of(text: str | None) -> Selector | None:
    """Return the selector of `text`; None and "" mean: no selector (JMS 1.1 §3.8.1.1).

    Raises `InvalidSelectorException` for a value that is no text, `InvalidSelectorError` for a text that is no selector.
    """
    if text is not None and not isinstance(text, str):
        raise InvalidSelectorException(f"a selector is a str, or None for none, not {type(text).__name__}")
    return selector_or_none(text)


def check_durable(connection: ConnectionContract, topic: Topic, name: str, what: str) -> None:
    """Raise unless a consumer of the unshared durable subscription `name` of `topic` may be created on this connection (§6.3, §6.11.1).

    `what` names the consumer in errors. Raises `InvalidDestinationException`, `IllegalStateException` without a client identifier,
    `JMSException`.
    """
    connection.require(Capability.DURABLE_SUBSCRIPTIONS, "durable subscriptions")
    _check_topic(topic, "a durable subscription")
    _check_not_temporary(topic)
    check_client_id(connection, f"create {what}")
    check_subscription_name(name)


def check_shared(connection: ConnectionContract, topic: Topic, name: str) -> None:
    """Raise unless a consumer of the shared non-durable subscription `name` of `topic` may be created on this connection (JMS 2.0 §8.3.2).

    Raises `InvalidDestinationException`, `JMSException`.
    """
    connection.require(Capability.SHARED_SUBSCRIPTIONS, "shared subscriptions")
    _check_topic(topic, "a shared subscription")
    check_subscription_name(name)


def check_shared_durable(connection: ConnectionContract, topic: Topic, name: str) -> None:
    """Raise unless a consumer of the shared durable subscription `name` of `topic` may be created on this connection (JMS 2.0 §8.3.4).

    Raises `InvalidDestinationException`, `JMSException`.
    """
    connection.require(Capability.DURABLE_SUBSCRIPTIONS, "durable subscriptions")
    connection.require(Capability.SHARED_SUBSCRIPTIONS, "shared subscriptions")
    _check_topic(topic, "a durable subscription")
    _check_not_temporary(topic)
    check_subscription_name(name)


def _check_topic(topic: object, what: str) -> None:
    if not isinstance(topic, Topic):
        raise InvalidDestinationException(f"{what} needs a topic")


def _check_not_temporary(topic: Topic) -> None:
    if isinstance(topic, TemporaryTopic):
        # JMS 1.1 §6.2: it would outlive its topic
        raise InvalidDestinationException("a temporary topic has no durable subscriptions: use create_consumer")


def check_client_id(connection: ConnectionContract, what: str) -> None:
    """Raise IllegalStateException when the connection has no client identifier, which `what` needs."""
    if connection.configured_client_id is None:
        raise IllegalStateException(f"to {what}, set the connection's client_id first (JMS 1.1 §6.3)")


def check_subscription_name(name: str) -> None:
    """Raise JMSException when `name` cannot be that of a subscription."""
    if not isinstance(name, str) or not name:
        raise JMSException(f"{name!r} is no subscription name: use a non-empty string")

"""Connection factories: a URL and options, and the connections that they describe (JMS 1.1 §4.2).

The scheme chooses the provider. Of the URL's options and the keyword arguments, the runtime takes those of
`RUNTIME_OPTIONS`; all others go to the provider, which refuses those that it does not know.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypeVar

from pyjms.api.context import JMSContext
from pyjms.api.factory import (
    QueueConnectionFactory as QueueConnectionFactoryInterface,
)
from pyjms.api.factory import (
    TopicConnectionFactory as TopicConnectionFactoryInterface,
)
from pyjms.errors import IllegalArgumentException, JMSException
from pyjms.runtime.connection import JmsConnection
from pyjms.runtime.context import JmsContext, SharedConnection, require_mode, sort_context_arguments
from pyjms.runtime.domains import JmsQueueConnection, JmsTopicConnection
from pyjms.runtime.error_mapping import close_made, mapped_errors, runtime_errors
from pyjms.runtime.type_names import NamedTypesProvider, TypeNames
from pyjms.spi.clock import Clock, SystemClock
from pyjms.spi.credentials import login_of_account
from pyjms.spi.interrupts import defers_signals
from pyjms.spi.provider import ConnectRequest, Provider
from pyjms.spi.registry import find_provider
from pyjms.spi.url import ProviderUrl

DEFAULT_URL = "vm://default"

RUNTIME_OPTIONS = (
    "client_id",
    "user_name",
    "password",
    "trusted",
    "jms_types",
    "max_unacknowledged",
    "consumer_priority",
    "clock",
    "record",
    "record_synchronously",
)

_SYSTEM_CLOCK = SystemClock()
_Connection = TypeVar("_Connection", bound=JmsConnection)
_Context = TypeVar("_Context", bound=JmsContext)


class ConnectionFactory(QueueConnectionFactoryInterface, TopicConnectionFactoryInterface):
    """Makes connections to the message system behind a URL. Safe to share between threads; picklable.

    url: ``vm://NAME`` for the broker in this process, another scheme for another provider; None takes the
    environment's ``PYJMS_URL``, or ``vm://default``.

    Options, as keywords or in the URL's query:

    - client_id: the client identifier of its connections (§4.3.2).
    - user_name, password: the credentials used when `create_connection` or `create_context` gets none. Keep passwords out of URLs. Without any, a connection
      over a network takes the account's (§4.3.1): of the environment, or of the credentials file, for just that host and port.
    - trusted: classes that object messages from other processes may hold, as ``package.module.Class`` or
      ``package.module.*``; a comma-separated string or a collection of strings.
    - jms_types: names for types of messages, as ``NAME=TYPE, NAME=TYPE`` or a mapping: what the program calls NAME as JMSType and in selectors is TYPE
      at the message system (§3.4.8).
    - max_unacknowledged: how many messages a CLIENT_ACKNOWLEDGE or transacted session may hold unacknowledged (§4.4.11);
      a receive beyond it raises ResourceAllocationException, a listener waits. 0, the default: no limit.
    - consumer_priority: consumers of connections with a higher one are served first while they want messages, if the
      provider can do so; a whole number, 0 by default.
    - clock: a `pyjms.spi.Clock` (keyword only); the default follows the system's clock, and freezegun.
    - record: a directory, or as a keyword a `pyjms.history.Recording`: what its connections do is recorded there.
      Where that cannot be written, the log says so, and the connections work all the same.
    - record_synchronously: true to lose no event when the process is killed, for a `record` that is a directory.

    Raises JMSException for a malformed URL, IllegalArgumentException for an option of another type, or a `record` that names no directory. An unknown scheme and unknown
    options are reported by `create_connection` and `create_context`.
    """

    def __init__(self, url: str | None = None, **options: Any) -> None:
        self._text = url or os.environ.get("PYJMS_URL") or DEFAULT_URL
        with mapped_errors:
            parsed = ProviderUrl.parse(self._text)
        given = {name: value for name, value in {**parsed.options, **options}.items() if value is not None}
        own = {name: given.pop(name, None) for name in RUNTIME_OPTIONS}
        self._options: Mapping[str, Any] = options
        self._url = replace(parsed, options=MappingProxyType({name: _text(value) for name, value in given.items()}))
        self._client_id = _given_text(own["client_id"], "client_id")
        self._user_name = _given_text(own["user_name"], "user_name") or parsed.user_name
        self._password = _given_text(own["password"], "password") or parsed.password
        self._trusted = _trusted(own["trusted"])
        self._type_names = TypeNames.read(own["jms_types"])
        self._max_unacknowledged = _whole_number(own["max_unacknowledged"] or 0, "max_unacknowledged")
        self._consumer_priority = _whole_number(own["consumer_priority"] or 0, "consumer_priority")
        self._clock = _clock(own["clock"])
        self._record = _record(own["record"])
        self._record_synchronously = _truth(own["record_synchronously"], "record_synchronously")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._url!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self._text, dict(self._options))

    def create_connection(self, user_name: str | None = None, password: str | None = None) -> JmsConnection:
        """Return a connection that is stopped. Raises JMSSecurityException when the credentials are refused."""
        return self._connect(JmsConnection, user_name, password)

    def create_queue_connection(self, user_name: str | None = None, password: str | None = None) -> JmsQueueConnection:
        """Return a connection of the queue domain, stopped."""
        return self._connect(JmsQueueConnection, user_name, password)

    def create_topic_connection(self, user_name: str | None = None, password: str | None = None) -> JmsTopicConnection:
        """Return a connection of the topic domain, stopped."""
        return self._connect(JmsTopicConnection, user_name, password)

    def create_context(self, *arguments: Any, **named: Any) -> JMSContext:
        """Return a context with a connection of its own, in any of the argument orders of `pyjms.api.factory.ConnectionFactory`."""
        return self.open_context(JmsContext, *arguments, **named)

    @defers_signals(undo=close_made)
    def open_context(self, kind: type[_Context], *arguments: Any, **named: Any) -> _Context:
        """Return a context of the class `kind`; the other arguments are those of `create_context`."""
        with runtime_errors:
            user_name, password, mode = sort_context_arguments(arguments, named)
            connection = self._connect(JmsConnection, user_name, password)
            try:
                require_mode(connection, mode)
            except JMSException:
                close_made(connection)
                raise
            return kind(SharedConnection(connection), mode)

    @defers_signals(undo=close_made)
    def _connect(self, kind: type[_Connection], user_name: str | None, password: str | None) -> _Connection:
        # The two belong together: a user name of the call is never sent with the factory's password.
        given = (self._user_name, self._password) if user_name is None else (user_name, password)
        with mapped_errors:
            provider = find_provider(self._url.scheme)
            if given == (None, None):
                given = login_of_account(provider, self._url)
            provider = self._recorded(provider)
        if self._type_names is not None:
            provider = NamedTypesProvider(provider, self._type_names)
        request = ConnectRequest(
            url=self._url,
            user_name=given[0],
            password=given[1],
            client_id=self._client_id,
            clock=self._clock,
        )
        return kind(provider, request, self._trusted, self._max_unacknowledged, self._consumer_priority)

    def _recorded(self, provider: Provider) -> Provider:
        """Return `provider`, with a recorder before it if the factory records."""
        if self._record is None:
            return provider
        # The recorder is imported only where something is recorded: other programs need none of it.
        from pyjms.history.recorder import RecordedProvider
        from pyjms.history.recording import Recording, recording_at

        recording = self._record
        if not isinstance(recording, Recording):
            recording = recording_at(str(recording), synchronous=self._record_synchronously)
        return RecordedProvider(provider, recording)


class QueueConnectionFactory(ConnectionFactory):
    """A factory of the queue domain: `create_connection` makes queue connections.

    Every factory of the domain is an instance of it, as in Java, where it is an interface: a `ConnectionFactory` of any kind,
    and classes that implement the API's interface.
    """

    @classmethod
    def __subclasshook__(cls, other: type) -> bool:
        # Subclasses inherit this hook: only for this very class may it extend isinstance().
        if cls is QueueConnectionFactory and QueueConnectionFactoryInterface in other.__mro__:
            return True
        return NotImplemented  # type: ignore[no-any-return]

    def create_connection(self, user_name: str | None = None, password: str | None = None) -> JmsQueueConnection:
        return self.create_queue_connection(user_name, password)


class TopicConnectionFactory(ConnectionFactory):
    """A factory of the topic domain: `create_connection` makes topic connections.

    Every factory of the domain is an instance of it, as with `QueueConnectionFactory`.
    """

    @classmethod
    def __subclasshook__(cls, other: type) -> bool:
        if cls is TopicConnectionFactory and TopicConnectionFactoryInterface in other.__mro__:
            return True
        return NotImplemented  # type: ignore[no-any-return]

    def create_connection(self, user_name: str | None = None, password: str | None = None) -> JmsTopicConnection:
        return self.create_topic_connection(user_name, password)


def _rebuild(kind: type[ConnectionFactory], url: str, options: dict[str, Any]) -> ConnectionFactory:
    return kind(url, **options)


def _given_text(value: Any, name: str) -> str | None:
    """Return a text; None: there is none, or an empty one. It may be a secret, and is not shown."""
    if value and not isinstance(value, str):
        raise IllegalArgumentException(f"{name} must be a text, not {type(value).__name__}")
    return value or None


def _trusted(value: Any) -> frozenset[str]:
    if not value:
        return frozenset()
    names = value.split(",") if isinstance(value, str) else list(value) if isinstance(value, Iterable) else [value]
    if not all(isinstance(name, str) for name in names):
        raise IllegalArgumentException(
            "trusted must name classes, as package.module.Class or package.module.*, in a text with commas or a collection of texts, "
            f"not {value!r}"
        )
    return frozenset(name.strip() for name in names if name.strip())


def _whole_number(value: Any, name: str) -> int:
    # `int()` would take underscores, blanks and digits of other scripts.
    digits = str(value)
    if isinstance(value, bool) or not (digits.isascii() and digits.isdecimal()):
        raise IllegalArgumentException(f"{name} must be a whole number, 0 or more, not {value!r}")
    return int(digits)


def _truth(value: Any, name: str) -> bool:
    text = "false" if value is None else _text(value)
    if text not in {"true", "false"}:
        raise IllegalArgumentException(f"{name} must be true or false, not {value!r}")
    return text == "true"


def _record(value: Any) -> Any:
    """Return a recording, or the name of a directory; None: nothing is recorded."""
    if isinstance(value, str):
        # A name that no file system allows is refused here, where the option is known: half of a surrogate pair, or a NUL.
        try:
            path = os.fsencode(value)
        except UnicodeEncodeError:
            path = b""
        if not path or b"\0" in path:
            raise IllegalArgumentException(
                f"record must name a directory, or be a pyjms.history.Recording, not {value!r}; leave it out to record nothing"
            )
    return value or None


def _clock(value: Any) -> Clock:
    if value is None:
        return _SYSTEM_CLOCK
    if not isinstance(value, Clock):
        raise IllegalArgumentException(f"clock must be a pyjms.spi.Clock, given as a keyword, not {value!r}")
    return value


def _text(value: Any) -> str:
    # Options of a URL are texts: a provider gets true in one form, from a keyword or from a URL.
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)

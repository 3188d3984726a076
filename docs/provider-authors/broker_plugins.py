"""The example of the guide to broker plug-ins: a protocol, authentication, access control, a queue type, and a category."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import count

from pyjms.spi.clock import Clock
from pyjms.spi.envelope import Address, AddressKind, BodyKind, Envelope, MessageId
from pyjms.spi.errors import AccessDeniedError, ProviderError, ResourceError
from pyjms.spi.provider import ProviderConnection, ProviderSession, SubscribeRequest
from pyjms_provider.plugins import (
    AccessControlType,
    AccessPolicy,
    Attributes,
    AuthenticationType,
    Authenticator,
    Category,
    Credentials,
    ModelPlugin,
    OpenPort,
    Operation,
    PasswordCredentials,
    PortServices,
    PortType,
    Principal,
    ProtocolEngine,
    QueueTypePlugin,
    Rank,
    Startable,
    Target,
    TargetKind,
    TransportContext,
    attribute,
    operation,
    setting,
    statistic,
    wrong_credentials,
)

# Authentication


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamSettings:
    password: str = setting("What all of the team know.", is_secure=True)
    members: tuple[str, ...] = setting("Who is in the team.")
    group: str = setting("The group that they are in.", default="team")


class Team(AuthenticationType):
    title = "Members of a team with one password"
    settings = TeamSettings

    def make(self, name: str, settings: TeamSettings, clock: Clock) -> Authenticator:
        if len(settings.password) < 8:
            raise ValueError("password is too short: give it 8 characters or more")
        return TeamAuthenticator(settings)


class TeamAuthenticator(Authenticator):
    def __init__(self, settings: TeamSettings) -> None:
        self._settings = settings

    def handles(self, credentials: Credentials | None) -> bool:
        return isinstance(credentials, PasswordCredentials)

    def authenticate(self, credentials: Credentials | None, *, peer: str = "") -> Principal:
        chosen = self._settings
        if isinstance(credentials, PasswordCredentials):
            given, right = credentials.password.encode(), chosen.password.encode()
            if hmac.compare_digest(given, right) and credentials.user_name in chosen.members:
                return Principal(name=credentials.user_name, groups=frozenset({chosen.group}))
        raise wrong_credentials()


# Access control


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenSettings:
    queues: tuple[str, ...] = setting("Patterns of the queues that nobody may send to.", default=())


class Frozen(AccessControlType):
    title = "All may do anything, but send to some queues"
    settings = FrozenSettings

    def make(self, name: str, settings: FrozenSettings, clock: Clock) -> AccessPolicy:
        return FrozenPolicy(settings.queues)


class FrozenPolicy(AccessPolicy):
    def __init__(self, patterns: tuple[str, ...]) -> None:
        self._patterns = patterns

    @property
    def epoch(self) -> object:
        return self._patterns  # its decisions never change: a changed setting makes another policy

    def check(self, principal: Principal, operation: Operation, target: Target, connection: str = "") -> None:
        is_send = operation is Operation.WRITE and target.kind is TargetKind.QUEUE
        if is_send and any(fnmatchcase(target.name, pattern) for pattern in self._patterns):
            raise AccessDeniedError(f"the queue {target.name} is frozen: send to it later")


# A queue type


class LastInFirstOut(QueueTypePlugin):
    title = "The newest message first"

    def ranks(self, key: str | None) -> Callable[[Envelope], Rank]:
        numbers = count()
        return lambda _: -next(numbers)


# A category


class DepthWatchAttributes(Attributes):
    queue: str = attribute("The queue to watch.")
    most: int = attribute("So many messages are too many.", default=100, ge=1)


class DepthWatch(Startable):
    """Says whether a queue of its virtual host is too deep."""

    category = "depth_watch"
    attributes_class = DepthWatchAttributes

    @statistic("How many messages the queue has; none: there is no such queue.", unit="messages")
    def depth(self) -> int | None:
        chosen = self.attributes
        assert isinstance(chosen, DepthWatchAttributes)
        assert self.parent is not None
        queue = self.parent.find_child("queue", chosen.queue)
        return None if queue is None else int(queue.statistic_values(["depth"])["depth"])

    @operation("Say whether the queue is too deep.", needs=Operation.OBSERVE, changes=False)
    def is_too_deep(self) -> bool:
        chosen = self.attributes
        assert isinstance(chosen, DepthWatchAttributes)
        return (self.depth or 0) > chosen.most


class Watching(ModelPlugin):
    def categories(self) -> list[Category]:
        return [
            Category(
                name="depth_watch",
                parent="virtual_host",
                summary="says whether a queue is too deep",
                types={"": DepthWatch},
            )
        ]


# A protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class LineSettings:
    line_max: int = setting("The most bytes of a line.", default=10_000)


class LinePort(PortType):
    title = "Messages as lines of text: LOGIN USER PASSWORD, SEND QUEUE TEXT, RECEIVE QUEUE, QUIT"
    scheme = "line"
    settings = LineSettings

    def open(self, services: PortServices) -> OpenPort:
        return services.listen(lambda transport: LineEngine(services, transport))


class LineEngine(ProtocolEngine):
    """One connection. Its methods are called on the connection's thread, `_do` and `_close` on a worker."""

    def __init__(self, services: PortServices, transport: TransportContext) -> None:
        self._services = services
        self._transport = transport
        self._unread = bytearray()
        self._out = bytearray()
        self._is_working = False
        self._is_over = False
        self._connection: ProviderConnection | None = None
        self._session: ProviderSession | None = None
        self._trouble: str | None = None
        self._numbers = count(1)
        self._login_until_ms = services.clock.monotonic_ms() + services.login_timeout_ms

    # Bytes in and out

    def received(self, data: bytes | bytearray | memoryview) -> None:
        self._unread += data
        self._next_line()

    def _next_line(self) -> None:
        # One line at a time, so that the answers are in order.
        if self._is_working or self._is_over:
            return
        end = self._unread.find(b"\n")
        if max(end, len(self._unread) if end < 0 else 0) > self._services.settings.line_max:
            self._finish("ERROR the line is too long")
            return
        if end >= 0:
            line = self._unread[:end].decode("utf-8", "replace").strip()
            del self._unread[: end + 1]
            self._is_working = True
            self._transport.work(lambda: self._do(line), self._done)

    def _done(self, answer: str | None, error: BaseException | None) -> None:
        self._is_working = False
        if self._is_over:
            self._close()  # the client has gone meanwhile
        elif isinstance(error, AccessDeniedError) and self._session is None:
            self._finish(f"ERROR {error.reason}")
        elif error is not None:
            self._say(f"ERROR {error.reason if isinstance(error, ProviderError) else 'the broker has failed'}")
            self._next_line()
        elif answer is None:
            self._finish("BYE")
        else:
            self._say(answer)
            self._next_line()
        self._transport.wake()

    def _say(self, line: str) -> None:
        self._out += line.replace("\n", " ").encode() + b"\n"

    def _finish(self, line: str) -> None:
        self._say(line)
        self._is_over = True
        self._close()

    def pull(self, size: int) -> bytes:
        if self._trouble is not None and not self._is_over:
            self._finish(f"ERROR {self._trouble}")
        taken = bytes(self._out[:size])
        del self._out[:size]
        return taken

    @property
    def is_reading(self) -> bool:
        return not self._is_working and not self._is_over

    @property
    def knows_peer(self) -> bool:
        return self._session is not None

    @property
    def is_over(self) -> bool:
        return self._is_over

    # The work of a line: it may wait

    def _do(self, line: str) -> str | None:
        word, _, rest = line.partition(" ")
        name, _, text = rest.partition(" ")
        if word == "QUIT":
            return None
        if word == "LOGIN":
            return self._log_in(PasswordCredentials(user_name=name, password=text))
        session = self._session
        if session is None:
            return "ERROR log in first: LOGIN USER PASSWORD"
        queue = Address(AddressKind.QUEUE, name)
        if word == "SEND" and name:
            session.send(self._message(queue, text))
            return "OK"
        if word == "RECEIVE" and name:
            return self._receive(session, queue)
        return "ERROR say LOGIN USER PASSWORD, SEND QUEUE TEXT, RECEIVE QUEUE or QUIT"

    def _log_in(self, credentials: PasswordCredentials) -> str:
        if self._connection is not None:
            return "ERROR you have logged in"
        self._connection = self._services.connect(credentials, self._transport.peer, self)
        self._connection.start()
        self._session = self._connection.open_session(transacted=False)
        return "OK"

    def _message(self, queue: Address, text: str) -> Envelope:
        assert self._connection is not None
        message_id = MessageId(f"ID:{self._connection.connection_id}-{next(self._numbers)}")
        now_ms = self._services.clock.time_ms()
        return Envelope(queue, message_id, now_ms, 0, 2, 4, None, None, None, {}, BodyKind.TEXT, text)

    def _receive(self, session: ProviderSession, queue: Address) -> str:
        request = SubscribeRequest(address=queue, selector=None, no_local=False, durable_name=None)
        consumer = session.subscribe(request, lambda: None)
        try:
            delivery = consumer.poll()
        finally:
            consumer.close()
        if delivery is None:
            return "NONE"
        answer = (
            f"MESSAGE {delivery.envelope.body}"  # read first: a message that is acknowledged may have left the store
        )
        session.acknowledge([delivery])
        return answer

    # Time, and the end

    def next_tick_ms(self) -> int | None:
        return None if self._session is not None or self._is_over else int(self._login_until_ms) + 1

    def tick(self) -> None:
        if self._session is None and self._services.clock.monotonic_ms() >= self._login_until_ms:
            self._finish("ERROR nobody logged in")

    def stop(self, reason: str) -> None:
        if not self._is_over:
            self._finish(f"ERROR {reason}")

    def on_exception(self, error: ProviderError) -> None:
        """Note that the virtual host has ended the connection. Any thread."""
        self._trouble = error.reason
        self._transport.wake()

    def closed(self, error: BaseException | None) -> None:
        self._is_over = True
        self._close()

    def _close(self) -> None:
        # While a line is being worked on, `_done` calls this again.
        if self._connection is not None and not self._is_working:
            connection, self._connection = self._connection, None
            self._transport.work(connection.close, lambda _, error: self._closed(connection, error))

    def _closed(self, connection: ProviderConnection, error: BaseException | None) -> None:
        # No thread became free: without another try the connection's messages would never go back.
        if isinstance(error, ResourceError):
            self._transport.work(connection.close, lambda _, again: self._closed(connection, again))

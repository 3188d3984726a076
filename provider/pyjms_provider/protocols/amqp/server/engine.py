"""One AMQP connection at the broker: login, open, sessions, idle time-outs.

All of it runs on the connection's thread, but for work that may wait: that runs on another one, and what it has to tell the client follows on
the connection's thread, as only that may touch the machines.
"""

from __future__ import annotations

import logging
import platform
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyjms.spi.errors import (
    AccessDeniedError,
    DuplicateClientIdError,
    ProviderError,
    ResourceError,
)
from pyjms_provider.amqp.capabilities import (
    ANONYMOUS_RELAY,
    COMMANDS,
    CONFIRMED_SETTLEMENT,
    DELAYED_DELIVERY,
    GREETING,
    NON_PERSISTENT_IN_MEMORY,
    SHARED_SUBSCRIPTIONS,
    SOLE_CONNECTION,
    TRANSACTED,
)
from pyjms_provider.amqp.codec import Symbol, UInt
from pyjms_provider.amqp.errors import AmqpError, Condition, ConnectionFault
from pyjms_provider.amqp.performatives import Open, SaslCode
from pyjms_provider.protocols.amqp.connection import (
    Connection,
    ConnectionClosed,
    ConnectionFailed,
    ConnectionOpened,
    ConnectionSettings,
    LoginOffered,
    SaslServer,
)
from pyjms_provider.protocols.amqp.link import (
    CreditChanged,
    DeliveryReceived,
    IncomingUpdated,
    LinkDetached,
    LinkEnded,
    LinkRequested,
    OutgoingUpdated,
)
from pyjms_provider.protocols.amqp.sasl import (
    AnonymousLogin,
    CertificateLogin,
    Login,
    PasswordLogin,
    SaslError,
    ScramLogin,
    TokenLogin,
)
from pyjms_provider.protocols.amqp.server.refusals import connection_fault
from pyjms_provider.protocols.amqp.server.reply_nodes import ReplyNodes
from pyjms_provider.protocols.amqp.server.sessions import ServedSession
from pyjms_provider.protocols.amqp.server.transactions import Transactions
from pyjms_provider.protocols.amqp.session import SessionBegun, SessionEnded
from pyjms_provider.protocols.engine import ProtocolEngine
from pyjms_provider.protocols.logins import Authenticated, authenticate, enter, leave
from pyjms_provider.protocols.profile.greeting import greeting_of
from pyjms_provider.protocols.scheduling import Backlog, DeliveryScheduler
from pyjms_provider.security.contracts import (
    CertificateCredentials,
    Credentials,
    PasswordCredentials,
    TokenCredentials,
    VerifiedCredentials,
)
from pyjms_provider.security.logins import UncheckedLogins

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyjms.spi.provider import ProviderConnection
    from pyjms_provider.protocols.amqp.connection import Event
    from pyjms_provider.protocols.amqp.link import Link
    from pyjms_provider.protocols.amqp.server.contracts import PortService
    from pyjms_provider.protocols.amqp.server.work import Work
    from pyjms_provider.protocols.amqp.session import Session
    from pyjms_provider.protocols.engine import TransportContext
    from pyjms_provider.protocols.hosts import Guard
    from pyjms_provider.security.contracts import ScramKeys

_log = logging.getLogger(__name__)
_NAME_ONE: Final = "name one in the hostname of the open, or have the operator set default_host of this port"
_CLOSING_MS: Final = 2_000
"""How long a client has to answer the broker's close."""
_OFFERED: Final = (
    SOLE_CONNECTION,
    DELAYED_DELIVERY,
    SHARED_SUBSCRIPTIONS,
    ANONYMOUS_RELAY,
    CONFIRMED_SETTLEMENT,
    COMMANDS,
)
_SCRAM: Final = "SCRAM-SHA-256"
_SHOWN: Final[tuple[tuple[str, Credentials | None], ...]] = (
    ("EXTERNAL", CertificateCredentials(certificate=b"")),
    ("XOAUTH2", TokenCredentials(token="")),
    ("PLAIN", PasswordCredentials(user_name="user", password="")),
    ("ANONYMOUS", None),
)
"""The other mechanisms of SASL, in the order in which they are offered, with credentials as clients show them."""
_ENFORCEMENT: Final = "sole-connection-enforcement-policy"
"""Its value 0 refuses the second connection."""
_DETECTION: Final = "sole-connection-detection-policy"
"""Its value 1, weak, is for brokers that look only at connections which ask for it."""
_FAILED: Final = "amqp:connection-establishment-failed"


@dataclass(frozen=True, slots=True)
class _Entered:
    """A client that is connected to its virtual host."""

    guard: Guard
    client_id: str | None
    """Its container id; None: another connection has it as its client identifier."""
    greeting: Mapping[str, str] | None
    """What a pyjms client is told of the broker."""


class AmqpServerEngine(ProtocolEngine):
    """The engine of one AMQP connection at the broker."""

    def __init__(self, service: PortService, transport: TransportContext) -> None:
        self.service = service
        self.transport = transport
        settings = self._settings = service.settings
        self._clock = service.clock
        self.machine = Connection(
            ConnectionSettings(
                frame_size_max=settings.frame_bytes_max,
                channel_max=settings.sessions_max - 1,
                handle_max=settings.links_max - 1,
                incoming_window=settings.incoming_window,
                idle_time_out_ms=settings.idle_timeout_ms or None,
                session_properties=frozenset({TRANSACTED}),
            ),
            SaslServer(self._mechanisms(), self._scram_keys, is_required=not service.authenticator.handles(None)),
        )
        self.scheduler = DeliveryScheduler(transport.wake)
        self.backlog = Backlog()
        self.transactions = Transactions(settings.transactions_max)
        self.replies = ReplyNodes()
        self.container_id = ""
        self.client_id: str | None = None
        self._client: Authenticated | None = None
        self._connection: ProviderConnection | None = None
        self._guard: Guard | None = None
        self._sessions: dict[Session, ServedSession] = {}
        self._finished: deque[Callable[[], None]] = deque()
        """What follows work that was done on other threads."""
        self._trouble: ProviderError | None = None
        self._scram_user = self._scram_provider = ""
        """Of the keys by which a client's SCRAM is verified."""
        self._login_until_ms: float | None = self._clock.monotonic_ms() + settings.login_timeout_ms
        self._closing_until_ms: float | None = None
        self._is_held_up = False
        """Whether the machine may hold bytes that wait for an answer of the broker's."""
        self._is_entering = False
        self._has_ended = False
        self._is_leaving = False
        """Whether the client has closed the connection, and its work is being finished."""
        self._handlers: Mapping[type, Callable[[Any], None]] = {
            LoginOffered: self._login_offered,
            ConnectionOpened: self._opened,
            ConnectionClosed: self._closed_by_peer,
            ConnectionFailed: self._failed,
            SessionBegun: self._session_begun,
            SessionEnded: self._session_ended,
            LinkRequested: lambda event: event.link.session.context.requested(event.link),
            LinkDetached: lambda event: event.link.session.context.detached(event),
            LinkEnded: lambda _: None,
            CreditChanged: lambda event: event.link.context.credit_changed(),
            DeliveryReceived: lambda event: event.delivery.link.context.received(event.delivery),
            OutgoingUpdated: lambda event: event.deliveries[0].link.session.context.updated(event),
            IncomingUpdated: self._settled_by_client,
        }

    def _mechanisms(self) -> tuple[str, ...]:
        """Return the mechanisms that this client may use, as authentication providers come and go while the port is open."""
        authenticator, certificate = self.service.authenticator, self.transport.peer.certificate
        # EXTERNAL needs a certificate of the client's.
        found = [name for name, shown in _SHOWN if authenticator.handles(shown) and (certificate or name != "EXTERNAL")]
        return (_SCRAM, *found) if authenticator.knows_scram else tuple(found)

    def _scram_keys(self, user_name: str) -> ScramKeys | None:
        try:
            keys = self.service.authenticator.scram_keys(user_name, peer=self.transport.peer.address)
        except AccessDeniedError as error:
            raise SaslError(error.reason) from error
        self._scram_user = user_name
        self._scram_provider = "" if keys is None else keys.provider
        return keys

    # Calls of the transport

    def received(self, data: bytes | bytearray | memoryview) -> None:
        if not self.machine.is_over:
            self._process(self.machine.receive(data))

    def _process(self, events: Sequence[Event]) -> None:
        handlers, machine = self._handlers, self.machine
        while True:
            for event in events:
                handlers[type(event)](event)
            self._finish()
            if not self._is_held_up or machine.is_waiting:
                break
            # What came behind a login, an open or an attach that has been answered.
            self._is_held_up = False
            events = machine.receive(b"")
        self._go_on()

    def _finish(self) -> None:
        """Tell the client what has been done."""
        self._is_held_up = self._is_held_up or self.machine.is_waiting
        finished = self._finished
        while finished:
            finished.popleft()()

    def _go_on(self) -> None:
        """Answer what was taken, and begin what waits."""
        for session in tuple(self._sessions.values()):
            session.flush()
        if self.backlog.has_waiting:
            self.backlog.has_waiting = False
            for session in tuple(self._sessions.values()):
                session.executor.run()

    def pull(self, size: int) -> bytes | bytearray | memoryview:
        if self._trouble is not None:
            self._close(connection_fault(self._trouble))
        if self._finished:
            self._finish()
            self._process(())
        machine = self.machine
        data = machine.take(size)
        if len(data) >= size or not self.scheduler or not machine.is_open:
            return data
        parts = [data]
        try:
            self.scheduler.pull(size - len(data), parts)
        except (ProviderError, AmqpError) as error:  # the virtual host stops at this moment, say
            self._close(connection_fault(error))
        self._go_on()
        parts.append(machine.take(size))
        return b"".join(parts)

    @property
    def is_reading(self) -> bool:
        if self.is_over or self.machine.is_waiting:
            return False
        # Waiting work holds its messages in memory: above a limit, further frames stay in the socket.
        return self.backlog.waiting_bytes <= self._settings.waiting_bytes_max

    @property
    def knows_peer(self) -> bool:
        return self._guard is not None

    @property
    def is_over(self) -> bool:
        return self.machine.is_over

    def next_tick_ms(self) -> int | None:
        if self.is_over:
            return None
        times = [each for each in (self._login_until_ms, self._closing_until_ms) if each is not None]
        sign = self.machine.next_tick_ms(self._clock.monotonic_ms())
        if sign is not None:
            times.append(sign)
        if self._settings.idle_timeout_ms:
            times.append(self.transport.heard_ms + self._settings.idle_timeout_ms)
        # Rounded up: a tick that came a part of a millisecond early would find nothing to do.
        return int(min(times)) + 1 if times else None

    def tick(self) -> None:
        if self.is_over:
            return
        now_ms = self._clock.monotonic_ms()
        machine, settings = self.machine, self._settings
        if self._closing_until_ms is not None and now_ms >= self._closing_until_ms:
            machine.fail(ConnectionFault(Condition.CONNECTION_FORCED, "the client does not answer the close"))
            self._end()
        elif self._login_until_ms is not None and now_ms >= self._login_until_ms:
            self._log_rarely(
                logging.INFO,
                "PYJMS-AMQP-2 connection from %s ends: %s",
                f"nobody logged in within {settings.login_timeout_ms} ms",
            )
            machine.fail(ConnectionFault(Condition.UNAUTHORIZED_ACCESS, "the login took too long"))
            self._end()
        elif settings.idle_timeout_ms and now_ms >= self.transport.heard_ms + settings.idle_timeout_ms:
            silent_ms = now_ms - self.transport.heard_ms
            self._log_rarely(
                logging.INFO,
                "PYJMS-AMQP-2 connection from %s ends: %s",
                f"nothing was heard for {silent_ms:.0f} ms",
            )
            machine.fail(
                ConnectionFault(
                    Condition.RESOURCE_LIMIT_EXCEEDED,
                    f"nothing was heard for {silent_ms:.0f} ms: send empty frames in time",
                )
            )
            self._end()
        else:
            machine.tick(now_ms)
        self.transport.wake()

    def stop(self, reason: str) -> None:
        if not self.is_over:
            self._close(ConnectionFault(Condition.CONNECTION_FORCED, reason))
            self.transport.wake()

    def closed(self, error: BaseException | None) -> None:
        self.machine.fail(ConnectionFault(Condition.CONNECTION_FORCED, "the connection is gone"))
        self._end()
        self._finished.clear()
        self._close_connection()  # a login that still runs ends what it makes

    # The login

    def _login_offered(self, event: LoginOffered) -> None:
        # On a worker: checking a password is slow on purpose, and a directory may be asked.
        shown = self._credentials_of(event.login)
        self.transport.work(partial(authenticate, self.service, shown, self.transport.peer), self._authenticated)

    def _credentials_of(self, login: Login) -> Credentials | None:
        match login:
            case PasswordLogin():
                return PasswordCredentials(user_name=login.user, password=login.password)
            case TokenLogin():
                return TokenCredentials(token=login.token)
            case CertificateLogin():
                certificate = self.transport.peer.certificate
                return None if certificate is None else CertificateCredentials(certificate=certificate)
            case AnonymousLogin():
                return None
            case ScramLogin():
                return VerifiedCredentials(user_name=login.user, provider=self._scram_provider)

    def _authenticated(self, client: Authenticated | None, error: BaseException | None) -> None:
        if self.is_over:  # the client has gone meanwhile, or it took too long
            return
        if error is not None:
            refused = isinstance(error, AccessDeniedError)
            if refused:
                self._log_rarely(logging.WARNING, "PYJMS-AMQP-1 login refused for %s: %s", _reason(error))
            else:
                self._log_failure(error)
            self.machine.refuse_login(SaslCode.AUTH if refused else SaslCode.SYS_TEMP)
            self._end()
        else:
            assert client is not None
            self._client = client
            self.machine.accept_login()
            self._process(())
        self.transport.wake()

    def _opened(self, event: ConnectionOpened) -> None:
        self._is_entering = True
        self.transport.work(partial(self._enter, event.open), self._entered)

    def _enter(self, open_: Open) -> _Entered:
        """Connect the client to its virtual host. May wait. Raises `ProviderError`."""
        peer, service = self.transport.peer, self.service
        client = self._client
        if client is None:  # a client that skips SASL
            shown = None if peer.certificate is None else CertificateCredentials(certificate=peer.certificate)
            client = authenticate(service, shown, peer)
        is_sole = SOLE_CONNECTION in open_.desired_capabilities
        container = open_.container_id or None
        connection, guard = enter(
            service,
            client,
            virtual_host=open_.hostname or self._settings.default_host,
            advice=_NAME_ONE,
            peer=peer,
            events=self,
            client_id=container if is_sole else None,
        )
        greeting: Mapping[str, str] | None = None
        try:
            if container is not None and not is_sole:
                try:
                    connection.set_client_id(container)
                except DuplicateClientIdError:
                    container = None  # several connections of one container, none of which has to be the only one
            if COMMANDS in open_.desired_capabilities:
                body_max = self._settings.message_bytes_max
                greeting = greeting_of(connection, guard.host, body_max=body_max).headers()
            # AMQP has no call that starts the delivery: credit is what asks for messages. It may ask other members of a cluster.
            connection.start()
        except Exception:
            connection.close()
            raise
        # Only now: after an error above the connection is closed here, and `closed` must not close it as well.
        self._connection = connection
        return _Entered(guard, container, greeting)

    def _entered(self, entered: _Entered | None, error: BaseException | None) -> None:
        self._is_entering = False
        if self.is_over:  # the client has gone meanwhile, or it took too long
            self._close_connection()
            return
        machine, settings = self.machine, self._settings
        assert machine.remote is not None
        self._login_until_ms = None
        properties: dict[str, Any] = {
            "product": "pyjms",
            "version": settings.version,
            "platform": f"Python {platform.python_version()}",
        }
        if SOLE_CONNECTION in machine.remote.desired_capabilities:
            # A second connection is refused if it wants to be the only one as well, and not otherwise.
            properties[_ENFORCEMENT] = UInt(0)
            properties[_DETECTION] = UInt(1)
        if error is not None or entered is None:
            # The virtual host may have ended its connections meanwhile, and said why.
            self._refuse_open(self._trouble or error or ResourceError("the broker has no thread for this"), properties)
            return
        self._guard, self.client_id = entered.guard, entered.client_id
        if entered.greeting is not None:
            properties[GREETING] = entered.greeting
        self.container_id = machine.remote.container_id
        offered = self._guard.principal.unchecked_login
        if offered is not None:
            self._log_rarely(
                logging.INFO,
                "PYJMS-AMQP-7 login of %s not checked, as its port lets in everybody: %s",
                f"{offered[:64]!a}",
            )
        capabilities = _OFFERED if self._guard.host.persists_all else (*_OFFERED, NON_PERSISTENT_IN_MEMORY)
        machine.open(Open(settings.container_id, offered_capabilities=capabilities, properties=properties))
        self._process(())
        self.transport.wake()

    def _refuse_open(self, error: BaseException, properties: dict[str, Any]) -> None:
        """Answer the open, and close the connection for a reason (part 2, 2.4.1)."""
        if isinstance(error, AccessDeniedError):
            self._log_rarely(logging.WARNING, "PYJMS-AMQP-1 login refused for %s: %s", error.reason)
        elif not isinstance(error, ProviderError):
            self._log_failure(error)
        fault = connection_fault(error)
        if isinstance(error, DuplicateClientIdError):
            fault.info = {"invalid-field": Symbol("container-id")}
        self.machine.open(Open(self._settings.container_id, properties={**properties, _FAILED: True}))
        self._close(fault)
        self.transport.wake()

    # Events of the machine

    def _session_begun(self, event: SessionBegun) -> None:
        try:
            event.session.context = self._sessions[event.session] = ServedSession(self, event.session)
        except ProviderError as error:  # the virtual host has ended the connection
            self._close(connection_fault(error))

    def _session_ended(self, event: SessionEnded) -> None:
        session = self._sessions.get(event.session)
        if session is not None:
            session.leave()

    def session_on(self, channel: int) -> ServedSession | None:
        """Return the session that the client has on a channel; None: it has none."""
        return next((each for each in self._sessions.values() if each.session.remote_channel == channel), None)

    def forget(self, session: ServedSession) -> None:
        """Give up a session whose work has been done."""
        self._sessions.pop(session.session, None)
        if self._is_leaving and not self._sessions:
            self._leave()

    def _settled_by_client(self, event: IncomingUpdated) -> None:
        if event.is_settled:
            for link, count in Counter(each.link for each in event.deliveries).items():
                link.context.settled_by_client(count)

    def steal(self, link: Link) -> None:
        """End the links of other sessions that have the name of one which is being attached."""
        for session in tuple(self._sessions.values()):
            if session.session is not link.session:
                session.lose(link.name, link.role)

    def _closed_by_peer(self, event: ConnectionClosed) -> None:
        if self._has_ended:  # it answers the broker's close
            return
        # What the client asked for before is done first, as when it ends each session.
        self._is_leaving = True
        for session in tuple(self._sessions.values()):
            session.leave()
        if not self._sessions:
            self._leave()

    def _leave(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            self._end()
            self.machine.close()
            return
        self.transport.work(connection.close, partial(self._left, connection))

    def _left(self, connection: ProviderConnection, _: None, error: BaseException | None) -> None:
        if error is not None:
            self._not_closed(error)
        if isinstance(error, ResourceError):
            leave(self.transport, connection, self._not_closed)
        self._end()
        self.machine.close()
        self.transport.wake()

    def _failed(self, event: ConnectionFailed) -> None:
        if isinstance(event.error, SaslError):
            self._log_rarely(logging.WARNING, "PYJMS-AMQP-1 login refused for %s: %s", event.error.description)
            shown = PasswordCredentials(user_name=self._scram_user, password="") if self._scram_user else None
            note = partial(self.service.note_login, None, shown, self.transport.peer.address, event.error.description)
            self.transport.work(note, lambda _, __: None)
        else:
            self._log_rarely(logging.INFO, "PYJMS-AMQP-2 connection from %s ends: %s", event.error.description)
        self._end()

    # For sessions and links

    @property
    def is_free(self) -> bool:
        """Whether `push` may write now, as nothing is pending before it. The connection's thread."""
        machine = self.machine
        return machine.is_open and not machine.out_size and not self._finished and self.transport.is_free

    def push(self) -> None:
        """Have what the machine has to say written at once, while the connection `is_free`."""
        self.transport.push(self.machine.take())

    @property
    def connection(self) -> ProviderConnection:
        """The connection to the virtual host."""
        assert self._connection is not None, "the client has logged in"
        return self._connection

    @property
    def guard(self) -> Guard:
        """The rights of the connection's user."""
        assert self._guard is not None, "the client has logged in"
        return self._guard

    @property
    def lets_in_everybody(self) -> bool:
        """Whether the port checks no login. Any thread."""
        return isinstance(self.service.authenticator, UncheckedLogins)

    def takes_token(self, token: str) -> bool:
        """Return whether an authentication provider of the port is for tokens. Any thread."""
        return self.service.authenticator.handles(TokenCredentials(token=token))

    def show_token(self, token: str) -> None:
        """Check a token that the client shows after its login: it must be one of the connection's user. Any thread; may wait."""
        service, peer, shown = self.service, self.transport.peer, TokenCredentials(token=token)
        client, own, refusal = authenticate(service, shown, peer), self.guard.principal, None
        # What the connection has under way, and what it owns, is its user's: another user logs in with a new connection.
        if (client.principal.name, client.principal.provider) != (own.name, own.provider):
            refusal = AccessDeniedError("the token is of another user than this connection: log in with it")
        else:
            try:
                service.revocations.check(client.principal, client.mark)
            except AccessDeniedError as error:
                refusal = error
        service.note_login(client.principal if refusal is None else None, shown, peer.address, _reason(refusal))
        if refusal is not None:
            raise refusal

    def perform(self, work: Work) -> None:
        """Do a piece of work, and have the rest done on the connection's thread. Any thread."""
        if self._has_ended:
            return
        try:
            work.do()
        except (ProviderError, AmqpError) as error:
            self._finished.append(partial(work.done, error))
        else:
            self._finished.append(partial(work.done, None))

    def fail(self, error: BaseException) -> None:
        """End the connection because of an error in the broker."""
        if self.is_over:
            return
        if not isinstance(error, ProviderError):
            self._log_failure(error)
        self._close(connection_fault(error))
        self.transport.wake()

    # Events of the broker, on any thread

    def on_exception(self, error: ProviderError) -> None:
        """Note that the connection to the virtual host has failed, as when that stops."""
        self._trouble = error
        self.transport.wake()

    # The end

    def _close(self, fault: ConnectionFault) -> None:
        """Tell the client why the connection ends, and give it some time to answer."""
        self._trouble = None
        self.machine.close(fault)
        if self._closing_until_ms is None:
            self._closing_until_ms = self._clock.monotonic_ms() + _CLOSING_MS
        self._end()

    def _end(self) -> None:
        """End all work of the client."""
        if self._has_ended:
            return
        self._has_ended = True
        for session in self._sessions.values():
            session.end()
        self._sessions.clear()
        self.transactions.end_waits()
        if not self._is_entering:
            self._close_connection()

    def _close_connection(self) -> None:
        # Taken at once: the end of the connection and that of its login may both call this.
        connection, self._connection = self._connection, None
        if connection is not None:
            leave(self.transport, connection, self._not_closed)

    def _not_closed(self, error: BaseException) -> None:
        _log.error("PYJMS-AMQP-3 a connection did not close as it should", exc_info=error)

    # The log

    def _log_failure(self, error: BaseException) -> None:
        _log.error("PYJMS-AMQP-4 a frame of %s failed", self.transport.peer.address, exc_info=error)

    def _log_rarely(self, level: int, text: str, reason: str) -> None:
        """Write a log line about this peer, or count it: a hostile peer must not fill the disk. The audit log counts log-ins."""
        missed = self.service.rare_lines.missed(text, self._clock.monotonic_ms())
        if missed is not None:
            _log.log(level, f"{text}%s", self.transport.peer.address, reason, missed)


def _reason(error: BaseException | None) -> str:
    if error is None:
        return ""
    return error.reason if isinstance(error, ProviderError) else type(error).__name__

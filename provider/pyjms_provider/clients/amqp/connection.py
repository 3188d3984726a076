"""A connection to a broker over AMQP that fails over: sessions, consumers and temporary destinations are restored."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from uuid import uuid4

from pyjms.spi.capability import Capability
from pyjms.spi.envelope import Address, AddressKind, ConnectionId, Envelope
from pyjms.spi.errors import (
    AccessDeniedError,
    CapabilityError,
    DestinationError,
    DestinationInUseError,
    ProviderError,
    ResourceError,
    SubscriptionInUseError,
)
from pyjms.spi.provider import ConnectionEvents, ConnectRequest, ProviderConsumer, ProviderInfo, ProviderSession
from pyjms.spi.words import installed_version
from pyjms_provider.amqp.capabilities import (
    ANONYMOUS_RELAY,
    COMMANDS,
    DELAYED_DELIVERY,
    GREETING,
    SHARED_SUBSCRIPTIONS,
    SOLE_CONNECTION,
)
from pyjms_provider.amqp.codec import Described, ULong
from pyjms_provider.amqp.jms import read_message
from pyjms_provider.amqp.performatives import Attach, Open, Source, Target
from pyjms_provider.clients.amqp.commands import CommandSessions, Pages
from pyjms_provider.clients.amqp.consumer import AmqpConsumer
from pyjms_provider.clients.amqp.links import ClientLink, new_name
from pyjms_provider.clients.amqp.physical_connection import CLOSE_MS, PhysicalConnection, endpoint_in
from pyjms_provider.clients.amqp.profiles import BrokerProfile, capability_of, profile_of
from pyjms_provider.clients.amqp.session import AmqpSession
from pyjms_provider.clients.network.broker_services import (
    NetworkPersistentSessions,
    NetworkReaderGroups,
    NetworkStages,
)
from pyjms_provider.clients.network.calls import ConnectionLostInCallError, not_restored
from pyjms_provider.clients.network.failover import FailoverConnection, FailoverProviderConnection
from pyjms_provider.forks import forget_in_children
from pyjms_provider.protocols.amqp.sasl import Anonymous, ClientMechanism, External, Plain, ScramSha256, XOAuth2
from pyjms_provider.protocols.profile.answers import Greeting

if TYPE_CHECKING:
    from pyjms.spi.replay import ReservedMessage
    from pyjms_provider.amqp.message import Message
    from pyjms_provider.clients.amqp.options import AmqpSettings
    from pyjms_provider.clients.network.endpoints import Endpoint
    from pyjms_provider.clients.network.sockets import ClientSocket
    from pyjms_provider.protocols.amqp.session import Session
    from pyjms_provider.protocols.profile.commands import Command

SocketOpener: TypeAlias = "Callable[[Endpoint], ClientSocket]"
"""Opens a socket to an endpoint. Raises `OSError`, `ResourceError`."""

_log = logging.getLogger("pyjms.amqp")

_REDIRECTS_MAX: Final = 3
"""How often one attempt goes on at the broker that the last one has named."""
_DELETED_MAX: Final = 10_000
_BY_COMMANDS: Final = Capability.XA | Capability.REPLAY | Capability.STAGE | Capability.PERSISTENT_SESSIONS
"""What the pyjms broker can do by commands alone."""
_DELETE_ON_CLOSE: Final = Described(ULong(0x2B), [])
"""The life time of a temporary destination: as long as the link that made it (part 3, 3.5.10)."""


class AmqpFailoverConnection(FailoverConnection[PhysicalConnection]):
    """The physical connections of one client, one after the other. Any thread."""

    log_code = "PYJMS-AMQP"
    protocol = "amqp"

    def __init__(
        self, settings: AmqpSettings, request: ConnectRequest, owner: AmqpConnection, socket: SocketOpener
    ) -> None:
        """Connect. Raises as `FailoverConnection`."""
        self._amqp = settings
        self._request = request
        self._client = owner
        self._open_socket = socket
        super().__init__(settings, request.clock, owner)

    def connect(self, endpoint: Endpoint) -> PhysicalConnection:
        tried = [endpoint]
        while True:
            physical = self._physical_at(tried[-1])
            try:
                opened = physical.open(self._client.open_performative(tried[-1]))
            except (ConnectionLostInCallError, ProviderError) as error:
                physical.close()
                named = physical.redirect
                if named is not None and self._amqp.redirects and named not in tried and len(tried) <= _REDIRECTS_MAX:
                    tried.append(named)
                    continue
                if isinstance(error, ConnectionLostInCallError):
                    raise ConnectionLostInCallError(
                        f"{tried[-1]} closed the connection before it opened it: {error}"
                    ) from error
                raise
            self.made += 1
            self._take_list(opened, endpoint)
            return physical

    def _physical_at(self, endpoint: Endpoint) -> PhysicalConnection:
        return PhysicalConnection(
            self.made + 1,
            endpoint,
            self._amqp,
            self._clock,
            self._client.lock,
            self,
            connect=partial(self._open_socket, endpoint),
            mechanisms=mechanisms_of(self._amqp, self._request),
        )

    def _take_list(self, opened: Open, endpoint: Endpoint) -> None:
        """Add the brokers that this one names for the case of its loss."""
        named = (opened.properties or {}).get("failover-server-list")
        if self._amqp.redirects and isinstance(named, list):
            found = [endpoint_in(each, endpoint.port) for each in named if isinstance(each, dict)]
            self.add_endpoints([each for each in found if each is not None])

    def is_only_waiter(self) -> bool:
        """Return whether no other thread waits for messages."""
        return self._client.is_only_waiter()

    def on_redirect(self, endpoint: Endpoint) -> None:
        """Go to the broker that another one names, when the connection is replaced."""
        if self._amqp.redirects:
            self.add_endpoints([endpoint], is_next=True)


def mechanisms_of(settings: AmqpSettings, request: ConnectRequest) -> tuple[ClientMechanism, ...]:
    """Return the mechanisms of SASL that fit the credentials, the best one first."""
    user, password = request.user_name, request.password
    found: list[ClientMechanism] = []
    if settings.tls is not None and settings.tls.certificate_file is not None:
        found.append(External())
    if user is not None:
        found += ScramSha256(user, password or ""), Plain(user, password or "")
        if settings.mechanism == XOAuth2.name:
            found.append(XOAuth2(user, password or ""))
    else:
        found.append(Anonymous())
    chosen = [each for each in found if settings.mechanism in (None, each.name)]
    # One that does not fit is tried all the same: the broker's list then tells what it would take.
    return tuple(chosen or found)


class AmqpConnection(FailoverProviderConnection):
    """One client's connection. Its lock guards the engine, and what sessions and consumers know of their links."""

    def __init__(
        self, settings: AmqpSettings, request: ConnectRequest, events: ConnectionEvents, socket: SocketOpener
    ) -> None:
        """Connect. Raises as `Provider.connect`."""
        super().__init__(request, events)
        self.settings = settings
        self.lock = Lock()
        """Guards the engine of the present physical connection, and all that hears of it."""
        self._connection_id = ConnectionId(uuid4().hex[:20])
        self._sessions: dict[AmqpSession, None] = {}
        self.receivers: set[AmqpConsumer] = set()
        """The open consumers."""
        self._durable_names: set[str] = set()
        """The durable subscriptions that have a subscriber here; a client id belongs to one connection."""
        self._temporaries: dict[Address, _Temporary] = {}
        self._here: dict[Address, Address] = {}
        """Own temporary destinations: the broker's name on the present connection to the client's name."""
        self._deleted: dict[Address, None] = {}
        """Own temporary destinations that were deleted: some brokers would make a queue of that name for a message."""
        self._own: tuple[PhysicalConnection, Session] | None = None
        """The session for what belongs to no session of the client."""
        self._lingering: list[tuple[PhysicalConnection, Session]] = []
        self.link = AmqpFailoverConnection(settings, request, self, socket)
        self.profile = self._profile()
        try:
            self._greeting = self._greeting_of(self.link.newest)
        except ProviderError:
            self.link.close(None)
            raise
        self._command_sessions = CommandSessions()
        self._pages = Pages(settings.message_bytes_max, self._envelope_of)
        forget_in_children(self)
        self.link.begin()

    @property
    def failover(self) -> AmqpFailoverConnection:
        return self.link

    def _profile(self) -> BrokerProfile:
        physical = self.link.newest
        assert physical.remote is not None
        return profile_of(physical.remote, physical.endpoint.host, is_told_to_delay=self.settings.delivery_delay)

    def _greeting_of(self, physical: PhysicalConnection) -> Greeting | None:
        """Return what the pyjms broker says of itself; None: it takes no commands. Raises `ProviderError`."""
        opened = physical.remote
        assert opened is not None
        said = (opened.properties or {}).get(GREETING)
        if COMMANDS not in opened.offered_capabilities or not isinstance(said, dict):
            return None
        try:
            return Greeting.read(said)
        except ProviderError as error:
            raise ProviderError(
                f"the broker says what this client does not understand: {error.reason}: use one version of pyjms on both sides"
            ) from error

    def open_performative(self, endpoint: Endpoint) -> Open:
        """Return the open that this side sends."""
        return Open(
            self._client_id or f"pyjms-{self._connection_id}",
            self.settings.virtual_host or endpoint.host,
            desired_capabilities=(SOLE_CONNECTION, DELAYED_DELIVERY, ANONYMOUS_RELAY, SHARED_SUBSCRIPTIONS, COMMANDS),
            properties={"product": "pyjms", "version": installed_version()},
        )

    def forget(self) -> None:
        """Replace the lock, in a child of this process: a thread of the parent may have held it at the fork."""
        self.lock = Lock()

    # Properties

    @property
    def capabilities(self) -> Capability:
        greeting = self._greeting
        by_commands = Capability.NONE if greeting is None else greeting.capabilities & _BY_COMMANDS
        return self.profile.capabilities | by_commands

    def advice(self, capability: Capability) -> str:
        known = self.profile.reasons if self._greeting is None else self._greeting.advice
        return known.get(capability, "")

    @property
    def resource_manager(self) -> str:
        return super().resource_manager if self._greeting is None else self._greeting.resource_manager

    @property
    def has_commands(self) -> bool:
        """Whether the broker takes the commands of pyjms clients."""
        return self._greeting is not None

    @property
    def can_find(self) -> bool:
        """Whether the broker can be asked if a destination exists."""
        return self._greeting is not None and self._greeting.can_find

    @property
    def can_prepare(self) -> bool:
        """Whether the broker can prepare the open transaction of a session."""
        return self._greeting is not None and self._greeting.can_prepare

    @property
    def transaction_timeout_s(self) -> int:
        """The broker's default time limit of branches."""
        return 0 if self._greeting is None else self._greeting.transaction_timeout_s

    @property
    def info(self) -> ProviderInfo:
        physical = self.link.newest
        said = (physical.remote.properties if physical.remote else None) or {}
        version = str(said.get("version", ""))
        return ProviderInfo(
            name=f"{self.profile.name} over AMQP 1.0",
            version=version if version[:1].isdigit() else "0",
            jmsx_property_names=("JMSXGroupID", "JMSXGroupSeq", "JMSXDeliveryCount", "JMSXUserID"),
        )

    @property
    def client_id(self) -> str | None:
        """The client id; None: it has none."""
        return self._client_id

    @property
    def confirms(self) -> bool:
        """Whether the broker tells that it has settled a delivery, and the client waits for it."""
        return self.profile.confirms and self.settings.confirm_acknowledge

    @property
    def can_confirm_by_transaction(self) -> bool:
        """Whether an acknowledgement can have a transaction of its own, whose end the broker answers."""
        return Capability.TRANSACTIONS in self.profile.capabilities

    # The SPI

    def set_client_id(self, client_id: str) -> None:
        before, self._client_id = self._client_id, client_id
        try:
            # The container id is said in `open`, so that a new one needs a new connection. Nothing was sent or received on the old one.
            self.link.reopen(self.restore)
        except ProviderError:
            self._client_id = before
            # The connection goes on as it was, so that another client id may be tried.
            with suppress(ProviderError):
                self.link.reopen(self.restore)
            raise

    def open_session(self, *, transacted: bool) -> AmqpSession:
        self._check_open()
        session = AmqpSession(self, transacted=transacted)
        with self._lock:
            # Before the session is begun: a restore at this moment must find it.
            self._sessions[session] = None
        try:
            self.on_present(session.enter)
        except ProviderError:
            session.abandon()
            with self._lock:
                self._sessions.pop(session, None)
            raise
        return session

    def on_present(self, do: Callable[[PhysicalConnection], Any], check: Callable[[], None] | None = None) -> Any:
        """Do something idempotent on the present physical connection; repeat it if that is lost meanwhile. Raises `ProviderError`.

        `check`: as in `FailoverConnection.current`.
        """
        while True:
            self._check_open()
            try:
                return do(self.link.current(check))
            except ConnectionLostInCallError:
                continue

    def start(self) -> None:
        self._check_open()
        self.is_started = True
        for consumer in self._consumers():
            consumer.started()
        self._flush()

    def stop(self) -> None:
        self._check_open()
        # What has come stays: nothing is delivered from now on, and no more credit is given.
        self.is_started = False

    def _flush(self) -> None:
        try:
            self.link.newest.flush()
        except ConnectionLostInCallError:
            _log.debug("the connection ended before the broker had heard of credit")

    def create_temporary(self, kind: AddressKind) -> Address:
        self._check_open()
        address: Address = self.on_present(partial(self._create_temporary, kind))
        return address

    def _create_temporary(self, kind: AddressKind, physical: PhysicalConnection) -> Address:
        temporary = _Temporary(physical, self._own_session(physical), kind)
        made = temporary.make()
        with self.lock:
            self._temporaries[made] = temporary
            self._here[made] = made
        return made

    def delete_temporary(self, address: Address) -> None:
        self._check_open()
        if not self.owns(address):
            raise DestinationError(f"{address} is no temporary destination of this connection")
        known = self.to_broker(address)
        if any(
            consumer.is_open
            and consumer.request.address.kind is address.kind
            and self.to_broker(consumer.request.address) == known
            for consumer in self._consumers()
        ):
            raise DestinationInUseError(f"{address} has consumers: close them first")
        self.link.current()
        with self._lock:
            sessions = list(self._sessions)
        for session in sessions:
            session.end_sender(address)
        with self.lock:
            temporary = self._temporaries.pop(address)
            self._deleted[address] = None
            if len(self._deleted) > _DELETED_MAX:
                del self._deleted[next(iter(self._deleted))]
            self._here = {real: known for real, known in self._here.items() if known != address}
        try:
            temporary.detach()
        except ConnectionLostInCallError:
            _log.debug("a temporary destination ended with its connection")

    def reader_groups(self) -> NetworkReaderGroups:
        self._check_commands(Capability.REPLAY)
        return NetworkReaderGroups(self)

    def stages(self) -> NetworkStages:
        self._check_commands(Capability.STAGE)
        return NetworkStages(self)

    def persistent_sessions(self) -> NetworkPersistentSessions:
        self._check_commands(Capability.PERSISTENT_SESSIONS)
        return NetworkPersistentSessions(self)

    def _check_commands(self, capability: Capability) -> None:
        self._check_open()
        if self._greeting is None:
            raise CapabilityError(f"the broker has no {capability.name} over AMQP")

    # Commands of the connection

    def ask(self, command: Command) -> Mapping[str, str]:
        """Send a command to the pyjms broker, and return the headers of its answer.

        Raises `ProviderError`; `ResourceError`: the connection was lost meanwhile.
        """
        self._check_open()
        try:
            return self._ask(command, self.link.current())
        except ConnectionLostInCallError as error:
            raise ResourceError(f"the connection was lost: {error}; try again") from error

    def ask_until_answered(self, command: Command) -> Mapping[str, str]:
        """Do the same for an idempotent command: if the connection is lost, send it again on the next one."""
        answer: Mapping[str, str] = self.on_present(partial(self._ask, command))
        return answer

    def _ask(self, command: Command, physical: PhysicalConnection) -> Mapping[str, str]:
        return self._command_sessions.use(physical, lambda session: session.commands.ask(command))

    def read_page(
        self, name: str, generation: str, *, after: int, upto: int
    ) -> tuple[Sequence[ReservedMessage], Mapping[str, str]]:
        """Return the messages that READ has the broker send, and the headers of its answer. Raises `ProviderError`."""

        def read(physical: PhysicalConnection) -> tuple[Sequence[ReservedMessage], Mapping[str, str]]:
            return self._command_sessions.use(
                physical, lambda session: session.read_page(self._pages, name, generation, after, upto)
            )

        page: tuple[Sequence[ReservedMessage], Mapping[str, str]] = self.on_present(read)
        return page

    def _envelope_of(self, message: Message) -> Envelope:
        """Return a message of a page. Raises `DecodeError`."""
        return self.received(
            read_message(message, now_ms=self.clock.time_ms(), destination=None, address=self.profile.from_broker)
        )

    # Used by sessions and consumers

    def owns(self, address: Address) -> bool:
        """Return whether a temporary destination is this connection's own."""
        return address in self._temporaries

    def to_broker(self, address: Address) -> str:
        """Return the broker's address of a destination."""
        temporary = None
        if self._temporaries:
            # The client may also name its own temporary destination as if it were any other.
            temporary = self._temporaries.get(address if address.temporary else replace(address, temporary=True))
        return self.profile.to_broker(address) if temporary is None else temporary.address.name

    def outgoing(self, envelope: Envelope) -> Envelope:
        """Return a message with the broker's addresses. Raises `DestinationError`: its destination was deleted here."""
        destination, reply_to = envelope.destination, envelope.reply_to
        if destination.temporary and destination in self._deleted:
            raise DestinationError(f"{destination} was deleted")
        name = self.to_broker(destination)
        answers = reply_to if reply_to is None else self.to_broker(reply_to)
        if name == destination.name and (reply_to is None or answers == reply_to.name):
            return envelope
        return replace(
            envelope,
            destination=replace(destination, name=name),
            reply_to=None if reply_to is None or not isinstance(answers, str) else replace(reply_to, name=answers),
        )

    def received(self, envelope: Envelope) -> Envelope:
        """Return a message with the client's names of own temporary destinations, and the properties of its sender alone."""
        added = self.profile.added_properties
        if added and not added.isdisjoint(envelope.properties):
            own = {name: value for name, value in envelope.properties.items() if name not in added}
            envelope = replace(envelope, properties=own)
        here = self._here
        destination, reply_to = envelope.destination, envelope.reply_to
        if not here or not (destination.temporary or (reply_to is not None and reply_to.temporary)):
            return envelope
        known = here.get(destination, destination)
        answers = reply_to if reply_to is None else here.get(reply_to, reply_to)
        if known is destination and answers is reply_to:
            return envelope
        return replace(envelope, destination=known, reply_to=answers)

    def remember(self, consumer: ProviderConsumer) -> None:
        """Note an open consumer."""
        assert isinstance(consumer, AmqpConsumer)
        self.receivers.add(consumer)

    def forget_consumer(self, consumer: ProviderConsumer) -> None:
        """Remove a consumer that closes."""
        assert isinstance(consumer, AmqpConsumer)
        self.receivers.discard(consumer)

    def take_number(self, consumer: ProviderConsumer) -> int:
        """Return the lowest number that no other open consumer of the same shared subscription has."""
        assert isinstance(consumer, AmqpConsumer)
        request = consumer.request
        with self._lock:
            same = {
                each.number
                for each in tuple(self.receivers)
                if (each.request.shared_name, each.request.durable_name) == (request.shared_name, request.durable_name)
            }
            # Entered at once: another thread may ask for the same subscription.
            consumer.number = next(number for number in count(1) if number not in same)
        return consumer.number

    def reserve(self, durable_name: str) -> None:
        """Take a durable subscription for a consumer. Raises `SubscriptionInUseError`."""
        with self._lock:
            is_in_use = any(each.request.durable_name == durable_name for each in tuple(self.receivers))
            if is_in_use or durable_name in self._durable_names:
                raise SubscriptionInUseError(f"the durable subscription {durable_name!r} has a subscriber already")
            self._durable_names.add(durable_name)

    def release(self, durable_name: str) -> None:
        """Free a durable subscription."""
        with self._lock:
            self._durable_names.discard(durable_name)

    def forget_session(self, session: ProviderSession) -> None:
        """Remove a session that closes: a restore that begins later must not begin it again."""
        assert isinstance(session, AmqpSession)
        with self._lock:
            self._sessions.pop(session, None)

    def linger(self, physical: PhysicalConnection, session: Session) -> None:
        """End a session of AMQP only when nothing on it is unsettled: another session has adopted it."""
        with self._lock:
            self._lingering.append((physical, session))

    def end_lingering(self, physical: PhysicalConnection) -> None:
        """End the sessions that wait for that, and have nothing unsettled any more. Raises as `PhysicalConnection.call`."""
        with self._lock:
            done = [each for each in self._lingering if each[0] is not physical or not each[1].incoming]
            self._lingering = [each for each in self._lingering if each not in done]
        for its, session in done:
            if its is physical:
                physical.end_session(session)

    def report(self, error: ProviderError) -> None:
        """Tell the client of an error that no call waits for. Not with a lock held."""
        self._events.on_exception(error)

    def _own_session(self, physical: PhysicalConnection) -> Session:
        own = self._own
        if own is not None and own[0] is physical:
            return own[1]
        begun = physical.begin_session()
        with self._lock:
            if self._own is None or self._own[0] is not physical:
                self._own = physical, begun
                return begun
            other = self._own[1]
        # Another thread has begun one meanwhile.
        physical.end_session(begun)
        return other

    def _consumers(self) -> list[AmqpConsumer]:
        with self._lock:
            sessions = list(self._sessions)
        return [consumer for session in sessions for consumer in session.consumers()]

    # Events of the failover connection

    def is_only_waiter(self) -> bool:
        """Return whether no consumer waits for messages; one that has received some does not wait."""
        receivers = self.receivers
        if len(receivers) > 1:
            return False
        # A copy, since another thread may change the set during the loop.
        for receiver in tuple(receivers):  # noqa: SIM110 - asked after each wait
            if receiver.is_waiting:
                return False
        return True

    def _open_sessions(self) -> Sequence[AmqpSession]:
        return list(self._sessions)

    def _leave_physical(self) -> None:
        with self._lock:
            sessions = list(self._sessions)
        for session in sessions:
            session.interrupted()

    def _take_leave(self, physical: PhysicalConnection) -> None:
        physical.take_leave(CLOSE_MS)

    def restore(self, physical: PhysicalConnection) -> None:
        """Restore temporary destinations, sessions and consumers. Raises `ConnectionLostInCallError`, `ProviderError`."""
        if (self._greeting_of(physical) is None) is self.has_commands:
            raise ResourceError(
                f"{physical.endpoint} is a broker of another kind than the one before: the sessions cannot go on there"
            )
        self.profile = replace(self._profile(), capabilities=self.profile.capabilities)
        with self.lock:
            temporaries = list(self._temporaries)
        # Temporary destinations first: the consumers below are attached under their new names.
        for address in temporaries:
            temporary = _Temporary(physical, self._own_session(physical), address.kind)
            real = temporary.make()
            with self.lock:
                old = self._temporaries.get(address)
                if old is not None:
                    self._here.pop(old.address, None)
                    self._temporaries[address], self._here[real] = temporary, address
            if old is None:  # the client has deleted it meanwhile
                temporary.detach()
        with self._lock:
            sessions = list(self._sessions)
        for session in sessions:
            session.enter(physical)
            for consumer in session.consumers():
                try:
                    consumer.attach(physical)
                except (AccessDeniedError, DestinationError) as error:
                    self.report(not_restored(consumer.request.address, error))
                    consumer.abandon()


class _Temporary(ClientLink):
    """A temporary destination: it lives as long as the link that made it."""

    def __init__(self, physical: PhysicalConnection, session: Session, kind: AddressKind) -> None:
        super().__init__(physical, session)
        self._kind = kind
        self.address = Address(kind, "", temporary=True)

    def make(self) -> Address:
        """Have the broker make it, and return its address. Raises as `ClientLink.attach`."""
        capability = capability_of(self.address)
        target = Target(
            dynamic=True,
            expiry_policy="link-detach",
            dynamic_node_properties={"lifetime-policy": _DELETE_ON_CLOSE},
            capabilities=(capability,),
        )
        answer = self.attach(
            new_name("temporary"), Attach("", 0, False, source=Source(), target=target), f"a {capability}"
        )
        name = getattr(answer.target, "address", None)
        if not isinstance(name, str) or not name:
            raise ResourceError(f"the broker has made no {capability}: its answer has no address")
        self.address = Address(self._kind, name, temporary=True)
        return self.address

    def credit_changed(self) -> None:
        """Nothing is sent on this link."""

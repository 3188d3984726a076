"""A connection to the pyjms broker that fails over: sessions, consumers and temporary destinations are restored."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from pyjms.spi.capability import Capability
from pyjms.spi.envelope import Address, AddressKind, ConnectionId, Envelope
from pyjms.spi.errors import (
    AccessDeniedError,
    ClosedError,
    DestinationError,
    ProviderError,
    TooLargeError,
)
from pyjms.spi.provider import ConnectionEvents, ConnectRequest, ProviderInfo
from pyjms.spi.replay import ReservedMessage
from pyjms_provider.clients.network.broker_services import (
    NetworkPersistentSessions,
    NetworkReaderGroups,
    NetworkStages,
)
from pyjms_provider.clients.network.calls import (
    ConnectionLostInCallError,
    UnansweredError,
    not_restored,
)
from pyjms_provider.clients.stomp.failover import StompConnectionBase, StompFailoverConnection
from pyjms_provider.clients.stomp.native.consumer import NativeBrowser
from pyjms_provider.clients.stomp.native.session import NativeSession
from pyjms_provider.protocols.profile import commands
from pyjms_provider.protocols.profile.answers import Created, Greeting
from pyjms_provider.protocols.profile.errors import CommandError
from pyjms_provider.protocols.stomp.command_frames import PACKED_TYPE, command_frame
from pyjms_provider.protocols.stomp.dialects import PYJMS
from pyjms_provider.protocols.stomp.errors import ProfileError, StompError
from pyjms_provider.protocols.stomp.frames import Frame
from pyjms_provider.protocols.stomp.messages import from_frame, to_frame
from pyjms_provider.protocols.stomp.packed import LENGTH, PACKED_HEADER, PACKED_VERSION
from pyjms_provider.repeatable import RepeatableError
from pyjms_provider.stores.codec import encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyjms_provider.clients.stomp.native.consumer import NativeConsumer
    from pyjms_provider.clients.stomp.options import StompSettings
    from pyjms_provider.clients.stomp.physical_connection import PhysicalConnection
    from pyjms_provider.protocols.stomp.frames import Frame


_log = logging.getLogger("pyjms.stomp")
_LOCAL: Final = Capability.EMBEDDED_BROKER | Capability.SHARED_TRANSACTIONS


class NativeConnection(StompConnectionBase):
    """Connects to a pyjms broker; implements `FailoverOwner`. No lock is taken while another one is held."""

    def __init__(self, settings: StompSettings, request: ConnectRequest, events: ConnectionEvents) -> None:
        """Connect. Raises as `Provider.connect`. If `is_native` is False, only its `link` can be used."""
        super().__init__(settings, request, events)
        self._sessions: dict[str, NativeSession] = {}
        self._receivers: dict[str, NativeConsumer | NativeBrowser | Page] = {}
        self._at_broker: dict[Address, Address] = {}
        """Own temporary destinations: the client's name to the broker's name on the present connection."""
        self._here: dict[Address, Address] = {}
        # After the tables: the I/O thread looks up receivers there as soon as the connection is made.
        self.link = StompFailoverConnection(settings, self._connect_headers, request.clock, self)
        greeting = self.link.greeting
        self.is_native = greeting.get("pyjms-profile") == commands.PROFILE_VERSION
        """Whether the other side is a pyjms broker that speaks the profile."""
        if self.is_native:
            try:
                self._greeting = Greeting.read(greeting)
            except CommandError as error:
                self.link.close(None)
                raise ProviderError(
                    f"the broker says what this client does not understand: {error.reason}: use one version of pyjms on both sides"
                ) from error
            self._connection_id = ConnectionId(greeting.get("session", ""))
            # Last: from now on a lost connection is replaced, and `restore` needs all of the above.
            self.link.begin()

    def _connect_headers(self) -> dict[str, str]:
        own = {"pyjms-profile": commands.PROFILE_VERSION, PACKED_HEADER: PACKED_VERSION}
        return own | super()._connect_headers()

    # Properties

    @property
    def capabilities(self) -> Capability:
        return self._greeting.capabilities & ~_LOCAL

    @property
    def can_find(self) -> bool:
        """Whether the broker can be asked if a destination exists."""
        return self._greeting.can_find

    @property
    def can_prepare(self) -> bool:
        """Whether the broker can prepare the open transaction of a session."""
        return self._greeting.can_prepare

    @property
    def info(self) -> ProviderInfo:
        server = self.link.greeting.get("server", "pyjms/0").partition("/")[2]
        return ProviderInfo(name="pyjms broker", version=server, jmsx_property_names=self._greeting.jmsx_property_names)

    @property
    def resource_manager(self) -> str:
        return self._greeting.resource_manager

    @property
    def transaction_timeout_s(self) -> int:
        """The broker's default time limit of branches."""
        return self._greeting.transaction_timeout_s

    def advice(self, capability: Capability) -> str:
        return self._greeting.advice.get(capability, "")

    # The SPI

    def set_client_id(self, client_id: str) -> None:
        self.request(commands.Identify(client_id=client_id))
        # After the answer: the next CONNECT names the client id, and must not name one that was refused.
        self._client_id = client_id

    def open_session(self, *, transacted: bool) -> NativeSession:
        self._check_open()
        session = NativeSession(self, f"s{next(self._numbers)}", transacted=transacted)
        with self._lock:
            # Before OPEN is sent: a restore at this moment must find the session.
            self._sessions[session.name] = session
        is_open = may_be_open = False
        try:
            self._open(session)
            is_open = True
        except UnansweredError:
            may_be_open = True
            raise
        finally:
            if not is_open:
                # The flag first: the healer may be about to open the session, and then ends it because of the flag.
                session.abandon()
                with self._lock:
                    self._sessions.pop(session.name, None)
                if may_be_open:
                    self.link.newest.take_back(command_frame(commands.CloseSession(session=session.name)))
        return session

    def _open(self, session: NativeSession) -> None:
        # First the wait for a connection, then the check of the session: the healer may have opened it meanwhile.
        while (physical := self.link.current()) is not session.physical:
            try:
                physical.request(command_frame(session.command()))
            except ConnectionLostInCallError:
                continue
            session.enter(physical)

    def start(self) -> None:
        self._check_open()
        # The flag first: messages may come before the answer, and a restore that is under way reads the flag.
        was_started, self.is_started = self.is_started, True
        try:
            self._send_to_newest(commands.Start())
        except ProviderError:
            if not was_started:
                # The broker may process both frames later: without STOP messages would wait here for a client that receives
                # nothing.
                self.is_started = False
                self.post(command_frame(commands.Stop()))
            raise
        # A message that came before the flag was set has woken its consumer too early: `poll` returned nothing.
        for consumer in self._consumers():
            consumer.started()

    def stop(self) -> None:
        self._check_open()
        # The flag first: from now on no consumer delivers anything, even before the broker stops.
        self.is_started = False
        try:
            self._send_to_newest(commands.Stop())
        except UnansweredError as error:
            # Not an error: no message is delivered from now on, as `stop` promises.
            _log.warning("the broker has not answered that the connection is stopped: %s", error.reason)

    def _send_to_newest(self, command: commands.Command) -> None:
        """Send the command on the newest physical connection, also during its restore; later ones get it by `restore`."""
        while True:
            # `newest`, since `current` would wait for a restore that may have sent the old state already.
            physical = self.link.newest
            try:
                physical.request(command_frame(command), needs_room=False)
            except ConnectionLostInCallError:
                if physical is not self.link.newest:
                    continue
                self.link.check_open()
            return

    def create_temporary(self, kind: AddressKind) -> Address:
        self._check_open()
        while True:
            physical = self.link.current()
            try:
                made = physical.request(
                    command_frame(commands.CreateTemporary(kind=kind)), late=partial(self._created_late, physical)
                )
                address = Created.read(made.headers).address
                # Entered before the check of the connection: a later restore makes it again, and an earlier one cannot have.
                with self._lock:
                    self._at_broker[address] = self._here[address] = address
                if not physical.has_ended:
                    return address
            except ConnectionLostInCallError:
                continue
            # It has ended with its connection, perhaps before a restore could make another one.
            self._forget_temporary(address)

    def _created_late(self, physical: PhysicalConnection, made: Frame) -> None:
        """Delete the destination that the broker made for a call that has timed out. Any thread."""
        address = Created.read(made.headers).address
        self._forget_temporary(address)
        physical.take_back(command_frame(commands.DeleteTemporary(address=address)))

    def _forget_temporary(self, address: Address) -> None:
        with self._lock:
            real = self._at_broker.pop(address, None)
            if real is not None:
                self._here.pop(real, None)

    def delete_temporary(self, address: Address) -> None:
        while True:
            self._check_open()
            # First: the broker has another name for the destination in each physical connection.
            physical = self.link.current()
            try:
                physical.request(command_frame(commands.DeleteTemporary(address=self.at_broker(address))))
            except ConnectionLostInCallError:
                # The restore of the next connection has made another one, under another name.
                continue
            break
        self._forget_temporary(address)

    def reader_groups(self) -> NetworkReaderGroups:
        self._check_open()
        return NetworkReaderGroups(self)

    def stages(self) -> NetworkStages:
        self._check_open()
        return NetworkStages(self)

    def persistent_sessions(self) -> NetworkPersistentSessions:
        self._check_open()
        return NetworkPersistentSessions(self)

    # Used by sessions and consumers

    def request(self, command: commands.Command) -> Frame:
        """Send `command`, which may be repeated, and return the broker's answer. Raises `ProviderError`; `RepeatableError`: the connection was lost meanwhile."""
        self._check_open()
        try:
            return self.link.current().request(command_frame(command))
        except ConnectionLostInCallError as error:
            raise RepeatableError(f"the connection was lost: {error}; try again") from error

    def request_until_answered(
        self, command: commands.Command, before_again: Callable[[], None] = lambda: None
    ) -> Frame:
        """Do the same for an idempotent command: if the connection is lost, send it on the next one, after `before_again`."""
        while True:
            self._check_open()
            try:
                return self.link.current().request(command_frame(command))
            except ConnectionLostInCallError:
                before_again()

    def ask(self, command: commands.Command) -> Mapping[str, str]:
        """Do as `request`, and return the headers of the answer."""
        return self.request(command).headers

    def ask_until_answered(self, command: commands.Command) -> Mapping[str, str]:
        """Do as `request_until_answered`, and return the headers of the answer."""
        return self.request_until_answered(command).headers

    def read_page(
        self, name: str, generation: str, *, after: int, upto: int
    ) -> tuple[Sequence[ReservedMessage], Mapping[str, str]]:
        """Return the messages that READ has the broker send, and the headers of its RECEIPT. Raises `ProviderError`."""
        page = Page(f"p{next(self._numbers)}")
        command = commands.ReadGroup(
            group=name, generation=generation, id=page.name, after=after, upto=upto, packed=CAN_UNPACK
        )
        self.remember(page)
        try:
            # A page that a lost connection cut off is read again from its beginning: its messages so far are dropped.
            answer = self.request_until_answered(command, page.frames.clear).headers
        finally:
            self.forget(page)
        try:
            return [message for frame in page.frames for message in self._messages(frame)], answer
        except (ProfileError, KeyError, ValueError) as error:
            raise ProviderError(f"the broker's page of messages is not understood: {error}; read again") from error

    def _messages(self, frame: Frame) -> Sequence[ReservedMessage]:
        """Return the messages of one MESSAGE of a page. Raises `ProfileError`, `KeyError`, `ValueError`."""
        headers = frame.headers
        if headers.get("content-type") == PACKED_TYPE:
            from pyjms_provider.protocols.stomp.packed import unpack

            # Messages are numbered without gaps within a page, so that `ack` names the first one only.
            return unpack(bytes(frame.body), int(headers["ack"]), self.received)
        message = ReservedMessage(
            number=int(headers["ack"]),
            envelope=self.received(from_frame(frame, PYJMS)),
            count=int(headers.get("delivery-count", "1")),
            redelivered=headers.get("redelivered") == "true",
        )
        return (message,)

    def post(self, frame: Frame) -> None:
        """Send something small that needs no answer; it is dropped without a connection. Never waits for room."""
        try:
            self.link.newest.post(frame, needs_room=False)
        except ConnectionLostInCallError:
            _log.debug("the connection ended before the broker had heard %s", frame.command)

    def pack(self, envelope: Envelope) -> bytes:
        """Return a message in the packed form of SENDS. Raises `ProviderError`."""
        message = encode(self._sent(envelope) if self._at_broker else envelope)
        self._check_size(len(message) + LENGTH.size)
        return message

    def frame_of(self, envelope: Envelope, session: str) -> Frame:
        """Return the SEND that carries `envelope` to a broker without SENDS. Raises `ProviderError`."""
        if self._at_broker:
            envelope = self._sent(envelope)
        try:
            frame = to_frame(envelope, PYJMS)
        except StompError as error:
            raise ProviderError(f"the message cannot be sent over STOMP: {error.reason}") from error
        self._check_size(len(frame.body))
        frame.headers["session"] = session
        return frame

    def _check_size(self, size: int) -> None:
        """Raise `TooLargeError` for a message at which the broker would end the connection, and with it all sessions."""
        most = self.link.newest.body_max
        if most and size > most:
            raise TooLargeError(
                f"the message has {size} bytes, and the broker takes {most} at most: send it in parts, or send where it can be found"
            )

    def _sent(self, envelope: Envelope) -> Envelope:
        destination, reply_to = envelope.destination, envelope.reply_to
        real = self._at_broker.get(destination, destination) if destination.temporary else destination
        answers = self._at_broker.get(reply_to, reply_to) if reply_to is not None and reply_to.temporary else reply_to
        # `get` returns the very same object for every address that is not the connection's own.
        if real is destination and answers is reply_to:
            return envelope
        return replace(envelope, destination=real, reply_to=answers)

    def received(self, envelope: Envelope) -> Envelope:
        """Return a message with the client's names of own temporary destinations."""
        here = self._here
        if not here:
            return envelope
        destination, reply_to = envelope.destination, envelope.reply_to
        known = here.get(destination, destination) if destination.temporary else destination
        answers = here.get(reply_to, reply_to) if reply_to is not None and reply_to.temporary else reply_to
        if known == destination and answers == reply_to:
            # Until the first restore the client and the broker use the same names.
            return envelope
        return replace(envelope, destination=known, reply_to=answers)

    def owns(self, address: Address) -> bool:
        """Return whether a temporary destination is this connection's own."""
        return address in self._at_broker

    def at_broker(self, address: Address) -> Address:
        """Return the broker's name of a destination, also for a plain name that is an own temporary destination's."""
        if not address.temporary and self._at_broker:
            return self._at_broker.get(replace(address, temporary=True), address)
        return self._at_broker.get(address, address)

    def subscribe(self, consumer: NativeConsumer, check: Callable[[], None]) -> None:
        """Make a consumer at the broker; repeat it if the connection is lost meanwhile. Raises `ProviderError`.

        `check`: as in `FailoverConnection.current`.
        """
        # Before SUBSCRIBE is sent: the first messages may come before its answer.
        self.remember(consumer)
        is_made = False
        try:
            # The healer may have subscribed the consumer on a newer connection meanwhile: then there is nothing to send.
            while not consumer.is_in(physical := self.link.current(check)):
                try:
                    physical.request(command_frame(consumer.command()))
                except ConnectionLostInCallError:
                    continue
                consumer.begin(physical)
            is_made = True
        finally:
            if not is_made:
                self.forget(consumer)

    def remember(self, receiver: NativeConsumer | NativeBrowser | Page) -> None:
        """Route messages to `receiver`."""
        with self._lock:
            self._receivers[receiver.name] = receiver

    def forget(self, receiver: NativeConsumer | NativeBrowser | Page) -> None:
        """Remove a consumer or browser that has ended."""
        with self._lock:
            self._receivers.pop(receiver.name, None)

    def wake_browsers(self, session: NativeSession) -> None:
        """Wake the browsers of a closed session, to which the broker sends nothing more."""
        with self._lock:
            receivers = list(self._receivers.values())
        for receiver in receivers:
            if isinstance(receiver, NativeBrowser) and receiver.session is session:
                receiver.wake()

    def end_session(self, session: NativeSession) -> None:
        """Close a session at the broker, and remove it."""
        with self._lock:
            # Off the list first: a restore that begins later must not open the session again.
            self._sessions.pop(session.name, None)
        try:
            self.link.newest.request_last(command_frame(commands.CloseSession(session=session.name)))
        except (ConnectionLostInCallError, ProviderError) as error:
            _log.debug("a session ended with its connection: %s", error)

    def _consumers(self) -> list[NativeConsumer]:
        with self._lock:
            sessions = list(self._sessions.values())
        return [consumer for session in sessions for consumer in session.consumers()]

    # Events of the failover connection

    def on_message(self, physical: PhysicalConnection, frame: Frame) -> None:
        """Pass a message to its consumer. The I/O thread."""
        # Without the lock, as this is done for each frame, and `get` is one step of the interpreter.
        receiver = self._receivers.get(frame.headers.get("subscription", ""))
        if receiver is not None:
            receiver.arrived(physical, frame)

    def is_only_waiter(self) -> bool:
        """Return whether no consumer waits for messages; one that has received some does not wait."""
        receivers = self._receivers
        if len(receivers) > 1:
            return False
        # A copy, since another thread may change the dictionary during the loop.
        for receiver in tuple(receivers.values()):  # noqa: SIM110 - asked after each wait
            if receiver.is_waiting:
                return False
        return True

    def on_broker_error(self, error: ProviderError) -> None:
        """Report an error that no call waits for to the client. If it was about a message, `send` refuses the next one to its destination."""
        with self._lock:
            sessions = list(self._sessions.values())
        for session in sessions:
            session.note_refusal()
        self._events.on_exception(error)

    def _open_sessions(self) -> list[NativeSession]:
        return list(self._sessions.values())

    def _leave_physical(self) -> None:
        with self._lock:
            sessions = list(self._sessions.values())
            receivers = list(self._receivers.values())
        for session in sessions:
            session.interrupted()
        for receiver in receivers:
            receiver.interrupted()

    def restore(self, physical: PhysicalConnection) -> None:
        """Restore sessions, temporary destinations and consumers. Raises `ConnectionLostInCallError`, `ProviderError`."""
        with self._lock:
            sessions = list(self._sessions.values())
            temporaries = list(self._at_broker)
        # Temporary destinations first: the consumers below are subscribed under their new names.
        for address in temporaries:
            real = Created.read(
                physical.request(command_frame(commands.CreateTemporary(kind=address.kind))).headers
            ).address
            with self._lock:
                old = self._at_broker.get(address)
                if old is not None:
                    self._here.pop(old, None)
                    self._at_broker[address], self._here[real] = real, address
            # The client has deleted it meanwhile, with an answer on the last connection.
            if old is None:
                physical.post(command_frame(commands.DeleteTemporary(address=real)))
        for session in sessions:
            self._restore_session(physical, session)
        is_sent = False
        # Repeated if another thread starts or stops the connection during the request.
        while is_sent is not self.is_started:
            is_sent = self.is_started
            physical.request(command_frame(commands.Start() if is_sent else commands.Stop()))

    def _restore_session(self, physical: PhysicalConnection, session: NativeSession) -> None:
        physical.request(command_frame(session.command()))
        # After the answer: `_open` takes a session that has entered this connection for open.
        session.enter(physical)
        for consumer in session.consumers():
            try:
                physical.request(command_frame(consumer.command()))
            except ClosedError:
                if not session.is_closed:
                    raise
                # The session was closed meanwhile, and the broker has closed it already.
                return
            except (AccessDeniedError, DestinationError) as error:
                self._events.on_exception(not_restored(consumer.request.address, error))
                continue
            consumer.begin(physical)
            # The consumer was closed meanwhile, before the broker knew it on this connection.
            if not consumer.is_open:
                physical.post(command_frame(commands.Unsubscribe(id=consumer.name)))
        if session.is_closed:
            physical.post(command_frame(commands.CloseSession(session=session.name)))


CAN_UNPACK = find_spec("msgspec") is not None
"""Whether pages may come packed; `msgspec` comes with the extras `store` and `spark`."""


class Page:
    """The answer to one READ: messages that come before its RECEIPT."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.frames: list[Frame] = []

    @property
    def is_waiting(self) -> bool:
        """Whether a thread may wait for messages."""
        return True

    def arrived(self, physical: PhysicalConnection, frame: Frame) -> None:
        """Store the messages. The I/O thread."""
        # No lock: the thread that reads the page looks at the list
        # only after the RECEIPT, which comes behind the messages.
        self.frames.append(frame)

    def interrupted(self) -> None:
        """Do nothing: the call that reads the page gets the error itself."""

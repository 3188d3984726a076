"""Commands to the pyjms broker over AMQP: a link for the commands of one session, and the page that a reader group is read from.

The wire is specified in docs/reference/amqp.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyjms.spi.errors import ProviderError
from pyjms.spi.replay import ReservedMessage
from pyjms_provider.amqp.answered import joined
from pyjms_provider.amqp.capabilities import COMMANDS, NUMBER, PAGES, REDELIVERED
from pyjms_provider.amqp.codec import NULL
from pyjms_provider.amqp.errors import DecodeError, EncodeError
from pyjms_provider.amqp.message import VALUE, Message, write_application_properties, write_section
from pyjms_provider.amqp.performatives import (
    Answered,
    Attach,
    Coordinator,
    Properties,
    Source,
    Target,
    write,
)
from pyjms_provider.clients.amqp.links import ClientLink, SendingLink, new_name
from pyjms_provider.clients.amqp.physical_connection import Reply
from pyjms_provider.clients.amqp.refusals import outcome_refusal
from pyjms_provider.clients.network.calls import ConnectionLostInCallError, UnansweredError
from pyjms_provider.protocols.profile.commands import Command, Interrupt, ReadGroup

if TYPE_CHECKING:
    from pyjms.spi.envelope import Envelope
    from pyjms_provider.clients.amqp.physical_connection import PhysicalConnection
    from pyjms_provider.protocols.amqp.link import IncomingDelivery, OutgoingDelivery, Receiver
    from pyjms_provider.protocols.amqp.session import Session

_SESSION: Final = "session"
"""The header that commands have over STOMP; here a command belongs to the session of its link."""
_NO_VALUE: Final = write_section(VALUE, NULL)
_CREDIT_MAX: Final = 2**31 - 1
_FREE_MAX: Final = 4
"""Sessions for commands of the connection that are kept when no command uses them."""


def message_of(command: Command) -> bytes:
    """Return the message of a command. Raises `ProviderError`: it has a text that AMQP cannot say."""
    headers = command.headers()
    headers.pop(_SESSION, None)
    try:
        return b"".join((write(Properties(subject=command.COMMAND)), write_application_properties(headers), _NO_VALUE))
    except (EncodeError, UnicodeEncodeError) as error:
        raise ProviderError(f"{command.COMMAND} cannot be said over AMQP: {error}") from error


def command_refusal(outcome: Any) -> ProviderError | None:
    """Return the broker's error for a command; None: it has done it."""
    refused = outcome_refusal(outcome)
    if refused is None and not isinstance(outcome, Answered):
        return ProviderError(
            "the broker's answer to a command is not understood: use one version of pyjms on both sides"
        )
    return refused


class CommandRequest:
    """A command that must not be done twice: a call whose wait timed out may wait for its answer again."""

    def __init__(self, physical: PhysicalConnection, what: object) -> None:
        self.physical = physical
        self._what = what
        self.reply: Reply | None = None
        """What waits for the answer, once the command was sent."""

    def is_same(self, physical: Any, what: object) -> bool:
        """Return whether it is the request `what` on `physical`."""
        return self.physical is physical and self._what == what


class CommandLink(SendingLink):
    """The link for the commands of one session."""

    def __init__(self, physical: PhysicalConnection, session: Session) -> None:
        super().__init__(physical, session)
        self._parts: dict[OutgoingDelivery, list[Mapping[str, str]]] = {}
        """Of long answers, what has come."""

    def ask_for(self) -> None:
        """Attach. Raises as `ClientLink.attach`."""
        target = Coordinator((COMMANDS,))
        self.attach(new_name("commands"), Attach("", 0, False, source=Source(), target=target), "commands")

    def ask(self, command: Command, late: Callable[[], None] | None = None) -> Mapping[str, str]:
        """Send a command, and return the headers of its answer. Raises the broker's error, and as `PhysicalConnection.call`.

        `late` is called on the thread that reads if the broker has done it after the wait for its answer has ended.
        """
        physical = self.physical
        has_given_up = False

        def done(reply: Reply, outcome: Any) -> None:
            if not has_given_up:
                _settle(physical, reply, outcome)
            elif late is not None and isinstance(outcome, Answered):
                physical.later(late)

        reply = self._send_command(command, done)
        if physical.is_own_thread():
            physical.drop(reply)
            return {}
        try:
            outcome = physical.await_reply(reply, command.COMMAND)
        except UnansweredError:
            with physical.lock:
                has_given_up = not reply.is_there
            if has_given_up:
                raise
            outcome = physical.await_reply(reply, command.COMMAND)
        return _headers_of(outcome)

    def ask_once(self, request: CommandRequest, command: Command) -> Mapping[str, str]:
        """Send the command of a request, or wait for its answer again if it was sent already. Raises as `ask`."""
        physical, reply = self.physical, request.reply
        if reply is None:
            reply = request.reply = self._send_command(command, lambda sent, outcome: _settle(physical, sent, outcome))
        return _headers_of(physical.await_again(reply, command.COMMAND))

    def tell(self, command: Command) -> None:
        """Send a command that has no answer, together with what follows: if it fails, the open transaction does. Raises as
        `SendingLink.send`.
        """
        self.post(message_of(command), command.COMMAND, done=None)
        self.physical.flush_soon()

    def take_back(self, command: Command) -> None:
        """Send a command whose answer is dropped. Raises as `SendingLink.send`."""
        self.post(message_of(command), command.COMMAND, done=lambda _: None)
        self.physical.flush_soon()

    def interrupt(self) -> None:
        """Have the broker end the waits of the session for room, if the link can send. Never waits; the lock is held, and the caller flushes."""
        if self.error is None and self._can_send():
            self._pending[self._send(message_of(Interrupt(session="")), None)] = lambda _: None

    def _send_command(self, command: Command, done: Callable[[Reply, Any], None]) -> Reply:
        """Send a command; `done` gets the reply that is returned, and the outcome. Raises as `SendingLink.send`."""
        data, what = message_of(command), command.COMMAND
        while True:
            reply = Reply()
            if self.try_send(data, reply, None, partial(done, reply)):
                return reply
            self.await_credit(reply, what)

    def on_outcome(self, delivery: OutgoingDelivery, state: Any) -> None:
        if isinstance(state, Answered):
            if state.more:
                self._parts.setdefault(delivery, []).append(state.headers)
                return
            before = self._parts.pop(delivery, None)
            if before is not None:
                delivery.state = Answered(joined([*before, state.headers]))
        super().on_outcome(delivery, state)


def _settle(physical: PhysicalConnection, reply: Reply, outcome: Any) -> None:
    """End the wait for an answer; the link may have ended instead. The lock is held."""
    if isinstance(outcome, ProviderError):
        physical.settle(reply, error=outcome)
    else:
        physical.settle(reply, outcome)


def _headers_of(outcome: Any) -> Mapping[str, str]:
    """Return what an answer says. Raises the broker's error."""
    error = command_refusal(outcome)
    if error is not None:
        raise error
    headers: Mapping[str, str] = outcome.headers
    return headers


class _PageLink(ClientLink):
    """The link on which the messages of a page come."""

    link: Receiver | None

    def __init__(self, physical: PhysicalConnection, session: Session) -> None:
        super().__init__(physical, session)
        self.name = new_name("page")
        self.messages: list[IncomingDelivery] = []

    def ask_for(self, message_bytes_max: int) -> None:
        """Attach. Raises as `ClientLink.attach`."""
        attach = Attach(
            "", 0, True, snd_settle_mode=1, source=Source(PAGES), target=Target(), max_message_size=message_bytes_max
        )
        self.attach(self.name, attach, "a page of a reader group")

    def begin(self, most: int) -> None:
        """Get ready for a page of so many messages."""
        with self.physical.lock:
            self.messages = []
            assert self.link is not None
            # The page would end where credit does.
            self.link.give_credit(min(max(most, 1), _CREDIT_MAX))

    def arrived(self, delivery: IncomingDelivery) -> None:
        """Store a message; the lock is held."""
        self.messages.append(delivery)

    def drained(self) -> None:
        """Nothing is drained here."""


@dataclass(frozen=True, slots=True)
class Pages:
    """What the pages of a connection are read with."""

    message_bytes_max: int
    """The largest message that is taken."""
    read: Callable[[Message], Envelope]
    """Returns the message as the client gets it. Raises `DecodeError`."""


class CommandSession:
    """A session of AMQP for commands of the connection, one at a time."""

    def __init__(self, physical: PhysicalConnection) -> None:
        """Begin it. Raises as `PhysicalConnection.call`."""
        self.physical = physical
        self.session = physical.begin_session()
        self.commands = CommandLink(physical, self.session)
        self.commands.ask_for()
        self._page: _PageLink | None = None

    def read_page(
        self, pages: Pages, name: str, generation: str, after: int, upto: int
    ) -> tuple[Sequence[ReservedMessage], Mapping[str, str]]:
        """Return the messages of a page, and the headers of READ's answer. Raises as `CommandLink.ask`."""
        page = self._page
        if page is None or not page.is_usable:
            page = self._page = _PageLink(self.physical, self.session)
            page.ask_for(pages.message_bytes_max)
        page.begin(upto - after)
        answer = self.commands.ask(ReadGroup(group=name, generation=generation, id=page.name, after=after, upto=upto))
        try:
            return [_reserved(Message(each.data), pages.read) for each in page.messages], answer
        except (DecodeError, KeyError, TypeError, ValueError) as error:
            raise ProviderError(f"the broker's page of messages is not understood: {error}; read again") from error


def _reserved(message: Message, read: Callable[[Message], Envelope]) -> ReservedMessage:
    """Return a message of a page. Raises `DecodeError`, `KeyError`: it has no number."""
    annotations, failed = message.delivery_annotations, message.header.delivery_count
    return ReservedMessage(
        number=int(annotations[NUMBER]),
        envelope=read(message),
        count=failed + 1,
        redelivered=bool(annotations.get(REDELIVERED, failed > 0)),
    )


_T = TypeVar("_T")


class CommandSessions:
    """The sessions of AMQP for commands of one connection: one for each that is under way, as some wait long. Any thread."""

    def __init__(self) -> None:
        self._free: list[CommandSession] = []

    def use(self, physical: PhysicalConnection, do: Callable[[CommandSession], _T]) -> _T:
        """Call `do` with a session that no other thread uses. Raises as `PhysicalConnection.call`, and as `do`."""
        with physical.lock:
            self._free = [each for each in self._free if each.physical is physical and each.commands.is_usable]
            session = self._free.pop() if self._free else None
        if session is None:
            session = CommandSession(physical)
        try:
            result = do(session)
        except UnansweredError:
            # The command may still be under way there.
            self._end(session)
            raise
        except ProviderError:
            self._put_back(session)
            raise
        self._put_back(session)
        return result

    def _put_back(self, session: CommandSession) -> None:
        with session.physical.lock:
            is_kept = len(self._free) < _FREE_MAX
            if is_kept:
                self._free.append(session)
        if not is_kept:
            self._end(session)

    def _end(self, session: CommandSession) -> None:
        with suppress(ConnectionLostInCallError, ProviderError):
            session.physical.end_session(session.session)

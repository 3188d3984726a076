"""The link on which a pyjms client says commands: transactions, branches, reader groups, staged units, registered clients.

docs/reference/amqp.md specifies them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from pyjms.spi.errors import ProviderError
from pyjms_provider.amqp.answered import parts_of
from pyjms_provider.amqp.capabilities import COMMANDS
from pyjms_provider.amqp.errors import AmqpError, Condition, LinkFault
from pyjms_provider.amqp.message import Message
from pyjms_provider.amqp.performatives import Attach, Coordinator, Rejected
from pyjms_provider.protocols.amqp.server.consumers import ConsumerLink
from pyjms_provider.protocols.amqp.server.pages import PageLink
from pyjms_provider.protocols.amqp.server.producers import takes_rejected
from pyjms_provider.protocols.amqp.server.refusals import as_provider_error, told
from pyjms_provider.protocols.amqp.server.work import Work, nothing
from pyjms_provider.protocols.profile import commands
from pyjms_provider.protocols.profile.answers import Counted, Found
from pyjms_provider.protocols.profile.commands import read_command, readable
from pyjms_provider.protocols.profile.errors import CommandError
from pyjms_provider.protocols.profile.handlers import Handlers, RegistrationCommands, SessionCommands
from pyjms_provider.protocols.profile.pipelines import LONG_VERBS, ServedPipelines

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyjms_provider.protocols.amqp.link import IncomingDelivery, Receiver
    from pyjms_provider.protocols.amqp.server.contracts import LinkSession
    from pyjms_provider.protocols.profile.handlers import Handler

_CREDIT: Final = 100
_LONGEST: Final = 8 * 1024 * 1024
"""Bytes of a command: as many as its frame may have over STOMP."""
_OWN_SESSION: Final = "own"
"""What commands have as the name of their session: they belong to that of their link."""


class CommandLink:
    """A client's link for commands, each of which is done in its turn of the link's session. The connection's thread."""

    def __init__(self, session: LinkSession, link: Receiver) -> None:
        """Raises `LinkFault`: the client wants commands and transactions of the standard on one link."""
        remote = link.remote
        assert remote is not None
        if remote.target.capabilities != (COMMANDS,):
            raise LinkFault(Condition.INVALID_FIELD, f"a link for commands has the capability {COMMANDS} alone")
        self.link = link
        self._session = session
        self._pending = 0
        engine = session.engine
        self._pipelines = ServedPipelines(engine.connection, engine.guard, lambda: engine.client_id or "")
        self._handlers: Handlers = {
            **SessionCommands(lambda _: session.unit).handlers(),
            **RegistrationCommands(engine.connection).handlers(),
            **self._pipelines.handlers(),
            commands.Find: (self._find, False),
        }
        target = Coordinator((COMMANDS,))
        link.attach(Attach("", 0, False, source=remote.source, target=target, max_message_size=_LONGEST))
        link.give_credit(_CREDIT)

    def credit_changed(self) -> None:
        """Receivers give credit here."""

    def received(self, delivery: IncomingDelivery) -> None:
        """Do a command in its turn."""
        self._pending += 1
        try:
            command = _read(delivery)
            if isinstance(command, commands.Interrupt):
                # Done at once: in its turn it would wait behind the very message that it is to end.
                self._session.receiving.end_waits()
                self._done(delivery, {}, None)
                return
            self._session.add(self._work_of(delivery, command))
        except (AmqpError, ProviderError) as error:
            # In its turn, so that answers come in the order of the commands.
            self._session.add(
                Work(partial(self._try, delivery, partial(_fail_with, error)), partial(self._done, delivery, {}))
            )

    def _work_of(self, delivery: IncomingDelivery, command: commands.Command) -> Work:
        """Return the work of a command. Raises `CommandError`: it is none that is done here."""
        session, kind, size = self._session, type(command), len(delivery.data)
        if isinstance(command, commands.ReadGroup):
            return self._reading(delivery, command)
        if isinstance(command, commands.Unsubscribe):
            return self._unsubscribing(delivery, command)
        found = self._handlers.get(kind)
        if found is None:
            raise CommandError(f"{command.COMMAND} is no command over AMQP")
        do, waits = found
        # A long selector takes seconds to be parsed, so not on the thread of all connections.
        may_wait = (
            session.asks_others
            or (waits and (session.waits or kind in LONG_VERBS))
            or getattr(command, "selector", None) is not None
        )
        is_commit = kind is commands.CommitTransaction
        is_brief = may_wait and is_commit and session.unit.is_small and session.engine.guard.host.waits_briefly(None)
        is_patient = isinstance(command, commands.ReserveMessages) and command.wait_ms > 0
        answer: dict[str, str] = {}
        done = partial(self._done, delivery, answer)
        if kind is commands.AbortTransaction:
            # Messages go back to their places: later ones must not overtake them.
            session.returning += 1
            done = partial(self._rolled_back, delivery)
        return Work(
            partial(self._try, delivery, partial(_do, do, command, answer)),
            done,
            may_wait,
            is_brief,
            is_patient=is_patient,
            content_bytes=size,
        )

    def _try(self, delivery: IncomingDelivery, do: Callable[[], None]) -> None:
        """Do a command. Any thread; raises `ProviderError`, `AmqpError`. A settled one that fails spoils the open transaction, as nobody hears of
        it.
        """
        try:
            do()
        except (AmqpError, ProviderError) as error:
            if delivery.is_settled:
                self._session.unit.spoil(as_provider_error(error))
            raise

    def _rolled_back(self, delivery: IncomingDelivery, error: Exception | None) -> None:
        self._session.returning -= 1
        self._done(delivery, {}, error)

    def _find(self, command: commands.Find) -> Mapping[str, str]:
        guard = self._session.engine.guard
        guard.look(command.address)
        return Found(guard.host.has(command.address)).headers()

    def _unsubscribing(self, delivery: IncomingDelivery, command: commands.Unsubscribe) -> Work:
        """Return the work of UNSUBSCRIBE. Raises `CommandError`: there is no such consumer."""
        link = self._session.session.link_named(command.id, False)
        consumer = None if link is None else link.context
        if not isinstance(consumer, ConsumerLink):
            raise CommandError(f"this session has no consumer with the name {readable(command.id)[:80]!r}")
        consumer.stop()
        return Work(
            partial(self._try, delivery, consumer.end_consumer),
            partial(self._done, delivery, {}),
            self._session.waits,
            content_bytes=len(delivery.data),
        )

    # Pages

    def _reading(self, delivery: IncomingDelivery, command: commands.ReadGroup) -> Work:
        """Return the work of READ. Raises `CommandError`: there is no such link of pages."""
        link = self._session.session.link_named(command.id, False)
        pages = None if link is None else link.context
        if not isinstance(pages, PageLink):
            raise CommandError(f"this session has no link of pages with the name {readable(command.id)[:80]!r}")
        pages.reserve()
        found: list[bytes] = []

        def read() -> None:
            found.extend(pages.encoded(self._pipelines.read(command)))

        return Work(read, partial(self._read, delivery, pages, found), may_wait=True, content_bytes=len(delivery.data))

    def _read(self, delivery: IncomingDelivery, pages: PageLink, found: list[bytes], error: Exception | None) -> None:
        if error is None:
            pages.begin(found, partial(self._sent, delivery))
        else:
            pages.release()
            self._done(delivery, {}, error)

    def _sent(self, delivery: IncomingDelivery, sent: int, error: ProviderError | None) -> None:
        self._done(delivery, Counted(sent).headers(), error)

    # Answers

    def _done(self, delivery: IncomingDelivery, answer: Mapping[str, str], error: Exception | None) -> None:
        """Tell the client what became of a command."""
        session = self._session
        room = session.session.connection.frame_room
        if error is not None:
            if delivery.is_settled and session.unit.transacted:
                pass  # the commit tells it
            elif delivery.is_settled or not takes_rejected(self.link):
                session.end_link(self.link, error)
            else:
                session.answer(delivery, Rejected(told(error, room)))
        elif not delivery.is_settled:
            *parts, last = parts_of(answer, room)
            for part in parts:
                session.session.update_incoming((delivery,), part, is_settled=False)
            session.answer(delivery, last)
        self._pending -= 1
        if self.link.credit + self._pending <= _CREDIT // 2:
            self.link.give_credit(_CREDIT - self._pending)

    def settled_by_client(self, count: int) -> None:
        """Commands are settled by the broker."""

    def detach(self, *, is_closed: bool, is_lost: bool) -> Work | None:
        """Return the work that ends it: none, but in its turn: what was said before is done first."""
        return Work(nothing, nothing)


def _read(delivery: IncomingDelivery) -> commands.Command:
    """Return the command that a message is. Raises `CommandError`, `AmqpError`."""
    if delivery.message_format:
        raise CommandError(f"a command is a message of the format 0, and not {delivery.message_format}")
    message = Message(delivery.data)
    name = message.properties.subject
    if not name:
        raise CommandError("a command has its name as the subject of its message")
    headers = message.application_properties
    if not all(type(text) is str for item in headers.items() for text in item):
        raise CommandError(f"the headers of {readable(name)[:80]} are texts")
    return read_command(readable(name)[:80], {**headers, "session": _OWN_SESSION})


def _do(do: Handler, command: commands.Command, answer: dict[str, str]) -> None:
    answer.update(do(command) or {})


def _fail_with(error: Exception) -> None:
    raise error

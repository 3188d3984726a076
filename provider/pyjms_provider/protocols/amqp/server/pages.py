"""The link on which a pyjms client gets the messages of reader groups, page by page."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from pyjms.spi.errors import ClosedError, ProviderError
from pyjms.types import Long
from pyjms_provider.amqp.capabilities import NUMBER, REDELIVERED
from pyjms_provider.amqp.envelope import write_envelope
from pyjms_provider.amqp.errors import EncodeError
from pyjms_provider.amqp.message import write_delivery_annotations
from pyjms_provider.amqp.performatives import Attach, SenderSettleMode
from pyjms_provider.protocols.amqp.server.work import Work, nothing
from pyjms_provider.protocols.profile.errors import CommandError
from pyjms_provider.protocols.scheduling import PULLS_PER_TURN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyjms.spi.replay import ReservedMessage
    from pyjms_provider.protocols.amqp.link import IncomingDelivery, Sender
    from pyjms_provider.protocols.amqp.server.contracts import LinkSession


class PageLink:
    """A link on which pages come, as settled messages. The connection's thread calls all but `encoded`."""

    def __init__(self, session: LinkSession, link: Sender) -> None:
        assert link.remote is not None
        self.link = link
        self.pulls_per_turn = PULLS_PER_TURN
        self.may_have_more = True
        self._session = session
        self._is_reserved = False
        self._messages: deque[bytes] | None = None
        """What is left of the page that is being sent."""
        self._sent = 0
        self._done: Callable[[int, ProviderError | None], None] | None = None
        self._tag = 0
        link.attach(
            Attach(
                "",
                0,
                False,
                snd_settle_mode=SenderSettleMode.SETTLED,
                source=link.remote.source,
                target=link.remote.target,
            )
        )

    def reserve(self) -> None:
        """Have the link be for the next page alone. Raises `CommandError`: another page is under way."""
        if self._is_reserved:
            raise CommandError(f"a page is on its way on the link {self.link.name[:80]!r} already: ask on another link")
        self._is_reserved = True

    def release(self) -> None:
        """Have the link be free, as there is no page."""
        self._is_reserved = False

    def encoded(self, page: Sequence[ReservedMessage]) -> list[bytes]:
        """Return the messages of a page as they are sent. Any thread. Raises `ProviderError`: AMQP cannot say what is in one."""
        now_ms = self._session.engine.service.clock.time_ms()
        try:
            return [
                write_envelope(
                    each.envelope,
                    now_ms=now_ms,
                    delivery_count=each.count - 1,
                    delivery_annotations=write_delivery_annotations(
                        {NUMBER: Long(each.number), REDELIVERED: each.redelivered}
                    ),
                )
                for each in page
            ]
        except EncodeError as error:
            raise ProviderError(f"the page cannot be read over AMQP: {error}; read it over STOMP") from error

    def begin(self, messages: Iterable[bytes], done: Callable[[int, ProviderError | None], None]) -> None:
        """Send a page, as the client's credit and window let.

        Args:
            messages: its messages, encoded.
            done: called behind the last message that the credit takes, with how many were sent; or with an error, if the link has ended.
        """
        self._messages, self._sent, self._done = deque(messages), 0, done
        if self.link.is_attached:
            self._on_ready()
        else:
            self._end(self._lost())

    def _on_ready(self) -> None:
        self._session.consumers.schedule(self)

    def _lost(self) -> ProviderError:
        return ClosedError(f"the link {self.link.name[:80]!r} has ended before the page was sent")

    def pull(self) -> Iterable[bytes] | None:
        """Return one message in parts, or None: nothing is there, or nothing may be sent now."""
        link, session, messages = self.link, self._session, self._messages
        machine = session.engine.machine
        if not link.is_attached:
            return None
        if messages is None:
            if self._is_reserved or not link.is_draining:
                return None
            link.drained()
            return (machine.take(),)
        if not messages or link.credit <= 0:
            if session.session.holds_transfers:
                # The answer is behind the page.
                session.behind_transfers.append(self._on_ready)
                return None
            self._end(None)
            return (machine.take(),)
        if not session.may_send:
            session.held_up.append(self._on_ready)
            return None
        self._tag += 1
        link.send(messages.popleft(), self._tag.to_bytes(8, "big"), is_settled=True)
        self._sent += 1
        return (machine.take(),)

    def _end(self, error: ProviderError | None) -> None:
        done, self._done, self._messages = self._done, None, None
        self._is_reserved = False
        if done is not None:
            done(self._sent, error)

    def credit_changed(self) -> None:
        """Go on, as the client has given credit, or asks to drain."""
        self._on_ready()

    def received(self, delivery: IncomingDelivery) -> None:
        """Senders receive nothing here."""

    def settled_by_client(self, count: int) -> None:
        """Senders receive nothing here."""

    def detach(self, *, is_closed: bool, is_lost: bool) -> Work | None:
        """Return the work that ends it: the client is told that its page does not come."""
        return Work(nothing, self._detached)

    def _detached(self, _: Exception | None) -> None:
        if self._messages is not None:
            self._end(self._lost())

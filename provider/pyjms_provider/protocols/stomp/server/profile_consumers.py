"""The consumers of a pyjms client: each is sent as many messages as it has credit for, and no more."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from threading import Lock
from typing import TYPE_CHECKING, Final

from pyjms.spi.delivery import Delivery
from pyjms_provider.protocols.stomp.answers import Drained
from pyjms_provider.protocols.stomp.escapes import escape
from pyjms_provider.protocols.stomp.frames import Version
from pyjms_provider.protocols.stomp.packed import FRAME_BYTES, pack_delivery
from pyjms_provider.protocols.stomp.server.fetching import Fetching
from pyjms_provider.protocols.stomp.server.turns import PULLS_OF_TURN

if TYPE_CHECKING:
    from pyjms.spi.provider import ProviderConsumer
    from pyjms_provider.protocols.stomp.server.profile import ProfileDialogue
    from pyjms_provider.protocols.stomp.server.profile_sessions import ServedSession
    from pyjms_provider.protocols.stomp.verbs import Credit

__all__ = ["CreditConsumer", "ServedBrowser", "ServedConsumer"]

_TURN: Final = 32  # messages of one frame


class CreditConsumer(ABC):
    """What may push as long as there is credit.

    CREDIT is heeded, and messages are pulled, by the connection's thread; a consumer begins and ends on others. The lock
    keeps these apart; nothing waits while it is held.
    """

    def __init__(self, dialogue: ProfileDialogue, session: ServedSession, name: str) -> None:
        self.session = session
        self.name = name
        self.escaped = escape(name, Version.V1_2)
        self.is_queued = False
        self.pulls_of_turn = PULLS_OF_TURN
        self.may_have_more = True
        self._dialogue = dialogue
        self._lock = Lock()
        self._credit = 0
        self._drains: list[str] = []
        """Receipts of CREDIT frames that ask what is there now."""
        self._is_closed = False

    def on_ready(self) -> None:
        """Hear that there may be work (any thread)."""
        self._dialogue.turns.want(self)

    def add_credit(self, credit: Credit, receipt: str | None) -> None:
        """Take a CREDIT frame, and answer it; one that drains is answered when all that is there has been pushed."""
        if credit.revoke:
            with self._lock:
                left, self._credit = self._credit + credit.credit, 0
            self._end_interest()
            if receipt is not None:
                self._dialogue.answer(receipt, Drained(left).headers())
            return
        with self._lock:
            drains = credit.drain and not self._is_closed
            if not self._is_closed:
                self._credit += credit.credit
            if drains and receipt is not None:
                self._drains.append(receipt)
        if receipt is not None and not drains:
            self._dialogue.answer(receipt, Drained(credit.credit).headers() if credit.drain else {})
        self.on_ready()

    @abstractmethod
    def pull(self) -> Iterable[bytes] | None:
        """Return one message in parts, or None."""

    def _end_interest(self) -> None:
        """Say that `on_ready` is not wanted; one that only looks is not woken anyway."""
        return

    def close(self) -> None:
        """Push nothing more. May be repeated."""
        with self._lock:
            self._is_closed = True
            self._credit = 0
            drains, self._drains = self._drains, []
        for receipt in drains:
            self._dialogue.answer(receipt, Drained(0).headers())


class ServedConsumer(CreditConsumer):
    """A consumer that takes messages. It is known from SUBSCRIBE on, and begins when that has been done."""

    def __init__(self, dialogue: ProfileDialogue, session: ServedSession, name: str) -> None:
        super().__init__(dialogue, session, name)
        self._consumer: ProviderConsumer | None = None
        self._is_packed = dialogue.is_packed
        if self._is_packed:
            self.pulls_of_turn = 1  # of many messages
        self._has_found_all = False
        """Whether the last look found nothing more."""
        self._fetching = Fetching(dialogue.engine, session.session, self.on_ready, self._gone)

    def begin(self, consumer: ProviderConsumer) -> None:
        """Have the broker's consumer."""
        with self._lock:
            self._consumer = consumer
            is_closed = self._is_closed
        if is_closed:
            consumer.close()
        else:
            self.on_ready()

    def pull(self) -> Iterable[bytes] | None:
        consumer, fetching = self._consumer, self._fetching
        if consumer is None or fetching.is_busy:
            return None
        drains: list[str] = []
        left = 0
        with self._lock:
            deliveries, parts = self._poll(consumer, fetching)
            if self._drains and not fetching.is_busy and (self._has_found_all or not self._credit):
                drains, self._drains = self._drains, []
                left, self._credit = self._credit, 0
            wants_nothing = not self._credit and not fetching.is_busy
        if wants_nothing:
            consumer.set_interested(False)  # who has no credit is not woken, so that others are (QCM-25)
        for receipt in drains:  # they are written after the messages
            self._dialogue.answer(receipt, Drained(left).headers())
            left = 0
        if not deliveries:
            return None
        if parts:
            return self._dialogue.write_messages(self, deliveries, parts)
        return self._dialogue.write_message(self, deliveries[0])

    def _poll(self, consumer: ProviderConsumer, fetching: Fetching) -> tuple[list[Delivery], list[bytes]]:
        """Take what goes into one frame, and pack it if messages are packed here. The lock is held."""
        found: list[Delivery] = []
        parts: list[bytes] = []
        size = 0
        delivery = fetching.take()
        self._has_found_all = self.may_have_more = False
        while True:
            if delivery is None:
                if not self._credit or self._is_closed:
                    break
                delivery = consumer.poll_or_wait()
                if delivery is None:
                    self._has_found_all = True
                    break
                self._credit -= 1
                if type(delivery) is not Delivery:
                    fetching.begin(delivery)
                    break
            found.append(delivery)
            if self._is_packed:
                size += pack_delivery(delivery, parts)
            if len(found) == _TURN or size >= FRAME_BYTES or not self._is_packed:
                self.may_have_more = True
                break
            delivery = None
        return found, parts

    def stopped(self) -> None:
        """Hear that the connection delivers nothing from now on."""
        if self._fetching.drop():
            self._gone()

    def _gone(self) -> None:
        """Hear that a message will not be pushed: another one takes its place."""
        with self._lock:
            if not self._is_closed:
                self._credit += 1
        self.on_ready()

    def _end_interest(self) -> None:
        self._fetching.drop()  # the client knows with the answer that nothing more comes
        if self._consumer is not None:
            self._consumer.set_interested(False)

    def close(self) -> None:
        super().close()
        self._fetching.drop()
        if self._consumer is not None:
            self._consumer.close()


class ServedBrowser(CreditConsumer):
    """A consumer that looks at all messages once, and is told when it has seen them."""

    def __init__(
        self, dialogue: ProfileDialogue, session: ServedSession, name: str, messages: Iterator[Delivery]
    ) -> None:
        super().__init__(dialogue, session, name)
        self._messages = messages
        self._next: Delivery | None = None

    def pull(self) -> Iterable[bytes] | None:
        with self._lock:
            if self._is_closed:
                return None
            delivery = self._next or next(self._messages, None)  # the end needs no credit, so it looks ahead
            self._next = None
            has_ended = delivery is None
            if delivery is not None and not self._credit:
                self._next, delivery = delivery, None
            elif delivery is not None:
                self._credit -= 1
        if has_ended:
            self.close()
            self._dialogue.end_browser(self)
        return None if delivery is None else self._dialogue.write_message(self, delivery)

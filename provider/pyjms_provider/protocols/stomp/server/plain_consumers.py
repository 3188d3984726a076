"""The consumers of a plain STOMP client: subscriptions with their window of messages not yet acknowledged, and browsers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from threading import Lock
from typing import TYPE_CHECKING

from pyjms.spi.delivery import Delivery
from pyjms_provider.core.queue.stored_delivery import without_content
from pyjms_provider.protocols.stomp.server.browsing import LOOK_MESSAGES, Browsing
from pyjms_provider.protocols.stomp.server.fetching import Fetching
from pyjms_provider.protocols.stomp.server.turns import PULLS_OF_TURN

if TYPE_CHECKING:
    from pyjms.spi.envelope import Address
    from pyjms.spi.provider import ProviderConsumer
    from pyjms_provider.protocols.stomp.server.plain import PlainDialogue

__all__ = ["AckMode", "PlainBrowser", "PlainSubscription"]


class AckMode(Enum):
    """The header `ack` of SUBSCRIBE."""

    AUTO = "auto"
    """Acknowledged when written to the wire."""
    CLIENT = "client"
    """An ACK covers all messages up to its own (of this subscription)."""
    CLIENT_INDIVIDUAL = "client-individual"


class PlainSubscription:
    """One SUBSCRIBE. The connection's thread pulls; ACK and NACK may be handled on another one."""

    def __init__(
        self,
        dialogue: PlainDialogue,
        *,
        name: str,
        destination: Address,
        shown_destination: str,
        mode: AckMode,
        window: int,
        durable_name: str | None,
        acks_by_id: bool = False,
    ) -> None:
        """`acks_by_id`: an ACK names the message-id of MESSAGE, as in STOMP 1.0 and 1.1, not a number."""
        self.name = name
        self.destination = destination
        self.shown_destination = shown_destination
        """What the client called it: MESSAGE says the same."""
        self.mode = mode
        self.durable_name = durable_name
        self.unsettled: OrderedDict[str, Delivery] = OrderedDict()
        """By their numbers on the connection; oldest first, where an ACK covers all up to its own."""
        self._numbers_by_id: dict[str, set[str]] | None = {} if acks_by_id else None
        """The numbers of the unsettled messages that have a message-id, where ACK names that; under the lock."""
        self.is_queued = False
        self.pulls_of_turn = PULLS_OF_TURN
        self.may_have_more = True
        self._dialogue = dialogue
        self._window = window
        self._consumer: ProviderConsumer | None = None
        self._is_full = False
        self._is_closed = False
        self._lock = Lock()
        self._fetching = Fetching(
            dialogue.engine, dialogue.session, ready=self.on_ready, gone=self.on_ready, none=self._found_none
        )

    def begin(self, consumer: ProviderConsumer) -> None:
        """Have the consumer; messages flow from now on."""
        self._consumer = consumer
        self.on_ready()

    def on_ready(self) -> None:
        """Hear that there may be work (any thread)."""
        self._fetching.is_woken = True
        self._dialogue.turns.want(self)

    def _found_none(self) -> None:
        """Hear that there was no message to be found: `pull` says so."""
        self._dialogue.turns.want(self)

    def pull(self) -> Iterable[bytes] | None:
        """Return one MESSAGE in parts, or None: nothing is there, or the window is full."""
        with self._lock:  # what is taken is unsettled at once: `close` finds it, and nothing comes after that
            consumer, fetching = self._consumer, self._fetching
            if consumer is None or fetching.is_busy or (fetching.has_found_none and fetching.takes_none()):
                return None
            delivery = fetching.take()
            if delivery is None and len(self.unsettled) >= self._window:
                self._is_full = True
                consumer.set_interested(False)  # somebody else may be woken for what comes now (QCM-25)
                if len(self.unsettled) >= self._window:
                    return None
                self._is_full = False
            if delivery is None:
                polled = consumer.poll_at_once()
                if polled is None:
                    return None
                if type(polled) is not Delivery:
                    fetching.begin(polled, consumer)
                    return None
                delivery = polled
            number = self._dialogue.hold(self, delivery)
        return self._dialogue.write_message(self, delivery, number)

    def hold(self, number: str, delivery: Delivery) -> None:
        """Have a message unsettled. Under the lock."""
        self.unsettled[number] = delivery
        self._index(number, delivery)

    def _index(self, number: str, delivery: Delivery) -> None:
        if self._numbers_by_id is not None:
            self._numbers_by_id.setdefault(self._dialogue.shown_id(delivery, number), set()).add(number)

    def _forget(self, taken: Iterable[tuple[str, Delivery]]) -> None:
        index = self._numbers_by_id
        if index is None:
            return
        for number, delivery in taken:
            message_id = self._dialogue.shown_id(delivery, number)
            numbers = index.get(message_id, set())
            numbers.discard(number)
            if not numbers:
                index.pop(message_id, None)

    def number_of(self, message_id: str) -> str | None:
        """Return the number of the oldest unsettled message that MESSAGE showed with `message_id`; None: there is none."""
        with self._lock:
            numbers = (self._numbers_by_id or {}).get(message_id)
            return min(numbers, key=int) if numbers else None

    def drop_content(self, number: str) -> None:
        """Hold what is written, and still unsettled, without its content."""
        with self._lock:  # somebody may be closing it
            delivery = self.unsettled.get(number)
            if delivery is not None:
                self.unsettled[number] = without_content(delivery)

    def settled(self) -> None:
        """Hear that room has come about."""
        if self._is_full and len(self.unsettled) < self._window:
            self._is_full = False
            self.on_ready()

    def take_up_to(self, ack_id: str) -> list[tuple[str, Delivery]]:
        """Take what an ACK of `ack_id` covers out of what is unsettled; nothing: it is not there."""
        unsettled = self.unsettled
        if self.mode is not AckMode.CLIENT:
            delivery = unsettled.pop(ack_id, None)
            if delivery is None:
                return []
            if self._numbers_by_id is not None:
                with self._lock:
                    self._forget([(ack_id, delivery)])
            return [(ack_id, delivery)]
        taken: list[tuple[str, Delivery]] = []
        with self._lock:  # the connection's thread may be adding
            is_reached = ack_id not in unsettled
            while not is_reached:
                taken.append(unsettled.popitem(last=False))
                is_reached = taken[-1][0] == ack_id
            self._forget(taken)
        return taken

    def put_back(self, taken: Iterable[tuple[str, Delivery]]) -> None:
        """Have it unsettled again, in its old place."""
        unsettled, older = self.unsettled, dict(taken)
        with self._lock:
            for number, delivery in older.items():
                self._index(number, delivery)
            if self.mode is not AckMode.CLIENT:
                unsettled.update(older)
                return
            last = max(map(int, older))
            while unsettled and int(next(iter(unsettled))) < last:  # what another transaction has put back
                number, delivery = unsettled.popitem(last=False)
                older[number] = delivery
            unsettled.update(older)
            for number in sorted(older, key=int, reverse=True):
                unsettled.move_to_end(number, last=False)

    @property
    def is_closed(self) -> bool:
        """Whether it has ended."""
        return self._is_closed

    def close(self) -> dict[str, Delivery]:
        """Detach; return what is unsettled, by the id that ACK names. May be repeated."""
        with self._lock:
            consumer, self._consumer = self._consumer, None
            self._is_closed = True
        self._fetching.drop()
        if consumer is not None:
            consumer.close()
        left = dict(self.unsettled)
        self.unsettled.clear()
        if self._numbers_by_id is not None:
            self._numbers_by_id.clear()
        return left


class PlainBrowser:
    """A SUBSCRIBE that only looks: all messages once, then an end that is marked."""

    def __init__(
        self,
        dialogue: PlainDialogue,
        messages: Iterator[Delivery],
        write: Callable[[Delivery | None], Iterable[bytes]],
    ) -> None:
        """`write` makes a frame in parts, with None the end's."""
        self.is_queued = False
        self.pulls_of_turn = PULLS_OF_TURN
        self.may_have_more = True
        self._write = write
        self._is_over = False
        self._browsing = Browsing(dialogue.engine, messages, write, lambda: dialogue.turns.want(self))

    def pull(self) -> Iterable[bytes] | None:
        """Return one MESSAGE in parts, the last one being the end; None: that has been, or nothing has been found yet."""
        if self._is_over:
            return None
        browsing = self._browsing
        if browsing.has_ended:
            self._is_over = True
            return self._write(None)
        if browsing.is_empty:
            browsing.look(LOOK_MESSAGES)
            return None
        return browsing.take()

    def close(self) -> None:
        """Stop looking. May be repeated."""
        self._is_over = True
        self._browsing.end()

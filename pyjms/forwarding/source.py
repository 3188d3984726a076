"""Where a route takes messages from: in batches, in the order in which the site hands them out.

What was taken stays taken while a target is away: nothing is given back that would have to find its place again. A message
without a lasting id is given one first, in one transaction here, in a queue of the route's own; that queue is emptied before
anything else is taken, so that the order stays.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from uuid import uuid4

from pyjms.forwarding.counters import AdaptiveBatchSize
from pyjms.forwarding.link import DUPLICATE_PROPERTIES, RouteConnection
from pyjms.forwarding.marks import has_lasting_id, readdressed
from pyjms.forwarding.settings import RouteSettings
from pyjms.spi.clock import Clock, Signal
from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address, AddressKind, Envelope, MessageId
from pyjms.spi.errors import ProviderError, ResourceError
from pyjms.spi.provider import ProviderConsumer, SubscribeRequest
from pyjms.spi.selector import selector_or_none


class Source:
    """The source's end of a route. One thread."""

    def __init__(
        self,
        settings: RouteSettings,
        link: RouteConnection,
        clock: Clock,
        signal: Signal,
        is_over: Callable[[], bool],
        on_open: Callable[[], None],
    ) -> None:
        """`is_over` says when to stop waiting; the thread that makes it true sets `signal`. `on_open` is called when receiving begins."""
        self._on_open = on_open
        self._settings = settings
        self.link = link
        self._clock = clock
        self._signal = signal
        self._is_over = is_over
        self._selector = selector_or_none(settings.selector)
        self._named = Address(AddressKind.QUEUE, f"{settings.source.address.name}.{settings.name}.named")
        self._consumer: ProviderConsumer | None = None
        self._naming: ProviderConsumer | None = None
        self._held: deque[Delivery] = deque()
        self._may_have_named = True
        self._portion = AdaptiveBatchSize()
        self.gives_ids = True
        """Whether messages without an id are given one: it is of use only where duplicates are found by it."""

    def open(self) -> None:
        """Begin to receive, unless it has. Raises `ProviderError`."""
        lacks_naming = self.gives_ids and self._naming is None
        if self._consumer is not None and self.link.problem is None and not lacks_naming:
            return
        self.close()
        self.link.session()
        wake = self._signal.set
        self._may_have_named = self.gives_ids
        if self.gives_ids:
            self._naming = self._subscribe(self._named, wake)
        self._consumer = self._subscribe(self._settings.source.address, wake)
        self.link.connection.start()
        self._on_open()

    def _subscribe(self, address: Address, wake: Callable[[], None]) -> ProviderConsumer:
        selector = None if address == self._named else self._selector
        request = SubscribeRequest(address=address, selector=selector, no_local=False, durable_name=None)
        return self.link.session().subscribe(request, wake)

    def close(self) -> None:
        """Give back, in their places, what was taken and not settled."""
        held, self._held = list(self._held), deque()
        self._consumer = self._naming = None
        if held and self.link.is_open:
            self._give_back(held)
        self.link.drop()

    def give_back(self, batch: list[Delivery]) -> None:
        """Give back a batch that was handed out, and all else that was taken."""
        self._held.extendleft(reversed(batch))
        self.close()

    def _give_back(self, deliveries: list[Delivery]) -> None:
        session = self.link.session()
        try:
            session.rollback()
            session.give_back_unseen(deliveries)
        except ProviderError:
            return  # the connection is gone: the site takes them back by itself

    def take(self) -> list[Delivery]:
        """Return a batch, all of it with lasting ids if `gives_ids`; empty when it is over. Raises `ProviderError`."""
        while not self._is_over():
            self.open()
            if self._may_have_named and self._naming is not None:
                named = self._poll_all(self._naming, self._settings.batch)
                if named:
                    return named
                self._may_have_named = False
            self._fill()
            if not self._held:
                continue
            if not self.gives_ids:
                return self._take_held(lambda _: True)
            batch = self._take_held(lambda each: has_lasting_id(each.envelope))
            if batch:
                return batch
            self._give_ids(self._take_held(lambda each: not has_lasting_id(each.envelope)))
        return []

    def unsettled(self) -> Sequence[Delivery]:
        """Return what was taken and not handed out yet."""
        return tuple(self._held)

    def forget(self) -> None:
        """Hear that what was taken has been given back."""
        self._held.clear()

    def _fill(self) -> None:
        """Wait for messages, until the batch is full or has waited long enough, or it is over."""
        assert self._consumer is not None
        settings, until_ms = self._settings, None
        while len(self._held) < settings.batch and not self._is_over() and self.link.problem is None:
            delivery = self._consumer.poll_or_wait()
            if delivery is not None:
                self._held.append(delivery)
                continue
            if self._held and not settings.linger_ms:
                return
            if self._held and until_ms is None:
                until_ms = self._clock.monotonic_ms() + settings.linger_ms
            if not self._clock.wait(self._signal, until_ms):
                return

    @staticmethod
    def _poll_all(consumer: ProviderConsumer, most: int) -> list[Delivery]:
        consumer.catch_up()
        found: list[Delivery] = []
        while len(found) < most and (delivery := consumer.poll()) is not None:
            found.append(delivery)
        return found

    def _take_held(self, wanted: Callable[[Delivery], bool]) -> list[Delivery]:
        batch: list[Delivery] = []
        while self._held and wanted(self._held[0]):
            batch.append(self._held.popleft())
        return batch

    def _give_ids(self, batch: list[Delivery]) -> None:
        """Move messages into the route's own queue, with an id each: one transaction at this site alone.

        Where that queue has no room for all of them, some are held again. Raises `ProviderError`.
        """
        session = self.link.session()
        part = batch[: self._portion.most]
        self._held.extendleft(reversed(batch[len(part) :]))
        try:
            for delivery in part:
                session.send(self._with_id(delivery.envelope))
        except ResourceError:
            if not self._portion.failed(len(part)) or self.link.problem is not None:
                raise
            session.rollback()
            self._held.extendleft(reversed(part))
            return
        session.acknowledge(part)
        session.commit()
        self._portion.succeeded()
        self._may_have_named = True

    def _with_id(self, envelope: Envelope) -> Envelope:
        """Return the message as it goes to the route's own queue: without its sender's duplicate id, by which it could be dropped there."""
        properties = {name: value for name, value in envelope.properties.items() if name not in DUPLICATE_PROPERTIES}
        named = readdressed(envelope, self._named, properties, envelope.reply_to)
        named.message_id = MessageId(f"ID:pyjms-forward-{uuid4()}")  # type: ignore[misc]  # nobody else has it yet
        return named

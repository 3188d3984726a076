"""A consumer of a client of the cluster: at one shard, whichever member leads it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeVar

from pyjms.spi.delivery import ELSEWHERE, Delivery, Elsewhere
from pyjms.spi.provider import ProviderConsumer
from pyjms_provider.clients.vm import VmConsumer
from pyjms_provider.repeatable import LOST

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyjms.spi.provider import SubscribeRequest
    from pyjms_provider.clients.cluster.shard_connection import ShardConnection


_Found = TypeVar("_Found")


class DeliveryTag(NamedTuple):
    """The tag of a delivery: where it is settled."""

    shard: ShardConnection
    term: int
    delivery: Delivery
    """As the shard's own session has it."""


class ConsumingPart(Protocol):
    """The part of a session at a shard, as its consumers see it."""

    shard: ShardConnection
    consumers: dict[ClusterConsumer, None]
    """Its open consumers."""


class ClusterConsumer(ProviderConsumer):
    """A consumer at a shard, whichever member leads it."""

    def __init__(
        self,
        part: ConsumingPart,
        request: SubscribeRequest,
        on_ready: Callable[[], None],
        inner: ProviderConsumer,
        term: int,
    ) -> None:
        """`inner`: the consumer at the shard, which was made in that term."""
        self.request = request
        self.on_ready = on_ready
        self._part = part
        self._inner = (inner, term)
        self._interested = False
        self._closed = False
        self.guard: ClusterConsumer | None = None
        """The consumer of the same shared subscription at the shard of its name."""
        self._has_caught_up = isinstance(inner, VmConsumer)  # that one knows what is there
        """Whether the leader was asked for what it has since the consumer became idle."""
        self._is_to_catch_up = False

    def place(self, inner: ProviderConsumer, term: int) -> None:
        """Use the consumer of another term."""
        self._inner = (inner, term)
        self._has_caught_up = isinstance(inner, VmConsumer)
        if self._closed:
            inner.close()
        elif self._interested:
            inner.set_interested(True)

    def _wrapped(self, delivery: Delivery, term: int) -> Delivery:
        return Delivery(
            delivery.envelope, delivery.count, delivery.redelivered, DeliveryTag(self._part.shard, term, delivery)
        )

    def _asked(self, ask: Callable[[], _Found], term: int) -> _Found | None:
        """Return the answer of the consumer of a term; None: that is lost, and the next one brings what there is."""
        try:
            return ask()
        except LOST as error:
            self._part.shard.lose(term, error)
            return None

    def poll(self) -> Delivery | None:
        inner, term = self._inner
        delivery = self._asked(inner.poll, term)
        return None if delivery is None else self._wrapped(delivery, term)

    def poll_or_wait(self) -> Delivery | None:
        while True:
            inner, term = self._inner
            if self._is_to_catch_up:
                self._is_to_catch_up, self._has_caught_up = False, True
                self._asked(inner.catch_up, term)
            delivery = self._asked(inner.poll_or_wait, term)
            self._interested = delivery is None
            if delivery is not None:
                return self._wrapped(delivery, term)
            # Looked at after the interest was noted: of this call and `place` at the same time, one sees what the other has written.
            if self._inner[0] is inner:
                return None

    def poll_at_once(self) -> Delivery | Literal[Elsewhere.ELSEWHERE] | None:
        while True:
            inner, term = self._inner
            delivery = self._asked(inner.poll_at_once, term)
            if delivery is ELSEWHERE:
                return ELSEWHERE
            if delivery is None and not self._has_caught_up:
                # A message may be at the leader that the link has not brought yet: a worker asks for it.
                self._is_to_catch_up = True
                return ELSEWHERE
            self._interested = delivery is None
            if delivery is not None:
                return self._wrapped(delivery, term)
            if self._inner[0] is inner:  # as in `poll_or_wait`
                return None

    def take_unreturned(self) -> Delivery | None:
        inner, term = self._inner
        delivery = inner.take_unreturned()
        return None if delivery is None else self._wrapped(delivery, term)

    def catch_up(self) -> None:
        self._inner[0].catch_up()

    def set_interested(self, interested: bool) -> None:
        self._interested = interested
        if not interested:
            self._has_caught_up = isinstance(self._inner[0], VmConsumer)
        self._inner[0].set_interested(interested)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._part.consumers.pop(self, None)
        with suppress(*LOST):
            self._inner[0].close()
        if self.guard is not None:
            self.guard.close()

"""A consumer of ``vm://NAME``: it passes calls on to the queue, and the time of its session's transaction begins with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pyjms.spi.delivery import ELSEWHERE, Delivery, Elsewhere
from pyjms.spi.provider import ProviderConsumer
from pyjms_provider.core.store.store import NotAtOnceError

if TYPE_CHECKING:
    from pyjms.spi.errors import ProviderError
    from pyjms_provider.clients.vm_session import VmSession
    from pyjms_provider.core.queue.consumer import Consumer, ConsumerTarget, DirectTaker
    from pyjms_provider.core.topic.subscription import Subscription

__all__ = ["VmConsumer"]


class VmConsumer(ProviderConsumer):
    """One consumer at a broker in this process."""

    def __init__(
        self, session: VmSession, target: ConsumerTarget, consumer: Consumer, subscription: Subscription | None
    ) -> None:
        self._session = session
        self._target = target
        self._consumer = consumer
        self._subscription = subscription
        self._deliver = consumer.queue.deliver_single_message
        if session.is_timed:
            self._deliver = self._deliver_in_time
        self._desire = consumer.queue.set_notify_work_desired
        self._is_forked = False

    def _deliver_in_time(self, consumer: Consumer, *, or_wait: bool = False, at_once: bool = False) -> Delivery | None:
        delivery = consumer.queue.deliver_single_message(consumer, or_wait=or_wait, at_once=at_once)
        if delivery is not None:
            self._session.begin_time()
        return delivery

    def hand_over_to(self, taker: DirectTaker) -> None:
        """Have messages handed to `taker` where they come in, as long as it says so; not while a limit of time begins with each."""
        if not self._session.is_timed:
            self._target.direct = taker

    def poll(self) -> Delivery | None:
        return self._deliver(self._consumer)

    def poll_or_wait(self) -> Delivery | None:
        return self._deliver(self._consumer, or_wait=True)

    def poll_at_once(self) -> Delivery | Literal[Elsewhere.ELSEWHERE] | None:
        try:
            return self._deliver(self._consumer, or_wait=True, at_once=True)
        except NotAtOnceError:
            return ELSEWHERE

    def set_interested(self, interested: bool) -> None:
        self._desire(self._consumer, interested)

    def forget_broker(self, error: ProviderError) -> None:
        """Fail with `error` when asked for a message, in a child of the broker's process."""

        def refuse(*_: object, **__: object) -> Delivery | None:
            raise error

        def ignore(consumer: Consumer, desired: bool) -> None:
            """Do nothing."""

        self._deliver, self._desire, self._is_forked = refuse, ignore, True

    def close(self) -> None:
        if self._is_forked:
            return
        self._session.end_consumer(self._target, self._subscription)
        self._session.forget(self)

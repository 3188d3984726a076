"""Receiving from a message system that is not asked to repeat anything: one consumer, single acknowledgements."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from pyjms.spark.connecting import Link, link_of
from pyjms.spark.options import JmsOptions
from pyjms.spark.planning import Limits, source_address
from pyjms.spi.clock import Signal
from pyjms.spi.delivery import Delivery
from pyjms.spi.errors import ClosedError, ConnectionLostError, ProviderError
from pyjms.spi.provider import ProviderConnection, ProviderConsumer, ProviderSession, SubscribeRequest
from pyjms.spi.selector import selector_or_none
from pyjms.spi.sizes import content_size

__all__ = ["Receiver"]

_ROW_BYTES = 500


class Receiver:
    """One consumer, made when it is first asked, and anew when its connection was lost. One thread."""

    def __init__(self, options: JmsOptions) -> None:
        self._options = options
        self._request = SubscribeRequest(
            address=source_address(options),
            selector=selector_or_none(options.selector),
            no_local=False,
            durable_name=options.subscription,
        )
        self._signal = Signal()
        self._connection: ProviderConnection | None = None
        self._session: ProviderSession | None = None
        self._consumer: ProviderConsumer | None = None
        self.life = 0
        """Counts connections: what one of them received, another one cannot settle."""
        self._since_ms: int | None = None
        self._is_over = False

    @property
    def _link(self) -> Link:
        return link_of(self._options, with_client_id=True)

    def end_with_what_is_there(self) -> None:
        """Let `receive` return nothing any more once what is there now has come, and what came while it was received."""
        self._since_ms = self._link.clock.time_ms()

    def receive(self, limits: Limits, wait_ms: int) -> list[Delivery]:
        """Return what is there, at most as much as `limits` say; wait up to `wait_ms` for a first message.

        Nothing when the connection is lost meanwhile: all that is not acknowledged comes again.
        """
        if self._is_over:
            return []
        consumer = self._open()
        until_ms = self._link.clock.monotonic_ms() + wait_ms
        found: list[Delivery] = []
        size = 0
        try:
            while (limits.max_messages is None or len(found) < limits.max_messages) and (
                limits.max_bytes is None or size < limits.max_bytes
            ):
                delivery = consumer.poll() or self._look_again(consumer, may_wait=not found, until_ms=until_ms)
                if delivery is None:
                    self._is_over = self._since_ms is not None  # whatever was there has been received
                    break
                found.append(delivery)
                size += _ROW_BYTES + content_size(delivery.envelope)
        except (ClosedError, ConnectionLostError):
            self.forget()
            return []
        if self._since_ms is not None and all(each.envelope.timestamp_ms > self._since_ms for each in found):
            self._is_over = True  # who sends is quicker than the query
        return found

    def _look_again(self, consumer: ProviderConsumer, *, may_wait: bool, until_ms: float) -> Delivery | None:
        """Return a message that is on its way; if there is none, wait for one."""
        consumer.catch_up()
        delivery = consumer.poll()
        while delivery is None and may_wait:
            delivery = consumer.poll_or_wait()
            if delivery is None and not self._link.clock.wait(self._signal, until_ms):
                consumer.set_interested(False)
                return consumer.poll()
        return delivery

    def _open(self) -> ProviderConsumer:
        if self._consumer is None:
            self._consumer = self._link.call(self._subscribe)
        return self._consumer

    def _subscribe(self, connection: ProviderConnection) -> ProviderConsumer:
        connection.start()
        self._connection = connection
        self._session = connection.open_session(transacted=False)
        return self._session.subscribe(self._request, self._signal.set)

    def acknowledge(self, deliveries: Sequence[Delivery]) -> bool:
        """Settle what `receive` returned; return False when the connection is gone: they may come again, or not."""
        if self._session is None:
            return False
        try:
            self._session.acknowledge(deliveries)
        except ProviderError as error:
            is_gone = self._connection is None or self._connection.state != "connected"
            if not is_gone and not isinstance(error, (ClosedError, ConnectionLostError)):
                raise
            self.forget()
            return False
        return True

    def forget(self) -> None:
        """Let go of the connection; all that is not acknowledged comes again."""
        connection, self._connection = self._connection, None
        self._session = self._consumer = None
        self.life += 1
        if connection is not None:
            with suppress(ProviderError):
                self._link.forget(connection)

"""STOMP and AMQP on one port: the first bytes of a client tell which of them it speaks (Broker-J, "AMQP Protocol Engines")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyjms_provider.protocols.engine import ProtocolEngine

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyjms_provider.protocols.engine import TransportContext

_AMQP: Final = b"AMQP"


class ChoosingEngine(ProtocolEngine):
    """An engine that becomes that of the protocol which the client speaks."""

    def __init__(
        self,
        transport: TransportContext,
        make_amqp: Callable[[TransportContext], ProtocolEngine],
        make_stomp: Callable[[TransportContext], ProtocolEngine],
    ) -> None:
        self._transport = transport
        self._make_amqp = make_amqp
        # A client that sends nothing is one of STOMP, whose engine knows how long a login may take.
        self._engine = make_stomp(transport)
        self._first: bytes | None = b""
        """What has come of the first bytes; None: the protocol is known."""

    def received(self, data: bytes | bytearray | memoryview) -> None:
        if self._first is None:
            self._engine.received(data)
            return
        first = self._first + bytes(data)
        if len(first) < len(_AMQP) and _AMQP.startswith(first):
            self._first = first
            return
        if first.startswith(_AMQP):
            self._engine.closed(None)
            self._engine = self._make_amqp(self._transport)
        self._first = None
        self._engine.received(first)

    def pull(self, size: int) -> bytes | bytearray | memoryview:
        return self._engine.pull(size)

    @property
    def is_reading(self) -> bool:
        return self._engine.is_reading

    @property
    def knows_peer(self) -> bool:
        return self._engine.knows_peer

    @property
    def is_over(self) -> bool:
        return self._engine.is_over

    def next_tick_ms(self) -> int | None:
        return self._engine.next_tick_ms()

    def tick(self) -> None:
        self._engine.tick()

    def stop(self, reason: str) -> None:
        self._engine.stop(reason)

    def closed(self, error: BaseException | None) -> None:
        self._engine.closed(error)

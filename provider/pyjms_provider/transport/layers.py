"""What may stand between the socket and the engine: TLS, WebSocket, both, or nothing (Broker-J's delegates).

A layer is sans-I/O: bytes in, bytes out. So buffers and limits stay with the connection.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import chain
from typing import Final

HELD_FOR_STRANGERS: Final = 64 * 2**10
"""Bytes of an unfinished frame, or handshake, that a layer may hold for a peer that has not logged in."""

Bytes = bytes | bytearray | memoryview


class LayerError(Exception):
    """The peer broke the rules of a layer, or was refused by it. The text is for the log."""


class Layer(ABC):
    """A protocol beneath the engine's. Only its connection's thread calls it."""

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """Whether the handshake is done, and the engine may speak."""

    @property
    @abstractmethod
    def is_over(self) -> bool:
        """Whether the peer has said that it sends nothing more."""

    @property
    def certificate(self) -> bytes | None:
        """What the client showed and proved to own, in DER form."""
        return None

    @property
    def held(self) -> int:
        """About how many bytes it holds until the rest of a frame, or of its handshake, has come."""
        return 0

    def refuse_more(self) -> LayerError:
        """Say farewell, in `pending`, to a peer that may not have so much held for it; return what is for the log."""
        return LayerError(
            f"{self.held} bytes of an unfinished frame came before the log-in; log in first, or send less at once"
        )

    @abstractmethod
    def received(self, data: bytes) -> Sequence[bytes]:
        """Take bytes from below and return those for above. Raises `LayerError`; `pending` may still have a farewell."""

    @abstractmethod
    def wrap(self, chunks: Sequence[Bytes]) -> Bytes:
        """Return what stands for `chunks` on the wire; each chunk is what an engine returned at once."""

    @abstractmethod
    def pending(self) -> bytes:
        """Return what the layer itself has to say: its handshake, its answers, its farewell."""

    @abstractmethod
    def finish(self) -> None:
        """Say farewell, in `pending`. May be repeated."""

    def let_go(self) -> None:  # noqa: B027 - not every layer holds much
        """Hold nothing more that has come: the connection is over."""


class Stack(Layer):
    """One layer over another: WebSocket over TLS."""

    def __init__(self, lower: Layer, upper: Layer) -> None:
        self._lower = lower
        self._upper = upper
        self._kept = b""

    @property
    def is_open(self) -> bool:
        return self._upper.is_open

    @property
    def is_over(self) -> bool:
        return self._upper.is_over or self._lower.is_over

    @property
    def certificate(self) -> bytes | None:
        return self._lower.certificate

    @property
    def held(self) -> int:
        # The lower layer, TLS, holds less than a record.
        return self._upper.held

    def refuse_more(self) -> LayerError:
        return self._upper.refuse_more()

    def received(self, data: bytes) -> Sequence[bytes]:
        # In the order of the wire: each record of the lower layer is taken apart before the next.
        return list(chain.from_iterable(map(self._upper.received, self._lower.received(data))))

    def wrap(self, chunks: Sequence[Bytes]) -> Bytes:
        return self._lower.wrap((self._upper.wrap(chunks),))

    def pending(self) -> bytes:
        self._carry()
        kept, self._kept = self._kept, b""
        return kept + self._lower.pending()

    def let_go(self) -> None:
        self._upper.let_go()

    def finish(self) -> None:
        # From above: the farewell of the upper layer is still wrapped by the lower one.
        self._upper.finish()
        self._carry()
        self._lower.finish()

    def _carry(self) -> None:
        """Have the lower layer wrap what the upper one has to say, before either says more."""
        if own := self._upper.pending():
            self._kept += self._lower.wrap((own,))

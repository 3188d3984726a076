"""The protocol layers between the socket and the engine: TLS, WebSocket, both, or none (Broker-J's delegates).

A layer does no I/O: bytes in, bytes out. Buffers and limits are the connection's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import chain
from typing import Final

HELD_FOR_STRANGERS: Final = 64 * 2**10
"""The bytes of an incomplete frame or handshake that a layer may buffer for a peer that has not logged in."""

Bytes = bytes | bytearray | memoryview


class LayerError(Exception):
    """The peer violated the protocol of a layer, or was refused by it. The text is for the log."""


class Layer(ABC):
    """A protocol below the engine's. Called only by its connection's thread."""

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """Whether the handshake is done, so that the engine may send."""

    @property
    @abstractmethod
    def is_over(self) -> bool:
        """Whether the peer has closed its side."""

    @property
    def certificate(self) -> bytes | None:
        """The client's verified certificate, in DER form."""
        return None

    @property
    def held(self) -> int:
        """The approximate number of buffered bytes of an incomplete frame or handshake."""
        return 0

    def refuse_more(self) -> LayerError:
        """Put a closing message for a peer with too much buffered input into `pending`; return the error for the log."""
        return LayerError(
            f"{self.held} bytes of an unfinished frame came before the log-in; log in first, or send less at once"
        )

    @abstractmethod
    def received(self, data: bytes) -> Sequence[bytes]:
        """Process bytes from below, and return those for above. Raises `LayerError`; `pending` may then have a closing message."""

    @abstractmethod
    def wrap(self, chunks: Sequence[Bytes]) -> Bytes:
        """Encode `chunks` for the wire; each chunk is the result of one pull from the engine."""

    @abstractmethod
    def pending(self) -> bytes:
        """Remove and return the layer's own output: its handshake, its answers, its closing message."""

    @abstractmethod
    def finish(self) -> None:
        """Put the closing message into `pending`. May be repeated."""

    def drop_input(self) -> None:  # noqa: B027 - not every layer holds much
        """Drop all buffered input, as the connection has ended."""


class Stack(Layer):
    """One layer on top of another: WebSocket over TLS."""

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
        # The lower layer, TLS, buffers less than a record.
        return self._upper.held

    def refuse_more(self) -> LayerError:
        return self._upper.refuse_more()

    def received(self, data: bytes) -> Sequence[bytes]:
        # In the order of the wire: each chunk of the lower layer is processed before the next one.
        return list(chain.from_iterable(map(self._upper.received, self._lower.received(data))))

    def wrap(self, chunks: Sequence[Bytes]) -> Bytes:
        return self._lower.wrap((self._upper.wrap(chunks),))

    def pending(self) -> bytes:
        self._wrap_pending()
        kept, self._kept = self._kept, b""
        return kept + self._lower.pending()

    def drop_input(self) -> None:
        self._upper.drop_input()

    def finish(self) -> None:
        # The upper layer first, as its closing message must be wrapped by the lower one.
        self._upper.finish()
        self._wrap_pending()
        self._lower.finish()

    def _wrap_pending(self) -> None:
        """Wrap the upper layer's own output in the lower one, before any further output."""
        if own := self._upper.pending():
            self._kept += self._lower.wrap((own,))

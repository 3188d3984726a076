"""Acknowledgements that nobody waits for: of messages one after the other they are one frame, until that is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyjms_provider.clients.stomp.epoch import Epoch

__all__ = ["LateAcknowledgements"]


class LateAcknowledgements:
    """Those of one session; called by whoever uses the session, so by one thread at a time."""

    def __init__(self, session: str) -> None:
        self._head = f"ACK\nsession:{session}\nids:"
        self._epoch: Epoch | None = None
        self._first = self._last = 0
        self._piece = b""

    def post(self, epoch: Epoch, numbers: range) -> None:
        """Acknowledge deliveries of `epoch`, soon. Raises `InterruptedLinkError`, `ProviderError`."""
        last = numbers[-1]
        if epoch is self._epoch and numbers[0] == self._last + 1:
            piece = epoch.wire.replace_last(self._piece, f"{self._head}{self._first}-{last}\n\n\0".encode())
            if piece is not None:
                self._piece, self._last = piece, last
                return
        self._epoch, self._first, self._last = epoch, numbers[0], last
        self._piece = epoch.post_data_soon(f"{self._head}{self._first}-{last}\n\n\0".encode())

"""A SEND whose bytes are made already, but for the name of its receipt."""

from __future__ import annotations

from pyjms_provider.protocols.stomp.frames import Frame

__all__ = ["PreparedSend"]


class PreparedSend(Frame):
    """What an ordinary message is sent as; `headers` has the receipt, if one is asked for."""

    __slots__ = ("_after", "_before")

    def __init__(self, before: str, after: str, body: bytes) -> None:
        """`before` and `after`: the head's parts, between which the receipt may stand."""
        super().__init__("SEND", {}, body)
        self._before = before
        self._after = after

    def prepared(self) -> bytes:
        receipt = self.headers.get("receipt")
        line = "" if receipt is None else f"receipt:{receipt}\n"
        return b"".join((f"{self._before}{line}{self._after}".encode(), self.body, b"\0"))

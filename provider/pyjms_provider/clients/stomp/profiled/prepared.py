"""A SENDS of one message, whose bytes are made already but for the name of its receipt."""

from __future__ import annotations

from pyjms_provider.protocols.stomp.frames import Frame
from pyjms_provider.protocols.stomp.packed import LENGTH

__all__ = ["PreparedSend"]


class PreparedSend(Frame):
    """What a packed message is sent as whose answer is waited for; `headers` has the receipt, if one is asked for."""

    __slots__ = ("_message", "_session")

    def __init__(self, session: str, message: bytes) -> None:
        """`session`: its name, which needs no escape."""
        self.command = "SENDS"
        self.headers = {}
        self._session = session
        self._message = message

    def prepared(self) -> bytes:
        message, receipt = self._message, self.headers.get("receipt")
        size = len(message)
        line = "" if receipt is None else f"receipt:{receipt}\n"
        head = f"SENDS\nsession:{self._session}\n{line}content-length:{size + LENGTH.size}\n\n"
        return b"".join((head.encode(), LENGTH.pack(size), message, b"\0"))

"""A SEND whose bytes are made already, but for the name of its receipt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms_provider.protocols.stomp.frames import Frame

if TYPE_CHECKING:
    from pyjms_provider.protocols.stomp.profile.quick import QuickFrame

__all__ = ["PreparedSend"]


class PreparedSend(Frame):
    """What an ordinary message is sent as; `headers` has the receipt, if one is asked for."""

    __slots__ = ("_parts", "_session")

    def __init__(self, parts: QuickFrame, session: str) -> None:
        """`session`: its name, which needs no escape."""
        super().__init__("SEND", {}, parts.body)
        self._parts = parts
        self._session = session

    def prepared(self) -> bytes:
        parts, receipt = self._parts, self.headers.get("receipt")
        line = "" if receipt is None else f"receipt:{receipt}\n"
        head = f"{parts.common}session:{self._session}\n{parts.own}{line}{parts.tail}"
        return b"".join((head.encode(), parts.body, b"\0"))

"""What the close code of a WebSocket tells (RFC 6455 §7.4), and what can be done about it. Pure."""

from __future__ import annotations

from struct import Struct
from typing import Final

__all__ = ["why_closed"]

_CODE: Final = Struct(">H")
_SHOWN: Final = 200
_CLOSED: Final = "the broker closed the connection"
_NORMAL: Final = 1000
_MEANINGS: Final = {
    1001: "it stops or goes away: connect again later",
    1002: "it got what breaks the WebSocket protocol: see whether a proxy in between changes what is sent",
    1003: "it does not take this kind of data: see whether it speaks STOMP at this path",
    1007: "it got text that is not UTF-8: see whether a proxy in between changes what is sent",
    1008: "its rules do not allow this: see its log for the rule",
    1009: "a message was larger than it takes over WebSockets: send smaller ones, have its limit raised, or connect over TCP",
    1010: "it lacks an extension of WebSockets: see the settings of the broker and of proxies in between",
    1011: "it failed: see its log",
    1012: "it starts anew: connect again later",
    1013: "it is busy: connect again later",
    1014: "a proxy in between got no good answer from it: see whether the broker runs",
}


def why_closed(data: bytes) -> str:
    """Return for people why the other side ended a WebSocket; `data` is what its Close frame has: a code, and a reason, or nothing."""
    if len(data) < _CODE.size:
        return _CLOSED
    (code,) = _CODE.unpack_from(data)
    reason = " ".join(bytes(data[_CODE.size :]).decode("utf-8", "replace").split())[:_SHOWN]
    reason = "".join(each if each.isprintable() else "�" for each in reason)
    code_said = "" if code == _NORMAL else f" with code {code}"
    meaning = f", as {_MEANINGS[code]}" if code in _MEANINGS else ""
    return f"{_CLOSED}{code_said}{meaning}{f' (it says: {reason})' if reason else ''}"

"""Answers to commands of pyjms clients in parts that fit frames."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from pyjms_provider.amqp.performatives import Answered

_OVERHEAD: Final = 96
"""Bytes of a disposition beside the headers in its state."""
_ENTRY: Final = 16
"""Characters that a header takes beside its name and value."""
_LONGEST: Final = 4
"""Bytes of a character in UTF-8."""


def parts_of(headers: Mapping[str, str], room: int) -> list[Answered]:
    """Return an answer in as many parts as it needs.

    Args:
        headers: what it says.
        room: bytes that the performative of a frame may have; at least 504, as the standard asks of every peer.
    """
    most = (room - _OVERHEAD) // _LONGEST
    part: dict[str, str] = {}
    parts, left = [part], most
    for name, text in headers.items():
        at = 0
        while True:
            taken = text[at : at + max(left - len(name) - _ENTRY, 0)]
            if taken or (not text and left >= len(name) + _ENTRY):
                part[name] = taken
                left -= len(name) + _ENTRY + len(taken)
                at += len(taken)
            if at >= len(text) and name in part:
                break
            part, left = {}, most
            parts.append(part)
    return [*(Answered(each, more=True) for each in parts[:-1]), Answered(parts[-1])]


def joined(parts: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return what the parts of an answer say together: the values of a header that comes again are one text."""
    texts: dict[str, list[str]] = {}
    for part in parts:
        for name, text in part.items():
            texts.setdefault(name, []).append(text)
    return {name: "".join(found) for name, found in texts.items()}

"""Messages that a broker passes on as they came, from one pyjms client to another: nothing of their heads is written anew."""

from __future__ import annotations

from dataclasses import fields
from typing import NamedTuple

from pyjms.spi.envelope import Address, Envelope

__all__ = ["PassedEnvelope", "Shared"]


class Shared(NamedTuple):
    """What the block that many messages begin with says of them."""

    destination: Address
    delivery_mode: int
    priority: int
    content_type: str | None
    lines: str | None
    """It, for a message to begin with that is passed on; None: it has what is not to be passed on."""


class PassedEnvelope(Envelope):
    """An envelope that remembers the head that it came with. A copy with other fields (`dataclasses.replace`) does not."""

    __slots__ = ("passed",)

    passed: tuple[str, str]
    """`Shared.lines`; then all header lines from `expires` on, the last one without its end. Not set: it is to be written anew."""

    def __eq__(self, other: object) -> bool:
        return _plain(self) == _plain(other) if isinstance(other, Envelope) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # as that of an envelope


def _plain(envelope: Envelope) -> tuple[object, ...]:
    return tuple([getattr(envelope, name) for name in _NAMES])


_NAMES = tuple(each.name for each in fields(Envelope))

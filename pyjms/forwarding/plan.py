"""What becomes of one message: the parcels that a route makes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pyjms.forwarding.settings import Target
from pyjms.spi.envelope import Envelope

__all__ = ["Parcel", "Plan", "UndeliverableError", "to_all"]


@dataclass(slots=True)
class Parcel:
    """One message for one target."""

    target: Target
    envelope: Envelope
    """As it was received, or as a transformer has made it."""
    label: str = ""
    """Tells parcels of one message apart, the same at each attempt: the name of the rule that wanted it."""


class UndeliverableError(Exception):
    """Nobody gets the message: the text says why, for the person who finds it."""

    def __init__(self, reason: str, target: str = "", parcels: Sequence[Parcel] = ()) -> None:
        """`parcels` are sent all the same."""
        super().__init__(reason)
        self.reason = reason
        self.target = target
        self.parcels = parcels


Plan: TypeAlias = Callable[[Envelope], Sequence[Parcel]]
"""Pure, and may be asked again for the same message. Raises `UndeliverableError`."""


def to_all(targets: Sequence[Target]) -> Plan:
    """Return the plan of a forwarder: each message to each target, as it is."""

    def plan(envelope: Envelope) -> Sequence[Parcel]:
        return [Parcel(target, envelope, str(number) if number else "") for number, target in enumerate(targets)]

    return plan

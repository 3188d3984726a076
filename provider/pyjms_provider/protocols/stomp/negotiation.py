"""What CONNECT and CONNECTED agree on: the version and the heart-beats (STOMP 1.2, "Connecting"). Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyjms_provider.protocols.stomp.errors import FrameError, VersionError
from pyjms_provider.protocols.stomp.frames import Frame, Version

__all__ = [
    "ALL_VERSIONS",
    "HeartBeats",
    "accepted_versions",
    "agree_on_heart_beats",
    "choose_version",
    "read_heart_beat",
    "refusal",
    "version_of_connected",
]

ALL_VERSIONS = tuple(Version)
_LONGEST_MS = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartBeats:
    """What one side has to do, in milliseconds; 0: nothing."""

    send_ms: int
    """Something must be sent at least so often."""
    expect_ms: int
    """The other side sends something at least so often."""


def accepted_versions(versions: Iterable[Version]) -> str:
    """Return the header `accept-version` of CONNECT."""
    return ",".join(version.value for version in versions)


def choose_version(accept_version: str | None, supported: Iterable[Version] = ALL_VERSIONS) -> Version:
    """Return the highest version that both sides speak; None: a client of 1.0, which has no such header.

    Raises `VersionError`: answer with `refusal`, and close (Broker-J, "AMQP Protocol Engines": unsupported versions).
    """
    known = tuple(supported)
    offered = {"1.0"} if accept_version is None else {text.strip() for text in accept_version.split(",")}
    common = [version for version in Version if version.value in offered and version in known]
    if not common:
        spoken = accepted_versions(known)
        raise VersionError(f"no version of STOMP is known to both sides: here are spoken {spoken}")
    return common[-1]


def refusal(error: VersionError, supported: Iterable[Version] = ALL_VERSIONS) -> Frame:
    """Return the ERROR that tells a client which versions are spoken here (STOMP 1.2, "Protocol Negotiation")."""
    body = error.reason.encode()
    headers = {
        "version": accepted_versions(supported),
        "message": "no common version",
        "content-type": "text/plain;charset=utf-8",
        "content-length": str(len(body)),
    }
    return Frame("ERROR", headers, body)


def version_of_connected(frame: Frame, offered: Iterable[Version] = ALL_VERSIONS) -> Version:
    """Return the version that the broker chose; without the header it is 1.0. Raises `VersionError`."""
    text = frame.headers.get("version", "1.0")
    for version in offered:
        if version.value == text:
            return version
    raise VersionError(f"the broker chose version {text[:20]!r}, which was not offered to it")


def read_heart_beat(text: str | None) -> tuple[int, int]:
    """Return what the other side can send, and what it wants, in milliseconds; no header stands for neither.

    Raises `FrameError` for what is no pair of numbers.
    """
    if text is None:
        return 0, 0
    can, comma, wants = text.partition(",")
    pair = can.strip(), wants.strip()
    if not comma or not all(each.isascii() and each.isdigit() and len(each) <= 15 for each in pair):
        raise FrameError("the header heart-beat has two numbers of milliseconds, such as heart-beat:10000,10000")
    return min(int(pair[0]), _LONGEST_MS), min(int(pair[1]), _LONGEST_MS)


def agree_on_heart_beats(own: tuple[int, int], other: tuple[int, int]) -> HeartBeats:
    """Return what a side has to do that can send and wants `own`, when the other one can send and wants `other`.

    STOMP 1.2, "Heart-beating": the larger of what one side can do and the other one wants; 0 on either side: none.
    """
    (can_ms, wants_ms), (other_can_ms, other_wants_ms) = own, other
    return HeartBeats(
        send_ms=max(can_ms, other_wants_ms) if can_ms and other_wants_ms else 0,
        expect_ms=max(wants_ms, other_can_ms) if wants_ms and other_can_ms else 0,
    )

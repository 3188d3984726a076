"""Persistent sessions: the message system keeps the tags of a registered client's last committed request and reply.

A client registers under a name. From then on it may tag a transaction, or a single send or acknowledgement: the message system stores
the tags in the same write. When the client registers again, after the death of either side, the message system answers with the last
tags, so that the client knows which of its transactions were committed (`Capability.PERSISTENT_SESSIONS`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyjms.spi.errors import RegistrationError

__all__ = [
    "CLIENT_NAME_MAX",
    "TAG_MAX",
    "ClientTags",
    "PersistentSessions",
    "RegisteredClient",
    "check_client_name",
    "check_tags",
]

CLIENT_NAME_MAX: Final = 200
"""The most characters of a client's name."""
TAG_MAX: Final = 1_000
"""The most characters of a tag."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredClient:
    """A registered client, as the message system knows it. Times are in milliseconds since 1970 UTC."""

    name: str
    """1 to 200 characters, unique among the clients of the message system."""
    generation: str
    """Differs from that of an earlier client of the same name, which was deregistered or lost with its store."""
    incarnation: int
    """1 at the first registration, and greater with each later one; tags of an older one are refused."""
    request_tag: str | None
    """The tag of the last committed request; None: there was none."""
    request_ms: int
    """When it was committed; 0: there was none."""
    reply_tag: str | None
    """The tag of the last reply whose receipt was committed; None: there was none."""
    reply_ms: int
    """When it was committed; 0: there was none."""
    registered_ms: int
    """When it registered last."""
    left_ms: int | None
    """When its connection ended; None: it is connected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTags:
    """The tags of one unit of work of a registered client; each 1 to 1,000 characters, None: it keeps its last one."""

    name: str
    incarnation: int
    """As `PersistentSessions.register` answered."""
    request: str | None = None
    reply: str | None = None


class PersistentSessions(ABC):
    """The registered clients of a message system. Any thread; usable while the connection is open."""

    @abstractmethod
    def register(self, name: str) -> RegisteredClient:
        """Register a client, or take its registration over from a predecessor, whose tags are refused from then on; return it with its
        last committed tags. It counts as connected until this connection closes.

        Raises `RegistrationError` for a wrong name, or when there are as many clients as allowed; `AccessDeniedError` when another user
        has registered it; `InDoubtError` while a transaction with its tags is prepared, or its outcome is not known: register again
        when that is settled.
        """

    @abstractmethod
    def deregister(self, name: str) -> None:
        """Forget a client with its tags; it may be connected.

        Raises `RegistrationError` when there is none; `AccessDeniedError`, `InDoubtError` as `register`.
        """

    @abstractmethod
    def clients(self) -> Sequence[RegisteredClient]:
        """Return the clients that this connection's user may see, by name."""


def check_client_name(name: str) -> None:
    """Raise `RegistrationError` for a name that no client may have."""
    _check_text(name, "a client's name", CLIENT_NAME_MAX)


def check_tags(tags: ClientTags) -> None:
    """Raise `RegistrationError` for tags that may not be set."""
    for tag, what in ((tags.request, "a request's tag"), (tags.reply, "a reply's tag")):
        if tag is not None:
            _check_text(tag, what, TAG_MAX)


def _check_text(text: str, what: str, most: int) -> None:
    if not 1 <= len(text) <= most:
        raise RegistrationError(f"{what} has 1 to {most} characters, and this one has {len(text)}")
    # Neither headers of frames nor columns of all databases can carry these.
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise RegistrationError(
            f"{what} has a NUL, or half of a surrogate pair, which cannot be written: {text[:40]!a}"
        )

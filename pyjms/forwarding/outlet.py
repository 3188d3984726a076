"""One other site, and how a unit gets there: in one transaction, and if the site refuses a message, one by one.

What the site has committed is remembered until the source has, too: as long as this process lives nothing is sent twice, however
long that takes. Beyond that, the site itself finds duplicates, if it can.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyjms.forwarding.link import Link, duplicate_property_of
from pyjms.forwarding.plan import UndeliverableError
from pyjms.forwarding.unit import Piece
from pyjms.spi.errors import (
    AccessDeniedError,
    ClosedError,
    ConnectionLostError,
    DestinationError,
    InDoubtError,
    ProviderError,
    ResourceError,
    RolledBackError,
)
from pyjms.spi.provider import ProviderSession

__all__ = ["Outlet", "is_refusal"]

_OF_THE_SITE = (
    AccessDeniedError,
    ClosedError,
    ConnectionLostError,
    DestinationError,
    InDoubtError,
    ResourceError,
    RolledBackError,
)
"""What says nothing of the message: the site is away, full, or not set up; all other messages would fare alike."""
_LOST = (ClosedError, ConnectionLostError, InDoubtError)
_REMEMBERED_MAX = 100_000


def is_refusal(error: ProviderError) -> bool:
    """Whether an error of a send is about that message, so that trying it again is in vain."""
    return not isinstance(error, _OF_THE_SITE)


class Outlet:
    """The end of a route at one site. One thread."""

    def __init__(self, link: Link, attempts: int) -> None:
        self.link = link
        self._attempts = attempts
        self._is_single = False
        self._failures = 0
        self._arrived: dict[str, None] = {}
        self.sent = 0

    @property
    def duplicate_property(self) -> str | None:
        """How the site finds duplicates; None: it does not, or was never connected."""
        return duplicate_property_of(self.link.provider_name)

    def deliver(self, pieces: Sequence[Piece]) -> None:
        """Have all of them at the site when this returns, or refused; may be called again after an error.

        Raises `ProviderError`: nothing more is known than that the site is not there, or has no room.
        """
        waiting = [piece for piece in pieces if not piece.is_done and piece.identity not in self._arrived]
        if not waiting:
            return
        session = self._session()
        if not self._is_single:
            try:
                self._commit(session, waiting)
            except ProviderError as error:
                self._undo(session, error)
                self._is_single = is_refusal(error) or isinstance(error, RolledBackError)
                if not self._is_single or not self._is_well:
                    raise
            else:
                return
        for piece in waiting:
            self._deliver_alone(session, piece)
        self._is_single = False

    def _session(self) -> ProviderSession:
        if self.link.problem is not None:
            self.link.drop()
        return self.link.session()

    def _deliver_alone(self, session: ProviderSession, piece: Piece) -> None:
        """Send one message in a transaction of its own, so that the site's refusal is about that one."""
        try:
            self._commit(session, [piece])
        except ProviderError as error:
            self._undo(session, error)
            if not self._is_well:
                raise
            self._failures += 1
            is_given_up = isinstance(error, RolledBackError) and self._failures >= self._attempts
            if not (is_refusal(error) or is_given_up):
                raise
            piece.is_done = True
            piece.item.refused = UndeliverableError(error.reason, str(piece.parcel.target))
        self._failures = 0

    def _commit(self, session: ProviderSession, pieces: Sequence[Piece]) -> None:
        found_by = self.duplicate_property
        for piece in pieces:
            session.send(piece.envelope(found_by))
        session.commit()
        self.sent += len(pieces)
        for piece in pieces:
            piece.is_done = True
            if piece.identity is not None:
                self._arrived[piece.identity] = None

    @property
    def _is_well(self) -> bool:
        """Whether the connection is as it was, for all that is known."""
        return self.link.is_open and self.link.problem is None

    def _undo(self, session: ProviderSession, error: ProviderError) -> None:
        if isinstance(error, _LOST):
            self.link.drop()
            return
        try:
            session.rollback()
        except ProviderError:
            self.link.drop()

    def settled(self, pieces: Sequence[Piece]) -> None:
        """Forget what the source has settled, too."""
        for piece in pieces:
            if piece.identity is not None:
                self._arrived.pop(piece.identity, None)
        while len(self._arrived) > _REMEMBERED_MAX:  # what never came again: it expired, or somebody took it away
            self._arrived.pop(next(iter(self._arrived)))

"""One other site, and how a unit gets there: in one transaction, and if the site refuses that, in smaller ones, down to one by one.

What the site has committed is remembered until the source has, too: as long as this process lives nothing is sent twice, however
long that takes. Beyond that, the site itself finds duplicates, if it can.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pyjms.forwarding.counters import AdaptiveBatchSize
from pyjms.forwarding.link import RouteConnection, duplicate_property_of
from pyjms.forwarding.unit import Piece, UndeliverableError
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


class Sink:
    """The end of a route at one site. One thread."""

    def __init__(self, link: RouteConnection, attempts: int) -> None:
        self.link = link
        self._attempts = attempts
        self._portion = AdaptiveBatchSize()
        self._failures = 0
        self._arrived: Counter[str] = Counter()
        self.sent = 0

    @property
    def duplicate_property(self) -> str | None:
        """How the site finds duplicates; None: it does not, or was never connected."""
        return duplicate_property_of(self.link.provider_name)

    def deliver(self, pieces: Sequence[Piece]) -> None:
        """Have all of them at the site when this returns, or refused; may be called again after an error.

        Raises `ProviderError`: nothing more is known than that the site is not there, or has no room.
        """
        waiting = [piece for piece in pieces if not (piece.is_done or self._has_arrived(piece))]
        if not waiting:
            return
        session = self._session()
        while waiting:
            some = _with_different_identities(waiting[: self._portion.most])
            try:
                self._commit(session, some)
            except ProviderError as error:
                self._undo(session, error)
                self._look_at(some, error)
            else:
                self._portion.succeeded()
                self._failures = 0
            waiting = waiting if not some[0].is_done else waiting[len(some) :]

    def _session(self) -> ProviderSession:
        if self.link.problem is not None:
            self.link.drop()
        return self.link.session()

    def _look_at(self, tried: Sequence[Piece], error: ProviderError) -> None:
        """Have less be tried next, or give up the one piece that the site refuses. Raises `error` when it must wait for another time."""
        may_fit = is_refusal(error) or isinstance(error, (ResourceError, RolledBackError))
        if may_fit and self._portion.failed(len(tried)) and self._is_well:
            return
        if len(tried) > 1 or not self._is_well:
            raise error
        (piece,) = tried
        # A site over a wire says at the commit that it is full; that is no more the message's fault than at the send.
        self._failures += isinstance(error, RolledBackError) and not isinstance(error.__cause__, ResourceError)
        if not (is_refusal(error) or self._failures >= self._attempts):
            raise error
        self._failures = 0
        piece.is_done = True
        piece.item.refused = UndeliverableError(error.reason, str(piece.parcel.target))

    def _commit(self, session: ProviderSession, pieces: Sequence[Piece]) -> None:
        found_by = self.duplicate_property
        for piece in pieces:
            session.send(piece.envelope(found_by))
        session.commit()
        self.sent += len(pieces)
        for piece in pieces:
            piece.is_done = piece.is_there = True

    def _has_arrived(self, piece: Piece) -> bool:
        """Whether the site has it by a unit that the source did not settle; then it counts as done."""
        if piece.identity is None or piece.identity not in self._arrived:
            return False
        self._arrived[piece.identity] -= 1
        if not self._arrived[piece.identity]:
            del self._arrived[piece.identity]
        piece.is_done = piece.is_there = True
        return True

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

    def not_settled(self, pieces: Sequence[Piece]) -> None:
        """Remember what is here, as the source hands it out again."""
        for piece in pieces:
            if piece.is_there and piece.identity is not None:
                self._arrived[piece.identity] += 1
        while len(self._arrived) > _REMEMBERED_MAX:  # what never came again: it expired, or somebody took it away
            self._arrived.pop(next(iter(self._arrived)))


def _with_different_identities(pieces: Sequence[Piece]) -> Sequence[Piece]:
    """Return the first pieces, up to one that has the identity of another.

    A site can judge whether a message is a duplicate only when the other one has arrived, so not within one transaction.
    """
    seen: set[str] = set()
    for number, piece in enumerate(pieces):
        if piece.identity is None:
            continue
        if piece.identity in seen:
            return pieces[:number]
        seen.add(piece.identity)
    return pieces

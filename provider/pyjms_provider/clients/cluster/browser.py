"""A browser of a queue at one shard, which goes on when another member becomes the leader."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, Protocol

from pyjms.spi.errors import ProviderError, ResourceError
from pyjms_provider.repeatable import REPEATED

if TYPE_CHECKING:
    from pyjms.spi.delivery import Delivery
    from pyjms.spi.envelope import Address, MessageId
    from pyjms.spi.provider import ProviderSession
    from pyjms.spi.selector import Selector

SEEN_MAX: Final = 100_000
"""So many messages are remembered, in order to go on behind them at the next leader."""
_Begin = Callable[["ProviderSession"], "Iterator[Delivery]"]


class BrowsedPart(Protocol):
    """The part of a session at a shard, as its browsers see it."""

    term: int
    """The number of the term of its session."""

    def repeat(self, act: _Begin) -> Iterator[Delivery]:
        """Return the result of a call of the session there, which is made again while the leader changes."""
        ...

    def again(self, error: ProviderError, act: _Begin, term: int | None) -> Iterator[Delivery]:
        """Do the same, after `error`, by which the session of that term was lost."""
        ...


def browse(part: BrowsedPart, address: Address, selector: Selector | None) -> Iterator[Delivery]:
    """Return the messages of a queue at a shard; after a change of its leader, those that were not seen yet.

    The first call is made at once. The iterator raises the broker's errors; `ResourceError` after a change, if messages have no id, or were
    too many to be remembered.
    """

    def begin(session: ProviderSession) -> Iterator[Delivery]:
        return session.browse(address, selector)

    return _look(part, part.repeat(begin), part.term, begin)


def _look(part: BrowsedPart, messages: Iterator[Delivery], term: int, begin: _Begin) -> Iterator[Delivery]:
    seen: set[MessageId] = set()
    are_all_known = True
    while True:
        try:
            for delivery in messages:
                name = delivery.envelope.message_id
                if name in seen:
                    continue
                if name is None or len(seen) >= SEEN_MAX:
                    are_all_known = False
                else:
                    seen.add(name)
                yield delivery
        except REPEATED as error:
            if not are_all_known:  # some would be seen twice
                raise ResourceError(
                    f"another member became the leader of a queue while it was browsed: {error.reason}; browse it again"
                ) from error
            # With a consumer the part may have the session of the next term already.
            messages, term = part.again(error, begin, term), part.term
        else:
            return

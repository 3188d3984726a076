"""The sessions of a pyjms client at the broker, and what they have received and not settled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyjms.spi.errors import ProviderError, RolledBackError, TooLateError
from pyjms_provider.protocols.stomp.delivery_ids import named

if TYPE_CHECKING:
    from pyjms.spi.delivery import Delivery
    from pyjms.spi.provider import ProviderSession
    from pyjms.spi.replay import StageName
    from pyjms.spi.xid import Xid
    from pyjms_provider.protocols.stomp.delivery_ids import DeliveryIds
    from pyjms_provider.protocols.stomp.server.lane import Act, Lane

__all__ = ["ServedSession"]

_SMALL: Final = 256
_MESSAGE_BYTES: Final = 16_384
"""So many bytes take as long to be written as a small message does."""
_RANGE_BYTES: Final = 128
_PERSISTENT: Final = 2


class ServedSession:
    """One session. Only its lane touches it, but for `unsettled`, to which the connection's thread adds."""

    def __init__(self, name: str, session: ProviderSession, lane: Lane, *, transacted: bool) -> None:
        self.name = name
        self.session = session
        self.lane = lane
        self.transacted = transacted
        self.unsettled: dict[int, Delivery] = {}
        """By number, as MESSAGE has it in `ack`."""
        self.failure: ProviderError | None = None
        """Why the transaction can only be rolled back: something in it failed that nobody waited for."""
        self.branch: Xid | None = None
        self.late: tuple[Act, list[range]] | None = None
        """The last acknowledgement that came and nobody waits for, with what it names: later ones may join it."""
        self.unit_size = 0
        """How many messages the open transaction has sent and acknowledged, and how many more its bytes amount to."""
        self._acknowledged: dict[int, Delivery] = {}
        """What was acknowledged in the transaction or branch that is open."""

    @property
    def is_in_unit(self) -> bool:
        """Whether what it acknowledges may yet be rolled back."""
        return self.transacted or self.branch is not None

    @property
    def is_small(self) -> bool:
        """Whether what is to be committed is done in a moment."""
        return self.unit_size <= _SMALL

    def grow_unit(self, messages: int, size: int) -> None:
        """Note what was sent in the transaction, if there is one: so many messages, of so many bytes together."""
        if self.transacted:
            self.unit_size += messages + size // _MESSAGE_BYTES

    def waits_for(self, ids: DeliveryIds) -> bool:
        """Say whether acknowledging these writes anything: not in a unit, and not what no disk has."""
        if self.is_in_unit:
            return False
        if len(ids) == 1 and len(ids[0]) == 1:
            delivery = self.unsettled.get(ids[0][0])
            return delivery is not None and delivery.envelope.delivery_mode == _PERSISTENT
        if sum(map(len, ids)) > _SMALL:
            return True
        return any(delivery.envelope.delivery_mode == _PERSISTENT for delivery in self._named(ids).values())

    def joins(self, ids: DeliveryIds) -> bool:
        """Have these acknowledged together with what waits, if that is what came last; return whether they are."""
        if self.late is None or self.lane.last is not self.late[0]:
            return False
        act, numbers = self.late
        numbers.extend(ids)
        self.lane.grow(act, _RANGE_BYTES * len(ids))
        return True

    def take(self, ids: DeliveryIds) -> list[Delivery]:
        """Take deliveries out of what is unsettled, in the order of `ids`; those that are not there are passed over."""
        return list(self._take(ids).values())

    def _take(self, ids: DeliveryIds) -> dict[int, Delivery]:
        """Do as `take`, and return them by number."""
        if len(ids) == 1 and len(ids[0]) == 1:
            delivery = self.unsettled.pop(ids[0][0], None)
            return {} if delivery is None else {ids[0][0]: delivery}
        found = ((number, self.unsettled.pop(number, None)) for number in self._known(ids))
        return {number: delivery for number, delivery in found if delivery is not None}  # as in `_named`

    def acknowledge(self, ids: DeliveryIds, *, is_told: bool = True) -> None:
        """Settle them; in a transaction or branch they stay the session's until it ends. Raises as the SPI does.

        `is_told`: the client hears of it if that fails, and may ask again, or give them back.
        """
        if not self.is_in_unit:
            taken = self._take(ids)
            try:
                self.session.acknowledge(list(taken.values()))
            except TooLateError:
                raise  # they come again: there is nothing more to be said of these deliveries
            except ProviderError:
                if is_told:
                    self.unsettled.update(taken)
                raise
            return
        found = self._named(ids)
        self.session.acknowledge(list(found.values()))
        self.unit_size += len(found)
        self._acknowledged.update(found)

    def commit(self) -> None:
        """Commit, or roll back what failed before. Raises as the SPI does."""
        self._end_unit()
        try:
            self.session.commit()
        except RolledBackError:
            self._acknowledged.clear()
            raise
        self.settled()

    def stage(self, name: StageName, keep_s: int) -> int:
        """Stage what was sent, or roll back what failed before. Raises as the SPI does."""
        self._end_unit()
        return self.session.stage(name, keep_s=keep_s)

    def _end_unit(self) -> None:
        """The transaction ends now, whatever comes of it. Raises `RolledBackError` if something in it has failed: its cause is that failure,
        which nobody heard of yet.
        """
        self.unit_size = 0
        failure, self.failure = self.failure, None
        if failure is None:
            return
        self._acknowledged.clear()
        self.session.rollback()
        raise RolledBackError(
            f"the transaction was rolled back, as something in it had failed: {failure.reason}"
        ) from failure

    def roll_back(self) -> None:
        """Roll back; what was acknowledged is the client's again, until it gives it back."""
        self.failure = None
        self.unit_size = 0
        self._acknowledged.clear()
        self.session.rollback()

    def settled(self) -> None:
        """Hear that the transaction has been committed, or the branch ended: it keeps what was acknowledged in it."""
        self.unit_size = 0
        for number in self._acknowledged:
            self.unsettled.pop(number, None)
        self._acknowledged.clear()

    def _named(self, ids: DeliveryIds) -> dict[int, Delivery]:
        """Return those of `ids` that are unsettled here, in their order. Another session may adopt some at this moment, on another thread."""
        found = ((number, self.unsettled.get(number)) for number in self._known(ids))
        return {number: delivery for number, delivery in found if delivery is not None}

    def _known(self, ids: DeliveryIds) -> list[int]:
        """Return the numbers of those that were unsettled here a moment ago, in their order, each once."""
        return named(ids, self.unsettled)

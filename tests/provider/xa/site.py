"""A broker on a volatile journal, and sessions that work in branches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address
from pyjms.spi.errors import BranchError
from pyjms.spi.xid import BranchFailure, Xid
from pyjms_provider.core.transaction.branches import Branches, BranchReport
from tests.provider.helpers import HandClock
from tests.provider.keeping.site import ORDERS, Site, consume

__all__ = ["BILLS", "ONE", "TWO", "Party", "XaSite", "refused"]

BILLS = Address(ORDERS.kind, "bills")
ONE = Xid(1, b"one", b"branch")
TWO = Xid(1, b"two", b"branch")


class Party:
    """A session that takes part in branches, and a consumer of ORDERS."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.session = site.session(transacted=True)
        self._consumer = consume(self.session)

    def send(self, text: str, to: Address = BILLS, **fields: object) -> None:
        """Send a PERSISTENT message in the branch."""
        self._site.send(text, self.session, to, **fields)

    def receive(self) -> Delivery:
        """Receive a message in the branch, as a coordinator's client does when its work ends."""
        delivery = self.poll()
        self.session.acknowledge([delivery])
        return delivery

    def poll(self) -> Delivery:
        """Take a message, and do not acknowledge it."""
        delivery = self._consumer.poll()
        assert delivery is not None, "there is no message"
        return delivery

    def work(self, xid: Xid = ONE, *, bill: str = "bill") -> None:
        """Take an order and send a bill, in a branch that has ended then."""
        self.session.xa_start(xid)
        self.receive()
        self.send(bill)
        self.session.xa_end(xid)

    def prepare(self, xid: Xid = ONE) -> None:
        """Do the same, and prepare it."""
        self.work(xid)
        assert self.session.xa_prepare(xid)


class XaSite(Site):
    """With a clock that a test sets."""

    def start(self) -> None:
        if not isinstance(self.clock, HandClock):
            self.clock = HandClock()
        super().start()

    @property
    def hand_clock(self) -> HandClock:
        """The clock."""
        assert isinstance(self.clock, HandClock)
        return self.clock

    @property
    def branches(self) -> Branches:
        """The branches of the broker that runs now."""
        return self.broker.virtual_host.branches

    @property
    def report(self) -> BranchReport:
        """What there is to say of the only branch."""
        (report,) = self.branches.reports()
        return report

    def advance(self, milliseconds: int) -> None:
        """Let time pass, and the housekeeper come."""
        self.hand_clock.now_ms += milliseconds
        self.branches.run_due(self.hand_clock.now_ms)

    def party(self) -> Party:
        """Return a session with a connection of its own."""
        return Party(self)


@contextmanager
def refused(failure: BranchFailure, match: str | None = None) -> Iterator[None]:
    """Expect a `BranchError` with that failure."""
    with pytest.raises(BranchError, match=match) as caught:
        yield
    assert caught.value.failure is failure

"""Two coordinators at one broker: branches of one transaction from both, and both settle what is in doubt at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from random import Random
from threading import Barrier, Event
from typing import Any
from urllib.parse import urlencode

import pytest

from pyjms import Session, XAConnectionFactory, XAException, XAResource, Xid
from pyjms.spi.errors import BranchError
from pyjms.spi.registry import find_provider
from pyjms.spi.url import ProviderUrl
from pyjms.spi.xid import BranchFailure
from pyjms.spi.xid import Xid as XidFact
from pyjms_provider.core.journal.journal import Changes
from pyjms_provider.serving.served_broker import ServedBroker
from pyjms_tck.spi.environment import Threads
from tests.needs.declaring import needing
from tests.provider.xa.coordinator import BranchId
from tests.provider.xa.site import BILLS, XaSite, refused

FIRST, SECOND = XidFact(1, b"global", b"first"), XidFact(1, b"global", b"second")
SCAN = XAResource.TMSTARTRSCAN | XAResource.TMENDRSCAN
COMMANDS = ["commit", "rollback"]
PATIENCE_S = 20.0
ROUNDS = 4
PAIRS = 4

pytestmark = pytest.mark.realises("MOM-10")


# One step after the other


def test_branches_of_one_transaction_are_settled_one_by_one(site: XaSite) -> None:
    for text in ("one", "two"):
        site.send(text)
    parties = site.party(), site.party()
    for party, xid in zip(parties, (FIRST, SECOND), strict=True):
        party.session.xa_start(xid)
    texts = [str(party.receive().envelope.body) for party in parties]
    for party, text in zip(parties, texts, strict=True):
        party.send(f"bill for {text}")
    parties[1].session.xa_end(SECOND)
    assert parties[1].session.xa_prepare(SECOND)
    parties[0].session.xa_end(FIRST)
    assert parties[0].session.xa_prepare(FIRST)
    for party in parties:
        assert set(party.session.xa_recover()) == {FIRST, SECOND}
    parties[1].session.xa_commit(FIRST)
    with refused(BranchFailure.UNKNOWN):
        parties[0].session.xa_rollback(FIRST)
    assert parties[0].session.xa_recover() == [SECOND]
    site.crash()
    assert site.session(transacted=True).xa_recover() == [SECOND]
    site.session(transacted=True).xa_rollback(SECOND)
    assert (site.drain(), site.drain(BILLS)) == ([("two", 2)], [("bill for one", 1)])


@pytest.mark.parametrize("first", COMMANDS)
@pytest.mark.parametrize("second", COMMANDS)
@pytest.mark.parametrize("dies", [None, "before write", "after write"])
def test_who_comes_second_hears_what_is_so_and_changes_nothing(
    site: XaSite, first: str, second: str, dies: str | None
) -> None:
    """`dies`: the broker, with the call of the first one, there."""
    site.send("order")
    party = site.party()
    party.prepare(FIRST)
    other = site.session(transacted=True)

    def come_second(point: str, changes: Changes) -> None:
        if not changes.outcomes:
            return
        if point == "before write":
            assert other.xa_recover() == [FIRST], "it is in doubt for as long as nobody knows"
            with refused(BranchFailure.UNREACHABLE):
                _call(other, second)(FIRST)
        if point == dies:
            site.trap = None
            site.journal.crash()

    site.trap = come_second
    try:
        _call(party.session, first)(FIRST)
    except BranchError:
        assert dies == "before write"
    site.trap = None
    if dies:
        site.start()
        other = site.session(transacted=True)
    is_open = dies == "before write"
    assert other.xa_recover() == ([FIRST] if is_open else [])
    if is_open:
        _call(other, second)(FIRST)
    elif not dies and first == second == "commit":
        other.xa_commit(FIRST)  # it was to ask again, and hears that what it wants is so
    for verb in COMMANDS:
        with refused(BranchFailure.UNKNOWN):
            _call(other, verb)(FIRST)
    is_committed = (second if is_open else first) == "commit"
    expected = ([], [("bill", 1)]) if is_committed else ([("order", 2)], [])
    assert (site.drain(), site.drain(BILLS)) == expected


def _call(session: Any, verb: str) -> Callable[[XidFact], None]:
    call: Callable[[XidFact], None] = getattr(session, f"xa_{verb}")
    return call


# At the same time


@dataclass
class Place:
    """A broker with a store, and how to come to it."""

    url: str
    restart: Callable[[], None]


@pytest.fixture(params=["sqlite", needing("postgresql"), "stomp", "amqp"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    store = f"sqlite:///{tmp_path / 'broker.db'}"
    if request.param in {"stomp", "amqp"}:
        with ServedBroker.open(name="broker") as served:
            yield Place(_serve(served, store, request.param), lambda: None)
        return
    if request.param == "postgresql":
        store = request.getfixturevalue("postgresql").make_store()
    url = f"vm://two-coordinators?{urlencode({'store': store, 'synchronous': 'off'})}"
    yield Place(url, partial(_stop, url))
    _stop(url)


def _stop(url: str) -> None:
    find_provider("vm").stop_broker(ProviderUrl.parse(url))


def _serve(served: ServedBroker, store: str, protocol: str) -> str:
    top = served.broker
    top.create_child("authentication_provider", {"name": "anonymous", "type": "anonymous"})
    top.create_child("access_control", {"name": "access", "rules": [{"effect": "allow", "who": "*"}]})
    node = top.create_child("virtual_host_node", {"name": "broker", "type": "memory"})
    node.create_child("virtual_host", {"name": "broker", "store_url": store})
    port = {"name": "p", "type": protocol, "port": 0}
    top.create_child("port", {**port, "authentication_providers": ["anonymous"], "access_control": "access"})
    return served.addresses()[0]


class Party:
    """A coordinator with a connection of its own, which notes what it was told."""

    def __init__(self, url: str, name: str, seed: int) -> None:
        self.name = name
        self.told: list[tuple[str, str]] = []
        """The orders whose branches it has settled, as it was told, and how."""
        self._random = Random(seed)
        self._connection = XAConnectionFactory(url).create_xa_connection()
        self._connection.start()
        self._session = self._connection.create_xa_session()

    def work(self, orders: list[str]) -> None:
        """Send each order on, in a branch that is prepared then. Of each transaction the other one has a branch as well."""
        for number, order in enumerate(orders):
            xid, resource = BranchId(f"{number} {order[:-1]}", self.name), self._session.xa_resource
            resource.start(xid, XAResource.TMNOFLAGS)
            _send(self._session, "bills", order)
            consumer = self._session.create_consumer(self._session.create_queue("orders"), f"number = '{order}'")
            assert consumer.receive(int(PATIENCE_S * 1000)) is not None
            consumer.close()
            resource.end(xid, XAResource.TMSUCCESS)
            assert resource.prepare(xid) == XAResource.XA_OK

    def settle(self, begin: Barrier, most: int) -> None:
        """Settle so many of the branches that are in doubt, whosoever they are, as it likes."""
        begin.wait(PATIENCE_S)
        found = list(self._session.xa_resource.recover(SCAN))
        self._random.shuffle(found)
        for xid in found[:most]:
            self._settle(xid, self._random.choice(COMMANDS))

    def _settle(self, xid: Xid, verb: str) -> None:
        resource, pause = self._session.xa_resource, Event()
        for _ in range(10_000):
            try:
                if verb == "commit":
                    resource.commit(xid, False)
                else:
                    resource.rollback(xid)
            except XAException as error:
                if error.error_code == XAException.XAER_NOTA:
                    return  # the other one was faster
                if error.error_code != XAException.XAER_RMFAIL:
                    raise
                pause.wait(0.001)  # it is at it
            else:
                order = xid.global_transaction_id.decode().partition(" ")[2] + xid.branch_qualifier.decode()
                self.told.append((order, verb))
                return
        raise AssertionError(f"{xid} is in doubt for ever")

    def in_doubt(self) -> list[Xid]:
        """Return what is in doubt."""
        return list(self._session.xa_resource.recover(SCAN))

    def close(self) -> None:
        """Go away."""
        self._connection.close()


def _send(session: Session, queue: str, order: str) -> None:
    message = session.create_text_message(order)
    message.set_string_property("number", order)
    session.create_producer(session.create_queue(queue)).send(message)


def _texts(url: str) -> dict[str, list[str]]:
    with XAConnectionFactory(url).create_connection() as connection:
        session, found = connection.create_session(), {}
        for name in ("orders", "bills"):
            with session.create_browser(session.create_queue(name)) as browser:
                found[name] = sorted(message.text for message in browser)  # type: ignore[attr-defined]  # they are texts
        return found


def test_each_branch_ends_once_as_one_of_both_was_told(place: Place) -> None:
    expected: dict[str, list[str]] = {"orders": [], "bills": []}
    for number in range(ROUNDS):
        orders = [[f"{number}.{pair}{name}" for pair in range(PAIRS)] for name in "ab"]
        with XAConnectionFactory(place.url).create_connection() as connection:
            session = connection.create_session()
            for order in chain(*orders):
                _send(session, "orders", order)
        parties = [Party(place.url, name, 2 * number + each) for each, name in enumerate("ab")]
        with Threads() as threads:
            for party, own in zip(parties, orders, strict=True):
                threads.start(partial(party.work, own))
        if number == ROUNDS // 2:
            for party in parties:
                party.close()
            place.restart()
            parties = [Party(place.url, name, number) for name in "ab"]
        begin = Barrier(2)
        with Threads() as threads:
            threads.start(partial(parties[0].settle, begin, PAIRS if number % 2 else 2 * PAIRS))  # or it dies half way
            threads.start(partial(parties[1].settle, begin, 2 * PAIRS))
        assert parties[0].in_doubt() == parties[1].in_doubt() == []
        told = set(parties[0].told + parties[1].told)
        assert sorted(order for order, _ in told) == sorted(chain(*orders)), "each once, and none in two ways"
        for order, verb in told:
            expected["bills" if verb == "commit" else "orders"].append(order)
        for party in parties:
            party.close()
        assert _texts(place.url) == {name: sorted(found) for name, found in expected.items()}
    place.restart()
    assert _texts(place.url) == {name: sorted(found) for name, found in expected.items()}

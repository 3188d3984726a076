"""A transaction that sends more than fits in memory: it flows to the disk while it is open, and is committed from there, or is gone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyjms.spi.envelope import Address
from pyjms.spi.errors import ResourceError, RolledBackError
from pyjms.spi.replay import StageName
from pyjms.spi.xid import Xid
from pyjms_provider.clients.vm import VmSession
from pyjms_provider.core.journal.journal import Changes
from pyjms_provider.core.store import PagingMessageStore
from pyjms_provider.queue_manager import QueueManager
from tests.provider.keeping.site import BILLS, NEWS, ORDERS, consume, take_all, text
from tests.provider.simulation.site import SimulatedSite as Site

LIMIT = 50_000
BODY = "x" * 1000
MANY = 200
TEXTS = [f"{number} {BODY}" for number in range(MANY)]
XID = Xid(1, b"global", b"branch")

both_modes = pytest.mark.parametrize("mode", [1, 2], ids=["transient", "persistent"])
both_ends = pytest.mark.parametrize("commit", [True, False], ids=["commit", "rollback"])


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site(memory_bytes=LIMIT)
    yield made
    made.stop()


def store_of(site: Site) -> PagingMessageStore:
    store = site.broker.virtual_host.store
    assert isinstance(store, PagingMessageStore)
    return store


def paged(site: Site) -> int:
    """Return how many messages the journal has on the disk because memory was short."""
    return len(site.journal._paged)


def sent(site: Site, mode: int = 2, to: Address = ORDERS) -> VmSession:
    """Send more than fits in memory in one transaction, and return its session."""
    session = site.session(transacted=True)
    for index, body in enumerate(TEXTS):
        site.send(body, session, to, delivery_mode=mode, properties={"even": index % 2 == 0})
        assert store_of(site).bytes_in_memory < LIMIT + 5000
    assert store_of(site).count_in_memory < MANY / 4
    return session


def check_empty(site: Site) -> None:
    """Hold the broker to having nothing any more, in memory and on the disk."""
    assert (len(store_of(site)), store_of(site).bytes_in_memory, paged(site)) == (0, 0, 0)


@both_modes
def test_it_is_committed_in_order_and_in_little_memory(site: Site, mode: int) -> None:
    most: list[int] = []
    session = sent(site, mode)
    site.trap = lambda _, changes: most.append(sum(each.envelope is not None for each in changes.messages))
    session.commit()
    site.trap = None
    assert max(most, default=0) < MANY / 4
    assert store_of(site).bytes_in_memory <= LIMIT
    if mode == 2:
        assert paged(site) == 0, "what the journal keeps needs no copy"
    assert [each for each, _ in site.drain()] == TEXTS
    check_empty(site)


@both_modes
def test_its_rollback_leaves_nothing_on_the_disk(site: Site, mode: int) -> None:
    session = sent(site, mode)
    assert paged(site) > MANY / 2
    session.rollback()
    check_empty(site)
    site.send("next", session)
    session.commit()
    assert site.texts() == ["next"]


def test_closing_its_session_leaves_nothing_on_the_disk(site: Site) -> None:
    sent(site).close()
    check_empty(site)


def test_a_crash_before_the_commit_leaves_nothing_and_one_after_it_all(site: Site) -> None:
    sent(site)
    assert site.texts() == []
    site.crash()
    assert site.texts() == []
    assert len(store_of(site)) == 0
    sent(site).commit()
    site.crash()
    assert [each for each, _ in site.drain()] == TEXTS


@both_ends
@pytest.mark.parametrize("crashes", [False, True], ids=["goes on", "crashes"])
def test_a_branch_may_be_larger_than_memory(site: Site, commit: bool, crashes: bool) -> None:
    session = site.session(transacted=True)
    session.xa_start(XID)
    for body in TEXTS:
        site.send(body, session)
    assert store_of(site).bytes_in_memory < LIMIT + 5000
    session.xa_end(XID)
    assert session.xa_prepare(XID)
    assert site.texts() == []
    if crashes:
        site.crash()
        session = site.session(transacted=True)
    if commit:
        session.xa_commit(XID)
    else:
        session.xa_rollback(XID)
    assert [each for each, _ in site.drain()] == (TEXTS if commit else [])
    check_empty(site)


@pytest.mark.parametrize("crashes", [False, True], ids=["goes on", "crashes"])
@both_modes
def test_a_staged_unit_may_be_larger_than_memory(site: Site, mode: int, crashes: bool) -> None:
    name = StageName("sink", 1, 0, "a")
    assert sent(site, mode).stage(name, keep_s=60) == MANY
    assert paged(site) == 0, "the unit is kept, also what is NON_PERSISTENT in it"
    if crashes:
        site.crash()
    site.broker.virtual_host.pipelines.stages.promote("sink", 1, [name])
    assert [each for each, _ in site.drain()] == TEXTS
    check_empty(site)


@both_modes
def test_subscriptions_get_what_they_select(site: Site, mode: int) -> None:
    connection = site.connect("client")
    wanted = {"all": None, "some": "even"}
    consumers = {
        name: consume(connection.open_session(transacted=False), NEWS, selector, name)
        for name, selector in wanted.items()
    }
    session = site.session(transacted=True)
    for index, body in enumerate(TEXTS):
        site.send(body, session, NEWS, delivery_mode=mode, properties={"even": index % 2 == 0})
    assert store_of(site).bytes_in_memory < LIMIT + 5000
    session.commit()
    got = {name: [text(each) for each in take_all(consumer)] for name, consumer in consumers.items()}
    assert got == {"all": TEXTS, "some": TEXTS[::2]}


def test_consumers_that_select_wait_for_the_commit(site: Site) -> None:
    """They are asked whether they want messages that are not in memory."""
    consumer = consume(site.session(), selector="even")
    assert consumer.poll() is None
    sent(site).commit()
    assert [text(each) for each in take_all(consumer)] == TEXTS[::2]


def test_a_queue_that_keeps_the_last_values_is_told_of_them(site: Site) -> None:
    QueueManager(site.broker.virtual_host).create("orders", type="last_value", key="even")
    sent(site).commit()
    assert site.texts() == TEXTS[-2:]


def test_a_full_disk_refuses_a_send_and_leaves_the_transaction_what_it_was(site: Site) -> None:
    session = sent(site)

    def refuse(point: str, _: Changes) -> None:
        if point == "before page out":
            raise ResourceError("no space on the disk")

    site.trap = refuse
    refused = 0
    for _ in range(10):
        try:
            site.send("late", session)
        except ResourceError:
            refused += 1
    assert refused
    site.trap = None
    session.commit()
    assert [each for each, _ in site.drain()] == [*TEXTS, *["late"] * (10 - refused)]


def test_what_cannot_be_written_is_rolled_back_and_leaves_nothing_on_the_disk(site: Site) -> None:
    session = sent(site)

    def refuse(point: str, changes: Changes) -> None:
        if point == "before write" and changes.messages:
            raise ResourceError("no space on the disk")

    site.trap = refuse
    with pytest.raises(RolledBackError, match="no space"):
        session.commit()
    site.trap = None
    check_empty(site)


def test_a_commit_is_refused_if_what_left_memory_is_lost(site: Site) -> None:
    """As when a server of PostgreSQL has died: it forgets what need not survive. All of it is rolled back, and its client is told."""
    session = sent(site)
    site.journal.drop_paged([next(iter(site.journal._paged))])
    with pytest.raises(RolledBackError, match="not there any more"):
        session.commit()
    check_empty(site)
    sent(site).commit()
    assert len(site.drain()) == MANY


@pytest.mark.parametrize("is_being_written", [False, True], ids=["before it", "while it is written"])
def test_a_subscription_may_end_with_what_it_was_to_get(site: Site, is_being_written: bool) -> None:
    """That is left out of the commit; all else is committed."""
    subscriber = site.connect("client").open_session(transacted=False)
    consume(subscriber, NEWS, durable_name="name").close()
    session = sent(site, to=NEWS)
    site.send("bill", session, BILLS)

    def end(point: str, changes: Changes) -> None:
        if point == "before write" and changes.messages:
            site.trap = None
            subscriber.unsubscribe("name")

    if is_being_written:
        site.trap = end
    else:
        subscriber.unsubscribe("name")
    session.commit()
    assert site.trap is None
    assert (site.texts(BILLS), len(store_of(site)), paged(site)) == (["bill"], 1, 0)
    site.crash()
    assert (site.texts(BILLS), len(store_of(site))) == (["bill"], 1)

"""What is beyond the limits of a queue that flows to disk lies there, and comes back when it is wanted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyjms import ConnectionFactory, TextMessage
from pyjms.spi.errors import ResourceError
from pyjms_provider.broker import running_broker
from pyjms_provider.core.host.host_policy import HostPolicy
from pyjms_provider.core.journal.journal import Changes
from pyjms_provider.core.policy import QueuePolicies, QueuePolicy
from pyjms_provider.core.store import PagingMessageStore, approximate_size
from pyjms_provider.core.topic import Subscription
from pyjms_provider.queue_manager import QueueManager
from tests.provider.helpers import make_envelope
from tests.provider.keeping.site import NEWS, ORDERS, Site, consume, take_all, text

BODY = "x" * 1000
STAY = 5
"""So many bodies may stay."""
ON_ITS_WAY = 1
"""A transient message is written when the next one is sent."""
_SIZE = approximate_size(make_envelope(f"00 {BODY}", properties={"even": True}))
LIMITS = ({"max_messages": STAY}, {"max_bytes": STAY * _SIZE})

both_modes = pytest.mark.parametrize("mode", [1, 2], ids=["transient", "persistent"])
both_limits = pytest.mark.parametrize("limits", LIMITS, ids=["messages", "bytes"])


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    yield made
    made.stop()


def manager(site: Site) -> QueueManager:
    return QueueManager(site.broker.virtual_host)


def store_of(site: Site) -> PagingMessageStore:
    store = site.broker.virtual_host.store
    assert isinstance(store, PagingMessageStore)
    return store


def in_memory(site: Site) -> int:
    """Return how many bodies are in memory."""
    store = store_of(site)
    assert store.bytes_in_memory <= store.count_in_memory * _SIZE
    return store.count_in_memory


def create(site: Site, limits: dict[str, int] | None = None, **others: Any) -> None:
    chosen = {"overflow": "flow_to_disk", **(limits or LIMITS[0]), **others}
    manager(site).create("orders", QueuePolicy.from_mapping(chosen))


def fill(site: Site, number: int, mode: int = 2, **fields: Any) -> list[str]:
    session = site.session()
    texts = [f"{index:02} {BODY}" for index in range(number)]
    for index, body in enumerate(texts):
        site.send(body, session, delivery_mode=mode, properties={"even": index % 2 == 0}, **fields)
    session.close()
    return texts


@both_modes
@both_limits
def test_a_backlog_beyond_the_limit_lies_on_the_disk_and_comes_back_in_order(
    site: Site, mode: int, limits: dict[str, int]
) -> None:
    create(site, limits)
    texts = fill(site, 60, mode)
    allowed = STAY + ON_ITS_WAY * (mode == 1)
    assert in_memory(site) == allowed
    assert len(store_of(site)) == 60
    session, got = site.session(), []
    consumer = consume(session)
    while (delivery := consumer.poll()) is not None:
        got.append(text(delivery))
        session.acknowledge([delivery])
        assert in_memory(site) <= STAY
    assert got == texts
    assert (len(store_of(site)), store_of(site).bytes_in_memory) == (0, 0)
    fill(site, STAY, mode)
    assert in_memory(site) == STAY, "there is room again"


def test_the_first_ones_stay_as_they_are_wanted_first(site: Site) -> None:
    create(site)
    texts = fill(site, 20, 1)
    site.journal.crash()  # from here on nothing can be read
    consumer = consume(site.session())
    assert [text(consumer.poll()) for _ in range(STAY)] == texts[:STAY]


@both_modes
@both_limits
def test_who_looks_at_all_has_no_more_in_memory(site: Site, mode: int, limits: dict[str, int]) -> None:
    create(site, limits)
    texts = fill(site, 60, mode)
    seen = []
    for looked_at in site.session().browse(ORDERS, None):
        seen.append(text(looked_at))
        assert in_memory(site) <= STAY + ON_ITS_WAY * (mode == 1)
    assert seen == texts
    assert [envelope.body for envelope in manager(site).browse("orders", "even")] == texts[::2]
    assert in_memory(site) <= STAY
    consumer = consume(site.session(), selector="even")
    taken = []
    while (delivery := consumer.poll()) is not None:
        taken.append(text(delivery))
        assert in_memory(site) <= STAY
    assert taken == texts[::2]


@both_limits
@pytest.mark.parametrize("choice", [{}, {"type": "sorted", "key": "even"}, {"groups": True}], ids=str)
def test_after_a_restart_no_more_is_in_memory(site: Site, limits: dict[str, int], choice: dict[str, Any]) -> None:
    create(site, limits, **choice)
    texts = fill(site, 60)
    site.crash()
    assert in_memory(site) <= STAY
    consumer, got = consume(site.session()), []
    while (delivery := consumer.poll()) is not None:
        got.append(text(delivery))
        assert in_memory(site) <= STAY
    assert sorted(str(each) for each in got) == texts


@both_modes
def test_what_a_transaction_has_sent_leaves_memory_when_it_commits(site: Site, mode: int) -> None:
    create(site)
    session = site.session(transacted=True)
    for index in range(60):
        site.send(f"{index:02} {BODY}", session, delivery_mode=mode)
    assert in_memory(site) == 60
    session.commit()
    assert in_memory(site) == STAY
    for index in range(60):
        site.send(f"{index:02} {BODY}", session, delivery_mode=mode)
    session.rollback()
    assert in_memory(site) == STAY
    assert len(site.drain()) == 60


@both_modes
def test_a_queue_with_messages_may_begin_to_flow_and_end(site: Site, mode: int) -> None:
    manager(site).create("orders")
    texts = fill(site, 20, mode)
    assert in_memory(site) == 20
    manager(site).alter("orders", max_messages=STAY, overflow="flow_to_disk")
    assert in_memory(site) == STAY
    manager(site).alter("orders", max_messages=2)
    assert in_memory(site) <= STAY
    manager(site).alter("orders", max_messages=0, overflow="reject")
    fill(site, STAY, mode)
    assert in_memory(site) >= STAY
    assert [name for name, _ in site.drain()][:20] == texts


def test_what_is_given_back_comes_again_although_it_left_memory(site: Site) -> None:
    create(site, {"max_messages": 1})
    texts = fill(site, 3)
    session = site.session()
    taken = take_all(consume(session))
    assert [text(each) for each in taken] == texts
    assert in_memory(site) == 1
    session.recover(taken)
    assert site.drain() == [(each, 2) for each in texts]


@both_modes
def test_the_limit_is_the_queues_and_others_keep_theirs_in_memory(site: Site, mode: int) -> None:
    create(site)
    session = site.session()
    for index in range(20):
        site.send(f"{index:02} {BODY}", session, to=NEWS, delivery_mode=mode)
        site.send(f"{index:02} {BODY}", session, delivery_mode=mode)
    manager(site).create("plain")
    assert manager(site).copy("orders", "plain") == 20
    assert in_memory(site) == STAY + 20  # who copies has that go which was on its way


@both_modes
def test_subscriptions_have_their_own_limits(mode: int) -> None:
    flows = QueuePolicy.from_mapping({"max_messages": STAY, "overflow": "flow_to_disk"})
    site = Site(policy=HostPolicy(queues=QueuePolicies(subscriptions=flows)))
    fast, slow = (site.connect(name).open_session(transacted=False) for name in ("fast", "slow"))
    consumers = [consume(session, NEWS, durable_name="news") for session in (fast, slow)]
    texts = [f"{index:02} {BODY}" for index in range(30)]
    for each in texts:
        site.send(each, slow, to=NEWS, delivery_mode=mode)
    assert in_memory(site) == STAY + ON_ITS_WAY * (mode == 1)
    for session, consumer in zip((fast, slow), consumers, strict=True):
        got = []
        while (delivery := consumer.poll()) is not None:
            got.append(text(delivery))
            session.acknowledge([delivery])
            assert in_memory(site) <= 2 * STAY
        assert got == texts
    assert len(store_of(site)) == 0
    site.stop()


@both_modes
def test_a_message_stays_until_all_subscriptions_have_taken_it(mode: int, monkeypatch: pytest.MonkeyPatch) -> None:
    flows = QueuePolicy.from_mapping({"max_messages": 1, "overflow": "flow_to_disk", "groups": True})
    site = Site(policy=HostPolicy(queues=QueuePolicies(subscriptions=flows)))
    sessions = [site.connect(name).open_session(transacted=False) for name in ("one", "other")]
    consumers = [consume(session, NEWS, durable_name="news") for session in sessions]
    enqueue = Subscription.enqueue

    def as_another_sends(self: Subscription, *message: Any) -> bool:
        store_of(site).relieve()
        return enqueue(self, *message)

    monkeypatch.setattr(Subscription, "enqueue", as_another_sends)
    for each in "abc":
        site.send(each, to=NEWS, delivery_mode=mode)
    assert in_memory(site) == 1 + ON_ITS_WAY * (mode == 1)
    assert [[text(each) for each in take_all(consumer)] for consumer in consumers] == [["a", "b", "c"]] * 2
    site.stop()


@both_modes
@pytest.mark.parametrize("selector", [None, "even"])
@pytest.mark.timeout(20)  # it read the same message again and again
def test_while_others_fill_memory_what_is_read_is_handed_out(mode: int, selector: str | None) -> None:
    site = Site(memory_bytes=20 * _SIZE)
    create(site, {"max_messages": 2})
    texts = fill(site, 6, mode)[:: 1 if selector is None else 2]
    store_of(site).store(
        make_envelope("y" * 30 * _SIZE), None
    )  # on its way it cannot leave memory, so all others have to
    assert [envelope.body for envelope in manager(site).browse("orders", selector)] == texts
    session = site.session()
    consumer = consume(session, selector=selector)
    got = []
    while (delivery := consumer.poll()) is not None:
        got.append(text(delivery))
        session.acknowledge([delivery])
    assert got == texts
    site.stop()


@both_modes
@pytest.mark.timeout(20)
def test_a_message_larger_than_memory_is_handed_out(mode: int) -> None:
    site = Site(memory_bytes=_SIZE // 2)
    create(site, {"max_messages": 2})
    texts = fill(site, 4, mode)
    assert [envelope.body for envelope in manager(site).browse("orders")] == texts
    assert [each for each, _ in site.drain()] == texts
    site.stop()


def test_a_disk_that_is_full_refuses_senders_and_loses_nothing(site: Site) -> None:
    create(site)
    texts = fill(site, STAY + 1, 1)

    def refuse(point: str, _: Changes) -> None:
        if point == "before page out":
            raise ResourceError("no space on the disk")

    site.trap = refuse
    for _ in range(2):
        with pytest.raises(ResourceError, match="no space"):
            site.send("one more", delivery_mode=1)
    assert [envelope.body for envelope in manager(site).browse("orders")] == texts
    site.trap = None
    site.send("one more", delivery_mode=1)
    assert [name for name, _ in site.drain()] == [*texts, "one more"]


def test_a_program_has_its_messages_back_from_sqlite(tmp_path: Path) -> None:
    factory = ConnectionFactory(f"vm://flows?store=sqlite:///{tmp_path}/flows.db")
    texts = [f"{index:02} {BODY}" for index in range(40)]
    with factory.create_connection() as connection:
        QueueManager.of("flows").create("orders", max_bytes=10_000, overflow="flow_to_disk")
        session = connection.create_session()
        for mode, queue in ((2, "orders"), (1, "orders")):
            with session.create_producer(session.create_queue(queue)) as producer:
                for each in texts:
                    producer.send(session.create_text_message(each), delivery_mode=mode)
        broker = running_broker("flows")
        assert broker is not None
        store = broker.virtual_host.store
        assert isinstance(store, PagingMessageStore)
        assert store.bytes_in_memory <= 12_000
        connection.start()
        consumer = session.create_consumer(session.create_queue("orders"))
        got = []
        while isinstance(message := consumer.receive_no_wait(), TextMessage):
            got.append(message.text)
            assert store.bytes_in_memory <= 12_000
        assert got == [*texts, *texts]

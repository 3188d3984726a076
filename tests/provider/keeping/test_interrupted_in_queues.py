"""The main thread is interrupted at each place in a queue at which Python can do so: the queue is as good as before, for all who come later."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress

import pytest

from pyjms.spi.delivery import Delivery
from pyjms.spi.provider import ProviderConsumer, SubscribeRequest
from pyjms.testing import VirtualClock
from pyjms.types import Long
from pyjms_provider.clients.vm_session import VmSession
from pyjms_provider.core.host.sent_headers import DELIVER_AT
from pyjms_provider.core.journal.in_doubt_writes import RETRY_MS
from pyjms_provider.core.queue import ordering
from pyjms_provider.core.queue.policy import Overflow, QueuePolicy, QueueType
from pyjms_provider.queue_manager import QueueManager
from tests.provider.interruptions import Interruption, each_interruption
from tests.provider.keeping.site import ORDERS, consume, take_all, text
from tests.provider.keeping.test_interrupted import come_again, receive
from tests.provider.simulation.site import SimulatedSite as Site

FILES = (
    "core/channel/asynchronous_channel.py",
    "core/channel/channel_state.py",
    "core/queue/cursor.py",
    "core/queue/delays.py",
    "core/queue/entry.py",
    "core/journal/queue_journal.py",
    "core/queue/priority_level.py",
    "core/queue/ordering.py",
    "core/queue/queue.py",
    "core/queue/settling_queue.py",
    "core/queue/sorted_ordering.py",
    "core/queue/value_index.py",
)
ALL = ("a", "b", "c")

POLICIES: dict[str, QueuePolicy | None] = {
    "plain": None,
    "limited": QueuePolicy(max_messages=100),
    "ring": QueuePolicy(max_messages=100, overflow=Overflow.RING),
    "last values": QueuePolicy(type=QueueType.LAST_VALUE, key="JMSMessageID"),
    "sorted": QueuePolicy(type=QueueType.SORTED, key="rank"),
}

Prepare = Callable[[Site], tuple[VmSession, Callable[[], object]]]

LATER = pytest.mark.parametrize("goes_on", [True, False], ids=["goes on", "stops"])
OBEYING = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)


def sweep(
    prepare: Prepare,
    allowed: Collection[tuple[str, ...]],
    *,
    goes_on: bool,
    policy: QueuePolicy | None = None,
    files: tuple[str, ...] = FILES,
) -> None:
    """Interrupt at each place what `prepare` returns, close its session, and let the queue go on, or the broker stop and start."""

    def attempt(interruption: Interruption) -> None:
        site = Site()
        if policy is not None:
            QueueManager(site.broker.virtual_host).create(ORDERS.name, policy)
        session, act = prepare(site)
        is_interrupted = False
        try:
            with interruption():
                act()
        except KeyboardInterrupt:
            is_interrupted = True
        where = interruption.where
        assert is_interrupted == (where is not None), where
        session.close()
        come_again(site)
        if goes_on:
            found = texts_after_use(site, where)
        else:
            before = site.texts()
            site.restart()
            come_again(site)  # a delay begins again
            found = [name for name, _ in site.drain()]
            assert found == before, where
        assert tuple(found) in allowed, where
        site.stop()

    assert each_interruption(attempt, *files) > 5


def texts_after_use(site: Site, where: str | None) -> list[str]:
    """Return what is in the queue, which gets and gives two more messages, and keeps nothing."""
    site.send("later")
    site.send("last")
    found = [name for name, _ in site.drain()]
    assert found[-2:] == ["later", "last"], where
    site.restart()
    come_again(site)
    assert site.drain() == [], where
    assert len(site.broker.virtual_host.store) == 0, where
    return found[:-2]


@LATER
@pytest.mark.parametrize(
    "policy",
    [each for name, each in POLICIES.items() if name != "limited"],
    ids=[name for name in POLICIES if name != "limited"],
)
def test_a_send(policy: QueuePolicy | None, goes_on: bool) -> None:
    def prepare(site: Site) -> tuple[VmSession, Callable[[], object]]:
        site.send("a")
        session = site.session()
        return session, lambda: site.send("b", session)

    sweep(prepare, [("a",), ("a", "b")], goes_on=goes_on, policy=policy)


@LATER
def test_a_send_behind_many_others(goes_on: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where messages are dormant."""
    monkeypatch.setattr(ordering, "BACKLOG", 2)

    def prepare(site: Site) -> tuple[VmSession, Callable[[], object]]:
        for name in ALL:
            site.send(name)
        session = site.session()
        return session, lambda: site.send("d", session)

    sweep(prepare, [ALL, (*ALL, "d")], goes_on=goes_on)


@LATER
@OBEYING
def test_a_commit(policy: QueuePolicy | None, goes_on: bool) -> None:
    def prepare(site: Site) -> tuple[VmSession, Callable[[], object]]:
        site.send("a")
        session = site.session(transacted=True)
        for name in ("b", "c"):
            site.send(name, session)
        return session, session.commit

    sweep(prepare, [("a",), ALL], goes_on=goes_on, policy=policy, files=(*FILES, "core/transaction/unit_of_work.py"))


@LATER
@pytest.mark.parametrize("names", [("a",), ALL], ids=["the last one", "the first one"])
@OBEYING
def test_a_poll(policy: QueuePolicy | None, names: tuple[str, ...], goes_on: bool) -> None:
    def prepare(site: Site) -> tuple[VmSession, Callable[[], object]]:
        for name in names:
            site.send(name)
        session = site.session()
        return session, consume(session).poll

    sweep(prepare, [names], goes_on=goes_on, policy=policy)


@LATER
@OBEYING
def test_a_poll_by_a_selector(policy: QueuePolicy | None, goes_on: bool) -> None:
    """Whose consumer stays, and looks again."""
    consumers: list[ProviderConsumer] = []

    def prepare(site: Site) -> tuple[VmSession, Callable[[], object]]:
        for name in ALL:
            site.send(name)
        session = site.session()
        other = consume(site.session(), selector="JMSPriority > 0")
        consumers[:] = [other]
        return session, consume(session, selector="JMSPriority > 0").poll

    def attempt(interruption: Interruption) -> None:
        site = Site()
        if policy is not None:
            QueueManager(site.broker.virtual_host).create(ORDERS.name, policy)
        session, act = prepare(site)
        with suppress(KeyboardInterrupt), interruption():
            act()
        session.close()
        found = [text(each) for each in take_all(consumers[0])]
        assert found == list(ALL), interruption.where
        site.stop()

    assert each_interruption(attempt, *FILES) > 5
    sweep(prepare, [ALL], goes_on=goes_on, policy=policy)


@LATER
@pytest.mark.parametrize("is_delayed", [False, True], ids=["at once", "after a delay"])
@pytest.mark.parametrize("kept", [0, 1, 2], ids=["all", "the last two", "the last one"])
@OBEYING
def test_messages_are_given_back(policy: QueuePolicy | None, kept: int, is_delayed: bool, goes_on: bool) -> None:
    if is_delayed:
        policy = (policy or QueuePolicy()).altered(redelivery_delay_ms=100)

    def prepare(site: Site) -> tuple[VmSession, Callable[[], object]]:
        session, taken = receive(site, *ALL)
        session.acknowledge(taken[:kept])
        back: list[Delivery] = taken[kept:]
        return session, lambda: session.recover(back)

    sweep(prepare, [ALL[kept:]], goes_on=goes_on, policy=policy)


@LATER
@pytest.mark.parametrize("returns", [False, True], ids=["new ones", "given back"])
@OBEYING
def test_what_is_due_is_placed(policy: QueuePolicy | None, returns: bool, goes_on: bool) -> None:
    """By a thread that commits, and looks at what was left alone meanwhile."""
    if returns:
        policy = (policy or QueuePolicy()).altered(redelivery_delay_ms=RETRY_MS)

    def prepare(site: Site) -> tuple[VmSession, Callable[[], object]]:
        if returns:
            session, taken = receive(site, *ALL)
            session.recover(taken)
        else:
            session = site.session()
            for name in ALL:
                site.send(name, session, properties={DELIVER_AT: Long(site.clock.time_ms() + 1)})
        assert isinstance(site.clock, VirtualClock)
        site.clock.advance(RETRY_MS)
        queue = site.broker.virtual_host.queue(ORDERS.name)
        assert queue.delayed_count == len(ALL)
        return session, lambda: queue.do_what_is_due(site.clock.time_ms())

    more = ("core/queue/policed_queue.py",)
    sweep(prepare, [ALL], goes_on=goes_on, policy=policy, files=(*FILES, *more))


@LATER
@OBEYING
def test_a_session_ends(policy: QueuePolicy | None, goes_on: bool) -> None:
    """Interrupted where what it holds is given back."""

    def prepare(site: Site) -> tuple[VmSession, Callable[[], object]]:
        session, taken = receive(site, *ALL)
        queue = site.broker.virtual_host.queue(ORDERS.name)
        assert taken
        return session, lambda: queue.give_back_all(session._receiving)

    sweep(prepare, [ALL], goes_on=goes_on, policy=policy)


@LATER
@OBEYING
def test_a_queue_is_emptied(policy: QueuePolicy | None, goes_on: bool) -> None:
    def prepare(site: Site) -> tuple[VmSession, Callable[[], object]]:
        for name in ALL:
            site.send(name)
        manager = QueueManager(site.broker.virtual_host)
        return site.session(), lambda: manager.purge(ORDERS.name)

    more = (
        "core/host/message_mover.py",
        "core/journal/in_doubt_writes.py",
        "core/journal/storage_manager.py",
        "core/queue/policed_queue.py",
        "core/queue/queue_rules.py",
    )
    sweep(prepare, [ALL, ()], goes_on=goes_on, policy=policy, files=(*FILES, *more))


@pytest.mark.parametrize("most", [3, 4])
def test_an_emptied_queue_has_its_room_again(most: int) -> None:
    """Whatever was interrupted, it holds as many messages as before."""
    policy = QueuePolicy(max_messages=most)

    def attempt(interruption: Interruption) -> None:
        site = Site()
        manager = QueueManager(site.broker.virtual_host)
        manager.create(ORDERS.name, policy)
        for name in ALL:
            site.send(name)
        with suppress(KeyboardInterrupt), interruption():
            manager.purge(ORDERS.name)
        manager.purge(ORDERS.name)
        room = site.broker.virtual_host.queue(ORDERS.name)._rules
        assert room is not None
        assert room.taken_room == 0, interruption.where
        site.stop()

    assert each_interruption(attempt, *FILES, "core/queue/queue_rules.py", "core/queue/limits.py") > 5


def _sends(site: Site) -> tuple[VmSession, Callable[[], object]]:
    session = site.session()
    return session, lambda: site.send("a", session)


def _commits(site: Site) -> tuple[VmSession, Callable[[], object]]:
    session = site.session(transacted=True)
    site.send("a", session)
    return session, session.commit


def _gives_back(site: Site) -> tuple[VmSession, Callable[[], object]]:
    session, taken = receive(site, "a")
    return session, lambda: session.recover(taken)


@OBEYING
@pytest.mark.parametrize("prepare", [_sends, _commits, _gives_back])
def test_who_waits_is_woken(policy: QueuePolicy | None, prepare: Prepare) -> None:
    """If there is a message for it in the end: else it would wait for ever beside it."""

    def attempt(interruption: Interruption) -> None:
        site = Site()
        if policy is not None:
            QueueManager(site.broker.virtual_host).create(ORDERS.name, policy)
        session, act = prepare(site)
        woken: list[None] = []
        request = SubscribeRequest(address=ORDERS, selector=None, no_local=False, durable_name=None)
        waiting = site.session().subscribe(request, lambda: woken.append(None))
        waiting.set_interested(True)
        woken.clear()
        with suppress(KeyboardInterrupt), interruption():
            act()
        session.close()
        assert bool(site.texts()) <= bool(woken), interruption.where
        site.stop()

    more = (
        "core/queue/policed_queue.py",
        "core/queue/burying_queue.py",
        "core/queue/consumer_manager.py",
        "core/queue/consumer.py",
    )
    assert each_interruption(attempt, *FILES, *more) > 5

"""The main thread is interrupted at each place at which Python can do so while it ends something, or has the only right to do something.

Whoever does the same again, in this thread or in another one, finds it done or does it: nothing waits for the next start of the broker.
"""

from __future__ import annotations

import pytest

from pyjms.spi.envelope import AddressKind
from pyjms.spi.xid import Xid
from pyjms_provider.core.paging import PagingMessageStore
from tests.provider.helpers import make_envelope
from tests.provider.interruptions import Interruption, each_interruption
from tests.provider.keeping.site import BILLS, NEWS, consume, take_all
from tests.provider.keeping.test_interrupted_anywhere import interrupt
from tests.provider.keeping.test_pipeline_faults import Broker, Fault, Pipeline
from tests.provider.simulation.site import SimulatedSite as Site
from tests.pyjms.runtime.helpers import Call

LIMIT = 50_000
CLOSING = (
    "clients/ending.py",
    "clients/vm.py",
    "clients/vm_consumer.py",
    "clients/vm_session.py",
    "clients/vm_transactions.py",
    "core/branch.py",
    "core/branches.py",
    "core/consumer.py",
    "core/host_subscriptions.py",
    "core/temporaries.py",
    "core/unit_of_work.py",
)


def test_making_room_in_memory() -> None:
    def attempt(interruption: Interruption) -> None:
        site = Site(memory_bytes=LIMIT)
        store = site.broker.virtual_host.store
        assert isinstance(store, PagingMessageStore)
        session = site.session()
        for mode in (1, 2) * 20:
            site.send("x" * 3000, session, delivery_mode=mode)

        def send_two() -> None:
            for mode in (1, 2):
                site.send("y" * 3000, session, delivery_mode=mode)

        interrupt(interruption, send_two)
        for _ in range(20):
            site.send("z" * 3000, session)
        assert store.bytes_in_memory < LIMIT + 5000, interruption.where
        assert len(site.drain()) >= 60, interruption.where
        assert store.count_in_memory <= 1, f"{interruption.where}: all have left but the one whose send was interrupted"

    assert each_interruption(attempt, "core/paging.py") > 30


def test_the_turn_of_a_reader_group() -> None:
    def attempt(interruption: Interruption) -> None:
        broker = Broker(Fault("refused", 1000))
        session = broker.connection.open_session(transacted=False)
        for name in "abc":
            session.send(make_envelope(name))
        reader = Pipeline(broker)
        interrupt(interruption, lambda: reader.batch(1))
        read = Call(lambda: Pipeline(broker).batch(3))  # in another thread
        assert read.result() >= 2, interruption.where

    assert each_interruption(attempt, "core/turn.py", "core/reader_groups.py") > 20


@pytest.mark.parametrize("who", ["client", "broker"])
@pytest.mark.parametrize("kind", ["plain", "transacted", "branch"])
def test_closing(kind: str, who: str) -> None:
    """What a session holds is available as soon as it is closed once more, by the client or by the broker that stops."""

    def attempt(interruption: Interruption) -> None:
        site = Site()
        site.send("order")
        connection = site.connect("ann")
        site.send("reply", to=connection.create_temporary(AddressKind.QUEUE))
        session = connection.open_session(transacted=kind != "plain")
        consume(session, NEWS)
        site.send("news", to=NEWS)
        if kind == "branch":
            session.xa_start(Xid(1, b"1", b""))
        taken = take_all(consume(session))
        if kind != "plain":
            session.acknowledge(taken)
            site.send("bill", session, BILLS)
        interrupt(interruption, connection.close)
        if who == "client":
            connection.close()
        else:
            site.restart()
        site.connect("ann").close()  # its name is free
        assert (site.drain(), site.drain(BILLS)) == ([("order", 2)], []), interruption.where
        assert len(site.broker.virtual_host.store) == 0, interruption.where

    assert each_interruption(attempt, *CLOSING) > 30

"""The main thread is interrupted at each place at which Python can do so while it ends something, or has the only right to do something.

Whoever does the same again, in this thread or in another one, finds it done or does it: nothing waits for the next start of the broker.
"""

from __future__ import annotations

from pyjms_provider.core.paging import PagingMessageStore
from tests.provider.helpers import make_envelope
from tests.provider.interruptions import Interruption, each_interruption
from tests.provider.keeping.test_interrupted_anywhere import interrupt
from tests.provider.keeping.test_pipeline_faults import Broker, Fault, Pipeline
from tests.provider.simulation.site import SimulatedSite as Site
from tests.pyjms.runtime.helpers import Call

LIMIT = 50_000


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

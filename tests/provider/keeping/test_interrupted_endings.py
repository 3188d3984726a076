"""The main thread is interrupted at each place at which Python can do so while it ends something, or has the only right to do something.

Whoever does the same again, in this thread or in another one, finds it done or does it: nothing waits for the next start of the broker.
"""

from __future__ import annotations

from pyjms_provider.core.paging import PagingMessageStore
from tests.provider.interruptions import Interruption, each_interruption
from tests.provider.keeping.test_interrupted_anywhere import interrupt
from tests.provider.simulation.site import SimulatedSite as Site

LIMIT = 50_000


def test_making_room_in_memory() -> None:
    def attempt(interruption: Interruption) -> None:
        site = Site(memory_bytes=LIMIT)
        store = site.broker.virtual_host.store
        assert isinstance(store, PagingMessageStore)
        session = site.session()
        for mode in (1, 2) * 20:
            site.send("x" * 3000, session, delivery_mode=mode)
        interrupt(interruption, lambda: [site.send("y" * 3000, session, delivery_mode=mode) for mode in (1, 2)])
        for _ in range(20):
            site.send("z" * 3000, session)
        assert store.bytes_in_memory < LIMIT + 5000, interruption.where
        assert len(site.drain()) >= 60, interruption.where
        assert store.count_in_memory <= 1, f"{interruption.where}: all have left but the one whose send was interrupted"

    assert each_interruption(attempt, "core/paging.py") > 30

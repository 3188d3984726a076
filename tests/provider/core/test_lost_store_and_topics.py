"""A broker that may have lost its store does not take a message for delivered because it knows of no subscription."""

from __future__ import annotations

import pytest

from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import RolledBackError
from pyjms.spi.xid import Xid
from pyjms.testing import VirtualClock
from pyjms_provider.core.host.restoring import restore_host
from pyjms_provider.core.host.virtual_host import VirtualHost
from pyjms_provider.core.journal.journal import Changes
from pyjms_provider.core.journal.storage_manager import StorageManager
from pyjms_provider.core.message.entry import ReceiverId
from pyjms_provider.core.queue.consumer import ConsumerSession
from pyjms_provider.core.store import PagingMessageStore
from pyjms_provider.core.transaction.unit_of_work import UnitId, UnitOfWork
from pyjms_provider.stores.errors import LostStoreError
from pyjms_provider.stores.volatile import Medium, VolatileJournal
from tests.provider.helpers import make_envelope

PUBLISHED = make_envelope("news", destination=Address(AddressKind.TOPIC, "t"), persistent=True)


class TakenJournal(VolatileJournal):
    """The journal of a broker that was paused for long, so that another one has the store."""

    is_held = True

    def confirm(self) -> None:
        raise LostStoreError("another broker has held the store since then")

    def write(self, changes: Changes, *, force: bool) -> None:
        if not self.is_held:
            self.confirm()
        super().write(changes, force=force)


@pytest.fixture
def host() -> VirtualHost:
    journal = TakenJournal(Medium())
    recovery = journal.recover(lambda _: None)
    store = PagingMessageStore("s", journal, last_id=recovery.last_id, memory_bytes=10**6)
    clock = VirtualClock()
    host = VirtualHost("host", store, clock, storage=StorageManager(journal, store, clock))
    restore_host(host, journal, store, recovery)
    journal.is_held = False
    return host


def unit_of(host: VirtualHost) -> UnitOfWork:
    unit = UnitOfWork(UnitId("unit"), ConsumerSession(ReceiverId("r"), is_delivering=False))
    host.route(PUBLISHED, None, unit)
    return unit


def test_a_message_to_a_topic_without_subscriptions_is_refused(host: VirtualHost) -> None:
    with pytest.raises(LostStoreError):
        host.route(PUBLISHED, None, None)


def test_a_transaction_with_such_a_message_is_rolled_back(host: VirtualHost) -> None:
    assert host.storage is not None
    unit = unit_of(host)
    unit.begin_commit(0)
    with pytest.raises(RolledBackError):
        unit.finish_commit(host.storage.journal)


def test_it_is_not_taken_for_one_that_changes_nothing_when_it_is_prepared(host: VirtualHost) -> None:
    unit = unit_of(host)
    with pytest.raises(RolledBackError):
        host.branches.prepare_transaction(Xid(1, b"t", b"1"), unit, lambda: unit.begin_commit(0))

"""Registered clients in the core: what becomes of their tags when writes fail, the broker dies, and time goes by."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread

import pytest

from pyjms.spi.envelope import ConnectionId
from pyjms.spi.errors import (
    AccessDeniedError,
    ClosedError,
    InDoubtError,
    RegistrationError,
    ResourceError,
    RolledBackError,
    SupersededError,
)
from pyjms.spi.sessions import ClientTags, RegisteredClient
from pyjms.testing import VirtualClock
from pyjms_provider.broker import find_broker, stop_broker
from pyjms_provider.clients.vm import VmConnection
from pyjms_provider.core.host.host_policy import HostPolicy
from pyjms_provider.core.host.restoring import restore_host
from pyjms_provider.core.host.virtual_host import VirtualHost
from pyjms_provider.core.journal.journal import Changes
from pyjms_provider.core.journal.storage_manager import StorageManager
from pyjms_provider.core.message.entry import ReceiverId
from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.queue.consumer import ConsumerSession
from pyjms_provider.core.store import PagingMessageStore
from pyjms_provider.core.transaction.registered_clients import IN_PROCESS, ClientUser
from pyjms_provider.core.transaction.unit_of_work import UnitId, UnitOfWork
from pyjms_provider.stores.volatile import Crash, Medium, VolatileJournal
from tests.provider.helpers import RecordedEvents, make_envelope

DAY_MS = 86_400_000


class Shop:
    """A broker with a journal in memory, that may be killed at each write and started again."""

    def __init__(self, policy: HostPolicy | None = None) -> None:
        self.medium = Medium()
        self.clock = VirtualClock()
        self.policy = policy or HostPolicy()
        self.tap: Callable[[str, Changes], None] = lambda point, changes: None
        self.start()

    def start(self) -> None:
        self.journal = VolatileJournal(self.medium, self._at)
        recovery = self.journal.recover(lambda _: None)
        store = PagingMessageStore("s", self.journal, last_id=recovery.last_id, memory_bytes=10**6)
        storage = StorageManager(self.journal, store, self.clock)
        self.host = VirtualHost("shop", store, self.clock, storage=storage, policy=self.policy)
        restore_host(self.host, self.journal, store, recovery)

    def _at(self, point: str, changes: Changes) -> None:
        self.tap(point, changes)

    def kill(self) -> None:
        self.journal.crash()
        self.tap = lambda point, changes: None
        self.start()

    def register(self, name: str = "desk", user: ClientUser = IN_PROCESS) -> RegisteredClient:
        return self.host.clients.register(name, user, None)

    def unit(self, client: RegisteredClient, request: str) -> UnitOfWork:
        """A unit that sends a message, with the request's tag, and whose commit has begun."""
        unit = UnitOfWork(UnitId(f"unit {request}"), ConsumerSession(ReceiverId("r"), is_delivering=False))
        self.host.route(make_envelope(request, persistent=True), None, unit)
        unit.tag(ClientTags(name=client.name, incarnation=client.incarnation, request=request))
        unit.begin_commit(self.clock.time_ms())
        return unit

    def commit(self, unit: UnitOfWork) -> None:
        try:
            self.host.finish_commit(unit)
        except Exception:
            unit.end_unwritten()
            raise

    def state(self) -> tuple[str | None, int]:
        """The tag that the client would be told, and how many messages have arrived."""
        (client,) = self.host.clients.reports()
        queue = self.host.find_queue("orders")
        return client.request_tag, 0 if queue is None else queue.count(MessageState.NEW)


def at_write(number: int, point: str, error: BaseException) -> Callable[[str, Changes], None]:
    """Raise `error` at that point of the n-th write that tells of clients."""
    seen = [0]

    def tap(where: str, changes: Changes) -> None:
        if where == point and changes.clients is not None:
            seen[0] += 1
            if seen[0] == number:
                raise error

    return tap


@pytest.mark.realises("MOM-23")
@pytest.mark.parametrize("point", ["before write", "after write"])
def test_a_broker_that_dies_in_a_commit_has_the_request_and_its_tag_or_neither(point: str) -> None:
    shop = Shop()
    client = shop.register()
    shop.commit(shop.unit(client, "first"))
    shop.tap = at_write(1, point, Crash())
    with pytest.raises(Crash):
        shop.commit(shop.unit(client, "second"))
    shop.kill()
    assert shop.state() == (("second", 2) if point == "after write" else ("first", 1))
    assert shop.register().request_tag == shop.state()[0]


@pytest.mark.parametrize("was_written", [False, True])
def test_a_write_without_an_answer_leaves_neither_the_request_nor_its_tag(was_written: bool) -> None:
    shop = Shop()
    client = shop.register()
    shop.commit(shop.unit(client, "first"))
    shop.tap = at_write(1, "after write" if was_written else "before write", InDoubtError("no answer"))
    with pytest.raises(InDoubtError):
        shop.commit(shop.unit(client, "second"))
    assert shop.state() == ("first", 1)
    # The withdrawal is written with the next write.
    assert shop.register().request_tag == "first"
    shop.kill()
    assert shop.state() == ("first", 1)


def test_a_write_that_is_refused_leaves_neither() -> None:
    shop = Shop()
    client = shop.register()
    shop.tap = at_write(1, "before write", ResourceError("disk full"))
    with pytest.raises(RolledBackError, match="disk full"):
        shop.commit(shop.unit(client, "first"))
    assert shop.state() == (None, 0)
    shop.commit(shop.unit(client, "second"))
    assert shop.state() == ("second", 1)


def test_a_registration_that_is_not_written_is_none() -> None:
    shop = Shop()
    shop.tap = at_write(1, "before write", ResourceError("disk full"))
    with pytest.raises(ResourceError):
        shop.register()
    assert shop.host.clients.reports() == []
    for point in ("before write", "after write"):
        shop.tap = at_write(1, point, InDoubtError("no answer"))
        with pytest.raises(InDoubtError):
            shop.register()
        assert shop.host.clients.reports() == []
    first = shop.register()
    shop.commit(shop.unit(first, "first"))
    shop.tap = at_write(1, "after write", InDoubtError("no answer"))
    with pytest.raises(InDoubtError):
        shop.register()
    # Nobody was told of the new incarnation, so the old one goes on.
    shop.commit(shop.unit(first, "second"))
    shop.kill()
    assert (shop.state(), shop.register().incarnation) == (("second", 2), 2)


def test_a_client_registers_after_the_commit_that_is_under_way() -> None:
    """The answer has the tag of a commit that was not over when its client, which lost its connection, asked."""
    shop = Shop()
    client = shop.register()
    is_writing, goes_on = Event(), Event()

    def hold(point: str, changes: Changes) -> None:
        if point == "before write" and changes.messages:
            is_writing.set()
            assert goes_on.wait(20)

    shop.tap = hold
    committing = Thread(target=shop.commit, args=(shop.unit(client, "first"),), daemon=True)
    committing.start()
    assert is_writing.wait(20)
    answers: list[RegisteredClient] = []
    asking = Thread(target=lambda: answers.append(shop.register()), daemon=True)
    asking.start()
    assert not answers
    goes_on.set()
    committing.join(20)
    asking.join(20)
    assert [(each.incarnation, each.request_tag) for each in answers] == [(2, "first")]


def test_a_superseded_unit_is_rolled_back_and_says_why() -> None:
    shop = Shop()
    old = shop.register()
    unit = shop.unit(old, "old")
    shop.register()
    with pytest.raises(RolledBackError, match="has registered again since") as raised:
        shop.commit(unit)
    assert isinstance(raised.value.__cause__, SupersededError)
    assert shop.state() == (None, 0)


def test_a_unit_has_the_tags_of_one_client() -> None:
    shop = Shop()
    first, second = shop.register("first"), shop.register("second")
    unit = UnitOfWork(UnitId("unit"), ConsumerSession(ReceiverId("r"), is_delivering=False))
    unit.tag(ClientTags(name=first.name, incarnation=1, request="1"))
    with pytest.raises(RegistrationError, match="cannot have those of 'second'"):
        unit.tag(ClientTags(name=second.name, incarnation=1, request="1"))


def test_a_client_belongs_to_the_user_that_registered_it() -> None:
    shop = Shop()
    clients = shop.host.clients
    ada, bob = ClientUser("ada", False), ClientUser("bob", False)
    shop.register("desk", ada)
    shop.register("till", IN_PROCESS)
    for name in ("desk", "till"):
        with pytest.raises(AccessDeniedError, match="another user"):
            shop.register(name, bob)
        with pytest.raises(AccessDeniedError, match="another user"):
            clients.deregister(name, bob)
    assert [client.name for client in clients.reports(ada)] == ["desk"]
    assert [client.name for client in clients.reports(bob)] == []
    administrator = ClientUser("bob", True)
    assert [client.name for client in clients.reports(administrator)] == ["desk", "till"]
    assert shop.register("desk", administrator).incarnation == 2
    assert shop.register("desk", ada).incarnation == 3


def test_a_client_without_a_connection_is_forgotten_after_the_time_and_no_earlier() -> None:
    shop = Shop(HostPolicy(forget_clients_ms=DAY_MS))
    clients = shop.host.clients
    clients.register("connected", IN_PROCESS, ConnectionId("1"))
    clients.register("gone", IN_PROCESS, ConnectionId("2"))
    clients.end_connection(ConnectionId("2"))
    left_ms = shop.clock.time_ms()
    assert clients.run_due(left_ms + DAY_MS - 1) == left_ms + DAY_MS
    assert [client.name for client in clients.reports()] == ["connected", "gone"]
    assert clients.run_due(left_ms + DAY_MS) is None
    assert [client.name for client in clients.reports()] == ["connected"]
    # It is gone from the store, too; the other one was connected until the broker died.
    shop.journal.write(Changes(), force=True)
    shop.clock.advance(10 * DAY_MS)
    shop.kill()
    clients = shop.host.clients
    (found,) = clients.reports()
    assert (found.name, found.left_ms) == ("connected", shop.clock.time_ms())
    assert clients.run_due(shop.clock.time_ms() + DAY_MS) is None
    assert clients.reports() == []


def test_no_client_is_forgotten_by_default() -> None:
    shop = Shop()
    shop.register()
    assert shop.host.clients.run_due(shop.clock.time_ms() + 10_000 * DAY_MS) is None
    assert len(shop.host.clients.reports()) == 1


def test_nobody_registers_at_a_host_that_ends() -> None:
    shop = Shop()
    storage = shop.host.storage
    assert storage is not None
    storage.end()
    with pytest.raises(ClosedError):
        shop.register()
    assert shop.host.clients.reports() == []


def test_a_client_of_a_connection_that_ends_while_it_registers_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise it would count as connected for ever, and would never be forgotten."""
    connection = VmConnection(find_broker("ending", VirtualClock(), None), RecordedEvents())
    clients = connection.broker.virtual_host.clients
    register = clients.register

    def end_first(name: str, user: ClientUser, connection_id: ConnectionId | None) -> RegisteredClient:
        connection.close()
        return register(name, user, connection_id)

    monkeypatch.setattr(clients, "register", end_first)
    with pytest.raises(ClosedError):
        connection.persistent_sessions().register("desk")
    (found,) = clients.reports()
    assert found.left_ms is not None
    stop_broker("ending")

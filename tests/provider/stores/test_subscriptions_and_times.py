"""Shared subscriptions and delivery times in the stores, on SQLite and on PostgreSQL: a broker that is started again has them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from threading import Barrier, Thread
from typing import Any
from urllib.parse import quote

import pytest

from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import SubscriptionInUseError, UnknownSubscriptionError
from pyjms.spi.provider import ProviderConnection, ProviderSession
from pyjms.spi.xid import Xid
from pyjms_tck.spi.environment import Environment
from tests.needs.declaring import needing

NEWS = Address(AddressKind.TOPIC, "news")
ORDERS = Address(AddressKind.QUEUE, "orders")
DESK: dict[str, Any] = {"durable_name": "desk", "is_shared": True}
_numbers = count(1)


@pytest.fixture(params=["sqlite", needing("postgresql")])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path_factory.mktemp('store') / 'store.db'}"
    made: str = request.getfixturevalue("postgresql").make_store()
    return made


@contextmanager
def broker(store: str, options: str = "", *, at_ms: int = 0) -> Iterator[Environment]:
    """A run of a broker on the store, later than the environment's clock says by `at_ms`."""
    url = f"vm://times-{next(_numbers)}?store={quote(store, safe='')}{options}"
    with Environment(url) as environment:
        environment.clock.advance(at_ms)
        yield environment
    environment.provider.stop_broker(environment.url)


@pytest.mark.parametrize("client_id", [None, "shop"])
def test_a_shared_durable_subscription_is_there_again_and_is_shared_still(store: str, client_id: str | None) -> None:
    with broker(store) as before:
        session = before.connect(client_id=client_id).open_session(transacted=False)
        receivers = [before.receiver(session, NEWS, "JMSPriority > 3", **DESK) for _ in range(2)]
        sender = before.session()
        before.send(sender, NEWS, "settled", "held", "waiting", delivery_mode=2)
        before.send(sender, NEWS, "not selected", delivery_mode=2, priority=1)
        session.acknowledge([receivers[0].take()])
        assert receivers[1].take_texts(1) == ["held"]
    with broker(store) as after:
        connection = after.connect(client_id=client_id)
        session, other = connection.open_session(transacted=False), connection.open_session(transacted=False)
        if client_id is not None:
            with pytest.raises(SubscriptionInUseError, match="is shared"):
                after.receiver(session, NEWS, "JMSPriority > 3", durable_name="desk")
        first, second = (after.receiver(each, NEWS, "JMSPriority > 3", **DESK) for each in (session, other))
        held, waiting = first.take(), second.take()
        assert [(held.envelope.body, held.redelivered), waiting.envelope.body] == [("held", True), "waiting"]
        session.acknowledge([held])
        other.acknowledge([waiting])
        first.consumer.close()
        second.consumer.close()
        session.unsubscribe("desk")
    with broker(store) as last:
        receiver = last.receiver(last.connect(client_id=client_id).open_session(transacted=False), NEWS, **DESK)
        last.send(last.session(), NEWS, "new")
        assert receiver.take_texts(1) == ["new"]


def test_a_message_for_later_is_still_for_later(store: str) -> None:
    """In a queue, in the subscriptions of a topic, and in a transaction whose outcome comes after the start."""
    xid = Xid(1, b"later", b"1")
    with broker(store) as before:
        session, at_ms = before.session(), before.clock.time_ms() + 60_000
        before.receiver(session, NEWS, **DESK).consumer.close()
        for address in (ORDERS, NEWS):
            before.send(session, address, "low", priority=1, deliver_at_ms=at_ms, delivery_mode=2)
            before.send(session, address, "high", priority=9, deliver_at_ms=at_ms, delivery_mode=2)
        branch = before.session(transacted=True)
        branch.xa_start(xid)
        before.send(branch, ORDERS, "in doubt", priority=0, deliver_at_ms=at_ms, delivery_mode=2)
        branch.xa_end(xid)
        assert branch.xa_prepare(xid)
    with broker(store) as after:
        after.session(transacted=True).xa_commit(xid)
        session = after.session()
        queued, shared = after.receiver(session, ORDERS), after.receiver(session, NEWS, **DESK)
        for address in (ORDERS, NEWS):
            after.send(session, address, "at once", delivery_mode=2)
        due = [queued.take(), shared.take()]
        assert [each.envelope.body for each in due] == ["at once"] * 2
        session.acknowledge(due)
        assert list(session.browse(ORDERS, None)) == []
        after.clock.advance(60_000)
        for receiver, texts in ((queued, ["high", "low", "in doubt"]), (shared, ["high", "low"])):
            found = [receiver.take() for _ in texts]
            assert [(each.envelope.body, each.envelope.deliver_at_ms, each.redelivered) for each in found] == [
                (text, at_ms, False) for text in texts
            ]
            assert all(each.envelope.properties == {} for each in found)
            session.acknowledge(found)
    with broker(store, at_ms=120_000) as last:
        assert last.drain(ORDERS) == []


def test_more_messages_for_later_than_memory_may_have(store: str) -> None:
    size, number = 20_000, 150
    with broker(store, "&memory=1MB") as environment:
        session, at_ms = environment.session(), environment.clock.time_ms() + 60_000
        environment.receiver(session, NEWS, **DESK).consumer.close()
        for index in range(number):
            text = f"{index} {'x' * size}"
            environment.send(session, NEWS, text, deliver_at_ms=at_ms + index % 3, delivery_mode=1 + index % 2)
        environment.clock.advance(60_010)
        receiver, found = environment.receiver(session, NEWS, **DESK), []
        for _ in range(number):
            delivery = receiver.take()
            found.append(int(str(delivery.envelope.body).partition(" ")[0]))
            assert delivery.envelope.deliver_at_ms == at_ms + found[-1] % 3
            session.acknowledge([delivery])
    assert sorted(found) == list(range(number))


def test_threads_attach_to_a_shared_subscription_while_others_delete_it(store: str) -> None:
    """Who attaches waits for a change that is being written, and is never refused; who deletes may find consumers, or nothing."""
    with broker(store) as environment:
        connections, start, failed = [environment.connect() for _ in range(6)], Barrier(6), list[BaseException]()

        def attach(session: ProviderSession) -> None:
            environment.receiver(session, NEWS, **DESK).consumer.close()

        def delete(session: ProviderSession) -> None:
            with suppress(SubscriptionInUseError, UnknownSubscriptionError):
                session.unsubscribe("desk")

        def work(connection: ProviderConnection, act: Callable[[ProviderSession], None]) -> None:
            session = connection.open_session(transacted=False)
            try:
                start.wait(60)
                for _ in range(40):
                    act(session)
            except BaseException as error:
                failed.append(error)

        threads = [
            Thread(target=work, args=(connection, attach if number < 4 else delete))
            for number, connection in enumerate(connections)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        assert failed == []
        session = connections[0].open_session(transacted=False)
        receivers = [environment.receiver(session, NEWS, **DESK) for _ in range(2)]
        environment.send(session, NEWS, "one", "two", delivery_mode=2)
        assert [each.take().envelope.body for each in receivers] == ["one", "two"]
    with broker(store) as after:
        receiver = after.receiver(after.session(), NEWS, **DESK)
        assert receiver.take_texts(2) == ["one", "two"]


_WORK = """
import sys
from pyjms.spi.envelope import Address, AddressKind
from pyjms_tck.spi.environment import Environment
from pyjms.spi.clock import SystemClock

topic = Address(AddressKind.TOPIC, "news")
environment = Environment(sys.argv[1])
environment.clock = SystemClock()
sessions = [environment.session() for _ in range(3)]
receivers = [environment.receiver(each, topic, durable_name="desk", is_shared=True) for each in sessions]
sender, number = environment.session(), 0
print("begun", flush=True)
while True:
    later = environment.clock.time_ms() + 3 if number % 5 == 0 else 0
    environment.send(sender, topic, str(number), delivery_mode=2, deliver_at_ms=later)
    print("sent", number, flush=True)
    number += 1
    turn = number % 3
    delivery = receivers[turn].consumer.poll()
    if delivery is not None:
        print("seen", delivery.envelope.body, flush=True)
        if number % 7:
            sessions[turn].acknowledge([delivery])
            print("settled", delivery.envelope.body, flush=True)
"""


@pytest.mark.parametrize("lines", [3, 50, 400])
def test_a_killed_process_loses_and_doubles_nothing_of_a_shared_subscription(store: str, lines: int) -> None:
    """Three consumers divide what a producer sends, some of it for later, until the process is killed."""
    url = f"vm://killed?store={quote(store, safe='')}"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-c", _WORK, url], stdout=subprocess.PIPE, text=True, bufsize=1, env=environment
    )
    assert process.stdout is not None
    told = [process.stdout.readline() for _ in range(lines)]
    process.send_signal(signal.SIGKILL)
    told += process.stdout.readlines()
    process.wait(60)
    process.stdout.close()
    assert told[0] == "begun\n"
    done = [line.split() for line in told[1:] if line.endswith("\n")]
    sent, seen, settled = ({int(each[1]) for each in done if each[0] == what} for what in ("sent", "seen", "settled"))
    with broker(store, at_ms=10**12) as after:
        session = after.session()
        receiver = after.receiver(session, NEWS, **DESK)
        after.send(session, NEWS, "end", priority=0, delivery_mode=2)
        found: dict[int, bool] = {}
        while (delivery := receiver.take()).envelope.body != "end":
            number = int(str(delivery.envelope.body))
            assert number not in found
            found[number] = delivery.redelivered
    # One more may have been sent, and one settled, of which the process could no longer tell.
    assert sent - settled - found.keys() <= {max(seen, default=-1)}
    assert found.keys() - sent <= {max(sent, default=-1) + 1}
    assert found.keys().isdisjoint(settled)
    assert all(found[number] for number in seen & found.keys())

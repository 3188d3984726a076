"""What the broker has answered to commands of pyjms clients it keeps when it is killed: prepared branches, staged units, tags, reader groups."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyjms.spi.clock import SystemClock
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import ConnectionLostError, ProviderError
from pyjms.spi.provider import ConnectRequest, ProviderConnection
from pyjms.spi.replay import GroupRequest, StageName
from pyjms.spi.sessions import ClientTags
from pyjms.spi.url import ProviderUrl
from pyjms.spi.xid import Xid
from pyjms_provider.clients.amqp.provider import AmqpProvider
from pyjms_provider.clients.stomp.provider import StompProvider
from tests.provider.helpers import make_envelope
from tests.system.network.test_kills import Mortal

ORDERS, BILLS = Address(AddressKind.QUEUE, "orders"), Address(AddressKind.QUEUE, "bills")
PREPARED, OPEN = Xid(1, b"prepared", b"b"), Xid(1, b"open", b"b")
LOCAL = Xid(1, b"local", b"b")
UNIT = StageName("sink", 1, 0, "a")


class Deaf:
    """Hears of lost connections, which each test expects."""

    def on_exception(self, error: ProviderError) -> None:
        assert isinstance(error, ConnectionLostError)


@pytest.fixture(params=["amqp", "stomp"])
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def mortal(tmp_path: Path, protocol: str) -> Iterator[Mortal]:
    mortal = Mortal(tmp_path, protocol)
    yield mortal
    mortal.end()


def connect(mortal: Mortal, protocol: str) -> ProviderConnection:
    provider = AmqpProvider() if protocol == "amqp" else StompProvider()
    url = ProviderUrl.parse(f"{protocol}://127.0.0.1:{mortal.port}?timeout_ms=20000")
    request = ConnectRequest(url=url, user_name=None, password=None, client_id="shop", clock=SystemClock())
    connection = provider.connect(request, Deaf())
    connection.start()
    return connection


def test_what_was_answered_outlives_the_death_of_the_broker(mortal: Mortal, protocol: str) -> None:
    connection = connect(mortal, protocol)
    session = connection.open_session(transacted=True)
    for text in "abc":
        session.send(make_envelope(text, destination=ORDERS, persistent=True))
    session.commit()
    groups = connection.reader_groups()
    opened = groups.open(GroupRequest(name="g", address=ORDERS))
    assert groups.reserve(opened, after=0, max_messages=2, max_bytes=None, wait_ms=0) == 2
    client = connection.persistent_sessions().register("worker")
    session.tag(ClientTags(name="worker", incarnation=client.incarnation, request="q", reply="r"))
    session.commit()
    session.send(make_envelope("staged", destination=BILLS, persistent=True))
    assert session.stage(UNIT, keep_s=1_000) == 1
    for xid in (PREPARED, OPEN):
        session.xa_start(xid)
        session.send(make_envelope(str(xid), destination=BILLS, persistent=True))
        session.xa_end(xid)
    assert session.xa_prepare(PREPARED)
    session.send(make_envelope("local", destination=BILLS, persistent=True))
    assert session.prepare(LOCAL)
    mortal.die_and_rise()
    connection.close()

    connection = connect(mortal, protocol)
    session = connection.open_session(transacted=True)
    assert sorted(session.xa_recover(), key=str) == sorted((PREPARED, LOCAL), key=str)
    session.xa_commit(PREPARED)
    session.xa_commit(LOCAL)
    assert connection.stages().promote("sink", 1, [UNIT])
    assert not connection.stages().promote("sink", 1, [UNIT])
    found = [each.envelope.body for each in session.browse(BILLS, None)]
    assert sorted(map(str, found)) == sorted([str(PREPARED), "local", "staged"])
    (known,) = connection.persistent_sessions().clients()
    assert (known.request_tag, known.reply_tag) == ("q", "r")
    groups = connection.reader_groups()
    (group,) = groups.groups()
    assert (group.low, group.high) == (0, 2)
    assert [each.envelope.body for each in groups.read("g", group.generation, after=0, upto=2)] == ["a", "b"]
    connection.close()

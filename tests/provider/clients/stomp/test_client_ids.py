"""A client id is said in CONNECT: to set it is to connect anew, while others close the connection, or it is lost."""

from __future__ import annotations

from threading import Event
from threading import enumerate as enumerate_threads
from typing import Any

import pytest

from pyjms.spi.errors import ClosedError
from pyjms_provider.clients.network.failover import FailoverState
from pyjms_provider.clients.stomp.failover import StompFailoverConnection
from pyjms_provider.clients.stomp.physical_connection import PhysicalConnection
from pyjms_provider.protocols.stomp.frames import Frame
from tests.provider.clients.stomp.fake_broker import PATIENCE_S, FakeBroker
from tests.provider.clients.stomp.world import Events, connected
from tests.provider.helpers import make_envelope


def test_a_connection_that_is_closed_while_it_gets_its_client_id_stays_closed() -> None:
    with FakeBroker() as broker, connected(broker) as connection:

        def close(number: int, frame: Frame) -> None:
            if (number, frame.command) == (1, "CONNECT"):
                connection.close()

        broker.on_frame = close
        with pytest.raises(ClosedError):
            connection.set_client_id("desk")
        assert connection.state == "closed"
        with pytest.raises(ClosedError):
            connection.open_session(transacted=False)


def test_a_client_id_waits_for_a_connection_that_is_being_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    events, asked, lost, real = Events(), Event(), Event(), StompFailoverConnection.current
    others = set(enumerate_threads())

    def heal(number: int, frame: Frame) -> None:
        if (number, frame.command) == (1, "CONNECT"):
            lost.set()
            assert asked.wait(PATIENCE_S)

    def current(link: StompFailoverConnection, *arguments: Any) -> PhysicalConnection:
        if link.state is FailoverState.RECONNECTING:
            asked.set()
        return real(link, *arguments)

    with FakeBroker() as broker, connected(broker, events=events) as connection:
        broker.on_frame = heal
        monkeypatch.setattr(StompFailoverConnection, "current", current)
        broker.cut()
        assert lost.wait(PATIENCE_S)
        connection.set_client_id("desk")
        asked.set()  # if nothing was waited for
        for healer in set(enumerate_threads()) - others:
            if healer.name.startswith("pyjms-healer-stomp"):
                healer.join(PATIENCE_S)
        link = connection.link
        assert link.newest is link.current()
        assert not link.newest.has_ended
        assert [frame.headers.get("client-id") for frame in broker.of("CONNECT")] == [None, None, "desk"]
        connection.open_session(transacted=False).send(make_envelope("works", persistent=True))

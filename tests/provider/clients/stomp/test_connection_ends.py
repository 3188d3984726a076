"""After a Ctrl-C at any place of a send or of a wait the connection goes on, or ends and is made anew: nothing stands still."""

from __future__ import annotations

from threading import Event, Thread

import pytest

from pyjms.spi.clock import Signal
from pyjms.spi.errors import ResourceError
from pyjms_provider.clients.network.failover import FailoverState
from pyjms_provider.clients.network.polling import SocketReader
from tests.provider.clients.stomp.fake_broker import PATIENCE_S, FakeBroker
from tests.provider.clients.stomp.test_reading import a_wire
from tests.provider.clients.stomp.world import QUICKLY, connected
from tests.provider.cost import kept
from tests.pyjms.runtime.helpers import eventually


def test_an_end_does_not_wait_for_a_reader_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyjms_provider.clients.network.polling._END_S", 0.01)
    reading = SocketReader(is_shared=True, wake=lambda: None, poll_reads=lambda _: None)
    is_taken, may_end = Event(), Event()

    def take() -> None:
        with reading._right:
            is_taken.set()
            may_end.wait(PATIENCE_S)

    reader = Thread(target=take, daemon=True)
    reader.start()
    assert is_taken.wait(PATIENCE_S)
    reading.end()
    may_end.set()
    reader.join(PATIENCE_S)


def test_the_end_is_told_though_not_all_could_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("threading.excepthook", lambda _: None)
    with FakeBroker() as broker, a_wire(broker) as (wire, threads):

        def refuse() -> None:
            raise RuntimeError("cannot be closed")

        wire._io.acquired.callback(refuse)
        wire.close()
        assert threads.ended.wait(PATIENCE_S)


def test_calls_that_waited_for_a_connection_in_vain_leave_nothing_behind() -> None:
    with FakeBroker() as broker, connected(broker, "timeout_ms=1&reconnect_delay_ms=60000") as connection:
        link = connection.link
        broker.stop()
        eventually(lambda: link.state is not FailoverState.CONNECTED, "the loss to be noticed")
        before = len(kept(link, Signal))
        for _ in range(3):
            with pytest.raises(ResourceError, match="there has been no connection"):
                link.current()
        assert len(kept(link, Signal)) == before


def test_a_call_waits_for_the_healing_of_a_connection_that_takes_nothing_any_more() -> None:
    with FakeBroker() as broker, connected(broker, QUICKLY) as connection:
        old = connection.link.current()
        old.close()
        assert connection.link.current() is not old
        assert broker.connection_count == 2

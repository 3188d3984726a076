"""Sessions that take over what another one settles at that moment, on another thread."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from pyjms.spi.errors import ClosedError
from pyjms_provider.protocols.profile import commands
from pyjms_provider.protocols.profile.commands import DeliveryIds, named
from pyjms_provider.protocols.stomp.server.native import NativeHandler
from pyjms_provider.protocols.stomp.server.native_sessions import ServedSession
from tests.provider.helpers import make_envelope
from tests.provider.protocols.stomp.server.bench import Bench
from tests.provider.protocols.stomp.server.pyjms_client import PyjmsClient, ready


def two_to_adopt(bench: Bench) -> tuple[PyjmsClient, ServedSession, ServedSession]:
    """Return a client, its session with two messages, and another one."""
    client = ready(bench)
    client.send(make_envelope("x", persistent=True))
    client.send(make_envelope("y", persistent=True))
    assert client.texts() == ["x", "y"]
    client.session("b")
    handler = client.client.engine.handler
    assert isinstance(handler, NativeHandler)
    return client, handler._sessions["a"], handler._sessions["b"]


def test_an_adoption_of_what_is_acknowledged_at_that_moment_is_refused(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, holder, _ = two_to_adopt(bench)
    handler = client.client.engine.handler
    assert isinstance(handler, NativeHandler)
    found = handler._holders_of

    def acknowledged_meanwhile(ids: DeliveryIds) -> Mapping[int, ServedSession]:
        holders = found(ids)
        holder.acknowledge((range(1, 2),))
        return holders

    monkeypatch.setattr(handler, "_holders_of", acknowledged_meanwhile)
    with pytest.raises(ClosedError, match="not open"):
        client.do(commands.Adopt(session="b", ids=(range(1, 3),)))
    assert client.texts() == ["y"]
    client.do(commands.CloseSession(session="a"))
    assert ready(bench).texts() == ["y"]


@pytest.mark.parametrize("is_transacted", [False, True])
def test_an_acknowledgement_of_what_is_adopted_at_that_moment_passes_over_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, *, is_transacted: bool
) -> None:
    client, holder, heir = two_to_adopt(bench)
    holder.unit.transacted = is_transacted

    def adopted_meanwhile(ids: DeliveryIds, numbers: Collection[int]) -> list[int]:
        known = named(ids, numbers)
        if holder.unsettled.keys() >= {1}:
            heir.unsettled[1] = holder.unsettled.pop(1)
            heir.session.adopt([heir.unsettled[1]])
        return known

    monkeypatch.setattr("pyjms_provider.protocols.stomp.server.native_sessions.named", adopted_meanwhile)
    assert holder.waits_for((range(1, 3),)) is not is_transacted
    if is_transacted:
        monkeypatch.setattr(holder.session, "acknowledge", lambda deliveries: None)
        holder.acknowledge((range(1, 3),))
        assert list(holder._acknowledged) == [2]
        return
    client.do(commands.Acknowledge(session="a", ids=(range(1, 3),)))
    client.do(commands.CloseSession(session="a"))
    client.do(commands.CloseSession(session="b"))
    assert ready(bench).texts() == ["x"]


def test_what_an_adoption_fails_for_stays_with_who_has_it(bench: Bench) -> None:
    client = ready(bench, credit=1)
    client.consume(session="a", name="d", credit=1)
    for text in "xy":
        client.send(make_envelope(text))
    assert client.texts() == ["x", "y"]
    client.session("b")
    handler = client.client.engine.handler
    assert isinstance(handler, NativeHandler)
    holder = handler._sessions["a"]
    holder.session.recover([holder.unsettled[1]])  # as the end of a consumer does with what it holds
    with pytest.raises(ClosedError, match="given back"):
        client.do(commands.Adopt(session="b", ids=(range(1, 3),)))
    client.do(commands.Acknowledge(session="a", ids=(range(2, 3),)))
    client.do(commands.CloseSession(session="a"))
    assert ready(bench).texts() == ["x"]

from __future__ import annotations

from typing import Any

import pytest

from pyjms.forwarding.settings import Site
from pyjms.forwarding.sites import RouteConnection
from pyjms.spi.clock import SystemClock
from pyjms.spi.errors import ProviderError, ResourceError
from pyjms_provider.clients.vm import VmConnection
from tests.pyjms.forwarding.sites import Client


def test_a_connection_that_gives_no_session_is_closed(here: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[VmConnection] = []

    def refuse(connection: VmConnection, **_: Any) -> None:
        made.append(connection)
        raise ResourceError("no more sessions")

    monkeypatch.setattr(VmConnection, "open_session", refuse)
    link = RouteConnection(Site(url="vm://here"), SystemClock(), lambda: None)
    for _ in range(2):
        with pytest.raises(ResourceError):
            link.session()
    assert len(made) == 2
    monkeypatch.undo()
    for connection in made:
        with pytest.raises(ProviderError):
            connection.open_session(transacted=True)
    assert not link.is_known
    link.session()
    assert link.is_open
    link.drop()

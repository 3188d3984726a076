"""Which site a provider's session is of."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyjms_provider.clients.vm import VmConnection, VmSession

SiteOf = Callable[[VmSession], str]


@pytest.fixture
def site_of(monkeypatch: pytest.MonkeyPatch) -> SiteOf:
    """Return the name of the broker that a session was opened at. Ask for it before the first connection is made."""
    names: dict[VmSession, str] = {}
    open_session = VmConnection.open_session

    def noted(connection: VmConnection, *, transacted: bool) -> VmSession:
        session = open_session(connection, transacted=transacted)
        names[session] = connection.broker.name
        return session

    monkeypatch.setattr(VmConnection, "open_session", noted)
    return names.__getitem__

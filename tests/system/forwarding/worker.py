"""A forwarder as a process that stops where it is told to, so that a test can kill it, or a broker, at that very point.

``worker.py HERE THERE POINT HISTORIES``: URLs, where to stop first, and a folder for the histories of both sites. At a point it writes
``at POINT`` and reads where to stop next; an empty line: nowhere.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pyjms.forwarding import BackOff, Guarantee, RouteSettings, Site, Target, Transfer, to_all
from pyjms.history import Recording
from pyjms.history.recorder import RecordedProvider
from pyjms.spi import Address, AddressKind, ConnectRequest, ProviderConnection, SystemClock
from pyjms.spi.registry import find_provider
from pyjms.spi.url import ProviderUrl

POINTS = (
    "there send",
    "there commit",
    "there committed",
    "here acknowledge",
    "here commit",
    "here committed",
)
"""Before the call that is named; ``committed`` is after it."""


class Stops:
    """Where to stop next."""

    def __init__(self, point: str) -> None:
        self._point = point

    def at(self, point: str) -> None:
        if point == self._point:
            print(f"at {point}", flush=True)  # noqa: T201  the test reads it
            self._point = sys.stdin.readline().strip()


class WatchedSession:
    """Tells of what the route does with a session."""

    def __init__(self, session: Any, side: str, stops: Stops) -> None:
        self._session, self._side, self._stops = session, side, stops

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def send(self, envelope: Any) -> None:
        self._stops.at(f"{self._side} send")
        self._session.send(envelope)

    def acknowledge(self, deliveries: Any) -> None:
        self._stops.at(f"{self._side} acknowledge")
        self._session.acknowledge(deliveries)

    def commit(self) -> None:
        self._stops.at(f"{self._side} commit")
        self._session.commit()
        self._stops.at(f"{self._side} committed")


class WatchedConnection:
    """Opens watched sessions."""

    def __init__(self, connection: ProviderConnection, side: str, stops: Stops) -> None:
        self._connection, self._side, self._stops = connection, side, stops

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def open_session(self, *, transacted: bool) -> Any:
        return WatchedSession(self._connection.open_session(transacted=transacted), self._side, self._stops)


def watched(url: str, side: str, stops: Stops, recording: Recording) -> Site:
    """Return a site whose sessions are watched and recorded."""

    def opens(events: Any) -> Any:
        parsed = ProviderUrl.parse(url)
        request = ConnectRequest(url=parsed, user_name=None, password=None, client_id=None, clock=SystemClock())
        provider = RecordedProvider(find_provider(parsed.scheme), recording)
        return WatchedConnection(provider.connect(request, events), side, stops)

    return Site(url=side, opens=opens)


def main() -> None:
    here, there, point, histories = sys.argv[1:]
    stops = Stops(point)
    record_here, record_there = (Recording(Path(histories) / site, synchronous=True) for site in ("here", "there"))
    queue = Address(AddressKind.QUEUE, "orders")
    site = watched(there, "there", stops, record_there)
    target = Target(site=site, address=Address(AddressKind.QUEUE, "inbox"))
    settings = RouteSettings(
        name="killed",
        source=Target(site=watched(here, "here", stops, record_here), address=queue),
        batch=7,
        back_off=BackOff(first_ms=20, most_ms=200),
        require=Guarantee.ONCE_ONLY,
    )
    Transfer(settings, to_all([target]), lambda: [target], SystemClock()).run()

"""One connection of a route to one site, and one transacted session on it: made when wanted, dropped when broken."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from threading import Lock

from pyjms.forwarding.settings import Site
from pyjms.spi.capability import Capability
from pyjms.spi.clock import Clock
from pyjms.spi.errors import ClosedError, MissingProviderError, ProviderError, UrlError
from pyjms.spi.provider import ConnectRequest, ProviderConnection, ProviderSession
from pyjms.spi.registry import find_provider
from pyjms.spi.routes import RouteError
from pyjms.spi.url import ProviderUrl

_DETECTORS = {"pyjms": "JMS_pyjms_duplicateId", "ActiveMQ Artemis": "_AMQ_DUPL_ID"}
"""By the beginning of a provider's name, the property by which it finds duplicates."""
DUPLICATE_PROPERTIES = frozenset(_DETECTORS.values())
"""All of these: what makes a message a duplicate where it has been before."""


def duplicate_property_of(provider_name: str) -> str | None:
    """Return the property by which a provider finds duplicates, as far as is known; None: it finds none."""
    return next((name for title, name in _DETECTORS.items() if provider_name.startswith(title)), None)


def connect(site: Site, clock: Clock, on_exception: Callable[[ProviderError], None]) -> ProviderConnection:
    """Open a connection, stopped. Raises what `pyjms.spi.Provider.connect` does."""
    events = _Events(on_exception)
    if site.opens is not None:
        return site.opens(events)
    url = ProviderUrl.parse(site.url)
    request = ConnectRequest(
        url=url,
        user_name=url.user_name if site.user_name is None else site.user_name,
        password=url.password if site.user_name is None else site.password,
        client_id=None,
        clock=clock,
    )
    return find_provider(url.scheme).connect(request, events)


class _Events:
    """What a provider tells of by itself."""

    def __init__(self, tell: Callable[[ProviderError], None]) -> None:
        self.on_exception = tell


class RouteConnection:
    """Owned by the thread of the route; only `end` may come from another one."""

    def __init__(self, site: Site, clock: Clock, wake: Callable[[], None]) -> None:
        """`wake` is called when the provider tells that the connection has a problem."""
        self.site = site
        self._clock = clock
        self._wake = wake
        self._lock = Lock()
        self._connection: ProviderConnection | None = None
        self._session: ProviderSession | None = None
        self._is_over = False
        self.problem: ProviderError | None = None
        """What the provider has told of the present connection."""
        self.is_known = False
        """Whether it was ever connected."""
        self.provider_name = ""

    @property
    def is_open(self) -> bool:
        """Whether there is a connection, for all that is known."""
        return self._session is not None

    @property
    def connection(self) -> ProviderConnection:
        """The present connection. Raises `ClosedError`."""
        if self._connection is None:
            raise ClosedError(f"there is no connection to {self.site.url}")
        return self._connection

    def session(self) -> ProviderSession:
        """Return the session; connect first if there is none. Raises `RouteError` when that is in vain, `ProviderError`."""
        session = self._session
        if session is None:
            self.problem = None
            try:
                connection = connect(self.site, self._clock, self._tell)
            except (UrlError, MissingProviderError) as error:
                raise RouteError(f"{self.site.url} cannot be used: {error.reason}") from error
            with self._lock:
                is_wanted = not self._is_over
                if is_wanted:
                    self._connection = connection
            if not is_wanted:
                connection.close()
                raise ClosedError("the route was stopped")
            try:
                session = self._session = self._open_session(connection)
            except Exception:
                self.drop()  # each attempt would leave one more
                raise
        return session

    def _open_session(self, connection: ProviderConnection) -> ProviderSession:
        if Capability.TRANSACTIONS not in connection.capabilities:
            raise RouteError(
                f"{self.site.url} ({connection.info.name}) has no transactions, and a route needs them at both ends; "
                f"{connection.advice(Capability.TRANSACTIONS) or 'choose another provider or URL'}"
            )
        session = connection.open_session(transacted=True)
        self.provider_name = connection.info.name
        self.is_known = True
        return session

    def _tell(self, problem: ProviderError) -> None:
        self.problem = problem
        self._wake()

    def drop(self) -> None:
        """Close the connection: what was received comes again, what was not committed is rolled back."""
        with self._lock:
            connection, self._connection = self._connection, None
        self._session = None
        if connection is not None:
            with suppress(ProviderError):
                connection.close()

    def end(self) -> None:
        """Let a call that waits come back, and no connection be made any more. Any thread."""
        with self._lock:
            self._is_over = True
            connection = self._connection
        if connection is not None:
            with suppress(ProviderError):
                connection.close()

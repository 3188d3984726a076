"""A STOMP connection that fails over: the broker's dialect, what it answers to CONNECT, and how it refuses it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import TYPE_CHECKING, Protocol

from pyjms.spi.clock import Clock
from pyjms.spi.errors import (
    AccessDeniedError,
    DuplicateClientIdError,
    ProviderError,
    ResourceError,
)
from pyjms_provider.clients.network.calls import ConnectionLostInCallError
from pyjms_provider.clients.network.endpoints import Endpoint
from pyjms_provider.clients.network.failover import (
    FailoverConnection,
    FailoverOwner,
    FailoverProviderConnection,
)
from pyjms_provider.clients.stomp.physical_connection import PhysicalConnection, RefusedError, refusal
from pyjms_provider.clients.stomp.sockets import advice
from pyjms_provider.protocols.profile.answers import body_max_in
from pyjms_provider.protocols.profile.errors import CommandError
from pyjms_provider.protocols.stomp.dialects import Dialect, dialect_named, dialect_of_server
from pyjms_provider.protocols.stomp.errors import StompError
from pyjms_provider.protocols.stomp.frames import Frame
from pyjms_provider.protocols.stomp.packed import PACKED_HEADER, PACKED_VERSION

if TYPE_CHECKING:
    from pyjms.spi.provider import ConnectionEvents, ConnectRequest
    from pyjms_provider.clients.stomp.options import StompSettings


class StompOwner(FailoverOwner[PhysicalConnection], Protocol):
    """The callbacks of a failover connection over STOMP. None may wait, except `restore`."""

    def on_message(self, physical: PhysicalConnection, frame: Frame) -> None:
        """A MESSAGE was received on `physical`."""
        ...

    def on_broker_error(self, error: ProviderError) -> None:
        """The broker reported an error that no call waits for."""
        ...

    def is_only_waiter(self) -> bool:
        """Return whether no thread but the caller's waits for messages."""
        ...


class StompFailoverConnection(FailoverConnection[PhysicalConnection]):
    """The connection of one client. Any thread."""

    log_code = "PYJMS-STOMP"
    protocol = "stomp"
    _settings: StompSettings
    _owner: StompOwner

    def __init__(
        self,
        settings: StompSettings,
        headers: Callable[[], dict[str, str]],
        clock: Clock,
        owner: StompOwner,
        random: Random | None = None,
    ) -> None:
        """Connect. `headers` returns those of CONNECT. Raises as `FailoverConnection`."""
        self.takes_unexpected: Callable[[PhysicalConnection, Frame], bool] | None = None
        """Called with each ERROR of a broker that does not name receipts; returns True if it answers no request."""
        self.dialect: Dialect | None = None if settings.dialect is None else dialect_named(settings.dialect)
        """The broker's dialect: of the URL, or of the first CONNECTED."""
        # Before the first connect, whose I/O thread calls these.
        self.hand_over(headers, owner)
        super().__init__(settings, clock, owner, random)

    def hand_over(self, headers: Callable[[], dict[str, str]], owner: StompOwner) -> None:
        """Change the owner, before anything was done."""
        self._headers = headers
        self._owner = owner
        # Attributes, as methods that only pass on would cost a call for each message and for each wait.
        self.on_message = owner.on_message
        """See `PhysicalConnectionEvents`."""
        self.is_only_waiter = owner.is_only_waiter
        """See `PhysicalConnectionEvents`."""

    @property
    def greeting(self) -> Mapping[str, str]:
        """The headers of the last CONNECTED."""
        connected = self._physical.connected
        return {} if connected is None else connected.headers

    def on_unexpected(self, physical: PhysicalConnection, frame: Frame) -> bool:
        """Ask the handler of unexpected ERRORs, if there is one."""
        return self.takes_unexpected is not None and self.takes_unexpected(physical, frame)

    def on_broker_error(self, error: ProviderError) -> None:
        """Pass the error to the owner."""
        self._owner.on_broker_error(error)

    def connect(self, endpoint: Endpoint) -> PhysicalConnection:
        """Connect to `endpoint`. Raises `ResourceError`, `ConnectionLostInCallError` if another endpoint may do, other errors if none will."""
        names_receipt = self.dialect is None or self.dialect.error_names_receipt
        physical = PhysicalConnection(
            self.made + 1, endpoint, self._settings, self._clock, self, error_names_receipt=names_receipt
        )
        try:
            connected = physical.open(self._headers())
            dialect = self.dialect or dialect_of_server(connected.headers.get("server"))
            physical.body_max = body_max_in(connected.headers)
        except RefusedError as error:
            raise self._refusal(error, endpoint) from error
        except ConnectionLostInCallError as error:
            why = f"{endpoint} closed the connection before it answered CONNECT: {error}"
            raise ConnectionLostInCallError(why + advice(self._settings.scheme, endpoint, why)) from error
        except (StompError, CommandError) as error:
            # This client cannot talk to that broker, whose dialect may be unknown: no other endpoint is tried.
            physical.close()
            raise ProviderError(error.reason) from error
        except Exception:
            physical.close()
            raise
        self.dialect = dialect
        physical.error_names_receipt = dialect.error_names_receipt
        physical.is_packed = connected.headers.get(PACKED_HEADER) == PACKED_VERSION
        self.made += 1
        return physical

    def _refusal(self, error: RefusedError, endpoint: Endpoint) -> ProviderError:
        found = refusal(error.frame)
        if isinstance(found, DuplicateClientIdError):
            return found
        # The other codes of this class ask the client to try again later, so that the next endpoint is tried.
        if isinstance(found, AccessDeniedError) and found.code == AccessDeniedError.code:
            return found
        return ResourceError(f"{endpoint}: {found.reason}")


class StompConnectionBase(FailoverProviderConnection):
    """Common to connections to foreign brokers and to the pyjms broker. Subclasses set the attributes declared here."""

    link: StompFailoverConnection

    def __init__(self, settings: StompSettings, request: ConnectRequest, events: ConnectionEvents) -> None:
        super().__init__(request, events)
        self.settings = settings
        self._credentials = {
            name: text
            for name, text in (("login", request.user_name), ("passcode", request.password))
            if text is not None
        }

    @property
    def failover(self) -> StompFailoverConnection:
        return self.link

    def _connect_headers(self) -> dict[str, str]:
        # STOMP 1.2 asks for `host`. Brokers that read it take it for a virtual host, and its absence for the default one.
        headers = {} if self.settings.virtual_host is None else {"host": self.settings.virtual_host}
        headers.update(self._credentials)
        if self._client_id is not None:
            headers["client-id"] = self._client_id
        return headers

    def _take_leave(self, physical: PhysicalConnection) -> None:
        physical.request_last(Frame("DISCONNECT", {}), timeout_ms=self.settings.connect_timeout_ms)

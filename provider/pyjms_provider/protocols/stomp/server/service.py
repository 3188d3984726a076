"""The STOMP service of one port, shared by its connections."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyjms_provider.protocols.engine import RareLines
from pyjms_provider.protocols.logins import NoteLogin
from pyjms_provider.protocols.scheduling import DirectDeliveries
from pyjms_provider.protocols.stomp.server.engine import StompServerEngine
from pyjms_provider.protocols.stomp.server.native import NativeHandler
from pyjms_provider.protocols.stomp.server.settings import StompSettings
from pyjms_provider.protocols.stomp.server.standard import StandardHandler
from pyjms_provider.security.logins import RevocationGuard

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock
    from pyjms.spi.provider import ProviderConnection
    from pyjms_provider.protocols.engine import TransportContext
    from pyjms_provider.protocols.hosts import Guard, HostDirectory
    from pyjms_provider.protocols.stomp.server.contracts import Engine, ProtocolHandler
    from pyjms_provider.protocols.stomp.server.login import Login
    from pyjms_provider.security.contracts import Authenticator


@dataclass(frozen=True, slots=True, kw_only=True)
class StompService:
    """The STOMP service of one port; a listener's transport makes the engine of each connection by `engine`."""

    clock: Clock
    authenticator: Authenticator
    hosts: HostDirectory
    settings: StompSettings = field(default_factory=StompSettings)
    note_login: NoteLogin = field(default=lambda *_: None)
    revocations: RevocationGuard = field(default_factory=RevocationGuard)
    """Finds users whose connections are ended during their login."""
    direct_deliveries: DirectDeliveries = field(default_factory=DirectDeliveries)
    """All connections of a service are on one loop."""
    rare_lines: RareLines = field(default_factory=RareLines)
    """Limits the log lines that untrusted peers can cause."""

    def engine(self, transport: TransportContext) -> StompServerEngine:
        """Return the engine of a new connection."""
        return StompServerEngine(self, transport)

    def make_handler(
        self, engine: Engine, connection: ProviderConnection, guard: Guard, login: Login
    ) -> ProtocolHandler:
        """Return the handler of a client that has logged in. May wait."""
        kind = NativeHandler if login.speaks_profile else StandardHandler
        return kind(engine, connection, guard, login)

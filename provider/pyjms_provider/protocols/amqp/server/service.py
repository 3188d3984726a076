"""The AMQP service of one port, shared by its connections."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyjms_provider.protocols.amqp.server.engine import AmqpServerEngine
from pyjms_provider.protocols.amqp.server.settings import AmqpSettings
from pyjms_provider.protocols.engine import RareLines
from pyjms_provider.protocols.scheduling import DirectDeliveries
from pyjms_provider.security.logins import RevocationGuard

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock
    from pyjms_provider.protocols.engine import TransportContext
    from pyjms_provider.protocols.hosts import HostDirectory
    from pyjms_provider.protocols.logins import NoteLogin
    from pyjms_provider.security.contracts import Authenticator


@dataclass(frozen=True, slots=True, kw_only=True)
class AmqpService:
    """The AMQP service of one port; a listener's transport makes the engine of each connection by `engine`."""

    clock: Clock
    authenticator: Authenticator
    hosts: HostDirectory
    settings: AmqpSettings = field(default_factory=AmqpSettings)
    note_login: NoteLogin = field(default=lambda *_: None)
    revocations: RevocationGuard = field(default_factory=RevocationGuard)
    """Finds users whose connections are ended during their login."""
    direct_deliveries: DirectDeliveries = field(default_factory=DirectDeliveries)
    """All connections of a service are on one loop."""
    rare_lines: RareLines = field(default_factory=RareLines)
    """Limits the log lines that untrusted peers can cause."""

    def engine(self, transport: TransportContext) -> AmqpServerEngine:
        """Return the engine of a new connection."""
        return AmqpServerEngine(self, transport)

"""STOMP as one port serves it: what its connections share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyjms_provider.protocols.rare_lines import RareLines
from pyjms_provider.protocols.stomp.server.engine import StompServerEngine
from pyjms_provider.protocols.stomp.server.handing_over import HandingOver
from pyjms_provider.protocols.stomp.server.plain import PlainDialogue
from pyjms_provider.protocols.stomp.server.profile import ProfileDialogue
from pyjms_provider.protocols.stomp.server.settings import StompSettings
from pyjms_provider.security.contracts import Credentials, Principal
from pyjms_provider.security.shut_outs import ShutOuts

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock
    from pyjms.spi.provider import ProviderConnection
    from pyjms_provider.protocols.engine import Conduit
    from pyjms_provider.protocols.stomp.server.dialogue import Dialogue
    from pyjms_provider.protocols.stomp.server.hosts import Guard, HostDirectory
    from pyjms_provider.protocols.stomp.server.login import Login
    from pyjms_provider.security.contracts import Authenticator

__all__ = ["NoteLogin", "StompService"]


NoteLogin = Callable[[Principal | None, Credentials | None, str, str], None]
"""Hears who logged in, None being nobody, with which credentials, from which address, and why it was refused. On any thread; may wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StompService:
    """`service.engine` is what a transport's listener makes the engine of each connection with."""

    clock: Clock
    authenticator: Authenticator
    hosts: HostDirectory
    settings: StompSettings = field(default_factory=StompSettings)
    note_login: NoteLogin = field(default=lambda *_: None)
    shut_outs: ShutOuts = field(default_factory=ShutOuts)
    """Hears of users whose connections are ended."""
    handing_over: HandingOver = field(default_factory=HandingOver)
    """All connections of a service are on one loop."""
    rare_lines: RareLines = field(default_factory=RareLines)
    """Of the log, which strangers can cause."""

    def engine(self, conduit: Conduit) -> StompServerEngine:
        """Return the engine of a new connection."""
        return StompServerEngine(self, conduit)

    def begin(self, engine: StompServerEngine, connection: ProviderConnection, guard: Guard, login: Login) -> Dialogue:
        """Return what frames mean from now on. May wait."""
        kind = ProfileDialogue if login.speaks_profile else PlainDialogue
        return kind(engine, connection, guard, login)

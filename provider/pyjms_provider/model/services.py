"""What the model needs of the rest of the broker, handed to it from outside: how ports are opened.

The model knows neither transports nor management; `SystemConfig` gets their factories from the program that assembles the broker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyjms_provider.model.managed import ManagedObject
    from pyjms_provider.transport.settings import TlsSettings


class OpenPort(Protocol):
    """A port that listens."""

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where it listens, as URLs: ``stomp://127.0.0.1:61613``."""
        ...

    @property
    def connections(self) -> int:
        """How many connections it has now."""
        ...

    def reload_certificates(self, tls: TlsSettings) -> None:
        """Show what `tls` names to who connects from now on; connections that are open stay.

        Raises `ListenerSettingsError` if it cannot be used, or if the port was opened without TLS: then nothing changes.
        """
        ...

    def close(self, *, lingers: bool = False) -> None:
        """Listen no more, and end its connections. May be repeated; may wait, with a way out.

        `lingers`: return as soon as it listens no more, as the caller may be waiting for an answer over one of them.
        """
        ...


PortOpener = Callable[["ManagedObject"], OpenPort]
"""Opens a port as its effective attributes say. Raises `ProviderError` or `OSError`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The factories, by what they are for."""

    port_openers: Mapping[str, PortOpener] = field(default_factory=dict)
    """By the type of the port."""

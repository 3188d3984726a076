"""Ports: where clients and operators reach the broker.

A port is opened by a factory from outside, by its type (`Services.port_openers`), as the model knows neither transports nor
management. A port offers what such a factory needs: the listener's settings, the authenticator, the access policy.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

from pydantic import AfterValidator

from pyjms.spi.errors import ProviderError
from pyjms_provider.model.attributes import Attributes, ByteCount, attribute
from pyjms_provider.model.configured import Stoppable
from pyjms_provider.model.errors import FailedOpeningError, WrongStateError
from pyjms_provider.model.lookup import find_referred
from pyjms_provider.model.managed import Phase, State
from pyjms_provider.model.operations import operation, statistic
from pyjms_provider.model.security import (
    AnonymousProvider,
    AnyAccessControl,
    AuthenticationProvider,
    KeyStore,
    KeyStoreAttributes,
    TrustStore,
    TrustStoreAttributes,
    attributes_for,
    settings_of,
)
from pyjms_provider.security.access import RuleAccessPolicy
from pyjms_provider.security.logins import CompositeAuthenticator, UncheckedLogins
from pyjms_provider.transport.settings import (
    ClientCertificates,
    ListenerKind,
    ListenerSettings,
    ListenerSettingsError,
    TlsSettings,
    WebSocketSettings,
)
from pyjms_provider.transport.tls import make_context

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyjms_provider.model.contracts import OpenPort
    from pyjms_provider.model.port_type import PortType
    from pyjms_provider.security.contracts import AccessPolicy, Authenticator


class Transport(Enum):
    """The transport of a port."""

    TCP = "tcp"
    TLS = "tls"
    WEB_SOCKET = "websocket"
    SECURE_WEB_SOCKET = "secure_websocket"


_SECURE = frozenset({Transport.TLS, Transport.SECURE_WEB_SOCKET})
_NOBODY: Final = ": nobody could come in; start one of them, or name another"
_NOT_IN_HOSTS: Final = re.compile(r"[^A-Za-z0-9._-]")
_WEB = frozenset({Transport.WEB_SOCKET, Transport.SECURE_WEB_SOCKET})


def _check_host(text: str) -> str:
    if text != "*" and (not text or not text.isascii() or _NOT_IN_HOSTS.search(text)):
        raise ValueError("is a host's name as shop.example, without scheme, port and path; or * for any")
    return text


HostName = Annotated[str, AfterValidator(_check_host)]
"""The name of a host as browsers send it."""


class PortAttributes(Attributes):
    """The attributes of any port. A change takes effect when the port is opened next: restart it."""

    host: str = attribute("The address to listen at; 0.0.0.0 and :: are all.", default="127.0.0.1", min_length=1)
    port: int = attribute("The number; 0: any that is free.", ge=0, le=65535)
    transports: list[Transport] = attribute("What it is reached over.", default=["tcp"], min_length=1)
    key_store: str | None = attribute("Who the broker is, for TLS.", default=None, refers_to="key_store")
    trust_store: str | None = attribute(
        "Whose certificates clients may show, for TLS.", default=None, refers_to="trust_store"
    )
    client_certificates: ClientCertificates = attribute("Whether clients must show one.", default="none")
    authentication_providers: list[str] = attribute(
        "The providers that authenticate users, in the order in which they are asked; none: nobody can log in.",
        default=[],
        refers_to="authentication_provider",
    )
    access_control: str | None = attribute(
        "The rules of access; without them, nothing is allowed.", default=None, refers_to="access_control"
    )
    max_connections: int | None = attribute("How many connections there may be.", default=10_000, ge=1)
    max_connections_per_address: int | None = attribute("The same from one address.", default=None, ge=1)
    handshake_timeout_ms: int = attribute("How long handshakes, as of TLS, may take.", default=10_000, ge=1, unit="ms")
    login_timeout_ms: int = attribute(
        "How long a client may take to log in; at an http port, to send a request.", default=30_000, ge=1, unit="ms"
    )


class StompPortAttributes(PortAttributes):
    """The attributes of a port for STOMP clients."""

    port: int = attribute("The number; 0: any that is free.", default=61613, ge=0, le=65535)
    default_host: str = attribute(
        "The virtual host of clients that name none; empty: the only one, and none where there are several.", default=""
    )
    heart_beat_ms: int = attribute(
        "The shortest period of heart-beats that clients can ask for, or promise; a client that is silent for two periods is disconnected. "
        "0: there are none.",
        default=1_000,
        ge=0,
        unit="ms",
    )
    prefetch: int = attribute("Messages sent to a plain client before it acknowledges.", default=1_000, ge=1)
    stalled_timeout_ms: int | None = attribute(
        "How long a client may read none of the bytes that wait for it; then it is disconnected. None: without limit, as "
        "a client that works on a message may read nothing meanwhile.",
        default=None,
        ge=1,
        unit="ms",
    )


class Protocol(Enum):
    """A protocol that clients speak."""

    AMQP = "amqp"
    STOMP = "stomp"


class AmqpPortAttributes(StompPortAttributes):
    """The attributes of a port for AMQP clients."""

    port: int = attribute("The number; 0: any that is free.", default=5672, ge=0, le=65535)
    protocols: list[Protocol] = attribute(
        "What clients may speak; with both, the first bytes of a client tell which it is.",
        default=["amqp"],
        min_length=1,
    )
    idle_timeout_ms: int = attribute(
        "How long an AMQP client may be silent; then it is disconnected. It is told half of it. 0: for ever.",
        default=60_000,
        ge=0,
        unit="ms",
    )
    max_message_bytes: ByteCount = attribute(
        "The largest message of an AMQP client.", default="100MiB", ge=1024, unit="bytes"
    )
    max_frame_bytes: ByteCount = attribute("The largest frame of AMQP.", default="128KiB", ge=512, unit="bytes")
    max_sessions: int = attribute("Sessions of one AMQP connection.", default=1_000, ge=1, le=65_536)
    max_links: int = attribute("Links of one AMQP session.", default=1_000, ge=1, le=65_536)


class HttpPortAttributes(PortAttributes):
    """The attributes of a port for operators: REST, console, metrics."""

    port: int = attribute("The number; 0: any that is free.", default=8161, ge=0, le=65535)
    allowed_hosts: list[HostName] = attribute(
        "As which hosts it answers, as shop.example, besides localhost, addresses, and its own host; *: as any, also for pages of "
        "other sites.",
        default=[],
        max_length=1_000,
    )
    max_request_bytes: ByteCount = attribute("The longest request.", default="4MiB", ge=1024, unit="bytes")
    answer_timeout_ms: int = attribute(
        "How long a client may leave an answer unread; if it has read no part of it by then, it is disconnected.",
        default=30_000,
        ge=1,
        unit="ms",
    )
    metrics: Literal["open", "login", "off"] = attribute(
        "Who may read /metrics: everybody who reaches the port, users who may observe the broker, or nobody.",
        default="open",
    )
    metrics_queues: int = attribute(
        "How many queues of a virtual host, the deepest, have metrics of their own; the rest are summed up.",
        default=100,
        ge=0,
        le=10_000,
    )


class Port(Stoppable):
    """A port, which listens while it is ACTIVE."""

    category = "port"
    attributes_class = PortAttributes
    served_as: ClassVar[str] = ""
    """The key of its opener among `Services.port_openers`, unless there is one for its very type."""
    is_for_clients: ClassVar[bool] = False
    """Whether clients of virtual hosts come in by it, so that it is of no use without one."""
    takes_any_login: ClassVar[bool] = False
    """Whether a login is taken, and not checked, where everybody is let in."""

    _open: OpenPort | None = None

    # For its opener

    @property
    def chosen(self) -> PortAttributes:
        """The effective attributes."""
        found = self.attributes
        assert isinstance(found, PortAttributes)
        return found

    def authenticator(self) -> Authenticator:
        """Return the authenticator of its users. Raises `WrongStateError` if it has providers, and none is ACTIVE."""
        found = [self._referred("authentication_provider", name) for name in self.chosen.authentication_providers]
        providers = [each for each in found if isinstance(each, AuthenticationProvider)]
        if providers and not any(each.state is State.ACTIVE for each in providers):
            raise WrongStateError("; ".join(f"{each.path} is {each.state.value}" for each in providers) + _NOBODY)
        authenticator = CompositeAuthenticator([each.authenticator for each in providers])
        # Many clients send a login, such as guest, to any server; anonymous providers alone would refuse it.
        return UncheckedLogins(authenticator) if self.takes_any_login and self.lets_in_everybody else authenticator

    @property
    def lets_in_everybody(self) -> bool:
        """Whether all its authentication providers are anonymous ones, in whichever state."""
        names = self.chosen.authentication_providers
        found = [self._referred("authentication_provider", name) for name in names]
        return bool(found) and all(isinstance(each, AnonymousProvider) for each in found)

    def access(self) -> AccessPolicy:
        """Return the access policy; without access control, one that allows nothing."""
        name = self.chosen.access_control
        found = None if name is None else self._referred("access_control", name)
        # No rules allow nothing: a port without access control is closed for everything, not open.
        return found.policy if isinstance(found, AnyAccessControl) else RuleAccessPolicy()

    def listener_settings(self) -> ListenerSettings:
        """Return the settings of the listener. Raises `InvalidAttributesError`."""
        chosen = self.chosen
        wanted = frozenset(chosen.transports)
        with self._told_as_attribute(""):
            return ListenerSettings(
                kind=ListenerKind.WEB_SOCKET if wanted & _WEB else ListenerKind.TCP,
                **self._own_settings(),
                host=chosen.host,
                port=chosen.port,
                tls=self._tls() if wanted & _SECURE else None,
                plain_and_tls=bool(wanted & _SECURE) and bool(wanted - _SECURE),
                max_connections=chosen.max_connections,
                max_connections_per_address=chosen.max_connections_per_address,
                handshake_timeout_ms=chosen.handshake_timeout_ms,
                login_timeout_ms=chosen.login_timeout_ms,
            )

    def _own_settings(self) -> dict[str, Any]:
        return {}

    def _tls(self) -> TlsSettings:
        chosen = self.chosen
        keys = self._referred("key_store", chosen.key_store or "")
        if not isinstance(keys, KeyStore) or not isinstance(keys.attributes, KeyStoreAttributes):
            raise self._wrong("key_store", "is needed for TLS; name one")
        own = keys.attributes
        trusted = None if chosen.trust_store is None else self._referred("trust_store", chosen.trust_store)
        trust_file = None
        if isinstance(trusted, TrustStore) and isinstance(trusted.attributes, TrustStoreAttributes):
            trust_file = Path(trusted.attributes.certificate_file)
        return TlsSettings(
            certificate_file=Path(own.certificate_file),
            key_file=None if own.key_file is None else Path(own.key_file),
            key_password=None if own.key_password is None else own.key_password.get_secret_value(),
            client_certificates=chosen.client_certificates,
            trust_file=trust_file,
        )

    def _referred(self, category: str, name: str) -> Any:
        return find_referred(self, category, name)

    # The hooks

    def _validate(self, new: Attributes, old: Attributes | None) -> None:
        assert isinstance(new, PortAttributes)
        wanted = frozenset(new.transports)
        # A listener has one kind: it speaks WebSocket with all its clients, or with none.
        if wanted & _WEB and wanted - _WEB:
            raise self._wrong("transports", "a port is for TCP or for WebSockets; make two ports")
        if wanted & _SECURE and new.key_store is None:
            raise self._wrong("key_store", "is needed for TLS; name one, or leave TLS out of transports")
        if new.client_certificates is not ClientCertificates.NONE and new.trust_store is None:
            raise self._wrong("trust_store", "is needed to judge clients' certificates; name one")

    def _on_open(self) -> None:
        openers = self.services.port_openers
        opener = openers.get(self.type) or openers.get(self.served_as)
        if opener is None:
            raise WrongStateError(
                f"{self.path} cannot be opened: this process serves no ports of the type {self.type!r}"
            )
        self._open = opener(self)

    def close_as_failed(self, error: ProviderError) -> None:
        """Close it, ERRORED, if it is open; on its configuration thread."""
        # An operator may have stopped it meanwhile, and that state must stay.
        if self.state is State.ACTIVE:
            self._on_stop()
            self._fail(error, "was closed")

    def _on_stop(self) -> None:
        # Taken off first, so that statistics of other threads see no port that is closing.
        opened, self._open = self._open, None
        if opened is not None:
            opened.close()

    @operation(
        "Close it, and open it again at once, so that changed attributes and renewed certificates count. Its connections end; "
        "requests that are being answered are answered."
    )
    def restart(self) -> None:
        """Close it and open it again. Raises `WrongStateError`, `InvalidAttributesError`: it goes on as it was;
        `FailedOpeningError`: it is ERRORED.
        """
        self.configuration_thread.call(self._restart)

    def _restart(self) -> None:
        self._check_there()
        if self.state is not State.ACTIVE:
            raise WrongStateError(f"{self.path} is {self.state.value}; start it")
        # Resolved again, as a variable or the environment may have changed since the port was opened.
        self._resolve()
        self._validate_opening()
        # All checks come before the port is closed, as the caller may be connected by it.
        self._check_certificates(self.listener_settings())
        self.authenticator()
        opened, self._open = self._open, None
        if opened is not None:
            # The request that asks for this may be waiting for its answer over one of the connections.
            opened.close(lingers=True)
        try:
            self._run_phase(Phase.ON_OPEN)
        except (ProviderError, OSError) as error:
            self._fail(error)
            raise FailedOpeningError(f"{self.path} cannot be opened again: {self.snapshot.error}") from error

    def _check_certificates(self, settings: ListenerSettings) -> None:
        """Raise `InvalidAttributesError` if the files for TLS cannot be used."""
        if settings.tls is not None:
            with self._told_as_attribute("key_store"):
                make_context(settings.tls, settings.kind)

    @operation(
        "Use the present certificates of its key store and its trust store for new connections. Open connections stay; "
        "unusable certificates are refused, and nothing changes."
    )
    def reload_certificates(self) -> None:
        """Use renewed certificates. Raises `WrongStateError`, `InvalidAttributesError`: it goes on as it was."""
        self.configuration_thread.call(self._reload_certificates)

    def _reload_certificates(self) -> None:
        self._check_there()
        opened = self._open
        if self.state is not State.ACTIVE or opened is None:
            raise WrongStateError(f"{self.path} is {self.state.value}; start it")
        tls = self.listener_settings().tls
        if tls is None:
            raise WrongStateError(
                f"{self.path} has no TLS; name a key_store, have TLS among its transports, and restart it"
            )
        with self._told_as_attribute("key_store"):
            # The listener loads the files before it uses them, so a bad file leaves the old certificates.
            opened.reload_certificates(tls)

    @contextmanager
    def _told_as_attribute(self, name: str) -> Iterator[None]:
        try:
            yield
        except ListenerSettingsError as error:
            raise self._wrong(name, error.reason) from error

    # Statistics

    @statistic("Where it listens.")
    def addresses(self) -> list[str]:
        opened = self._open
        return [] if opened is None else list(opened.addresses)

    @statistic("How many connections it has.", unit="connections")
    def connection_count(self) -> int:
        opened = self._open
        return 0 if opened is None else opened.connections


class StompPort(Port):
    """A port for STOMP clients."""

    attributes_class = StompPortAttributes
    served_as = "stomp"
    is_for_clients = True
    takes_any_login = True

    def _own_settings(self) -> dict[str, Any]:
        chosen = self.chosen
        assert isinstance(chosen, StompPortAttributes)
        is_web = bool(_WEB & frozenset(chosen.transports))
        schemes = ("stomp+ws", "stomp+wss") if is_web else ("stomp", "stomps")
        return {
            "scheme": schemes[0],
            "secure_scheme": schemes[1],
            "stalled_timeout_ms": chosen.stalled_timeout_ms,
        }


class AmqpPort(Port):
    """A port for AMQP clients, and for STOMP clients if it is to be for both."""

    attributes_class = AmqpPortAttributes
    served_as = "amqp"
    is_for_clients = True
    takes_any_login = True

    def _own_settings(self) -> dict[str, Any]:
        chosen = self.chosen
        assert isinstance(chosen, AmqpPortAttributes)
        is_web = bool(_WEB & frozenset(chosen.transports))
        schemes = ("amqp+ws", "amqp+wss") if is_web else ("amqp", "amqps")
        subprotocols = ("amqp", *(WebSocketSettings().subprotocols if Protocol.STOMP in chosen.protocols else ()))
        return {
            "scheme": schemes[0],
            "secure_scheme": schemes[1],
            "stalled_timeout_ms": chosen.stalled_timeout_ms,
            "websocket": WebSocketSettings(path="/amqp", subprotocols=subprotocols),
        }


class HttpPort(Port):
    """A port for operators: REST, console, metrics."""

    attributes_class = HttpPortAttributes
    served_as = "http"

    def _own_settings(self) -> dict[str, Any]:
        chosen = self.chosen
        assert isinstance(chosen, HttpPortAttributes)
        return {"scheme": "http", "secure_scheme": "https", "stalled_timeout_ms": chosen.answer_timeout_ms}

    def _validate(self, new: Attributes, old: Attributes | None) -> None:
        super()._validate(new, old)
        assert isinstance(new, PortAttributes)
        if _WEB & frozenset(new.transports):
            raise self._wrong("transports", "an http port is reached over tcp or tls")


INSTALLED: Final = "*"
"""The key of the opener of ports whose types packages bring; no type has this name."""


class InstalledPort(Port):
    """A port of a type that a package brings."""

    served_as = INSTALLED
    is_for_clients = True
    plugin: PortType

    def _own_settings(self) -> dict[str, Any]:
        is_web = bool(_WEB & frozenset(self.chosen.transports))
        scheme = self.plugin.scheme or self.type
        return {
            "scheme": f"{scheme}+ws" if is_web else scheme,
            "secure_scheme": f"{scheme}+wss" if is_web else f"{scheme}s",
            "websocket": WebSocketSettings(path=f"/{scheme}", subprotocols=(scheme,)),
        }

    @property
    def settings(self) -> Any:
        """Its effective attributes as the settings of the plug-in."""
        return settings_of(self.plugin.settings, self.attributes)


def port_of(name: str, plugin: PortType) -> type[InstalledPort]:
    """Return the class of managed objects for a type of ports that a package brings."""
    members = {
        "attributes_class": attributes_for(name, plugin.settings, PortAttributes),
        "plugin": plugin,
        "__doc__": plugin.title,
    }
    return type("InstalledPort", (InstalledPort,), {**members, "__module__": __name__})

"""The kinds of authentication, in one table: the name, the settings and the factory of each.

The model derives its managed categories from this table, and the command line its options. The modules of a kind are imported when
its first authenticator is created.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from enum import Enum
from importlib import import_module
from typing import Any, Final, Generic, TypeVar, get_type_hints

from pyjms.spi.clock import Clock
from pyjms.spi.errors import MissingProviderError, ProviderError
from pyjms_provider.security.contracts import Authenticator
from pyjms_provider.security.settings import (
    AnonymousSettings,
    CertificateSettings,
    IntrospectionSettings,
    JwtSettings,
    UserFileSettings,
)

_Settings = TypeVar("_Settings")
_Choice = TypeVar("_Choice", bound=Enum)


class SettingError(ProviderError):
    """A setting of an authentication provider is invalid; the text names it."""

    code = "PYJMS-SETTING"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One attribute that an operator can set."""

    name: str
    type: Any
    """`str`, `int`, `bool` or ``tuple[str, ...]``."""
    default: object
    """The default; None: the attribute is mandatory."""
    is_mandatory: bool
    is_secure: bool
    """Whether it is a secret: encrypted at rest, and never shown."""
    text: str
    """The description, for operators."""
    choices: tuple[str, ...]
    """The allowed values; empty: all of the type."""


def choices_of(settings: type[Any]) -> tuple[Choice, ...]:
    """Return what operators can set of a dataclass of settings, in the order of declaration."""
    types = get_type_hints(settings)
    return tuple(
        Choice(
            name=field.name,
            type=types[field.name],
            default=None if field.default is MISSING else field.default,
            is_mandatory=field.default is MISSING,
            is_secure=field.metadata["is_secure"],
            text=field.metadata["text"],
            choices=field.metadata["choices"],
        )
        for field in fields(settings)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthenticationKind(Generic[_Settings]):
    """One kind of authentication."""

    name: str
    """The name, such as ``user-file``."""
    title: str
    settings: type[_Settings]
    """A frozen dataclass; its fields are the attributes."""
    extra: str
    """The extra that must be installed: ``pip install 'pyjms-messaging[EXTRA]'``."""
    build: Callable[[str, _Settings, Clock], Authenticator]

    @property
    def attributes(self) -> tuple[Choice, ...]:
        """The attributes, in the order of their declaration."""
        return choices_of(self.settings)

    def make(self, name: str, settings: _Settings, clock: Clock) -> Authenticator:
        """Create the authenticator; `name` is that of the provider, in `Principal.provider`. May read files.

        Raises `MissingProviderError` if a package is not installed; another `ProviderError` if a setting or a file is wrong.
        """
        try:
            return self.build(name, settings, clock)
        # `build` imports the modules of the kind, so a missing package is noticed here.
        except ModuleNotFoundError as error:
            raise MissingProviderError(
                f"the authentication {self.name} needs {error.name}; install it with: pip install 'pyjms-messaging[{self.extra}]'"
            ) from error
        except ValueError as error:
            raise SettingError(f"the authentication {self.name}: {error}") from error


def _user_file(name: str, settings: UserFileSettings, clock: Clock) -> Authenticator:
    from pyjms_provider.security import logins, passwords, user_file

    scheme = _one_of(passwords.Scheme, settings.scheme, "scheme")
    for number in ("argon2_memory_kib", "argon2_passes", "argon2_lanes", "attempts", "network_attempts", "concurrent"):
        _at_least(1, settings, number)
    _at_least(4096, settings, "scram_iterations")
    hasher = passwords.PasswordHasher(
        passwords.HashSettings(
            scheme=scheme,
            memory_kib=settings.argon2_memory_kib,
            passes=settings.argon2_passes,
            lanes=settings.argon2_lanes,
            iterations=settings.scram_iterations,
        )
    )
    login = passwords.LoginSettings(
        throttle=logins.ThrottleSettings(
            burst=settings.attempts,
            interval_ms=settings.attempt_interval_ms,
            network_burst=settings.network_attempts,
            network_interval_ms=settings.network_attempt_interval_ms,
        ),
        concurrent=settings.concurrent,
        remembered=settings.remembered,
        remembered_ms=settings.remembered_ms,
    )
    users = user_file.WatchedUserFile(user_file.UserFile(settings.path, hasher=hasher, clock=clock))
    return passwords.PasswordAuthenticator(users, clock, name=name, hasher=hasher, settings=login)


def _certificate(name: str, settings: CertificateSettings, clock: Clock) -> Authenticator:
    from pyjms_provider.security import certificates

    _one_of(certificates.NameFrom, settings.name_from, "name_from")
    return certificates.CertificateAuthenticator(settings, clock, name=name)


def _jwt(name: str, settings: JwtSettings, clock: Clock) -> Authenticator:
    import_module("jwt")
    from pyjms_provider.security.json_web_tokens import JwtAuthenticator

    return JwtAuthenticator(settings, clock, name=name)


def _introspection(name: str, settings: IntrospectionSettings, clock: Clock) -> Authenticator:
    from pyjms_provider.security.oauth2 import IntrospectionAuthenticator

    return IntrospectionAuthenticator(settings, clock, name=name)


def _anonymous(name: str, settings: AnonymousSettings, _clock: Clock) -> Authenticator:
    from pyjms_provider.security.logins import AnonymousAuthenticator

    return AnonymousAuthenticator(name=name, user_name=settings.user_name, groups=frozenset(settings.groups))


def _one_of(choices: type[_Choice], value: str, attribute: str) -> _Choice:
    try:
        return choices(value)
    except ValueError:
        known = ", ".join(str(choice.value) for choice in choices)
        raise SettingError(f"{attribute} is {value!a}, and one of these is expected: {known}") from None


def _at_least(least: int, settings: object, attribute: str) -> None:
    if getattr(settings, attribute) < least:
        raise SettingError(f"{attribute} is {getattr(settings, attribute)}, and at least {least} is expected")


AUTHENTICATION_KINDS: Final[Mapping[str, AuthenticationKind[Any]]] = {
    kind.name: kind
    for kind in (
        AuthenticationKind(
            name="user-file",
            title="Users with passwords in a file (argon2id, SCRAM-SHA-256)",
            settings=UserFileSettings,
            extra="broker",
            build=_user_file,
        ),
        AuthenticationKind(
            name="certificate",
            title="TLS client certificates",
            settings=CertificateSettings,
            extra="broker",
            build=_certificate,
        ),
        AuthenticationKind(
            name="jwt",
            title="OAuth 2 and OpenID Connect: signed tokens",
            settings=JwtSettings,
            extra="oauth2",
            build=_jwt,
        ),
        AuthenticationKind(
            name="introspection",
            title="OAuth 2: tokens that the authorization server is asked about",
            settings=IntrospectionSettings,
            extra="oauth2",
            build=_introspection,
        ),
        AuthenticationKind(
            name="anonymous",
            title="Anybody, without credentials",
            settings=AnonymousSettings,
            extra="broker",
            build=_anonymous,
        ),
    )
}
"""The kinds by name. `CompositeAuthenticator` combines the authenticators of a port."""

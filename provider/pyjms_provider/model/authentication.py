"""Authentication providers: each kind of `security.kinds`, with its settings as attributes.

The table of kinds is the plug: a kind says what can be chosen and how it is made, and a line here makes it a specialisation;
plug-ins call `tree.add_specialisation` with what `provider_of` makes of theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import create_model

from pyjms.spi.errors import ProviderError
from pyjms_provider.model.attributes import Attributes, Secret, attribute
from pyjms_provider.model.children import ChildSource
from pyjms_provider.model.startable import Stoppable
from pyjms_provider.model.users import users_of
from pyjms_provider.security.contracts import Authenticator, Credentials, Principal
from pyjms_provider.security.kinds import AUTHENTICATION_KINDS, AuthenticationKind, Choice
from pyjms_provider.security.private_files import create_private
from pyjms_provider.security.refusals import wrong_credentials
from pyjms_provider.security.settings import UserFileSettings
from pyjms_provider.security.throttle import Forgiving
from pyjms_provider.security.user_file import UserFile

if TYPE_CHECKING:
    from pyjms_provider.model.managed import ManagedObject

__all__ = [
    "AnonymousProvider",
    "AuthenticationProvider",
    "CertificateProvider",
    "IntrospectionProvider",
    "JwtProvider",
    "UserFileProvider",
    "provider_of",
]


_NO_USERS: Final = "# Users of a pyjms broker: name, hash of the password, groups.\n"


class AuthenticationProvider(Stoppable):
    """Tells who somebody is, while it is ACTIVE."""

    category = "authentication_provider"
    kind: AuthenticationKind[Any]

    _authenticator: Authenticator | None = None

    @property
    def authenticator(self) -> Authenticator:
        """What ports ask, however often this one is changed or stopped meanwhile; while it is not ACTIVE it knows nobody."""
        return _Current(self)

    @property
    def current(self) -> Authenticator | None:
        """What its attributes of this moment make; None: it is not ACTIVE."""
        return self._authenticator

    def settings(self, attributes: Attributes) -> Any:
        """Return attributes as the kind's settings."""
        return self.kind.settings(
            **{each.name: _open(getattr(attributes, each.name)) for each in fields(self.kind.settings)}
        )

    def user_file(self, settings: UserFileSettings) -> UserFile:
        """Return the file of users that the settings name."""
        return UserFile(settings.path, clock=self.clock)

    def sources(self) -> Mapping[str, ChildSource]:
        return users_of(self)

    def tell_user_changed(self, user: ManagedObject, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        """Tell listeners of a user that was changed."""
        self._tell(user, lambda listener: listener.attributes_changed(user, old, new))

    def tell_user_removed(self, user: ManagedObject) -> None:
        """Tell listeners of a user that was removed."""
        self._tell(self, lambda listener: listener.child_removed(self, user))

    def _make(self, attributes: Attributes) -> Authenticator:
        try:
            return self.kind.make(self.name, self.settings(attributes), self.clock)
        except ProviderError as error:
            named = next((each.name for each in self.kind.attributes if each.name in error.reason.split()), "")
            raise self._wrong(named, error.reason) from error

    def _on_create(self) -> None:
        settings = self.settings(self.attributes)
        if isinstance(settings, UserFileSettings):
            path = Path(settings.path)
            path.parent.mkdir(parents=True, exist_ok=True)
            create_private(path, _NO_USERS)  # False: the users are there already

    def _on_open(self) -> None:
        self._authenticator = self._make(self.attributes)

    def _on_change(self, old: Attributes, new: Attributes) -> None:
        self._authenticator = self._make(new)

    def _on_stop(self) -> None:
        self._authenticator = None


class _Current(Authenticator):
    """Asks what a provider is now: ports stay open while it is changed, stopped and started."""

    def __init__(self, provider: AuthenticationProvider) -> None:
        self._provider = provider

    def handles(self, credentials: Credentials | None) -> bool:
        found = self._provider.current
        return found is not None and found.handles(credentials)

    def authenticate(self, credentials: Credentials | None, *, peer: str = "") -> Principal:
        found = self._provider.current
        if found is None:  # it was stopped a moment ago
            raise wrong_credentials()
        return found.authenticate(credentials, peer=peer)

    def forgive(self, credentials: Credentials | None, peer: str) -> None:
        """Take back that these were wrong: another authenticator knew them."""
        found: object = self._provider.current
        if isinstance(found, Forgiving):
            found.forgive(credentials, peer)


def _open(value: Any) -> Any:
    return value.get_secret_value() if isinstance(value, Secret) else value


def _field(choice: Choice) -> tuple[Any, Any]:
    kind: Any = choice.type
    if choice.choices:
        kind = Literal[choice.choices]
    if choice.is_secure:
        kind = Secret
    options: dict[str, Any] = {} if choice.is_mandatory else {"default": choice.default}
    return kind, attribute(choice.text, secure=choice.is_secure, **options)


def provider_of(kind: AuthenticationKind[Any]) -> type[AuthenticationProvider]:
    """Return the managed category's specialisation for a kind."""
    title = kind.name.title().replace("-", "")
    declared: dict[str, Any] = {each.name: _field(each) for each in kind.attributes}
    attributes = create_model(f"{title}Attributes", __base__=Attributes, **declared)
    return type(
        f"{title}Provider",
        (AuthenticationProvider,),
        {"attributes_class": attributes, "kind": kind, "__doc__": kind.title, "__module__": __name__},
    )


UserFileProvider: Final = provider_of(AUTHENTICATION_KINDS["user-file"])
CertificateProvider: Final = provider_of(AUTHENTICATION_KINDS["certificate"])
JwtProvider: Final = provider_of(AUTHENTICATION_KINDS["jwt"])
IntrospectionProvider: Final = provider_of(AUTHENTICATION_KINDS["introspection"])
AnonymousProvider: Final = provider_of(AUTHENTICATION_KINDS["anonymous"])

"""Authentication providers: each kind of `security.kinds`, with its settings as attributes; and users that one keeps itself.

The table of kinds is the plug: a kind says what can be chosen and how it is made, and a line here makes it a specialisation;
plug-ins call `tree.add_specialisation` with what `provider_of` makes of theirs. The user file of a provider is the truth: others may
change it, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import create_model

from pyjms.spi.errors import ProviderError
from pyjms_provider.model.attributes import MASK, Attributes, Secret, attribute, resolve
from pyjms_provider.model.configured import Stoppable
from pyjms_provider.model.errors import (
    InvalidAttributesError,
    NotChangeableError,
    ObjectExistsError,
    Problem,
    UnknownObjectError,
)
from pyjms_provider.model.life_cycle import State
from pyjms_provider.model.managed import ChildSource, ManagedObject, Snapshot, observed_id
from pyjms_provider.security.contracts import Authenticator, Credentials, Principal
from pyjms_provider.security.kinds import AUTHENTICATION_KINDS, AuthenticationKind, Choice
from pyjms_provider.security.private_files import create_private
from pyjms_provider.security.refusals import wrong_credentials
from pyjms_provider.security.settings import UserFileSettings
from pyjms_provider.security.throttle import Forgiving
from pyjms_provider.security.user_file import UserError, UserFile
from pyjms_provider.stores.configuration_contract import ObjectRecord


class UserAttributes(Attributes):
    """What can be chosen for a user."""

    password: Secret = attribute("The password. Only its hash is kept.", default=MASK, secure=True)
    groups: list[str] = attribute("The groups that the user is in.", default=[])


class User(ManagedObject):
    """Somebody whom a user file knows."""

    category = "user"
    attributes_class = UserAttributes

    def __init__(self, provider: AuthenticationProvider, source: UserSource, name: str, groups: Sequence[str]) -> None:
        record = ObjectRecord(
            id=observed_id(provider, self.category, name),
            category=self.category,
            parent=provider.id,
            attributes={"name": name, "groups": list(groups), "password": MASK},
        )
        super().__init__(provider, record)
        self._source = source
        shown = UserAttributes.model_validate(dict(record.attributes))
        self._snapshot = Snapshot(state=State.ACTIVE, record=record, attributes=shown)

    def set_attributes(self, changes: Mapping[str, Any], *, by: str = "") -> None:
        self.configuration_thread.call(lambda: self._source.change(self.name, dict(changes)))

    def delete(self, *, by: str = "") -> None:
        self.configuration_thread.call(lambda: self._source.remove(self.name))


class UserSource(ChildSource):
    """The users of one file."""

    def __init__(self, provider: AuthenticationProvider) -> None:
        self._provider = provider

    @property
    def category(self) -> str:
        return "user"

    @property
    def _file(self) -> UserFile:
        settings = self._provider.settings(self._provider.attributes)
        assert isinstance(settings, UserFileSettings)
        return self._provider.user_file(settings)

    def names(self) -> Sequence[str]:
        return sorted(each.name for each in self._file.users())

    def find(self, name: str) -> User | None:
        for each in self._file.users():
            if each.name == name:
                return User(self._provider, self, name, sorted(each.groups))
        return None

    def create(self, attributes: Mapping[str, Any], by: str) -> ManagedObject:
        name = str(attributes.get("name", ""))
        chosen = self._read(attributes, name)
        _check_kept(chosen)
        password = chosen.password.get_secret_value()
        if password == MASK:
            raise _wrong(name, "password", "is mandatory; give it a value")
        if self.find(name) is not None:
            raise ObjectExistsError(f"there is a user {name!r} already; change it, or delete it first")
        self._do(name, lambda: self._file.add(name, password, chosen.groups))
        made = self.find(name)
        assert made is not None, "it was added a moment ago"
        return made

    def change(self, name: str, changes: Mapping[str, Any]) -> None:
        """Change password or groups. Raises `InvalidAttributesError`, `UnknownObjectError`."""
        found = self.find(name)
        if found is None:
            raise UnknownObjectError(f"{self._provider.path} has no user {name!r}")
        known = found.snapshot.record.attributes
        given = {key: value for key, value in changes.items() if value is not None}
        if given.get("name", name) != name:
            raise NotChangeableError(f"user {name}: name cannot be changed; create another user, and delete this one")
        # None is the default again, which is no group; a password has none.
        left = {key: value for key, value in known.items() if key not in changes or key in {"name", "password"}}
        chosen = self._read({**left, **given}, name)
        _check_kept(chosen)
        password = chosen.password.get_secret_value()
        new_password = None if password == MASK else password
        new_groups = chosen.groups if "groups" in changes else None
        self._do(name, lambda: self._file.alter(name, password=new_password, groups=new_groups))
        self._provider.tell_user_changed(found, known, {**known, "groups": sorted(set(chosen.groups))})

    def remove(self, name: str) -> None:
        """Remove a user. Raises `UnknownObjectError`."""
        found = self.find(name)
        if found is None:
            raise UnknownObjectError(f"{self._provider.path} has no user {name!r}")
        self._file.remove(name)
        self._provider.tell_user_removed(found)

    def _read(self, attributes: Mapping[str, Any], name: str) -> UserAttributes:
        found = resolve(UserAttributes, attributes, self._provider.variable, f"user {name}")
        assert isinstance(found, UserAttributes)
        return found

    def _do(self, name: str, change: Any) -> None:
        try:
            change()
        except UserError as error:
            where = "password" if "password" in error.reason else "name" if "name" in error.reason else "groups"
            raise _wrong(name, where, error.reason) from error


def _check_kept(chosen: UserAttributes) -> None:
    """Refuse what would be forgotten: a line of the file has a name, a password and groups. Raises `InvalidAttributesError`."""
    usual = UserAttributes(name=chosen.name)
    for each in ("type", "description", "durable", "context"):
        if getattr(chosen, each) != getattr(usual, each):
            raise _wrong(chosen.name, each, "is not kept of users, who are in a file of their own; leave it out")


def _wrong(name: str, which: str, text: str) -> InvalidAttributesError:
    return InvalidAttributesError(f"user {name}", (Problem(name=which, text=text),))


def users_of(provider: AuthenticationProvider) -> Mapping[str, ChildSource]:
    """Return where a provider's users come from, if it keeps any itself."""
    return {"user": UserSource(provider)} if provider.kind.settings is UserFileSettings else {}


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

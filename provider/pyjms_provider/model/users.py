"""Users whom an authentication provider keeps itself. Its file is the truth: others may change it, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyjms_provider.model.attributes import MASK, Attributes, Secret, attribute, resolve
from pyjms_provider.model.children import ChildSource, observed_id
from pyjms_provider.model.configuration.contract import ObjectRecord
from pyjms_provider.model.errors import (
    InvalidAttributesError,
    NotChangeableError,
    ObjectExistsError,
    Problem,
    UnknownObjectError,
)
from pyjms_provider.model.life_cycle import State
from pyjms_provider.model.managed import ManagedObject, Snapshot
from pyjms_provider.security.settings import UserFileSettings
from pyjms_provider.security.user_file import UserError, UserFile

if TYPE_CHECKING:
    from pyjms_provider.model.authentication import AuthenticationProvider

__all__ = ["User", "UserAttributes", "users_of"]


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

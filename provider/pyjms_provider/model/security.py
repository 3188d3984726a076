"""The security of the broker: key stores, authentication providers, users, access control.

The table of `security.kinds` has the bundled kinds of authentication: a kind declares its settings and its factory, and a line here makes it a
specialisation. Types of other packages become ones by `provider_of` and `access_control_of` (`model.plugins`). The user file of a provider
is authoritative: other programs may change it, too.
"""

from __future__ import annotations

import ssl
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from datetime import UTC
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from cryptography import x509
from pydantic import BaseModel, create_model

from pyjms.spi.errors import ProviderError
from pyjms.spi.registry import PluginError
from pyjms.spi.words import reason_of
from pyjms_provider.model.attributes import MASK, Attributes, ImmutableModel, Secret, attribute, plain, resolve
from pyjms_provider.model.configured import ConfiguredObject, Startable, Stoppable
from pyjms_provider.model.errors import (
    InvalidAttributesError,
    NotChangeableError,
    ObjectExistsError,
    Problem,
    UnknownObjectError,
    WrongStateError,
)
from pyjms_provider.model.managed import ChildSource, ManagedObject, Snapshot, State, observed_id
from pyjms_provider.model.operations import operation, statistic
from pyjms_provider.security.access import Rule, RuleAccessPolicy, RuleError, rules_from_data
from pyjms_provider.security.contracts import (
    AccessPolicy,
    Authenticator,
    Credentials,
    Operation,
    Principal,
    ScramKeys,
    Target,
    TargetKind,
    wrong_credentials,
)
from pyjms_provider.security.kinds import AUTHENTICATION_KINDS, AuthenticationKind, Choice, choices_of
from pyjms_provider.security.logins import Forgiving
from pyjms_provider.security.plugins import AccessControlType, AuthenticationType, CheckedAuthenticator, CheckedPolicy
from pyjms_provider.security.private_files import create_private
from pyjms_provider.security.settings import UserFileSettings
from pyjms_provider.security.user_file import UserError, UserFile
from pyjms_provider.stores.configuration_contract import ObjectRecord
from pyjms_provider.transport.tls import why_unusable

_Made = TypeVar("_Made")


class AccessRule(ImmutableModel):
    """One rule. The first that matches decides; without one, access is denied."""

    effect: str
    """``allow`` or ``deny``."""
    who: str
    """``*``, ``user:NAME`` or ``group:NAME``."""
    operations: list[str] | None = None
    """None: all."""
    kind: str | None = None
    """The kind of target; None: any."""
    name: str | None = None
    """A pattern of targets; None: any."""
    virtual_host: str | None = None
    """A pattern of virtual hosts; None: any."""


class AccessControlAttributes(Attributes):
    """The attributes of access control."""

    rules: list[AccessRule] = attribute("The rules, in their order; without any, nobody may do anything.", default=[])


class Verdict(BaseModel):
    """A decision of access control, with its reason."""

    is_allowed: bool
    reason: str


class AnyAccessControl(Startable):
    """Access control of any type; a change takes effect at once, for open connections too."""

    category = "access_control"

    @property
    @abstractmethod
    def policy(self) -> AccessPolicy:
        """Its access policy; the same object as long as this one lives. While this is not ACTIVE, it allows nothing."""

    @abstractmethod
    def policy_by(self, chosen: Attributes) -> AccessPolicy:
        """Return another policy, which decides as this object's would with these attributes. Raises `InvalidAttributesError`."""


class AccessControl(AnyAccessControl):
    """The broker's rules."""

    attributes_class = AccessControlAttributes

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._policy = RuleAccessPolicy()

    @property
    def policy(self) -> AccessPolicy:
        # One object for life: open connections keep it, and a change of the rules reaches them.
        return self._policy

    def policy_by(self, chosen: Attributes) -> AccessPolicy:
        return RuleAccessPolicy(self.rules_of(chosen))

    def _validate(self, new: Attributes, old: Attributes | None) -> None:
        self.rules_of(new)

    def rules_of(self, chosen: Attributes) -> tuple[Rule, ...]:
        """Return the rules that effective attributes have. Raises `InvalidAttributesError`."""
        assert isinstance(chosen, AccessControlAttributes)
        # Fields that are None stand for any value, and the parser of rules files knows them only by their absence.
        data = [{name: value for name, value in plain(each).items() if value is not None} for each in chosen.rules]
        try:
            return rules_from_data(data, self.path)
        except RuleError as error:
            raise self._wrong("rules", error.reason) from error

    def _on_open(self) -> None:
        self._policy.replace(self.rules_of(self.attributes))

    def _on_change(self, old: Attributes, new: Attributes) -> None:
        self._policy.replace(self.rules_of(new))

    def _on_stop(self) -> None:
        # Without rules nothing is allowed, so that a stopped access control fails closed.
        self._policy.replace(())

    @operation("Tell what a user may do, and which rule decides.", needs=Operation.OBSERVE, changes=False)
    def explain(
        self,
        user: str,
        does: Operation,
        kind: TargetKind,
        name: str,
        virtual_host: str = "",
        groups: list[str] | None = None,
    ) -> Verdict:
        principal = Principal(name=user, groups=frozenset(groups or ()))
        decision = self._policy.explain(principal, does, Target(kind=kind, name=name, virtual_host=virtual_host))
        return Verdict(is_allowed=decision.is_allowed, reason=decision.reason)


class InstalledAccessControl(AnyAccessControl):
    """Access control of a type that a package brings."""

    plugin: AccessControlType

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._policy = CheckedPolicy(self.name)

    @property
    def policy(self) -> AccessPolicy:
        return self._policy

    def policy_by(self, chosen: Attributes) -> AccessPolicy:
        made = CheckedPolicy(self.name)
        made.replace(self._make(chosen))
        return made

    def _make(self, chosen: Attributes) -> AccessPolicy:
        settings = self.plugin.settings
        return made_by_plugin(
            self, lambda: self.plugin.make(self.name, settings_of(settings, chosen), self.clock), AccessPolicy, settings
        )

    def _on_open(self) -> None:
        self._policy.replace(self._make(self.attributes))

    def _on_change(self, old: Attributes, new: Attributes) -> None:
        self._policy.replace(self._make(new))

    def _on_stop(self) -> None:
        self._policy.replace(None)


class KeyStoreAttributes(Attributes):
    """The attributes of a key store."""

    certificate_file: str = attribute(
        "The certificate, followed by those of the authorities between it and the root.", min_length=1
    )
    key_file: str | None = attribute("The private key; none: it stands in the same file.", default=None)
    key_password: Secret | None = attribute("What the key is encrypted with.", default=None, secure=True)


class TrustStoreAttributes(Attributes):
    """The attributes of a trust store."""

    certificate_file: str = attribute("Certificates of the authorities that are trusted.", min_length=1)


def _no_certificates(file: str) -> str:
    return f"{file} has no certificates in PEM form, with BEGIN CERTIFICATE; is it the right file?"


def _beside(file: str) -> str:
    """Return how to write a file so that it is found from any working directory, as of a system service; empty: it is."""
    return "" if Path(file).is_absolute() else f", ${{pyjms.work_dir}}/{file} for one beside its configuration"


class _Certificates(Startable):
    """The common base of key stores and trust stores: a file with certificates."""

    def _read(self, file: str) -> list[x509.Certificate]:
        try:
            found = x509.load_pem_x509_certificates(Path(file).read_bytes())
        except OSError as error:
            text = f"{file} cannot be read: {error.strerror}; name a file that the broker may read{_beside(file)}"
            raise self._wrong("certificate_file", text) from error
        except ValueError as error:
            raise self._wrong("certificate_file", _no_certificates(file)) from error
        if not found:
            raise self._wrong("certificate_file", _no_certificates(file))
        return found

    def _certificates(self) -> list[x509.Certificate]:
        found = self.attributes
        assert isinstance(found, (KeyStoreAttributes, TrustStoreAttributes))
        return self._read(found.certificate_file)

    def _readable(self) -> list[x509.Certificate]:
        """Return the certificates; none if the file can no longer be read: lists of other objects must not fail by that."""
        try:
            return self._certificates()
        except (InvalidAttributesError, WrongStateError):
            # The certificates are read for each list, and a file may have been removed since the store was opened.
            return []

    @statistic("Whose the certificates are; none: the file cannot be read.")
    def subjects(self) -> list[str]:
        return [each.subject.rfc4514_string() for each in self._readable()]

    @statistic(
        "When the first of them is no longer valid, in milliseconds since 1970 UTC; none: the file cannot be read.",
        unit="ms",
    )
    def expires_at_ms(self) -> int | None:
        """When the first of them is no longer valid; None: the file cannot be read."""
        ends = [each.not_valid_after_utc.astimezone(UTC).timestamp() for each in self._readable()]
        # The earliest end counts, as that is the next day on which somebody has to act.
        return int(min(ends) * 1000) if ends else None


class KeyStore(_Certificates):
    """A private key with its certificates."""

    category = "key_store"
    attributes_class = KeyStoreAttributes

    def _validate(self, new: Attributes, old: Attributes | None) -> None:
        assert isinstance(new, KeyStoreAttributes)
        self._read(new.certificate_file)
        password = None if new.key_password is None else new.key_password.get_secret_value()
        # Loaded on trial: only OpenSSL can tell whether key and certificate belong together.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            # A password is always given, also an empty one: without it OpenSSL would ask at the terminal.
            context.load_cert_chain(new.certificate_file, new.key_file, password=lambda: password or "")
        except (OSError, ValueError) as error:
            text = (
                f"{new.key_file or new.certificate_file} cannot be used as the private key of {new.certificate_file}: "
                f"{why_unusable(error)}; it must be PEM, belong to that certificate, and be readable by the broker; "
                f"an encrypted one needs its key_password"
            )
            raise self._wrong("key_file", text) from error


class TrustStore(_Certificates):
    """Certificates of authorities; client certificates that they have issued are trusted."""

    category = "trust_store"
    attributes_class = TrustStoreAttributes

    def _validate(self, new: Attributes, old: Attributes | None) -> None:
        assert isinstance(new, TrustStoreAttributes)
        self._read(new.certificate_file)


class UserAttributes(Attributes):
    """The attributes of a user."""

    password: Secret = attribute("The password. Only its hash is kept.", default=MASK, secure=True)
    groups: list[str] = attribute("The groups that the user is in.", default=[])


class User(ManagedObject):
    """A user in a user file."""

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
        # Made for each use: the file is the truth, and other programs may have changed it.
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
        # MASK is the default of the attribute, so it means that no password was given.
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
        # Without the password, of which the file has only a hash; MASK stands for it.
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
        # None leaves the groups as they are in the file, which another program may have changed since `find`.
        new_groups = chosen.groups if "groups" in changes else None
        self._do(name, lambda: self._file.alter(name, password=new_password, groups=new_groups))
        new = {**known, "groups": sorted(set(chosen.groups))}
        self._provider.tell(found, lambda listener: listener.attributes_changed(found, known, new))

    def remove(self, name: str) -> None:
        """Remove a user. Raises `UnknownObjectError`."""
        found = self.find(name)
        if found is None:
            raise UnknownObjectError(f"{self._provider.path} has no user {name!r}")
        self._file.remove(name)
        self._provider.tell(self._provider, lambda listener: listener.child_removed(self._provider, found))

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
    """Refuse attributes that the file cannot hold: a line has a name, a password and groups. Raises `InvalidAttributesError`."""
    # Compared with the defaults: a form sends all attributes, also those that were left alone.
    usual = UserAttributes(name=chosen.name)
    for each in ("type", "description", "durable", "context"):
        if getattr(chosen, each) != getattr(usual, each):
            raise _wrong(chosen.name, each, "is not kept of users, who are in a file of their own; leave it out")


def _wrong(name: str, which: str, text: str) -> InvalidAttributesError:
    return InvalidAttributesError(f"user {name}", (Problem(name=which, text=text),))


def users_of(provider: AuthenticationProvider) -> Mapping[str, ChildSource]:
    """Return the source of a provider's users, if it has a user file."""
    return {"user": UserSource(provider)} if provider.kind.settings is UserFileSettings else {}


_NO_USERS: Final = "# Users of a pyjms broker: name, hash of the password, groups.\n"


class AuthenticationProvider(Stoppable):
    """Authenticates users while it is ACTIVE."""

    category = "authentication_provider"
    kind: AuthenticationKind[Any]

    _authenticator: Authenticator | None = None

    @property
    def authenticator(self) -> Authenticator:
        """The authenticator for ports, which follows changes and stops of this object; while not ACTIVE it knows no user."""
        # Indirect: a port is opened once, and the provider makes a new authenticator with each change.
        return _Current(self)

    @property
    def current(self) -> Authenticator | None:
        """The authenticator that its present attributes make; None: it is not ACTIVE."""
        return self._authenticator

    def settings(self, attributes: Attributes) -> Any:
        """Return attributes as the kind's settings."""
        return settings_of(self.kind.settings, attributes)

    def user_file(self, settings: UserFileSettings) -> UserFile:
        """Return the file of users that the settings name."""
        return UserFile(settings.path, clock=self.clock)

    def sources(self) -> Mapping[str, ChildSource]:
        return users_of(self)

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
            # A file that is there stays as it is: its users were made by another program, or by an earlier broker.
            create_private(path, _NO_USERS)

    def _on_open(self) -> None:
        self._authenticator = self._make(self.attributes)

    def _on_change(self, old: Attributes, new: Attributes) -> None:
        self._authenticator = self._make(new)

    def _on_stop(self) -> None:
        self._authenticator = None


class _Current(Authenticator):
    """Delegates to the present authenticator of a provider: ports stay open while it is changed, stopped and started."""

    def __init__(self, provider: AuthenticationProvider) -> None:
        self._provider = provider

    def handles(self, credentials: Credentials | None) -> bool:
        found = self._provider.current
        return found is not None and found.handles(credentials)

    @property
    def knows_scram(self) -> bool:
        current = self._provider.current
        return current is not None and current.knows_scram

    def scram_keys(self, user_name: str, *, peer: str = "") -> ScramKeys | None:
        current = self._provider.current
        return None if current is None else current.scram_keys(user_name, peer=peer)

    def authenticate(self, credentials: Credentials | None, *, peer: str = "") -> Principal:
        found = self._provider.current
        if found is None:
            # The provider was stopped after `handles`; the client learns no more than after a wrong password.
            raise wrong_credentials()
        return found.authenticate(credentials, peer=peer)

    def forgive(self, credentials: Credentials | None, peer: str) -> None:
        """Undo the count of a failed attempt: another authenticator has accepted the credentials."""
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


def settings_of(settings: type[Any], attributes: Attributes) -> Any:
    """Return attributes as an object of the dataclass that they were made from."""
    return settings(**{each.name: _open(getattr(attributes, each.name)) for each in fields(settings)})


def made_by_plugin(managed: ConfiguredObject, make: Callable[[], _Made], kind: type[Any], settings: type[Any]) -> _Made:
    """Return what a plug-in makes for an object. Raises `InvalidAttributesError` for a setting that it refuses, and `PluginError` for its own faults."""
    try:
        made = make()
    except (ProviderError, ValueError) as error:
        reason = error.reason if isinstance(error, ProviderError) else str(error)
        named = next((each.name for each in fields(settings) if each.name in reason.split()), "")
        raise InvalidAttributesError(managed.path, (Problem(name=named, text=reason),)) from error
    except Exception as error:
        raise PluginError(
            f"the plug-in for {managed.category} of the type {managed.type!r} has failed: {reason_of(error)}; install another version of the "
            f"package, or tell its author"
        ) from error
    if not isinstance(made, kind):
        raise PluginError(
            f"the plug-in for {managed.category} of the type {managed.type!r} has made a {type(made).__name__} that is no "
            f"{kind.__module__}.{kind.__name__}; install another version of the package, or tell its author"
        )
    return made


def attributes_for(name: str, settings: type[Any], base: type[Attributes] = Attributes) -> type[Attributes]:
    """Return the class of attributes for a dataclass of settings, with those of `base`. Raises `ValueError` for one that `base` has, too."""
    declared: dict[str, Any] = {each.name: _field(each) for each in choices_of(settings)}
    twice = sorted(declared.keys() & base.model_fields.keys())
    if twice:
        raise ValueError(f"the setting {twice[0]!r} has the name of an attribute that every object of the category has")
    # Made from the settings' own declaration, so that a plug-in needs to know nothing of pydantic or of this tree.
    return create_model(f"{_title(name)}Attributes", __base__=base, **declared)


def _title(name: str) -> str:
    return "".join(filter(str.isalnum, name.title()))


def provider_of(kind: AuthenticationKind[Any]) -> type[AuthenticationProvider]:
    """Return the class of managed objects for a kind of authentication."""
    members = {"attributes_class": attributes_for(kind.name, kind.settings), "kind": kind, "__doc__": kind.title}
    return type(f"{_title(kind.name)}Provider", (AuthenticationProvider,), {**members, "__module__": __name__})


def installed_provider_of(name: str, plugin: AuthenticationType) -> type[AuthenticationProvider]:
    """Return the class of managed objects for a type of authentication that a package brings."""

    class InstalledProvider(AuthenticationProvider):
        kind = AuthenticationKind(
            name=name, title=plugin.title, settings=plugin.settings, extra="broker", build=plugin.make
        )
        attributes_class = attributes_for(name, plugin.settings)

        def _make(self, attributes: Attributes) -> Authenticator:
            def make() -> Authenticator:
                return self.kind.build(self.name, self.settings(attributes), self.clock)

            return CheckedAuthenticator(self.name, made_by_plugin(self, make, Authenticator, self.kind.settings))

    InstalledProvider.__doc__ = plugin.title
    return InstalledProvider


def access_control_of(name: str, plugin: AccessControlType) -> type[InstalledAccessControl]:
    """Return the class of managed objects for a type of access control that a package brings."""
    members = {"attributes_class": attributes_for(name, plugin.settings), "plugin": plugin, "__doc__": plugin.title}
    return type(f"{_title(name)}AccessControl", (InstalledAccessControl,), {**members, "__module__": __name__})


UserFileProvider: Final = provider_of(AUTHENTICATION_KINDS["user-file"])
CertificateProvider: Final = provider_of(AUTHENTICATION_KINDS["certificate"])
JwtProvider: Final = provider_of(AUTHENTICATION_KINDS["jwt"])
IntrospectionProvider: Final = provider_of(AUTHENTICATION_KINDS["introspection"])
AnonymousProvider: Final = provider_of(AUTHENTICATION_KINDS["anonymous"])

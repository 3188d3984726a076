"""Authorization of callers: rights on each object, privileges that a change would grant, and lockout protection.

A caller who sets attributes needs the right to what the object will then do: otherwise a queue that sends expired messages to
another one, or a route that empties one, would do for a user what the rules deny them. The check runs on the configuration thread, so
that two concurrent changes do not combine into one that was never checked.

Lockout protection refuses a change that its caller could not undo, unless they force it. It looks at what stands between an operator and the
tree: the rules of their port, the objects to which the port refers, their own groups, and the user file that has their entry. Other ports
or user names by which they could connect are not considered: those may not be theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pyjms.spi.errors import AccessDeniedError, ProviderError
from pyjms_provider.management.errors import LockoutError
from pyjms_provider.model import tree
from pyjms_provider.model.attributes import MASK, Attributes, Reached, declarations, resolve
from pyjms_provider.model.errors import InvalidAttributesError, ObjectInUseError, Problem
from pyjms_provider.model.lookup import find_referred, names_needed
from pyjms_provider.model.port import Port, PortAttributes
from pyjms_provider.model.security import AnyAccessControl, AuthenticationProvider, UserAttributes
from pyjms_provider.security.access import RuleAccessPolicy
from pyjms_provider.security.contracts import Operation, Target, TargetKind
from pyjms_provider.security.settings import UserFileSettings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from pyjms_provider.model.managed import ManagedObject
    from pyjms_provider.security.contracts import AccessPolicy, Principal

STOPPING: Final = frozenset({"stop"})
"""Operations after which an object no longer serves anybody."""

_IN_HOSTS: Final[Mapping[str, TargetKind]] = {
    "queue": TargetKind.QUEUE,
    "dead_letter": TargetKind.QUEUE,
    "topic": TargetKind.TOPIC,
    "subscription": TargetKind.SUBSCRIPTION,
}
"""The kinds of targets of objects below a virtual host; the targets of all other objects are of the kind MANAGED."""


def target_at(category: str, names: Sequence[str]) -> Target:
    """Return the target of an address for access policies; neither the object nor those above it need exist."""
    host = names_needed(category).index("virtual_host") if category in _IN_HOSTS or category == "virtual_host" else 0
    if category == "virtual_host":
        return Target(kind=TargetKind.VIRTUAL_HOST, name=names[host], virtual_host=names[host])
    if category in _IN_HOSTS:
        return Target(kind=_IN_HOSTS[category], name=names[-1], virtual_host=names[host])
    return Target(kind=TargetKind.MANAGED, name="/".join(("broker", category, *names)))


def target_of(parent: ManagedObject, category: str, name: str) -> Target:
    """Return the target of a child for access policies, whether or not it exists."""
    found = parent.find_child(category, name)
    if found is not None:
        return found.target()
    source = parent.sources().get(category)
    known = None if source is None else source.target(name)
    if known is not None:
        return known
    return target_at(category, (*parent.names, name))


def check_not_own_access(principal: Principal, port: UUID | None, managed: ManagedObject) -> None:
    """Refuse to stop or delete an object on which the caller's own access depends, or one that contains it: no one might be able to undo it.

    `port`: the id of the port of the request; None: no port. Raises `ObjectInUseError`.
    """
    _check_itself(principal, port, managed)
    for each in managed.children():
        try:
            check_not_own_access(principal, port, each)
        except ObjectInUseError as error:
            raise ObjectInUseError(
                f"{managed.path} holds what you come in by: {error.reason}; what else it holds can be ended one by one"
            ) from error


def _check_itself(principal: Principal, port: UUID | None, managed: ManagedObject) -> None:
    if managed.id == port:
        raise ObjectInUseError(
            f"{managed.path} is where this request comes in; ask through another port, or restart this one to have changes obeyed"
        )
    if managed.category == "authentication_provider" and managed.name == principal.provider:
        raise ObjectInUseError(
            f"{managed.path} is what vouches for you, {principal.name!r}; have it done by a user of another provider"
        )
    above = managed.parent
    if (
        managed.category == "user"
        and above is not None
        and (above.name, managed.name)
        == (
            principal.provider,
            principal.name,
        )
    ):
        raise ObjectInUseError(f"{managed.path} is you; have another operator do it")


_CATEGORIES: Final = {TargetKind.QUEUE: "queue", TargetKind.TOPIC: "topic"}


def check_new_privileges(
    principal: Principal, access: AccessPolicy, parent: ManagedObject, category: str, given: Mapping[str, Any]
) -> None:
    """Check the privileges of an object that is to be created. Raises `AccessDeniedError`, `InvalidAttributesError`."""
    is_made_there = category in parent.sources()  # without a class, as the type of a queue may be a variable
    type_name = None if is_made_there or given.get("type") is None else str(given["type"])
    _, kind = tree.class_of(category, type_name)
    if _reaches(kind.attributes_class):
        found = effective(kind.attributes_class, parent, category, given)
        _check(principal, access, parent, category, found.name, set(found.reaches()))


def check_changed_privileges(
    principal: Principal, access: AccessPolicy, managed: ManagedObject, changes: Mapping[str, Any]
) -> None:
    """Check the privileges that changed attributes add to an object. Raises `AccessDeniedError`, `InvalidAttributesError`."""
    parent, kind, seen = managed.parent, managed.attributes_class, managed.snapshot
    secrets = [name for name, each in declarations(kind).items() if each.is_secure and seen.record.attributes.get(name)]
    if parent is None or not (secrets or _reaches(kind)):
        return
    merged = {**seen.record.attributes, **changes, "name": managed.name}
    actual = {name: value for name, value in merged.items() if name not in changes or value is not None}
    before = set() if seen.attributes is None else set(seen.attributes.reaches())
    found = effective(kind, parent, managed.category, actual)
    # Only what is new is asked: a caller without the right to what the
    # object does already may change its other attributes.
    _check(principal, access, parent, managed.category, managed.name, set(found.reaches()) - before)
    known = set() if seen.attributes is None else set(seen.attributes.places())
    # Without this check an operator who may not see a secret could have it sent to a server of their own choice.
    if not known.issuperset(found.places()):
        text = "would be sent elsewhere than before; give it anew"
        kept = tuple(Problem(name=name, text=text) for name in secrets if changes.get(name, MASK) == MASK)
        if kept:
            raise InvalidAttributesError(managed.path, kept)


def _reaches(kind: type[Attributes]) -> bool:
    return kind.reaches is not Attributes.reaches


def effective(kind: type[Attributes], parent: ManagedObject, category: str, actual: Mapping[str, Any]) -> Attributes:
    """Return the attributes as the object will have them, without its secrets."""
    known, own, name = declarations(kind), actual.get("context"), str(actual.get("name", ""))

    def variable(wanted: str) -> str | None:
        if wanted == "this:name":
            return name
        if isinstance(own, Mapping) and isinstance(own.get(wanted), str):
            return str(own[wanted])
        return parent.variable_below(wanted, name) if category in parent.sources() else parent.variable(wanted)

    plain = {each: value for each, value in actual.items() if each not in known or not known[each].is_secure}
    return resolve(kind, plain, variable, f"{category} {name}")


def _check(
    principal: Principal, access: AccessPolicy, parent: ManagedObject, category: str, name: str, reached: set[Reached]
) -> None:
    host = name if category == "virtual_host" else parent.target().virtual_host
    # Sorted, so that the same change is refused with the same text each time: a set has no order.
    for operation, kind, other in sorted(reached, key=str):
        access.check(principal, operation, Target(kind=kind, name=other, virtual_host=host))
        below = _CATEGORIES[kind]
        # A destination that is not there would be made at first use, which is
        # the caller's doing and needs their right to create it.
        if category != "virtual_host" and parent.find_child(below, other) is None:
            access.check(principal, Operation.CREATE, target_of(parent, below, other))


_NEEDED = (Operation.OBSERVE, Operation.ADMINISTER)
_FORCE = 'or force it: ?force=true by REST, --force of pyjms manage set, "force": true in a message'


def check_lockout(
    principal: Principal, access: AccessPolicy, port: UUID | None, managed: ManagedObject, changes: Mapping[str, Any]
) -> None:
    """Refuse a change of attributes that the caller could not undo. Raises `LockoutError`.

    `access`: the access policy of their port; `port`: its id; None: no port.
    """
    is_concerned = (
        (isinstance(managed, AnyAccessControl) and managed.policy is access)
        or (isinstance(managed, Port) and managed.id == port)
        or (isinstance(managed, AuthenticationProvider) and managed.name == principal.provider)
        or _is_own_user(principal, managed)
    )
    parent = managed.parent
    if not is_concerned or parent is None:
        return
    merged = {**managed.snapshot.record.attributes, **changes, "name": managed.name}
    actual = {name: value for name, value in merged.items() if name not in changes or value is not None}
    try:
        new = effective(managed.attributes_class, parent, managed.category, actual)
    except InvalidAttributesError:
        return  # the change itself reports the error
    lost = _lost(principal, access, managed, new)
    if lost:
        raise LockoutError(f"{managed.path}: {lost}, so that you could not undo it; leave yourself a way, {_FORCE}")


def _is_own_user(principal: Principal, managed: ManagedObject) -> bool:
    above = managed.parent
    return (
        managed.category == "user"
        and above is not None
        and (above.name, managed.name) == (principal.provider, principal.name)
    )


def _lost(principal: Principal, access: AccessPolicy, managed: ManagedObject, new: Attributes) -> str:
    """Return the reason why the change would lock the caller out; "": it would not."""
    who = principal.name[:200]
    if isinstance(managed, AnyAccessControl):
        # The new rules are asked in a policy of their own, before they are in force.
        if not _may(principal, managed.policy_by(new), managed):
            return f"by these rules {who!r} may not administer it"
    elif isinstance(managed, Port) and isinstance(new, PortAttributes):
        if principal.provider not in new.authentication_providers:
            return f"it would not ask {principal.provider!r}, which vouches for you"
        named = None if new.access_control is None else find_referred(managed, "access_control", new.access_control)
        if not _may(principal, named.policy if isinstance(named, AnyAccessControl) else RuleAccessPolicy(), managed):
            return f"by the rules that it would name {who!r} may not administer it"
    elif isinstance(managed, AuthenticationProvider):
        return _lost_with_provider(principal, access, managed, new)
    elif isinstance(new, UserAttributes) and not _may(
        replace(principal, groups=frozenset(new.groups)), access, managed
    ):
        return f"without those groups {who!r} may not administer it"
    return ""


def _lost_with_provider(
    principal: Principal, access: AccessPolicy, managed: AuthenticationProvider, new: Attributes
) -> str:
    if managed.kind.settings is not UserFileSettings:
        return ""  # users of another system cannot be checked here
    try:
        users = managed.user_file(managed.settings(new)).users()
    except (ProviderError, OSError):
        return f"the file that it would name, {str(getattr(new, 'path', ''))[:200]!r}, cannot be read"
    found = next((each for each in users if each.name == principal.name), None)
    if found is None:
        return "you are not in the file of users that it would name"
    if not _may(replace(principal, groups=frozenset(found.groups)), access, managed):
        return "your groups in the file of users that it would name do not let you administer it"
    return ""


def _may(principal: Principal, access: AccessPolicy, managed: ManagedObject) -> bool:
    try:
        for operation in _NEEDED:
            access.check(principal, operation, managed.target())
    except AccessDeniedError:
        return False
    return True

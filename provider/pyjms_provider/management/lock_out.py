"""Whether who changes something could change it back: nobody shuts the door that they came in by behind them, unless they say so.

What is asked about is what stands between an operator and the tree: the rules that their port goes by, what that port names, their
own groups, and the file of users that knows them. That they could by another port, or another name, is not looked for: it may not be theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyjms.spi.errors import AccessDeniedError, ProviderError
from pyjms_provider.management.errors import LockOutError
from pyjms_provider.management.reach import effective
from pyjms_provider.model.access_control import AccessControl, AccessControlAttributes
from pyjms_provider.model.authentication import AuthenticationProvider, UserAttributes
from pyjms_provider.model.errors import InvalidAttributesError
from pyjms_provider.model.port import Port, PortAttributes
from pyjms_provider.model.references import find_referred
from pyjms_provider.security.access import RuleAccessPolicy
from pyjms_provider.security.contracts import Operation
from pyjms_provider.security.settings import UserFileSettings

if TYPE_CHECKING:
    from uuid import UUID

    from pyjms_provider.model.attributes import Attributes
    from pyjms_provider.model.managed import ManagedObject
    from pyjms_provider.security.contracts import AccessPolicy, Principal

__all__ = ["check_way_back"]

_NEEDED = (Operation.OBSERVE, Operation.ADMINISTER)
_FORCE = 'or force it: ?force=true by REST, --force of pyjms manage set, "force": true in a message'


def check_way_back(
    principal: Principal, access: AccessPolicy, port: UUID | None, managed: ManagedObject, changes: Mapping[str, Any]
) -> None:
    """Refuse a change of attributes after which who asks could not undo it. Raises `LockOutError`.

    `access`: what their port goes by; `port`: its id; None: by none.
    """
    is_concerned = (
        (isinstance(managed, AccessControl) and managed.policy is access)
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
        return  # who changes it says what is wrong
    lost = _lost(principal, access, managed, new)
    if lost:
        raise LockOutError(f"{managed.path}: {lost}, so that you could not undo it; leave yourself a way, {_FORCE}")


def _is_own_user(principal: Principal, managed: ManagedObject) -> bool:
    above = managed.parent
    return (
        managed.category == "user"
        and above is not None
        and (above.name, managed.name) == (principal.provider, principal.name)
    )


def _lost(principal: Principal, access: AccessPolicy, managed: ManagedObject, new: Attributes) -> str:
    """Return by what the change would lock its author out; "": by nothing."""
    who = principal.name[:200]
    if isinstance(managed, AccessControl) and isinstance(new, AccessControlAttributes):
        if not _may(principal, RuleAccessPolicy(managed.rules_of(new)), managed):
            return f"by these rules {who!r} may not administer it"
    elif isinstance(managed, Port) and isinstance(new, PortAttributes):
        if principal.provider not in new.authentication_providers:
            return f"it would not ask {principal.provider!r}, which vouches for you"
        named = None if new.access_control is None else find_referred(managed, "access_control", new.access_control)
        if not _may(principal, named.policy if isinstance(named, AccessControl) else RuleAccessPolicy(), managed):
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
        return ""  # who is known elsewhere cannot be asked for here
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

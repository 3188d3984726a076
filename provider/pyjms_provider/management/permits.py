"""What management asks before it tells or does something, beside what rules say of an object that is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyjms_provider.model.errors import ObjectInUseError
from pyjms_provider.model.lookup import names_needed
from pyjms_provider.security.contracts import Target, TargetKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from pyjms_provider.model.managed import ManagedObject
    from pyjms_provider.security.contracts import Principal

__all__ = ["STOPPING", "check_not_own_way", "target_at", "target_of"]

STOPPING: Final = frozenset({"stop"})
"""Operations after which an object serves nobody."""

_IN_HOSTS: Final[Mapping[str, TargetKind]] = {
    "queue": TargetKind.QUEUE,
    "dead_letter": TargetKind.QUEUE,
    "topic": TargetKind.TOPIC,
    "subscription": TargetKind.SUBSCRIPTION,
}
"""What an access policy is asked about, of what a virtual host has; other objects are managed ones."""


def target_at(category: str, names: Sequence[str]) -> Target:
    """Return what an access policy would be asked about an object at an address where there may be none, nor what it would be below."""
    host = names_needed(category).index("virtual_host") if category in _IN_HOSTS or category == "virtual_host" else 0
    if category == "virtual_host":
        return Target(kind=TargetKind.VIRTUAL_HOST, name=names[host], virtual_host=names[host])
    if category in _IN_HOSTS:
        return Target(kind=_IN_HOSTS[category], name=names[-1], virtual_host=names[host])
    return Target(kind=TargetKind.MANAGED, name="/".join(("broker", category, *names)))


def target_of(parent: ManagedObject, category: str, name: str) -> Target:
    """Return what an access policy is asked about the child of that name, whether or not it is there."""
    found = parent.find_child(category, name)
    if found is not None:
        return found.target()
    source = parent.sources().get(category)
    known = None if source is None else source.target(name)
    if known is not None:
        return known
    return target_at(category, (*parent.names, name))


def check_not_own_way(principal: Principal, port: UUID | None, managed: ManagedObject) -> None:
    """Refuse to stop or delete what somebody comes in by, or what holds it: they could not undo it, and nobody else perhaps.

    `port`: the id of the port by which they ask; None: by none. Raises `ObjectInUseError`.
    """
    _check_itself(principal, port, managed)
    for each in managed.children():
        try:
            check_not_own_way(principal, port, each)
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

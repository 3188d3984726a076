"""Two who change one object: each says which version they have seen, and the second is told instead of overwriting the first.

A version is that of an object's configuration. What is measured moves all the time, and is no part of it; but an object that goes
from revision to revision by itself, as an instance of a workflow does, has a version for each.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyjms_provider.management.errors import ChangedMeanwhileError

if TYPE_CHECKING:
    from pyjms_provider.model.managed import ManagedObject

_T = TypeVar("_T")
ANY: Final = "*"
_LENGTH: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What somebody takes for granted of an object that they want changed."""

    tags: frozenset[str] = frozenset()
    """It has one of these; none: whichever it has."""
    is_new: bool = False
    """There is none yet."""


def read_expected(if_match: str | None, if_none_match: str | None) -> Expected:
    """Return what the two headers of a request say (RFC 9110 §13.1)."""
    tags = frozenset(each.strip() for each in (if_match or "").split(",") if each.strip())
    return Expected(tags=tags, is_new=(if_none_match or "").strip() == ANY)


def tag_of(managed: ManagedObject) -> str:
    """Return the entity tag of an object's configuration."""
    facts = managed.facts()
    configuration = [facts["id"], facts["updated_at_ms"], facts["updated_by"], managed.attribute_values(actual=True)]
    seen = [*configuration, managed.revision_seen]
    text = json.dumps(seen, sort_keys=True, default=str)
    return f'"{hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:_LENGTH]}"'


def while_expected(managed: ManagedObject, expected: Expected, act: Callable[[], _T], *, above: bool = False) -> _T:
    """Do something with an object unless it is another version than expected; nobody changes it in between.

    `above`: it is done by its parent's thread, as deleting is. Raises `ChangedMeanwhileError`.
    """
    if not expected.tags and not expected.is_new:
        return act()

    def checked() -> _T:
        managed.configuration_thread.call(lambda: check_expected(managed, expected))
        return act()

    owner = managed.parent if above and managed.parent is not None else managed
    return owner.configuration_thread.call(checked)


def check_expected(managed: ManagedObject, expected: Expected) -> None:
    """Refuse what is to be done to another version than expected. Raises `ChangedMeanwhileError`."""
    if not expected.tags and not expected.is_new:
        return
    if expected.is_new:
        raise ChangedMeanwhileError(f"{managed.path} is there already, and it was to be created only if it is not")
    if ANY in expected.tags or tag_of(managed) in expected.tags:
        return
    facts: dict[str, Any] = managed.facts()
    who = f" by {facts['updated_by']}" if facts["updated_by"] else ""
    at_ms = facts["updated_at_ms"]
    when = "" if at_ms is None else f" at {datetime.fromtimestamp(at_ms // 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    raise ChangedMeanwhileError(
        f"{managed.path} was changed{who}{when}, after you looked at it, so nothing was done; look at it again, and say "
        f"what you still want changed"
    )

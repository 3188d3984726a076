"""Context variables: ``${foo}`` in an attribute's text stands for a value from the object, its ancestors, or the process.

A value may use other variables. ``$${`` stands for ``${`` itself. Who asks whom is `managed.ManagedObject.variable`; this
module only reads texts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Final

from pyjms_provider.model.errors import (
    BadVariableError,
    CyclicVariableError,
    LongVariableError,
    UnknownVariableError,
)

Lookup = Callable[[str], str | None]
_LOOKUPS_MAX: Final = 10_000
_CHARACTERS_MAX: Final = 1_000_000

DEFAULTS: Final[Mapping[str, str]] = {
    "pyjms.work_dir": "pyjms-data",
    "pyjms.alert.messages": "0",
    "pyjms.alert.bytes": "0",
    "pyjms.alert.age_ms": "0",
    "pyjms.alert.message_bytes": "0",
    "pyjms.alert.repeat_gap_ms": "600000",
}
"""What variables are that nobody has given a value: the folder for everything that a broker keeps; no alerts."""

_BEGIN: Final = "${"
_END: Final = "}"


def process_variable(name: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """Return a variable of the process's environment: `name` as it is, or ``pyjms.stomp.port`` as PYJMS_STOMP_PORT."""
    value = environment.get(name)
    if value is None:
        value = environment.get(name.upper().replace(".", "_").replace("-", "_"))
    return DEFAULTS.get(name) if value is None else value


class Effort:
    """How much replacing one object may take: a few variables of two others each would take longer than anybody lives."""

    def __init__(self) -> None:
        self._lookups = 0
        self._characters = 0

    def note(self, value: str) -> None:
        """Count one value. Raises `LongVariableError`."""
        self._lookups += 1
        self._characters += len(value)
        if self._lookups > _LOOKUPS_MAX or self._characters > _CHARACTERS_MAX:
            raise LongVariableError(
                f"its variables lead to more than {_LOOKUPS_MAX} others, or {_CHARACTERS_MAX} characters; use fewer within others"
            )


def interpolate(text: str, lookup: Lookup, effort: Effort | None = None) -> str:
    """Return `text` with its variables replaced; `effort`: what goes for several texts together.

    Raises `UnknownVariableError`, `CyclicVariableError` (which names the cycle), `LongVariableError`, `BadVariableError`.
    """
    return _expand(text, lookup, (), effort or Effort())


def interpolate_all(value: Any, lookup: Lookup, effort: Effort | None = None) -> Any:
    """Do the same with every text within lists and maps. Raises the same."""
    effort = effort or Effort()
    if isinstance(value, str):
        return interpolate(value, lookup, effort)
    if isinstance(value, Mapping):
        return {key: interpolate_all(inner, lookup, effort) for key, inner in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [interpolate_all(inner, lookup, effort) for inner in value]
    return value


def refers_only(text: str) -> bool:
    """Return whether `text` is one variable and nothing else, so that it tells no secret itself."""
    return text.startswith(_BEGIN) and text.find(_END) == len(text) - 1 and text.count(_BEGIN) == 1


def _expand(text: str, lookup: Lookup, path: tuple[str, ...], effort: Effort) -> str:
    pieces: list[str] = []
    at = 0
    while (begin := text.find(_BEGIN, at)) >= 0:
        if begin > at and text[begin - 1] == "$":
            pieces.append(text[at : begin - 1] + _BEGIN)
            at = begin + len(_BEGIN)
            continue
        end = text.find(_END, begin)
        name = text[begin + len(_BEGIN) : end]
        if end < 0 or not name or _BEGIN in name:
            raise BadVariableError(
                "it has a ${ that is no variable; write ${name}, or $${ for the characters themselves"  # it may be secret
            )
        pieces.append(text[at:begin] + _value(name, lookup, path, effort))
        at = end + len(_END)
    return "".join(pieces) + text[at:]


def _value(name: str, lookup: Lookup, path: tuple[str, ...], effort: Effort) -> str:
    if name in path:
        cycle = " → ".join((*path[path.index(name) :], name))
        raise CyclicVariableError(f"variables lead back to themselves: {cycle}; give one of them a plain value")
    value = lookup(name)
    if value is None:
        raise UnknownVariableError(
            f"there is no variable {name!r}: give it a value in the context of the object or of one above it, in that of "
            f"the system, or in the environment of the process"
        )
    found = _expand(value, lookup, (*path, name), effort)
    effort.note(found)
    return found

"""Reading the column `note`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from pyjms.history.events import Event

_NOTHING: Mapping[str, object] = MappingProxyType({})


def note_of(event: Event) -> Mapping[str, object]:
    """Return the entries of the event's note; none if it has no note, or one that is no JSON object."""
    return _NOTHING if event.note is None else _read(event.note)


@lru_cache(maxsize=4096)
def _read(text: str) -> Mapping[str, object]:
    try:
        found = json.loads(text)
    except ValueError:
        return _NOTHING
    return MappingProxyType(found) if isinstance(found, dict) else _NOTHING

"""Numbers of bytes as people write them: ``200MB``, ``1GiB``."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["read_bytes"]

_UNITS: Final = {"": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


def read_bytes(text: str) -> int | None:
    """Return the number of bytes, None: the text is none. The unit may be left out: it is bytes then."""
    match = re.fullmatch(r"([0-9]{1,19})\s*([a-zA-Z]*)", text)
    unit = None if match is None else _UNITS.get(match[2].lower())
    return None if match is None or unit is None else int(match[1]) * unit

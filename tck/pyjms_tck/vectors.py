"""The data of the suite: the API's members, conversion vectors and selector vectors, from the files in ``data``."""

from __future__ import annotations

import json
import struct
from functools import cache
from importlib import resources
from typing import Any

__all__ = ["load", "value_of_bits"]


@cache
def load(name: str) -> Any:
    """Return the content of ``data/NAME.json``; one copy, not to be changed."""
    return json.loads((resources.files("pyjms_tck") / "data" / f"{name}.json").read_text(encoding="utf-8"))


def value_of_bits(bits: str) -> float:
    """Return the number that has these bits, in hexadecimal: 8 digits for a float, 16 for a double."""
    return float(struct.unpack(">f" if len(bits) == 8 else ">d", bytes.fromhex(bits))[0])

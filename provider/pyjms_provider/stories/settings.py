"""The settings of the stories of a broker's messages."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

DAY_MS: Final = 24 * 60 * 60 * 1000


class StoryLevel(Enum):
    """How much of a message's life is recorded."""

    ALL = "all"
    """Every step of every message."""
    ENDS = "ends"
    """Messages that leave without having been consumed: this costs nothing as long as all are consumed."""
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class StorySettings:
    """Where stories are written, and how long they are kept."""

    level: StoryLevel
    directory: Path
    """Created if need be, for its owner alone."""
    days: int = 7
    """How long they are kept at least, as far as `total_bytes` allows."""
    total_bytes: int = 64_000_000
    properties: tuple[str, ...] = ()
    """Properties of messages whose values are recorded, so that messages can be found by them."""

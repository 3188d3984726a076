"""What the user may choose about a run. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from pyjms.demo.chance import Chance
from pyjms.demo.records import InputError

__all__ = ["Settings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The choices. `workers` counts those of one stage."""

    url: str
    workers: int
    chance: Chance
    store: str | None = None
    """Where the embedded broker keeps its messages, so that a run that was killed can be taken up again; None: nowhere."""

    def __post_init__(self) -> None:
        """Raise `InputError` if the broker is not the embedded one, or its URL names a store, too."""
        if self.store is None:
            return
        base, _, options = self.url.partition("?")
        if not base.startswith("vm:"):
            raise InputError(
                f"--store is for the embedded broker, vm://NAME; {base} keeps its messages where it chooses."
            )
        if "store=" in options:
            raise InputError("The URL of the broker names a store already; leave --store out, or store= in the URL.")

    @property
    def is_kept(self) -> bool:
        """Whether a run outlives its process."""
        return self.store is not None

    @property
    def broker(self) -> str:
        """The URL to connect to."""
        if self.store is None:
            return self.url
        return f"{self.url}{'&' if '?' in self.url else '?'}store={quote(self.store, safe='')}"

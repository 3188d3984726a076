"""What was noted of queues while time went by, as operators see it: alerts, and the last hour."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from pydantic import BaseModel, Field

from pyjms_provider.watching.alerts import Alert, AlertKind
from pyjms_provider.watching.series import STEP_MS

if TYPE_CHECKING:
    from pyjms_provider.watching.series import Past

__all__ = ["AlertView", "PastView", "Since", "alert_views", "past_view"]

Since = Annotated[int, Field(ge=0, description="Only points after this time, in milliseconds since 1970 UTC; 0: all.")]
_DIGITS: Final = 3


class AlertView(BaseModel):
    """One alert that holds."""

    kind: AlertKind
    value: int
    limit: int
    since_ms: int


class PastView(BaseModel):
    """What was noted, the oldest first."""

    step_ms: int
    is_kept: bool
    """False: it is not among the busiest queues, so nothing is noted of it."""
    times_ms: list[int]
    columns: dict[str, list[float | None]]
    """By what was noted, as many values each as there are times; None: nobody knows."""


def alert_views(alerts: tuple[Alert, ...]) -> list[AlertView]:
    """Return alerts as they are shown."""
    return [AlertView(kind=each.kind, value=each.value, limit=each.limit, since_ms=each.since_ms) for each in alerts]


def past_view(past: Past | None) -> PastView:
    """Return a past as it is shown; None: nothing is noted."""
    if past is None:
        return PastView(step_ms=STEP_MS, is_kept=False, times_ms=[], columns={})
    columns = {
        name: [None if value is None else round(value, _DIGITS) for value in values]
        for name, values in past.columns.items()
    }
    return PastView(step_ms=STEP_MS, is_kept=True, times_ms=list(past.times_ms), columns=columns)

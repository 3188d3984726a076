"""The findings of a check, and the report with all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from pyjms.history.events import Event
from pyjms.history.rules import RULES, Verdict
from pyjms.spi.words import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One finding, with the smallest set of events that shows it."""

    rule: str
    verdict: Verdict
    text: str
    mid: str | None
    dest: str | None
    events: tuple[Event, ...]

    def softened(self) -> Finding:
        """Return the finding as a warning, if it is a violation."""
        return replace(self, verdict=Verdict.WARNING) if self.verdict is Verdict.VIOLATION else self


def finding(rule: str, events: Iterable[Event], *, mid: str | None, dest: str | None, **details: object) -> Finding:
    """Return a finding of the rule named `rule`, with its verdict and its text filled in."""
    found = RULES[rule]
    return Finding(
        rule=rule,
        verdict=found.verdict,
        text=found.text.format(mid=mid, dest=dest, **details),
        mid=mid,
        dest=dest,
        events=tuple(events),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All findings about one history, the worst first."""

    findings: tuple[Finding, ...]
    events: int
    """The number of events checked."""

    @property
    def verdict(self) -> Verdict:
        """The worst verdict; information when nothing was found."""
        return max(
            (each.verdict for each in self.findings), key=lambda verdict: verdict.rank, default=Verdict.INFORMATION
        )

    @property
    def violations(self) -> tuple[Finding, ...]:
        """The findings that are impossible in a history that obeys JMS 1.1."""
        return tuple(each for each in self.findings if each.verdict is Verdict.VIOLATION)

    def counts(self) -> dict[str, int]:
        """Return how often each rule was found, the worst first."""
        return dict(Counter(each.rule for each in self.findings))

    def softened(self) -> Report:
        """Return the report with violations lowered to warnings, for a history with missing or disordered events."""
        return replace(self, findings=tuple(each.softened() for each in self.findings))

    def __str__(self) -> str:
        """Return one line for each finding, for people and for failed assertions."""
        if not self.findings:
            return f"nothing found in {counted(self.events, 'event')}"
        return "\n".join(f"{each.verdict.value} {each.rule}: {each.text}" for each in self.findings)

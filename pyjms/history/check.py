"""All checks over one history. Pure: events in, findings out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from pyjms.history.checks.clocks import check_clocks
from pyjms.history.checks.duplicates import check_duplicates
from pyjms.history.checks.endings import check_endings
from pyjms.history.checks.expiry import check_expiry
from pyjms.history.checks.filters import check_filters
from pyjms.history.checks.flags import check_flags
from pyjms.history.checks.holders import check_holders
from pyjms.history.checks.losses import check_losses
from pyjms.history.checks.order import check_order
from pyjms.history.checks.origins import check_origins
from pyjms.history.checks.priorities import check_priorities
from pyjms.history.checks.visibility import check_visibility
from pyjms.history.events import Event, History
from pyjms.history.facts import Facts, Options
from pyjms.history.findings import Finding, Report, finding

CHECKS: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    check_losses,
    check_origins,
    check_duplicates,
    check_holders,
    check_flags,
    check_order,
    check_visibility,
    check_endings,
    check_filters,
    check_expiry,
    check_priorities,
)


def check(
    history: History | Iterable[Event],
    *,
    complete: bool = False,
    expiry_allowance_ms: int = 1000,
    without: Iterable[str] = (),
) -> Report:
    """Judge a history by every rule of `pyjms.history.rules`.

    history: what `read` returns, or events from anywhere, in any order. It must hold all clients of the destinations.
    complete: the run consumed everything in the end, so that what was not consumed is lost.
    expiry_allowance_ms: how much later than its expiration a message may come.
    without: names of rules whose findings are left out.
    """
    whole = history if isinstance(history, History) else History(events=tuple(history))
    facts = Facts(whole.events, Options(complete=complete, expiry_allowance_ms=expiry_allowance_ms))
    left_out = frozenset(without)
    found = [each for judge in CHECKS for each in judge(facts) if each.rule not in left_out]
    stepped = list(check_clocks(whole.events))
    found += () if "clock-stepped" in left_out else stepped
    cut = [finding("cut-off", (), mid=None, dest=None, pid=pid) for pid in whole.cut_off]
    found.sort(key=lambda each: (-each.verdict.rank, each.events[-1].t0))
    report = Report(findings=(*found, *cut), events=facts.events)
    return report.softened() if cut or stepped else report

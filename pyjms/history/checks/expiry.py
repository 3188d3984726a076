"""Expired messages should not be delivered (JMS 1.1 §3.4.9 does not promise it), and others not expire."""

from __future__ import annotations

from collections.abc import Iterator

from pyjms.history.facts import Facts
from pyjms.history.findings import Finding, finding

_NS_PER_MS = 1_000_000


def check_expiry(facts: Facts) -> Iterator[Finding]:
    """Yield deliveries that began after the message had expired, and expiries before it had, by more than the allowance."""
    for event in facts.expired_early:
        early_ms = facts.early_ns(event) // _NS_PER_MS + facts.options.expiry_allowance_ms
        yield finding("expired-early", [event], mid=event.mid, dest=event.dest, early_ms=early_ms)
    for event in facts.deliveries:
        sent = facts.sent(event.mid)
        if not event.exp:
            continue
        allowance_ns = facts.options.expiry_allowance_ms * _NS_PER_MS
        if sent is not None:
            allowance_ns += facts.allowance_ns(sent.node, event.node)
        late_ns = event.t0 - event.exp * _NS_PER_MS
        if late_ns > allowance_ns:
            yield finding("after-expiry", [event], mid=event.mid, dest=event.dest, late_ms=late_ns // _NS_PER_MS)

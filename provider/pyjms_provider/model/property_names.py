"""Which properties an operator may give a message: those that a client may, by the same rules (JMS 1.1 §3.5.1, §3.5.9, §3.5.10).

What the broker itself says in properties it believes later: a replay sends a dead letter to where its properties say that it came
from. So who may write to one queue must not say it for themselves.
"""

from __future__ import annotations

from typing import Final

from pyjms.spi.selector.identifiers import is_identifier
from pyjms_provider.core.host.admission import DELIVER_AT
from pyjms_provider.core.queue.duplicates import DUPLICATE_ID

__all__ = ["CLIENT_JMSX", "why_not_settable"]

CLIENT_JMSX: Final = {"JMSXGroupID": ("string", str), "JMSXGroupSeq": ("int", int)}
"""The JMSX properties that clients set, with their type, as it is written and as it is stored."""
_OF_THE_BROKER: Final = "JMS_pyjms"
_SETTABLE: Final = frozenset({DELIVER_AT, DUPLICATE_ID})


def why_not_settable(name: str) -> str:
    """Return why a message cannot be given a property of that name; "": it can."""
    if not is_identifier(name):
        return "is no name of a property: an identifier, and no reserved word of selectors (JMS 1.1 §3.5.1, §3.8.1.1)"
    if not name.startswith("JMS") or name in CLIENT_JMSX or name in _SETTABLE:
        return ""
    if name.startswith("JMSX"):
        return f"is set by the broker; of the JMSX names senders set {' and '.join(CLIENT_JMSX)} (JMS 1.1 §3.5.9)"
    if name.startswith(_OF_THE_BROKER):
        return f"is set by the broker; of these senders set {' and '.join(sorted(_SETTABLE))} (JMS 1.1 §3.5.10)"
    return "" if name.startswith("JMS_") else "is no name of a property: JMS reserves it (JMS 1.1 §3.8.1.1)"

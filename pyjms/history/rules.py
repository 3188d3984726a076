"""The rules for histories: names, verdicts and texts, as data. Every checker of histories uses these.

A verdict is a *violation* when no history that obeys JMS 1.1 can contain it, a *warning* when the specification allows
happen but a good provider avoids it, and *information* otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType


class Verdict(Enum):
    """The severity of a finding."""

    INFORMATION = "information"
    WARNING = "warning"
    VIOLATION = "violation"

    @property
    def rank(self) -> int:
        """0, 1 or 2: higher is worse."""
        return _RANKS[self]


_RANKS = {Verdict.INFORMATION: 0, Verdict.WARNING: 1, Verdict.VIOLATION: 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One kind of finding in a history."""

    name: str
    verdict: Verdict
    statement: str
    """The finding, in general."""
    text: str
    """The finding, in particular: ``str.format`` with `mid`, `dest` and the details of the check."""
    section: str
    """The section of JMS 1.1 for it; "" if there is none."""


def _table(*rules: Rule) -> Mapping[str, Rule]:
    return MappingProxyType({rule.name: rule for rule in rules})


RULES: Mapping[str, Rule] = _table(
    Rule(
        name="lost",
        verdict=Verdict.VIOLATION,
        statement="A PERSISTENT message was sent or committed for sure, and is gone without having been consumed.",
        text="{mid} was sent to {dest} for sure and never consumed; {why}",
        section="4.7, 4.10, 6.12",
    ),
    Rule(
        name="lost-nonpersistent",
        verdict=Verdict.WARNING,
        statement="A NON_PERSISTENT message is gone though no broker is known to have failed.",
        text="{mid} (NON_PERSISTENT) was sent to {dest} for sure and never consumed, though no broker failed; {why}",
        section="4.7",
    ),
    Rule(
        name="unaccounted",
        verdict=Verdict.WARNING,
        statement="Messages were neither consumed nor looked for at the end: lost, or still there.",
        text="{number} of the messages sent to {dest} were neither consumed nor seen at the end, {mid} among them; "
        "browse the queue, or consume all, at the end of a run",
        section="",
    ),
    Rule(
        name="phantom",
        verdict=Verdict.VIOLATION,
        statement="A message was delivered that nobody sent.",
        text="{mid} was delivered from {dest}, but nobody sent it",
        section="4.10",
    ),
    Rule(
        name="before-send",
        verdict=Verdict.VIOLATION,
        statement="A message was delivered before its send had begun.",
        text="{mid} was delivered from {dest} before its send had begun",
        section="4.10",
    ),
    Rule(
        name="refused-but-delivered",
        verdict=Verdict.WARNING,
        statement="A message was delivered though its send had failed.",
        text="{mid} was delivered from {dest}, though its send was refused",
        section="",
    ),
    Rule(
        name="corrupt",
        verdict=Verdict.VIOLATION,
        statement="A message was delivered with another content than it was sent with.",
        text="{mid} was delivered from {dest} with another content than it was sent with",
        section="3.10",
    ),
    Rule(
        name="moved",
        verdict=Verdict.INFORMATION,
        statement="A message was seen at another destination than it was sent to, as dead letters are.",
        text="{mid} was sent to {sent_to} and seen at {dest}",
        section="",
    ),
    Rule(
        name="duplicated",
        verdict=Verdict.VIOLATION,
        statement="One queue or subscription gave a message out twice, and both were acknowledged for sure.",
        text="{mid} was acknowledged twice on {dest}: it was consumed twice",
        section="4.4.11, 4.10",
    ),
    Rule(
        name="delivered-after-ack",
        verdict=Verdict.VIOLATION,
        statement="A message was delivered again after its acknowledgement had returned.",
        text="{mid} was delivered again from {dest} after its acknowledgement had returned",
        section="4.4.11",
    ),
    Rule(
        name="two-holders",
        verdict=Verdict.VIOLATION,
        statement="A message was delivered while another delivery of it was surely held.",
        text="{mid} was delivered from {dest} to {second} while {first} held it",
        section="4.4.11, 5.8",
    ),
    Rule(
        name="redelivered-without-flag",
        verdict=Verdict.VIOLATION,
        statement="A message was delivered a second time without JMSRedelivered.",
        text="{mid} was delivered again from {dest} without JMSRedelivered",
        section="3.4.7, 4.4.11",
    ),
    Rule(
        name="flag-without-delivery",
        verdict=Verdict.INFORMATION,
        statement="A message came with JMSRedelivered though no earlier delivery was recorded.",
        text="{mid} came from {dest} with JMSRedelivered; no earlier delivery was recorded",
        section="3.4.7",
    ),
    Rule(
        name="reordered",
        verdict=Verdict.VIOLATION,
        statement="Messages of one session, destination, priority and delivery mode reached a consumer out of order.",
        text="{mid} reached {consumer} from {dest} after {later}, which its session sent later",
        section="4.4.10",
    ),
    Rule(
        name="reordered-shared",
        verdict=Verdict.WARNING,
        statement="The same, but the queue or shared subscription had another consumer meanwhile, which may have held the message.",
        text="{mid} reached {consumer} from {dest} after {later}, which its session sent later; it had another "
        "consumer meanwhile",
        section="4.4.10, 5.8",
    ),
    Rule(
        name="after-expiry",
        verdict=Verdict.WARNING,
        statement="A message was delivered after it had expired; providers should avoid it.",
        text="{mid} was delivered from {dest} {late_ms} ms after it had expired",
        section="3.4.9",
    ),
    Rule(
        name="expired-early",
        verdict=Verdict.WARNING,
        statement="A provider let go of a message as expired before its time was over.",
        text="{mid} was let go of as expired at {dest}, {early_ms} ms before its time was over",
        section="3.4.9",
    ),
    Rule(
        name="uncommitted-visible",
        verdict=Verdict.VIOLATION,
        statement="A message was seen before the commit of its transaction had begun.",
        text="{mid} was seen at {dest} before the commit of its transaction began",
        section="4.4.7",
    ),
    Rule(
        name="rolled-back-visible",
        verdict=Verdict.VIOLATION,
        statement="A message was seen whose transaction was not committed.",
        text="{mid} was seen at {dest}, but its transaction was never committed",
        section="4.4.7",
    ),
    Rule(
        name="priority",
        verdict=Verdict.INFORMATION,
        statement="A message of lower priority overtook one of higher priority that was there already.",
        text="{mid} of priority {high} came from {dest} after {later} of priority {low}, though it was there before",
        section="3.4.10",
    ),
    Rule(
        name="after-close",
        verdict=Verdict.VIOLATION,
        statement="A message was delivered after its consumer, session or connection had closed.",
        text="{mid} was delivered from {dest} to {consumer}, which had closed",
        section="4.3.5, 4.4.1, 4.5",
    ),
    Rule(
        name="after-unsubscribe",
        verdict=Verdict.VIOLATION,
        statement="A message was delivered from a durable subscription that had been deleted.",
        text="{mid} was delivered from {dest} by a subscription that had been deleted",
        section="6.11.1",
    ),
    Rule(
        name="no-local",
        verdict=Verdict.VIOLATION,
        statement="A subscription that leaves out its own connection's messages delivered one.",
        text="{mid} was delivered from {dest} to the connection that sent it, in spite of no_local",
        section="6.11",
    ),
    Rule(
        name="selector",
        verdict=Verdict.VIOLATION,
        statement="A message was delivered that the consumer's selector does not match.",
        text="{mid} was delivered from {dest}, but does not match the selector {selector}",
        section="3.8",
    ),
    Rule(
        name="without-id",
        verdict=Verdict.INFORMATION,
        statement="Messages without an id were delivered; nothing can be checked about them.",
        text="{number} deliveries from {dest} have no message id: they are not checked",
        section="3.4.3",
    ),
    Rule(
        name="cut-off",
        verdict=Verdict.INFORMATION,
        statement="A buffered recording ended without being closed, so that its last moments are missing.",
        text="the recording of process {pid} was cut off: its last moments are missing, so that violations are reported "
        "as warnings; record synchronously what is to be killed",
        section="",
    ),
    Rule(
        name="clock-stepped",
        verdict=Verdict.INFORMATION,
        statement="A machine's clock was set back while it recorded, so that what came later seems to be earlier.",
        text="the clock of {node} was set back by {back_ms} ms while it recorded: what came later may seem to be earlier, so "
        "that violations are reported as warnings",
        section="",
    ),
)

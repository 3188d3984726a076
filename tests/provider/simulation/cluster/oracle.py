"""Judges what clients of a cluster are told, and what its members deliver. It knows calls and their outcomes alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from tests.provider.simulation.oracle import ViolationError

__all__ = ["ClusterOracle", "Fate", "Message", "Unit", "ViolationError"]


class Fate(Enum):
    """What is known of a step."""

    OPEN = "it is under way, and counts only once its transaction is committed"
    MAYBE = "it was asked for, and nobody knows whether it was done"
    YES = "it was done"
    NO = "it was not done"


@dataclass(eq=False)
class Unit:
    """A transaction."""

    name: str
    fate: Fate = Fate.OPEN
    sent: list[Message] = field(default_factory=list)
    taken: list[tuple[Message, int]] = field(default_factory=list)
    """With the number of the delivery that was taken."""
    evidence: str = ""
    """What has shown its outcome."""


@dataclass(eq=False)
class Message:
    """A message of a client."""

    text: str
    queue: str
    unit: Unit | None
    sent: Fate
    taken: Fate = Fate.NO
    taker: Unit | None = None
    deliveries: int = 0
    """How often clients have got it."""
    handed_out: int = 0
    """How often a leader has handed it out; to subscriptions that are not durable, not counted."""
    is_heard: bool = False
    """Whether such a subscription was given it."""


class ClusterOracle:
    """All messages and transactions of one world."""

    def __init__(self) -> None:
        self.messages: dict[str, Message] = {}
        self.units: list[Unit] = []

    # Sending

    def sending(self, text: str, queue: str, unit: Unit | None) -> Message:
        """Note that a message is about to be sent."""
        found = self.messages[text] = Message(text, queue, unit, Fate.OPEN if unit else Fate.MAYBE)
        if unit is not None:
            unit.sent.append(found)
        return found

    def sent(self, message: Message, fate: Fate) -> None:
        """Note what the client was told. Raises `ViolationError`."""
        if fate is Fate.NO and (message.handed_out or message.is_heard):
            raise ViolationError(f"phantom: the send of {message.text} has failed, and it was delivered")
        message.sent = fate

    # Receiving

    def delivered(self, text: str, queue: str, *, is_flagged: bool) -> Message:
        """Judge that a leader hands a message out. Raises `ViolationError`."""
        message = self.messages.get(text)
        if message is None or message.queue != queue or message.sent is Fate.NO:
            raise ViolationError(f"phantom: {text} came from {queue}, and was never sent there")
        if message.unit is not None:
            self.shown(message.unit, is_committed=True, why=f"{text} was delivered")
        if message.taken is Fate.YES:
            raise ViolationError(f"duplicated: {text} was acknowledged, and came again")
        if message.taker is not None:
            self.shown(message.taker, is_committed=False, why=f"{text} came again")
        if message.deliveries and not is_flagged:
            raise ViolationError(f"not flagged: {text} came again")
        message.handed_out += 1
        message.taken, message.taker = Fate.NO, None
        return message

    def heard(self, text: str, before: set[str], *, is_flagged: bool) -> None:
        """Judge that a leader hands a message to a subscription that is not durable, with all that it got before. Raises `ViolationError`."""
        message = self.messages.get(text)
        if message is None or message.sent is Fate.NO:
            raise ViolationError(f"phantom: {text} came from a topic, and was never sent there")
        if message.unit is not None:
            self.shown(message.unit, is_committed=True, why=f"{text} was delivered")
        if text in before and not is_flagged:
            raise ViolationError(f"not flagged: {text} came to a consumer again")
        before.add(text)
        message.is_heard = True

    def got(self, text: str) -> Message:
        """Note that a client has got a message."""
        message = self.messages[text]
        message.deliveries += 1
        return message

    def acknowledged(self, message: Message, number: int, fate: Fate) -> None:
        """Note the outcome of an acknowledgement of the delivery with that number. Raises `ViolationError`."""
        if message.handed_out != number:
            if fate is Fate.YES:
                raise ViolationError(f"duplicated: {message.text} is acknowledged, and has come again before")
            return
        message.taken = fate

    # Transactions

    def begin(self) -> Unit:
        """Note a transaction."""
        unit = Unit(f"unit {len(self.units) + 1}")
        self.units.append(unit)
        return unit

    def take(self, unit: Unit, message: Message, number: int) -> None:
        """Note that a transaction acknowledges a message."""
        unit.taken.append((message, number))
        if message.handed_out == number:
            message.taker = unit

    def ended(self, unit: Unit, fate: Fate) -> None:
        """Note what the client was told of the commit. Raises `ViolationError`."""
        known = unit.evidence
        if fate is not Fate.MAYBE and unit.fate in (Fate.YES, Fate.NO) and unit.fate is not fate:
            raise ViolationError(f"torn: {unit.name} ends as {fate.name}, and {known}")
        if fate is Fate.YES and any(message.handed_out != number for message, number in unit.taken):
            raise ViolationError(f"torn: {unit.name} is committed, and something that it took has come again")
        if unit.fate not in (Fate.YES, Fate.NO):
            unit.fate = fate
        self._settle(unit)

    def shown(self, unit: Unit, *, is_committed: bool, why: str) -> None:
        """Judge something that shows the outcome of a transaction. Raises `ViolationError`."""
        if unit.fate is Fate.OPEN:
            if is_committed:
                raise ViolationError(f"uncommitted visible: {why}, and {unit.name} is not committed")
            return  # the next commit must fail, as `ended` checks
        fate = Fate.YES if is_committed else Fate.NO
        if unit.fate is not Fate.MAYBE and unit.fate is not fate:
            raise ViolationError(
                f"torn: {why}, and {unit.name} is {unit.fate.name}: {unit.evidence or 'so it was told'}"
            )
        unit.fate, unit.evidence = fate, unit.evidence or why
        self._settle(unit)

    @staticmethod
    def _settle(unit: Unit) -> None:
        for message in unit.sent:
            message.sent = unit.fate
        if unit.fate in (Fate.YES, Fate.NO):
            for message, number in unit.taken:
                if message.taker is unit and message.handed_out == number:
                    message.taken, message.taker = unit.fate, None

    def decide(self, unit: Unit, fate: Fate, why: str) -> None:
        """Note what the coordinator of a distributed transaction has decided: it has that effect in the end, and no other one. Raises `ViolationError`."""
        unit.evidence = unit.evidence or why
        self.ended(unit, fate)

    # The end

    def finally_drained(self, found: Iterable[str]) -> None:
        """Judge the end, when all that was left has been received. Raises `ViolationError`."""
        for message in self.messages.values():
            is_taken = message.taken in (Fate.YES, Fate.MAYBE)
            if message.sent is Fate.YES and not is_taken and message.taker is None and message.text not in found:
                raise ViolationError(f"lost: {message.text} of {message.queue}")
        for unit in self.units:
            self._judge(unit)

    def _judge(self, unit: Unit) -> None:
        is_seen = [message.text for message in unit.sent if message.handed_out]
        came_back = [message.text for message, number in unit.taken if message.handed_out != number]
        if is_seen and len(is_seen) < len(unit.sent):
            raise ViolationError(f"torn: of what {unit.name} sent, only {is_seen} came")
        if came_back and len(came_back) < len(unit.taken):
            raise ViolationError(f"torn: of what {unit.name} took, only {came_back} came again")
        if unit.sent and unit.taken and bool(is_seen) is bool(came_back):
            raise ViolationError(f"torn: {unit.name} sent {is_seen}, and {came_back} of what it took came again")
        if unit.fate is Fate.NO and unit.taken and not came_back:
            raise ViolationError(f"lost: {unit.name} was rolled back, and nothing that it took came again")
        if unit.fate is Fate.YES and unit.sent and not is_seen:
            raise ViolationError(f"lost: {unit.name} is committed, and nothing that it sent came")

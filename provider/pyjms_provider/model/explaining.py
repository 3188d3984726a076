"""Why messages match a selector, or why not, as operators see it: the value of each clause, and which of them decided."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from pyjms_provider.model.messages import TypedValue, view_value

if TYPE_CHECKING:
    from pyjms.spi.envelope import Envelope
    from pyjms.spi.selector import Selector
    from pyjms.spi.selector.explain import Explanation


class ClauseView(BaseModel):
    """A clause of a selector with its value for one message (JMS 1.1 §3.8.1.2)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str
    """As it stands in the selector."""
    value: bool | None
    """None: unknown."""
    decides: bool
    """Whether it is one of the smallest clauses that made the whole what it is."""
    reads: dict[str, TypedValue]
    """The names that it reads, with their values."""
    clauses: list[ClauseView]
    """What AND, OR or NOT combine."""


class ExplainedMessage(BaseModel):
    """What a selector says of one message."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    message_id: str | None
    matches: bool
    explanation: ClauseView


def explain_message(selector: Selector, envelope: Envelope) -> ExplainedMessage:
    """Return what the selector says of the message."""
    found = selector.explain(envelope)
    deciding = frozenset(id(clause) for clause in found.deciding)
    return ExplainedMessage(
        message_id=envelope.message_id, matches=found.value is True, explanation=_view(found, deciding)
    )


def _view(clause: Explanation, deciding: frozenset[int]) -> ClauseView:
    return ClauseView(
        text=clause.text,
        value=clause.value,
        decides=id(clause) in deciding,
        reads={name: view_value(value) for name, value in clause.read},
        clauses=[_view(inner, deciding) for inner in clause.clauses],
    )

"""What a rule makes of a message: its transformers, one after the other. Whatever they do, it is told as one error."""

from __future__ import annotations

from pyjms.routing.rules import Rule
from pyjms.routing.transformers import TransformerError
from pyjms.spi.envelope import Envelope
from pyjms.spi.words import reason_of


def transformed(rule: Rule, envelope: Envelope) -> Envelope:
    """Return what the transformers of a rule make of a message. Raises `TransformerError`, which names the rule and the transformer."""
    for transform in rule.transforms:
        try:
            made = transform.apply(envelope)
        except Exception as error:  # whatever a body brings it to, the next message is another one
            why = str(error) if isinstance(error, TransformerError) else reason_of(error)
            raise TransformerError(f"{rule.name}: the transformer {transform.use} failed: {why}") from error
        if not isinstance(made, Envelope):
            raise TransformerError(
                f"{rule.name}: the transformer {transform.use} failed: it returned {type(made).__name__}, no Envelope"
            )
        envelope = made
    return envelope

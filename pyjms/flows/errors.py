"""What may go wrong with workflows beyond what JMS names."""

from __future__ import annotations

from pyjms.errors import IllegalArgumentException, JMSException


class FlowException(JMSException):
    """A workflow cannot do what it was asked to."""


class FlowStoreException(FlowException):
    """The database of the store does not do what it should; nothing was changed."""


class UnknownInstanceException(FlowException):
    """There is no such instance."""


class FlowDefinitionException(IllegalArgumentException):
    """A definition is wrong; the text names the place and what to write there."""


class StepRefused(Exception):
    """Raised by a step's work: it cannot be done, and trying again will not help. What was done before is compensated."""
